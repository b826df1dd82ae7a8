/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child process: started, listened to, and gone after a bounded time. It ends with its parent,
 * however that ends.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	int output; /* where its stdout and stderr come out; -1: nowhere */
};

/* Now, by the clock that deadlines are of. */
uint64_t child_clock_ns(void);

/*
 * Runs the program argv[0], found by PATH, with the environment of the bench and the settings
 * ("NAME=value"). Both lists end with NULL. 0 or negative errno: -ENOENT, there is no such program.
 */
int child_exec(struct child *c, const char *const *argv, const char *const *settings);

/* Runs a function, whose result is the exit status. 0 or negative errno. */
int child_fork(struct child *c, int (*run)(void *context), void *context);

/*
 * Waits for the end of the child and collects the first bytes of its output, terminated. Returns
 * its exit status, or negative: -ETIMEDOUT, it was killed at the deadline; -EINTR, a signal ended
 * it.
 */
int child_finish(struct child *c, uint64_t deadline_ns, char *text, size_t text_bytes);

/* Ends the child now. */
void child_kill(struct child *c);
