/* SPDX-License-Identifier: BSD-2-Clause */
/* What only loopback can show: connecting two queue pairs of one adapter, and no system calls. */
#include <signal.h>

#include "conformance.h"
#include "no_calls.h"

TEST(test_qp_15_two_queue_pairs_of_one_adapter)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_qp *qp, *uc, *ud, *other;

	pair_open(&p, NULL);
	qp = end_qp_create(a, WEFT_RC);
	other = end_qp_create(a, WEFT_RC);
	uc = end_qp_create(a, WEFT_UC);
	ud = end_qp_create(a, WEFT_UD);
	EXPECT_EQ(weft_qp_connect(qp, qp), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_qp_connect(qp, uc), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_qp_connect(ud, ud), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_qp_connect(qp, a->qp), WEFT_R_QP_CONNECTED);
	EXPECT_EQ(weft_qp_connect(a->qp, qp), WEFT_R_QP_CONNECTED);
	EXPECT_EQ(weft_qp_connect(NULL, qp), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_connect(qp, NULL), WEFT_R_NULL_ARGUMENT);
	MUST(weft_qp_modify(other, &(struct weft_qp_attr){ .state = WEFT_QPS_ERROR },
			    WEFT_QP_STATE));
	EXPECT_EQ(weft_qp_connect(qp, other), WEFT_R_QP_STATE);
	MUST(weft_qp_modify(other, &(struct weft_qp_attr){ .state = WEFT_QPS_RESET },
			    WEFT_QP_STATE));
	MUST(weft_qp_modify(qp, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT }, WEFT_QP_STATE));
	MUST(weft_qp_connect(qp, other)); /* one in INIT, one in RESET */
	MUST(weft_qp_destroy(qp));
	MUST(weft_qp_destroy(other));
	MUST(weft_qp_destroy(uc));
	MUST(weft_qp_destroy(ud));
	pair_close(&p);
}

/* Both ends in one domain, over one completion queue: it may talk to itself. */
TEST(test_qp_15_one_domain_for_both_ends)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_qp *x, *y;
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	x = end_qp_create(a, WEFT_RC);
	y = end_qp_create(a, WEFT_RC);
	MUST(weft_qp_connect(x, y));
	end_fill(a, SRC, 64, 1);
	s = end_seg(a, SRC, 64);
	wr = wr_make(WEFT_OP_WRITE, 1, &s, 1);
	wr.remote_tag = a->tag;
	wr.remote_addr = a->addr + DST;
	MUST(weft_qp_post_send(x, &wr, 1, NULL));
	EXPECT_EQ(end_take(a, a->send_cq).status, WEFT_SUCCESS);
	end_holds(a, DST, 64, 1);
	/* Overlapping source and target: as if moved in one go. */
	wr.remote_addr = a->addr + SRC + 7;
	MUST(weft_qp_post_send(x, &wr, 1, NULL));
	EXPECT_EQ(end_take(a, a->send_cq).status, WEFT_SUCCESS);
	end_holds(a, SRC + 7, 64, 1);
	MUST(weft_qp_destroy(x));
	MUST(weft_qp_destroy(y));
	pair_close(&p);
}

/* A peer that has since been connected to another queue pair is not reached any more. */
TEST(test_qp_12_qp_15_messages_for_a_former_peer_are_lost)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_qp *other;
	struct weft_send_wr wr;

	pair_open(&p, &(struct pair_options){ .service = WEFT_UC });
	other = end_qp_create(a, WEFT_UC);
	end_modify(b, WEFT_QPS_RESET); /* without acknowledgements the sender is not told */
	EXPECT_EQ(end_query(a).state, WEFT_QPS_RTS);
	MUST(weft_qp_connect(b->qp, other));
	end_post_recv(b, 1, DST, 8);
	wr = end_wr(a, WEFT_OP_SEND, 2, NULL, 0);
	end_succeeds(a, &wr);
	pair_quiet(&p);
	EXPECT_EQ(end_query(b).recv_queued, 1);
	wr.id = 3;
	MUST(weft_qp_post_send(other, &wr, 1, NULL));
	EXPECT_EQ(end_take(b, b->recv_cq).id, 1);
	EXPECT_EQ(end_take(a, a->send_cq).id, 3);
	MUST(weft_qp_destroy(other));
	pair_close(&p);
}

