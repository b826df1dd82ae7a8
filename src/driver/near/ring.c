/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/sys/calls.h"
#include "driver/sys/memory_file.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/*
 * Both ends of a ring may be in one process, at two addresses. The thread sanitizer does not know
 * that these are the same memory, so it is told what the counters order: by the address of a byte
 * that both find, and that stays mapped when one end has left.
 */
__attribute__((weak)) void __tsan_acquire(void *addr);
__attribute__((weak)) void __tsan_release(void *addr);

static void sanitizer_hook(const struct ring *r, enum ring_point point)
{
	enum { NAMES = 4096, PAGE_BITS = 12 };
	static char names[NAMES];
	uint64_t number = atomic_load(&r->head->maker) >> PAGE_BITS;
	bool is_put = point == RING_PUT_READ || point == RING_PUT_WRITE;
	void *name = &names[(2 * number + is_put) % NAMES];

	if (point == RING_PUT_READ || point == RING_TAKEN_READ)
		__tsan_acquire(name);
	else if (point != RING_WRITTEN)
		__tsan_release(name);
}

/* The head has pages of its own. */
static size_t head_bytes(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return page > sizeof(struct ring_head) ? page : sizeof(struct ring_head);
}

/* Reserves addresses for all first, so that nothing else is mapped between the parts. */
static int map_parts(struct ring *r, int fd, uint32_t bytes)
{
	const size_t head = head_bytes(), all = head + 2 * (size_t)bytes;
	const int rights = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	uint8_t *at = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			   0);

	if (at == MAP_FAILED)
		return -errno;
	if (mmap(at, head + bytes, rights, flags, fd, 0) == MAP_FAILED ||
	    mmap(at + head + bytes, bytes, rights, flags, fd, (off_t)head) == MAP_FAILED) {
		int error = errno;

		(void)munmap(at, all);
		return -error;
	}
	(void)madvise(at, all, MADV_DONTFORK);
	*r = (struct ring){ .head = (void *)at, .data = at + head, .bytes = bytes };
	if (CALLS_LIBRARY && __tsan_acquire)
		r->hook = sanitizer_hook;
	return 0;
}

int ring_make(struct ring *r, uint32_t wish)
{
	const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE), bytes = wish > page ? wish : page;
	int fd = memory_file_make(head_bytes() + bytes), error;

	if (fd < 0)
		return fd;
	error = fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno : map_parts(r, fd, bytes);
	if (error == 0) {
		atomic_store(&r->head->maker, (uintptr_t)r->head);
		return fd;
	}
	call_close(fd);
	return error;
}

static bool is_size(uint64_t bytes)
{
	return bytes >= RING_BYTES_MIN && bytes <= RING_BYTES_MAX && (bytes & (bytes - 1)) == 0 &&
	       bytes % (uint64_t)sysconf(_SC_PAGESIZE) == 0;
}

int ring_map(struct ring *r, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat s;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &s) < 0 ||
	    !is_size((uint64_t)s.st_size - head_bytes()))
		return -EPROTO;
	return map_parts(r, fd, (uint32_t)((uint64_t)s.st_size - head_bytes()));
}

void ring_unmap(struct ring *r)
{
	if (r->head)
		(void)munmap(r->head, head_bytes() + 2 * (size_t)r->bytes);
	r->head = NULL;
}
