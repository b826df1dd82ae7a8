/* SPDX-License-Identifier: BSD-2-Clause */
/* Time limits, task management, lost connections and redirections of an initiator's session. */
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

static uint32_t task_itt(void)
{
	return bench_sent(&b, ISCSI_TASK_REQUEST)->pdu.itt;
}

/* ---- Time limits ---------------------------------------------------------------------------- */

TEST(test_rfc7143_11_5_late_command_is_aborted)
{
	const struct bench_pdu *sent;
	struct iscsi_request r[2];

	bench_start(&b);
	for (int k = 0; k < 2; k++) {
		bench_command(&r[k], 0x2a);
		r[k].lun = 4;
		r[k].timeout_ns = SECOND;
		bench_submit(&b, &r[k]);
	}
	bench_pass(&b, SECOND);
	EXPECT_EQ(bench_count(&b, ISCSI_TASK_REQUEST), 1);
	sent = bench_sent(&b, ISCSI_TASK_REQUEST);
	EXPECT_EQ(sent->pdu.code, ISCSI_ABORT_TASK);
	EXPECT(sent->pdu.is_immediate);
	EXPECT_EQ(sent->pdu.ref_itt, BENCH_TAG);
	EXPECT_EQ(sent->pdu.ref_cmd_sn, 1);
	EXPECT_EQ(sent->pdu.lun, 4);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_task_answer(&b, task_itt(), ISCSI_TASK_COMPLETE);
	expect_done(&r[0], WEFT_R_ISCSI_TIMEOUT);
	EXPECT_EQ(b.forgets, 1);
	/* The next in turn: its response was faster. */
	EXPECT_EQ(bench_count(&b, ISCSI_TASK_REQUEST), 2);
	EXPECT_EQ(bench_sent(&b, ISCSI_TASK_REQUEST)->pdu.ref_itt, BENCH_TAG + 1);
	bench_answer(&b, 1, 0);
	expect_done(&r[1], WEFT_OK);
	bench_task_answer(&b, task_itt(), ISCSI_TASK_NO_TASK);
	EXPECT_EQ(b.closes, 0);
	EXPECT_EQ(b.forgets, 1);
	bench_close(&b);
}

TEST(test_unit_is_reset_after_an_abort_without_answer)
{
	struct iscsi_request r[4];
	uint32_t abort_itt;

	bench_start(&b);
	for (int k = 0; k < 4; k++) {
		bench_command(&r[k], k == 2 ? 0x5f : 0x2a);
		r[k].lun = k == 3 ? 5 : 4;
		r[k].timeout_ns = k == 0 ? SECOND : 500 * SECOND;
		bench_submit(&b, &r[k]);
	}
	bench_pass(&b, SECOND);
	abort_itt = task_itt();
	bench_pass(&b, 10 * SECOND);
	EXPECT_EQ(bench_sent(&b, ISCSI_TASK_REQUEST)->pdu.code, ISCSI_LU_RESET);
	EXPECT_EQ(bench_sent(&b, ISCSI_TASK_REQUEST)->pdu.lun, 4);
	EXPECT_EQ(bench_sent(&b, ISCSI_TASK_REQUEST)->pdu.ref_itt, ISCSI_TAG_NONE);
	EXPECT(task_itt() != abort_itt);
	/* The late answer to the abort is no wrong tag; once. */
	bench_task_answer(&b, abort_itt, ISCSI_TASK_NO_TASK);
	EXPECT_EQ(b.closes, 0);
	bench_clear(&b);
	{
		struct iscsi_request late;

		/* Sent after the reset: it is not concerned. */
		bench_command(&late, 0x28);
		late.lun = 4;
		bench_submit(&b, &late);
		EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 1);
		bench_clear(&b);
		bench_task_answer(&b, abort_itt + 1, ISCSI_TASK_COMPLETE);
		EXPECT_EQ(b.closes, 0);
		/* The write of the unit is sent again; PERSISTENT RESERVE OUT is not. */
		EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 1);
		expect_done(&r[2], WEFT_R_ISCSI_NOT_AGAIN);
		expect_done(&r[0], WEFT_R_ISCSI_TIMEOUT);
		EXPECT(!iscsi_initiator_next_done(b.i));
		EXPECT_EQ(b.forgets, 3);
		bench_answer(&b, 3, 0);
		expect_done(&r[3], WEFT_OK);
		EXPECT_EQ(iscsi_initiator_counts(b.i)->resets, 1);
		EXPECT_EQ(b.closes, 0);
		bench_task_answer(&b, abort_itt, ISCSI_TASK_NO_TASK);
		EXPECT_EQ(b.closes, 1);
		bench_close(&b);
	}
}

