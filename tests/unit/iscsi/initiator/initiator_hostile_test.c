/* SPDX-License-Identifier: BSD-2-Clause */
/* A session of an initiator with a target that lies. */
#include "initiator_fixture.h"
#include "test.h"

#include <string.h>

#include "base/draw.h"

#define SECOND BENCH_SECOND

static struct bench b;

/* The connection was closed for this reason, and the command, if any, goes again on the next. */
static void expect_closed(enum weft_reason reason)
{
	EXPECT_EQ(b.closes, 1);
	EXPECT_EQ(iscsi_initiator_state(b.i), ISCSI_SESSION_CLOSING);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_LOST));
	EXPECT_EQ(b.event.reason, reason);
	bench_pass(&b, 2 * SECOND);
	bench_connect(&b);
	bench_login(&b);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 1);
	bench_close(&b);
}

static void start_with(struct iscsi_request *r)
{
	bench_start(&b);
	bench_command(r, 0x2a);
	bench_submit(&b, r);
}

TEST(test_answers_to_no_task)
{
	static const uint8_t opcodes[] = {
		ISCSI_SCSI_RESPONSE,  ISCSI_DATA_IN,	   ISCSI_R2T,
		ISCSI_NOP_IN,	      ISCSI_TASK_RESPONSE, ISCSI_TEXT_RESPONSE,
		ISCSI_LOGOUT_RESPONSE
	};

	for (uint32_t k = 0; k < sizeof(opcodes); k++)
		for (int slot = -1; slot <= BENCH_DEPTH; slot += BENCH_DEPTH / 2 + 1) {
			struct iscsi_pdu p = { .opcode = opcodes[k],
					       .is_final = true,
					       .itt = 0x99,
					       .ttt = opcodes[k] == ISCSI_R2T ? 1 : ISCSI_TAG_NONE,
					       .desired_bytes = 1 };
			struct iscsi_request r;

			start_with(&r);
			bench_give(&b, &p, slot, NULL, 0);
			expect_closed(WEFT_R_ISCSI_NO_TASK);
		}
}

/* A sum that is right is not enough: what did not come would be what the memory had before. */
TEST(test_rfc7143_13_18_data_in_twice_or_out_of_order)
{
	static const uint32_t offsets[][2] = { { 0, 0 }, { 256, 0 }, { 0, 128 }, { 0, 384 } };

	for (uint32_t k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
		struct iscsi_pdu p = { .opcode = ISCSI_DATA_IN,
				       .data_bytes = 256,
				       .ttt = ISCSI_TAG_NONE,
				       .offset = offsets[k][0] };
		struct iscsi_request r;

		bench_start(&b);
		bench_command(&r, 0x28);
		bench_submit(&b, &r);
		bench_give(&b, &p, 0, NULL, 0);
		if (offsets[k][0] == 0) {
			EXPECT_EQ(b.closes, 0);
			p.is_final = p.has_status = true;
			p.offset = offsets[k][1];
			bench_give(&b, &p, 0, NULL, 0);
		}
		expect_closed(WEFT_R_ISCSI_DATA_ORDER);
	}
}

TEST(test_answer_of_another_kind)
{
	struct iscsi_request r, ping = { .kind = ISCSI_REQUEST_PING };

	start_with(&r);
	bench_submit(&b, &ping);
	bench_task_answer(&b, bench_sent(&b, ISCSI_NOP_OUT)->pdu.itt, ISCSI_TASK_COMPLETE);
	EXPECT_EQ(b.closes, 1);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_lose(&b, WEFT_OK);
	EXPECT(iscsi_initiator_next_done(b.i) == &ping);
	EXPECT_EQ(ping.reason, WEFT_R_ISCSI_NO_TASK);
	bench_close(&b);
}

TEST(test_second_response)
{
	struct iscsi_request r[2];

	start_with(&r[0]);
	bench_command(&r[1], 0x28);
	bench_submit(&b, &r[1]);
	bench_answer(&b, 0, 0);
	EXPECT(iscsi_initiator_next_done(b.i) == &r[0]);
	bench_answer(&b, 0, 0);
	expect_closed(WEFT_R_ISCSI_NO_TASK);
}

