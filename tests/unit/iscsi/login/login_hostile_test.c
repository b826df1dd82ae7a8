/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of a login against PDUs made by hand: of other programs, and of peers that lie. */
#include "login_fixture.h"
#include "test.h"

#include <string.h>

static struct login_pair p;

/* The status with which a fresh target refuses a first request. */
static uint16_t refused(struct iscsi_login_pdu request, enum weft_reason reason)
{
	struct iscsi_login_pdu response;

	login_pair_init(&p);
	login_target(&p);
	response = login_ask(&p, request);
	REQUIRE(iscsi_login_event(&p.t.l) == ISCSI_LOGIN_FAILED);
	REQUIRE(iscsi_login_reason(&p.t.l) == reason);
	REQUIRE(response.itt == 77 && response.isid[0] == 0x80 && !response.is_transit);
	return response.status;
}

/* ---- As other initiators ask ---------------------------------------------------------------- */

TEST(test_iscsi_login_as_libiscsi_asks)
{
	struct iscsi_login_pdu r = login_request("InitiatorName=iqn.2007-10.com.github:sahlberg "
						 "TargetName=iqn.2001-04.com.example:disk "
						 "SessionType=Normal AuthMethod=CHAP,None ");

	login_pair_init(&p);
	login_target(&p);
	r.stage = ISCSI_STAGE_SECURITY;
	r.next_stage = ISCSI_STAGE_OPERATIONAL;
	r = login_ask(&p, r);
	EXPECT_STR(login_text(&r), "TargetPortalGroupTag=1 AuthMethod=None ");
	EXPECT(r.is_transit && r.next_stage == ISCSI_STAGE_OPERATIONAL && r.tsih == 0);
	r = login_request("HeaderDigest=None,CRC32C DataDigest=None InitialR2T=No "
			  "ImmediateData=Yes MaxBurstLength=262144 FirstBurstLength=262144 "
			  "MaxRecvDataSegmentLength=262144 DataPDUInOrder=Yes DefaultTime2Wait=2 "
			  "DefaultTime2Retain=0 IFMarker=No OFMarker=No MaxConnections=1 "
			  "MaxOutstandingR2T=1 ErrorRecoveryLevel=0 DataSequenceInOrder=Yes ");
	r = login_ask(&p, r);
	EXPECT_STR(login_text(&r),
		   "HeaderDigest=None DataDigest=None InitialR2T=Yes ImmediateData=Yes "
		   "MaxBurstLength=262144 FirstBurstLength=65536 DataPDUInOrder=Yes "
		   "DefaultTime2Wait=2 DefaultTime2Retain=0 IFMarker=Reject OFMarker=Reject "
		   "MaxConnections=1 MaxOutstandingR2T=1 ErrorRecoveryLevel=0 "
		   "DataSequenceInOrder=Yes ");
	EXPECT(r.is_transit && r.next_stage == ISCSI_STAGE_FULL_FEATURE && r.tsih == 5);
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_ESTABLISHED);
}

/* A target's answers as tgt writes them: keys that it does not know, and none for a declaration. */
TEST(test_iscsi_login_as_tgt_answers)
{
	struct iscsi_login_pdu r, answer;

	login_pair_init(&p);
	p.request.keys.wish.session.needs_r2t = false;
	p.request.keys.wish.session.task_reporting = iscsi_list_of(2, 1);
	p.request.keys.wish.connection.recv_bytes_max = 65536;
	EXPECT_EQ(iscsi_login_init_initiator(&p.i.l, &p.i.limits, &p.request, 0), WEFT_OK);
	EXPECT(iscsi_login_say(&p.i.l, &r));
	EXPECT_STR(login_text(&r), LOGIN_NAMES "SessionType=Normal InitialR2T=No "
					       "MaxRecvDataSegmentLength=65536 "
					       "TaskReporting=ResponseFence,RFC3720 ");
	answer = login_request("TargetPortalGroupTag=1 InitialR2T=Yes TaskReporting=NotUnderstood "
			       "MaxRecvDataSegmentLength=8192 MaxXmitDataSegmentLength=8192 ");
	answer.is_transit = false;
	iscsi_login_take(&p.i.l, &answer);
	EXPECT(iscsi_login_say(&p.i.l, &r));
	EXPECT_STR(login_text(&r), "MaxXmitDataSegmentLength=NotUnderstood ");
	EXPECT(r.is_transit && r.next_stage == ISCSI_STAGE_FULL_FEATURE);
	answer = login_request("");
	answer.tsih = 9;
	iscsi_login_take(&p.i.l, &answer);
	EXPECT_EQ(iscsi_login_event(&p.i.l), ISCSI_LOGIN_ESTABLISHED);
	EXPECT_EQ(iscsi_login_tsih(&p.i.l), 9);
	EXPECT(iscsi_login_params(&p.i.l)->session.needs_r2t);
}

