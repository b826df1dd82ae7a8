/* SPDX-License-Identifier: BSD-2-Clause */
/* Who moves the bytes, and how often they are copied and asked for. */
#include <stdlib.h>
#include <string.h>

#include "driver/loop/adapter_lock.h"
#include "live/iscsi/live_iscsi.h"

/* Whether memory has this by now: the program polls nothing meanwhile. */
static bool has(const struct consumer *c, const uint8_t *at, const void *bytes, size_t length)
{
	bool is_there;

	adapter_enter(c->adapter);
	is_there = memcmp(at, bytes, length) == 0;
	adapter_leave(c->adapter);
	return is_there;
}

/* A program that computes: its reads are placed, and R2Ts answered, without a call of it. */
TEST(test_iscsi_06_live_data_moves_while_the_program_does_not_poll)
{
	const struct weft_iscsi_terms no_immediate = { .is_immediate_off = true };
	uint64_t since;
	const struct said *said;
	uint32_t read, write;
	struct pair p;

	pair_open(&p, NULL, &no_immediate);
	read = pair_read(&p, 0, 64, NULL);
	write = pair_write(&p, 65536, 16, NULL);
	for (uint32_t round = 0; round < 20; round++) {
		since = thread_now_ns();
		fill_pattern(round + 1);
		for (uint32_t at = 0; at < 32768; at += 8192)
			script_data_in(&p.s, read, at, pattern + at, 8192);
		while (!has(&p.c, p.c.memory, pattern, 32768))
			REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		script_r2t(&p.s, write, 0, 8192);
		said = script_take(&p.s, ISCSI_DATA_OUT);
		EXPECT_MEM(said->data, p.c.memory + 65536, 8192);
		for (int i = 0; i < 4; i++)
			(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
	}
	pair_finish(&p, read);
	pair_finish(&p, write);
	pair_close(&p);
}

static struct weft_traffic traffic_of(const struct consumer *c)
{
	struct weft_traffic t;

	MUST(weft_qp_traffic(c->qp, &t));
	return t;
}

/* Payload of commands is received straight into their memory, and sent straight from it. */
TEST(test_iscsi_06a_iscsi_06b_live_no_copy_of_payload)
{
	enum { COMMANDS = 16, BYTES = 8192 };
	struct weft_traffic before, after;
	uint32_t itts[COMMANDS];
	struct pair p;

	pair_open(&p, NULL, NULL);
	before = traffic_of(&p.c);
	fill_pattern(41);
	for (int i = 0; i < COMMANDS; i++)
		itts[i] = pair_read(&p, (size_t)i * BYTES, BYTES / BLOCK_BYTES, NULL);
	for (int i = 0; i < COMMANDS; i++) {
		script_data_in(&p.s, itts[i], 0, pattern + (size_t)i * BYTES, BYTES);
		script_response(&p.s, itts[i]);
	}
	for (int i = 0; i < COMMANDS; i++) {
		(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
	}
	EXPECT_MEM(p.c.memory, pattern, COMMANDS * BYTES);
	/* Immediate data, and the answer to an R2T. */
	itts[0] = pair_write(&p, 0, 2 * BYTES / BLOCK_BYTES, NULL);
	script_r2t(&p.s, itts[0], BYTES, BYTES);
	EXPECT_MEM(script_take(&p.s, ISCSI_DATA_OUT)->data, pattern + BYTES, BYTES);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
	pair_finish(&p, itts[0]);
	after = traffic_of(&p.c);
	EXPECT_EQ(after.payload_in - before.payload_in, COMMANDS * BYTES);
	EXPECT_EQ(after.payload_out - before.payload_out, 2 * BYTES);
	EXPECT_EQ(after.payload_copied - before.payload_copied, 0);
	pair_close(&p);
}

/* What `weft stat` tells of commands in progress, and of a target that is wrong. */
TEST(test_iscsi_live_report_of_commands_in_progress)
{
	uint32_t itt;
	char *text;
	struct pair p;

	pair_open(&p, NULL, NULL);
	text = report_of(p.c.adapter);
	EXPECT(strstr(text, " iscsi_regions=0 ") && strstr(text, " service=ISCSI link=stream "));
	free(text);
	itt = pair_read(&p, 0, 1, NULL);
	script_data_in(&p.s, itt ^ 1, 0, pattern, 512);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_ENTRY_INSTANCE);
	script_response(&p.s, itt ^ 1);
	p.s.stat_sn--;
	script_data_in(&p.s, itt, 0, pattern, 512);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	text = report_of(p.c.adapter);
	EXPECT(strstr(text, " iscsi_regions=1 "));
	EXPECT(strstr(text, " commands_open=1 commands=1 responses=0 r2ts=0 data_ins=1 data_outs=0 "
			    "bytes_placed=512 bytes_sent=0 controls_in=2 controls_out=1 refused=1 "
			    "dropped=1 "));
	free(text);
	pair_finish(&p, itt);
	script_hang_up(&p.s, true);
	(void)consumer_await(&p.c, WEFT_EVENT_QP_ERROR);
	text = report_of(p.c.adapter); /* without a connection, without its figures */
	EXPECT(strstr(text, " service=ISCSI ") && !strstr(text, " commands_open="));
	free(text);
	pair_close(&p);
}

/* Commands that are posted as a list leave by few calls; so do their answers come. */
TEST(test_iscsi_01g_live_commands_of_a_list_leave_together)
{
	enum { COMMANDS = 32, BYTES = 4096 };
	struct weft_iscsi_pdu pdus[COMMANDS];
	struct weft_send_wr wrs[COMMANDS];
	struct weft_sge sges[COMMANDS];
	struct weft_traffic before, after;
	struct pair p;

	pair_open(&p, NULL, NULL);
	for (uint32_t i = 0; i < COMMANDS; i++) {
		const struct iscsi_pdu read = read_pdu(&p.c, i * 8, BYTES / BLOCK_BYTES);

		pdus[i] = wr_pdu(&read);
		sges[i] = consumer_sge(&p.c, (size_t)i * BYTES, BYTES);
		wrs[i] = (struct weft_send_wr){ .id = i,
						.opcode = WEFT_OP_ISCSI_COMMAND,
						.iscsi = &pdus[i],
						.sges = &sges[i],
						.sge_count = 1 };
	}
	before = traffic_of(&p.c);
	MUST(weft_qp_post_send(p.c.qp, wrs, COMMANDS, NULL));
	for (int i = 0; i < COMMANDS; i++) {
		uint32_t itt = script_take(&p.s, ISCSI_SCSI_COMMAND)->pdu.itt;

		script_data_in(&p.s, itt, 0, pattern, BYTES);
		script_response(&p.s, itt);
	}
	for (int i = 0; i < 2 * COMMANDS; i++)
		(void)consumer_next(&p.c);
	after = traffic_of(&p.c);
	EXPECT_EQ(after.frames_out - before.frames_out, COMMANDS);
	EXPECT(after.calls_out - before.calls_out <= 4);
	EXPECT_EQ(after.payload_copied - before.payload_copied, 0);
	pair_close(&p);
}
