/* SPDX-License-Identifier: BSD-2-Clause */
/* Initiators that break the rules, and what the target does about it. */
#include <stdlib.h>
#include <string.h>

#include "target_fixture.h"

static struct rig r;
static uint8_t data[RIG_DISK_BYTES];

static struct client *start(const char *keys)
{
	struct client *k;

	rig_init(&r);
	rig_start(&r);
	k = client_login(&r, keys);
	client_ready(&r, k);
	memset(data, 0xa5, sizeof(data));
	return k;
}

/* The connection was closed for this reason; another session does not notice. */
static void expect_end(struct client *k, struct client *other, enum weft_reason reason)
{
	struct iscsi_pdu p;

	REQUIRE(k->c == NULL);
	REQUIRE(r.last.kind == ISCSI_NOTE_END);
	REQUIRE(r.last.reason == reason);
	p = client_read(other, 0, 1);
	client_send(&r, other, &p, NULL);
	REQUIRE(client_expect(other, ISCSI_DATA_IN).itt == p.itt);
}

/* ---- Data ----------------------------------------------------------------------------------- */

TEST(test_rfc7143_13_14_immediate_data_beyond_the_first_burst_is_refused)
{
	struct client *k = start("FirstBurstLength=4096 ");
	struct iscsi_pdu p = client_write(k, 0, 16);

	p.data_bytes = 4096 + 512;
	client_send(&r, k, &p, data);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x0b0c0c);
	EXPECT(r.disk[0][0] != 0xa5);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_13_11_immediate_data_that_was_not_agreed_upon_is_refused)
{
	struct client *k = start("ImmediateData=No ");
	struct iscsi_pdu p = client_write(k, 0, 1);

	p.data_bytes = 512;
	client_send(&r, k, &p, data);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x0b0c0c);
	EXPECT(r.disk[0][0] != 0xa5);
	rig_stop(&r);
}

TEST(test_rfc7143_13_10_unsolicited_data_that_was_not_agreed_upon_is_refused)
{
	struct client *k = start("InitialR2T=Yes ");
	struct iscsi_pdu p = client_write(k, 0, 4), d;

	p.is_final = false;
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_has(k), false); /* the data that is announced comes first */
	d = client_data_out(&p, ISCSI_TAG_NONE, 0, 0, 2048);
	client_send(&r, k, &d, data);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x0b0c0c);
	EXPECT(r.disk[0][0] != 0xa5);
	rig_stop(&r);
}

TEST(test_rfc7143_13_14_unsolicited_data_beyond_the_first_burst_is_refused)
{
	struct client *k = start("InitialR2T=No FirstBurstLength=4096 ");
	struct iscsi_pdu p = client_write(k, 0, 16), d;

	p.is_final = false;
	client_send(&r, k, &p, NULL);
	d = client_data_out(&p, ISCSI_TAG_NONE, 0, 0, 4096);
	d.is_final = false;
	client_send(&r, k, &d, data);
	d = client_data_out(&p, ISCSI_TAG_NONE, 1, 4096, 512);
	client_send(&r, k, &d, data);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x0b0c0c);
	EXPECT(r.disk[0][0] != 0xa5);
	rig_stop(&r);
}

/* A lost Data-Out makes no room for more than the first burst. */
TEST(test_rfc7143_13_14_damaged_unsolicited_data_beyond_the_first_burst_is_refused)
{
	for (int is_whole = 0; is_whole < 2; is_whole++) {
		struct client *k = start("InitialR2T=No FirstBurstLength=4096 ");
		struct iscsi_pdu p = client_write(k, 0, 1), d;

		p.expected_bytes = 64 * RIG_BLOCK;
		p.is_final = false;
		client_send(&r, k, &p, NULL);
		d = client_data_out(&p, ISCSI_TAG_NONE, 0, 0, is_whole ? 4096 : 1024);
		d.is_final = false;
		client_send(&r, k, &d, data);
		d = client_data_out(&p, ISCSI_TAG_NONE, 7, d.data_bytes, 16384);
		client_send(&r, k, &d, data);
		(void)client_status(k, &p, SCSI_CHECK_CONDITION);
		EXPECT_EQ(client_sense(), 0x0b0c0c);
		EXPECT(r.disk[0][0] != 0xa5);
		rig_stop(&r);
	}
}

/* A write that waits for an answer to its R2T; then a Data-Out that is wrong in one way. */
enum wrong { OFFSET, TTT, LENGTH, FINAL_EARLY, FINAL_MISSING, UNSOLICITED, WRONGS };

