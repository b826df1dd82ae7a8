/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of commands (ISCSI-01) and their data (ISCSI-06 to 08) by TCP, byte by byte. */
#include <string.h>

#include "live/iscsi/live_iscsi.h"

/* ---- Posting -------------------------------------------------------------------------------- */

/* ISCSI-01b: no receive, and the adapter reads nothing; one that is wrong is refused at once. */
TEST(test_iscsi_01b_live_receives_come_first)
{
	const struct consumer_options defaults = { 0 };
	const struct iscsi_pdu nop = {
		.opcode = ISCSI_NOP_IN, .is_final = true, .itt = ISCSI_TAG_NONE, .ttt = 3
	};
	struct weft_sge sges[64] = { { 0 } };
	struct weft_recv_wr wr = { .sges = sges, .sge_count = 64 };
	struct weft_completion completion;
	struct weft_qp *with_receives;
	struct weft_traffic traffic;
	struct consumer c;
	struct script s;
	bool has;

	script_open(&s);
	consumer_open(&c, NULL);
	with_receives = c.qp;
	c.qp = consumer_qp(&c, &defaults);
	EXPECT_EQ(weft_qp_post_recv(c.qp, &wr, 1, NULL), WEFT_R_WR_SGES);
	script_connect_raw(&s, &c);
	script_pdu(&s, &nop, NULL);
	do { /* its bytes have come, and it waits */
		REQUIRE(node_poll(c.received, &completion, &has) && !has);
		MUST(weft_qp_traffic(c.qp, &traffic));
	} while (traffic.frames_in == 0);
	EXPECT_EQ(consumer_query(&c).controls_in, 0);
	wr.sge_count = 1;
	sges[0] = consumer_sge(&c, 0, 100);
	wr.id = 42;
	MUST(weft_qp_post_recv(c.qp, &wr, 1, NULL));
	completion = node_next(c.received);
	EXPECT_EQ(completion.id, 42);
	EXPECT_EQ(completion.byte_count, ISCSI_BHS_BYTES);
	EXPECT_EQ(c.memory[0], ISCSI_NOP_IN);
	MUST(weft_qp_destroy(with_receives));
	consumer_close(&c);
	MUST(weft_adapter_close(c.adapter));
	script_close(&s);
}

/* ISCSI-01c: what is wrong with a command is said at once, and a Command ID is there at once. */
TEST(test_iscsi_01c_live_command_ids_at_once)
{
	uint32_t ids[3], itts[3];
	struct iscsi_pdu bad;
	struct pair p;

	pair_open(&p, NULL, NULL);
	bad = read_pdu(&p.c, 0, 1);
	bad.data_bytes = 4;
	EXPECT_EQ(consumer_try(&p.c, &bad, 0, &ids[0]), WEFT_R_ISCSI_REQUEST);
	bad = read_pdu(&p.c, 0, 1);
	bad.is_final = false;
	EXPECT(consumer_try(&p.c, &bad, 0, &ids[0]) != WEFT_OK);
	bad = (struct iscsi_pdu){ .opcode = ISCSI_NOP_OUT, .itt = 4, .ttt = ISCSI_TAG_NONE };
	EXPECT_EQ(consumer_try(&p.c, &bad, 0, &ids[0]), WEFT_R_ISCSI_REQUEST);
	EXPECT_EQ(consumer_query(&p.c).commands_open, 0);
	for (int i = 0; i < 3; i++) {
		itts[i] = pair_read(&p, 0, 1, &ids[i]);
		EXPECT(ids[i] != 0 && ids[i] != itts[i]);
		for (int j = 0; j < i; j++)
			EXPECT(ids[i] != ids[j] && itts[i] != itts[j]);
	}
	EXPECT_EQ(consumer_entries(&p.c), 3);
	for (int i = 0; i < 3; i++)
		pair_finish(&p, itts[i]);
	pair_close(&p);
}

/* ISCSI-01c, QP-02: as many commands in progress as were asked for. */
TEST(test_iscsi_01c_live_commands_in_progress_are_bounded)
{
	const struct consumer_options two = { .outstanding_max = 2 };
	struct iscsi_pdu read;
	uint32_t itts[2], id;
	struct pair p;

	pair_open(&p, &two, NULL);
	itts[0] = pair_read(&p, 0, 1, NULL);
	itts[1] = pair_read(&p, 0, 1, NULL);
	read = read_pdu(&p.c, 0, 1);
	EXPECT_EQ(consumer_try(&p.c, &read, 0, &id), WEFT_R_QUEUE_FULL);
	pair_finish(&p, itts[0]);
	itts[0] = pair_read(&p, 0, 1, NULL);
	pair_finish(&p, itts[1]);
	pair_finish(&p, itts[0]);
	pair_close(&p);
}

