/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs: packets of a message that go together by shared memory, as one record. */
#include "ib_bed.h"

#include <string.h>

enum { MTU = 256, FIT = IBA_PAYLOAD_MAX / MTU, LONG = 8 * MTU, UNUSED = IBA_CREDITS_UNUSED };

static uint8_t data[IBA_PAYLOAD_MAX];

static uint32_t psn(uint32_t n)
{
	return iba_psn_add(PSN_OURS, n);
}

static struct ib_bed *open_with(struct ib_config config)
{
	struct ib_bed *b = bed_open(&config, WEFT_RC);

	b->run_bytes = IBA_PAYLOAD_MAX;
	return b;
}

static void post(struct ib_bed *b, enum weft_opcode opcode, uint32_t bytes)
{
	bed_post(b,
		 (struct weft_send_wr){
			 .id = 1, .opcode = opcode, .remote_addr = 0x1000, .remote_tag = 0x77 },
		 0, bytes);
}

/* A packet, or a run of so many more, with the payload that belongs there. */
static void expect(struct ib_bed *b, enum iba_op op, uint32_t n, uint16_t more)
{
	const struct bed_packet *p = bed_expect(b, op, psn(n));

	EXPECT_EQ(p->p.run, more);
	EXPECT_EQ(p->p.payload_bytes, (1 + (uint32_t)more) * MTU);
	EXPECT_MEM(p->payload, b->memory + n * MTU, p->p.payload_bytes);
}

static enum weft_reason ack(struct ib_bed *b, uint32_t n)
{
	return bed_put(b, peer_ack(iba_syndrome_ack(UNUSED), psn(n), 0), NULL, 0);
}

/* ---- Out ------------------------------------------------------------------------------------ */

TEST(test_rc_02_middle_packets_go_as_runs)
{
	struct ib_bed *b = open_with(bed_config());

	post(b, WEFT_OP_WRITE, (FIT + 5) * MTU);
	expect(b, IBA_WRITE_FIRST, 0, 0);
	expect(b, IBA_WRITE_MIDDLE, 1, FIT - 1);
	expect(b, IBA_WRITE_MIDDLE, 1 + FIT, 2);
	expect(b, IBA_WRITE_LAST, FIT + 4, 0);
	bed_silent(b);
	EXPECT_EQ(ib_port_counts(b->port)->packets_out, FIT + 5);
	MUST(ack(b, FIT + 4));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

TEST(test_rc_02_message_that_fits_goes_as_one)
{
	static const struct {
		enum weft_opcode opcode;
		enum iba_op op;
	} forms[] = {
		{ WEFT_OP_WRITE, IBA_WRITE_ONLY },
		{ WEFT_OP_WRITE_IMM, IBA_WRITE_ONLY_IMM },
		{ WEFT_OP_SEND, IBA_SEND_ONLY },
		{ WEFT_OP_SEND_IMM, IBA_SEND_ONLY_IMM },
		{ WEFT_OP_SEND_INVALIDATE, IBA_SEND_ONLY_INV },
	};
	static const uint32_t lengths[] = { MTU + 1, 3 * MTU, FIT * MTU };

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct ib_bed *b = open_with(bed_config());
		uint32_t n = 0;

		for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
			const struct bed_packet *p;

			post(b, forms[i].opcode, lengths[k]);
			p = bed_expect(b, forms[i].op, psn(n));
			EXPECT_EQ(p->p.run, (lengths[k] - 1) / MTU);
			EXPECT_EQ(p->p.payload_bytes, lengths[k]);
			EXPECT_MEM(p->payload, b->memory, lengths[k]);
			bed_silent(b);
			n += 1 + p->p.run;
			MUST(ack(b, n - 1));
			bed_completed(b, 1, WEFT_SUCCESS);
		}
		EXPECT_EQ(ib_port_counts(b->port)->packets_out, n);
		bed_close(b);
	}
}

/* The peer may have some packets of a lost run. */
TEST(test_rc_04_what_goes_again_goes_packet_by_packet)
{
	struct ib_bed *b = open_with(bed_config());

	post(b, WEFT_OP_WRITE, LONG);
	expect(b, IBA_WRITE_ONLY, 0, 7);
	MUST(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), psn(3), 0), NULL, 0));
	for (uint32_t n = 3; n < 7; n++)
		expect(b, IBA_WRITE_MIDDLE, n, 0);
	expect(b, IBA_WRITE_LAST, 7, 0);
	bed_silent(b);
	MUST(ack(b, 7));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

