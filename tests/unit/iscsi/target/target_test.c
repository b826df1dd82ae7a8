/* SPDX-License-Identifier: BSD-2-Clause */
/* The target's sessions: logins, commands and their data, windows, pings, texts, logouts. */
#include <string.h>

#include "target_fixture.h"

static struct rig r;

static struct client *start(const char *keys)
{
	struct client *k;

	rig_init(&r);
	rig_start(&r);
	k = client_login(&r, keys);
	client_ready(&r, k);
	return k;
}

static uint8_t pattern[RIG_DISK_BYTES];

static void pattern_make(uint8_t seed)
{
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 5 + i / 256 + seed);
}

/* ---- Reads ---------------------------------------------------------------------------------- */

TEST(test_rfc7143_11_7_read_in_one_data_in_with_its_status)
{
	struct client *k = start("");
	struct iscsi_pdu p = client_read(k, 3, 8), d;

	client_send(&r, k, &p, NULL);
	d = client_expect(k, ISCSI_DATA_IN);
	EXPECT_EQ(d.itt, p.itt);
	EXPECT_EQ(d.data_bytes, 8 * RIG_BLOCK);
	EXPECT_EQ(d.has_status && d.is_final, true);
	EXPECT_EQ(d.status, SCSI_GOOD);
	EXPECT_MEM(client_data(), r.disk[0] + 3 * RIG_BLOCK, 8 * RIG_BLOCK);
	EXPECT_EQ(client_has(k), false);
	rig_stop(&r);
}

TEST(test_rfc7143_13_12_13_13_data_in_is_cut_by_segment_length_and_by_burst)
{
	struct client *k = start("MaxRecvDataSegmentLength=3000 MaxBurstLength=10000 ");
	struct iscsi_pdu p = client_read(k, 0, 64), d = { .is_final = false };
	uint32_t at = 0, sn = 0;

	client_send(&r, k, &p, NULL);
	while (at < 64 * RIG_BLOCK) {
		d = client_expect(k, ISCSI_DATA_IN);
		EXPECT_EQ(d.offset, at);
		EXPECT_EQ(d.data_sn, sn++);
		EXPECT(d.data_bytes <= 3000);
		EXPECT_MEM(client_data(), r.disk[0] + at, d.data_bytes);
		/* A sequence ends after each burst, and at the end. */
		EXPECT_EQ(at / 10000 == (at + d.data_bytes - 1) / 10000, true);
		at += d.data_bytes;
		EXPECT_EQ(d.is_final, at % 10000 == 0 || at == 64 * RIG_BLOCK);
		EXPECT_EQ(d.has_status, at == 64 * RIG_BLOCK);
	}
	EXPECT_EQ(client_has(k), false);
	rig_stop(&r);
}

TEST(test_rfc7143_11_4_5_residuals_of_reads)
{
	struct client *k = start("");
	struct iscsi_pdu p = client_read(k, 0, 2), s;

	/* More was expected than the command moves. */
	p.expected_bytes = 5 * RIG_BLOCK;
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).data_bytes, 2 * RIG_BLOCK);
	s = client_status(k, &p, SCSI_GOOD);
	EXPECT_EQ(s.is_underflow && !s.is_overflow, true);
	EXPECT_EQ(s.residual, 3 * RIG_BLOCK);
	EXPECT_EQ(s.data_sn, 1);
	/* Less. */
	p = client_read(k, 0, 3);
	p.expected_bytes = RIG_BLOCK;
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).data_bytes, RIG_BLOCK);
	s = client_status(k, &p, SCSI_GOOD);
	EXPECT_EQ(s.is_overflow && !s.is_underflow, true);
	EXPECT_EQ(s.residual, 2 * RIG_BLOCK);
	rig_stop(&r);
}