TEST(test_rfc7143_11_7_data_out_that_is_not_next_ends_the_connection)
{
	for (int how = 0; how < WRONGS; how++) {
		struct client *k = start("ImmediateData=No MaxBurstLength=4096 "
					 "MaxOutstandingR2T=2 "),
			      *other;
		struct iscsi_pdu p = client_write(k, 0, 16), r2t, d;

		other = client_login(&r, "");
		client_ready(&r, other);
		client_send(&r, k, &p, NULL);
		r2t = client_expect(k, ISCSI_R2T);
		(void)client_expect(k, ISCSI_R2T);
		d = client_data_out(&p, r2t.ttt, 0, 0, 4096);
		d.offset = how == OFFSET ? 512 : 0;
		d.ttt = how == TTT ? r2t.ttt + 1 : how == UNSOLICITED ? ISCSI_TAG_NONE : r2t.ttt;
		d.data_bytes = how == LENGTH ? 4608 : how == FINAL_EARLY ? 512 : 4096 - d.offset;
		d.is_final = how != FINAL_MISSING;
		client_send(&r, k, &d, data);
		client_reject(k, ISCSI_REJECT_PROTOCOL);
		EXPECT_EQ(client_has(k), false);
		expect_end(k, other, WEFT_R_ISCSI_DATA_ORDER);
		EXPECT(r.disk[0][0] != 0xa5);
		rig_stop(&r);
	}
}

TEST(test_rfc7143_11_7_data_out_of_no_task_goes_nowhere)
{
	struct client *k = start("");
	struct iscsi_pdu p = client_write(k, 0, 16), d;

	d = client_data_out(&p, 5, 0, 0, 8192);
	k->cmd_sn--;
	client_send(&r, k, &d, data);
	d.ttt = ISCSI_TAG_NONE;
	client_send(&r, k, &d, data);
	d.data_bytes = 0;
	client_send(&r, k, &d, data);
	EXPECT_EQ(client_has(k), false);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_7_8_a_damaged_data_out_ends_its_task_when_all_data_came)
{
	struct client *k = start("ImmediateData=No MaxBurstLength=4096 DataDigest=CRC32C "
				 "MaxOutstandingR2T=2 ");
	struct iscsi_pdu p = client_write(k, 0, 16), r2t[2], d;
	uint8_t *bytes = calloc(1, 8192);
	struct wr w = wr_of(bytes, 8192);

	client_send(&r, k, &p, NULL);
	r2t[0] = client_expect(k, ISCSI_R2T);
	r2t[1] = client_expect(k, ISCSI_R2T);
	d = client_data_out(&p, r2t[0].ttt, 0, 0, 4096);
	iscsi_encode(&d, &w);
	memset(w.at, 1, 4096); /* and a digest of zeros */
	client_bytes(&r, k, bytes, ISCSI_BHS_BYTES + 4096 + ISCSI_DIGEST_BYTES);
	free(bytes);
	client_reject(k, ISCSI_REJECT_DATA_DIGEST);
	EXPECT_EQ(client_has(k), false);
	d = client_data_out(&p, r2t[1].ttt, 0, 4096, 4096);
	client_send(&r, k, &d, data);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x0b4705);
	EXPECT(r.disk[0][0] != 1 && r.disk[0][4096] != 0xa5);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_7_9_a_wrong_data_sn_is_a_lost_data_out)
{
	struct client *k = start("ImmediateData=No MaxBurstLength=4096 MaxOutstandingR2T=2 ");
	struct iscsi_pdu p = client_write(k, 0, 16), r2t[2], d;

	client_send(&r, k, &p, NULL);
	r2t[0] = client_expect(k, ISCSI_R2T);
	r2t[1] = client_expect(k, ISCSI_R2T);
	d = client_data_out(&p, r2t[0].ttt, 1, 0, 4096);
	client_send(&r, k, &d, data);
	EXPECT_EQ(client_has(k), false);
	d = client_data_out(&p, r2t[1].ttt, 0, 4096, 4096);
	client_send(&r, k, &d, data);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x0b4705);
	EXPECT(r.disk[0][0] != 0xa5 && r.disk[0][4096] != 0xa5);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_7_8_a_damaged_command_has_not_come)
{
	struct client *k = start("DataDigest=CRC32C ");
	struct iscsi_pdu p = client_write(k, 0, 1);
	uint8_t bytes[ISCSI_BHS_BYTES + 512 + ISCSI_DIGEST_BYTES] = { 0 };
	struct wr w = wr_of(bytes, sizeof(bytes));

	p.data_bytes = 512;
	iscsi_encode(&p, &w);
	client_bytes(&r, k, bytes, sizeof(bytes));
	client_reject(k, ISCSI_REJECT_DATA_DIGEST);
	EXPECT_EQ(k->exp_cmd_sn, p.cmd_sn);
	client_send(&r, k, &p, data);
	(void)client_status(k, &p, SCSI_GOOD);
	EXPECT_EQ(r.disk[0][0], 0xa5);
	rig_stop(&r);
}