TEST(test_rfc7143_4_2_2_2_stat_sn_out_of_order)
{
	for (int diff = -1; diff <= 1; diff += 2) {
		struct iscsi_request r;

		start_with(&r);
		b.stat_sn += (uint32_t)diff;
		bench_answer(&b, 0, 0);
		expect_closed(WEFT_R_ISCSI_STAT_SN);
	}
}

TEST(test_rfc7143_4_2_2_1_exp_cmd_sn_of_a_command_not_sent)
{
	struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN,
				 .is_final = true,
				 .itt = ISCSI_TAG_NONE,
				 .ttt = ISCSI_TAG_NONE };
	struct iscsi_request r;

	start_with(&r);
	b.exp_cmd_sn = 2;
	bench_give(&b, &nop, -1, NULL, 0);
	EXPECT_EQ(b.closes, 0);
	b.exp_cmd_sn = 3;
	bench_give(&b, &nop, -1, NULL, 0);
	expect_closed(WEFT_R_ISCSI_EXP_CMD_SN);
}

TEST(test_pdus_that_do_not_belong_to_the_phase)
{
	struct iscsi_pdu login = { .opcode = ISCSI_LOGIN_RESPONSE,
				   .is_final = true,
				   .csg = ISCSI_STAGE_OPERATIONAL,
				   .nsg = ISCSI_STAGE_FULL_FEATURE,
				   .tsih = 7 };
	struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN,
				 .is_final = true,
				 .itt = ISCSI_TAG_NONE,
				 .ttt = ISCSI_TAG_NONE };
	struct iscsi_request r;

	start_with(&r);
	bench_give(&b, &login, -1, NULL, 0);
	expect_closed(WEFT_R_ISCSI_UNEXPECTED);
	bench_init(&b);
	bench_open(&b);
	bench_connect(&b);
	bench_give(&b, &nop, -1, NULL, 0);
	EXPECT_EQ(b.closes, 1);
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_LOGIN_FIELD);
	iscsi_initiator_destroy(b.i);
}

TEST(test_bytes_that_are_no_pdu)
{
	uint8_t bytes[ISCSI_BHS_BYTES] = { 0x01 };
	struct iscsi_received in = { .header = bytes, .header_bytes = sizeof(bytes) };
	struct iscsi_request r;

	start_with(&r);
	iscsi_initiator_take(b.i, &in, b.now_ns);
	expect_closed(WEFT_R_ISCSI_DIRECTION);
	start_with(&r);
	in.header_bytes = 20;
	iscsi_initiator_take(b.i, &in, b.now_ns);
	expect_closed(WEFT_R_ISCSI_SHORT);
	/* What a check of the port refused (ISCSI-05). */
	start_with(&r);
	in.header_bytes = sizeof(bytes);
	in.reason = WEFT_R_ISCSI_ENTRY_RANGE;
	iscsi_initiator_take(b.i, &in, b.now_ns);
	expect_closed(WEFT_R_ISCSI_ENTRY_RANGE);
	/* Sense data that is longer than its data segment. */
	start_with(&r);
	{
		static const uint8_t data[3] = { 0, 18, 0x70 };
		struct iscsi_pdu p = { .opcode = ISCSI_SCSI_RESPONSE,
				       .is_final = true,
				       .status = 2 };

		bench_give(&b, &p, 0, data, sizeof(data));
		expect_closed(WEFT_R_ISCSI_DATA_LENGTH);
	}
}

static void text_start(struct iscsi_request *r, uint8_t *room, size_t length)
{
	bench_init(&b);
	b.config.is_discovery = true;
	bench_open(&b);
	bench_connect(&b);
	bench_login(&b);
	*r = (struct iscsi_request){ .kind = ISCSI_REQUEST_TEXT, .text = { room, length } };
	bench_submit(&b, r);
}

