/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver/file/file_inside.h"

_Static_assert(sizeof(struct span) == sizeof(struct iovec) &&
		       offsetof(struct span, bytes) == offsetof(struct iovec, iov_base) &&
		       offsetof(struct span, length) == offsetof(struct iovec, iov_len),
	       "a span is what the kernel takes");

enum { BOUNCE_BYTES = 256 * 1024, DIRECT_ALIGN = 4096, ZERO_BYTES = 64 * 1024 };

/* A read got no bytes: the file ends before the device. No errno is negative. */
enum { END_OF_FILE = -1 };

static const uint8_t zeroes[ZERO_BYTES] __attribute__((aligned(DIRECT_ALIGN)));

void file_fail(struct store_request *r, int error)
{
	enum weft_reason reason;

	switch (error) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		reason = WEFT_R_STORE_FULL;
		break;
	case ENOMEM:
		reason = WEFT_R_NO_MEMORY;
		break;
	case END_OF_FILE:
		reason = WEFT_R_STORE_CUT;
		error = 0;
		break;
	default:
		reason = WEFT_R_STORE_IO;
	}
	store_request_end(r, reason, error);
}

bool file_is_aligned(const struct file_store *f, const struct store_request *r)
{
	uintptr_t bits = 0;

	for (uint32_t i = 0; i < r->span_count; i++)
		bits |= (uintptr_t)r->spans[i].bytes | r->spans[i].length;
	/*
	 * Lengths must be whole blocks too, because the spans of a request may be read or written
	 * separately.
	 */
	return bits % f->memory_align == 0 && bits % f->store.shape.block_bytes == 0;
}

/* Reads or writes all of it: 0, an errno, or END_OF_FILE. */
static int move(int fd, const struct store_request *r, struct iovec *iov, int count, int flags)
{
	off_t offset = (off_t)r->offset;

	while (count > 0) {
		ssize_t n = r->op == STORE_READ ? preadv2(fd, iov, count, offset, flags)
						: pwritev2(fd, iov, count, offset, flags);

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return errno;
		if (n == 0)
			return r->op == STORE_READ ? END_OF_FILE : ENOSPC;
		offset += n;
		for (; count > 0 && (size_t)n >= iov->iov_len; iov++, count--)
			n -= (ssize_t)iov->iov_len;
		if (count > 0) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return 0;
}

static int move_spans(int fd, const struct store_request *r, int flags)
{
	struct iovec iov[STORE_SPANS_MAX];
	int count = 0;

	for (uint32_t i = 0; i < r->span_count; i++) {
		if (r->spans[i].length > 0)
			iov[count++] = (struct iovec){ r->spans[i].bytes, r->spans[i].length };
	}
	return move(fd, r, iov, count, flags);
}

static void bounce_copy(const struct store_request *r, uint64_t skip, uint8_t *bounce,
			uint64_t length)
{
	struct span_list l;

	l.count = 0;
	l.length = 0;
	CHECK(store_span_cut(&l, r, skip, length) == length);
	for (uint32_t i = 0; i < l.count; i++) {
		if (r->op == STORE_READ)
			memcpy(l.spans[i].bytes, bounce, l.spans[i].length);
		else
			memcpy(bounce, l.spans[i].bytes, l.spans[i].length);
		bounce += l.spans[i].length;
	}
}

/*
 * Copies through aligned memory. The page cache is no alternative: of two blocks in one page, one
 * written through the cache and one past it, each could overwrite the other.
 */
static int move_bounced(int fd, const struct store_request *r, int flags)
{
	uint8_t *bounce = aligned_alloc(DIRECT_ALIGN, BOUNCE_BYTES);
	int err = 0;

	if (!bounce)
		return ENOMEM;
	for (uint64_t at = 0; at < r->length && err == 0;) {
		uint64_t rest = r->length - at;
		size_t piece = rest < BOUNCE_BYTES ? (size_t)rest : BOUNCE_BYTES;
		struct iovec iov = { bounce, piece };
		struct store_request part = { .op = r->op, .offset = r->offset + at };

		if (r->op == STORE_WRITE)
			bounce_copy(r, at, bounce, piece);
		err = move(fd, &part, &iov, 1, flags);
		if (r->op == STORE_READ && err == 0)
			bounce_copy(r, at, bounce, piece);
		at += piece;
	}
	free(bounce);
	return err;
}

static int write_zeroes(struct file_store *f, const struct store_request *r)
{
	int err = 0;

	for (uint64_t at = 0; at < r->length && err == 0;) {
		uint64_t rest = r->length - at;
		size_t piece = rest < ZERO_BYTES ? (size_t)rest : ZERO_BYTES;
		struct iovec iov = { (void *)(uintptr_t)zeroes, piece };
		struct store_request part = { .op = STORE_WRITE, .offset = r->offset + at };

		err = move(f->fd, &part, &iov, 1, 0);
		at += piece;
	}
	return err;
}

static bool is_unsupported(int error)
{
	return error == EOPNOTSUPP || error == ENOSYS || error == ENOTTY || error == EINVAL;
}

static int range_call(const struct file_store *f, const struct store_request *r, int mode,
		      unsigned long command)
{
	uint64_t range[2] = { r->offset, r->length };
	int err;

	do {
		err = f->is_block ? ioctl(f->fd, command, range)
				  : fallocate(f->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)r->offset,
					      (off_t)r->length);
	} while (err < 0 && errno == EINTR);
	return err < 0 ? errno : 0;
}

/* Discard is a hint: a file system that does not support it counts as success. */
static int discard(const struct file_store *f, const struct store_request *r)
{
	int err = range_call(f, r, FALLOC_FL_PUNCH_HOLE, BLKDISCARD);

	return is_unsupported(err) ? 0 : err;
}

/* Prefer the call that keeps the space allocated; a hole reads as zeroes too. */
static int zero(struct file_store *f, const struct store_request *r)
{
	int err = range_call(f, r, FALLOC_FL_ZERO_RANGE, BLKZEROOUT);

	if (is_unsupported(err) && !f->is_block)
		err = range_call(f, r, FALLOC_FL_PUNCH_HOLE, 0);
	return is_unsupported(err) ? write_zeroes(f, r) : err;
}

static int read_write(struct file_store *f, struct store_request *r)
{
	int flags = r->flags & STORE_FUA ? RWF_DSYNC : 0;
	int err;

	if (f->is_direct && !file_is_aligned(f, r))
		err = move_bounced(f->fd, r, flags);
	else
		err = move_spans(f->fd, r, flags);
	file_write_failed(f, r, err);
	return err;
}

void file_work(struct file_store *f, struct store_request *r)
{
	bool is_fua = r->flags & STORE_FUA;
	int err = 0;

	switch (r->op) {
	case STORE_FLUSH:
		file_sync(f, r);
		return;
	case STORE_DISCARD:
		err = discard(f, r);
		break;
	case STORE_WRITE_ZEROES:
		err = zero(f, r);
		if (err == 0 && is_fua) {
			file_sync(f, r);
			return;
		}
		break;
	default:
		err = read_write(f, r);
	}
	if (err != 0)
		file_fail(r, err);
}
