/* SPDX-License-Identifier: BSD-2-Clause */
/* An initiator's session: RFC 7143 sections 4.2.2, 6, 7 and 11. */
#include "initiator_fixture.h"
#include "test.h"

#include <string.h>

#define SECOND BENCH_SECOND

static struct bench b;

static void expect_done(struct iscsi_request *r, enum weft_reason reason)
{
	EXPECT(iscsi_initiator_next_done(b.i) == r);
	EXPECT_EQ(r->reason, reason);
}

static const struct bench_pdu *first_command(void)
{
	for (uint32_t k = 0; k < b.count; k++)
		if (b.log[k].pdu.opcode == ISCSI_SCSI_COMMAND)
			return &b.log[k];
	return NULL;
}

/* ---- Login and commands --------------------------------------------------------------------- */

TEST(test_rfc7143_6_3_login_then_commands)
{
	struct iscsi_request r;
	const struct bench_pdu *sent;

	bench_init(&b);
	bench_open(&b);
	bench_command(&r, 0x2a);
	r.lun = 3ULL << 48;
	bench_submit(&b, &r);
	bench_connect(&b);
	sent = bench_sent(&b, ISCSI_LOGIN_REQUEST);
	EXPECT(sent && sent->pdu.tsih == 0 && sent->pdu.isid == 0x800102030405);
	EXPECT_EQ(b.count, 1);
	bench_login(&b);
	EXPECT_EQ(b.agreements, 1);
	sent = bench_sent(&b, ISCSI_SCSI_COMMAND);
	EXPECT(sent);
	EXPECT_EQ(sent->pdu.cmd_sn, 1);
	EXPECT_EQ(sent->pdu.exp_stat_sn, b.stat_sn);
	EXPECT(sent->pdu.is_write && !sent->pdu.is_read);
	EXPECT_EQ(sent->pdu.lun, 3ULL << 48);
	EXPECT_EQ(sent->pdu.attr, ISCSI_ATTR_SIMPLE);
	b.exp_cmd_sn = 2;
	bench_answer(&b, sent->slot, 0);
	expect_done(&r, WEFT_OK);
	EXPECT_EQ(r.login, 1);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_close(&b);
}

TEST(test_rfc7143_11_4_status_sense_and_residual)
{
	static const uint8_t data[2 + 18] = { 0, 18, 0x70, 0, 5, [2 + 12] = 0x24 };
	struct iscsi_pdu p = { .opcode = ISCSI_SCSI_RESPONSE,
			       .is_final = true,
			       .status = 2,
			       .is_underflow = true,
			       .residual = 512 };
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x28);
	bench_submit(&b, &r);
	bench_give(&b, &p, 0, data, sizeof(data));
	expect_done(&r, WEFT_OK);
	EXPECT_EQ(r.status, 2);
	EXPECT(r.is_underflow && !r.is_overflow);
	EXPECT_EQ(r.residual, 512);
	EXPECT_EQ(r.sense_bytes, 18);
	EXPECT_MEM(r.sense, data + 2, 18);
	/* Section 11.4.3: the target failed, and there is no status. */
	bench_submit(&b, &r);
	p = (struct iscsi_pdu){ .opcode = ISCSI_SCSI_RESPONSE,
				.is_final = true,
				.code = ISCSI_TARGET_FAILURE };
	bench_give(&b, &p, 0, NULL, 0);
	expect_done(&r, WEFT_R_ISCSI_TARGET_FAILURE);
	EXPECT_EQ(r.sense_bytes, 0);
	bench_close(&b);
}

