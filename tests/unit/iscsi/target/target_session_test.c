/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may log in, what a login does to other sessions, texts, and the order of commands. */
#include <stdio.h>
#include <string.h>

#include "target_fixture.h"

static struct rig r;
static uint8_t data[RIG_DISK_BYTES];

#define NAMES "InitiatorName=" RIG_INITIATOR " TargetName=" RIG_TARGET " "

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

static int status_of(const struct iscsi_pdu *p)
{
	return p->status_class << 8 | p->status_detail;
}

/* ---- Logins --------------------------------------------------------------------------------- */

TEST(test_rfc7143_11_13_5_logins_are_refused_with_their_status)
{
	struct client *k;
	struct iscsi_pdu p;

	rig_init(&r);
	rig_start(&r);
	k = client_connect(&r);
	p = client_login_text(&r, k, "InitiatorName=" RIG_INITIATOR " TargetName=iqn.2020-01.x:y ");
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_NOT_FOUND);
	EXPECT(k->c == NULL);
	EXPECT_EQ(r.last.kind, ISCSI_NOTE_REFUSED);
	EXPECT_EQ(r.last.status, ISCSI_STATUS_NOT_FOUND);
	EXPECT_EQ(r.last.is_discovery, false);
	r.admission.status = ISCSI_STATUS_AUTHORIZATION;
	k = client_connect(&r);
	(void)client_login_text(&r, k, "InitiatorName=" RIG_INITIATOR " SessionType=Discovery ");
	EXPECT_EQ(r.last.is_discovery, true);
	EXPECT_EQ(r.last.target, ISCSI_TARGET_NONE);
	r.admission.status = ISCSI_STATUS_AUTHORIZATION;
	k = client_connect(&r);
	p = client_login_text(&r, k, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_AUTHORIZATION);
	EXPECT_EQ(r.last.reason, WEFT_R_ISCSI_DENIED);
	r.admission.status = ISCSI_STATUS_MOVED_TEMPORARILY;
	r.admission.address = iscsi_word("10.0.0.9:3260");
	k = client_connect(&r);
	p = client_login_text(&r, k, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_MOVED_TEMPORARILY);
	EXPECT_STR((const char *)client_data(), "TargetAddress=10.0.0.9:3260");
	rig_stop(&r);
}

TEST(test_rfc7143_12_1_3_a_target_that_needs_chap_lets_nobody_in_without)
{
	static const struct chap_account accounts[] = { { { "host", 4 },
							  { "secret-of-host-1", 16 } } };
	struct chap_config chap = { .is_target = true, .peers = accounts, .peer_count = 1 };
	struct client *k;
	struct iscsi_pdu p;

	rig_init(&r);
	rig_start(&r);
	r.admission.chap = &chap;
	k = client_connect(&r);
	p = client_login_text(&r, k, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_AUTHENTICATION);
	EXPECT(k->c == NULL);
	EXPECT_EQ(r.last.reason, WEFT_R_ISCSI_AUTH_METHOD);
	rig_stop(&r);
}

TEST(test_rfc7143_6_3_1_sessions_beyond_the_limit_are_refused)
{
	struct client *k;
	struct iscsi_pdu p;

	rig_init(&r);
	r.config.sessions_max = 1;
	rig_start(&r);
	(void)client_login(&r, "");
	k = client_connect(&r);
	p = client_login_text(&r, k, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_OUT_OF_RESOURCES);
	/* A session of the wrong number, and one that is discovered. */
	k = client_connect(&r);
	k->tsih = 4711;
	p = client_login_text(&r, k, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_NO_SESSION);
	rig_stop(&r);
}

