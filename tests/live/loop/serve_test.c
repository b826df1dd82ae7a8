/* SPDX-License-Identifier: BSD-2-Clause */
/* weft_adapter_serve(): weft's thread is the adapter, and the program makes no system call. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/loop/net.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "no_calls.h"
#include "own_network.h"

enum { ROUNDS = 10, POLLS_ENOUGH = 64 };

/* The thread sanitizer makes calls of its own in every thread. */
#if defined(__has_feature)
enum { IS_WATCHER_CALLING = __has_feature(thread_sanitizer) };
#else
enum { IS_WATCHER_CALLING = 0 };
#endif

/* Two adapters over a network; a window of the far one. */
struct served {
	struct tcp_end near, far;
	uint32_t window;
	bool is_roce;
};

static void served_open(struct served *s)
{
	tcp_end_open(&s->near);
	tcp_end_open(&s->far);
	if (s->is_roce) {
		tcp_end_open_roce(&s->near);
		tcp_end_open_roce(&s->far);
		roce_start_both(s->near.node.qp, s->far.node.qp);
	} else {
		tcp_ends_connect(&s->near, &s->far, NULL);
	}
	MUST(weft_window_alloc(s->far.node.pd, &s->window));
}

static void served_close(struct served *s)
{
	MUST(weft_window_discard(s->far.node.pd, s->window));
	tcp_end_close(&s->near);
	tcp_end_close(&s->far);
}

static void served_serve(struct served *s, bool is_served)
{
	MUST(weft_adapter_serve(s->near.adapter, is_served));
	MUST(weft_adapter_serve(s->far.adapter, is_served));
}

/* ---- What is watched: no harness, and no call but weft's ------------------------------------- */

static bool take_good(struct weft_cq *cq)
{
	uint64_t start = thread_now_ns();
	struct weft_completion c;
	bool has_completion = false;

	while (!has_completion && thread_now_ns() - start < PATIENCE_NS) {
		if (!node_poll(cq, &c, &has_completion))
			return false;
	}
	return has_completion && c.status == WEFT_SUCCESS;
}

static bool post_good(struct node *n, struct weft_send_wr *wr)
{
	return weft_qp_post_send(n->qp, wr, 1, NULL) == WEFT_OK && take_good(n->cq);
}

static bool bind_and_write(struct served *s)
{
	struct node *near = &s->near.node, *far = &s->far.node;
	const struct weft_sge source = node_seg(near, 0, 8);
	struct weft_send_wr bind = { .opcode = WEFT_OP_BIND, .flags = WEFT_SIGNALLED }, wr;

	bind.bind = (struct weft_bind){
		.window_tag = s->window,
		.region_tag = far->tag,
		.addr = (uintptr_t)far->memory,
		.length = 8,
		.rights = WEFT_REMOTE_WRITE | WEFT_REMOTE_READ,
	};
	if (!post_good(far, &bind))
		return false;
	wr = node_wr(WEFT_OP_WRITE, 1, &source, far);
	wr.remote_tag = bind.bind.tag;
	if (!post_good(near, &wr))
		return false;
	wr.opcode = WEFT_OP_READ; /* its answer says that the Write has arrived */
	if (!post_good(near, &wr))
		return false;
	bind.opcode = WEFT_OP_INVALIDATE;
	bind.invalidate_tag = bind.bind.tag;
	return post_good(far, &bind);
}

static bool post_and_poll(struct served *s)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_FETCH_ADD,
						    WEFT_OP_SEND };
	struct node *near = &s->near.node, *far = &s->far.node;

	for (unsigned int i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		const struct weft_sge source = node_seg(near, 0, 8), sink = node_seg(far, 64, 8);
		const struct weft_recv_wr recv = { .id = 2, .sges = &sink, .sge_count = 1 };
		struct weft_send_wr wr = node_wr(opcodes[i], 1, &source, far);
		bool is_message = opcodes[i] == WEFT_OP_SEND;

		if (is_message && weft_qp_post_recv(far->qp, &recv, 1, NULL) != WEFT_OK)
			return false;
		if (!post_good(near, &wr) || (is_message && !take_good(far->cq)))
			return false;
	}
	return bind_and_write(s);
}

static void *watched_run(void *context)
{
	struct served *s = context;
	int status = NO_CALLS_GOOD;

	if (!forbid_calls())
		leave(NO_CALLS_NONE);
	for (int i = 0; i < ROUNDS && status == NO_CALLS_GOOD; i++)
		status = post_and_poll(s) ? NO_CALLS_GOOD : NO_CALLS_FAILED;
	leave(status);
	return NULL;
}

/* In a child, which a call that is not allowed ends. */
static void child_run(void *context)
{
	struct served *s = context;
	pthread_t thread;

	served_open(s);
	if (!post_and_poll(s)) /* the program is loaded whole, the pages are there */
		leave(NO_CALLS_FAILED);
	served_serve(s, true);
	if (post_and_poll(s) && pthread_create(&thread, NULL, watched_run, s) == 0)
		pthread_join(thread, NULL); /* the thread ends the process */
	leave(NO_CALLS_FAILED);
}

