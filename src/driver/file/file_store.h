/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file or a block device of the system as a device of store/. Requests go through io_uring where
 * that is allowed, else through a few threads.
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
	 * 0: as large as it is. Else a file that is not there, or is empty, is made so large; any
	 * other must be so large already.
	 */
	uint64_t size_bytes;
	uint32_t block_bytes; /* 0: that of the block device; of a file 512 */
	bool is_readonly;
	bool is_direct; /* past the page cache, if file system and block size allow that */
	enum store_engine engine;
	/*
	 * How long to wait for another user. Requests of a process that was
	 * killed may go on after its end, as long as the disk takes, and hold the claim.
	 */
	uint64_t wait_ns;
};

/* On refusal *error is what the system said (errno), 0 if it was not asked. */
enum weft_reason file_store_open(const struct file_store_config *c, struct store **out, int *error);

/* What came of the wishes. */
struct file_store_facts {
	bool is_block_device, is_direct, is_uring;
};

struct file_store_facts file_store_facts(const struct store *s);

/* Numbers that are all equal only if it is the same file, and no flush of it has failed between. */
struct file_identity {
	uint64_t device, inode;
	uint64_t made_s, made_ns; /* an inode is used again */
	uint64_t mark;
};

/*
 * False: it has none by which it could be known again, as a block device, or a file on a file
 * system without extended attributes or times of creation.
 */
bool file_store_identity(const struct store *s, struct file_identity *id);

/*
 * A descriptor that is readable (poll, epoll) when a request may be done. It is a sign for those
 * who wait, after store_next_done has given NULL.
 */
int file_store_descriptor(const struct store *s);