TEST(test_rfc7143_7_7_a_damaged_header_ends_the_connection)
{
	struct client *k = start("HeaderDigest=CRC32C "), *other = client_login(&r, "");
	uint8_t bytes[ISCSI_BHS_BYTES + ISCSI_DIGEST_BYTES] = { ISCSI_NOP_OUT | 0x40, 0x80 };

	client_ready(&r, other);
	client_bytes(&r, k, bytes, sizeof(bytes));
	expect_end(k, other, WEFT_R_ISCSI_HEADER_DIGEST);
	rig_stop(&r);
}

TEST(test_data_that_comes_unasked_and_finds_no_memory_is_answered_busy)
{
	enum { CLIENTS = 5 };
	struct iscsi_node_counts counts;
	struct iscsi_pdu p[CLIENTS], d;
	struct client *k[CLIENTS];
	int busy = 0;

	rig_init(&r);
	r.config.memory_bytes = 32 << 20;
	r.wish.session.first_burst_bytes_max = 8 << 20;
	rig_start(&r);
	for (int i = 0; i < CLIENTS; i++) {
		k[i] = client_login(&r, "InitialR2T=No FirstBurstLength=8388608 "
					"MaxBurstLength=8388608 ");
		client_ready(&r, k[i]);
		/* It announces 8 MiB, of which the command takes one block. */
		p[i] = client_write(k[i], 0, 1);
		p[i].expected_bytes = 8 << 20;
		p[i].is_final = false;
		p[i].data_bytes = 512;
		client_send(&r, k[i], &p[i], data);
	}
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.memory_used, 32 << 20);
	for (int i = 0; i < CLIENTS; i++) {
		d = client_data_out(&p[i], ISCSI_TAG_NONE, 0, 512, 512);
		client_send(&r, k[i], &d, data);
		busy += client_expect(k[i], ISCSI_SCSI_RESPONSE).status == 0x08;
	}
	EXPECT_EQ(busy, 1);
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.busy, 1);
	EXPECT_EQ(counts.memory_used, 0);
	rig_stop(&r);
}

TEST(test_large_transfers_wait_for_memory_in_their_order)
{
	enum { CLIENTS = 4, EACH = 16 };
	struct client *k[CLIENTS];
	struct iscsi_node_counts counts;
	struct iscsi_pdu p;
	int reads = 0;

	rig_init(&r);
	r.delay_ns = 1000;
	rig_start(&r);
	for (int i = 0; i < CLIENTS; i++) {
		k[i] = client_login(&r, "MaxRecvDataSegmentLength=1048576 MaxBurstLength=1048576 ");
		client_ready(&r, k[i]);
	}
	/* 64 MiB in all, and half of that is there. */
	for (int n = 0; n < EACH; n++)
		for (int i = 0; i < CLIENTS; i++) {
			p = client_read(k[i], 0, RIG_DISK_BYTES / RIG_BLOCK);
			k[i]->in_bytes = k[i]->in_at = 0;
			client_send(&r, k[i], &p, NULL);
		}
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.tasks, CLIENTS * EACH);
	EXPECT(counts.memory_used <= (32 << 20) - (32 << 20) / 8);
	for (int n = 0; n < CLIENTS * EACH; n++) {
		for (int i = 0; i < CLIENTS; i++) {
			for (; client_has(k[i]); reads++)
				EXPECT_EQ(client_expect(k[i], ISCSI_DATA_IN).has_status, true);
			k[i]->in_bytes = k[i]->in_at = 0;
		}
		rig_wait(&r, 500);
	}
	EXPECT_EQ(reads, CLIENTS * EACH);
	rig_stop(&r);
}

/* ---- Numbers and tags ----------------------------------------------------------------------- */