TEST(test_rfc7143_6_3_5_a_login_of_the_same_port_ends_the_old_session)
{
	struct client *k = start_slow(1000), *other = client_login(&r, ""), *again;
	struct iscsi_pdu w = client_write(k, 0, 1), p;

	client_ready(&r, other);
	w.data_bytes = 512;
	client_send(&r, k, &w, data);
	again = client_connect(&r);
	again->isid = k->isid;
	p = client_login_text(&r, again, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_SUCCESS);
	EXPECT(p.tsih != k->tsih);
	again->tsih = p.tsih;
	EXPECT(k->c == NULL);
	EXPECT_EQ(r.notes[r.note_count - 2], ISCSI_NOTE_END);
	/* The old write is still at the device: what comes now, waits for it. */
	p = client_read(again, 0, 1);
	client_send(&r, again, &p, NULL);
	EXPECT_EQ(client_has(again), false);
	rig_wait(&r, 999);
	EXPECT_EQ(client_has(again), false);
	rig_wait(&r, 1);
	(void)client_status(again, &p, SCSI_CHECK_CONDITION); /* its nexus was lost */
	EXPECT_EQ(client_sense(), 0x062907);
	EXPECT(other->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_6_3_5_commands_after_a_lost_connection_wait_for_those_before)
{
	struct client *k = start_slow(1000), *again;
	struct iscsi_pdu w = client_write(k, 0, 1), p;

	w.data_bytes = 512;
	client_send(&r, k, &w, data);
	client_close(&r, k);
	again = client_connect(&r);
	again->isid = k->isid;
	p = client_login_text(&r, again, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_SUCCESS);
	again->tsih = p.tsih;
	p = client_read(again, 0, 1);
	client_send(&r, again, &p, NULL);
	EXPECT_EQ(client_has(again), false);
	rig_wait(&r, 1000);
	EXPECT_EQ(r.disk[0][0], 0xa5);
	(void)client_status(again, &p, SCSI_CHECK_CONDITION);
	rig_stop(&r);
}

TEST(test_rfc7143_6_3_4_a_connection_is_reinstated_in_its_session)
{
	struct client *k = start_slow(1000), *again;
	struct iscsi_pdu w = client_write(k, 0, 1), p;

	w.data_bytes = 512;
	client_send(&r, k, &w, data);
	again = client_connect(&r);
	again->isid = k->isid;
	again->tsih = k->tsih;
	again->cmd_sn = k->cmd_sn;
	p = client_login_text(&r, again, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_SUCCESS);
	EXPECT_EQ(p.tsih, k->tsih);
	EXPECT_EQ(p.exp_cmd_sn, k->cmd_sn);
	EXPECT(k->c == NULL);
	again->tsih = p.tsih;
	/* The same nexus: no unit attention. Its command waits for the one that was cut. */
	p = client_read(again, 0, 1);
	client_send(&r, again, &p, NULL);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_has(again), false);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_expect(again, ISCSI_DATA_IN).itt, p.itt);
	EXPECT_EQ(client_data()[0], 0xa5);
	rig_stop(&r);
}

TEST(test_rfc7143_6_3_4_commands_after_a_reinstatement_wait_for_aborted_ones)
{
	struct client *k = start_slow(1000), *again;
	struct iscsi_pdu w = client_write(k, 0, 1), abort = { .opcode = ISCSI_TASK_REQUEST }, p;

	w.data_bytes = 512;
	client_send(&r, k, &w, data);
	abort.is_immediate = abort.is_final = true;
	abort.code = ISCSI_ABORT_TASK;
	abort.itt = ++k->itt;
	abort.ref_itt = w.itt;
	abort.cmd_sn = k->cmd_sn;
	client_send(&r, k, &abort, NULL);
	EXPECT_EQ(client_has(k), false); /* the device has the write */
	again = client_connect(&r);
	again->isid = k->isid;
	again->tsih = k->tsih;
	again->cmd_sn = k->cmd_sn;
	p = client_login_text(&r, again, NAMES);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_SUCCESS);
	again->tsih = p.tsih;
	p = client_read(again, 0, 1);
	client_send(&r, again, &p, NULL);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_has(again), false);
	rig_wait(&r, 1000);
	EXPECT_EQ(client_expect(again, ISCSI_DATA_IN).itt, p.itt);
	rig_stop(&r);
}

/* One request of a login that takes several. */
static struct iscsi_pdu login_step(struct client *k, bool is_last)
{
	static const char names[] = "InitiatorName=" RIG_INITIATOR "\0TargetName=" RIG_TARGET;
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_REQUEST,
			       .is_immediate = true,
			       .is_final = is_last,
			       .csg = ISCSI_STAGE_OPERATIONAL,
			       .nsg = is_last ? ISCSI_STAGE_FULL_FEATURE : 0,
			       .isid = k->isid,
			       .tsih = k->tsih,
			       .itt = 1,
			       .cmd_sn = k->cmd_sn,
			       .exp_stat_sn = k->exp_stat_sn,
			       .data_bytes = is_last ? 0 : sizeof(names) };

	client_send(&r, k, &p, names);
	return client_expect(k, ISCSI_LOGIN_RESPONSE);
}

