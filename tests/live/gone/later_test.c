/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-04: which registrations lose memory that the program unmaps, and which do not. Accesses are a
 * peer's, between two queue pairs of one adapter.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/sys/notice.h"
#include "live/verbs_fixture.h"
#include "lone_pages.h"

enum { PAGES = 8, OLD_BYTE = 0x5a, NEW_BYTE = 0xc3 };

/* ---- Memory, and regions of it -------------------------------------------------------------- */

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* At that address, or at any. */
static uint8_t *map_at(uint8_t *at, size_t bytes, uint8_t fill)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	uint8_t *memory = at ? mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0)
			     : lone_pages(bytes);

	REQUIRE(!at || memory == at);
	memset(memory, fill, bytes);
	return memory;
}

static void replace(uint8_t *at, size_t bytes)
{
	REQUIRE(munmap(at, bytes) == 0);
	map_at(at, bytes, NEW_BYTE);
}

static uint32_t region_of(struct weft_pd *pd, const void *at, size_t bytes)
{
	const struct weft_region_options o = {
		.addr = (uintptr_t)at,
		.length = bytes,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_BIND,
	};
	uint32_t tag;

	MUST(weft_region_register(pd, &o, &tag));
	return tag;
}

/* ---- Accesses ------------------------------------------------------------------------------- */

/* One byte is read, or written, through that tag: is it granted? */
static bool is_granted(struct weft_adapter *adapter, struct weft_pd *pd, const uint8_t *at,
		       uint32_t tag)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_READ, WEFT_OP_WRITE };
	uint32_t granted = 0;

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct weft_qp_options o = { 0 };
		struct node near, far;
		struct weft_send_wr wr;
		struct weft_sge s;
		struct weft_completion c = { 0 };
		bool has = false;

		node_open(adapter, &near, NULL);
		far = near;
		far.pd = pd;
		o.send_cq = o.recv_cq = near.cq;
		MUST(weft_qp_create(pd, &o, &far.qp));
		nodes_connect(&near, &far);
		s = node_seg(&near, 0, 1);
		near.memory[0] = at ? *at : 0; /* what is written changes nothing */
		wr = node_wr(opcodes[i], 1, &s, &far);
		wr.remote_addr = (uintptr_t)at;
		wr.remote_tag = tag;
		REQUIRE(node_post(&near, &wr));
		while (!has)
			REQUIRE(node_poll(near.cq, &c, &has));
		granted += c.status == WEFT_SUCCESS;
		if (c.status != WEFT_SUCCESS)
			MUST_EQ(c.status, WEFT_ERR_REMOTE_ACCESS);
		MUST(weft_qp_destroy(far.qp));
		node_close(&near, NULL);
	}
	REQUIRE(granted == 0 || granted == 2);
	return granted > 0;
}

struct bench {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	uint8_t *memory;
	uint32_t tag; /* of all of it */
};

static void bench_open(struct bench *b)
{
	MUST(weft_adapter_open(NULL, &b->adapter));
	MUST(weft_pd_create(b->adapter, NULL, &b->pd));
	b->memory = map_at(NULL, PAGES * page_bytes(), OLD_BYTE);
	b->tag = region_of(b->pd, b->memory, PAGES * page_bytes());
}

static void bench_close(struct bench *b)
{
	MUST(weft_region_deregister(b->pd, b->tag));
	MUST(weft_pd_destroy(b->pd));
	MUST(weft_adapter_close(b->adapter));
	munmap(b->memory, PAGES * page_bytes());
}

static uint8_t *page_at(const struct bench *b, uint32_t n)
{
	return b->memory + n * page_bytes();
}

static bool is_page_granted(const struct bench *b, uint32_t n, uint32_t tag)
{
	return is_granted(b->adapter, b->pd, page_at(b, n), tag);
}

/* The kernel tells of unmapped memory; else the tests of this file have nothing to show. */
static bool is_told(struct bench *b)
{
	struct notice_counts counts;

	notice_query(&counts);
	if (!counts.is_on)
		bench_close(b);
	return counts.is_on;
}

static const char no_notices[] = "this kernel does not tell this process of unmapped memory";

/* ---- Tests ---------------------------------------------------------------------------------- */

