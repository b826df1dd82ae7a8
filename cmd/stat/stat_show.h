/* SPDX-License-Identifier: BSD-2-Clause */
/* What commands share that show reports of processes: their options, and JSON. */
#pragma once

#include <stdbool.h>

#include "cmd/stat/stat_client.h"

struct stat_args {
	long pid; /* 0: all */
	double watch_s;
	bool is_json, is_watching;
};

struct stat_command {
	const char *name, *help;
	const char *service; /* STAT_COUNTERS and so on */
	const char *absent;  /* what a process is that has none */
	const char *nothing; /* what is said if no process has one */
	void (*print)(const struct stat_report *r);
	void (*json)(const struct stat_report *r);
	/* All processes; the exit status. NULL: each as one is shown. */
	int (*show_all)(const struct stat_args *args);
};

/* Reads [--json] [--watch SECONDS] [PID], and shows once or again and again. */
int stat_show(int argc, char **argv, const struct stat_command *c);

void stat_json_string(const char *text);
void stat_json_fields(const struct stat_line *l);

/* A field with the lines of one kind. */
void stat_json_lines(const struct stat_report *r, const char *what, const char *name);
