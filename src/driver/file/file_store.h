/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file or a block device as a device of store/. Requests go through io_uring where that is
 * allowed, else through a few threads.
 *
 * A file is locked (flock) against a second user, a block device is claimed (O_EXCL). store_destroy
 * closes it.
 */
#pragma once

#include "store/plan.h"
#include "store/store.h"

struct file_store_config {
	const char *path;
	/*
	 * 0: the size it has. Else a missing or empty file is created with this size, and any other
	 * file must have it already.
	 */
	uint64_t size_bytes;
	uint32_t block_bytes; /* 0: that of the block device; for a file 512 */
	bool is_readonly;
	bool is_direct; /* bypass the page cache, if file system and block size allow */
	enum store_engine engine;
	/*
	 * How long to wait for another user's claim. Requests of a killed process may continue
	 * after its end, as long as the disk takes, and hold the claim.
	 */
	uint64_t wait_ns;
};

/* On failure *error is the errno of the system, 0 if no system call failed. */
enum weft_reason file_store_open(const struct file_store_config *c, struct store **out, int *error);

/* What was obtained of the configuration's wishes. */
struct file_store_facts {
	bool is_block_device, is_direct, is_uring;
};

struct file_store_facts file_store_facts(const struct store *s);

/* Equal in all fields only for the same file, with no failed flush in between. */
struct file_identity {
	uint64_t device, inode;
	uint64_t made_s, made_ns; /* creation time: inode numbers are reused */
	uint64_t mark;
};

/*
 * False: the store has no identity to recognize it by: a block device, or a file on a file system
 * without extended attributes or creation times.
 */
bool file_store_identity(const struct store *s, struct file_identity *id);

/*
 * A descriptor that is readable (poll, epoll) when a request may be done. Wait on it after
 * store_next_done() has returned NULL.
 */
int file_store_descriptor(const struct store *s);