TEST(test_rc_02_run_keeps_within_the_window)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.window_packets = 4;
	b = open_with(config);
	post(b, WEFT_OP_WRITE, LONG);
	expect(b, IBA_WRITE_FIRST, 0, 0);
	expect(b, IBA_WRITE_MIDDLE, 1, 2);
	bed_silent(b);
	MUST(ack(b, 3));
	expect(b, IBA_WRITE_MIDDLE, 4, 2);
	expect(b, IBA_WRITE_LAST, 7, 0);
	bed_close(b);
}

/* IBA 9.7.7.2.5: beyond the credits one packet finds out; the rest follows its ACK. */
TEST(test_iba_9_7_7_2_run_keeps_within_the_credits)
{
	struct ib_bed *b = open_with(bed_config());

	post(b, WEFT_OP_WRITE, MTU);
	bed_next(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(iba_credit_code(0)), psn(0), 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	post(b, WEFT_OP_SEND, LONG);
	EXPECT_EQ(bed_expect(b, IBA_SEND_FIRST, psn(1))->p.run, 0);
	bed_silent(b);
	MUST(ack(b, 1));
	EXPECT_EQ(bed_expect(b, IBA_SEND_MIDDLE, psn(2))->p.run, 5);
	bed_close(b);
}

/* Answers to Reads are not in the window of Sends and Writes. */
TEST(test_rc_02_run_beside_a_read_has_the_whole_window)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.window_packets = 4;
	b = open_with(config);
	post(b, WEFT_OP_READ, 2 * MTU);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	post(b, WEFT_OP_WRITE, 4 * MTU);
	EXPECT_EQ(bed_expect(b, IBA_WRITE_ONLY, psn(2))->p.run, 3);
	bed_silent(b);
	bed_close(b);
}

/* All packets of a run count where one of so many asks for an ACK. */
TEST(test_rc_02_run_asks_for_an_ack_as_its_packets_would)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.ack_every = 8;
	b = open_with(config);
	b->is_held = true;
	for (int i = 0; i < 3; i++)
		post(b, WEFT_OP_WRITE, 4 * MTU);
	b->is_held = false;
	bed_run(b);
	EXPECT(!bed_expect(b, IBA_WRITE_ONLY, psn(0))->p.is_ack_requested);
	EXPECT(bed_expect(b, IBA_WRITE_ONLY, psn(4))->p.is_ack_requested);
	EXPECT(bed_expect(b, IBA_WRITE_ONLY, psn(8))->p.is_ack_requested); /* the last */
	bed_silent(b);
	bed_close(b);
}

/* It lies in the send queue, not in registered memory. */
TEST(test_rc_02_inline_data_goes_packet_by_packet)
{
	struct ib_bed *b = open_with(bed_config());

	bed_post(b, (struct weft_send_wr){ .opcode = WEFT_OP_SEND, .flags = WEFT_INLINE }, 0,
		 3 * MTU);
	expect(b, IBA_SEND_FIRST, 0, 0);
	expect(b, IBA_SEND_MIDDLE, 1, 0);
	expect(b, IBA_SEND_LAST, 2, 0);
	bed_silent(b);
	bed_close(b);
}

TEST(test_iba_a14_xrc_message_that_fits_goes_as_one)
{
	struct ib_bed *b = bed_open_xrc(0);
	const struct bed_packet *p;

	b->run_bytes = IBA_PAYLOAD_MAX;
	bed_post(b, (struct weft_send_wr){ .opcode = WEFT_OP_SEND, .dest_qp_number = 0x55 }, 0,
		 LONG);
	p = bed_expect(b, IBA_SEND_ONLY, psn(0));
	EXPECT_EQ(p->p.run, 7);
	EXPECT_EQ(p->p.xrc_srq, 0x55);
	bed_silent(b);
	bed_close(b);
}

/* A capture and injected faults need single packets. */
TEST(test_rc_02_no_runs_where_packets_have_an_icrc)
{
	struct ib_bed *b = open_with(bed_config());

	ib_port_set_near_icrc(b->port, true);
	post(b, WEFT_OP_WRITE, LONG);
	for (uint32_t n = 0; n < 8; n++)
		EXPECT_EQ(bed_next(b)->p.run, 0);
	bed_silent(b);
	bed_close(b);
}

enum { AT = 0x10000, PAGE = 4096 };

/*
 * VMM-09: a program with one frame for two pages. A run that begins on one page and ends on the
 * other would wait for ever; packet by packet all goes.
 */