TEST(test_rfc7143_11_17_1_the_tag_of_a_task_in_progress_is_rejected)
{
	struct client *k;
	struct iscsi_pdu a, b;

	rig_init(&r);
	r.delay_ns = 1000;
	rig_start(&r);
	k = client_login(&r, "");
	client_ready(&r, k);
	a = client_read(k, 0, 1);
	b = client_write(k, 0, 1);
	b.itt = a.itt;
	b.data_bytes = 512;
	client_send(&r, k, &a, NULL);
	client_send(&r, k, &b, data);
	client_reject(k, ISCSI_REJECT_IN_PROGRESS);
	EXPECT_EQ(k->exp_cmd_sn, k->cmd_sn);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, a.itt);
	EXPECT_EQ(client_has(k), false);
	EXPECT(r.disk[0][0] != 0xa5);
	rig_stop(&r);
}

TEST(test_rfc7143_11_17_1_immediate_commands_of_one_session_leave_room_for_others)
{
	struct client *k, *other;
	struct iscsi_pdu p;

	rig_init(&r);
	r.config.sessions_max = 2;
	r.config.window_max = 4;
	r.config.tasks_max = 2 * (4 + ISCSI_EXTRAS_MAX);
	r.delay_ns = 1000;
	rig_start(&r);
	k = client_login(&r, "");
	client_ready(&r, k);
	for (int i = 0; i < 3 * ISCSI_EXTRA_COMMANDS_MAX; i++) {
		p = client_read(k, 0, 1);
		p.is_immediate = true;
		p.cmd_sn = --k->cmd_sn;
		client_send(&r, k, &p, NULL);
	}
	for (int i = 0; i < 2 * ISCSI_EXTRA_COMMANDS_MAX; i++)
		client_reject(k, ISCSI_REJECT_IMMEDIATE);
	other = client_login(&r, "");
	EXPECT_EQ(other->max_cmd_sn - other->exp_cmd_sn + 1, 4);
	client_ready(&r, other);
	rig_wait(&r, 1000);
	for (int i = 0; i < ISCSI_EXTRA_COMMANDS_MAX; i++)
		(void)client_expect(k, ISCSI_DATA_IN);
	EXPECT_EQ(client_has(k), false);
	rig_stop(&r);
}

TEST(test_rfc7143_13_12_a_reject_is_no_longer_than_the_initiator_takes)
{
	static const uint32_t more[] = { 448, 600 };
	static const uint8_t cdb_more[600];

	for (int i = 0; i < 2; i++) {
		struct client *k = start("MaxRecvDataSegmentLength=512 ");
		struct iscsi_pdu p = client_write(k, 0, 16), again;

		client_send(&r, k, &p, NULL);
		(void)client_expect(k, ISCSI_R2T);
		again = client_command(k, p.cdb, 0);
		again.itt = p.itt; /* a task in progress */
		again.cdb_more = cdb_more;
		again.cdb_more_bytes = (uint16_t)more[i];
		client_send(&r, k, &again, NULL);
		EXPECT_EQ(client_expect(k, ISCSI_REJECT).data_bytes,
			  i == 0 ? ISCSI_BHS_BYTES + 4 + more[i] : ISCSI_BHS_BYTES);
		rig_stop(&r);
	}
}

TEST(test_rfc7143_4_2_2_1_a_gap_before_another_request_ends_the_session)
{
	struct client *k = start(""), *other = client_login(&r, "");
	struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT,
			       .is_final = true,
			       .itt = 900,
			       .ttt = ISCSI_TAG_NONE,
			       .cmd_sn = k->cmd_sn + 1,
			       .data_bytes = 5000 };

	client_ready(&r, other);
	client_send(&r, k, &p, data);
	EXPECT_EQ(client_has(k), false);
	expect_end(k, other, WEFT_R_ISCSI_CMD_SN);
	rig_stop(&r);
}

TEST(test_rfc7143_11_17_1_unknown_opcodes_are_rejected_and_skipped)
{
	struct client *k = start("");
	uint8_t bytes[ISCSI_BHS_BYTES + 8] = { 0x1c | 0x40, 0x80, 0, 0, 0, 0, 0, 5 };
	struct iscsi_pdu p;

	client_bytes(&r, k, bytes, sizeof(bytes));
	client_reject(k, ISCSI_REJECT_UNSUPPORTED);
	EXPECT_MEM(client_data(), bytes, ISCSI_BHS_BYTES);
	p = client_read(k, 0, 1);
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, p.itt);
	rig_stop(&r);
}