/* ---- Requests that are refused -------------------------------------------------------------- */

TEST(test_rfc7143_11_13_5_status_of_first_requests)
{
	struct iscsi_login_pdu r = login_request(LOGIN_NAMES);

	r.version = 1;
	EXPECT_EQ(refused(r, WEFT_R_ISCSI_LOGIN_VERSION), 0x0205);
	EXPECT_EQ(refused(login_request("TargetName=iqn.2001-04.com.example:disk "),
			  WEFT_R_ISCSI_LOGIN_MISSING),
		  0x0207);
	EXPECT_EQ(refused(login_request("InitiatorName=iqn.2001-04.com.example:host "),
			  WEFT_R_ISCSI_LOGIN_MISSING),
		  0x0207);
	EXPECT_EQ(refused(login_request(LOGIN_NAMES "SessionType=Other "), WEFT_R_ISCSI_VALUE),
		  0x0209);
	EXPECT_EQ(refused(login_request("InitiatorName=host "), WEFT_R_ISCSI_NAME), 0x0200);
	EXPECT_EQ(refused(login_request("InitiatorName=iqn.2001-04.com.example:host "
					"TargetName=disk "),
			  WEFT_R_ISCSI_NAME),
		  0x0200);
	EXPECT_EQ(refused(login_request(LOGIN_NAMES "MaxBurstLength "), WEFT_R_ISCSI_TEXT), 0x0200);
	EXPECT_EQ(refused(login_request(LOGIN_NAMES "AuthMethod=None "), WEFT_R_ISCSI_KEY_STAGE),
		  0x0200);
	EXPECT_EQ(refused(login_request(LOGIN_NAMES LOGIN_NAMES), WEFT_R_ISCSI_KEY_AGAIN), 0x0200);
}

TEST(test_rfc7143_11_12_stages_of_first_requests)
{
	static const struct {
		uint8_t stage, next;
		bool is_good;
	} rows[] = { { 0, 1, true },  { 0, 3, true },  { 1, 3, true },	{ 0, 0, false },
		     { 1, 1, false }, { 1, 0, false }, { 0, 2, false }, { 1, 2, false },
		     { 2, 3, false }, { 3, 3, false } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct iscsi_login_pdu r = login_request(LOGIN_NAMES);

		r.stage = rows[i].stage;
		r.next_stage = rows[i].next;
		if (!rows[i].is_good) {
			EXPECT_EQ(refused(r, WEFT_R_ISCSI_LOGIN_STAGE), 0x0200);
			continue;
		}
		login_pair_init(&p);
		login_target(&p);
		r = login_ask(&p, r);
		EXPECT(r.is_transit && r.next_stage == rows[i].next && r.status == 0);
		EXPECT_EQ(r.tsih, rows[i].next == 3 ? 5 : 0);
	}
}

TEST(test_rfc7143_11_12_1_transit_of_a_text_that_continues)
{
	struct iscsi_login_pdu r = login_request(LOGIN_NAMES);

	r.is_continued = true;
	EXPECT_EQ(refused(r, WEFT_R_ISCSI_LOGIN_FIELD), 0x0200);
}

/* A target that has answered one request without consent to leave the stage. */
static void half_way(void)
{
	struct iscsi_login_pdu r = login_request(LOGIN_NAMES);

	login_pair_init(&p);
	login_target(&p);
	r.is_transit = false;
	r = login_ask(&p, r);
	REQUIRE(r.status == 0 && !r.is_transit);
}

TEST(test_rfc7143_11_12_fields_stay_the_same)
{
	for (int field = 0; field < 6; field++) {
		struct iscsi_login_pdu r = login_request("");

		half_way();
		r.tsih = field == 0;
		r.cid = field == 1 ? 2 : 1;
		r.isid[5] = field == 2 ? 9 : 5;
		r.version = field == 3;
		r.stage = field == 4 ? ISCSI_STAGE_SECURITY : ISCSI_STAGE_OPERATIONAL;
		r = login_ask(&p, r);
		EXPECT_EQ(r.status, field == 5 ? 0 : 0x0200);
		EXPECT_EQ(iscsi_login_reason(&p.t.l), field == 5   ? WEFT_OK
						      : field == 4 ? WEFT_R_ISCSI_LOGIN_STAGE
								   : WEFT_R_ISCSI_LOGIN_FIELD);
	}
}

