/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-09, packet by packet: the page that a packet needs is away. Nothing is said until the page is
 * there, and then only what makes the peer go on.
 */
#include "ib_bed.h"

enum { MTU = 256, P0 = PSN_PEERS, AT = 0x10000, PAGE = 4096 };

static const uint8_t data[MTU] = { 9, 8, 7 };
static _Alignas(8) uint8_t frame[PAGE];

/* A bed, and a page of a space with a pager that lies nowhere. */
struct absent {
	struct ib_bed *b;
	struct weft_space *space;
	uint32_t tag;
};

static struct absent absent_open(void)
{
	const struct weft_space_options so = { .memory = frame,
					       .size_bytes = PAGE,
					       .mappings_max = 1,
					       .is_virtual = true,
					       .has_pager = true };
	struct weft_region_options ro = { .addr = AT,
					  .length = PAGE,
					  .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE |
						    WEFT_REMOTE_READ | WEFT_REMOTE_WRITE |
						    WEFT_REMOTE_ATOMIC };
	struct absent a = { .b = bed_open(NULL, WEFT_RC) };
	const struct mem_owner owner = pd_owner(a.b->pd);

	memset(frame, 1, sizeof(frame));
	MUST(space_create(&a.b->adapter, &so, &a.space));
	MUST(mem_space_map(a.space, AT, PAGE, WEFT_REAL_NONE));
	ro.space = a.space;
	MUST(mem_region_register(&a.b->adapter.mem, &owner, &ro, &a.tag));
	return a;
}

static void absent_close(struct absent *a)
{
	EXPECT_EQ(a->b->qp->state, WEFT_QPS_RTS);
	MUST(mem_region_deregister(&a->b->adapter.mem, a->b->pd->number, a->tag));
	MUST(space_destroy(a->space));
	bed_close(a->b);
}

/* The program was told where, and nothing went out. */
static void expect_asked(struct absent *a)
{
	struct weft_event event;

	bed_silent(a->b);
	REQUIRE(event_pop(&a->b->adapter.events, &event));
	MUST_EQ(event.kind, WEFT_EVENT_FAULT);
	MUST_EQ(event.addr, AT);
}

static void page_comes(struct absent *a)
{
	MUST(mem_space_move(a->space, AT, 0));
	adapter_memory_changed(&a->b->adapter);
	bed_run(a->b);
}

static struct iba_packet to_page(struct absent *a, enum iba_op op, uint32_t psn, uint32_t bytes)
{
	struct iba_packet p = peer_reth(a->b, op, psn, 0, bytes);

	p.va = AT;
	p.r_key = a->tag;
	return p;
}

TEST(test_vmm_09_target_of_a_write_is_asked_for_again)
{
	struct absent a = absent_open();
	struct iba_packet p = to_page(&a, IBA_WRITE_FIRST, P0, 2 * MTU);

	MUST(bed_put(a.b, p, data, MTU));
	expect_asked(&a);
	/* What follows it is not missed: no NAK makes the peer send in vain. */
	MUST(bed_put(a.b, peer_op(IBA_WRITE_LAST, P0 + 1), data, MTU));
	bed_silent(a.b);
	EXPECT_EQ(frame[0], 1);
	page_comes(&a);
	bed_expect_ack(a.b, iba_syndrome_nak(IBA_NAK_SEQUENCE), P0);
	MUST(bed_put(a.b, p, data, MTU));
	EXPECT_MEM(frame, data, MTU);
	EXPECT_MEM(frame + MTU, data, MTU); /* it was kept */
	absent_close(&a);
}

TEST(test_vmm_09_receive_is_kept_for_the_packet_that_comes_again)
{
	struct absent a = absent_open();
	const struct weft_sge s = { .addr = AT, .length = PAGE, .tag = a.tag };
	struct iba_packet p = peer_op(IBA_SEND_ONLY, P0);
	uint32_t posted;

	MUST(qp_post_recv(a.b->qp, &(struct weft_recv_wr){ .id = 3, .sges = &s, .sge_count = 1 }, 1,
			  &posted));
	a.b->posted++;
	p.is_ack_requested = true;
	MUST(bed_put(a.b, p, data, MTU));
	expect_asked(&a);
	bed_incomplete(a.b);
	page_comes(&a);
	bed_expect_ack(a.b, iba_syndrome_nak(IBA_NAK_SEQUENCE), P0);
	MUST(bed_put(a.b, p, data, MTU));
	bed_completed(a.b, 3, WEFT_SUCCESS);
	bed_expect_ack(a.b, iba_syndrome_ack(0), P0);
	EXPECT_MEM(frame, data, MTU);
	absent_close(&a);
}