TEST(test_qp_01_a_queue_pair_belongs_to_one_adapter)
{
	struct pair p, q;
	struct pair_end *a = &p.ends[0], *c = &q.ends[0];
	struct weft_qp_options o = { 0 };
	struct weft_qp *qp, *far;

	pair_open(&p, NULL);
	pair_open(&q, &(struct pair_options){ .has_srq = true });
	o.send_cq = c->send_cq;
	o.recv_cq = a->recv_cq;
	EXPECT_EQ(weft_qp_create(a->pd, &o, &qp), WEFT_R_BAD_ARGUMENT);
	o.send_cq = a->send_cq;
	o.recv_cq = c->recv_cq;
	EXPECT_EQ(weft_qp_create(a->pd, &o, &qp), WEFT_R_BAD_ARGUMENT);
	o.recv_cq = a->recv_cq;
	o.srq = q.ends[1].srq;
	EXPECT_EQ(weft_qp_create(a->pd, &o, &qp), WEFT_R_BAD_ARGUMENT);
	qp = end_qp_create(a, WEFT_RC);
	far = end_qp_create(c, WEFT_RC);
	EXPECT_EQ(weft_qp_connect(qp, far), WEFT_R_BAD_ARGUMENT);
	MUST(weft_qp_destroy(qp));
	MUST(weft_qp_destroy(far));
	pair_close(&q);
	pair_close(&p);
}

/* ---- QP-16 ---------------------------------------------------------------------------------- */

enum { ROUNDS = 200 };

/* Polls until something arrives; false if it failed. Bound: loopback completes without waiting. */
static bool poll_good(struct weft_cq *cq)
{
	struct weft_completion c;
	uint32_t count = 0;

	for (int i = 0; i < 1000 && count == 0; i++) {
		if (weft_cq_poll(cq, &c, 1, &count) != WEFT_OK)
			return false;
	}
	return count == 1 && c.status == WEFT_SUCCESS;
}

/* RKEY-04: a window is bound, serves the peer, and is unbound. */
static bool bind_and_poll(struct pair *p, uint32_t window)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	const struct weft_sge s = end_seg(a, SRC, 8);
	struct weft_send_wr use = end_wr(a, WEFT_OP_WRITE, 3, &s, DST);
	struct weft_send_wr wr = wr_make(WEFT_OP_BIND, 4, NULL, 0);

	wr.bind = (struct weft_bind){
		.window_tag = window,
		.region_tag = b->tag,
		.addr = b->addr + DST,
		.length = 8,
		.rights = WEFT_REMOTE_WRITE,
	};
	if (weft_qp_post_send(b->qp, &wr, 1, NULL) != WEFT_OK || !poll_good(b->send_cq))
		return false;
	use.remote_tag = wr.bind.tag;
	if (weft_qp_post_send(a->qp, &use, 1, NULL) != WEFT_OK || !poll_good(a->send_cq))
		return false;
	wr.opcode = WEFT_OP_INVALIDATE;
	wr.invalidate_tag = wr.bind.tag;
	return weft_qp_post_send(b->qp, &wr, 1, NULL) == WEFT_OK && poll_good(b->send_cq);
}

/* Every kind of request of the fast path. No harness here: it runs where no call is allowed. */
static bool post_and_poll(struct pair *p, uint32_t window)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_FETCH_ADD,
						    WEFT_OP_SEND, WEFT_OP_WRITE_IMM };
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];

	for (unsigned int i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		const struct weft_sge s = end_seg(a, SRC, 8), t = end_seg(b, DST + 64, 8);
		const struct weft_recv_wr recv = { .id = 2, .sges = &t, .sge_count = 1 };
		struct weft_send_wr wr = end_wr(a, opcodes[i], 1, &s, DST);
		bool is_message = opcodes[i] == WEFT_OP_SEND || opcodes[i] == WEFT_OP_WRITE_IMM;

		if (is_message && weft_qp_post_recv(b->qp, &recv, 1, NULL) != WEFT_OK)
			return false;
		if (weft_qp_post_send(a->qp, &wr, 1, NULL) != WEFT_OK || !poll_good(a->send_cq))
			return false;
		if (is_message && !poll_good(b->recv_cq))
			return false;
	}
	return bind_and_poll(p, window);
}

struct watched {
	struct pair p;
	uint32_t window;
};

static void child_run(void *context)
{
	struct watched *w = context;

	if (!forbid_calls())
		leave(NO_CALLS_NONE);
	for (int i = 0; i < ROUNDS; i++) {
		if (!post_and_poll(&w->p, w->window))
			leave(NO_CALLS_FAILED);
	}
	leave(NO_CALLS_GOOD);
}

TEST(test_qp_16_rkey_04_posting_and_polling_make_no_system_call)
{
	const char *why_not = no_calls_why_not();
	static struct watched w;
	int status;

	if (why_not)
		SKIP(why_not);
	pair_open(&w.p, NULL);
	MUST(weft_window_alloc(w.p.ends[1].pd, &w.window));
	/* The program is loaded whole, the pages are there. */
	EXPECT(post_and_poll(&w.p, w.window));
	status = child_status(child_run, &w);
	MUST(weft_window_discard(w.p.ends[1].pd, w.window));
	pair_close(&w.p);
	EXPECT(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS));
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), NO_CALLS_GOOD);
}