/*
 * ISCSI-01d: memory that the domain does not have, or that does not allow it, or wraps. The request
 * ends in error, and no byte goes to the target.
 */
TEST(test_iscsi_01d_live_segments_that_are_not_valid)
{
	const struct consumer_options drain = { .on_failure = WEFT_FAIL_DRAIN };
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct weft_completion completion;
	struct weft_sge sges[3];
	struct pair p;

	pair_open(&p, &drain, NULL);
	sges[0] = consumer_sge(&p.c, 0, 512);
	sges[0].tag ^= 1;
	sges[1] = consumer_sge(&p.c, 0, 512);
	sges[1].addr = UINT64_MAX - 100;
	sges[2] = consumer_sge(&p.c, DATA_BYTES + (size_t)RECEIVES * PDU_BYTES - 511, 512);
	for (int i = 0; i < 3; i++) {
		const struct iscsi_pdu read = read_pdu(&p.c, 0, 1);
		struct weft_iscsi_pdu pdu = wr_pdu(&read);
		struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
					   .flags = WEFT_SIGNALLED,
					   .iscsi = &pdu,
					   .sges = &sges[i],
					   .sge_count = 1 };

		MUST(weft_qp_post_send(p.c.qp, &wr, 1, NULL));
		completion = node_next(p.c.sent);
		EXPECT_EQ(completion.status, WEFT_ERR_LOCAL_ACCESS);
		EXPECT(completion.reason != WEFT_OK);
		EXPECT_EQ(consumer_entries(&p.c), 0);
		MUST(weft_qp_modify(p.c.qp, &rts, WEFT_QP_STATE));
	}
	expect_goes_on(&p);
	pair_close(&p);
}

/* ---- Tags ----------------------------------------------------------------------------------- */

/* ISCSI-04: what the target sees is the tag of the entry, and its instance is another each time. */
TEST(test_iscsi_04_live_task_tag_is_the_tag_of_the_entry)
{
	uint32_t id, tag, itt, last = 0;
	struct pair p;

	pair_open(&p, NULL, NULL);
	for (int i = 0; i < 300; i++) {
		itt = pair_read(&p, 0, 1, &id);
		MUST(weft_qp_command_tag(p.c.qp, id, &tag));
		EXPECT_EQ(tag, itt);
		EXPECT(itt >= WEFT_ISCSI_TAGS_MAX && itt != last);
		last = itt;
		pair_finish(&p, itt);
		EXPECT_EQ(weft_qp_command_tag(p.c.qp, id, &tag), WEFT_R_ISCSI_COMMAND);
	}
	pair_close(&p);
}

/* ISCSI-01l: Responses in another order than the commands; the Command ID tells whose they are. */
TEST(test_iscsi_01l_iscsi_01j_live_responses_in_any_order)
{
	enum { COMMANDS = 16 };
	uint32_t ids[COMMANDS], itts[COMMANDS];
	struct arrival a;
	struct pair p;

	pair_open(&p, NULL, NULL);
	for (int i = 0; i < COMMANDS; i++)
		itts[i] = pair_read(&p, (size_t)i * 512, 1, &ids[i]);
	EXPECT_EQ(consumer_entries(&p.c), COMMANDS);
	for (int n = 0; n < COMMANDS; n++) {
		int i = (n * 7 + 3) % COMMANDS;

		script_response(&p.s, itts[i]);
		a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
		EXPECT_EQ(a.completion.command_id, ids[i]);
		EXPECT_EQ(a.completion.invalidated_tag, itts[i]);
		EXPECT_EQ(consumer_entries(&p.c), COMMANDS - 1 - n);
	}
	pair_close(&p);
}

/* weft_qp_end_command(): what comes for it afterwards is not carried out. */
TEST(test_iscsi_01l_live_command_ended_by_its_consumer)
{
	uint32_t id, itt;
	struct pair p;

	pair_open(&p, NULL, NULL);
	itt = pair_read(&p, 0, 1, &id);
	MUST(weft_qp_end_command(p.c.qp, id));
	EXPECT_EQ(weft_qp_end_command(p.c.qp, id), WEFT_R_ISCSI_COMMAND);
	EXPECT_EQ(consumer_entries(&p.c), 0);
	fill_pattern(13);
	script_data_in(&p.s, itt, 0, pattern, 512);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_ENTRY_INVALID);
	EXPECT_EQ(p.c.memory[1], 0);
	expect_goes_on(&p);
	pair_close(&p);
}

/* ---- Data ----------------------------------------------------------------------------------- */