TEST(test_rfc7143_11_4_7_sense_data_of_a_refused_command)
{
	struct client *k = start("");
	struct iscsi_pdu p = client_read(k, RIG_DISK_BYTES / RIG_BLOCK, 1), s;

	client_send(&r, k, &p, NULL);
	s = client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x052100);
	EXPECT_EQ(s.residual, RIG_BLOCK);
	EXPECT_EQ(s.is_underflow, true);
	/* A unit that is not there. */
	p = client_read(k, 0, 1);
	p.lun = UINT64_C(5) << 48;
	client_send(&r, k, &p, NULL);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x052500);
	rig_stop(&r);
}

TEST(test_a_small_read_does_not_wait_for_all_of_a_large_one)
{
	struct client *k = start("MaxRecvDataSegmentLength=4096 ");
	struct iscsi_pdu big = client_read(k, 0, 512), small = client_read(k, 9, 1), d;
	int before = 0;

	k->is_stalled = true;
	client_send(&r, k, &big, NULL);
	client_send(&r, k, &small, NULL);
	client_resume(&r, k);
	for (d = client_expect(k, ISCSI_DATA_IN); d.itt != small.itt; before++)
		d = client_expect(k, ISCSI_DATA_IN);
	EXPECT_EQ(before, 1);
	rig_stop(&r);
}

/* The data stays in the device until it is sent, and no write changes what was read. */
TEST(test_a_read_that_waits_to_be_sent_is_not_changed_by_a_later_write)
{
	static const char *const keys[] = { "MaxRecvDataSegmentLength=2000 ",
					    "MaxRecvDataSegmentLength=2000 DataDigest=CRC32C " };
	static uint8_t before[16 * RIG_BLOCK];

	for (int i = 0; i < 2; i++) {
		struct client *reader = start(keys[i]), *writer = client_login(&r, "");
		struct iscsi_pdu p = client_read(reader, 4, 16), w, d;

		client_ready(&r, writer);
		pattern_make(3);
		memcpy(before, r.disk[0] + 4 * RIG_BLOCK, sizeof(before));
		reader->is_stalled = true;
		client_send(&r, reader, &p, NULL);
		w = client_write(writer, 11, 2);
		w.data_bytes = 2 * RIG_BLOCK;
		client_send(&r, writer, &w, pattern);
		(void)client_status(writer, &w, SCSI_GOOD);
		EXPECT_MEM(r.disk[0] + 11 * RIG_BLOCK, pattern, 2 * RIG_BLOCK);
		client_resume(&r, reader);
		for (uint32_t at = 0; at < sizeof(before); at += d.data_bytes) {
			d = client_expect(reader, ISCSI_DATA_IN);
			EXPECT_MEM(client_data(), before + at, d.data_bytes);
		}
		rig_stop(&r);
	}
}

/* ---- Writes --------------------------------------------------------------------------------- */

TEST(test_rfc7143_13_11_write_with_immediate_data)
{
	struct client *k = start("");
	struct iscsi_pdu p = client_write(k, 10, 8), s;

	pattern_make(1);
	p.data_bytes = 8 * RIG_BLOCK;
	client_send(&r, k, &p, pattern);
	s = client_status(k, &p, SCSI_GOOD);
	EXPECT_EQ(s.is_underflow || s.is_overflow, false);
	EXPECT_MEM(r.disk[0] + 10 * RIG_BLOCK, pattern, 8 * RIG_BLOCK);
	rig_stop(&r);
}

/* Answers R2Ts of one write until its response comes. */
static int answer_r2ts(struct client *k, const struct iscsi_pdu *p, uint32_t pdu_bytes)
{
	int count = 0;

	while (client_has(k) && k->in[k->in_at] == ISCSI_R2T) {
		struct iscsi_pdu r2t = client_expect(k, ISCSI_R2T);
		uint32_t sn = 0;

		REQUIRE(r2t.itt == p->itt && (int)r2t.data_sn == count);
		for (uint32_t at = 0; at < r2t.desired_bytes; sn++) {
			uint32_t left = r2t.desired_bytes - at;
			uint32_t n = left < pdu_bytes ? left : pdu_bytes;
			struct iscsi_pdu d = client_data_out(p, r2t.ttt, sn, r2t.offset + at, n);

			d.is_final = n == left;
			client_send(&r, k, &d, pattern + r2t.offset + at);
			at += n;
		}
		count++;
	}
	return count;
}