TEST(test_endless_text)
{
	static uint8_t room[64], piece[16];
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_RESPONSE, .ttt = 1 };
	struct iscsi_request r;

	/* Pieces without end do not fit some time. */
	text_start(&r, room, sizeof(room));
	p.itt = bench_sent(&b, ISCSI_TEXT_REQUEST)->pdu.itt;
	for (int k = 0; k < 5; k++)
		bench_give(&b, &p, -1, piece, sizeof(piece));
	EXPECT(iscsi_initiator_next_done(b.i) == &r);
	EXPECT_EQ(r.reason, WEFT_R_ISCSI_TEXT_LONG);
	EXPECT_EQ(b.closes, 1);
	bench_close(&b);
	/* Empty ones would. */
	text_start(&r, room, sizeof(room));
	p.itt = bench_sent(&b, ISCSI_TEXT_REQUEST)->pdu.itt;
	bench_give(&b, &p, -1, NULL, 0);
	EXPECT(iscsi_initiator_next_done(b.i) == &r);
	EXPECT_EQ(r.reason, WEFT_R_ISCSI_ENDLESS);
	EXPECT_EQ(b.closes, 1);
	bench_close(&b);
}

/* Section 11.9.1, event 4: every text of the target wants an answer, and none is its last. */
TEST(test_endless_negotiation_of_the_target)
{
	struct iscsi_pdu async = { .opcode = ISCSI_ASYNC,
				   .is_final = true,
				   .itt = ISCSI_TAG_NONE,
				   .code = ISCSI_ASYNC_NEGOTIATE };
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_RESPONSE, .ttt = 1 };
	char text[] = "X-org.example.0=1";
	uint32_t exchanges = 0;
	struct iscsi_request r;

	start_with(&r);
	bench_give(&b, &async, -1, NULL, 0);
	while (b.closes == 0) {
		const struct bench_pdu *sent = bench_sent(&b, ISCSI_TEXT_REQUEST);

		REQUIRE(sent && exchanges++ < BENCH_LOG / 2);
		p.itt = sent->pdu.itt;
		bench_give(&b, &p, -1, text, sizeof(text));
	}
	EXPECT_EQ(exchanges, ISCSI_EXCHANGES_MAX + 1);
	expect_closed(WEFT_R_ISCSI_ENDLESS);
}

TEST(test_login_whose_port_has_no_room)
{
	bench_init(&b);
	bench_open(&b);
	b.is_full = true;
	bench_connect(&b);
	EXPECT_EQ(b.closes, 1);
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_QUEUE_FULL);
	iscsi_initiator_destroy(b.i);
}

/* ---- Random histories ----------------------------------------------------------------------- */

enum { LOT_REQUESTS = 20 };

struct lot {
	struct prng prng;
	struct iscsi_request r[LOT_REQUESTS];
	uint8_t room[LOT_REQUESTS][64];
	bool is_out[LOT_REQUESTS]; /* lent to the session */
	bool is_over;
};

static uint32_t draw(struct lot *l, uint32_t n)
{
	return (uint32_t)prng_below(&l->prng, n);
}

/* A task refers to a command that is lent, or the session would look at memory of the caller. */
static void lot_submit(struct lot *l)
{
	uint32_t k = draw(l, LOT_REQUESTS), t = draw(l, LOT_REQUESTS);
	struct iscsi_request *r = &l->r[k];

	if (l->is_out[k])
		return;
	bench_command(r, (uint8_t)ANY_OF(&l->prng, 0x28, 0x2a, 0x00, 0x5f));
	r->kind = (enum iscsi_request_kind)draw(l, ISCSI_REQUEST_KINDS);
	r->lun = draw(l, 2);
	r->is_immediate = draw(l, 4) == 0;
	r->timeout_ns = draw(l, 3) ? 0 : 1 + draw(l, 1000000000);
	r->text = (struct span){ l->room[k], sizeof(l->room[k]) };
	r->function = (uint8_t)(1 + draw(l, 7));
	if (r->function == ISCSI_ABORT_TASK && l->is_out[t] &&
	    l->r[t].kind == ISCSI_REQUEST_COMMAND)
		r->task = &l->r[t];
	l->is_out[k] = iscsi_initiator_submit(b.i, r, b.now_ns) == WEFT_OK;
}

