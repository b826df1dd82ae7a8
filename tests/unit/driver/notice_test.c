/* SPDX-License-Identifier: BSD-2-Clause */
/* VMM-04: a change of memory happens between two accesses, and waits for none for ever. */
#include "driver/sys/notice.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lone_pages.h"
#include "test.h"

struct bench {
	struct mem_watch *near, *far; /* of two adapters */
	uint8_t *memory;
	size_t page;
	atomic_bool is_unmapped;
};

/* False: the kernel does not tell. */
static bool bench_open(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	b->page = (size_t)sysconf(_SC_PAGESIZE);
	b->near = notice_open();
	b->far = notice_open();
	REQUIRE(b->near && b->far);
	b->memory = lone_pages(2 * b->page);
	b->near->since = b->near->begin((uintptr_t)b->memory, 2 * b->page);
	b->far->since = b->near->since;
	return b->near->since != 0;
}

static void bench_close(struct bench *b)
{
	if (b->near->since)
		b->near->end((uintptr_t)b->memory, 2 * b->page);
	notice_close(b->near);
	notice_close(b->far);
	munmap(b->memory, 2 * b->page);
}

static void *unmap_run(void *argument)
{
	struct bench *b = argument;

	munmap(b->memory, b->page);
	atomic_store(&b->is_unmapped, true);
	return NULL;
}

static void *access_run(void *argument)
{
	struct bench *b = argument;
	bool is_granted = mem_watch_enter(b->far, b->memory, 1);

	mem_watch_leave(b->far);
	return is_granted ? b : NULL;
}

static const char no_notices[] = "this kernel does not tell this process of unmapped memory";

TEST(test_vmm_04_unmapping_waits_for_an_access_and_accesses_for_it)
{
	enum { LOOKS = 100 };
	void *granted;
	struct bench b;
	pthread_t unmapper, other;

	if (!bench_open(&b)) {
		bench_close(&b);
		SKIP(no_notices);
	}
	REQUIRE(mem_watch_enter(b.near, b.memory, 1));
	REQUIRE(pthread_create(&unmapper, NULL, unmap_run, &b) == 0);
	while (atomic_load(b.near->changes) == b.near->since)
		sched_yield();
	REQUIRE(pthread_create(&other, NULL, access_run, &b) == 0);
	for (int i = 0; i < LOOKS; i++) {
		EXPECT_EQ(atomic_load(b.near->changes), b.near->since + 1);
		EXPECT(!atomic_load(&b.is_unmapped));
		sched_yield();
	}
	mem_watch_leave(b.near);
	REQUIRE(pthread_join(unmapper, NULL) == 0 && pthread_join(other, &granted) == 0);
	EXPECT(granted == NULL);
	EXPECT(!mem_watch_enter(b.near, b.memory, 1));
	mem_watch_leave(b.near);
	EXPECT(mem_watch_enter(b.near, b.memory + b.page, 1));
	mem_watch_leave(b.near);
	bench_close(&b);
}

/* As by a signal handler that interrupts an access: the access cannot end before. */
TEST(test_vmm_04_a_thread_that_unmaps_within_an_access_goes_on)
{
	struct bench b;

	if (!bench_open(&b)) {
		bench_close(&b);
		SKIP(no_notices);
	}
	REQUIRE(mem_watch_enter(b.near, b.memory, 1));
	REQUIRE(munmap(b.memory, b.page) == 0);
	mem_watch_leave(b.near);
	EXPECT(!mem_watch_enter(b.near, b.memory, 1));
	mem_watch_leave(b.near);
	bench_close(&b);
}

