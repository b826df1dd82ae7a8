/* SPDX-License-Identifier: BSD-2-Clause */
/* Task management: what a function ends, and when it is answered. */
#include <string.h>

#include "target_fixture.h"

static struct rig r;
static uint8_t data[RIG_DISK_BYTES];

static struct client *start_slow(uint64_t delay_ns)
{
	struct client *k;

	rig_init(&r);
	r.delay_ns = delay_ns;
	rig_start(&r);
	k = client_login(&r, "iSCSIProtocolLevel=2 ");
	client_ready(&r, k);
	memset(data, 0xa5, sizeof(data));
	return k;
}

static struct iscsi_pdu manage(struct client *k, uint8_t function, uint32_t ref_itt)
{
	struct iscsi_pdu p = { .opcode = ISCSI_TASK_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .code = function,
			       .itt = ++k->itt,
			       .ref_itt = ref_itt,
			       .cmd_sn = k->cmd_sn };

	client_send(&r, k, &p, NULL);
	return p;
}

static uint8_t result(struct client *k, const struct iscsi_pdu *m)
{
	struct iscsi_pdu p = client_expect(k, ISCSI_TASK_RESPONSE);

	REQUIRE(p.itt == m->itt);
	return p.code;
}

TEST(test_rfc7143_11_5_abort_task_is_answered_when_the_device_is_done)
{
	struct client *k = start_slow(1000);
	struct iscsi_pdu a = client_read(k, 0, 1), b = client_read(k, 1, 1), m;

	client_send(&r, k, &a, NULL);
	client_send(&r, k, &b, NULL);
	m = manage(k, ISCSI_ABORT_TASK, a.itt);
	EXPECT_EQ(client_has(k), false);
	rig_wait(&r, 1000);
	/* No response to the task itself. */
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, b.itt);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(client_has(k), false);
	m = manage(k, ISCSI_ABORT_TASK, a.itt);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_NO_TASK);
	rig_stop(&r);
}

TEST(test_rfc7143_11_5_abort_waits_for_a_task_that_a_reset_has_ended)
{
	struct client *k = start_slow(1000), *other = client_login(&r, "");
	struct iscsi_pdu a = client_read(k, 0, 1), reset, m;

	client_ready(&r, other);
	client_send(&r, k, &a, NULL);
	reset = manage(other, ISCSI_LU_RESET, ISCSI_TAG_NONE);
	m = manage(k, ISCSI_ABORT_TASK, a.itt);
	/* The device has it yet: what comes after the answer must come after its effect. */
	EXPECT_EQ(client_has(k), false);
	rig_wait(&r, 1000);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(result(other, &reset), ISCSI_TASK_COMPLETE);
	rig_stop(&r);
}

TEST(test_rfc7143_11_5_abort_of_a_write_that_waits_for_data)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu w = client_write(k, 0, 16), r2t, m, d;

	client_send(&r, k, &w, NULL);
	r2t = client_expect(k, ISCSI_R2T);
	m = manage(k, ISCSI_ABORT_TASK, w.itt);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	/* The data was on its way. */
	d = client_data_out(&w, r2t.ttt, 0, 0, 8192);
	client_send(&r, k, &d, data);
	EXPECT_EQ(client_has(k), false);
	EXPECT(k->c != NULL && r.disk[0][0] != 0xa5);
	rig_stop(&r);
}

/* A write of one block with its data, of which the last bytes and the digest come later. */
static void send_begun(struct client *k, const struct iscsi_pdu *p, uint8_t *bytes)
{
	struct wr w = wr_of(bytes, ISCSI_BHS_BYTES);

	iscsi_encode(p, &w);
	client_bytes(&r, k, bytes, ISCSI_BHS_BYTES + 100);
}

TEST(test_rfc7143_11_5_abort_of_a_command_whose_data_comes_damaged)
{
	enum { REST = RIG_BLOCK - 100 + ISCSI_DIGEST_BYTES };
	uint8_t bytes[ISCSI_BHS_BYTES + RIG_BLOCK + ISCSI_DIGEST_BYTES] = { 0 };
	struct client *k, *other;
	struct iscsi_pdu w, reset;

	rig_init(&r);
	rig_start(&r);
	k = client_login(&r, "DataDigest=CRC32C ");
	other = client_login(&r, "");
	client_ready(&r, k);
	client_ready(&r, other);
	w = client_write(k, 0, 1);
	w.data_bytes = RIG_BLOCK;
	send_begun(k, &w, bytes);
	reset = manage(other, ISCSI_LU_RESET, ISCSI_TAG_NONE);
	client_bytes(&r, k, bytes + ISCSI_BHS_BYTES + 100, REST); /* a digest of zeros */
	client_reject(k, ISCSI_REJECT_DATA_DIGEST);
	EXPECT_EQ(k->exp_cmd_sn, w.cmd_sn);
	EXPECT_EQ(result(other, &reset), ISCSI_TASK_COMPLETE);
	rig_stop(&r);
}