TEST(test_status_in_data_in_ends_the_command)
{
	struct iscsi_pdu p = { .opcode = ISCSI_DATA_IN, .data_bytes = 256, .ttt = ISCSI_TAG_NONE };
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x28);
	bench_submit(&b, &r);
	bench_give(&b, &p, 0, NULL, 0);
	EXPECT(!iscsi_initiator_next_done(b.i));
	p.is_final = p.has_status = true;
	p.offset = 256;
	bench_give(&b, &p, 0, NULL, 0);
	expect_done(&r, WEFT_OK);
	/* The same, but half of the data did not come. */
	p.offset = 0;
	bench_submit(&b, &r);
	bench_give(&b, &p, 0, NULL, 0);
	expect_done(&r, WEFT_R_ISCSI_DATA_MISSING);
	/* Unless the target says so. */
	bench_submit(&b, &r);
	p.is_underflow = true;
	p.residual = 256;
	bench_give(&b, &p, 0, NULL, 0);
	expect_done(&r, WEFT_OK);
	/* A port that shows no data cannot tell. */
	b.calls.shows_data = false;
	bench_submit(&b, &r);
	bench_answer(&b, 0, 0);
	expect_done(&r, WEFT_OK);
	EXPECT_EQ(b.closes, 0);
	bench_close(&b);
}

TEST(test_rfc7143_4_2_2_1_window_holds_commands_back)
{
	struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN,
				 .is_final = true,
				 .itt = ISCSI_TAG_NONE,
				 .ttt = ISCSI_TAG_NONE };
	struct iscsi_request r[5];

	bench_init(&b);
	bench_open(&b);
	bench_connect(&b);
	b.max_cmd_sn = 2;
	bench_login(&b);
	for (int k = 0; k < 5; k++)
		bench_command(&r[k], 0x28);
	r[3].is_immediate = true;
	for (int k = 0; k < 4; k++)
		bench_submit(&b, &r[k]);
	/* Two are in the window; the immediate one has the number that the next would have. */
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 3);
	EXPECT_EQ(b.log[0].pdu.cmd_sn, 1);
	EXPECT_EQ(b.log[1].pdu.cmd_sn, 2);
	EXPECT(b.log[2].pdu.is_immediate);
	EXPECT_EQ(b.log[2].pdu.cmd_sn, 3);
	/* A NOP-In opens it; an unsolicited one takes no StatSN. */
	b.max_cmd_sn = 3;
	bench_give(&b, &nop, -1, NULL, 0);
	bench_submit(&b, &r[4]);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 4);
	EXPECT_EQ(b.log[3].pdu.cmd_sn, 3);
	EXPECT(iscsi_initiator_counts(b.i)->waits > 0);
	/* MaxCmdSN does not move back. */
	b.max_cmd_sn = 10;
	bench_give(&b, &nop, -1, NULL, 0);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 5);
	b.max_cmd_sn = 3;
	bench_give(&b, &nop, -1, NULL, 0);
	bench_answer(&b, 0, 2);
	EXPECT(iscsi_initiator_next_done(b.i) == &r[0]);
	bench_submit(&b, &r[0]);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 6);
	EXPECT_EQ(b.closes, 0);
	bench_close(&b);
}

TEST(test_depth_bounds_the_commands_at_the_target)
{
	struct iscsi_request r[BENCH_REQUESTS + 1];

	bench_start(&b);
	for (int k = 0; k <= BENCH_REQUESTS; k++)
		bench_command(&r[k], 0x2a);
	for (int k = 0; k < BENCH_REQUESTS; k++)
		bench_submit(&b, &r[k]);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), BENCH_DEPTH);
	EXPECT_EQ(iscsi_initiator_submit(b.i, &r[BENCH_REQUESTS], b.now_ns), WEFT_R_QUEUE_FULL);
	bench_answer(&b, 5, 0);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), BENCH_DEPTH + 1);
	EXPECT_EQ(bench_sent(&b, ISCSI_SCSI_COMMAND)->slot, 5);
	expect_done(&r[5], WEFT_OK);
	bench_submit(&b, &r[BENCH_REQUESTS]);
	bench_close(&b);
}

TEST(test_port_without_room_is_asked_again)
{
	struct iscsi_request r[2];

	bench_start(&b);
	b.is_full = true;
	bench_command(&r[0], 0x28);
	bench_command(&r[1], 0x28);
	bench_submit(&b, &r[0]);
	bench_submit(&b, &r[1]);
	EXPECT_EQ(b.count, 0);
	b.is_full = false;
	iscsi_initiator_ready(b.i, b.now_ns);
	EXPECT_EQ(b.count, 2);
	EXPECT_EQ(b.log[0].pdu.cmd_sn, 1);
	EXPECT_EQ(b.log[1].pdu.cmd_sn, 2);
	bench_close(&b);
}