TEST(test_vmm_04_what_is_mapped_later_can_be_registered_anew)
{
	struct bench b;
	uint32_t anew;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	for (int round = 0; round < 3; round++) {
		replace(page_at(&b, 2), page_bytes());
		anew = region_of(b.pd, page_at(&b, 2), page_bytes());
		EXPECT(is_page_granted(&b, 2, anew));
		EXPECT(!is_page_granted(&b, 2, b.tag));
		EXPECT(is_page_granted(&b, 1, b.tag) && is_page_granted(&b, 3, b.tag));
		replace(page_at(&b, 2), page_bytes());
		EXPECT(!is_page_granted(&b, 2, anew));
		MUST(weft_region_deregister(b.pd, anew));
	}
	MUST(weft_region_deregister(b.pd, b.tag));
	b.tag = region_of(b.pd, b.memory, PAGES * page_bytes());
	for (uint32_t n = 0; n < PAGES; n++)
		EXPECT(is_page_granted(&b, n, b.tag));
	bench_close(&b);
}

/* The kernel watches what is mapped. A page that comes into the hole later is watched by itself. */
TEST(test_vmm_04_a_region_with_a_hole_hides_no_page_that_comes_later)
{
	struct bench b;
	uint32_t whole, page;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	REQUIRE(munmap(page_at(&b, 2), page_bytes()) == 0);
	whole = region_of(b.pd, b.memory, PAGES * page_bytes());
	MUST(weft_region_deregister(b.pd, whole));
	map_at(page_at(&b, 2), page_bytes(), OLD_BYTE);
	page = region_of(b.pd, page_at(&b, 2), page_bytes());
	EXPECT(is_page_granted(&b, 2, page));
	replace(page_at(&b, 2), page_bytes());
	EXPECT(!is_page_granted(&b, 2, page));
	MUST(weft_region_deregister(b.pd, page));
	bench_close(&b);
}

TEST(test_vmm_04_what_is_deregistered_first_may_be_unmapped)
{
	struct notice_counts before, after;
	struct bench b;
	uint32_t part;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	MUST(weft_region_deregister(b.pd, b.tag));
	notice_query(&before);
	replace(page_at(&b, 0), PAGES * page_bytes());
	notice_query(&after);
	EXPECT_EQ(after.unmapped, before.unmapped);
	b.tag = region_of(b.pd, b.memory, 4 * page_bytes());
	part = region_of(b.pd, page_at(&b, 4), 4 * page_bytes());
	MUST(weft_region_deregister(b.pd, part));
	replace(page_at(&b, 4), 4 * page_bytes());
	EXPECT(is_page_granted(&b, 3, b.tag));
	part = region_of(b.pd, page_at(&b, 4), 4 * page_bytes());
	EXPECT(is_page_granted(&b, 4, part));
	MUST(weft_region_deregister(b.pd, part));
	bench_close(&b);
}

/* However many there were: what they lost takes nothing from those that stay. */
TEST(test_vmm_04_what_ended_regions_lost_is_forgotten)
{
	enum { ROUNDS = 9000 };
	const size_t bytes = (2 * ROUNDS + 1) * page_bytes();
	struct bench b;
	uint8_t *memory;
	uint32_t witness;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	memory = lone_pages(bytes);
	witness = region_of(b.pd, memory + page_bytes(), page_bytes());
	for (size_t i = 0; i < ROUNDS; i++) {
		uint8_t *at = memory + 2 * i * page_bytes();
		uint32_t tag = region_of(b.pd, at, page_bytes());

		replace(at, page_bytes());
		MUST(weft_region_deregister(b.pd, tag));
	}
	EXPECT(is_granted(b.adapter, b.pd, memory + page_bytes(), witness));
	MUST(weft_region_deregister(b.pd, witness));
	munmap(memory, bytes);
	bench_close(&b);
}

/* However many pages were registered once, and are still there. */
TEST(test_vmm_04_what_ended_regions_had_leaves_room_for_others)
{
	enum { ROUNDS = 9000 };
	const size_t bytes = (2 * ROUNDS + 1) * page_bytes();
	struct notice_counts before, after;
	struct bench b;
	uint8_t *memory;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	memory = lone_pages(bytes);
	notice_query(&before);
	for (size_t i = 0; i < ROUNDS; i++)
		MUST(weft_region_deregister(
			b.pd, region_of(b.pd, memory + 2 * i * page_bytes(), page_bytes())));
	notice_query(&after);
	EXPECT_EQ(after.unwatched, before.unwatched);
	replace(page_at(&b, 2), page_bytes());
	EXPECT(!is_page_granted(&b, 2, b.tag) && is_page_granted(&b, 3, b.tag));
	munmap(memory, bytes);
	bench_close(&b);
}

