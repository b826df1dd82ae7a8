/* SPDX-License-Identifier: BSD-2-Clause */
/* IBA annex A14, XRC: every request names the shared receive queue that serves it. */
#include <string.h>

#include "ib_bed.h"

enum { P0 = PSN_PEERS, MTU = 256, DOMAIN = 5, OTHER = 6 };

static const uint8_t data[1024] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static struct weft_srq *srq_of(struct ib_bed *b, struct weft_pd *pd, uint32_t domain)
{
	const struct weft_srq_options o = { .xrc_domain = domain, .xrc_cq = b->cq };
	struct weft_srq *srq;

	MUST(srq_create(pd, &o, &srq));
	return srq;
}

static void recv_at(struct ib_bed *b, struct weft_srq *srq, uint64_t id, uint64_t offset)
{
	const struct weft_sge s = { (uintptr_t)b->memory + offset, 1024, b->tag };
	const struct weft_recv_wr wr = { .id = id, .sges = &s, .sge_count = 1 };
	uint32_t posted;

	MUST(srq_post(srq, &wr, 1, &posted));
	bed_run(b);
}

/* A receive that a message will end. */
static void recv_to_end(struct ib_bed *b, struct weft_srq *srq, uint64_t id, uint64_t offset)
{
	recv_at(b, srq, id, offset);
	b->posted++;
}

static struct iba_packet to_srq(struct iba_packet p, uint32_t srq_number)
{
	p.opcode = iba_opcode(IBA_XRC, iba_op(p.opcode));
	p.xrc_srq = srq_number;
	return p;
}

TEST(test_iba_a14_a_send_goes_to_the_queue_that_it_names)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);
	struct weft_srq *one = srq_of(b, b->pd, DOMAIN), *two = srq_of(b, b->pd, DOMAIN);

	recv_to_end(b, one, 1, 0);
	recv_to_end(b, two, 2, 8192);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_ONLY, P0), two->number), data, 100), WEFT_OK);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_expect_ack(b, iba_syndrome_ack(0), P0);
	EXPECT_MEM(b->memory + 8192, data, 100);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_FIRST, P0 + 1), one->number), data, MTU),
		  WEFT_OK);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_LAST, P0 + 2), one->number), data, 1),
		  WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(srq_destroy(one), WEFT_OK);
	EXPECT_EQ(srq_destroy(two), WEFT_OK);
	bed_close(b);
}

TEST(test_iba_a14_a_queue_without_receives_is_not_ready)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);
	struct weft_srq *srq = srq_of(b, b->pd, DOMAIN);

	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_ONLY, P0), srq->number), data, 8), WEFT_OK);
	EXPECT_EQ(iba_syndrome(bed_expect(b, IBA_ACKNOWLEDGE, P0)->p.syndrome), IBA_SYNDROME_RNR);
	recv_to_end(b, srq, 4, 0);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_ONLY, P0), srq->number), data, 8), WEFT_OK);
	bed_completed(b, 4, WEFT_SUCCESS);
	EXPECT_EQ(srq_destroy(srq), WEFT_OK);
	bed_close(b);
}

/* A peer that stops in the middle of a message cannot keep the queue: the rest finds it gone. */
TEST(test_iba_a14_a_queue_goes_while_a_message_is_arriving_in_it)
{
	for (int i = 0; i < 3; i++) {
		struct ib_bed *b = bed_open_xrc(DOMAIN);
		struct weft_srq *srq = srq_of(b, b->pd, DOMAIN), *two = srq_of(b, b->pd, DOMAIN);
		uint32_t number = srq->number;

		recv_at(b, srq, 1, 0);
		recv_at(b, srq, 2, 0);
		recv_at(b, two, 3, 0);
		EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_FIRST, P0), number), data, MTU),
			  WEFT_OK);
		EXPECT_EQ(srq_destroy(srq), WEFT_OK);
		b->out_count = 0;
		bed_note(b);
		if (i < 2) { /* its own queue, or another of the domain */
			EXPECT_EQ(bed_put(b,
					  to_srq(peer_op(IBA_SEND_LAST, P0 + 1),
						 i == 0 ? number : two->number),
					  data, 1),
				  WEFT_OK);
			bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), P0 + 1);
			EXPECT_EQ(b->qp->reason, WEFT_R_IB_XRC);
		}
		bed_unchanged(b);
		bed_incomplete(b);
		EXPECT_EQ(srq_destroy(two), WEFT_OK);
		bed_close(b); /* or nothing comes any more */
	}
}