TEST(test_rfc7143_11_8_write_by_r2ts_of_one_burst_each)
{
	struct client *k = start("InitialR2T=Yes ImmediateData=No MaxBurstLength=16384 ");
	struct iscsi_pdu p = client_write(k, 100, 100), s;

	pattern_make(2);
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(answer_r2ts(k, &p, 5000), 4);
	s = client_status(k, &p, SCSI_GOOD);
	EXPECT_EQ(s.data_sn, 4);
	EXPECT_MEM(r.disk[0] + 100 * RIG_BLOCK, pattern, 100 * RIG_BLOCK);
	rig_stop(&r);
}

TEST(test_rfc7143_13_17_no_more_r2ts_at_a_time_than_negotiated)
{
	for (uint32_t max = 1; max <= 3; max += 2) {
		struct client *k = start(max == 1 ? "ImmediateData=No MaxBurstLength=4096 "
						    "MaxOutstandingR2T=1 "
						  : "ImmediateData=No MaxBurstLength=4096 "
						    "MaxOutstandingR2T=3 ");
		struct iscsi_pdu p = client_write(k, 0, 80), r2t[3];

		client_send(&r, k, &p, NULL);
		for (uint32_t i = 0; i < max; i++) {
			r2t[i] = client_expect(k, ISCSI_R2T);
			EXPECT_EQ(r2t[i].data_sn, i);
			EXPECT_EQ(r2t[i].offset, i * 4096);
			EXPECT_EQ(r2t[i].desired_bytes, 4096);
			EXPECT(i == 0 || r2t[i].ttt != r2t[i - 1].ttt);
		}
		EXPECT_EQ(client_has(k), false);
		rig_stop(&r);
	}
}

TEST(test_rfc7143_13_10_unsolicited_data_then_r2t)
{
	struct client *k = start("InitialR2T=No FirstBurstLength=8192 ");
	struct iscsi_pdu p = client_write(k, 5, 64), d;

	pattern_make(3);
	p.is_final = false;
	p.data_bytes = 3000;
	client_send(&r, k, &p, pattern);
	d = client_data_out(&p, ISCSI_TAG_NONE, 0, 3000, 4000);
	d.is_final = false;
	client_send(&r, k, &d, pattern + 3000);
	EXPECT_EQ(client_has(k), false);
	d = client_data_out(&p, ISCSI_TAG_NONE, 1, 7000, 1192);
	client_send(&r, k, &d, pattern + 7000);
	EXPECT_EQ(answer_r2ts(k, &p, 8192), 1);
	(void)client_status(k, &p, SCSI_GOOD);
	EXPECT_MEM(r.disk[0] + 5 * RIG_BLOCK, pattern, 64 * RIG_BLOCK);
	rig_stop(&r);
}

TEST(test_rfc7143_11_4_5_residuals_of_writes)
{
	struct client *k = start("InitialR2T=Yes ");
	struct iscsi_pdu p = client_write(k, 0, 2), s;

	pattern_make(4);
	/* The initiator has more than the command takes: it is not asked for. */
	p.expected_bytes = 6 * RIG_BLOCK;
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(answer_r2ts(k, &p, 8192), 1);
	s = client_status(k, &p, SCSI_GOOD);
	EXPECT_EQ(s.is_underflow, true);
	EXPECT_EQ(s.residual, 4 * RIG_BLOCK);
	EXPECT_MEM(r.disk[0], pattern, 2 * RIG_BLOCK);
	/* It sent it all the same, with its command. */
	p = client_write(k, 20, 2);
	p.expected_bytes = p.data_bytes = 6 * RIG_BLOCK;
	client_send(&r, k, &p, pattern);
	s = client_status(k, &p, SCSI_GOOD);
	EXPECT_EQ(s.residual, 4 * RIG_BLOCK);
	EXPECT_MEM(r.disk[0] + 20 * RIG_BLOCK, pattern, 2 * RIG_BLOCK);
	EXPECT(memcmp(r.disk[0] + 22 * RIG_BLOCK, pattern + 2 * RIG_BLOCK, RIG_BLOCK) != 0);
	rig_stop(&r);
}