TEST(test_rfc7143_11_13_5_other_pdu_during_login)
{
	struct iscsi_login_pdu r;

	half_way();
	iscsi_login_take_other(&p.t.l);
	EXPECT(iscsi_login_say(&p.t.l, &r));
	EXPECT_EQ(r.status, 0x020b);
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_FAILED);
	/* After the end nothing has an effect. */
	iscsi_login_take_other(&p.t.l);
	r = login_request("");
	iscsi_login_take(&p.t.l, &r);
	EXPECT(!iscsi_login_say(&p.t.l, &r));
}

TEST(test_rfc7143_6_3_second_request_before_the_answer)
{
	struct iscsi_login_pdu r = login_request(LOGIN_NAMES);

	login_pair_init(&p);
	login_target(&p);
	iscsi_login_take(&p.t.l, &r);
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_DECIDE);
	iscsi_login_take(&p.t.l, &r);
	iscsi_login_decide(&p.t.l, &p.decision);
	EXPECT(iscsi_login_say(&p.t.l, &r));
	EXPECT_EQ(r.status, 0x0200);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_ISCSI_LOGIN_FIELD);
}

TEST(test_rfc7143_6_2_offer_without_an_answer)
{
	struct iscsi_login_pdu r;

	login_pair_init(&p);
	p.decision.keys.wish.session.time2retain_s = 0;
	login_target(&p);
	r = login_ask(&p, login_request(LOGIN_NAMES));
	EXPECT_STR(login_text(&r), "TargetPortalGroupTag=1 DefaultTime2Retain=0 ");
	EXPECT(!r.is_transit);
	r = login_ask(&p, login_request(""));
	EXPECT_EQ(r.status, 0x0200);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_ISCSI_NO_ANSWER);
}

TEST(test_rfc7143_6_2_negotiation_without_end)
{
	struct iscsi_login_pdu r = login_request("");
	int exchanges = 1;

	half_way();
	r.is_transit = false;
	while (iscsi_login_reason(&p.t.l) == WEFT_OK && exchanges < 1000) {
		(void)login_ask(&p, r);
		exchanges++;
	}
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_ISCSI_ENDLESS);
	EXPECT_EQ(exchanges, ISCSI_EXCHANGES_MAX + 1);
}

TEST(test_rfc7143_6_3_security_stage_cannot_be_passed_over)
{
	struct iscsi_login_pdu r = login_request(LOGIN_NAMES);

	login_pair_init(&p);
	login_pair_use_chap(&p, false);
	login_target(&p);
	r.stage = ISCSI_STAGE_SECURITY;
	r = login_ask(&p, r);
	EXPECT_EQ(r.status, 0x0201);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_ISCSI_AUTH_METHOD);
	/* Nor in the middle of CHAP. */
	login_target(&p);
	r = login_request(LOGIN_NAMES "AuthMethod=CHAP ");
	r.stage = ISCSI_STAGE_SECURITY;
	r = login_ask(&p, r);
	EXPECT(r.status == 0 && !r.is_transit);
	r = login_request("");
	r.stage = ISCSI_STAGE_SECURITY;
	r = login_ask(&p, r);
	EXPECT_EQ(r.status, 0x0201);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_ISCSI_CHAP_ORDER);
}

TEST(test_rfc7143_6_2_peer_talks_while_a_text_continues)
{
	struct iscsi_login_pdu r;

	login_pair_init(&p);
	p.t.limits.piece_bytes_max = 7;
	login_target(&p);
	r = login_ask(&p, login_request(LOGIN_NAMES));
	EXPECT(r.is_continued && !r.is_transit && r.length == 7);
	r = login_ask(&p, login_request("MaxBurstLength=512 "));
	EXPECT_EQ(r.status, 0x0200);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_ISCSI_LOGIN_FIELD);
}

/* ---- Responses that an initiator refuses ---------------------------------------------------- */

/* An initiator that has sent its first request. */
static void asked(bool has_chap)
{
	struct iscsi_login_pdu r;

	login_pair_init(&p);
	if (has_chap)
		login_pair_use_chap(&p, true);
	p.request.keys.wish.session.r2t_max = 4;
	REQUIRE(iscsi_login_init_initiator(&p.i.l, &p.i.limits, &p.request, 0) == WEFT_OK);
	REQUIRE(iscsi_login_say(&p.i.l, &r));
}

static enum weft_reason initiator_judges(struct iscsi_login_pdu response)
{
	iscsi_login_take(&p.i.l, &response);
	return iscsi_login_reason(&p.i.l);
}

