/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that weft writes for people to look into: captures and traces. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Creates or empties a file that only its owner may read, as it holds what the program does; each
 * `%p` in the path becomes the process id. Gives a descriptor or a negative errno; -EBUSY if
 * somebody else is writing that file.
 */
int output_open(const char *path);

/* Writes all of it: 0 or a negative errno. No signal comes of it, whatever happens to the file. */
int output_write(int fd, const uint8_t *bytes, size_t length);

/*
 * CLOCK_REALTIME less CLOCK_MONOTONIC, brought up to date: the wall clock may be set, and the other
 * stands still while the machine sleeps. Small differences are those of reading, and are left.
 */
void output_clock_follow(int64_t *ns);