TEST(test_rfc7143_6_3_4_a_session_that_ends_during_a_login_is_not_found)
{
	struct client *k = start_slow(0), *again = client_connect(&r);
	struct iscsi_pdu p;

	again->isid = k->isid;
	again->tsih = k->tsih;
	p = login_step(again, false);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_SUCCESS);
	client_close(&r, k);
	p = login_step(again, true);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_NO_SESSION);
	EXPECT_EQ(r.last.reason, WEFT_R_ISCSI_SESSION);
	EXPECT(again->c == NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_6_3_1_logins_at_a_time_do_not_pass_the_limit_of_sessions)
{
	struct client *k[2];
	struct iscsi_pdu p;

	rig_init(&r);
	r.config.sessions_max = 1;
	rig_start(&r);
	for (int i = 0; i < 2; i++) {
		k[i] = client_connect(&r);
		k[i]->isid += (uint64_t)i;
		p = login_step(k[i], false);
		EXPECT_EQ(status_of(&p), ISCSI_STATUS_SUCCESS);
	}
	p = login_step(k[0], true);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_SUCCESS);
	p = login_step(k[1], true);
	EXPECT_EQ(status_of(&p), ISCSI_STATUS_OUT_OF_RESOURCES);
	EXPECT_EQ(r.last.reason, WEFT_R_LIMIT);
	EXPECT(k[0]->c != NULL && k[1]->c == NULL);
	rig_stop(&r);
}

TEST(test_a_session_that_dies_leaves_nothing_but_what_devices_have)
{
	struct client *k = start_slow(1000);
	struct iscsi_node_counts counts;
	struct iscsi_pdu a = client_read(k, 0, 8), b = client_write(k, 0, 64),
			 c = client_read(k, 0, 1);

	c.cmd_sn++; /* a gap: it is held */
	client_send(&r, k, &a, NULL);
	client_send(&r, k, &b, NULL);
	client_send(&r, k, &c, NULL);
	client_close(&r, k);
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.sessions, 0);
	EXPECT_EQ(counts.tasks, 1);
	EXPECT_EQ(counts.memory_used, 4096);
	EXPECT_EQ(iscsi_node_is_idle(r.node), false);
	rig_wait(&r, 1000);
	EXPECT_EQ(iscsi_node_is_idle(r.node), true);
	rig_stop(&r);
}

/* ---- Texts ---------------------------------------------------------------------------------- */

static char *text_of_answer(const struct iscsi_pdu *p)
{
	static char text[65536];

	memcpy(text, client_data(), p->data_bytes);
	for (uint32_t i = 0; i < p->data_bytes; i++)
		text[i] = text[i] ? text[i] : ' ';
	text[p->data_bytes] = '\0';
	return text;
}

static struct iscsi_pdu text_request(struct client *k, const char *text, uint32_t length)
{
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .itt = ++k->itt,
			       .ttt = ISCSI_TAG_NONE,
			       .cmd_sn = k->cmd_sn,
			       .data_bytes = length };

	client_send(&r, k, &p, text);
	return p;
}

static struct client *discover(void)
{
	struct client *k = client_connect(&r);
	struct iscsi_pdu p = client_login_text(
		&r, k, "InitiatorName=" RIG_INITIATOR " SessionType=Discovery ");

	REQUIRE(p.status_class == 0 && p.is_final);
	k->tsih = p.tsih;
	return k;
}

TEST(test_rfc7143_c_send_targets_tells_of_those_that_an_initiator_may_know)
{
	struct client *k;
	struct iscsi_pdu p;

	rig_init(&r);
	rig_start(&r);
	k = discover();
	(void)text_request(k, "SendTargets=All", 16);
	p = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_STR(text_of_answer(&p), "TargetName=" RIG_TARGET " TargetAddress=127.0.0.1:3260,1 "
				       "TargetName=" RIG_OTHER " TargetAddress=127.0.0.1:3260,1 ");
	EXPECT_EQ(p.is_final, true);
	EXPECT_EQ(p.ttt, ISCSI_TAG_NONE);
	r.tells[0] = false;
	(void)text_request(k, "SendTargets=All", 16);
	p = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_STR(text_of_answer(&p), "TargetName=" RIG_OTHER " TargetAddress=127.0.0.1:3260,1 ");
	(void)text_request(k, "SendTargets=" RIG_TARGET, sizeof("SendTargets=" RIG_TARGET));
	p = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_EQ(p.data_bytes, 0);
	/* A discovery session has no commands. */
	p = client_read(k, 0, 1);
	client_send(&r, k, &p, NULL);
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	rig_stop(&r);
}

