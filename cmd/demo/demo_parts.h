/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a demonstration is made of: a folder that goes with it, and processes of this program that
 * end with it, however it ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEMO_PATH = 256, DEMO_FILES = 24, DEMO_NAME = 32, DEMO_LINE = 512, DEMO_ARGS = 16 };

struct demo_folder {
	char path[DEMO_PATH];
	char names[DEMO_FILES][DEMO_NAME]; /* of what is in it */
	int count;
};

/* False: errno says why. */
bool demo_folder_make(struct demo_folder *f);

/* With the files that were named. */
void demo_folder_remove(struct demo_folder *f);

/* A file of this name in there, which a role may make, will be removed. */
void demo_folder_note(struct demo_folder *f, const char *name);

/* The path of a file in there, which will be removed. */
void demo_folder_path(struct demo_folder *f, const char *name, char path[DEMO_PATH]);

/* A text file that only this user may write. False: errno says why. */
bool demo_folder_write(struct demo_folder *f, const char *name, const char *text);

/* A process; unused ends of pipes are -1. */
struct demo_child {
	pid_t pid; /* 0: there is none */
	int in, out, err;
	int status; /* once it has ended: as a shell has it */
};

/* From now on SIGINT, SIGTERM and SIGHUP are asked for, instead of ending this process. */
void demo_signals_take(void);
bool demo_is_interrupted(void);

/*
 * A program of others, found in PATH, with these words; its output is this process's. Its exit
 * status, or 127.
 */
int demo_run_other(char *const words[]);

/* fork(); the child dies with this process. */
pid_t demo_fork(void);

/* Ends a child of demo_fork(). */
void demo_kill(pid_t child);

/* This program with these arguments, the last NULL. It dies with this process. */
bool demo_start(struct demo_child *c, const char *const args[DEMO_ARGS]);

/* Sends the signal, if it is not 0, and waits, for so long; then it is killed. Its exit status. */
int demo_end(struct demo_child *c, int signal, int seconds);
void demo_close(int *end);

/* The next line of its output that contains the text. False: it did not come in time. */
bool demo_await_line(const struct demo_child *c, const char *text, char line[DEMO_LINE]);

/* What it said on stderr, in one line. */
void demo_complaint(const struct demo_child *c, char line[DEMO_LINE]);

/* The last line of a file that contains the text; it is waited for. */
bool demo_await_in_file(const char *path, const char *text, char line[DEMO_LINE]);

/* Bytes that are different everywhere. */
void demo_pattern(uint64_t offset, uint8_t *bytes, size_t length);
