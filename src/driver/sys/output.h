/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that weft writes for people to look into: captures and traces. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What may be wrong with a path besides what the kernel says: behind all numbers of errno. */
enum {
	OUTPUT_LINK = 5000, /* a symbolic link */
	OUTPUT_NO_FILE,	    /* a socket, a block device, ... */
	OUTPUT_NO_READER,   /* a FIFO */
	OUTPUT_FOREIGN,	    /* of another user */
	OUTPUT_OPEN_TO_OTHERS,
	OUTPUT_HARD_LINK
};

/*
 * Creates or empties a file that only its owner may read, as it holds what the program does; each
 * `%p` in the path becomes the process id. What is there already must be a regular file, or a FIFO
 * with a reader, of this user and closed to others; or a character device, as /dev/null. The name
 * of a descriptor of this process (/dev/stdout, /dev/fd/3) means just that descriptor. Never waits.
 * Gives a descriptor, a negative errno or one of the above, negative; -EBUSY if another process is
 * writing that file.
 */
int output_open(const char *path);

/* What is wrong, for a person to read. */
const char *output_words(int err);

/* Writes all of it: 0 or a negative errno. No signal comes of it, whatever happens to the file. */
int output_write(int fd, const uint8_t *bytes, size_t length);

/*
 * CLOCK_REALTIME less CLOCK_MONOTONIC, brought up to date: the wall clock may be set, and the other
 * stands still while the machine sleeps. Small differences are those of reading, and are left.
 */
void output_clock_follow(int64_t *ns);