TEST(test_rfc7143_4_2_2_1_the_number_of_a_command_aborted_before_its_turn_has_come)
{
	uint8_t bytes[ISCSI_BHS_BYTES + RIG_BLOCK] = { 0 };
	struct client *k = start_slow(0), *other = client_login(&r, "");
	struct iscsi_pdu first = client_read(k, 0, 1), w = client_write(k, 0, 1), last, reset;

	client_ready(&r, other);
	w.data_bytes = RIG_BLOCK;
	send_begun(k, &w, bytes);
	reset = manage(other, ISCSI_LU_RESET, ISCSI_TAG_NONE);
	client_bytes(&r, k, bytes + ISCSI_BHS_BYTES + 100, RIG_BLOCK - 100);
	EXPECT_EQ(result(other, &reset), ISCSI_TASK_COMPLETE);
	client_send(&r, k, &first, NULL);
	(void)client_status(k, &first, SCSI_CHECK_CONDITION); /* the reset */
	EXPECT_EQ(k->exp_cmd_sn, w.cmd_sn + 1);
	last = client_read(k, 0, 1);
	client_send(&r, k, &last, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, last.itt);
	rig_stop(&r);
}

TEST(test_rfc7143_11_5_5_abort_of_a_task_that_never_came)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu a = client_read(k, 0, 1), b = client_read(k, 1, 1), m;

	client_send(&r, k, &b, NULL); /* held: the one before it is missing */
	m = (struct iscsi_pdu){ .opcode = ISCSI_TASK_REQUEST,
				.is_immediate = true,
				.is_final = true,
				.code = ISCSI_ABORT_TASK,
				.itt = ++k->itt,
				.ref_itt = a.itt,
				.ref_cmd_sn = a.cmd_sn,
				.cmd_sn = k->cmd_sn };
	client_send(&r, k, &m, NULL);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(k->exp_cmd_sn, k->cmd_sn);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, b.itt);
	rig_stop(&r);
}

static uint8_t abort_number(struct client *k, uint32_t itt, uint32_t cmd_sn)
{
	struct iscsi_pdu m = { .opcode = ISCSI_TASK_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .code = ISCSI_ABORT_TASK,
			       .itt = ++k->itt,
			       .ref_itt = itt,
			       .ref_cmd_sn = cmd_sn,
			       .cmd_sn = k->cmd_sn };

	client_send(&r, k, &m, NULL);
	return result(k, &m);
}

TEST(test_rfc7143_11_6_1_abort_of_any_task_of_the_window_that_never_came)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu a = client_read(k, 0, 1), b = client_read(k, 1, 1),
			 c = client_read(k, 2, 1);

	client_send(&r, k, &c, NULL); /* held: those before it are missing */
	EXPECT_EQ(abort_number(k, b.itt, b.cmd_sn), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(k->exp_cmd_sn, a.cmd_sn);
	/* What has come, came before or is sent later has none that is missing. */
	EXPECT_EQ(abort_number(k, b.itt, b.cmd_sn), ISCSI_TASK_NO_TASK);
	EXPECT_EQ(abort_number(k, 999, c.cmd_sn), ISCSI_TASK_NO_TASK);
	EXPECT_EQ(abort_number(k, 999, a.cmd_sn - 1), ISCSI_TASK_NO_TASK);
	EXPECT_EQ(abort_number(k, 999, k->cmd_sn), ISCSI_TASK_NO_TASK);
	client_send(&r, k, &b, NULL); /* it came, by its number */
	EXPECT_EQ(client_has(k), false);
	client_send(&r, k, &a, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, a.itt);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, c.itt);
	EXPECT_EQ(k->exp_cmd_sn, k->cmd_sn);
	rig_stop(&r);
}

/* Section 4.2.2.1: its number has come, even if the ones before have not, and it is gone. */
TEST(test_rfc7143_11_5_abort_of_a_command_that_waits_for_those_before_it)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu a = client_read(k, 0, 1), b = client_read(k, 1, 1),
			 c = client_read(k, 2, 1), m;

	client_send(&r, k, &b, NULL); /* held: the one before it is missing */
	m = manage(k, ISCSI_ABORT_TASK, b.itt);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	client_send(&r, k, &b, NULL); /* it came before: ignored */
	client_send(&r, k, &c, NULL);
	EXPECT_EQ(client_has(k), false);
	client_send(&r, k, &a, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, a.itt);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, c.itt);
	EXPECT_EQ(k->exp_cmd_sn, k->cmd_sn);
	EXPECT_EQ(client_has(k), false);
	rig_stop(&r);
}