/* The request waited at the SRQ: it must not stay there afterwards. */
TEST(test_iba_a14_a_queue_goes_while_a_peer_waits_for_its_receives)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);
	struct weft_srq *srq = srq_of(b, b->pd, DOMAIN);
	uint32_t number = srq->number;

	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_ONLY, P0), number), data, 8), WEFT_OK);
	(void)bed_next(b);
	EXPECT_EQ(srq_destroy(srq), WEFT_OK);
	bed_run(b);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_ONLY, P0), number), data, 8), WEFT_OK);
	EXPECT_EQ(b->qp->reason, WEFT_R_IB_XRC);
	bed_close(b);
}

static void expect_refused(struct iba_packet p, uint32_t bytes)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);
	struct weft_srq *other = srq_of(b, b->pd, OTHER);

	recv_at(b, other, 9, 0);
	p.va = (uintptr_t)b->memory;
	p.r_key = b->tag;
	bed_note(b);
	for (int i = 0; i < 2; i++) {
		if (i == 1) { /* once more, for a queue of another domain */
			bed_close(b);
			b = bed_open_xrc(DOMAIN);
			other = srq_of(b, b->pd, OTHER);
			p.va = (uintptr_t)b->memory;
			p.r_key = b->tag;
		}
		p.xrc_srq = i == 0 ? 0x123456 : other->number;
		(void)bed_put(b, p, data, bytes);
		bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), P0);
		bed_unchanged(b);
		REQUIRE(b->qp->state == WEFT_QPS_ERROR && b->qp->reason == WEFT_R_IB_XRC);
		MUST(srq_destroy(other));
	}
	bed_close(b);
}

TEST(test_iba_a14_a_queue_of_another_domain_or_none_is_refused)
{
	struct iba_packet p = to_srq(peer_op(IBA_SEND_ONLY, P0), 0);

	expect_refused(p, 8);
	p.opcode = iba_opcode(IBA_XRC, IBA_WRITE_ONLY);
	p.dma_bytes = 8;
	expect_refused(p, 8);
	p.opcode = iba_opcode(IBA_XRC, IBA_READ_REQUEST);
	expect_refused(p, 0);
	p.opcode = iba_opcode(IBA_XRC, IBA_FETCH_ADD);
	expect_refused(p, 0);
}

/* One that was made to send has no domain: nothing is served. */
TEST(test_iba_a14_an_initiator_is_no_target)
{
	struct ib_bed *b = bed_open_xrc(0);

	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_ONLY, P0), 0), data, 8), WEFT_OK);
	EXPECT_EQ(b->qp->reason, WEFT_R_IB_XRC);
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), P0);
	bed_close(b);
}

TEST(test_iba_a14_a_message_stays_with_the_queue_of_its_first_packet)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);
	struct weft_srq *one = srq_of(b, b->pd, DOMAIN), *two = srq_of(b, b->pd, DOMAIN);

	recv_to_end(b, one, 1, 0);
	recv_at(b, two, 2, 8192);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_FIRST, P0), one->number), data, MTU), WEFT_OK);
	(void)bed_next(b);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_LAST, P0 + 1), two->number), data, 8),
		  WEFT_OK);
	EXPECT_EQ(b->qp->reason, WEFT_R_IB_XRC);
	bed_completed(b, 1, WEFT_ERR_FLUSHED);
	EXPECT_EQ(srq_destroy(one), WEFT_OK);
	EXPECT_EQ(srq_destroy(two), WEFT_OK);
	bed_close(b);
}