static void expect_no_calls(bool is_roce)
{
	const char *why_not = IS_WATCHER_CALLING ? "the sanitizer makes calls"
						 : own_network_enter();
	struct served s = { .is_roce = is_roce };
	int status;

	if (!why_not)
		why_not = no_calls_why_not();
	if (why_not)
		SKIP(why_not);
	status = child_status(child_run, &s);
	EXPECT(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS));
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), NO_CALLS_GOOD);
}

TEST(test_qp_16_rkey_04_a_served_program_makes_no_system_call_over_udp)
{
	expect_no_calls(true);
}

TEST(test_qp_16_rkey_04_a_served_program_makes_no_system_call_over_tcp)
{
	expect_no_calls(false);
}

/* Served and not, in turns: requests go on, and what sleeps on the sockets is refused. */
TEST(test_qp_16_an_adapter_is_served_or_driven)
{
	const char *why_not = own_network_enter();
	struct served s = { .is_roce = true };
	bool is_ready;

	if (why_not)
		SKIP(why_not);
	served_open(&s);
	for (int i = 0; i < 3; i++) {
		served_serve(&s, true);
		served_serve(&s, true);
		REQUIRE(post_and_poll(&s));
		EXPECT_EQ(weft_cq_wait(s.near.node.cq, -1, 0, &is_ready), WEFT_R_BUSY);
		EXPECT_EQ(weft_adapter_drive(s.near.adapter, true), WEFT_R_BUSY);
		served_serve(&s, false);
		REQUIRE(post_and_poll(&s));
		MUST(weft_cq_wait(s.near.node.cq, -1, 0, &is_ready));
	}
	MUST(weft_adapter_drive(s.near.adapter, true));
	EXPECT_EQ(weft_adapter_serve(s.near.adapter, true), WEFT_R_BUSY);
	MUST(weft_adapter_drive(s.near.adapter, false));
	MUST(weft_adapter_serve(s.near.adapter, true)); /* it is closed while it is served */
	served_close(&s);
}

/* Whether the thread has left the sockets to the program's polls. */
static bool is_standing_by(struct weft_adapter *a)
{
	bool is_it;

	adapter_enter(a);
	is_it = a->net->state == PROGRESS_STANDING_BY;
	adapter_leave(a);
	return is_it;
}

/* The thread stands by, and hears of enough polls to go on so, when it is told to serve. */
TEST(test_qp_16_a_thread_that_stands_by_can_serve)
{
	const char *why_not = own_network_enter();
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct served s = { .is_roce = true };
	struct weft_completion c;
	bool has_completion;

	if (why_not)
		SKIP(why_not);
	served_open(&s);
	for (int i = 0; i < ROUNDS; i++) {
		do {
			REQUIRE(thread_now_ns() < end_ns);
			REQUIRE(post_and_poll(&s));
		} while (!is_standing_by(s.near.adapter));
		for (int polls = 0; polls < POLLS_ENOUGH; polls++)
			REQUIRE(node_poll(s.near.node.cq, &c, &has_completion) && !has_completion);
		MUST(weft_adapter_serve(s.near.adapter, true));
		REQUIRE(post_and_poll(&s));
		MUST(weft_adapter_serve(s.near.adapter, false));
	}
	served_close(&s);
}

/* A thread that asks for a lock which another holds. */
struct asker {
	struct served *s;
	atomic_int thread; /* 0: it has not begun */
	bool is_good;
};

static void *asker_run(void *context)
{
	struct asker *asker = context;
	struct weft_completion c;
	bool has_completion;

	atomic_store(&asker->thread, gettid());
	asker->is_good = node_poll(asker->s->near.node.cq, &c, &has_completion) && !has_completion;
	return NULL;
}

static bool is_asleep(int thread)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	f = fopen(path, "r");
	REQUIRE(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
	fclose(f);
	return state == 'S';
}

/* A holder of the lock may be kept from running, by the very thread that asks for it. */
TEST(test_qp_16_a_thread_that_asks_in_vain_lets_others_run)
{
	const char *why_not = own_network_enter();
	struct served s = { .is_roce = true };
	struct asker asker = { .s = &s };
	uint64_t end_ns;
	pthread_t thread;

	if (why_not)
		SKIP(why_not);
	served_open(&s);
	served_serve(&s, true);
	adapter_enter(s.near.adapter);
	REQUIRE(pthread_create(&thread, NULL, asker_run, &asker) == 0);
	end_ns = thread_now_ns() + PATIENCE_NS;
	while (atomic_load(&asker.thread) == 0 || !is_asleep(atomic_load(&asker.thread)))
		REQUIRE(thread_now_ns() < end_ns);
	adapter_leave(s.near.adapter);
	REQUIRE(pthread_join(thread, NULL) == 0);
	EXPECT(asker.is_good);
	REQUIRE(post_and_poll(&s));
	served_close(&s);
}