/* ISCSI-01e: a command that the adapter cannot send leaves no hole in the numbers. */
TEST(test_refused_command_ends_and_those_behind_go_again)
{
	struct iscsi_request r[4];

	bench_start(&b);
	for (int k = 0; k < 4; k++) {
		bench_command(&r[k], 0x28);
		if (k < 3)
			bench_submit(&b, &r[k]);
	}
	bench_clear(&b);
	iscsi_initiator_refused(b.i, b.is_open[1] ? 1 : 0, WEFT_R_TABLE_FULL, b.now_ns);
	b.is_open[1] = false;
	iscsi_initiator_refused(b.i, 2, WEFT_OK, b.now_ns);
	b.is_open[2] = false;
	expect_done(&r[1], WEFT_R_TABLE_FULL);
	bench_submit(&b, &r[3]);
	EXPECT_EQ(b.count, 0); /* not before the port is ready */
	iscsi_initiator_ready(b.i, b.now_ns);
	EXPECT_EQ(b.count, 2);
	EXPECT_EQ(b.log[0].pdu.cmd_sn, 2);
	EXPECT_EQ(b.log[1].pdu.cmd_sn, 3);
	b.exp_cmd_sn = 4;
	bench_answer(&b, b.log[0].slot, 2);
	expect_done(&r[2], WEFT_OK);
	bench_answer(&b, b.log[1].slot, 2);
	expect_done(&r[3], WEFT_OK);
	EXPECT_EQ(b.closes, 0);
	bench_close(&b);
}

TEST(test_requests_that_cannot_be_are_refused)
{
	struct iscsi_request r;
	struct iscsi_request task = { .kind = ISCSI_REQUEST_TASK };
	struct iscsi_initiator *none;

	bench_start(&b);
	bench_command(&r, 0);
	r.expected_bytes = 1;
	EXPECT_EQ(iscsi_initiator_submit(b.i, &r, b.now_ns), WEFT_R_BAD_ARGUMENT);
	r.expected_bytes = 0;
	r.attr = 5;
	EXPECT_EQ(iscsi_initiator_submit(b.i, &r, b.now_ns), WEFT_R_BAD_ARGUMENT);
	r.attr = 0;
	r.kind = ISCSI_REQUEST_TEXT;
	EXPECT_EQ(iscsi_initiator_submit(b.i, &r, b.now_ns), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(iscsi_initiator_submit(b.i, &task, b.now_ns), WEFT_R_BAD_ARGUMENT);
	task.function = ISCSI_ABORT_TASK;
	EXPECT_EQ(iscsi_initiator_submit(b.i, &task, b.now_ns), WEFT_R_BAD_ARGUMENT);
	task.function = ISCSI_TASK_REASSIGN;
	EXPECT_EQ(iscsi_initiator_submit(b.i, &task, b.now_ns), WEFT_R_BAD_ARGUMENT);
	bench_close(&b);
	b.config.limits.depth = 0;
	EXPECT_EQ(iscsi_initiator_create(&b.config, &none), WEFT_R_BAD_ARGUMENT);
	b.config.limits.depth = BENCH_REQUESTS + 1;
	EXPECT_EQ(iscsi_initiator_create(&b.config, &none), WEFT_R_BAD_ARGUMENT);
	b.config.limits.depth = 1;
	b.config.target_name = iscsi_word("disk");
	EXPECT_EQ(iscsi_initiator_create(&b.config, &none), WEFT_R_ISCSI_NAME);
	b.config.target_name = iscsi_word("iqn.2001-04.com.example:disk");
	b.config.initiator_name = iscsi_word("host");
	EXPECT_EQ(iscsi_initiator_create(&b.config, &none), WEFT_R_ISCSI_NAME);
}

/* ---- NOP ------------------------------------------------------------------------------------ */

TEST(test_rfc7143_11_19_target_s_ping_is_answered)
{
	struct iscsi_pdu nop = {
		.opcode = ISCSI_NOP_IN, .is_final = true, .itt = ISCSI_TAG_NONE, .ttt = 77, .lun = 5
	};
	const struct bench_pdu *sent;

	bench_start(&b);
	bench_give(&b, &nop, -1, NULL, 0);
	sent = bench_sent(&b, ISCSI_NOP_OUT);
	EXPECT(sent && sent->pdu.is_immediate);
	EXPECT_EQ(sent->pdu.ttt, 77);
	EXPECT_EQ(sent->pdu.lun, 5);
	EXPECT_EQ(sent->pdu.itt, ISCSI_TAG_NONE);
	/* Answers wait for room in the port, in order, but not without end. */
	bench_clear(&b);
	b.is_full = true;
	for (int k = 0; k < 16; k++) {
		nop.ttt = 100 + (uint32_t)k;
		bench_give(&b, &nop, -1, NULL, 0);
	}
	EXPECT_EQ(b.closes, 0);
	b.is_full = false;
	iscsi_initiator_ready(b.i, b.now_ns);
	EXPECT_EQ(b.count, 16);
	for (uint32_t k = 0; k < 16; k++)
		EXPECT_EQ(b.log[k].pdu.ttt, 100 + k);
	b.is_full = true;
	for (int k = 0; k < 17; k++)
		bench_give(&b, &nop, -1, NULL, 0);
	EXPECT_EQ(b.closes, 1);
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_LOST));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_FLOOD);
	bench_close(&b);
}

