/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which file a file store is, and whether it still has all acknowledged writes.
 *
 * After a failed flush the kernel treats the lost pages as written, and only the process that got
 * the error knows. So the file has a mark: a random number in an extended attribute, which is
 * changed on such a failure. The mark is in the kernel's memory at once. Like the page cache, it
 * need not outlive this boot of the host.
 */
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "driver/file/file_inside.h"

static const char mark_name[] = "user.weft.instance";

static bool mark_write(const struct file_store *f)
{
	uint64_t mark;

	CHECK(getrandom(&mark, sizeof(mark), 0) == sizeof(mark));
	return fsetxattr(f->fd, mark_name, &mark, sizeof(mark), 0) == 0;
}

/*
 * The new mark is as long as the old one, so it needs no space. A file system that still refuses it
 * takes no changes any more, so no device will be opened on it for writing.
 */
void file_mark_anew(const struct file_store *f)
{
	if (!mark_write(f))
		(void)fremovexattr(f->fd, mark_name);
}

static bool mark_read(const struct file_store *f, uint64_t *mark)
{
	return fgetxattr(f->fd, mark_name, mark, sizeof(*mark)) == sizeof(*mark);
}

/* A block device has no room for a mark. */
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
	if (mark_read(f, &id->mark))
		return true;
	return !s->shape.is_readonly && mark_write(f) && mark_read(f, &id->mark);
}
