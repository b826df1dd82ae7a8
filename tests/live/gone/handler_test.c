/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-04: a program that installs a handler of its own while adapters are open. The adapters notice
 * it before they access memory once their last look is old, in any thread.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "live/gone/ends.h"
#include "own_network.h"

/* The thread that works for the adapters. */
enum worker { OF_WEFT, THAT_SERVES, THAT_POLLS, THAT_DRIVES };

static struct tcp_end near, far;
static struct weft_pd *owner; /* of the memory: of the far end, or of the near one */
static uint8_t *memory;
static uint32_t tag;

static void memory_open(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct weft_region_options o = { .length = page,
					 .rights = WEFT_REMOTE_READ | WEFT_LOCAL_READ };

	memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(memory != MAP_FAILED);
	o.addr = (uintptr_t)memory;
	MUST(weft_region_register(owner, &o, &tag));
	REQUIRE(mprotect(memory, page, PROT_NONE) == 0);
}

static void memory_close(void)
{
	MUST(weft_region_deregister(owner, tag));
	munmap(memory, (size_t)sysconf(_SC_PAGESIZE));
}

/* The fault was weft's to handle: the access goes well, which is not expected. */
static void own_handler(int number)
{
	(void)number;
	mprotect(memory, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
}

/* Of the near end's request. The program works for the far end too, or leaves it to weft. */
static struct weft_completion next_completion(enum worker worker)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct weft_completion c = { 0 };
	bool has = false;

	while (!has) {
		REQUIRE(thread_now_ns() < end_ns);
		if (worker >= THAT_POLLS)
			REQUIRE(node_poll(far.node.cq, &c, &has) && !has);
		REQUIRE(node_poll(near.node.cq, &c, &has));
	}
	return c;
}

/* Between two calls into weft the program takes longer than a look is good for. */
static void let_look_grow_old(void)
{
	uint64_t end_ns = thread_now_ns() + UINT64_C(150) * 1000 * 1000;

	while (thread_now_ns() < end_ns)
		sched_yield();
}

static void serve(bool is_served)
{
	MUST(weft_adapter_serve(near.adapter, is_served));
	MUST(weft_adapter_serve(far.adapter, is_served));
}

static void expect_noticed(enum transport transport, enum worker worker, bool is_far)
{
	struct sigaction a = { .sa_handler = own_handler }, was;
	struct weft_send_wr wr;
	struct weft_sge s;

	ends_open(transport, &near, &far);
	owner = is_far ? far.node.pd : near.node.pd;
	memory_open();
	if (worker == THAT_DRIVES) {
		MUST(weft_adapter_drive(near.adapter, true));
		MUST(weft_adapter_drive(far.adapter, true));
	} else if (worker == THAT_SERVES) {
		serve(true);
	}
	REQUIRE(sigaction(SIGSEGV, &a, &was) == 0);
	let_look_grow_old();
	s = is_far ? node_seg(&near.node, 0, 64) : (struct weft_sge){ (uintptr_t)memory, 64, tag };
	wr = node_wr(is_far ? WEFT_OP_READ : WEFT_OP_WRITE, 1, &s, &far.node);
	if (is_far) {
		wr.remote_addr = (uintptr_t)memory;
		wr.remote_tag = tag;
	}
	REQUIRE(node_post(&near.node, &wr));
	MUST_EQ(next_completion(worker).status,
		is_far ? WEFT_ERR_REMOTE_ACCESS : WEFT_ERR_LOCAL_ACCESS);
	if (worker == THAT_SERVES)
		serve(false);
	memory_close();
	ends_close(transport, &near, &far);
	sigaction(SIGSEGV, &was, NULL);
}

static void expect_all_noticed(enum transport transport)
{
	for (int far_too = 0; far_too < 2; far_too++) {
		expect_noticed(transport, OF_WEFT, far_too);
		expect_noticed(transport, THAT_POLLS, far_too);
		if (transport != IN_PROCESS)
			expect_noticed(transport, THAT_DRIVES, far_too);
	}
}

TEST(test_vmm_04_a_new_handler_is_noticed_over_tcp)
{
	expect_all_noticed(OVER_TCP);
}

TEST(test_vmm_04_a_new_handler_is_noticed_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	expect_all_noticed(OVER_UDP);
}

TEST(test_vmm_04_a_new_handler_is_noticed_in_one_process)
{
	expect_all_noticed(IN_PROCESS);
}

TEST(test_vmm_04_a_new_handler_is_noticed_by_a_thread_that_serves)
{
	expect_noticed(OVER_TCP, THAT_SERVES, true);
}