/* In one adapter, and in two. */
TEST(test_vmm_04_regions_that_overlap_lose_the_same_memory)
{
	struct bench b, other;
	uint32_t part, later;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	bench_open(&other);
	part = region_of(b.pd, page_at(&b, 1), 3 * page_bytes());
	later = region_of(other.pd, page_at(&b, 0), 4 * page_bytes());
	replace(page_at(&b, 3), 2 * page_bytes());
	EXPECT(!is_page_granted(&b, 3, part) && !is_page_granted(&b, 3, b.tag));
	EXPECT(!is_page_granted(&b, 4, b.tag));
	EXPECT(!is_granted(other.adapter, other.pd, page_at(&b, 3), later));
	EXPECT(is_granted(other.adapter, other.pd, page_at(&b, 2), later));
	EXPECT(is_page_granted(&b, 2, part) && is_page_granted(&b, 5, b.tag));
	/* Those that end take nothing from those that stay. */
	MUST(weft_region_deregister(b.pd, part));
	EXPECT(!is_page_granted(&b, 3, b.tag));
	EXPECT(!is_granted(other.adapter, other.pd, page_at(&b, 3), later));
	MUST(weft_region_deregister(other.pd, later));
	EXPECT(!is_page_granted(&b, 3, b.tag));
	bench_close(&other);
	bench_close(&b);
}

TEST(test_vmm_04_a_window_and_a_shared_region_lose_what_the_region_loses)
{
	const struct weft_region_options rights = { .rights = WEFT_REMOTE_READ |
							      WEFT_REMOTE_WRITE };
	struct weft_bind bind = { 0 };
	struct bench b;
	uint32_t shared;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	bind.region_tag = b.tag;
	bind.addr = (uintptr_t)page_at(&b, 2);
	bind.length = 3 * page_bytes();
	bind.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE;
	MUST(weft_window_alloc(b.pd, &bind.window_tag));
	MUST(weft_window_bind(b.pd, &bind));
	replace(page_at(&b, 3), page_bytes());
	MUST(weft_region_share(b.pd, b.tag, &rights, &shared));
	EXPECT(!is_page_granted(&b, 3, bind.tag) && !is_page_granted(&b, 3, shared));
	EXPECT(is_page_granted(&b, 2, bind.tag) && is_page_granted(&b, 4, bind.tag));
	EXPECT(is_page_granted(&b, 2, shared));
	MUST(weft_region_deregister(b.pd, shared));
	MUST(weft_window_unbind(b.pd, bind.tag));
	MUST(weft_window_free(b.pd, bind.tag));
	bench_close(&b);
}