TEST(test_vmm_09_run_does_not_wait_for_pages_of_later_packets)
{
	static _Alignas(PAGE) uint8_t frame[PAGE];
	const struct weft_space_options so = { .memory = frame,
					       .size_bytes = PAGE,
					       .mappings_max = 2,
					       .is_virtual = true,
					       .has_pager = true };
	struct ib_bed *b = open_with(bed_config());
	const struct mem_owner owner = pd_owner(b->pd);
	struct weft_region_options ro = { .addr = AT,
					  .length = 2 * PAGE,
					  .rights = WEFT_LOCAL_READ };
	struct weft_sge sge = { .addr = AT + PAGE - 2 * MTU, .length = LONG };
	struct weft_send_wr wr = { .opcode = WEFT_OP_WRITE, .sges = &sge, .sge_count = 1 };
	struct weft_event event;
	uint32_t posted;

	MUST(space_create(&b->adapter, &so, &ro.space));
	MUST(mem_space_map(ro.space, AT, PAGE, 0));
	MUST(mem_space_map(ro.space, AT + PAGE, PAGE, WEFT_REAL_NONE));
	MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &sge.tag));
	MUST(qp_post_send(b->qp, &wr, 1, &posted));
	b->posted++;
	bed_run(b);
	EXPECT_EQ(bed_expect(b, IBA_WRITE_FIRST, psn(0))->p.run, 0);
	EXPECT_EQ(bed_expect(b, IBA_WRITE_MIDDLE, psn(1))->p.run, 0);
	bed_silent(b);
	do
		REQUIRE(event_pop(&b->adapter.events, &event));
	while (event.kind != WEFT_EVENT_FAULT);
	EXPECT_EQ(event.addr, AT + PAGE);
	MUST(mem_space_move(ro.space, AT, WEFT_REAL_NONE));
	MUST(mem_space_move(ro.space, AT + PAGE, 0));
	adapter_memory_changed(&b->adapter);
	bed_run(b);
	EXPECT_EQ(bed_expect(b, IBA_WRITE_MIDDLE, psn(2))->p.run, 4);
	EXPECT_EQ(bed_expect(b, IBA_WRITE_LAST, psn(7))->p.run, 0);
	MUST(ack(b, 7));
	bed_completed(b, 0, WEFT_SUCCESS);
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, sge.tag));
	MUST(space_destroy(ro.space));
	bed_close(b);
}

/* ---- In ------------------------------------------------------------------------------------- */

static struct iba_packet run(enum iba_op op, uint32_t n, uint16_t more)
{
	struct iba_packet p = peer_op(op, PSN_PEERS + n);

	p.run = more;
	return p;
}

TEST(test_rc_02_run_of_a_write_is_placed)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	memset(data, 0x5a, sizeof(data));
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, PSN_PEERS, 0, LONG), data, MTU));
	bed_expect_ack(b, iba_syndrome_ack(UNUSED), PSN_PEERS);
	MUST(bed_put(b, run(IBA_WRITE_MIDDLE, 1, 5), data, 6 * MTU));
	bed_expect_ack(b, iba_syndrome_ack(UNUSED), iba_psn_add(PSN_PEERS, 6));
	MUST(bed_put(b, run(IBA_WRITE_LAST, 7, 0), data, MTU));
	bed_expect_ack(b, iba_syndrome_ack(UNUSED), iba_psn_add(PSN_PEERS, 7));
	EXPECT_MEM(b->memory, data, LONG);
	EXPECT_EQ(ib_port_counts(b->port)->packets_in, 8);
	EXPECT_EQ(b->qp->tally.packets_in, 8);
	bed_close(b);
}

TEST(test_rc_02_run_of_a_send_is_placed)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	memset(data, 0x5a, sizeof(data));
	bed_recv(b, 9, 0, LONG);
	MUST(bed_put(b, run(IBA_SEND_FIRST, 0, 0), data, MTU));
	MUST(bed_put(b, run(IBA_SEND_MIDDLE, 1, 5), data, 6 * MTU));
	MUST(bed_put(b, run(IBA_SEND_LAST, 7, 0), data, MTU));
	bed_completed(b, 9, WEFT_SUCCESS);
	EXPECT_MEM(b->memory, data, LONG);
	bed_close(b);
}

TEST(test_rc_02_whole_write_is_placed)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct iba_packet p = peer_reth(b, IBA_WRITE_ONLY_IMM, PSN_PEERS, 0, LONG - 3);

	memset(data, 0x5a, sizeof(data));
	p.run = 7;
	p.imm = 0x1234;
	bed_recv(b, 9, 0, 0);
	MUST(bed_put(b, p, data, LONG - 3));
	bed_expect_ack(b, iba_syndrome_ack(UNUSED), iba_psn_add(PSN_PEERS, 7));
	bed_completed(b, 9, WEFT_SUCCESS);
	EXPECT_EQ(b->completion.imm, 0x1234);
	EXPECT_MEM(b->memory, data, LONG - 3);
	EXPECT_EQ(ib_port_counts(b->port)->packets_in, 8);
	bed_close(b);
}