TEST(test_rfc7143_13_1_data_both_ways_with_digests_and_any_cut)
{
	static const uint32_t cuts[] = { UINT32_MAX, 1000, 49, 7 };

	for (int i = 0; i < 4; i++) {
		struct client *k = start("HeaderDigest=CRC32C DataDigest=CRC32C "
					 "MaxBurstLength=16384 FirstBurstLength=4096 "
					 "MaxRecvDataSegmentLength=5000 ");
		struct iscsi_pdu p = client_write(k, 1, 99);
		uint32_t at = 0;

		pattern_make((uint8_t)(5 + i));
		k->cut = cuts[i];
		p.data_bytes = 4096;
		client_send(&r, k, &p, pattern);
		EXPECT_EQ(answer_r2ts(k, &p, 3333), 3);
		(void)client_status(k, &p, SCSI_GOOD);
		EXPECT_MEM(r.disk[0] + RIG_BLOCK, pattern, 99 * RIG_BLOCK);
		p = client_read(k, 1, 99);
		client_send(&r, k, &p, NULL);
		while (at < 99 * RIG_BLOCK) {
			struct iscsi_pdu d = client_expect(k, ISCSI_DATA_IN);

			EXPECT_MEM(client_data(), pattern + at, d.data_bytes);
			at += d.data_bytes;
		}
		rig_stop(&r);
	}
}

/* ---- The window ----------------------------------------------------------------------------- */

TEST(test_rfc7143_4_2_2_1_the_window_closes_with_tasks_and_opens_with_status)
{
	struct client *k;
	struct iscsi_pdu p[4], d, ping;

	rig_init(&r);
	r.config.window_max = 3;
	r.delay_ns = 1000;
	rig_start(&r);
	k = client_login(&r, "");
	EXPECT_EQ(k->max_cmd_sn - k->exp_cmd_sn + 1, 3);
	client_ready(&r, k);
	for (int i = 0; i < 3; i++) {
		p[i] = client_read(k, (uint32_t)i, 1);
		client_send(&r, k, &p[i], NULL);
	}
	ping = (struct iscsi_pdu){ .opcode = ISCSI_NOP_OUT,
				   .is_immediate = true,
				   .itt = 999,
				   .ttt = ISCSI_TAG_NONE,
				   .cmd_sn = k->cmd_sn };
	client_send(&r, k, &ping, NULL);
	d = client_expect(k, ISCSI_NOP_IN);
	EXPECT_EQ(d.exp_cmd_sn, k->cmd_sn);
	EXPECT_EQ(d.max_cmd_sn, k->cmd_sn - 1);
	/* One outside the window is ignored. */
	p[3] = client_read(k, 3, 1);
	client_send(&r, k, &p[3], NULL);
	rig_wait(&r, 1000);
	for (int i = 0; i < 3; i++) {
		d = client_expect(k, ISCSI_DATA_IN);
		EXPECT_EQ(d.itt, p[i].itt);
	}
	EXPECT_EQ(d.max_cmd_sn - d.exp_cmd_sn + 1, 3);
	EXPECT_EQ(client_has(k), false);
	/* It may be sent again. */
	client_send(&r, k, &p[3], NULL);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, p[3].itt);
	rig_stop(&r);
}

TEST(test_rfc7143_4_2_2_1_commands_are_held_until_those_before_them_came)
{
	struct client *k = start("");
	struct iscsi_pdu a = client_read(k, 0, 1), b = client_read(k, 1, 1),
			 c = client_read(k, 2, 1);

	client_send(&r, k, &c, NULL);
	client_send(&r, k, &b, NULL);
	client_send(&r, k, &c, NULL); /* again: ignored */
	EXPECT_EQ(client_has(k), false);
	client_send(&r, k, &a, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, a.itt);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, b.itt);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, c.itt);
	EXPECT_EQ(client_has(k), false);
	EXPECT_EQ(k->exp_cmd_sn, k->cmd_sn);
	rig_stop(&r);
}