TEST(test_silent_target_is_asked_and_then_left)
{
	struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN, .is_final = true, .ttt = ISCSI_TAG_NONE };
	const struct bench_pdu *sent;

	bench_init(&b);
	b.config.limits.ping_after_ns = 5 * SECOND;
	b.config.limits.ping_ns = 3 * SECOND;
	bench_open(&b);
	bench_connect(&b);
	bench_login(&b);
	bench_pass(&b, 4 * SECOND);
	EXPECT_EQ(b.count, 0);
	bench_pass(&b, SECOND);
	sent = bench_sent(&b, ISCSI_NOP_OUT);
	EXPECT(sent && sent->pdu.ttt == ISCSI_TAG_NONE);
	nop.itt = sent->pdu.itt;
	bench_pass(&b, 2 * SECOND);
	bench_give(&b, &nop, -1, NULL, 0);
	EXPECT_EQ(b.closes, 0);
	bench_clear(&b);
	bench_pass(&b, 4 * SECOND);
	EXPECT_EQ(b.count, 0);
	bench_pass(&b, SECOND);
	EXPECT_EQ(bench_count(&b, ISCSI_NOP_OUT), 1);
	bench_pass(&b, 3 * SECOND);
	EXPECT_EQ(b.closes, 1);
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_LOST));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_SILENT);
	bench_close(&b);
}

TEST(test_ping_of_the_caller)
{
	struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN, .is_final = true, .ttt = ISCSI_TAG_NONE };
	struct iscsi_request r = { .kind = ISCSI_REQUEST_PING, .timeout_ns = SECOND };

	bench_start(&b);
	bench_submit(&b, &r);
	nop.itt = bench_sent(&b, ISCSI_NOP_OUT)->pdu.itt;
	bench_give(&b, &nop, -1, NULL, 0);
	expect_done(&r, WEFT_OK);
	bench_submit(&b, &r);
	bench_pass(&b, SECOND);
	expect_done(&r, WEFT_R_ISCSI_TIMEOUT);
	EXPECT_EQ(b.closes, 1);
	bench_close(&b);
}

/* ---- Logout --------------------------------------------------------------------------------- */

static void logout_answer(uint8_t code)
{
	struct iscsi_pdu p = { .opcode = ISCSI_LOGOUT_RESPONSE, .is_final = true, .code = code };

	p.itt = bench_sent(&b, ISCSI_LOGOUT_REQUEST)->pdu.itt;
	bench_give(&b, &p, -1, NULL, 0);
}