static void lot_reap(struct lot *l)
{
	struct iscsi_request *r;

	while ((r = iscsi_initiator_next_done(b.i)) != NULL) {
		REQUIRE(l->is_out[r - l->r]);
		l->is_out[r - l->r] = false;
		/* The port has let go of what ended. */
		if (r->kind == ISCSI_REQUEST_COMMAND)
			memset(r->cdb, 0xee, sizeof(r->cdb));
	}
}

/* A PDU with any fields. */
static void lot_give_any(struct lot *l)
{
	static const uint8_t opcodes[] = { ISCSI_NOP_IN,	  ISCSI_SCSI_RESPONSE,
					   ISCSI_SCSI_RESPONSE,	  ISCSI_SCSI_RESPONSE,
					   ISCSI_TASK_RESPONSE,	  ISCSI_LOGIN_RESPONSE,
					   ISCSI_TEXT_RESPONSE,	  ISCSI_DATA_IN,
					   ISCSI_LOGOUT_RESPONSE, ISCSI_R2T,
					   ISCSI_ASYNC,		  ISCSI_REJECT };
	static uint8_t data[64];
	struct iscsi_pdu p = { .opcode = opcodes[draw(l, sizeof(opcodes))], .is_final = true };
	uint32_t log = b.count > 0 ? draw(l, b.count) : 0, bytes = 0;
	int slot = (int)draw(l, BENCH_DEPTH);

	for (int k = 0; k < BENCH_DEPTH && !b.is_open[slot] && draw(l, 8); k++)
		slot = (slot + 1) % BENCH_DEPTH;
	p.itt = b.count > 0 && draw(l, 20) ? b.log[log].pdu.itt : draw(l, 300);
	p.ttt = draw(l, 2) ? ISCSI_TAG_NONE : draw(l, 9);
	if (p.opcode == ISCSI_ASYNC || p.opcode == ISCSI_REJECT ||
	    (p.opcode == ISCSI_NOP_IN && draw(l, 2)))
		p.itt = ISCSI_TAG_NONE;
	p.code = (uint8_t)draw(l, p.opcode == ISCSI_SCSI_RESPONSE ? 2 : 6);
	p.csg = 1;
	p.nsg = 3;
	p.tsih = 1;
	p.isid = 0x800102030405;
	p.status = draw(l, 3) ? 0 : 2;
	p.has_status = draw(l, 2);
	p.desired_bytes = 1;
	p.parameters[2] = (uint16_t)draw(l, 3);
	if (p.opcode == ISCSI_REJECT && b.count > 0) {
		struct wr w = wr_of(data, sizeof(data));

		iscsi_encode(&b.log[log].pdu, &w);
		bytes = 48;
	}
	b.max_cmd_sn = b.exp_cmd_sn + draw(l, 20);
	if (draw(l, 50) == 0)
		b.stat_sn++;
	bench_give(&b, &p, draw(l, 20) ? slot : -1, bytes ? data : NULL, bytes);
}