TEST(test_vmm_04_memory_that_moves_is_registered_at_its_new_place)
{
	struct bench b;
	uint8_t *moved;
	uint32_t anew;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	moved = map_at(NULL, 2 * page_bytes(), 0); /* an address that nothing else takes */
	REQUIRE(mremap(page_at(&b, 2), 2 * page_bytes(), 2 * page_bytes(),
		       MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved);
	map_at(page_at(&b, 2), 2 * page_bytes(), NEW_BYTE);
	EXPECT(!is_page_granted(&b, 2, b.tag) && !is_page_granted(&b, 3, b.tag));
	anew = region_of(b.pd, moved, 2 * page_bytes());
	EXPECT(is_granted(b.adapter, b.pd, moved, anew));
	replace(moved, page_bytes());
	EXPECT(!is_granted(b.adapter, b.pd, moved, anew));
	EXPECT(is_granted(b.adapter, b.pd, moved + page_bytes(), anew));
	MUST(weft_region_deregister(b.pd, anew));
	munmap(moved, 2 * page_bytes());
	/* Left behind are pages, but not those that were registered. */
	moved = mremap(page_at(&b, 5), page_bytes(), page_bytes(),
		       MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	REQUIRE(moved != MAP_FAILED);
	EXPECT(!is_page_granted(&b, 5, b.tag));
	EXPECT(is_page_granted(&b, 4, b.tag) && is_page_granted(&b, 6, b.tag));
	munmap(moved, page_bytes());
	bench_close(&b);
}

/* The program reads zeroes there itself. */
TEST(test_vmm_04_memory_whose_content_is_dropped_stays_registered)
{
	struct bench b;

	bench_open(&b);
	REQUIRE(madvise(page_at(&b, 2), page_bytes(), MADV_DONTNEED) == 0);
	EXPECT_EQ(*page_at(&b, 2), 0);
	EXPECT(is_page_granted(&b, 2, b.tag));
	bench_close(&b);
}

/* The kernel watches some of it, and some not: all of it can be registered. */
TEST(test_vmm_04_memory_of_every_kind_is_registered)
{
	char name[] = "/tmp/weft_later_XXXXXX";
	int file = mkstemp(name);
	uint8_t stack[64] = { 0 }, *heap = malloc(64), *mapped;
	struct bench b;
	uint32_t tags[3];

	REQUIRE(file >= 0 && heap && ftruncate(file, (off_t)page_bytes()) == 0);
	unlink(name);
	mapped = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	REQUIRE(mapped != MAP_FAILED);
	heap[0] = 0;
	bench_open(&b);
	tags[0] = region_of(b.pd, stack, sizeof(stack));
	tags[1] = region_of(b.pd, heap, 64);
	tags[2] = region_of(b.pd, mapped, page_bytes());
	EXPECT(is_granted(b.adapter, b.pd, stack, tags[0]));
	EXPECT(is_granted(b.adapter, b.pd, heap, tags[1]));
	EXPECT(is_granted(b.adapter, b.pd, mapped, tags[2]));
	for (int i = 0; i < 3; i++)
		MUST(weft_region_deregister(b.pd, tags[i]));
	bench_close(&b);
	munmap(mapped, page_bytes());
	close(file);
	free(heap);
}

/*
 * The kernel cannot watch all of a process. Memory that another region had watched may go and come,
 * and no other region is told that it went.
 */
TEST(test_vmm_04_a_region_of_the_whole_process_reaches_what_is_mapped_later)
{
	const uintptr_t first = page_bytes();
	struct notice_counts before, after;
	struct bench b;
	uint32_t all;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	notice_query(&before);
	all = region_of(b.pd, (const void *)first, ((uint64_t)1 << 56) - first);
	MUST(weft_region_deregister(b.pd, b.tag));
	replace(page_at(&b, 2), page_bytes());
	notice_query(&after);
	EXPECT(is_page_granted(&b, 2, all) && is_page_granted(&b, 3, all));
	EXPECT_EQ(after.unwatched, before.unwatched + 1);
	EXPECT_EQ(after.unmapped, before.unmapped);
	b.tag = region_of(b.pd, b.memory, PAGES * page_bytes());
	replace(page_at(&b, 3), page_bytes());
	EXPECT(!is_page_granted(&b, 3, b.tag) && is_page_granted(&b, 2, b.tag));
	MUST(weft_region_deregister(b.pd, all));
	bench_close(&b);
}

/* ---- fork() --------------------------------------------------------------------------------- */

/* The child maps over its copy of the memory, and registers memory of its own. */
static int child_run(const struct bench *b)
{
	struct weft_region_options o = { .rights = WEFT_LOCAL_READ };
	struct weft_adapter *own;
	struct weft_pd *pd;
	uint32_t tag;

	if (munmap(page_at(b, 2), 2 * page_bytes()) != 0 ||
	    mmap(page_at(b, 2), page_bytes(), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page_at(b, 2))
		return 1;
	o.addr = (uintptr_t)page_at(b, 0);
	o.length = page_bytes();
	if (weft_adapter_open(NULL, &own) != WEFT_OK || weft_pd_create(own, NULL, &pd) != WEFT_OK ||
	    weft_region_register(pd, &o, &tag) != WEFT_OK)
		return 2;
	/* It has a kernel that tells of its own. */
	if (munmap(page_at(b, 0), page_bytes()) != 0)
		return 3;
	if (weft_region_prefetch(pd, &(struct weft_sge){ o.addr, 1, tag }, WEFT_LOCAL_READ) !=
	    WEFT_R_MEMORY_GONE)
		return 4;
	return weft_region_deregister(pd, tag) == WEFT_OK && weft_pd_destroy(pd) == WEFT_OK &&
			       weft_adapter_close(own) == WEFT_OK
		       ? 0
		       : 5;
}

/*
 * A check that begins when munmap() has returned knows of it. On one processor the thread that
 * reads the event often notes it only later.
 */
TEST(test_vmm_04_a_check_after_munmap_knows_of_it)
{
	enum { TIMES = 2000 };
	struct bench b;
	cpu_set_t was, one_cpu;
	uint32_t late = 0;

	REQUIRE(sched_getaffinity(0, sizeof(was), &was) == 0);
	CPU_ZERO(&one_cpu);
	CPU_SET((unsigned int)sched_getcpu(), &one_cpu);
	REQUIRE(sched_setaffinity(0, sizeof(one_cpu), &one_cpu) == 0);
	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	for (int i = 0; i < TIMES; i++) {
		uint8_t *page = map_at(NULL, page_bytes(), OLD_BYTE);
		const struct weft_region_options o = { .addr = (uintptr_t)page,
						       .length = page_bytes(),
						       .rights = WEFT_LOCAL_READ };
		struct weft_sge one = { o.addr, 1, 0 };

		MUST(weft_region_register(b.pd, &o, &one.tag));
		REQUIRE(munmap(page, page_bytes()) == 0);
		late += weft_region_prefetch(b.pd, &one, WEFT_LOCAL_READ) != WEFT_R_MEMORY_GONE;
		MUST(weft_region_deregister(b.pd, one.tag));
	}
	EXPECT_EQ(late, 0);
	bench_close(&b);
	REQUIRE(sched_setaffinity(0, sizeof(was), &was) == 0);
}

TEST(test_vmm_04_what_a_child_unmaps_the_parent_keeps)
{
	struct bench b;
	int status;
	pid_t child;

	bench_open(&b);
	if (!is_told(&b))
		SKIP(no_notices);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0)
		_exit(child_run(&b));
	REQUIRE(waitpid(child, &status, 0) == child);
	REQUIRE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
	for (uint32_t n = 0; n < PAGES; n++)
		EXPECT(is_page_granted(&b, n, b.tag));
	/* And is told of its own as before. */
	replace(page_at(&b, 5), page_bytes());
	EXPECT(!is_page_granted(&b, 5, b.tag));
	EXPECT(is_page_granted(&b, 4, b.tag));
	bench_close(&b);
}

/* The default space of a process is the kernel's own table: no call tells weft of a change. */
TEST(test_vmm_06_memory_that_the_process_maps_or_moves_needs_no_update)
{
	struct bench b;
	uint8_t *memory, *moved;
	uint32_t tag;

	bench_open(&b);
	memory = map_at(NULL, page_bytes(), OLD_BYTE);
	tag = region_of(b.pd, memory, page_bytes());
	EXPECT(is_granted(b.adapter, b.pd, memory, tag));
	MUST(weft_region_deregister(b.pd, tag));
	moved = mremap(memory, page_bytes(), page_bytes(), MREMAP_MAYMOVE | MREMAP_FIXED,
		       map_at(NULL, page_bytes(), NEW_BYTE));
	REQUIRE(moved != MAP_FAILED);
	tag = region_of(b.pd, moved, page_bytes());
	EXPECT(is_granted(b.adapter, b.pd, moved, tag));
	EXPECT_EQ(*moved, OLD_BYTE);
	MUST(weft_region_deregister(b.pd, tag));
	munmap(moved, page_bytes());
	bench_close(&b);
}

/* ---- Signals -------------------------------------------------------------------------------- */

enum { UNMAPS = 500, PATIENCE_MS = 60 * 1000 };

static uint8_t *volatile signalled;
static atomic_uint unmaps;

static void unmap_and_map(int number)
{
	(void)number;
	(void)munmap(signalled, page_bytes());
	(void)mmap(signalled, page_bytes(), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	atomic_fetch_add(&unmaps, 1);
}

/* In a process of its own: of threads that wait there for good SIGKILL alone ends the process. */
static void register_under_signals(void)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } };
	struct bench b;

	bench_open(&b);
	signalled = page_at(&b, 2);
	REQUIRE(signal(SIGALRM, unmap_and_map) != SIG_ERR);
	REQUIRE(setitimer(ITIMER_REAL, &often, NULL) == 0);
	while (atomic_load(&unmaps) < UNMAPS) {
		uint32_t tag = region_of(b.pd, signalled, page_bytes());

		MUST(weft_region_deregister(b.pd, tag));
	}
	_exit(0);
}

TEST(test_vmm_04_a_signal_handler_that_unmaps_registered_memory_returns)
{
	pid_t child = fork(), ended = 0;
	int status = -1;

	REQUIRE(child >= 0);
	if (child == 0)
		register_under_signals();
	for (int i = 0; i < PATIENCE_MS && ended == 0; i++) {
		usleep(1000);
		ended = waitpid(child, &status, WNOHANG);
	}
	if (ended == 0) {
		(void)kill(child, SIGKILL);
		REQUIRE(waitpid(child, &status, 0) == child);
	}
	EXPECT_EQ(status, 0);
}