TEST(test_rfc7143_11_14_logout_waits_for_requests)
{
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x2a);
	bench_submit(&b, &r);
	iscsi_initiator_logout(b.i, b.now_ns);
	EXPECT_EQ(iscsi_initiator_submit(b.i, &r, b.now_ns), WEFT_R_ISCSI_ENDED);
	EXPECT(!bench_sent(&b, ISCSI_LOGOUT_REQUEST));
	bench_answer(&b, 0, 0);
	expect_done(&r, WEFT_OK);
	EXPECT(bench_sent(&b, ISCSI_LOGOUT_REQUEST));
	EXPECT_EQ(bench_sent(&b, ISCSI_LOGOUT_REQUEST)->pdu.code, ISCSI_LOGOUT_SESSION);
	logout_answer(ISCSI_LOGOUT_OK);
	EXPECT_EQ(b.closes, 1);
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_OK);
	EXPECT_EQ(iscsi_initiator_state(b.i), ISCSI_SESSION_ENDED);
	iscsi_initiator_destroy(b.i);
}

TEST(test_logout_does_not_wait_for_ever)
{
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x2a);
	bench_submit(&b, &r);
	iscsi_initiator_logout(b.i, b.now_ns);
	bench_pass(&b, 15 * SECOND);
	EXPECT(bench_sent(&b, ISCSI_LOGOUT_REQUEST));
	bench_pass(&b, 15 * SECOND);
	EXPECT_EQ(b.closes, 1);
	EXPECT(!iscsi_initiator_next_done(b.i)); /* the port has its memory */
	bench_lose(&b, WEFT_OK);
	expect_done(&r, WEFT_R_ISCSI_ENDED);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	iscsi_initiator_destroy(b.i);
}

TEST(test_rfc7143_11_9_target_asks_for_a_logout)
{
	struct iscsi_pdu p = { .opcode = ISCSI_ASYNC,
			       .is_final = true,
			       .itt = ISCSI_TAG_NONE,
			       .code = ISCSI_ASYNC_LOGOUT,
			       .parameters = { 0, 0, 10 } };
	struct iscsi_request r[2];

	bench_start(&b);
	bench_command(&r[0], 0x2a);
	bench_command(&r[1], 0x2a);
	bench_submit(&b, &r[0]);
	bench_give(&b, &p, -1, NULL, 0);
	bench_submit(&b, &r[1]);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 1);
	bench_pass(&b, 5 * SECOND);
	EXPECT(bench_sent(&b, ISCSI_LOGOUT_REQUEST));
	logout_answer(ISCSI_LOGOUT_OK);
	bench_lose(&b, WEFT_OK);
	bench_pass(&b, 2 * SECOND);
	bench_connect(&b);
	bench_login(&b);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 2);
	bench_close(&b);
}

TEST(test_rfc7143_11_9_target_drops_the_connection)
{
	struct iscsi_pdu p = { .opcode = ISCSI_ASYNC,
			       .is_final = true,
			       .itt = ISCSI_TAG_NONE,
			       .code = ISCSI_ASYNC_DROP_CONNECTION,
			       .parameters = { 0, 7, 20 } };

	bench_start(&b);
	bench_give(&b, &p, -1, NULL, 0);
	EXPECT_EQ(b.closes, 1);
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_LOST));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_DROPPED);
	/* Parameter2 is Time2Wait. */
	bench_pass(&b, 7 * SECOND - 1);
	EXPECT(!bench_event(&b, ISCSI_EVENT_CONNECT));
	bench_pass(&b, 1);
	EXPECT(bench_event(&b, ISCSI_EVENT_CONNECT));
	iscsi_initiator_lost(b.i, WEFT_R_CONNECT_CLOSED, b.now_ns);
	bench_close(&b);
}