TEST(test_rc_02_whole_send_is_placed)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	memset(data, 0x5a, sizeof(data));
	bed_recv(b, 9, 0, LONG);
	MUST(bed_put(b, run(IBA_SEND_ONLY, 0, 6), data, LONG - MTU - 1));
	bed_completed(b, 9, WEFT_SUCCESS);
	EXPECT_EQ(b->completion.byte_count, LONG - MTU - 1);
	EXPECT_MEM(b->memory, data, LONG - MTU - 1);
	bed_expect_ack(b, iba_syndrome_ack(UNUSED), iba_psn_add(PSN_PEERS, 6));
	bed_close(b);
}

/* IBA 9.7.5.2.8: as of the first packet of it. */
TEST(test_rc_05_whole_send_without_a_receive_is_sent_again)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(bed_put(b, run(IBA_SEND_ONLY, 0, 3), data, 4 * MTU));
	bed_expect_ack(b, iba_syndrome_rnr(b->config.rnr_timer_code), PSN_PEERS);
	bed_recv(b, 9, 0, LONG);
	MUST(bed_put(b, run(IBA_SEND_FIRST, 0, 0), data, MTU));
	MUST(bed_put(b, run(IBA_SEND_MIDDLE, 1, 1), data, 2 * MTU));
	MUST(bed_put(b, run(IBA_SEND_LAST, 3, 0), data, MTU));
	bed_completed(b, 9, WEFT_SUCCESS);
	bed_close(b);
}

TEST(test_rc_02_whole_send_too_long_for_its_receive_is_refused)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_recv(b, 9, 0, 4 * MTU - 1);
	MUST(bed_put(b, run(IBA_SEND_ONLY, 0, 3), data, 4 * MTU));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), PSN_PEERS);
	bed_completed(b, 9, WEFT_ERR_LOCAL_LENGTH);
	bed_close(b);
}

/* Something before it was lost, or it came already: as of any packet. */
TEST(test_rc_04_run_out_of_order_is_not_placed)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, PSN_PEERS, 0, LONG), data, MTU));
	bed_next(b);
	bed_note(b);
	memset(data, 0x33, sizeof(data));
	EXPECT_EQ(bed_put(b, run(IBA_WRITE_MIDDLE, 2, 2), data, 3 * MTU), WEFT_R_IB_PSN);
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), iba_psn_add(PSN_PEERS, 1));
	MUST(bed_put(b, run(IBA_WRITE_MIDDLE, 0, 2), data, 3 * MTU));
	bed_expect_ack(b, iba_syndrome_ack(UNUSED), PSN_PEERS);
	bed_unchanged(b);
	bed_close(b);
}

TEST(test_rc_02_run_of_other_packets_is_dropped)
{
	static const enum iba_op others[] = { IBA_WRITE_LAST, IBA_SEND_FIRST, IBA_SEND_LAST,
					      IBA_READ_RESPONSE_MIDDLE, IBA_READ_RESPONSE_ONLY };

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		struct ib_bed *b = bed_open(NULL, WEFT_RC);

		bed_recv(b, 9, 0, LONG);
		EXPECT_EQ(bed_put(b, run(others[i], 0, 3), data, 4 * MTU), WEFT_R_IB_LENGTH);
		bed_silent(b);
		bed_incomplete(b);
		bed_close(b);
	}
}

/* UC has no runs: what it loses it loses packet by packet. */
TEST(test_uc_01_run_is_dropped)
{
	static const enum iba_op ops[] = { IBA_SEND_ONLY, IBA_SEND_MIDDLE };
	struct ib_bed *b = bed_open(NULL, WEFT_UC);

	bed_recv(b, 9, 0, LONG);
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		struct iba_packet p = run(ops[i], 0, 3);

		p.opcode = iba_opcode(IBA_UC, ops[i]);
		EXPECT_EQ(bed_put(b, p, data, 4 * MTU), WEFT_R_IB_LENGTH);
	}
	bed_incomplete(b);
	bed_close(b);
}

