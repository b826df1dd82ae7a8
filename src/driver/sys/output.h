/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that weft writes for people to look into: captures and traces. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Errors of output_open() beyond errno; all errno values are smaller. */
enum {
	OUTPUT_LINK = 5000, /* a symbolic link */
	OUTPUT_NO_FILE,	    /* a socket, a block device, ... */
	OUTPUT_NO_READER,   /* a FIFO */
	OUTPUT_FOREIGN,	    /* owned by another user */
	OUTPUT_OPEN_TO_OTHERS,
	OUTPUT_HARD_LINK
};

/*
 * Creates or truncates a file that only its owner may read, since it shows what the program does.
 * Each `%p` in the path becomes the process id. An existing file must be a regular file, or a FIFO
 * with a reader, owned by this user and closed to others; or a character device such as /dev/null.
 * The name of a descriptor of this process (/dev/stdout, /dev/fd/3) means that descriptor. Never
 * blocks. Returns a descriptor, a negative errno or a negated error of the enum above; -EBUSY if
 * another process is writing the file.
 */
int output_open(const char *path);

/* The message for such an error. */
const char *output_words(int err);

/* Writes all bytes: 0 or a negative errno. Raises neither SIGPIPE nor SIGXFSZ. */
int output_write(int fd, const uint8_t *bytes, size_t length);

/*
 * Updates *ns, CLOCK_REALTIME minus CLOCK_MONOTONIC: the wall clock may be set, and the monotonic
 * clock stops while the machine sleeps. Differences as small as the error of reading are ignored.
 */
void output_clock_follow(int64_t *ns);