TEST(test_session_is_made_anew_after_a_reset_without_answer)
{
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x2a);
	r.timeout_ns = SECOND;
	bench_submit(&b, &r);
	bench_pass(&b, 11 * SECOND);
	EXPECT_EQ(b.closes, 0);
	bench_pass(&b, 10 * SECOND);
	EXPECT_EQ(b.closes, 1);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_lose(&b, WEFT_OK);
	expect_done(&r, WEFT_R_ISCSI_TIMEOUT);
	EXPECT(bench_event(&b, ISCSI_EVENT_LOST));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_TASK_SILENT);
	bench_close(&b);
}

TEST(test_reset_follows_an_abort_that_the_target_refuses)
{
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x2a);
	r.timeout_ns = SECOND;
	bench_submit(&b, &r);
	bench_pass(&b, SECOND);
	bench_task_answer(&b, task_itt(), ISCSI_TASK_UNSUPPORTED);
	EXPECT_EQ(bench_sent(&b, ISCSI_TASK_REQUEST)->pdu.code, ISCSI_LU_RESET);
	bench_task_answer(&b, task_itt(), ISCSI_TASK_REJECTED);
	EXPECT_EQ(b.closes, 1);
	bench_close(&b);
}

TEST(test_commands_that_wait_have_a_time_limit_too)
{
	struct iscsi_request r;

	bench_init(&b);
	bench_open(&b);
	bench_command(&r, 0x28);
	bench_submit(&b, &r);
	bench_pass(&b, 60 * SECOND);
	expect_done(&r, WEFT_R_ISCSI_TIMEOUT);
	EXPECT_EQ(iscsi_initiator_counts(b.i)->timeouts, 1);
	bench_close(&b);
}

TEST(test_command_that_the_port_did_not_send_is_aborted_when_it_was)
{
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x2a);
	r.timeout_ns = SECOND;
	bench_submit(&b, &r);
	b.is_tagless = true;
	bench_pass(&b, SECOND);
	EXPECT(!bench_sent(&b, ISCSI_TASK_REQUEST));
	b.is_tagless = false;
	iscsi_initiator_ready(b.i, b.now_ns);
	EXPECT(bench_sent(&b, ISCSI_TASK_REQUEST));
	bench_close(&b);
}

/* ---- Task management of the caller ---------------------------------------------------------- */

TEST(test_rfc7143_11_5_caller_aborts_a_task)
{
	struct iscsi_request r[2], task[2];

	bench_init(&b);
	bench_open(&b);
	bench_connect(&b);
	b.max_cmd_sn = 1;
	bench_login(&b);
	for (int k = 0; k < 2; k++) {
		bench_command(&r[k], 0x2a);
		bench_submit(&b, &r[k]);
		task[k] = (struct iscsi_request){ .kind = ISCSI_REQUEST_TASK,
						  .function = ISCSI_ABORT_TASK,
						  .task = &r[k] };
		bench_submit(&b, &task[k]);
	}
	/* The second waits for the window: it is not at the target. */
	expect_done(&r[1], WEFT_R_ISCSI_ABORTED);
	expect_done(&task[1], WEFT_OK);
	EXPECT_EQ(task[1].response, ISCSI_TASK_COMPLETE);
	EXPECT_EQ(bench_count(&b, ISCSI_TASK_REQUEST), 1);
	bench_task_answer(&b, task_itt(), ISCSI_TASK_COMPLETE);
	expect_done(&r[0], WEFT_R_ISCSI_ABORTED);
	expect_done(&task[0], WEFT_OK);
	EXPECT_EQ(b.forgets, 1);
	/* Of one that has ended there is nothing to abort. */
	b.max_cmd_sn = 64;
	b.exp_cmd_sn = 2;
	task[0].task = &r[0];
	bench_submit(&b, &task[0]);
	expect_done(&task[0], WEFT_OK);
	EXPECT_EQ(task[0].response, ISCSI_TASK_NO_TASK);
	bench_close(&b);
}