/* Longer than any packet: 64 KiB with padding, of 16 packets of 4096 bytes. */
TEST(test_rc_02_run_is_decoded_as_one_packet)
{
	enum { RUN = 15, BYTES = 16 * IBA_PAYLOAD_MAX - 3 };
	static uint8_t bytes[IBA_HEADERS_MAX + 16 * IBA_PAYLOAD_MAX + IBA_ICRC_BYTES];
	struct iba_packet p = peer_op(IBA_SEND_ONLY, PSN_PEERS), got;
	struct ib_in in = { .bytes = bytes, .run = RUN };
	uint32_t at;

	p.pad = iba_pad(BYTES);
	at = iba_encode(&p, bytes);
	in.length = at + BYTES + p.pad + IBA_ICRC_BYTES;
	MUST(ib_in_decode(&got, &in));
	EXPECT_EQ(got.run, RUN);
	EXPECT_EQ(got.payload_bytes, BYTES);
	EXPECT(got.payload == bytes + at);
	EXPECT_EQ(iba_run_mtu(&got), IBA_PAYLOAD_MAX);
	in.run = RUN + 1; /* more than 4096 bytes, or fewer than a packet, are left for each */
	EXPECT_EQ(ib_in_decode(&got, &in), WEFT_R_IB_LENGTH);
	in.run = RUN - 1;
	EXPECT_EQ(ib_in_decode(&got, &in), WEFT_R_IB_LENGTH);
}

/* To the queue pair, for bed_put_by(). */
static struct iba_packet run_to(const struct ib_bed *b, enum iba_op op, uint32_t n, uint16_t more)
{
	struct iba_packet p = run(op, n, more);

	p.dest_qp = b->qp->number;
	p.p_key = IBA_PKEY_DEFAULT;
	return p;
}

static void lengthen(uint8_t *bytes, size_t *length)
{
	(void)bytes;
	*length += 3;
}

TEST(test_rc_02_run_of_a_length_that_does_not_fit_is_dropped)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct bed_way way = { .from = b->config.path.to, .change = lengthen };
	const struct iba_packet p = run_to(b, IBA_WRITE_MIDDLE, 1, 3);

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, PSN_PEERS, 0, LONG), data, MTU));
	bed_next(b);
	/* Of no MTU, and of four packets with some bytes left. */
	EXPECT_EQ(bed_put(b, p, data, 4 * MTU + 4), WEFT_R_IB_LENGTH);
	EXPECT_EQ(bed_put_by(b, &way, p, data, 4 * MTU), WEFT_R_IB_LENGTH);
	EXPECT_EQ(bed_put(b, p, data, 4), WEFT_R_IB_LENGTH);
	bed_silent(b);
	bed_close(b);
}

/* More or fewer packets than it has the bytes of, of any MTU; padding that does not fit. */
TEST(test_rc_02_whole_message_of_a_length_that_does_not_fit_is_dropped)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct bed_way way = { .from = b->config.path.to, .change = lengthen };
	const struct iba_packet p = run_to(b, IBA_SEND_ONLY, 0, 3);

	bed_recv(b, 9, 0, LONG);
	EXPECT_EQ(bed_put(b, p, data, 3 * MTU), WEFT_R_IB_LENGTH);
	EXPECT_EQ(bed_put(b, p, data, 0), WEFT_R_IB_LENGTH);
	EXPECT_EQ(bed_put_by(b, &way, run_to(b, IBA_SEND_ONLY, 0, FIT), data, FIT * MTU),
		  WEFT_R_IB_LENGTH);
	bed_silent(b);
	bed_incomplete(b);
	bed_close(b);
}

TEST(test_rc_02_whole_message_of_another_mtu_is_refused)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_recv(b, 9, 0, LONG);
	MUST(bed_put(b, run(IBA_SEND_ONLY, 0, 1), data, 4 * MTU));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), PSN_PEERS);
	EXPECT_EQ(b->qp->reason, WEFT_R_IB_LENGTH);
	bed_close(b);
}

static void shorten(uint8_t *bytes, size_t *length)
{
	(void)bytes;
	*length = 10;
}

TEST(test_rc_02_run_without_a_whole_header_is_dropped)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct bed_way way = { .from = b->config.path.to, .change = shorten };
	const struct iba_packet p = run_to(b, IBA_WRITE_MIDDLE, 1, 3);

	EXPECT_EQ(bed_put_by(b, &way, p, data, 4 * MTU), WEFT_R_IB_SHORT);
	bed_silent(b);
	bed_close(b);
}

TEST(test_rc_02_run_of_another_mtu_is_refused)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, PSN_PEERS, 0, LONG), data, MTU));
	bed_next(b);
	MUST(bed_put(b, run(IBA_WRITE_MIDDLE, 1, 1), data, 4 * MTU));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), iba_psn_add(PSN_PEERS, 1));
	EXPECT_EQ(b->qp->reason, WEFT_R_IB_LENGTH);
	bed_close(b);
}