/* The answer to a PDU that was sent, once. */
static void lot_answer_control(struct lot *l)
{
	static const uint8_t answers[][2] = { { ISCSI_NOP_OUT, ISCSI_NOP_IN },
					      { ISCSI_TASK_REQUEST, ISCSI_TASK_RESPONSE },
					      { ISCSI_TEXT_REQUEST, ISCSI_TEXT_RESPONSE },
					      { ISCSI_LOGOUT_REQUEST, ISCSI_LOGOUT_RESPONSE } };
	struct iscsi_pdu p = { .is_final = true, .ttt = ISCSI_TAG_NONE };
	struct bench_pdu *sent = &b.log[b.count > 0 ? draw(l, b.count) : 0];

	for (uint32_t k = 0; k < 4; k++)
		if (b.count > 0 && sent->pdu.opcode == answers[k][0])
			p.opcode = answers[k][1];
	if (p.opcode == 0 || sent->pdu.itt == ISCSI_TAG_NONE)
		return;
	p.itt = sent->pdu.itt;
	p.code = p.opcode == ISCSI_TASK_RESPONSE ? (uint8_t)draw(l, 3) : 0;
	sent->pdu.itt = ISCSI_TAG_NONE;
	bench_give(&b, &p, -1, NULL, 0);
}

static void lot_give(struct lot *l)
{
	struct iscsi_pdu p = { .is_final = true, .itt = ISCSI_TAG_NONE, .ttt = ISCSI_TAG_NONE };
	uint32_t slot = draw(l, BENCH_DEPTH), lot = draw(l, 100);

	b.max_cmd_sn = b.exp_cmd_sn + 10 + draw(l, 100);
	if (iscsi_initiator_state(b.i) == ISCSI_SESSION_LOGIN && lot > 0) {
		bench_login(&b);
	} else if (lot < 50) {
		if (b.is_open[slot])
			bench_answer(&b, slot, (uint8_t)ANY_OF(&l->prng, 0, 0, 2, 8));
	} else if (lot < 85) {
		lot_answer_control(l);
	} else if (lot < 93) {
		p.opcode = ISCSI_NOP_IN;
		p.ttt = draw(l, 2) ? ISCSI_TAG_NONE : draw(l, 9);
		bench_give(&b, &p, -1, NULL, 0);
	} else if (lot < 97) {
		p.opcode = ISCSI_ASYNC;
		p.code = (uint8_t)draw(l, 6);
		p.parameters[2] = (uint16_t)draw(l, 3);
		bench_give(&b, &p, -1, NULL, 0);
	} else {
		lot_give_any(l);
	}
}

static void lot_step(struct lot *l)
{
	uint32_t lot = draw(l, 20);

	if (b.count > BENCH_LOG - 64)
		bench_clear(&b);
	if (iscsi_initiator_state(b.i) == ISCSI_SESSION_CLOSING)
		bench_lose(&b, WEFT_OK);
	if (iscsi_initiator_state(b.i) == ISCSI_SESSION_WANTING) {
		b.is_full = false;
		bench_connect(&b);
		return;
	}
	if (lot < 6)
		lot_submit(l);
	else if (lot < 14)
		lot_give(l);
	else if (lot < 16)
		bench_pass(&b, draw(l, 400000000));
	else if (lot == 16)
		b.is_full = !b.is_full;
	else if (lot == 17)
		iscsi_initiator_ready(b.i, b.now_ns);
	else if (lot == 18 && draw(l, 20) == 0 &&
		 iscsi_initiator_state(b.i) >= ISCSI_SESSION_LOGIN &&
		 iscsi_initiator_state(b.i) <= ISCSI_SESSION_LOGOUT)
		bench_lose(&b, WEFT_R_STREAM_LOST);
	l->is_over = iscsi_initiator_state(b.i) == ISCSI_SESSION_ENDED;
}

/* Whatever the target says, each request ends exactly once, and the session comes to an end. */
TEST(test_random_target_ends_every_request_once)
{
	static struct lot l;

	for (uint64_t seed = 1; seed <= HISTORIES(4000); seed++) {
		l = (struct lot){ 0 };
		l.prng.state = seed;
		bench_init(&b);
		b.config.recovery.reconnects_max = 4;
		bench_open(&b);
		for (int k = 0; k < 400 && !l.is_over; k++) {
			lot_step(&l);
			lot_reap(&l);
		}
		bench_end(&b);
		lot_reap(&l);
		for (int k = 0; k < LOT_REQUESTS; k++)
			EXPECT(!l.is_out[k]);
		iscsi_initiator_destroy(b.i);
	}
}