TEST(test_rfc7143_11_5_caller_resets_a_unit)
{
	struct iscsi_request r[3];
	struct iscsi_request task = { .kind = ISCSI_REQUEST_TASK,
				      .function = ISCSI_LU_RESET,
				      .lun = 4 };

	bench_start(&b);
	for (int k = 0; k < 3; k++) {
		bench_command(&r[k], 0x2a);
		r[k].lun = k == 1 ? 5 : 4;
		if (k < 2)
			bench_submit(&b, &r[k]);
	}
	bench_submit(&b, &task);
	bench_submit(&b, &r[2]);
	bench_task_answer(&b, task_itt(), ISCSI_TASK_COMPLETE);
	expect_done(&r[0], WEFT_R_ISCSI_ABORTED);
	expect_done(&task, WEFT_OK);
	EXPECT(!iscsi_initiator_next_done(b.i));
	/* A warm reset concerns all units; a refused one none. */
	task.function = ISCSI_TARGET_WARM_RESET;
	bench_submit(&b, &task);
	bench_task_answer(&b, task_itt(), ISCSI_TASK_UNAUTHORIZED);
	expect_done(&task, WEFT_OK);
	EXPECT_EQ(task.response, ISCSI_TASK_UNAUTHORIZED);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_submit(&b, &task);
	bench_task_answer(&b, task_itt(), ISCSI_TASK_COMPLETE);
	expect_done(&r[2], WEFT_R_ISCSI_ABORTED);
	expect_done(&r[1], WEFT_R_ISCSI_ABORTED);
	expect_done(&task, WEFT_OK);
	bench_close(&b);
}

TEST(test_port_that_cannot_forget_is_closed)
{
	struct iscsi_request r;
	struct iscsi_request task = { .kind = ISCSI_REQUEST_TASK,
				      .function = ISCSI_ABORT_TASK,
				      .task = &r };

	bench_start(&b);
	bench_command(&r, 0x28);
	bench_submit(&b, &r);
	bench_submit(&b, &task);
	b.cannot_forget = true;
	bench_task_answer(&b, task_itt(), ISCSI_TASK_COMPLETE);
	EXPECT_EQ(b.closes, 1);
	expect_done(&task, WEFT_OK);
	EXPECT(!iscsi_initiator_next_done(b.i));
	bench_close(&b);
}

/* ---- Lost connections ----------------------------------------------------------------------- */

TEST(test_rfc7143_6_3_5_session_is_reinstated_and_commands_go_again)
{
	const struct bench_pdu *login;
	struct iscsi_request r[4];

	bench_start(&b);
	for (int k = 0; k < 4; k++) {
		bench_command(&r[k], k == 2 ? 0x89 : 0x2a);
		r[k].cdb[15] = (uint8_t)k;
		bench_submit(&b, &r[k]);
	}
	bench_lose(&b, WEFT_R_STREAM_LOST);
	EXPECT(bench_event(&b, ISCSI_EVENT_LOST));
	EXPECT_EQ(b.event.reason, WEFT_R_STREAM_LOST);
	/* COMPARE AND WRITE may have been carried out. */
	expect_done(&r[2], WEFT_R_ISCSI_NOT_AGAIN);
	EXPECT(!iscsi_initiator_next_done(b.i));
	/* DefaultTime2Wait is 2 seconds. */
	bench_pass(&b, 2 * SECOND - 1);
	EXPECT(!bench_event(&b, ISCSI_EVENT_CONNECT));
	bench_pass(&b, 1);
	bench_connect(&b);
	login = bench_sent(&b, ISCSI_LOGIN_REQUEST);
	EXPECT_EQ(login->pdu.tsih, 0);
	EXPECT_EQ(login->pdu.isid, 0x800102030405);
	bench_login(&b);
	EXPECT_EQ(b.count, 3);
	for (uint32_t k = 0; k < 3; k++) {
		EXPECT_EQ(b.log[k].pdu.cdb[15], k == 2 ? 3 : k);
		EXPECT_EQ(b.log[k].pdu.cmd_sn, 1 + k);
	}
	EXPECT_EQ(iscsi_initiator_counts(b.i)->retries, 3);
	bench_close(&b);
}