/* QP-S3: it is carried out once, when the page is there. */
TEST(test_vmm_09_atomic_is_carried_out_when_the_page_is_there)
{
	struct absent a = absent_open();
	struct iba_packet p = to_page(&a, IBA_FETCH_ADD, P0, 0);
	uint64_t word;

	p.swap_add = 1;
	MUST(bed_put(a.b, p, NULL, 0));
	expect_asked(&a);
	page_comes(&a);
	bed_expect_ack(a.b, iba_syndrome_nak(IBA_NAK_SEQUENCE), P0);
	MUST(bed_put(a.b, p, NULL, 0));
	EXPECT(bed_expect(a.b, IBA_ATOMIC_ACKNOWLEDGE, P0)->p.original ==
	       UINT64_C(0x0101010101010101));
	memcpy(&word, frame, sizeof(word));
	EXPECT(word == UINT64_C(0x0101010101010102));
	absent_close(&a);
}

/* Its answer waits, our own requests do not. */
TEST(test_vmm_09_answer_to_a_read_waits_for_its_page)
{
	struct absent a = absent_open();

	MUST(bed_put(a.b, to_page(&a, IBA_READ_REQUEST, P0, 2 * MTU), NULL, 0));
	expect_asked(&a);
	/* Asked for again, it still waits. */
	MUST(bed_put(a.b, to_page(&a, IBA_READ_REQUEST, P0, 2 * MTU), NULL, 0));
	bed_silent(a.b);
	bed_post(a.b, (struct weft_send_wr){ .opcode = WEFT_OP_SEND, .id = 4 }, 0, 8);
	bed_expect(a.b, IBA_SEND_ONLY, PSN_OURS);
	page_comes(&a);
	EXPECT_MEM(bed_expect(a.b, IBA_READ_RESPONSE_FIRST, P0)->payload, frame, MTU);
	bed_expect(a.b, IBA_READ_RESPONSE_LAST, P0 + 1);
	MUST(bed_put(a.b, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1), NULL, 0));
	bed_completed(a.b, 4, WEFT_SUCCESS);
	absent_close(&a);
}

TEST(test_vmm_09_sink_of_a_read_is_asked_for_again)
{
	struct absent a = absent_open();
	const struct weft_sge s = { .addr = AT, .length = MTU, .tag = a.tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_READ,
				   .flags = WEFT_SIGNALLED,
				   .id = 5,
				   .sges = &s,
				   .sge_count = 1,
				   .remote_addr = 0x7000,
				   .remote_tag = 0x88 };
	struct iba_packet p = peer_ack(iba_syndrome_ack(31), PSN_OURS, 1);
	uint32_t posted;

	p.opcode = iba_opcode(IBA_RC, IBA_READ_RESPONSE_ONLY);
	MUST(qp_post_send(a.b->qp, &wr, 1, &posted));
	a.b->posted++;
	bed_run(a.b);
	bed_expect(a.b, IBA_READ_REQUEST, PSN_OURS);
	EXPECT_EQ(bed_put(a.b, p, data, MTU), WEFT_R_SPACE_UNMAPPED);
	EXPECT_EQ(frame[0], 1);
	bed_incomplete(a.b);
	page_comes(&a);
	bed_expect(a.b, IBA_READ_REQUEST, PSN_OURS);
	MUST(bed_put(a.b, p, data, MTU));
	bed_completed(a.b, 5, WEFT_SUCCESS);
	EXPECT_MEM(frame, data, MTU);
	absent_close(&a);
}

/* The mapping goes while a packet waits for its page: when the packet comes again it is refused. */
TEST(test_vmm_09_rkey_08c_page_that_never_comes_is_refused)
{
	struct absent a = absent_open();
	struct iba_packet p = to_page(&a, IBA_WRITE_ONLY, P0, MTU);

	MUST(bed_put(a.b, p, data, MTU));
	expect_asked(&a);
	MUST(mem_space_unmap(a.space, AT));
	adapter_memory_changed(&a.b->adapter);
	bed_run(a.b);
	bed_expect_ack(a.b, iba_syndrome_nak(IBA_NAK_SEQUENCE), P0);
	MUST(bed_put(a.b, p, data, MTU));
	bed_expect_ack(a.b, iba_syndrome_nak(IBA_NAK_ACCESS), P0);
	EXPECT_EQ(a.b->qp->state, WEFT_QPS_ERROR);
	EXPECT_EQ(frame[0], 1);
	MUST(mem_region_deregister(&a.b->adapter.mem, a.b->pd->number, a.tag));
	MUST(space_destroy(a.space));
	bed_close(a.b);
}