TEST(test_rfc7143_11_9_scsi_event_is_reported)
{
	static const uint8_t data[2 + 18] = { 0, 18, 0x70, 0, 6, [2 + 12] = 0x3f, 0x0e };
	struct iscsi_pdu p = { .opcode = ISCSI_ASYNC,
			       .is_final = true,
			       .itt = ISCSI_TAG_NONE,
			       .code = ISCSI_ASYNC_SCSI,
			       .lun = 9 };

	bench_start(&b);
	bench_give(&b, &p, -1, data, sizeof(data));
	EXPECT(bench_event(&b, ISCSI_EVENT_SCSI));
	EXPECT_EQ(b.event.lun, 9);
	EXPECT_EQ(b.event.sense_bytes, 18);
	EXPECT_MEM(b.event.sense, data + 2, 18);
	bench_close(&b);
}

TEST(test_rfc7143_11_9_target_negotiates)
{
	static const char text[] = "MaxRecvDataSegmentLength=4096";
	struct iscsi_pdu p = { .opcode = ISCSI_ASYNC,
			       .is_final = true,
			       .itt = ISCSI_TAG_NONE,
			       .code = ISCSI_ASYNC_NEGOTIATE };
	struct iscsi_pdu answer = { .opcode = ISCSI_TEXT_RESPONSE,
				    .is_final = true,
				    .ttt = ISCSI_TAG_NONE };
	const struct bench_pdu *sent;

	bench_start(&b);
	bench_give(&b, &p, -1, NULL, 0);
	sent = bench_sent(&b, ISCSI_TEXT_REQUEST);
	EXPECT(sent && sent->data_bytes == 0);
	answer.itt = sent->pdu.itt;
	bench_give(&b, &answer, -1, text, sizeof(text));
	EXPECT_EQ(b.agreements, 2);
	EXPECT_EQ(b.agreed.connection.send_bytes_max, 4096);
	EXPECT_EQ(b.closes, 0);
	EXPECT_EQ(bench_count(&b, ISCSI_TEXT_REQUEST), 1);
	/* It may ask again. */
	bench_give(&b, &p, -1, NULL, 0);
	EXPECT_EQ(bench_count(&b, ISCSI_TEXT_REQUEST), 2);
	bench_close(&b);
}

/* ---- Discovery ------------------------------------------------------------------------------ */

static void discovery_start(void)
{
	bench_init(&b);
	b.config.is_discovery = true;
	b.config.target_name = (struct word){ 0 };
	bench_open(&b);
	bench_connect(&b);
	bench_login(&b);
}

TEST(test_rfc7143_4_3_sendtargets_over_continued_texts)
{
	static const char one[] = "TargetName=iqn.2001-04.com.example:a\0"
				  "TargetAddress=10.0.0.1:3260,1\0TargetAddr";
	static const char two[] = "ess=[fe80::1]:860,2\0TargetName=iqn.2001-04.com.example:b";
	static uint8_t room[4096];
	struct iscsi_request r = { .kind = ISCSI_REQUEST_TEXT,
				   .send_targets = iscsi_word("All"),
				   .text = { room, sizeof(room) } };
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_RESPONSE, .is_continued = true, .ttt = 5 };
	const struct bench_pdu *sent;
	struct iscsi_portals portals;
	struct iscsi_portal portal;

	discovery_start();
	bench_submit(&b, &r);
	sent = bench_sent(&b, ISCSI_TEXT_REQUEST);
	EXPECT(sent && sent->pdu.is_final && sent->pdu.ttt == ISCSI_TAG_NONE);
	EXPECT_EQ(sent->data_bytes, 16);
	EXPECT_MEM(sent->data, "SendTargets=All", 16);
	p.itt = sent->pdu.itt;
	bench_give(&b, &p, -1, one, sizeof(one) - 1);
	sent = bench_sent(&b, ISCSI_TEXT_REQUEST);
	EXPECT_EQ(bench_count(&b, ISCSI_TEXT_REQUEST), 2);
	EXPECT_EQ(sent->pdu.ttt, 5);
	EXPECT_EQ(sent->pdu.itt, p.itt);
	EXPECT_EQ(sent->data_bytes, 0);
	p.is_continued = false;
	p.is_final = true;
	p.ttt = ISCSI_TAG_NONE;
	bench_give(&b, &p, -1, two, sizeof(two));
	expect_done(&r, WEFT_OK);
	iscsi_portals_init(&portals, &r);
	EXPECT(iscsi_portals_next(&portals, &portal));
	EXPECT(word_is(portal.target, "iqn.2001-04.com.example:a"));
	EXPECT(word_is(portal.address, "10.0.0.1:3260,1"));
	EXPECT(iscsi_portals_next(&portals, &portal));
	EXPECT(word_is(portal.address, "[fe80::1]:860,2"));
	EXPECT(iscsi_portals_next(&portals, &portal));
	EXPECT(word_is(portal.target, "iqn.2001-04.com.example:b"));
	EXPECT_EQ(portal.address.length, 0);
	EXPECT(!iscsi_portals_next(&portals, &portal));
	EXPECT_EQ(portals.reason, WEFT_OK);
	bench_close(&b);
}