TEST(test_retries_of_a_command_are_bounded)
{
	struct iscsi_request r;

	bench_start(&b);
	bench_command(&r, 0x28);
	bench_submit(&b, &r);
	for (int k = 0; k < 3; k++) {
		struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN,
					 .is_final = true,
					 .ttt = ISCSI_TAG_NONE };
		struct iscsi_request ping = { .kind = ISCSI_REQUEST_PING };

		bench_again(&b);
		EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 1);
		/* The target is there: these failures are not failures in a row. */
		bench_submit(&b, &ping);
		nop.itt = bench_sent(&b, ISCSI_NOP_OUT)->pdu.itt;
		bench_give(&b, &nop, -1, NULL, 0);
		EXPECT(iscsi_initiator_next_done(b.i) == &ping);
	}
	bench_lose(&b, WEFT_R_CONNECT_CLOSED);
	expect_done(&r, WEFT_R_ISCSI_RETRIES);
	bench_close(&b);
}

TEST(test_without_retries_commands_fail_and_the_session_goes_on)
{
	struct iscsi_request r[2];

	bench_init(&b);
	b.config.recovery.retries_max = 0;
	bench_open(&b);
	bench_connect(&b);
	bench_login(&b);
	bench_command(&r[0], 0x28);
	bench_submit(&b, &r[0]);
	bench_lose(&b, WEFT_R_STREAM_LOST);
	expect_done(&r[0], WEFT_R_STREAM_LOST);
	bench_command(&r[1], 0x28);
	bench_submit(&b, &r[1]);
	bench_pass(&b, 2 * SECOND);
	bench_connect(&b);
	bench_login(&b);
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 1);
	bench_close(&b);
}

TEST(test_attempts_to_connect_are_bounded)
{
	struct iscsi_request r;
	uint64_t begin_ns;

	bench_start(&b);
	bench_command(&r, 0x28);
	r.timeout_ns = UINT64_MAX;
	bench_submit(&b, &r);
	bench_lose(&b, WEFT_R_STREAM_LOST);
	begin_ns = b.now_ns;
	for (int k = 0; k < 3; k++) {
		bench_pass(&b, 10 * SECOND);
		EXPECT(bench_event(&b, ISCSI_EVENT_CONNECT));
		iscsi_initiator_lost(b.i, WEFT_R_CONNECT_REFUSED, b.now_ns);
	}
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_GONE);
	expect_done(&r, WEFT_R_ISCSI_GONE);
	EXPECT(b.now_ns > begin_ns);
	EXPECT_EQ(iscsi_initiator_submit(b.i, &r, b.now_ns), WEFT_R_ISCSI_ENDED);
	EXPECT(!bench_event(&b, ISCSI_EVENT_CONNECT));
	iscsi_initiator_destroy(b.i);
}

/* A target that logs in and drops, again and again, does nothing: attempts in a row. */
TEST(test_logins_alone_are_no_progress)
{
	bench_start(&b);
	for (int k = 0; k < 3; k++)
		bench_again(&b);
	bench_lose(&b, WEFT_R_CONNECT_CLOSED);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_GONE);
	iscsi_initiator_destroy(b.i);
}

TEST(test_first_connection_is_tried_once)
{
	struct iscsi_request r;

	bench_init(&b);
	bench_open(&b);
	bench_command(&r, 0x28);
	bench_submit(&b, &r);
	EXPECT(bench_event(&b, ISCSI_EVENT_CONNECT));
	iscsi_initiator_lost(b.i, WEFT_R_CONNECT_REFUSED, b.now_ns);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_CONNECT_REFUSED);
	expect_done(&r, WEFT_R_CONNECT_REFUSED);
	iscsi_initiator_destroy(b.i);
}

TEST(test_without_reconnects_a_loss_is_the_end)
{
	bench_init(&b);
	b.config.recovery.reconnects_max = 0;
	bench_open(&b);
	bench_connect(&b);
	bench_login(&b);
	bench_lose(&b, WEFT_R_STREAM_LOST);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_STREAM_LOST);
	iscsi_initiator_destroy(b.i);
}