/* ISCSI-01g: immediate data in the command, unsolicited data behind it; the rest waits for R2T. */
TEST(test_iscsi_01g_iscsi_06a_live_immediate_and_unsolicited_data)
{
	enum { BLOCKS = 64, ALL = BLOCKS * BLOCK_BYTES, IMMEDIATE = 4096, FIRST = 10240 };
	const struct weft_iscsi_terms terms = { .is_unsolicited_on = true,
						.send_bytes_max = IMMEDIATE,
						.first_burst_bytes = FIRST };
	const struct said *said;
	struct iscsi_pdu write;
	uint32_t itt, at = IMMEDIATE;
	struct arrival a;
	struct pair p;

	pair_open(&p, NULL, &terms);
	fill_pattern(14);
	memcpy(p.c.memory, pattern, ALL);
	write = write_pdu(&p.c, 0, BLOCKS);
	(void)consumer_command(&p.c, &write, 0);
	said = script_take(&p.s, ISCSI_SCSI_COMMAND);
	EXPECT(!said->pdu.is_final && said->pdu.data_bytes == IMMEDIATE);
	EXPECT_MEM(said->data, pattern, IMMEDIATE);
	itt = said->pdu.itt;
	for (uint32_t sn = 0; at < FIRST; sn++) {
		said = script_take(&p.s, ISCSI_DATA_OUT);
		EXPECT(said->pdu.itt == itt && said->pdu.ttt == ISCSI_TAG_NONE);
		EXPECT(said->pdu.data_sn == sn && said->pdu.offset == at);
		EXPECT_MEM(said->data, pattern + at, said->pdu.data_bytes);
		at += said->pdu.data_bytes;
		EXPECT_EQ(said->pdu.is_final, at == FIRST);
	}
	EXPECT_EQ(at, FIRST);
	expect_sent_well(&p.c);
	script_r2t(&p.s, itt, FIRST, ALL - FIRST);
	for (uint32_t sn = 0; at < ALL; sn++) {
		said = script_take(&p.s, ISCSI_DATA_OUT);
		EXPECT(said->pdu.itt == itt && said->pdu.ttt == 0x1000 + FIRST);
		EXPECT(said->pdu.data_sn == sn && said->pdu.offset == at);
		EXPECT_MEM(said->data, pattern + at, said->pdu.data_bytes);
		at += said->pdu.data_bytes;
		EXPECT_EQ(said->pdu.is_final, at == ALL);
	}
	EXPECT_EQ(at, ALL);
	a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
	EXPECT_EQ(a.completion.byte_count, ISCSI_BHS_BYTES);
	EXPECT_EQ(consumer_query(&p.c).bytes_sent, ALL);
	pair_finish(&p, itt);
	pair_close(&p);
}