TEST(test_discovery_session_has_no_commands)
{
	struct iscsi_request r;

	discovery_start();
	bench_command(&r, 0);
	EXPECT_EQ(iscsi_initiator_submit(b.i, &r, b.now_ns), WEFT_R_BAD_ARGUMENT);
	bench_close(&b);
}

TEST(test_one_text_request_at_a_time)
{
	static uint8_t room[2][64];
	struct iscsi_request r[2];
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_RESPONSE,
			       .is_final = true,
			       .ttt = ISCSI_TAG_NONE };

	discovery_start();
	for (int k = 0; k < 2; k++) {
		r[k] = (struct iscsi_request){ .kind = ISCSI_REQUEST_TEXT,
					       .text = { room[k], sizeof(room[k]) } };
		bench_submit(&b, &r[k]);
	}
	EXPECT_EQ(bench_count(&b, ISCSI_TEXT_REQUEST), 1);
	p.itt = bench_sent(&b, ISCSI_TEXT_REQUEST)->pdu.itt;
	bench_give(&b, &p, -1, NULL, 0);
	expect_done(&r[0], WEFT_OK);
	EXPECT_EQ(bench_count(&b, ISCSI_TEXT_REQUEST), 2);
	bench_close(&b);
}

TEST(test_portals_of_a_wrong_text)
{
	static const char *const texts[] = { "TargetAddress=a:1,1", "TargetName=disk",
					     "TargetName" };
	struct iscsi_request r = { 0 };
	struct iscsi_portals portals;
	struct iscsi_portal portal;

	for (uint32_t k = 0; k < 3; k++) {
		r.text.bytes = (uint8_t *)(uintptr_t)texts[k];
		r.text_bytes = (uint32_t)strlen(texts[k]) + 1;
		iscsi_portals_init(&portals, &r);
		EXPECT(!iscsi_portals_next(&portals, &portal));
		EXPECT(portals.reason != WEFT_OK);
	}
}