TEST(test_rfc7143_11_13_responses_that_do_not_fit)
{
	for (int field = 0; field < 8; field++) {
		static const enum weft_reason reasons[] = {
			WEFT_R_ISCSI_LOGIN_VERSION, WEFT_R_ISCSI_LOGIN_FIELD,
			WEFT_R_ISCSI_LOGIN_FIELD,   WEFT_R_ISCSI_LOGIN_STAGE,
			WEFT_R_ISCSI_LOGIN_STAGE,   WEFT_R_ISCSI_SESSION,
			WEFT_R_ISCSI_LOGIN_FIELD,   WEFT_OK,
		};
		struct iscsi_login_pdu r = login_request("MaxOutstandingR2T=2 ");

		asked(false);
		r.tsih = field == 5 ? 0 : 5;
		r.version = field == 0;
		r.itt = field == 1 ? 78 : 77;
		r.isid[0] = field == 2 ? 0 : 0x80;
		r.stage = field == 3 ? ISCSI_STAGE_SECURITY : ISCSI_STAGE_OPERATIONAL;
		r.next_stage = field == 4 ? ISCSI_STAGE_OPERATIONAL : ISCSI_STAGE_FULL_FEATURE;
		r.is_continued = field == 6;
		EXPECT_EQ(initiator_judges(r), reasons[field]);
	}
}

TEST(test_rfc7143_6_3_target_leaves_offers_without_an_answer)
{
	struct iscsi_login_pdu r = login_request("");

	asked(false);
	r.tsih = 5;
	EXPECT_EQ(initiator_judges(r), WEFT_R_ISCSI_NO_ANSWER);
	asked(false);
	EXPECT_EQ(initiator_judges(login_request("MaxOutstandingR2T=5 ")), WEFT_R_ISCSI_SESSION);
	r = login_request("MaxOutstandingR2T=5 ");
	r.tsih = 5;
	asked(false);
	EXPECT_EQ(initiator_judges(r), WEFT_R_ISCSI_ANSWER);
}

TEST(test_rfc7143_11_13_5_redirect_without_an_address)
{
	struct iscsi_login_pdu r = login_request("");

	asked(false);
	r.status = ISCSI_STATUS_MOVED_PERMANENTLY;
	EXPECT_EQ(initiator_judges(r), WEFT_R_ISCSI_REFUSED);
	EXPECT_EQ(iscsi_login_status(&p.i.l), 0x0102);
}

TEST(test_rfc7143_6_3_target_passes_over_authentication)
{
	struct iscsi_login_pdu r = login_request("AuthMethod=None ");

	asked(true);
	r.stage = ISCSI_STAGE_SECURITY;
	r.is_transit = false;
	EXPECT_EQ(initiator_judges(r), WEFT_R_ISCSI_AUTH_METHOD);
	asked(true);
	r = login_request("");
	r.stage = ISCSI_STAGE_SECURITY;
	r.is_transit = false;
	EXPECT_EQ(initiator_judges(r), WEFT_R_ISCSI_AUTH_METHOD);
	/* It consents to leave a stage that this end did not ask to leave. */
	asked(true);
	r = login_request("AuthMethod=CHAP ");
	r.stage = ISCSI_STAGE_SECURITY;
	r.next_stage = ISCSI_STAGE_OPERATIONAL;
	EXPECT_EQ(initiator_judges(r), WEFT_R_ISCSI_LOGIN_STAGE);
}

TEST(test_rfc7143_6_3_target_consents_without_its_proof)
{
	struct iscsi_login_pdu r = login_request("AuthMethod=CHAP "), out;

	asked(true);
	r.stage = ISCSI_STAGE_SECURITY;
	r.is_transit = false;
	EXPECT_EQ(initiator_judges(r), WEFT_OK);
	EXPECT(iscsi_login_say(&p.i.l, &out));
	EXPECT_STR(login_text(&out), "CHAP_A=8,7,6,5 ");
	r = login_request("CHAP_A=5 CHAP_I=1 CHAP_C=0x0102030405060708090a ");
	r.stage = ISCSI_STAGE_SECURITY;
	r.is_transit = false;
	EXPECT_EQ(initiator_judges(r), WEFT_OK);
	EXPECT(iscsi_login_say(&p.i.l, &out));
	EXPECT(out.is_transit && out.next_stage == ISCSI_STAGE_OPERATIONAL);
	r = login_request("");
	r.stage = ISCSI_STAGE_SECURITY;
	r.next_stage = ISCSI_STAGE_OPERATIONAL;
	EXPECT_EQ(initiator_judges(r), WEFT_R_ISCSI_CHAP_ORDER);
}
