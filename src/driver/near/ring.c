/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "driver/sys/calls.h"
#include "driver/sys/memory_file.h"

enum { LINE_BYTES = 64, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Each counter has a cache line of its own: it is written by one end alone. */
struct ring_head {
	_Atomic uint64_t maker;				  /* where its maker has mapped it */
	_Alignas(LINE_BYTES) _Atomic uint64_t put;	  /* the sender's */
	_Alignas(LINE_BYTES) _Atomic uint64_t taken;	  /* the receiver's */
	_Alignas(LINE_BYTES) _Atomic uint32_t is_resting; /* the receiver sleeps */
	_Alignas(LINE_BYTES) _Atomic uint32_t is_waiting; /* the sender waits for room */
};

/*
 * Both ends of a ring may be in one process, at two addresses. The thread sanitizer does not know
 * that these are the same memory, so it is told what the counters order: by the address of a byte
 * that both find, and that stays mapped when one end has left.
 */
__attribute__((weak)) void __tsan_acquire(void *addr);
__attribute__((weak)) void __tsan_release(void *addr);

static void *sanitizer_name(const struct ring *r, const void *counter)
{
	enum { NAMES = 4096, PAGE_BITS = 12 };
	static char names[NAMES];
	uint64_t number = atomic_load(&r->head->maker) >> PAGE_BITS;

	return &names[(2 * number + (counter == &r->head->put)) % NAMES];
}

static uint64_t counter_read(struct ring *r, _Atomic uint64_t *counter)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_acquire);

	if (CALLS_LIBRARY && __tsan_acquire)
		__tsan_acquire(sanitizer_name(r, counter));
	return value;
}

static void counter_write(struct ring *r, _Atomic uint64_t *counter, uint64_t value)
{
	if (CALLS_LIBRARY && __tsan_release)
		__tsan_release(sanitizer_name(r, counter));
	atomic_store_explicit(counter, value, memory_order_release);
}

/* The head has pages of its own. */
static size_t head_bytes(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return page > sizeof(struct ring_head) ? page : sizeof(struct ring_head);
}

/* ---- Memory --------------------------------------------------------------------------------- */

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

/* ---- The sender ----------------------------------------------------------------------------- */

static uint64_t used(const struct ring *r)
{
	return r->own - r->other;
}

/* What the receiver has taken by now. */
static void see_taken(struct ring *r)
{
	r->other = counter_read(r, &r->head->taken);
	r->is_broken |= used(r) > r->bytes;
}

static bool has_room(const struct ring *r, size_t bytes)
{
	return !r->is_broken && used(r) + ring_round(bytes) <= r->bytes;
}

uint8_t *ring_room(struct ring *r, size_t bytes)
{
	CHECK(bytes <= ring_record_max(r));
	if (!has_room(r, bytes))
		see_taken(r);
	return has_room(r, bytes) ? r->data + r->own % r->bytes : NULL;
}

void ring_put(struct ring *r, size_t bytes)
{
	r->own += ring_round(bytes);
	counter_write(r, &r->head->put, r->own);
}

/* The fence pairs with that of ring_rest(): one end sees what the other has written. */
bool ring_wakes_receiver(struct ring *r)
{
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&r->head->is_resting, memory_order_relaxed) &&
	       atomic_exchange(&r->head->is_resting, 0) != 0;
}

bool ring_await_room(struct ring *r, size_t bytes)
{
	atomic_store(&r->head->is_waiting, 1);
	atomic_thread_fence(memory_order_seq_cst);
	see_taken(r);
	if (!has_room(r, bytes) && !r->is_broken)
		return true;
	atomic_store(&r->head->is_waiting, 0);
	return false;
}

/* ---- The receiver --------------------------------------------------------------------------- */

size_t ring_peek(struct ring *r, const uint8_t **bytes)
{
	if (r->other == r->own)
		r->other = counter_read(r, &r->head->put);
	r->is_broken |= r->other - r->own > r->bytes;
	*bytes = r->data + r->own % r->bytes;
	return r->is_broken ? 0 : (size_t)(r->other - r->own);
}

bool ring_is_empty(const struct ring *r)
{
	return atomic_load_explicit(&r->head->put, memory_order_relaxed) == r->own;
}

void ring_take(struct ring *r, size_t bytes)
{
	r->own += ring_round(bytes);
	counter_write(r, &r->head->taken, r->own);
}

bool ring_rest(struct ring *r)
{
	const uint8_t *bytes;

	atomic_store_explicit(&r->head->is_resting, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return ring_peek(r, &bytes) == 0;
}

void ring_rest_end(struct ring *r)
{
	atomic_store_explicit(&r->head->is_resting, 0, memory_order_relaxed);
}

/*
 * When the ring is half empty, so that the sender has much to do at once. The fence pairs with that
 * of ring_await_room().
 */
bool ring_wakes_sender(struct ring *r)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&r->head->is_waiting, memory_order_relaxed) ||
	    r->other - r->own > r->bytes / 2)
		return false;
	return atomic_exchange(&r->head->is_waiting, 0) != 0;
}
