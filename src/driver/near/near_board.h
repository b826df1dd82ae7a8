/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of boards and marks (near/board.h), and that of the processes that show them. */
#pragma once

#include <sys/types.h>

#include "near/board.h"

/* False: there is none, for lack of memory or descriptors, or as the kernel is too old. */
bool near_shown_open(struct near_shown *s, enum weft_policy policy, int thread_number);
void near_shown_close(struct near_shown *s);

/* In a child of fork(), which has not mapped it. */
void near_shown_abandon(struct near_shown *s);

/*
 * Maps the memory of these descriptors, which it leaves open, if the kernel lets us access that
 * of the process. False: it does not. The process is accessed by the number of its thread: when it
 * executes another program that number is gone before its memory changes (docs/near.md).
 */
bool near_seen_open(struct near_seen *s, const int fds[2], pid_t pid);
void near_seen_close(struct near_seen *s);

/* Reads or writes memory of its process. 0, or an errno: not all of it. */
int near_seen_move(const struct near_seen *s, uint64_t addr, void *bytes, size_t length,
		   bool is_write);