TEST(test_rfc7143_4_2_2_1_old_commands_are_ignored)
{
	struct client *k = start("");
	struct iscsi_pdu a = client_read(k, 0, 1);

	client_send(&r, k, &a, NULL);
	(void)client_expect(k, ISCSI_DATA_IN);
	client_send(&r, k, &a, NULL);
	a.data_bytes = 0;
	a.cmd_sn -= 5;
	client_send(&r, k, &a, NULL);
	EXPECT_EQ(client_has(k), false);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_4_2_2_1_immediate_commands_take_no_number)
{
	struct client *k = start("");
	struct iscsi_pdu a = client_read(k, 0, 1), b = client_read(k, 1, 1);

	a.is_immediate = true;
	b.cmd_sn = a.cmd_sn;
	k->cmd_sn--;
	client_send(&r, k, &a, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).exp_cmd_sn, b.cmd_sn);
	client_send(&r, k, &b, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, b.itt);
	rig_stop(&r);
}

TEST(test_rfc7143_11_17_1_too_many_immediate_commands_are_rejected)
{
	struct client *k;
	struct iscsi_pdu p;

	rig_init(&r);
	r.config.window_max = 4;
	r.config.tasks_max = 5;
	r.delay_ns = 1000;
	rig_start(&r);
	k = client_login(&r, "");
	client_ready(&r, k);
	for (int i = 0; i < 2; i++) {
		p = client_read(k, 0, 1);
		p.is_immediate = true;
		p.cmd_sn = --k->cmd_sn;
		client_send(&r, k, &p, NULL);
	}
	client_reject(k, ISCSI_REJECT_IMMEDIATE);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, p.itt - 1);
	EXPECT_EQ(client_has(k), false);
	rig_stop(&r);
}

/* ---- NOP, Logout, the end ------------------------------------------------------------------- */

TEST(test_rfc7143_11_18_pings_of_the_initiator_come_back_with_their_data)
{
	static const uint32_t lengths[] = { 0, 5, 1024, 1025, 70000 };
	struct client *k = start("MaxRecvDataSegmentLength=65536 ");

	pattern_make(6);
	for (int i = 0; i < 5; i++) {
		struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT,
				       .is_final = true,
				       .itt = ++k->itt,
				       .ttt = ISCSI_TAG_NONE,
				       .cmd_sn = k->cmd_sn++,
				       .data_bytes = lengths[i] },
				 d;
		/* As much as the initiator takes. */
		uint32_t back = lengths[i] < 65536 ? lengths[i] : 65536;

		client_send(&r, k, &p, pattern);
		d = client_expect(k, ISCSI_NOP_IN);
		EXPECT_EQ(d.itt, p.itt);
		EXPECT_EQ(d.ttt, ISCSI_TAG_NONE);
		EXPECT_EQ(d.data_bytes, back);
		EXPECT_MEM(client_data(), pattern, back);
		EXPECT_EQ(d.exp_cmd_sn, k->cmd_sn);
	}
	rig_stop(&r);
}

