/* SPDX-License-Identifier: BSD-2-Clause */
/* Send with invalidate (SQR-09, SQR-10) and the two answers to a local failure (SQR-06). */
#include "conformance.h"

enum { PAGE = 4096, ALL_REMOTE = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC };

/* A Send from a that asks the peer to give up a tag; the peer has a receive. */
static struct weft_send_wr invalidate_wr(struct pair_end *a, const struct weft_sge *s, uint32_t tag)
{
	struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND_INVALIDATE, 1, s, 0);

	wr.invalidate_tag = tag;
	return wr;
}

TEST(test_sqr_09_a_send_takes_a_window_away_before_its_completion)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	struct weft_completion c;

	pair_open(&p, NULL);
	for (int round = 0; round < 3; round++) {
		uint32_t tag = end_bind(b, DST, 64, ALL_REMOTE);

		end_post_recv(b, 2, SRC, 8);
		s = end_seg(a, SRC, 8);
		wr = invalidate_wr(a, &s, tag);
		end_post(a, &wr);
		c = end_received(b, 2);
		EXPECT(c.has_invalidated && !c.has_imm);
		EXPECT_EQ(c.invalidated_tag, tag);
		EXPECT_EQ(weft_window_unbind(b->pd, tag), WEFT_R_WINDOW_UNBOUND);
		end_sent(a, 1);
		wr = end_wr(a, WEFT_OP_WRITE, 3, &s, DST);
		wr.remote_tag = tag;
		end_refused(a, &wr, WEFT_R_TAG_INVALID);
		pair_revive(&p);
		MUST(weft_window_free(b->pd, tag));
	}
	pair_close(&p);
}

/* The tag is refused, the message is not delivered, nothing has been deregistered. */
static void invalidate_refused(struct pair *p, uint32_t tag, enum weft_reason reason)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	struct weft_usage before, after;
	struct weft_sge s = end_seg(a, SRC, 8);
	struct weft_send_wr wr = invalidate_wr(a, &s, tag);

	pair_blank(p);
	end_fill(a, SRC, 8, 1);
	MUST(weft_adapter_query(b->adapter, &before));
	end_post_recv(b, 2, DST + 4096, 8);
	end_refused(a, &wr, reason);
	end_recvs_flushed(b, 2, 2);
	end_is_blank(b, DST + 4096, 8);
	MUST(weft_adapter_query(b->adapter, &after));
	MUST_EQ(after.regions, before.regions);
	MUST_EQ(after.windows, before.windows);
	MUST_EQ(after.tags_free, before.tags_free);
	pair_revive(p);
}

TEST(test_sqr_10_a_tag_that_may_not_be_invalidated)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_region_options o = { .length = 64, .rights = ALL_REMOTE | WEFT_BIND };
	struct weft_bind theirs = { .length = 64, .rights = WEFT_REMOTE_READ };
	struct weft_pd *other;
	uint32_t tag, region;
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	tag = end_bind(b, DST, 64, ALL_REMOTE);
	invalidate_refused(&p, tag ^ 1, WEFT_R_TAG_INSTANCE);
	invalidate_refused(&p, 0xffffff00, WEFT_R_TAG_INDEX);
	invalidate_refused(&p, 0, WEFT_R_TAG_INVALID);
	invalidate_refused(&p, b->tag, WEFT_R_INVALIDATE_REGION);
	MUST(weft_pd_create(b->adapter, NULL, &other));
	o.addr = b->addr + DST;
	MUST(weft_region_register(other, &o, &region));
	MUST(weft_window_alloc(other, &theirs.window_tag));
	theirs.region_tag = region;
	theirs.addr = o.addr;
	MUST(weft_window_bind(other, &theirs));
	invalidate_refused(&p, theirs.tag, WEFT_R_TAG_PD);
	MUST(weft_window_unbind(other, theirs.tag)); /* still bound until now */
	MUST(weft_window_free(other, theirs.tag));
	MUST(weft_region_deregister(other, region));
	MUST(weft_pd_destroy(other));
	/* After all that the peer's own window is as it was. */
	s = end_seg(a, SRC, 8);
	wr = end_wr(a, WEFT_OP_WRITE, 3, &s, DST);
	wr.remote_tag = tag;
	end_succeeds(a, &wr);
	MUST(weft_window_unbind(b->pd, tag));
	invalidate_refused(&p, tag, WEFT_R_TAG_INVALID);
	MUST(weft_window_free(b->pd, tag));
	pair_close(&p);
}

TEST(test_sqr_10_a_window_of_another_queue_pair)
{
	static struct pair p, q;
	struct pair_end *b = &p.ends[1];
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	pair_open(&q, &(struct pair_options){ .beside = &p });
	wr = wr_make(WEFT_OP_BIND, 1, NULL, 0);
	wr.bind = (struct weft_bind){
		.region_tag = b->tag,
		.addr = b->addr,
		.length = 64,
		.rights = WEFT_REMOTE_WRITE,
		.is_qp_bound = true,
	};
	MUST(weft_window_alloc(b->pd, &wr.bind.window_tag));
	end_succeeds(b, &wr);
	invalidate_refused(&q, wr.bind.tag, WEFT_R_TAG_QP);
	MUST(weft_window_unbind(b->pd, wr.bind.tag));
	MUST(weft_window_free(b->pd, wr.bind.tag));
	pair_close(&q);
	pair_close(&p);
}

