/* SPDX-License-Identifier: BSD-2-Clause */
/* VMM-04: memory that the program took away after the check of a request, before the access. */
#include "ib_bed.h"

enum { MTU = 256 };

static uint8_t payload[MTU];

static bool copy(void *to, const void *from, uint64_t length)
{
	(void)to;
	(void)from;
	(void)length;
	return false;
}

static bool run(const void *bytes, uint64_t length, void (*work)(void *), void *argument)
{
	(void)bytes;
	(void)length;
	(void)work;
	(void)argument;
	return false;
}

/* All of the program's memory. */
static void unmap(struct ib_bed *b)
{
	static const struct mem_guard gone = { .copy = copy, .run = run };

	b->adapter.mem.process.guard = &gone;
}

static void expect_refused(struct ib_bed *b, enum iba_nak nak, uint32_t psn)
{
	bed_expect_ack(b, iba_syndrome_nak(nak), psn);
	bed_silent(b);
	EXPECT_EQ(b->qp->reason, WEFT_R_MEMORY_GONE);
	bed_close(b);
}

/* The peer named it. */
TEST(test_vmm_04_rc_peer_is_told_of_missing_memory)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	unmap(b);
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, PSN_PEERS, 0, 8), payload, 8));
	expect_refused(b, IBA_NAK_ACCESS, PSN_PEERS);

	b = bed_open(NULL, WEFT_RC);
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, PSN_PEERS, 0, 2 * MTU), payload, MTU));
	bed_expect_ack(b, iba_syndrome_ack(0), PSN_PEERS);
	unmap(b);
	MUST(bed_put(b, peer_op(IBA_WRITE_LAST, PSN_PEERS + 1), payload, MTU));
	expect_refused(b, IBA_NAK_ACCESS, PSN_PEERS + 1);

	b = bed_open(NULL, WEFT_RC);
	unmap(b);
	MUST(bed_put(b, peer_reth(b, IBA_FETCH_ADD, PSN_PEERS, 0, 0), NULL, 0));
	expect_refused(b, IBA_NAK_ACCESS, PSN_PEERS);

	b = bed_open(NULL, WEFT_RC);
	unmap(b);
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, PSN_PEERS, 0, MTU), NULL, 0));
	expect_refused(b, IBA_NAK_ACCESS, PSN_PEERS);
}

TEST(test_vmm_04_rc_receive_whose_memory_is_missing_ends)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_recv(b, 1, 0, MTU);
	unmap(b);
	MUST(bed_put(b, peer_op(IBA_SEND_ONLY, PSN_PEERS), payload, MTU));
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	expect_refused(b, IBA_NAK_OPERATION, PSN_PEERS);
}

/* What is sent and what an answer goes to: both fail here, and the peer is told nothing. */
TEST(test_vmm_04_rc_request_whose_memory_is_missing_fails)
{
	struct weft_send_wr wr = { .id = 1, .opcode = WEFT_OP_WRITE };
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	unmap(b);
	bed_post(b, wr, 0, 8);
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	EXPECT_EQ(b->qp->reason, WEFT_R_MEMORY_GONE);
	bed_silent(b);
	bed_close(b);

	b = bed_open(NULL, WEFT_RC);
	wr.opcode = WEFT_OP_READ;
	bed_post(b, wr, 0, MTU);
	bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	unmap(b);
	EXPECT_EQ(bed_put(b, peer_op(IBA_READ_RESPONSE_ONLY, PSN_OURS), payload, MTU),
		  WEFT_R_SINK_GONE);
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	EXPECT_EQ(b->qp->reason, WEFT_R_MEMORY_GONE);
	bed_silent(b);
	bed_close(b);
}

/* Deregistered between two packets of a message. */
TEST(test_rc_03_rest_of_a_message_finds_its_memory_deregistered)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, PSN_PEERS, 0, 2 * MTU), payload, MTU));
	bed_expect_ack(b, iba_syndrome_ack(0), PSN_PEERS);
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, b->tag));
	bed_note(b);
	MUST(bed_put(b, peer_op(IBA_WRITE_LAST, PSN_PEERS + 1), payload, MTU));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_ACCESS), PSN_PEERS + 1);
	EXPECT_EQ(b->qp->reason, WEFT_R_TAG_INVALID);
	bed_unchanged(b);
	bed_close(b);

	b = bed_open(NULL, WEFT_RC);
	bed_recv(b, 1, 0, 2 * MTU);
	MUST(bed_put(b, peer_op(IBA_SEND_FIRST, PSN_PEERS), payload, MTU));
	bed_expect_ack(b, iba_syndrome_ack(0), PSN_PEERS);
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, b->tag));
	bed_note(b);
	MUST(bed_put(b, peer_op(IBA_SEND_LAST, PSN_PEERS + 1), payload, MTU));
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_OPERATION), PSN_PEERS + 1);
	bed_unchanged(b);
	bed_close(b);
}

/* The right to write goes between two packets. */
TEST(test_rc_03_rest_of_a_write_finds_the_right_gone)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, PSN_PEERS, 0, 2 * MTU), payload, MTU));
	bed_expect_ack(b, iba_syndrome_ack(0), PSN_PEERS);
	b->qp->remote_rights = 0;
	bed_note(b);
	MUST(bed_put(b, peer_op(IBA_WRITE_LAST, PSN_PEERS + 1), payload, MTU));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_ACCESS), PSN_PEERS + 1);
	EXPECT_EQ(b->qp->reason, WEFT_R_QP_REMOTE_RIGHTS);
	bed_unchanged(b);
	bed_close(b);
}