TEST(test_rfc7143_c_send_targets_in_a_normal_session_tells_of_its_target)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu p;

	(void)text_request(k, "SendTargets=", 13);
	p = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_STR(text_of_answer(&p), "TargetName=" RIG_TARGET " TargetAddress=127.0.0.1:3260,1 ");
	(void)text_request(k, "SendTargets=" RIG_OTHER, sizeof("SendTargets=" RIG_OTHER));
	p = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_EQ(p.data_bytes, 0);
	(void)text_request(k, "SendTargets=All", 16);
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	rig_stop(&r);
}

TEST(test_rfc7143_13_12_the_segment_length_may_change_in_the_full_feature_phase)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu p;

	(void)text_request(k, "MaxRecvDataSegmentLength=512", 29);
	p = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_EQ(p.is_final, true);
	p = client_read(k, 0, 2);
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).data_bytes, 512);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).data_bytes, 512);
	/* Others may not. */
	(void)text_request(k, "MaxBurstLength=512", 19);
	p = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_STR(text_of_answer(&p), "MaxBurstLength=Reject ");
	rig_stop(&r);
}

TEST(test_rfc7143_6_4_the_segment_length_changes_when_the_negotiation_ends)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_REQUEST,
			       .is_immediate = true,
			       .itt = 900,
			       .ttt = ISCSI_TAG_NONE,
			       .cmd_sn = k->cmd_sn,
			       .data_bytes = 29 },
			 q;

	client_send(&r, k, &p, "MaxRecvDataSegmentLength=512");
	q = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_EQ(q.is_final, false);
	p.ttt = q.ttt;
	q = client_read(k, 0, 2);
	client_send(&r, k, &q, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).data_bytes, 1024);
	p.is_final = true;
	p.data_bytes = 0;
	p.cmd_sn = k->cmd_sn;
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_TEXT_RESPONSE).is_final, true);
	q = client_read(k, 0, 2);
	client_send(&r, k, &q, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).data_bytes, 512);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).data_bytes, 512);
	rig_stop(&r);
}