TEST(test_sqr_10_local_invalidate_obeys_the_same_rules)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_send_wr wr;
	uint32_t tag;

	pair_open(&p, &(struct pair_options){ .on_failure = WEFT_FAIL_DRAIN });
	tag = end_bind(a, DST, 64, ALL_REMOTE);
	const struct {
		uint32_t tag;
		enum weft_reason reason;
	} bad[] = {
		{ tag ^ 1, WEFT_R_TAG_INSTANCE },
		{ 0xffffff00, WEFT_R_TAG_INDEX },
		{ 0, WEFT_R_TAG_INVALID },
		{ a->tag, WEFT_R_INVALIDATE_REGION },
	};
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		wr = wr_make(WEFT_OP_INVALIDATE, i, NULL, 0);
		wr.invalidate_tag = bad[i].tag;
		end_post(a, &wr);
		end_send_failed(a, i, WEFT_ERR_BIND, bad[i].reason);
		end_await(a, WEFT_QPS_SQE);
		end_modify(a, WEFT_QPS_RTS);
	}
	end_unbind(a, tag); /* still bound */
	pair_close(&p);
}

/* ---- SQR-06: what a failing registration does to the rest ----------------------------------- */

enum {
	GOOD = 1, /* ids of a's send queue, in order */
	BAD,
	LATER_WRITE,
	LATER_SEND,
	LAST,
	RECV = 10, /* of either end: two receives */
};

/* A pair whose table has no room for translations, and the requests of SQR-S3. */
struct full {
	struct pair p;
	uint64_t page[1];
	struct weft_page_list list;
	uint32_t filler;
	struct weft_sge sges[3];
	struct weft_send_wr wrs[LAST];
};

static void full_open(struct full *f, enum weft_failure on_failure)
{
	struct weft_region_options o = { .length = PAGE, .va = PAGE, .rights = WEFT_REMOTE_READ };
	struct pair_end *a = &f->p.ends[0], *b = &f->p.ends[1];

	pair_open(&f->p, &(struct pair_options){ .is_privileged = true,
						 .on_failure = on_failure,
						 .translations_max = 1 });
	f->page[0] = a->addr;
	f->list = (struct weft_page_list){ .pages = f->page, .count = 1, .page_size_bytes = PAGE };
	o.pages = &f->list;
	MUST(weft_region_register(a->pd, &o, &f->filler));
	for (uint32_t i = 0; i < 3; i++) {
		end_fill(a, SRC + i * 100, 100, i);
		f->sges[i] = end_seg(a, SRC + (uint64_t)i * 100, 100);
	}
	f->wrs[0] = end_wr(a, WEFT_OP_WRITE, GOOD, &f->sges[0], DST);
	f->wrs[1] = wr_make(WEFT_OP_REGISTER, BAD, NULL, 0);
	f->wrs[1].reg.region = o;
	f->wrs[2] = end_wr(a, WEFT_OP_WRITE, LATER_WRITE, &f->sges[1], DST + 100);
	f->wrs[3] = end_wr(a, WEFT_OP_SEND, LATER_SEND, &f->sges[2], 0);
	f->wrs[4] = end_wr(a, WEFT_OP_WRITE, LAST, &f->sges[2], DST + 200);
	f->wrs[4].flags = 0; /* flushed requests complete, signalled or not */
	for (uint64_t id = RECV; id < RECV + 2; id++) {
		end_post_recv(a, id, DST + 4096, 100);
		end_post_recv(b, id, DST + 4096, 100);
	}
	MUST(weft_qp_post_send(a->qp, f->wrs, LAST, NULL));
}

/* What both options have in common: one good, one error, the rest flushed, nothing moved. */
static void full_failed(struct full *f, enum weft_qp_state state)
{
	struct weft_event event;
	struct pair_end *a = &f->p.ends[0], *b = &f->p.ends[1];

	end_sent(a, GOOD);
	end_send_failed(a, BAD, WEFT_ERR_REGISTER, WEFT_R_SQR_SPACE);
	end_sends_flushed(a, LATER_WRITE, LAST);
	end_holds(b, DST, 100, 0);
	end_is_blank(b, DST + 100, 8192);
	event = end_event(a, WEFT_EVENT_QP_ERROR, weft_qp_number(a->qp));
	MUST_EQ(event.reason, WEFT_R_SQR_SPACE);
	MUST_EQ(event.state, state);
	MUST_EQ(end_query(a).reason, WEFT_R_SQR_SPACE);
}

static void full_close(struct full *f)
{
	MUST(weft_tag_release(f->p.ends[0].pd, f->wrs[1].reg.tag));
	pair_close(&f->p);
}