TEST(test_rfc7143_13_8_addresses)
{
	static const char *const bad[] = { "",	   "[::1",	"a:",	  "a:0", "a:65536",
					   "a:1,", "a:1,65536", "a:1,1x", ":1",	 "[]:1" };
	struct iscsi_address a;

	EXPECT_EQ(iscsi_address_parse(iscsi_word("disk.example"), &a), WEFT_OK);
	EXPECT(word_is(a.host, "disk.example") && a.port == 3260 && a.portal_group_tag == -1);
	EXPECT_EQ(iscsi_address_parse(iscsi_word("10.0.0.1:860,12"), &a), WEFT_OK);
	EXPECT(word_is(a.host, "10.0.0.1") && a.port == 860 && a.portal_group_tag == 12);
	EXPECT_EQ(iscsi_address_parse(iscsi_word("[fe80::1]:3261"), &a), WEFT_OK);
	EXPECT(word_is(a.host, "fe80::1") && a.port == 3261 && a.portal_group_tag == -1);
	EXPECT_EQ(iscsi_address_parse(iscsi_word("[::1],7"), &a), WEFT_OK);
	EXPECT(word_is(a.host, "::1") && a.port == 3260 && a.portal_group_tag == 7);
	for (uint32_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
		EXPECT_EQ(iscsi_address_parse(iscsi_word(bad[k]), &a), WEFT_R_ISCSI_VALUE);
}

/* ---- Rejects -------------------------------------------------------------------------------- */

static void reject(const struct iscsi_pdu *bad, uint8_t code)
{
	uint8_t bhs[ISCSI_BHS_BYTES];
	struct wr w = wr_of(bhs, sizeof(bhs));
	struct iscsi_pdu p = {
		.opcode = ISCSI_REJECT, .is_final = true, .itt = ISCSI_TAG_NONE, .code = code
	};

	iscsi_encode(bad, &w);
	bench_give(&b, &p, -1, bhs, sizeof(bhs));
}

/* The target waits for its CmdSN, and so do all commands behind it: only a new session helps. */
TEST(test_rfc7143_7_8_damaged_command_that_left_a_gap_ends_the_connection)
{
	struct iscsi_request r[2];
	struct iscsi_pdu bad;

	bench_start(&b);
	bench_command(&r[0], 0x2a);
	bench_command(&r[1], 0x28);
	bench_submit(&b, &r[0]);
	bench_submit(&b, &r[1]);
	bad = first_command()->pdu;
	bad.itt = BENCH_TAG + first_command()->slot;
	reject(&bad, ISCSI_REJECT_DATA_DIGEST);
	EXPECT_EQ(b.closes, 1);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_again(&b);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 2);
	bench_close(&b);
}

TEST(test_rfc7143_11_17_reject_ends_the_request)
{
	struct iscsi_request r[2], ping = { .kind = ISCSI_REQUEST_PING };
	struct iscsi_pdu bad;

	bench_start(&b);
	bench_command(&r[0], 0x28);
	bench_command(&r[1], 0x2a);
	bench_submit(&b, &r[0]);
	bench_submit(&b, &r[1]);
	bad = first_command()->pdu;
	bad.itt = BENCH_TAG + first_command()->slot;
	b.exp_cmd_sn = 3;
	reject(&bad, ISCSI_REJECT_FIELD);
	expect_done(&r[0], WEFT_R_ISCSI_REJECTED);
	EXPECT_EQ(r[0].response, ISCSI_REJECT_FIELD);
	EXPECT_EQ(b.forgets, 1);
	/* A Data-Out that was rejected leaves its command to the response. */
	bad = (struct iscsi_pdu){ .opcode = ISCSI_DATA_OUT, .itt = BENCH_TAG + 1, .ttt = 3 };
	reject(&bad, ISCSI_REJECT_DATA_DIGEST);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_answer(&b, 1, 2);
	expect_done(&r[1], WEFT_OK);
	bench_submit(&b, &ping);
	bad = bench_sent(&b, ISCSI_NOP_OUT)->pdu;
	reject(&bad, ISCSI_REJECT_IMMEDIATE);
	expect_done(&ping, WEFT_R_ISCSI_REJECTED);
	EXPECT_EQ(b.closes, 0);
	/* Of what was never sent. */
	reject(&bad, ISCSI_REJECT_PROTOCOL);
	EXPECT_EQ(b.closes, 1);
	bench_close(&b);
}

/* tgtd by iSER acknowledges the Login Request, and takes a command with its number. */
TEST(test_iscsi_initiator_takes_a_target_that_counts_the_login)
{
	struct iscsi_request r;

	bench_init(&b);
	bench_open(&b);
	bench_connect(&b);
	b.exp_cmd_sn = 2;
	b.max_cmd_sn = 1;
	bench_login(&b);
	bench_command(&r, 0x28);
	bench_submit(&b, &r);
	REQUIRE(bench_sent(&b, ISCSI_SCSI_COMMAND));
	EXPECT_EQ(bench_sent(&b, ISCSI_SCSI_COMMAND)->pdu.cmd_sn, 1);
	bench_close(&b);
}