TEST(test_rfc7143_11_5_task_sets_of_one_initiator_and_of_all)
{
	struct client *k = start_slow(1000), *other = client_login(&r, "");
	struct iscsi_pdu a, b, m, w;

	client_ready(&r, other);
	a = client_read(k, 0, 1);
	b = client_read(other, 0, 1);
	client_send(&r, k, &a, NULL);
	client_send(&r, other, &b, NULL);
	m = manage(k, ISCSI_ABORT_TASK_SET, ISCSI_TAG_NONE);
	rig_wait(&r, 1000);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(client_expect(other, ISCSI_DATA_IN).itt, b.itt);
	/* All: the other initiator learns of it by its next command. */
	b = client_read(other, 0, 1);
	w = client_write(other, 0, 16);
	client_send(&r, other, &b, NULL);
	client_send(&r, other, &w, NULL);
	(void)client_expect(other, ISCSI_R2T);
	m = manage(k, ISCSI_CLEAR_TASK_SET, ISCSI_TAG_NONE);
	rig_wait(&r, 1000);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(client_has(other), false);
	b = client_read(other, 0, 1);
	client_send(&r, other, &b, NULL);
	(void)client_status(other, &b, SCSI_CHECK_CONDITION);
	EXPECT_EQ(client_sense(), 0x062f00);
	a = client_read(k, 0, 1);
	client_send(&r, k, &a, NULL);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, a.itt);
	rig_stop(&r);
}

TEST(test_rfc7143_11_5_resets_of_a_unit_and_of_a_target)
{
	struct client *k = start_slow(1000), *other = client_login(&r, "");
	static const uint8_t functions[] = { ISCSI_LU_RESET, ISCSI_TARGET_WARM_RESET };
	struct iscsi_pdu a, b, m;

	client_ready(&r, other);
	for (int i = 0; i < 2; i++) {
		a = client_read(k, 0, 1);
		b = client_read(other, 0, 1);
		client_send(&r, k, &a, NULL);
		client_send(&r, other, &b, NULL);
		m = manage(k, functions[i], ISCSI_TAG_NONE);
		rig_wait(&r, 1000);
		EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
		EXPECT_EQ(client_has(k) || client_has(other), false);
		a = client_read(k, 0, 1);
		client_send(&r, k, &a, NULL);
		(void)client_status(k, &a, SCSI_CHECK_CONDITION);
		EXPECT_EQ(client_sense(), 0x062903);
		b = client_read(other, 0, 1);
		client_send(&r, other, &b, NULL);
		(void)client_status(other, &b, SCSI_CHECK_CONDITION);
		EXPECT_EQ(client_sense(), 0x062903);
	}
	m = manage(k, ISCSI_TARGET_COLD_RESET, ISCSI_TAG_NONE);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	EXPECT(k->c == NULL && other->c == NULL);
	EXPECT_EQ(r.last.reason, WEFT_R_ISCSI_RESET);
	rig_stop(&r);
}

TEST(test_rfc7143_11_6_functions_that_are_not_there)
{
	struct client *k = start_slow(0), *old = client_login(&r, "");
	struct iscsi_pdu m = { .opcode = ISCSI_TASK_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .code = ISCSI_LU_RESET,
			       .itt = 900,
			       .ref_itt = ISCSI_TAG_NONE,
			       .lun = UINT64_C(9) << 48,
			       .cmd_sn = k->cmd_sn };

	client_send(&r, k, &m, NULL);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_NO_LUN);
	m = manage(k, ISCSI_CLEAR_ACA, ISCSI_TAG_NONE);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_UNSUPPORTED);
	m = manage(k, ISCSI_TASK_REASSIGN, 5);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_NO_REASSIGN);
	/* RFC 7144, without its protocol level. */
	m = manage(old, ISCSI_QUERY_TASK, 5);
	EXPECT_EQ(result(old, &m), ISCSI_TASK_UNSUPPORTED);
	rig_stop(&r);
}

TEST(test_rfc7144_7_queries_and_the_reset_of_a_nexus)
{
	struct client *k = start_slow(1000);
	struct iscsi_pdu a = client_read(k, 0, 1), m;

	m = manage(k, ISCSI_QUERY_TASK_SET, ISCSI_TAG_NONE);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	client_send(&r, k, &a, NULL);
	m = manage(k, ISCSI_QUERY_TASK, a.itt);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_SUCCEEDED);
	m = manage(k, ISCSI_QUERY_TASK, a.itt + 50);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	m = manage(k, ISCSI_QUERY_TASK_SET, ISCSI_TAG_NONE);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_SUCCEEDED);
	m = manage(k, ISCSI_I_T_NEXUS_RESET, ISCSI_TAG_NONE);
	EXPECT_EQ(client_has(k), false);
	rig_wait(&r, 1000);
	EXPECT_EQ(result(k, &m), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(client_has(k), false);
	rig_stop(&r);
}