/* SPC-4: the unit attention of a new nexus is not the caller's concern. */
TEST(test_unit_attention_of_a_new_session_is_repeated)
{
	static const uint8_t data[2 + 18] = { 0, 18, 0x70, 0, 6, [2 + 12] = 0x29 };
	struct iscsi_pdu p = { .opcode = ISCSI_SCSI_RESPONSE, .is_final = true, .status = 2 };
	struct iscsi_request r;
	uint8_t other[sizeof(data)];

	bench_start(&b);
	bench_command(&r, 0x2a);
	bench_submit(&b, &r);
	bench_give(&b, &p, 0, data, sizeof(data));
	EXPECT(!iscsi_initiator_next_done(b.i));
	EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), 2);
	/* Other attentions are the caller's. */
	memcpy(other, data, sizeof(data));
	other[2 + 12] = 0x2a;
	bench_give(&b, &p, 0, other, sizeof(other));
	expect_done(&r, WEFT_OK);
	EXPECT_EQ(r.status, 2);
	/* And so are those of commands that may not be repeated. */
	bench_command(&r, 0x5f);
	bench_submit(&b, &r);
	bench_give(&b, &p, 0, data, sizeof(data));
	expect_done(&r, WEFT_OK);
	EXPECT_EQ(r.status, 2);
	bench_close(&b);
}

/* The abort was of the first sending, which was answered: the answer to it is of no other. */
TEST(test_rfc7143_11_5_abort_of_a_command_that_is_sent_again)
{
	static const uint8_t data[2 + 18] = { 0, 18, 0x70, 0, 6, [2 + 12] = 0x29 };
	struct iscsi_pdu p = { .opcode = ISCSI_SCSI_RESPONSE, .is_final = true, .status = 2 };
	struct iscsi_request r,
		abort = { .kind = ISCSI_REQUEST_TASK, .function = ISCSI_ABORT_TASK, .task = &r };

	for (int is_waiting = 0; is_waiting < 2; is_waiting++) {
		bench_start(&b);
		bench_command(&r, 0x2a);
		bench_submit(&b, &r);
		bench_submit(&b, &abort);
		b.is_full = is_waiting;
		bench_give(&b, &p, 0, data, sizeof(data));
		EXPECT_EQ(bench_count(&b, ISCSI_SCSI_COMMAND), is_waiting ? 1 : 2);
		bench_task_answer(&b, task_itt(), ISCSI_TASK_NO_TASK);
		EXPECT_EQ(b.forgets, 0);
		if (is_waiting) {
			expect_done(&r, WEFT_R_ISCSI_ABORTED);
			expect_done(&abort, WEFT_OK);
		} else {
			expect_done(&abort, WEFT_OK);
			bench_answer(&b, 0, 0);
			expect_done(&r, WEFT_OK);
		}
		bench_close(&b);
	}
}

/* ---- Redirection ---------------------------------------------------------------------------- */

static void redirect(uint16_t status, const char *address)
{
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_RESPONSE,
			       .status_class = (uint8_t)(status >> 8),
			       .status_detail = (uint8_t)status };
	char text[64] = "TargetAddress=";

	strcat(text, address);
	bench_give(&b, &p, -1, text, (uint32_t)strlen(text) + 1);
	REQUIRE(iscsi_initiator_state(b.i) == ISCSI_SESSION_CLOSING);
	bench_lose(&b, WEFT_OK);
}

TEST(test_rfc7143_11_13_5_redirected_for_once_or_for_good)
{
	bench_init(&b);
	bench_open(&b);
	bench_connect(&b);
	EXPECT_STR(b.address, "");
	redirect(ISCSI_STATUS_MOVED_PERMANENTLY, "10.0.0.2:3260");
	bench_connect(&b);
	EXPECT_STR(b.address, "10.0.0.2:3260");
	redirect(ISCSI_STATUS_MOVED_TEMPORARILY, "10.0.0.3:3260,1");
	bench_connect(&b);
	EXPECT_STR(b.address, "10.0.0.3:3260,1");
	bench_login(&b);
	EXPECT_EQ(iscsi_initiator_counts(b.i)->redirects, 2);
	/* The next login begins where the target is for good. */
	bench_lose(&b, WEFT_R_STREAM_LOST);
	bench_pass(&b, 2 * SECOND);
	bench_connect(&b);
	EXPECT_STR(b.address, "10.0.0.2:3260");
	bench_close(&b);
}

