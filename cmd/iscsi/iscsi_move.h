/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks on their way from a device or file to another: so many at a time, each in a buffer of its
 * own. What weft iscsi read, write and copy do, apart from how it is asked for and shown.
 */
#pragma once

#include <weft/iscsi.h>

#include "store/store.h"

enum { MOVE_BLOCK_MAX = 64 << 20, MOVE_DEPTH_MAX = 1024 };

/* Where data comes from, or goes to. */
struct move_end {
	struct store *store; /* NULL: a file, which need not be able to seek */
	int fd;		     /* the file; of a device: readable when it may have done something */
	uint64_t at;	     /* first byte; of a file: where it stands */
};

struct move {
	struct move_end from, to;
	uint64_t length; /* from a file: or less, as much as it has */
	uint32_t block, depth;
	bool is_fua;
	bool is_verified; /* what was written to a device is read back and compared */
	/* Called now and then, all is 0 if it is not known; may be NULL. */
	void (*tell)(uint64_t done, uint64_t all);
};

/* How it went: WEFT_OK, or why not, where, and at which end. */
struct move_outcome {
	enum weft_reason reason;
	int error; /* errno, or 0 */
	const struct move_end *end;
	const char *what;		 /* "read", "write", "flush" or "verify" */
	uint64_t at;			 /* of that end */
	uint64_t done_bytes, zero_bytes; /* zero_bytes: of them, that did not travel */
};

/*
 * Blocks of zeroes are not written: a device that can makes them itself, which leaves a thin one
 * thin, and a regular file gets holes. At the end the device is flushed.
 */
void iscsi_move(const struct move *m, struct move_outcome *o);