TEST(test_rfc7143_7_6_format_errors_end_the_session)
{
	/* A PDU of a target; AHS where there is none; a data segment over the limit. */
	static const uint8_t headers[3][8] = { { ISCSI_NOP_IN, 0x80 },
					       { ISCSI_NOP_OUT | 0x40, 0x80, 0, 0, 1 },
					       { ISCSI_NOP_OUT | 0x40, 0x80, 0, 0, 0, 4, 0, 1 } };
	static const enum weft_reason reasons[] = { WEFT_R_ISCSI_DIRECTION, WEFT_R_ISCSI_AHS,
						    WEFT_R_ISCSI_DATA_LIMIT };

	for (int i = 0; i < 3; i++) {
		struct client *k = start(""), *other = client_login(&r, "");
		uint8_t bytes[ISCSI_BHS_BYTES + 4] = { 0 };

		client_ready(&r, other);
		memcpy(bytes, headers[i], 8);
		client_bytes(&r, k, bytes, sizeof(bytes));
		EXPECT_EQ(client_has(k), false);
		expect_end(k, other, reasons[i]);
		rig_stop(&r);
	}
}

TEST(test_rfc7143_11_16_snack_is_refused)
{
	struct client *k = start("");
	struct iscsi_pdu p = { .opcode = ISCSI_SNACK,
			       .is_final = true,
			       .code = ISCSI_SNACK_STATUS,
			       .itt = ISCSI_TAG_NONE,
			       .ttt = ISCSI_TAG_NONE };

	client_send(&r, k, &p, NULL);
	client_reject(k, ISCSI_REJECT_SNACK);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_6_3_a_login_request_after_the_login_ends_the_connection)
{
	struct client *k = start(""), *other = client_login(&r, "");
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .csg = ISCSI_STAGE_OPERATIONAL,
			       .nsg = ISCSI_STAGE_FULL_FEATURE,
			       .itt = 9 };

	client_ready(&r, other);
	client_send(&r, k, &p, NULL);
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	expect_end(k, other, WEFT_R_ISCSI_PHASE);
	rig_stop(&r);
}

TEST(test_an_initiator_that_takes_no_answers_is_not_read_on)
{
	struct client *k = start("");
	struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT,
			       .is_immediate = true,
			       .is_final = true,
			       .ttt = ISCSI_TAG_NONE,
			       .cmd_sn = k->cmd_sn,
			       .data_bytes = 1000 };
	int answers = 0;

	k->is_stalled = true;
	for (p.itt = 500; p.itt < 540; p.itt++)
		client_send(&r, k, &p, data);
	EXPECT_EQ(iscsi_connection_wants(k->c), false);
	/* What it had read is answered; the rest was never taken. */
	client_resume(&r, k);
	for (; client_has(k); answers++)
		EXPECT_EQ(client_expect(k, ISCSI_NOP_IN).itt, 500 + answers);
	EXPECT(answers > 1 && answers < 10);
	EXPECT_EQ(iscsi_connection_wants(k->c), true);
	rig_stop(&r);
}

/* ---- Half-open logins ----------------------------------------------------------------------- */

TEST(test_a_login_has_a_deadline)
{
	struct client *k;

	rig_init(&r);
	rig_start(&r);
	k = client_connect(&r);
	rig_wait(&r, r.config.login_wait_ns - 1);
	EXPECT(k->c != NULL);
	rig_wait(&r, 1);
	EXPECT(k->c == NULL);
	EXPECT_EQ(r.last.kind, ISCSI_NOTE_REFUSED);
	EXPECT_EQ(r.last.reason, WEFT_R_CONNECT_TIMEOUT);
	rig_stop(&r);
}

TEST(test_half_open_logins_give_way_to_new_ones_and_not_to_sessions)
{
	struct iscsi_node_counts counts;
	struct client *k, *half[4], *again;

	rig_init(&r);
	r.config.sessions_max = 2;
	r.config.connections_max = 3;
	rig_start(&r);
	k = client_login(&r, "");
	client_ready(&r, k);
	for (int i = 0; i < 4; i++) {
		half[i] = client_connect(&r);
		rig_run(&r);
	}
	EXPECT(half[0]->c == NULL && half[1]->c == NULL);
	EXPECT(half[2]->c != NULL && half[3]->c != NULL);
	EXPECT_EQ(half[0]->action, ISCSI_ACTION_ABORT);
	EXPECT_EQ(r.last.reason, WEFT_R_ISCSI_CROWDED);
	again = client_login(&r, "");
	client_ready(&r, again);
	EXPECT(k->c != NULL);
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.evicted, 3);
	rig_stop(&r);
}