/* Option 1: the send queue stops, everything else goes on, and all of it may be tried again. */
TEST(test_sqr_06a_sqr_s3_qp_14_option_1_drains)
{
	static struct full f;
	struct pair_end *a = &f.p.ends[0], *b = &f.p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;

	full_open(&f, WEFT_FAIL_DRAIN);
	full_failed(&f, WEFT_QPS_SQE);
	EXPECT_EQ(end_query(a).state, WEFT_QPS_SQE);
	EXPECT_EQ(end_query(a).recv_queued, 2);
	EXPECT_EQ(end_query(b).state, WEFT_QPS_RTS);
	EXPECT_EQ(end_query(b).recv_queued, 2);
	/* The peer reads from it, writes to it and sends to it. */
	s = end_seg(b, SRC, 100);
	wr = end_wr(b, WEFT_OP_READ, 20, &s, SRC);
	end_succeeds(b, &wr);
	end_holds(b, SRC, 100, 0);
	wr = end_wr(b, WEFT_OP_SEND, 21, &s, 0);
	end_succeeds(b, &wr);
	end_received(a, RECV);
	end_holds(a, DST + 4096, 100, 0);
	/* Whatever is posted now is flushed. */
	wr = end_wr(a, WEFT_OP_WRITE, 22, &f.sges[1], DST + 100);
	end_post(a, &wr);
	end_sends_flushed(a, 22, 22);
	/* Room is made, and the consumer repeats what did not happen. */
	MUST(weft_region_deregister(a->pd, f.filler));
	end_modify(a, WEFT_QPS_RTS);
	EXPECT_EQ(end_query(a).reason, WEFT_OK);
	MUST(weft_qp_post_send(a->qp, &f.wrs[1], LAST - 1, NULL));
	end_sent(a, BAD);
	end_sent(a, LATER_WRITE);
	end_sent(a, LATER_SEND);
	end_received(b, RECV);
	wr = end_wr(a, WEFT_OP_WRITE, 23, NULL, DST);
	end_succeeds(a, &wr); /* after the unsignalled last one */
	end_holds(b, DST + 100, 100, 1);
	end_holds(b, DST + 200, 100, 2);
	end_holds(b, DST + 4096, 100, 2);
	full_close(&f);
}

/* Option 2: the stream ends at both ends, everything that was queued is flushed. */
TEST(test_sqr_06b_sqr_s3_qp_14_option_2_terminates)
{
	static struct full f;
	struct pair_end *a = &f.p.ends[0], *b = &f.p.ends[1];

	full_open(&f, WEFT_FAIL_TERMINATE);
	full_failed(&f, WEFT_QPS_ERROR);
	end_await(a, WEFT_QPS_ERROR);
	end_recvs_flushed(a, RECV, RECV + 1);
	end_await(b, WEFT_QPS_ERROR);
	end_recvs_flushed(b, RECV, RECV + 1);
	EXPECT_EQ(end_query(b).reason, WEFT_R_PEER_TERMINATED);
	EXPECT_EQ(end_event(b, WEFT_EVENT_QP_ERROR, weft_qp_number(b->qp)).reason,
		  WEFT_R_PEER_TERMINATED);
	MUST(weft_region_deregister(a->pd, f.filler));
	full_close(&f);
}

/* Option 1 serves every failure on this side alone, not only registration. */
TEST(test_sqr_06a_option_1_for_a_bad_segment)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s, bad;
	struct weft_send_wr wrs[3];

	pair_open(&p, &(struct pair_options){ .on_failure = WEFT_FAIL_DRAIN });
	s = end_seg(a, SRC, 8);
	bad = s;
	bad.tag ^= 1;
	end_fill(a, SRC, 8, 1);
	wrs[0] = end_wr(a, WEFT_OP_WRITE, 1, &s, DST);
	wrs[1] = end_wr(a, WEFT_OP_WRITE, 2, &bad, DST + 8);
	wrs[2] = end_wr(a, WEFT_OP_WRITE, 3, &s, DST + 16);
	MUST(weft_qp_post_send(a->qp, wrs, 3, NULL));
	end_sent(a, 1);
	end_send_failed(a, 2, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INSTANCE);
	end_sends_flushed(a, 3, 3);
	end_await(a, WEFT_QPS_SQE);
	pair_settle(&p);
	EXPECT_EQ(end_query(b).state, WEFT_QPS_RTS);
	end_is_blank(b, DST + 8, 16);
	end_modify(a, WEFT_QPS_RTS);
	bad.tag ^= 1;
	MUST(weft_qp_post_send(a->qp, &wrs[1], 2, NULL));
	end_sent(a, 2);
	end_sent(a, 3);
	end_holds(b, DST + 8, 8, 1);
	end_holds(b, DST + 16, 8, 1);
	pair_close(&p);
}

/* A refusal by the peer has broken the stream: option 1 is no help. */
TEST(test_sqr_06a_option_1_is_for_failures_on_this_side)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, &(struct pair_options){ .on_failure = WEFT_FAIL_DRAIN });
	s = end_seg(a, SRC, 8);
	wr = end_wr(a, WEFT_OP_WRITE, 1, &s, DST);
	wr.remote_tag ^= 1;
	end_refused(a, &wr, WEFT_R_TAG_INSTANCE);
	pair_close(&p);
}