TEST(test_endless_redirections_end)
{
	bench_init(&b);
	bench_open(&b);
	for (int k = 0; k <= ISCSI_REDIRECTS_MAX; k++) {
		bench_connect(&b);
		redirect(ISCSI_STATUS_MOVED_TEMPORARILY, "10.0.0.2");
	}
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_REDIRECTS);
	iscsi_initiator_destroy(b.i);
}

static void refuse(uint16_t status)
{
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_RESPONSE,
			       .status_class = (uint8_t)(status >> 8),
			       .status_detail = (uint8_t)status };

	bench_give(&b, &p, -1, NULL, 0);
	bench_lose(&b, WEFT_OK);
}

/* Section 11.13.5: errors of the initiator are final, those of the target may pass. */
TEST(test_rfc7143_11_13_5_refused_logins)
{
	bench_start(&b);
	bench_lose(&b, WEFT_R_STREAM_LOST);
	bench_pass(&b, 10 * SECOND);
	bench_connect(&b);
	refuse(ISCSI_STATUS_UNAVAILABLE);
	EXPECT(bench_event(&b, ISCSI_EVENT_LOST));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_REFUSED);
	EXPECT_EQ(b.event.login_status, ISCSI_STATUS_UNAVAILABLE);
	bench_pass(&b, 10 * SECOND);
	bench_connect(&b);
	refuse(ISCSI_STATUS_AUTHENTICATION);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_ISCSI_REFUSED);
	EXPECT_EQ(b.event.login_status, ISCSI_STATUS_AUTHENTICATION);
	iscsi_initiator_destroy(b.i);
}

TEST(test_login_without_answer_ends)
{
	bench_init(&b);
	bench_open(&b);
	bench_connect(&b);
	bench_pass(&b, 15 * SECOND);
	EXPECT_EQ(b.closes, 1);
	bench_lose(&b, WEFT_OK);
	EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
	EXPECT_EQ(b.event.reason, WEFT_R_CONNECT_TIMEOUT);
	iscsi_initiator_destroy(b.i);
}

/* ---- The end -------------------------------------------------------------------------------- */

TEST(test_end_and_logout_in_every_state)
{
	for (int state = 0; state < 8; state++)
		for (int is_logout = 0; is_logout < 2; is_logout++) {
			struct iscsi_request r;
			bool is_connecting = state == 1;

			bench_init(&b);
			bench_open(&b);
			bench_command(&r, 0x5f);
			bench_submit(&b, &r);
			if (state == 1)
				EXPECT(bench_event(&b, ISCSI_EVENT_CONNECT));
			if (state >= 2)
				bench_connect(&b);
			if (state >= 3)
				bench_login(&b);
			if (state == 4)
				bench_lose(&b, WEFT_R_STREAM_LOST);
			if (state == 5)
				iscsi_initiator_logout(b.i, b.now_ns);
			if (state == 6)
				iscsi_initiator_end(b.i, WEFT_R_ISCSI_SILENT, b.now_ns);
			if (state == 7) {
				bench_answer(&b, 0, 0);
				iscsi_initiator_logout(b.i, b.now_ns);
			}
			if (is_logout)
				iscsi_initiator_logout(b.i, b.now_ns);
			else
				iscsi_initiator_end(b.i, WEFT_R_ISCSI_SILENT, b.now_ns);
			if (is_connecting)
				iscsi_initiator_lost(b.i, WEFT_R_CONNECT_REFUSED, b.now_ns);
			bench_pass(&b, 100 * SECOND);
			if (iscsi_initiator_state(b.i) != ISCSI_SESSION_ENDED)
				bench_lose(&b, WEFT_OK);
			EXPECT(bench_event(&b, ISCSI_EVENT_ENDED));
			EXPECT_EQ(iscsi_initiator_state(b.i), ISCSI_SESSION_ENDED);
			EXPECT(iscsi_initiator_next_done(b.i) == &r);
			EXPECT(!iscsi_initiator_next_done(b.i));
			iscsi_initiator_destroy(b.i);
		}
}