/* A queue of the bed's protection domain, and one of another. */
struct two {
	struct weft_pd *foreign_pd;
	struct weft_srq *own, *foreign_srq;
};

static struct two two_open(struct ib_bed *b)
{
	struct two t;

	REQUIRE(pd_create(&b->adapter, &(struct weft_pd_options){ 0 }, &t.foreign_pd) == WEFT_OK);
	t.own = srq_of(b, b->pd, DOMAIN);
	t.foreign_srq = srq_of(b, t.foreign_pd, DOMAIN);
	return t;
}

static void two_close(struct two *t)
{
	MUST(srq_destroy(t->own));
	MUST(srq_destroy(t->foreign_srq));
	MUST(pd_destroy(t->foreign_pd));
}

/* A14: what a peer may reach is what the domain of the named queue may. */
TEST(test_iba_a14_the_queue_says_whose_memory_is_reached)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);
	struct two t = two_open(b);

	EXPECT_EQ(
		bed_put(b, to_srq(peer_reth(b, IBA_WRITE_ONLY, P0, 64, 8), t.own->number), data, 8),
		WEFT_OK);
	bed_expect_ack(b, iba_syndrome_ack(0), P0);
	EXPECT_MEM(b->memory + 64, data, 8);
	EXPECT_EQ(bed_put(b, to_srq(peer_reth(b, IBA_READ_REQUEST, P0 + 1, 64, 8), t.own->number),
			  NULL, 0),
		  WEFT_OK);
	EXPECT_MEM(bed_expect(b, IBA_READ_RESPONSE_ONLY, (P0 + 1) & IBA_PSN_MASK)->payload, data,
		   8);
	/* That it was reached by one queue does not mean that it is by another. */
	MUST(bed_put(b, to_srq(peer_reth(b, IBA_WRITE_ONLY, P0 + 2, 64, 8), t.own->number), data,
		     8));
	bed_expect_ack(b, iba_syndrome_ack(0), (P0 + 2) & IBA_PSN_MASK);
	bed_note(b);
	(void)bed_put(b, to_srq(peer_reth(b, IBA_WRITE_ONLY, P0 + 3, 0, 8), t.foreign_srq->number),
		      data + 8, 8);
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_ACCESS), (P0 + 3) & IBA_PSN_MASK);
	bed_unchanged(b);
	two_close(&t);
	bed_close(b);
}

/* A Read is answered from the domain that its request named, whatever came in between. */
TEST(test_iba_a14_a_read_is_answered_by_the_queue_that_it_named)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);
	struct two t = two_open(b);

	b->is_held = true;
	EXPECT_EQ(bed_put(b, to_srq(peer_reth(b, IBA_READ_REQUEST, P0, 64, 8), t.own->number), NULL,
			  0),
		  WEFT_OK);
	EXPECT_EQ(bed_put(b,
			  to_srq(peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 0, 0), t.foreign_srq->number),
			  NULL, 0),
		  WEFT_OK);
	b->is_held = false;
	bed_run(b);
	EXPECT_MEM(bed_expect(b, IBA_READ_RESPONSE_ONLY, P0)->payload, b->memory + 64, 8);
	two_close(&t);
	bed_close(b);
}