TEST(test_rfc7143_11_19_a_silent_initiator_is_asked_and_then_dropped)
{
	struct client *k = start("");
	struct iscsi_pdu d, answer;

	rig_wait(&r, r.config.ping_after_ns);
	d = client_expect(k, ISCSI_NOP_IN);
	EXPECT_EQ(d.itt, ISCSI_TAG_NONE);
	EXPECT(d.ttt != ISCSI_TAG_NONE);
	answer = (struct iscsi_pdu){ .opcode = ISCSI_NOP_OUT,
				     .is_immediate = true,
				     .is_final = true,
				     .itt = ISCSI_TAG_NONE,
				     .ttt = d.ttt,
				     .cmd_sn = k->cmd_sn };
	client_send(&r, k, &answer, NULL);
	EXPECT_EQ(client_has(k), false);
	rig_wait(&r, r.config.ping_after_ns - 1);
	EXPECT_EQ(client_has(k), false);
	rig_wait(&r, 1);
	(void)client_expect(k, ISCSI_NOP_IN);
	rig_wait(&r, r.config.ping_wait_ns - 1);
	EXPECT(k->c != NULL);
	rig_wait(&r, 1);
	EXPECT(k->c == NULL);
	EXPECT_EQ(k->action, ISCSI_ACTION_ABORT);
	EXPECT_EQ(r.last.kind, ISCSI_NOTE_END);
	EXPECT_EQ(r.last.reason, WEFT_R_ISCSI_SILENT);
	rig_stop(&r);
}

TEST(test_rfc7143_11_14_logout_ends_the_session)
{
	struct client *k = start("");
	struct iscsi_pdu p = { .opcode = ISCSI_LOGOUT_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .code = ISCSI_LOGOUT_RECOVERY,
			       .itt = 77,
			       .cmd_sn = k->cmd_sn },
			 d;

	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_LOGOUT_RESPONSE).code, ISCSI_LOGOUT_NO_RECOVERY);
	p.code = ISCSI_LOGOUT_CONNECTION;
	p.cid = 9;
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_LOGOUT_RESPONSE).code, ISCSI_LOGOUT_NO_CID);
	EXPECT(k->c != NULL);
	p.code = ISCSI_LOGOUT_SESSION;
	client_send(&r, k, &p, NULL);
	d = client_expect(k, ISCSI_LOGOUT_RESPONSE);
	EXPECT_EQ(d.code, ISCSI_LOGOUT_OK);
	EXPECT_EQ(d.itt, 77);
	EXPECT(k->c == NULL);
	EXPECT_EQ(k->action, ISCSI_ACTION_CLOSE);
	EXPECT_EQ(r.last.kind, ISCSI_NOTE_END);
	EXPECT_EQ(r.last.reason, WEFT_OK);
	rig_stop(&r);
}

TEST(test_rfc7143_11_9_an_orderly_end_asks_for_logouts_and_then_drops)
{
	struct client *k = start(""), *m = client_login(&r, ""), *half = client_connect(&r);
	struct iscsi_pdu p = { .opcode = ISCSI_LOGOUT_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .itt = 77,
			       .cmd_sn = k->cmd_sn },
			 d;
	struct iscsi_accept a = { .peer = "x" };
	struct iscsi_connection *none;

	iscsi_node_end(r.node, r.now_ns, UINT64_C(3) * RIG_SECOND);
	rig_run(&r);
	EXPECT(half->c == NULL);
	d = client_expect(k, ISCSI_ASYNC);
	EXPECT_EQ(d.code, ISCSI_ASYNC_LOGOUT);
	EXPECT_EQ(d.parameters[2], 3);
	EXPECT_EQ(iscsi_node_accept(r.node, &a, r.now_ns, &none), WEFT_R_ISCSI_ENDING);
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_LOGOUT_RESPONSE).code, ISCSI_LOGOUT_OK);
	EXPECT(k->c == NULL);
	rig_wait(&r, UINT64_C(3) * RIG_SECOND - 1);
	EXPECT(m->c != NULL);
	rig_wait(&r, 1);
	EXPECT(m->c == NULL);
	EXPECT_EQ(r.last.reason, WEFT_R_ISCSI_ENDING);
	EXPECT_EQ(iscsi_node_is_idle(r.node), true);
	rig_stop(&r);
}

/* ---- Creation ------------------------------------------------------------------------------- */

