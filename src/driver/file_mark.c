/* SPDX-License-Identifier: BSD-2-Clause */
/* Which file a file store is. */
#include <fcntl.h>
#include <sys/stat.h>

#include "driver/file_inside.h"

/* The number of a block device is given to another one, without a trace. */
bool file_store_identity(const struct store *s, struct file_identity *id)
{
	const struct file_store *f = file_store_of(s);
	struct statx sx;

	if (f->is_block || statx(f->fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &sx) < 0 ||
	    !(sx.stx_mask & STATX_BTIME))
		return false;
	*id = (struct file_identity){ .device = ((uint64_t)sx.stx_dev_major << 32) |
						sx.stx_dev_minor,
				      .inode = sx.stx_ino,
				      .made_s = (uint64_t)sx.stx_btime.tv_sec,
				      .made_ns = sx.stx_btime.tv_nsec };
	return true;
}
