/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs programs that are served: weft's thread does all of the work, and a thread that may make no
 * system call posts and polls.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft_dv.h>

#include "no_calls.h"
#include "test.h"
#include "unit/compat/qp_fixture.h"
#include "unit/compat/roce_fixture.h"

enum { ROUNDS = 10, PATIENCE_S = 60 };

/* The thread sanitizer makes calls of its own in every thread. */
#if defined(__has_feature)
enum { IS_WATCHER_CALLING = __has_feature(thread_sanitizer) };
#else
enum { IS_WATCHER_CALLING = 0 };
#endif

/* What the watched thread uses: two connected queue pairs, and memory of each. */
struct served {
	struct ibv_qp *near, *far;
	struct ibv_mr *near_mr, *far_mr;
};

/* ---- What is watched: no harness, and no call but those of verbs ----------------------------- */

static bool take_good(struct ibv_cq *cq)
{
	time_t until = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	int n = 0;

	while (n == 0 && time(NULL) < until)
		n = ibv_poll_cq(cq, 1, &wc);
	return n == 1 && wc.status == IBV_WC_SUCCESS;
}

static bool post_good(const struct served *s, enum ibv_wr_opcode opcode)
{
	struct ibv_sge from = { (uintptr_t)s->near_mr->addr, 8, s->near_mr->lkey };
	struct ibv_sge into = { (uintptr_t)s->far_mr->addr + 64, 8, s->far_mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &into, .num_sge = 1 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &from,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)s->far_mr->addr, s->far_mr->rkey },
	};
	bool is_message = opcode == IBV_WR_SEND;

	if (is_message && ibv_post_recv(s->far, &recv, &bad_recv) != 0)
		return false;
	return ibv_post_send(s->near, &wr, &bad) == 0 && take_good(s->near->send_cq) &&
	       (!is_message || take_good(s->far->recv_cq));
}

static bool post_and_poll(const struct served *s)
{
	return post_good(s, IBV_WR_RDMA_WRITE) && post_good(s, IBV_WR_RDMA_READ) &&
	       post_good(s, IBV_WR_SEND);
}

static void *watched_run(void *context)
{
	int status = NO_CALLS_GOOD;

	if (!forbid_calls())
		leave(NO_CALLS_NONE);
	for (int i = 0; i < ROUNDS && status == NO_CALLS_GOOD; i++)
		status = post_and_poll(context) ? NO_CALLS_GOOD : NO_CALLS_FAILED;
	leave(status);
	return NULL;
}

/* ---- In a child, which a call that is not allowed ends --------------------------------------- */

static void watch(struct served *s)
{
	pthread_t thread;

	/* Before: the program is loaded whole, the pages are there. */
	if (post_and_poll(s) && pthread_create(&thread, NULL, watched_run, s) == 0)
		pthread_join(thread, NULL); /* the thread ends the process */
	leave(NO_CALLS_FAILED);
}

static void run_roce(void)
{
	struct served s;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	s = (struct served){ r.near.qp, r.far.qp, r.near.mr, r.far.mr };
	watch(&s);
}

static void run_iwarp(void)
{
	struct served s;
	struct qp_pair p;

	qp_pair_make(&p, NULL);
	s = (struct served){ p.near.qp, p.far.qp, p.near.mr, p.far.mr };
	watch(&s);
}

static void wished_roce(void *context)
{
	(void)context;
	harness_in_child();
	REQUIRE(setenv("WEFT_SERVE", "on", 1) == 0);
	run_roce();
}

static void wished_iwarp(void *context)
{
	(void)context;
	harness_in_child();
	REQUIRE(setenv("WEFT_SERVE", "on", 1) == 0);
	run_iwarp();
}

/* The program asks for it itself, with a device of its own. */
static void asked_for(void *context)
{
	const struct weftdv_device_attr served = { .is_served = true };
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)context;
	harness_in_child();
	REQUIRE(list && list[0] && weftdv_device_open(list[0], &served));
	run_roce();
}

/* Not served: so the watcher would see calls. */
static void not_served(void *context)
{
	(void)context;
	harness_in_child();
	run_roce();
}

static void expect_calls(void (*run)(void *context), bool are_made)
{
	const char *why_not = IS_WATCHER_CALLING ? "the sanitizer makes calls" : no_calls_why_not();
	int status;

	if (why_not)
		SKIP(why_not);
	status = child_status(run, NULL);
	EXPECT_EQ(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, are_made);
	if (are_made)
		return;
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), NO_CALLS_GOOD);
}

TEST(test_qp_16_weft_serve_posts_and_polls_without_system_calls_roce)
{
	expect_calls(wished_roce, false);
}

TEST(test_qp_16_weft_serve_posts_and_polls_without_system_calls_iwarp)
{
	expect_calls(wished_iwarp, false);
}

TEST(test_qp_16_weftdv_device_open_served_makes_no_system_calls)
{
	expect_calls(asked_for, false);
}

TEST(test_weft_serve_off_makes_system_calls)
{
	expect_calls(not_served, true);
}