TEST(test_rfc7143_c_send_targets_of_a_discovery_session_has_all_or_a_name)
{
	struct client *k;

	rig_init(&r);
	rig_start(&r);
	k = discover();
	(void)text_request(k, "SendTargets=", 13);
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	(void)text_request(k, "SendTargets=disk", 17);
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

/* A session that discovers many targets, iqn.2020-01.org.example:many-NNN. */
static struct client *discover_many(uint32_t count)
{
	char name[] = "iqn.2020-01.org.example:many-000";

	rig_init(&r);
	r.config.targets_max = count + 2;
	rig_start(&r);
	for (uint32_t i = 0; i < count; i++) {
		struct iscsi_target_config c = { .scsi = r.scsi[0], .wish = r.wish };
		uint16_t index;

		(void)snprintf(name + sizeof(name) - 4, 4, "%03u", i % 1000);
		c.name = iscsi_word(name);
		REQUIRE(iscsi_target_add(r.node, &c, &index) == WEFT_OK);
	}
	return discover();
}

TEST(test_an_answer_longer_than_its_memory_is_refused)
{
	struct client *k = discover_many(1000);

	(void)text_request(k, "SendTargets=All", 16);
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

TEST(test_rfc7143_11_10_a_request_with_data_does_not_continue_an_answer)
{
	struct client *k = discover_many(64);
	struct iscsi_pdu q = text_request(k, "SendTargets=All", 16);

	q.ttt = client_expect(k, ISCSI_TEXT_RESPONSE).ttt;
	client_send(&r, k, &q, "SendTargets=All");
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	rig_stop(&r);
}

TEST(test_rfc7143_11_11_a_long_answer_continues)
{
	struct client *k = discover_many(64);
	struct iscsi_pdu p, q;
	size_t all = 0;
	int pdus = 1;

	q = text_request(k, "SendTargets=All", 16);
	for (p = client_expect(k, ISCSI_TEXT_RESPONSE); !p.is_final; pdus++) {
		EXPECT_EQ(p.is_continued, true);
		all += p.data_bytes;
		q.ttt = p.ttt;
		q.data_bytes = 0;
		client_send(&r, k, &q, NULL);
		p = client_expect(k, ISCSI_TEXT_RESPONSE);
	}
	all += p.data_bytes;
	EXPECT_EQ(pdus, 3);
	EXPECT_EQ(all, 64 * (sizeof("TargetName=iqn.2020-01.org.example:many-000") +
			     sizeof("TargetAddress=127.0.0.1:3260,1")) +
			       sizeof("TargetName=" RIG_TARGET) + sizeof("TargetName=" RIG_OTHER) +
			       2 * sizeof("TargetAddress=127.0.0.1:3260,1"));
	rig_stop(&r);
}

TEST(test_rfc7143_11_10_texts_in_pieces_and_endless_ones)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_REQUEST,
			       .is_immediate = true,
			       .is_continued = true,
			       .itt = 900,
			       .ttt = ISCSI_TAG_NONE,
			       .cmd_sn = k->cmd_sn,
			       .data_bytes = 5 },
			 d;

	client_send(&r, k, &p, "SendT");
	d = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_EQ(d.is_final, false);
	EXPECT_EQ(d.data_bytes, 0);
	p.ttt = d.ttt;
	p.is_continued = false;
	p.is_final = true;
	p.data_bytes = 8;
	client_send(&r, k, &p, "argets=");
	d = client_expect(k, ISCSI_TEXT_RESPONSE);
	EXPECT_EQ(d.is_final, true);
	EXPECT(strstr(text_of_answer(&d), RIG_TARGET) != NULL);
	/* It is over: its tag is none any more. */
	client_send(&r, k, &p, "argets=");
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	/* One that never ends. */
	p.ttt = ISCSI_TAG_NONE;
	p.is_continued = true;
	p.is_final = false;
	p.data_bytes = 1;
	for (int i = 0; i < 64; i++) {
		client_send(&r, k, &p, "x");
		d = client_expect(k, ISCSI_TEXT_RESPONSE);
		p.ttt = d.ttt;
	}
	client_send(&r, k, &p, "x");
	client_reject(k, ISCSI_REJECT_PROTOCOL);
	/* One that is too long. */
	p.ttt = ISCSI_TAG_NONE;
	p.data_bytes = ISCSI_TEXT_MIN + 1;
	client_send(&r, k, &p, data);
	client_reject(k, ISCSI_REJECT_LONG);
	EXPECT(k->c != NULL);
	rig_stop(&r);
}

/* ---- Order ---------------------------------------------------------------------------------- */

TEST(test_sam5_8_6_an_ordered_command_waits_for_data_of_those_before_it)
{
	struct client *k = start_slow(0);
	struct iscsi_pdu w = client_write(k, 0, 16), o = client_read(k, 0, 1),
			 s = client_read(k, 1, 1);
	struct iscsi_pdu r2t, d;

	o.attr = ISCSI_ATTR_ORDERED;
	client_send(&r, k, &w, NULL);
	r2t = client_expect(k, ISCSI_R2T);
	client_send(&r, k, &o, NULL);
	client_send(&r, k, &s, NULL);
	EXPECT_EQ(client_has(k), false);
	d = client_data_out(&w, r2t.ttt, 0, 0, 8192);
	client_send(&r, k, &d, data);
	(void)client_status(k, &w, SCSI_GOOD);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, o.itt);
	EXPECT_EQ(client_data()[0], 0xa5);
	EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, s.itt);
	rig_stop(&r);
}

TEST(test_iscsi_a_session_whose_connection_is_lost_ends_for_that_reason)
{
	struct client *k;

	rig_init(&r);
	rig_start(&r);
	k = client_login(&r, "");
	client_close(&r, k);
	EXPECT(r.last.kind == ISCSI_NOTE_END);
	EXPECT_EQ(r.last.reason, WEFT_R_STREAM_LOST);
	/* One that never logged in may have spoken something else. */
	k = client_connect(&r);
	client_close(&r, k);
	EXPECT_EQ(r.last.reason, WEFT_R_CONNECT_CLOSED);
	rig_stop(&r);
}