/* ISCSI-08: R2Ts and Data-Ins of any offsets, of two commands at a time. */
TEST(test_iscsi_08_iscsi_06a_iscsi_06b_live_any_offset_order)
{
	static const uint32_t order[] = { 5, 2, 7, 0, 1, 6, 3, 4 };
	enum { PARTS = 8, PART = 1536, ALL = PARTS * PART };
	const struct weft_iscsi_terms terms = { .is_immediate_off = true };
	const struct said *said;
	uint32_t read, write;
	struct pair p;

	pair_open(&p, NULL, &terms);
	fill_pattern(15);
	memcpy(p.c.memory, pattern, ALL);
	write = pair_write(&p, 0, ALL / BLOCK_BYTES, NULL);
	read = pair_read(&p, ALL, ALL / BLOCK_BYTES, NULL);
	for (size_t i = 0; i < PARTS; i++) {
		uint32_t at = order[i] * PART;

		script_r2t(&p.s, write, at, PART);
		script_data_in(&p.s, read, at, pattern + 40000 + at, PART);
		said = script_take(&p.s, ISCSI_DATA_OUT);
		EXPECT(said->pdu.offset == at && said->pdu.data_bytes == PART);
		EXPECT(said->pdu.ttt == 0x1000 + at && said->pdu.is_final);
		EXPECT_MEM(said->data, pattern + at, PART);
		(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
		(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	}
	EXPECT_MEM(p.c.memory + ALL, pattern + 40000, ALL);
	pair_finish(&p, read);
	pair_finish(&p, write);
	EXPECT_EQ(consumer_query(&p.c).r2ts, PARTS);
	EXPECT_EQ(consumer_query(&p.c).data_ins, PARTS);
	pair_close(&p);
}

/* ISCSI-07, ISCSI-01h: the status rides in the last Data-In: it is the Response, too. */
TEST(test_iscsi_07_iscsi_01h_live_status_in_data_in)
{
	struct iscsi_pdu in = {
		.opcode = ISCSI_DATA_IN, .is_final = true, .has_status = true, .data_bytes = 512
	};
	struct arrival a;
	struct pair p;
	uint32_t id;

	pair_open(&p, NULL, NULL);
	for (int i = 0; i < 10; i++) {
		fill_pattern((uint32_t)i);
		in.itt = pair_read(&p, 0, 2, &id);
		in.stat_sn = p.s.stat_sn++;
		script_data_in(&p.s, in.itt, 0, pattern, 512);
		in.offset = 512;
		script_pdu(&p.s, &in, pattern + 512);
		a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		EXPECT(!a.completion.has_invalidated && a.completion.command_id == id);
		a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		EXPECT(a.completion.has_invalidated && a.completion.command_id == id);
		EXPECT_EQ(a.completion.invalidated_tag, in.itt);
		EXPECT_MEM(p.c.memory, pattern, 1024);
		EXPECT_EQ(consumer_entries(&p.c), 0);
	}
	pair_close(&p);
}

/* ISCSI-06c: what is neither Data-In, R2T nor SCSI Response is the consumer's, whole. */
TEST(test_iscsi_06c_live_other_pdus_are_the_consumers)
{
	struct iscsi_pdu ping = { .opcode = ISCSI_NOP_OUT,
				  .is_immediate = true,
				  .itt = 9,
				  .ttt = ISCSI_TAG_NONE,
				  .data_bytes = 333 };
	struct iscsi_pdu pong = { .opcode = ISCSI_NOP_IN,
				  .is_final = true,
				  .itt = 9,
				  .ttt = ISCSI_TAG_NONE,
				  .data_bytes = 333 };
	struct iscsi_pdu reject = { .opcode = ISCSI_REJECT,
				    .is_final = true,
				    .code = ISCSI_REJECT_PROTOCOL,
				    .data_bytes = ISCSI_BHS_BYTES };
	const struct said *said;
	struct arrival a;
	struct pair p;

	pair_open(&p, NULL, NULL);
	fill_pattern(16);
	MUST(consumer_control(&p.c, &ping, pattern));
	expect_sent_well(&p.c);
	said = script_take(&p.s, ISCSI_NOP_OUT);
	EXPECT_EQ(said->pdu.exp_stat_sn, p.s.stat_sn);
	EXPECT_MEM(said->data, pattern, 333);
	pong.stat_sn = p.s.stat_sn++;
	script_pdu(&p.s, &pong, pattern + 1);
	a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_OK);
	EXPECT(a.pdu.opcode == ISCSI_NOP_IN && a.completion.byte_count == ISCSI_BHS_BYTES + 333);
	EXPECT_MEM(a.data, pattern + 1, 333);
	reject.stat_sn = p.s.stat_sn++;
	script_pdu(&p.s, &reject, pattern);
	a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_OK);
	EXPECT(a.pdu.opcode == ISCSI_REJECT && a.pdu.code == ISCSI_REJECT_PROTOCOL);
	EXPECT_MEM(a.data, pattern, ISCSI_BHS_BYTES);
	expect_goes_on(&p);
	pair_close(&p);
}

/*
 * ISCSI-02, LOC-05: in a privileged domain, by real addresses: an offset into the first page, whole
 * pages, the last one up to an end; no element, whose checks would be made.
 */
TEST(test_iscsi_02_loc_05_mem_12_live_memory_by_real_addresses)
{
	const struct consumer_options privileged = { .is_privileged = true };
	const struct consumer_options plain = { 0 };

	for (int is_plain = 0; is_plain < 2; is_plain++) {
		struct weft_page_list list = { .count = 3,
					       .page_size_bytes = 4096,
					       .first_offset = 4000 };
		struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
					   .flags = WEFT_SIGNALLED };
		struct weft_iscsi_pdu pdu;
		struct iscsi_pdu read;
		uint64_t start, pages[3];
		struct pair p;
		uint32_t itt;

		pair_open(&p, is_plain ? &plain : &privileged, NULL);
		start = (uintptr_t)p.c.memory;
		pages[0] = start + 8192;
		pages[1] = start;
		pages[2] = start + 20480;
		list.pages = pages;
		read = read_pdu(&p.c, 0, 1);
		read.expected_bytes = 96 + 4096 + 10;
		pdu = wr_pdu(&read);
		pdu.pages = &list;
		pdu.end_offset = 10;
		wr.iscsi = &pdu;
		MUST_EQ(weft_qp_post_send(p.c.qp, &wr, 1, NULL),
			is_plain ? WEFT_R_ISCSI_PAGES : WEFT_OK);
		if (!is_plain) {
			expect_sent_well(&p.c);
			itt = script_take(&p.s, ISCSI_SCSI_COMMAND)->pdu.itt;
			fill_pattern(17);
			script_data_in(&p.s, itt, 0, pattern, read.expected_bytes);
			(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
			EXPECT_MEM(p.c.memory + 8192 + 4000, pattern, 96);
			EXPECT_MEM(p.c.memory, pattern + 96, 4096);
			EXPECT_MEM(p.c.memory + 20480, pattern + 96 + 4096, 10);
			EXPECT(p.c.memory[8192 + 3999] == 0 && p.c.memory[20490] == 0);
			pair_finish(&p, itt);
		}
		pair_close(&p);
	}
}