TEST(test_connections_that_are_all_logged_in_leave_no_room)
{
	struct iscsi_accept a = { .peer = "x" };
	struct iscsi_connection *c;

	rig_init(&r);
	r.config.sessions_max = 1;
	r.config.connections_max = 1;
	rig_start(&r);
	(void)client_login(&r, "");
	EXPECT_EQ(iscsi_node_accept(r.node, &a, r.now_ns, &c), WEFT_R_LIMIT);
	rig_stop(&r);
}

/* The first part of a login: it keeps the memory of a text. */
static void half_login(struct client *k)
{
	static const char text[] = "InitiatorName=" RIG_INITIATOR;
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_REQUEST,
			       .is_immediate = true,
			       .is_continued = true,
			       .csg = ISCSI_STAGE_OPERATIONAL,
			       .isid = 0x400000000099,
			       .data_bytes = sizeof(text) };

	client_send(&r, k, &p, text);
	(void)client_expect(k, ISCSI_LOGIN_RESPONSE);
}

TEST(test_half_done_logins_give_their_memory_to_new_ones)
{
	struct client *half[3], *k;

	rig_init(&r);
	r.config.texts_max = 2;
	rig_start(&r);
	for (int i = 0; i < 3; i++) {
		half[i] = client_connect(&r);
		half_login(half[i]);
	}
	EXPECT(half[0]->c == NULL && half[1]->c != NULL && half[2]->c != NULL);
	k = client_login(&r, "");
	client_ready(&r, k);
	EXPECT(half[1]->c == NULL && half[2]->c != NULL);
	rig_stop(&r);
}

/* The first part of a text: the session keeps the memory of a text. */
static void half_text(struct client *k)
{
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_REQUEST,
			       .is_immediate = true,
			       .is_continued = true,
			       .itt = 900,
			       .ttt = ISCSI_TAG_NONE,
			       .cmd_sn = k->cmd_sn,
			       .data_bytes = 5 };

	client_send(&r, k, &p, "SendT");
	(void)client_expect(k, ISCSI_TEXT_RESPONSE);
}

TEST(test_iscsi_unfinished_texts_of_sessions_leave_room_for_logins)
{
	struct client *k[3], *half[3];

	rig_init(&r);
	r.config.texts_max = 4;
	rig_start(&r);
	for (int i = 0; i < 3; i++)
		k[i] = client_login(&r, "");
	for (int i = 0; i < 3; i++) {
		EXPECT(k[0]->c != NULL);
		half_text(k[i]);
	}
	EXPECT(k[0]->c == NULL && k[1]->c != NULL && k[2]->c != NULL);
	EXPECT(r.last.kind == ISCSI_NOTE_END && r.last.reason == WEFT_R_ISCSI_CROWDED);
	for (int i = 0; i < 3; i++) {
		half[i] = client_connect(&r);
		half_login(half[i]);
		EXPECT(half[0]->c == NULL || i < 2);
	}
	/* They gave way to each other, not sessions to them. */
	EXPECT(half[0]->c == NULL && half[1]->c != NULL && half[2]->c != NULL);
	EXPECT(k[1]->c != NULL && k[2]->c != NULL);
	client_ready(&r, client_login(&r, ""));
	rig_stop(&r);
}

TEST(test_iscsi_half_done_logins_leave_room_for_texts_of_sessions)
{
	struct client *k[2], *half[4];

	rig_init(&r);
	r.config.texts_max = 4;
	rig_start(&r);
	k[0] = client_login(&r, "");
	k[1] = client_login(&r, "");
	for (int i = 0; i < 4; i++) {
		half[i] = client_connect(&r);
		half_login(half[i]);
	}
	half_text(k[0]);
	half_text(k[1]);
	EXPECT(half[0]->c == NULL && half[1]->c == NULL);
	EXPECT(half[2]->c != NULL && half[3]->c != NULL);
	EXPECT(k[0]->c != NULL && k[1]->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_11_13_5_another_pdu_during_the_login_ends_it)
{
	struct client *k;
	struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT,
			       .is_immediate = true,
			       .is_final = true,
			       .itt = 1,
			       .ttt = ISCSI_TAG_NONE };

	rig_init(&r);
	rig_start(&r);
	k = client_connect(&r);
	client_send(&r, k, &p, NULL);
	p = client_expect(k, ISCSI_LOGIN_RESPONSE);
	EXPECT_EQ(p.status_class << 8 | p.status_detail, ISCSI_STATUS_INVALID_DURING_LOGIN);
	EXPECT(k->c == NULL);
	rig_stop(&r);
}