TEST(test_nodes_that_cannot_be_are_refused)
{
	struct iscsi_node_config c;
	struct iscsi_node *none;

	rig_init(&r);
	c = r.config;
	c.sessions_max = 0;
	EXPECT_EQ(iscsi_node_create(&c, &none), WEFT_R_BAD_ARGUMENT);
	c = r.config;
	c.connections_max = c.sessions_max - 1;
	EXPECT_EQ(iscsi_node_create(&c, &none), WEFT_R_BAD_ARGUMENT);
	c = r.config;
	c.tasks_max = c.window_max;
	EXPECT_EQ(iscsi_node_create(&c, &none), WEFT_R_BAD_ARGUMENT);
	c = r.config;
	c.memory_bytes -= ISCSI_MEMORY_UNIT;
	EXPECT_EQ(iscsi_node_create(&c, &none), WEFT_R_BAD_ARGUMENT);
	c.memory_bytes = r.config.memory_bytes + 4096;
	EXPECT_EQ(iscsi_node_create(&c, &none), WEFT_R_BAD_ARGUMENT);
}

TEST(test_targets_that_cannot_be_are_refused)
{
	struct iscsi_target_config c = { .name = iscsi_word("iqn.2020-01.org.example:third") };
	uint16_t index;

	rig_init(&r);
	r.config.targets_max = 3;
	rig_start(&r);
	c.wish = r.wish;
	EXPECT_EQ(iscsi_target_add(r.node, &c, &index), WEFT_R_BAD_ARGUMENT); /* no units */
	c.scsi = r.scsi[0];
	c.wish.session.error_recovery_level = 1;
	EXPECT_EQ(iscsi_target_add(r.node, &c, &index), WEFT_R_BAD_ARGUMENT);
	c.wish = r.wish;
	c.name = iscsi_word(RIG_TARGET);
	EXPECT_EQ(iscsi_target_add(r.node, &c, &index), WEFT_R_BAD_ARGUMENT);
	c.name = iscsi_word("third");
	EXPECT_EQ(iscsi_target_add(r.node, &c, &index), WEFT_R_ISCSI_NAME);
	c.name = iscsi_word("iqn.2020-01.org.example:third");
	EXPECT_EQ(iscsi_target_add(r.node, &c, &index), WEFT_OK);
	c.name = iscsi_word("iqn.2020-01.org.example:fourth");
	EXPECT_EQ(iscsi_target_add(r.node, &c, &index), WEFT_R_LIMIT);
	rig_stop(&r);
}

/* ---- Views ---------------------------------------------------------------------------------- */

TEST(test_views_tell_of_sessions_and_logins)
{
	struct client *k = start("");
	struct iscsi_pdu p = client_write(k, 0, 8);
	struct iscsi_node_counts counts;
	struct iscsi_view v;
	uint32_t at = 0;

	(void)client_connect(&r);
	p.data_bytes = 8 * RIG_BLOCK;
	client_send(&r, k, &p, pattern);
	EXPECT_EQ(iscsi_node_view(r.node, &at, &v), true);
	EXPECT_STR(v.initiator, RIG_INITIATOR);
	EXPECT_STR(v.state, "open");
	EXPECT_STR(v.peer, "10.0.0.1:5000");
	EXPECT_EQ(v.target, 0);
	EXPECT_EQ(v.tsih, k->tsih);
	EXPECT_EQ(v.counts.commands, 3);
	EXPECT_EQ(v.counts.writes, 1);
	EXPECT_EQ(v.counts.bytes_written, 8 * RIG_BLOCK);
	EXPECT_EQ(v.counts.failed, 1);
	EXPECT_EQ(v.tasks, 0);
	EXPECT_EQ(v.memory_bytes, 0);
	EXPECT_EQ(v.window, r.config.window_max);
	EXPECT(v.params && v.params->session.has_immediate_data);
	EXPECT_EQ(iscsi_node_view(r.node, &at, &v), true);
	EXPECT_STR(v.state, "login");
	EXPECT(v.params == NULL);
	EXPECT_EQ(iscsi_node_view(r.node, &at, &v), false);
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.sessions, 1);
	EXPECT_EQ(counts.connections, 2);
	EXPECT_EQ(counts.memory_used, 0);
	rig_stop(&r);
}
