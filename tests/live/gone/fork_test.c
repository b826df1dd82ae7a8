/* SPDX-License-Identifier: BSD-2-Clause */
/* fork() while other threads give registered memory back, or open and close adapters. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/verbs_fixture.h"

enum { FORKS = 300, BYTES = 1 << 16, LATEST_S = 60 };

static struct weft_adapter *adapter;
static struct weft_pd *pd;
static atomic_bool is_over;

/*
 * A lock that fork() takes after weft's locks, as it does those of the C library's heap: handlers
 * run in the reverse order of their registration.
 */
static pthread_mutex_t latest = PTHREAD_MUTEX_INITIALIZER;

static void latest_lock(void)
{
	pthread_mutex_lock(&latest);
}

static void latest_unlock(void)
{
	pthread_mutex_unlock(&latest);
}

__attribute__((constructor)) static void register_first(void)
{
	REQUIRE(pthread_atfork(latest_lock, latest_unlock, latest_unlock) == 0);
}

/* As the heap shrinks in free(): the memory was registered, and the lock is held. */
static void give_back(void)
{
	struct weft_region_options o = { .length = BYTES, .rights = WEFT_LOCAL_READ };
	void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	uint32_t tag;

	REQUIRE(memory != MAP_FAILED);
	o.addr = (uintptr_t)memory;
	MUST(weft_region_register(pd, &o, &tag));
	MUST(weft_region_deregister(pd, tag));
	latest_lock();
	REQUIRE(munmap(memory, BYTES) == 0);
	latest_unlock();
}

static void open_and_close(void)
{
	struct weft_adapter *other;

	MUST(weft_adapter_open(&node_tables, &other));
	MUST(weft_adapter_close(other));
}

static void (*in_child)(void);

static void *fork_often(void *context)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		int status = -1;

		REQUIRE(child >= 0);
		if (child == 0) {
			alarm(LATEST_S);
			in_child();
			_exit(0);
		}
		REQUIRE(waitpid(child, &status, 0) == child);
		REQUIRE(status == 0);
	}
	atomic_store(&is_over, true);
	return context;
}

/* In a process of its own, which ends by the alarm if it hangs. */
static void fork_beside(void (*work)(void))
{
	pthread_t thread;

	alarm(LATEST_S);
	MUST(weft_adapter_open(&node_tables, &adapter));
	MUST(weft_pd_create(adapter, NULL, &pd));
	REQUIRE(pthread_create(&thread, NULL, fork_often, NULL) == 0);
	while (!atomic_load(&is_over))
		work();
	pthread_join(thread, NULL);
	_exit(0);
}

static void expect_to_end(void (*work)(void), void (*then)(void))
{
	pid_t child = fork();
	int status = -1;

	REQUIRE(child >= 0);
	in_child = then;
	if (child == 0)
		fork_beside(work);
	REQUIRE(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
}

static void do_nothing(void)
{
}

TEST(test_vmm_04_fork_waits_for_no_thread_that_gives_memory_back)
{
	expect_to_end(give_back, do_nothing);
}

TEST(test_vmm_04_child_of_a_fork_beside_an_opening_adapter_opens_its_own)
{
	if (IS_SANITIZED)
		SKIP("in a child of such a fork() a sanitizer's heap may be locked");
	expect_to_end(open_and_close, open_and_close);
}