TEST(test_iba_a14_every_request_carries_the_number)
{
	struct ib_bed *b = bed_open_xrc(0);
	struct weft_send_wr wr = { .id = 1, .opcode = WEFT_OP_SEND, .dest_qp_number = 0x765432 };
	uint32_t psn = PSN_OURS;

	bed_post(b, wr, 0, MTU + 1);
	EXPECT_EQ(bed_expect(b, IBA_SEND_FIRST, psn)->p.xrc_srq, 0x765432);
	EXPECT_EQ(bed_expect(b, IBA_SEND_LAST, psn + 1)->p.xrc_srq, 0x765432);
	wr.opcode = WEFT_OP_WRITE;
	wr.dest_qp_number = 0x10001;
	bed_post(b, wr, 0, 8);
	EXPECT_EQ(bed_expect(b, IBA_WRITE_ONLY, (psn + 2) & IBA_PSN_MASK)->p.xrc_srq, 0x10001);
	wr.opcode = WEFT_OP_READ;
	bed_post(b, wr, 0, 8);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, (psn + 3) & IBA_PSN_MASK)->p.xrc_srq, 0x10001);
	wr.opcode = WEFT_OP_FETCH_ADD;
	bed_post(b, wr, 0, 8);
	EXPECT_EQ(bed_expect(b, IBA_FETCH_ADD, (psn + 4) & IBA_PSN_MASK)->p.xrc_srq, 0x10001);
	bed_close(b);
}

/* A packet of plain RC is not for it, nor one of XRC for another. */
TEST(test_iba_a14_xrc_is_a_service_of_its_own)
{
	struct ib_bed *b = bed_open_xrc(DOMAIN);

	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 8), WEFT_R_IB_SERVICE);
	bed_silent(b);
	bed_close(b);
	b = bed_open(NULL, WEFT_RC);
	EXPECT_EQ(bed_put(b, to_srq(peer_op(IBA_SEND_ONLY, P0), 0x10001), data, 8),
		  WEFT_R_IB_SERVICE);
	bed_silent(b);
	bed_close(b);
}

TEST(test_iba_a14_options_that_do_not_go_together)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct weft_qp_options o = { .send_cq = b->cq, .recv_cq = b->cq };
	struct weft_srq_options so = { .xrc_domain = DOMAIN };
	const struct weft_recv_wr recv = { 0 };
	struct weft_srq *srq;
	struct weft_qp *qp, *plain;
	uint32_t posted;

	EXPECT_EQ(srq_create(b->pd, &so, &srq), WEFT_R_BAD_ARGUMENT);
	so = (struct weft_srq_options){ .xrc_cq = b->cq };
	EXPECT_EQ(srq_create(b->pd, &so, &srq), WEFT_R_BAD_ARGUMENT);
	srq = srq_of(b, b->pd, DOMAIN);
	o.srq = srq;
	EXPECT_EQ(qp_create(b->pd, &o, b->qp->transport, &qp), WEFT_R_BAD_ARGUMENT);
	o.is_xrc = true;
	EXPECT_EQ(qp_create(b->pd, &o, b->qp->transport, &qp), WEFT_R_BAD_ARGUMENT);
	MUST(srq_create(b->pd, &(struct weft_srq_options){ 0 }, &o.srq));
	EXPECT_EQ(qp_create(b->pd, &o, b->qp->transport, &qp), WEFT_R_BAD_ARGUMENT);
	MUST(srq_destroy(o.srq));
	o.srq = NULL;
	o.service = WEFT_UC;
	EXPECT_EQ(qp_create(b->pd, &o, b->qp->transport, &qp), WEFT_R_BAD_ARGUMENT);
	o.service = WEFT_RC;
	EXPECT_EQ(qp_create(b->pd, &o, b->qp->transport_at_first, &qp), WEFT_OK);
	o.is_xrc = false;
	EXPECT_EQ(qp_create(b->pd, &o, b->qp->transport_at_first, &plain), WEFT_OK);
	EXPECT_EQ(qp_connect(qp, plain), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(qp_connect(plain, qp), WEFT_R_BAD_ARGUMENT);
	qp_destroy(plain);
	o.xrc_domain = DOMAIN;
	EXPECT_EQ(qp_create(b->pd, &o, b->qp->transport_at_first, &plain), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(qp_post_recv(qp, &recv, 1, &posted), WEFT_R_QUEUE_SHARED);
	qp_destroy(qp);
	EXPECT_EQ(cq_destroy(b->cq), WEFT_R_BUSY);
	EXPECT_EQ(srq_destroy(srq), WEFT_OK);
	bed_close(b);
}