/* A change costs the accesses of other regions a look, until what it unmapped is forgotten. */
TEST(test_vmm_04_accesses_look_no_more_when_nothing_is_noted)
{
	struct bench b;

	if (!bench_open(&b)) {
		bench_close(&b);
		SKIP(no_notices);
	}
	REQUIRE(munmap(b.memory, b.page) == 0);
	EXPECT(mem_watch_enter(b.far, b.memory + b.page, 1));
	EXPECT(!mem_watch_enter_same(b.far));
	EXPECT(!mem_watch_enter(b.far, b.memory, 1));
	b.near->end((uintptr_t)b.memory, 2 * b.page);
	REQUIRE(mmap(b.memory, b.page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == b.memory);
	REQUIRE(b.near->begin((uintptr_t)b.memory, 2 * b.page) != 0);
	EXPECT(mem_watch_enter(b.far, b.memory, 1));
	EXPECT(mem_watch_enter_same(b.far));
	mem_watch_leave(b.far);
	REQUIRE(munmap(b.memory, b.page) == 0);
	EXPECT(!mem_watch_enter(b.far, b.memory, 1));
	mem_watch_leave(b.far);
	bench_close(&b);
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void *stack_run(void *argument)
{
	const struct bench *b = argument;
	uint8_t on_stack[64];
	uintptr_t at = (uintptr_t)on_stack;

	REQUIRE(b->near->begin(at, sizeof(on_stack)) != 0);
	b->near->end(at, sizeof(on_stack));
	return NULL;
}

/*
 * The C library keeps the stacks of threads that ended, up to 40 MiB, and unmaps the oldest when
 * the thread that reads events ends.
 */
static void stack_register(struct bench *b)
{
	const size_t kept = (size_t)39 << 20;
	pthread_attr_t large;
	pthread_t thread;

	REQUIRE(pthread_attr_init(&large) == 0 && pthread_attr_setstacksize(&large, kept) == 0);
	REQUIRE(pthread_create(&thread, &large, stack_run, b) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	pthread_attr_destroy(&large);
}

TEST(test_vmm_04_closing_waits_for_no_stack_that_was_registered)
{
	struct bench b;

	if (!bench_open(&b)) {
		bench_close(&b);
		SKIP(no_notices);
	}
	stack_register(&b);
	bench_close(&b);
}

/*
 * Holes in watched memory, more than are noted: then no page is noted as watched, and the kernel
 * still watches the stack.
 */
TEST(test_vmm_04_closing_waits_for_no_stack_that_is_noted_no_more)
{
	enum { RANGES = 5000, PAGES = 4 }; /* of which the last is not watched */
	struct bench b;
	uint8_t *memory;

	if (!bench_open(&b)) {
		bench_close(&b);
		SKIP(no_notices);
	}
	stack_register(&b);
	memory = lone_pages(RANGES * PAGES * b.page);
	for (size_t i = 0; i < RANGES; i++) {
		uintptr_t at = (uintptr_t)memory + i * PAGES * b.page;

		REQUIRE(b.near->begin(at, 3 * b.page) != 0);
		b.near->end(at, 3 * b.page);
	}
	for (size_t i = 0; i < RANGES; i++)
		REQUIRE(munmap(memory + (i * PAGES + 1) * b.page, b.page) == 0);
	bench_close(&b);
	munmap(memory, RANGES * PAGES * b.page);
}

/* ---- Threads that are given each other's addresses ------------------------------------------- */

enum { SWAPPERS = 6, SWAPS = 3000, SWAP_BYTES = 65536 };

struct swapper {
	struct mem_watch *watch;
	uint32_t refused, missed;
};

static void *swap_memory(void)
{
	void *at = mmap(NULL, SWAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	return at == MAP_FAILED ? NULL : at;
}

/*
 * Unmaps memory after its region, then memory under its region. Between a munmap() and its event
 * another thread may be given the addresses: that is neither to be taken for unmapped, nor for
 * watched.
 */
static void *swap_run(void *argument)
{
	struct swapper *s = argument;

	for (int i = 0; i < SWAPS; i++) {
		void *memory = swap_memory();
		uintptr_t at = (uintptr_t)memory;
		uint64_t since;

		REQUIRE(memory);
		since = s->watch->begin(at, SWAP_BYTES);
		REQUIRE(since != 0);
		s->refused += s->watch->were_unmapped(at, SWAP_BYTES, since);
		if (i % 2 == 0)
			s->watch->end(at, SWAP_BYTES);
		REQUIRE(munmap(memory, SWAP_BYTES) == 0);
		if (i % 2 != 0) {
			s->missed += !s->watch->were_unmapped(at, SWAP_BYTES, since);
			s->watch->end(at, SWAP_BYTES);
		}
	}
	return NULL;
}

TEST(test_vmm_04_a_change_is_of_the_memory_that_was_there)
{
	struct swapper swappers[SWAPPERS] = { 0 };
	pthread_t threads[SWAPPERS];
	struct bench b;

	if (!bench_open(&b)) {
		bench_close(&b);
		SKIP(no_notices);
	}
	for (int i = 0; i < SWAPPERS; i++) {
		swappers[i].watch = b.near;
		REQUIRE(pthread_create(&threads[i], NULL, swap_run, &swappers[i]) == 0);
	}
	for (int i = 0; i < SWAPPERS; i++) {
		REQUIRE(pthread_join(threads[i], NULL) == 0);
		EXPECT_EQ(swappers[i].refused, 0);
		EXPECT_EQ(swappers[i].missed, 0);
	}
	bench_close(&b);
}

/* mremap() of no bytes makes a second mapping of shared memory, and the first one stays. */
TEST(test_vmm_04_memory_that_is_mapped_a_second_time_stays)
{
	struct mem_watch *w = notice_open();
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *first = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);
	uint8_t *second;
	uint64_t since;

	REQUIRE(w && first != MAP_FAILED);
	since = w->begin((uintptr_t)first, page);
	if (since == 0) {
		notice_close(w);
		SKIP(no_notices);
	}
	second = mremap(first, 0, page, MREMAP_MAYMOVE);
	REQUIRE(second != MAP_FAILED && second != first);
	EXPECT(!w->were_unmapped((uintptr_t)first, page, since));
	w->end((uintptr_t)first, page);
	notice_close(w);
	munmap(first, page);
	munmap(second, page);
}

/* A process made without fork() has a copy of the descriptor, and reads no event. */
TEST(test_vmm_04_closing_leaves_nothing_to_a_copy_of_the_descriptor)
{
	struct bench b;
	enum { PATIENCE_MS = 5000 };
	int gate[2], status;
	pid_t pid;

	if (!bench_open(&b)) {
		bench_close(&b);
		SKIP(no_notices);
	}
	REQUIRE(pipe(gate) == 0);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
	REQUIRE(pid >= 0);
	if (pid == 0) {
		struct pollfd told = { gate[0], POLLIN, 0 };

		close(gate[1]);
		_exit(poll(&told, 1, PATIENCE_MS) == 1 ? 0 : 1);
	}
	b.near->end((uintptr_t)b.memory, 2 * b.page);
	b.near->since = 0;
	bench_close(&b); /* which unmaps the memory at last, and would wait for the other process */
	close(gate[1]);
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
	close(gate[0]);
}
