/* SPDX-License-Identifier: BSD-2-Clause */
/* The login of two ends with each other: RFC 7143 sections 6.3, 7 and 12. */
#include "login_fixture.h"
#include "test.h"

#include <string.h>

#include "base/draw.h"

static struct login_pair p;

static bool is_established(void)
{
	return iscsi_login_event(&p.i.l) == ISCSI_LOGIN_ESTABLISHED &&
	       iscsi_login_event(&p.t.l) == ISCSI_LOGIN_ESTABLISHED;
}

/* Both ends failed: the target for this reason, the initiator as it was told. */
static void expect_refusal(enum weft_reason reason, uint16_t status)
{
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_FAILED);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), reason);
	EXPECT_EQ(iscsi_login_status(&p.t.l), status);
	EXPECT_EQ(iscsi_login_event(&p.i.l), ISCSI_LOGIN_FAILED);
	EXPECT_EQ(iscsi_login_reason(&p.i.l), WEFT_R_ISCSI_REFUSED);
	EXPECT_EQ(iscsi_login_status(&p.i.l), status);
}

TEST(test_rfc7143_6_3_login_in_one_exchange)
{
	login_pair_init(&p);
	login_run(&p);
	EXPECT(is_established());
	EXPECT_EQ(p.pdus, 2);
	EXPECT_EQ(iscsi_login_tsih(&p.i.l), 5);
	EXPECT_EQ(iscsi_login_reason(&p.i.l), WEFT_OK);
	EXPECT_EQ(iscsi_login_due(&p.i.l), UINT64_MAX);
	EXPECT_STR(iscsi_login_query(&p.t.l)->initiator_name.text, "iqn.2001-04.com.example:host");
	EXPECT_STR(iscsi_login_query(&p.t.l)->target_name.text, "iqn.2001-04.com.example:disk");
	EXPECT_EQ(p.i.l.stat_sn, p.t.l.stat_sn);
	EXPECT_EQ(p.i.l.exp_cmd_sn, 10);
}

TEST(test_rfc7143_6_3_discovery_session_has_no_target_name)
{
	login_pair_init(&p);
	p.request.keys.is_discovery = true;
	p.request.target_name.length = 0;
	login_run(&p);
	EXPECT(is_established());
	EXPECT(iscsi_login_query(&p.t.l)->is_discovery);
	EXPECT_EQ(iscsi_login_query(&p.t.l)->target_name.length, 0);
}

TEST(test_rfc7143_12_1_3_login_with_chap_both_ways)
{
	for (int is_mutual = 0; is_mutual < 2; is_mutual++) {
		login_pair_init(&p);
		login_pair_use_chap(&p, is_mutual);
		p.request.keys.wish.session.burst_bytes_max = 1 << 20;
		p.decision.keys.wish.session.burst_bytes_max = 1 << 19;
		login_run(&p);
		EXPECT(is_established());
		EXPECT_EQ(p.pdus, 8);
		EXPECT(word_is(chap_peer_name(&p.t.l.chap), "alice"));
		EXPECT_EQ(iscsi_login_params(&p.i.l)->session.burst_bytes_max, 1 << 19);
		EXPECT_EQ(iscsi_login_params(&p.t.l)->session.burst_bytes_max, 1 << 19);
		iscsi_login_fini(&p.i.l);
		iscsi_login_fini(&p.t.l);
	}
}

TEST(test_rfc7143_12_1_3_login_with_a_wrong_secret)
{
	login_pair_init(&p);
	login_pair_use_chap(&p, false);
	p.i_chap.self.secret = iscsi_word("another secret!!");
	login_run(&p);
	expect_refusal(WEFT_R_ISCSI_CHAP_FAILED, ISCSI_STATUS_AUTHENTICATION);
}

TEST(test_rfc7143_12_1_3_initiator_leaves_a_target_that_does_not_prove_itself)
{
	login_pair_init(&p);
	login_pair_use_chap(&p, true);
	p.t_chap.self.secret = iscsi_word("another secret!!");
	login_run(&p);
	EXPECT_EQ(iscsi_login_event(&p.i.l), ISCSI_LOGIN_FAILED);
	EXPECT_EQ(iscsi_login_reason(&p.i.l), WEFT_R_ISCSI_CHAP_FAILED);
}

TEST(test_rfc7143_6_3_authentication_that_one_end_lacks)
{
	/* The target asks for it and the initiator has none. */
	login_pair_init(&p);
	login_pair_use_chap(&p, false);
	p.request.chap = NULL;
	login_run(&p);
	expect_refusal(WEFT_R_ISCSI_AUTH_METHOD, ISCSI_STATUS_AUTHENTICATION);
	p.decision.allows_none = true;
	login_run(&p);
	EXPECT(is_established());
	/* The initiator asks for it and the target has none. */
	login_pair_use_chap(&p, false);
	p.decision.chap = NULL;
	login_run(&p);
	expect_refusal(WEFT_R_ISCSI_AUTH_METHOD, ISCSI_STATUS_AUTHENTICATION);
	p.request.allows_none = true;
	login_run(&p);
	EXPECT(is_established());
}

TEST(test_rfc7143_9_2_1_target_with_one_secret_for_both_directions)
{
	login_pair_init(&p);
	login_pair_use_chap(&p, false);
	p.t_chap.self.secret = p.accounts[0].secret;
	login_run(&p);
	expect_refusal(WEFT_R_ISCSI_CHAP_SAME_SECRET, ISCSI_STATUS_TARGET_ERROR);
}

TEST(test_rfc7143_6_3_initiator_refuses_bad_arguments)
{
	login_pair_init(&p);
	p.request.initiator_name = iscsi_word("host");
	EXPECT_EQ(iscsi_login_init_initiator(&p.i.l, &p.i.limits, &p.request, 0),
		  WEFT_R_ISCSI_NAME);
	login_pair_init(&p);
	p.request.target_name = iscsi_word("disk");
	EXPECT_EQ(iscsi_login_init_initiator(&p.i.l, &p.i.limits, &p.request, 0),
		  WEFT_R_ISCSI_NAME);
	login_pair_init(&p);
	login_pair_use_chap(&p, true);
	p.i_chap.self.secret = iscsi_word("short");
	EXPECT_EQ(iscsi_login_init_initiator(&p.i.l, &p.i.limits, &p.request, 0),
		  WEFT_R_ISCSI_CHAP_SECRET);
	login_pair_init(&p);
	p.i.limits.out.length = 20;
	EXPECT_EQ(iscsi_login_init_initiator(&p.i.l, &p.i.limits, &p.request, 0),
		  WEFT_R_ISCSI_TEXT_LONG);
}

/* The C bit: PDUs of 7 bytes of text, one way and the other. */
TEST(test_rfc7143_6_2_texts_continue_over_many_pdus)
{
	for (int way = 1; way < 4; way++) {
		login_pair_init(&p);
		login_pair_use_chap(&p, true);
		p.i.limits.exchanges_max = p.t.limits.exchanges_max = 200;
		p.i.limits.piece_bytes_max = way & 1 ? 7 : LOGIN_ROOM;
		p.t.limits.piece_bytes_max = way & 2 ? 7 : LOGIN_ROOM;
		login_run(&p);
		EXPECT(is_established());
		EXPECT(p.pdus > 40);
	}
}

TEST(test_rfc7143_6_2_text_without_end)
{
	login_pair_init(&p);
	p.i.limits.piece_bytes_max = 1;
	p.i.limits.exchanges_max = 200;
	login_run(&p);
	expect_refusal(WEFT_R_ISCSI_ENDLESS, ISCSI_STATUS_INITIATOR_ERROR);
	login_pair_init(&p);
	p.t.limits.in.length = 64;
	login_run(&p);
	expect_refusal(WEFT_R_ISCSI_TEXT_LONG, ISCSI_STATUS_OUT_OF_RESOURCES);
}

TEST(test_rfc7143_11_13_5_target_decides_to_refuse)
{
	static const uint16_t statuses[] = { ISCSI_STATUS_AUTHORIZATION, ISCSI_STATUS_NOT_FOUND,
					     ISCSI_STATUS_REMOVED, ISCSI_STATUS_UNAVAILABLE,
					     ISCSI_STATUS_NO_SESSION };

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		login_pair_init(&p);
		p.decision.status = statuses[i];
		login_run(&p);
		expect_refusal(WEFT_R_ISCSI_DENIED, statuses[i]);
	}
}

TEST(test_rfc7143_11_13_5_target_redirects)
{
	login_pair_init(&p);
	p.decision.status = ISCSI_STATUS_MOVED_TEMPORARILY;
	p.decision.address = iscsi_word("[fe80::1]:3260");
	login_run(&p);
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_MOVED);
	EXPECT_EQ(iscsi_login_event(&p.i.l), ISCSI_LOGIN_MOVED);
	EXPECT_EQ(iscsi_login_reason(&p.i.l), WEFT_R_ISCSI_MOVED);
	EXPECT(word_is(iscsi_login_address(&p.i.l), "[fe80::1]:3260"));
}

TEST(test_rfc7143_13_9_portal_group_tag)
{
	login_pair_init(&p);
	p.request.portal_group_tag = 1;
	login_run(&p);
	EXPECT(is_established());
	p.request.portal_group_tag = 2;
	login_run(&p);
	EXPECT_EQ(iscsi_login_event(&p.i.l), ISCSI_LOGIN_FAILED);
	EXPECT_EQ(iscsi_login_reason(&p.i.l), WEFT_R_ISCSI_PORTAL_GROUP);
}

TEST(test_rfc7143_6_3_later_connection_keeps_the_session)
{
	login_pair_init(&p);
	p.request.tsih = 5;
	p.request.keys.session = p.decision.keys.session = p.request.keys.wish.session;
	p.request.keys.session.r2t_max = p.decision.keys.session.r2t_max = 4;
	p.request.keys.wish.session.r2t_max = 9;
	p.decision.exp_cmd_sn = 100;
	p.decision.max_cmd_sn = 131;
	login_run(&p);
	EXPECT(is_established());
	EXPECT_EQ(iscsi_login_params(&p.i.l)->session.r2t_max, 4);
	EXPECT_EQ(iscsi_login_params(&p.t.l)->session.r2t_max, 4);
	EXPECT(p.i.l.exp_cmd_sn == 100 && p.i.l.max_cmd_sn == 131);
	/* A target that puts it into another session. */
	p.decision.tsih = 6;
	login_run(&p);
	EXPECT_EQ(iscsi_login_event(&p.i.l), ISCSI_LOGIN_FAILED);
	EXPECT_EQ(iscsi_login_reason(&p.i.l), WEFT_R_ISCSI_SESSION);
}

TEST(test_rfc7143_6_3_1_what_a_login_means_for_sessions)
{
	static const struct {
		uint16_t tsih;
		struct iscsi_login_known known;
		bool is_discovery;
		enum iscsi_login_join join;
		uint16_t status;
	} rows[] = {
		{ 0, { false, 0, false, 0, 0 }, false, ISCSI_JOIN_NEW_SESSION, 0 },
		{ 0, { true, 5, true, 1, 4 }, false, ISCSI_JOIN_REINSTATED_SESSION, 0 },
		{ 5, { true, 5, false, 1, 4 }, false, ISCSI_JOIN_NEW_CONNECTION, 0 },
		{ 5, { true, 5, true, 4, 4 }, false, ISCSI_JOIN_REINSTATED_CONNECTION, 0 },
		{ 5, { true, 5, false, 4, 4 }, false, ISCSI_JOIN_REFUSED, 0x0206 },
		{ 5, { true, 6, false, 1, 4 }, false, ISCSI_JOIN_REFUSED, 0x020a },
		{ 5, { false, 0, false, 0, 0 }, false, ISCSI_JOIN_REFUSED, 0x020a },
		{ 5, { true, 5, false, 1, 4 }, true, ISCSI_JOIN_REFUSED, 0x0208 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct iscsi_login_query q = { .tsih = rows[i].tsih,
					       .is_discovery = rows[i].is_discovery };
		uint16_t status = 0;

		EXPECT_EQ(iscsi_login_join(&q, &rows[i].known, &status), rows[i].join);
		EXPECT(rows[i].join != ISCSI_JOIN_REFUSED || status == rows[i].status);
	}
}

TEST(test_rfc7145_6_login_over_rdma)
{
	login_pair_init(&p);
	p.request.keys.wish.session.has_rdma = p.decision.keys.wish.session.has_rdma = true;
	p.request.keys.needs_rdma = p.decision.keys.needs_rdma = true;
	p.request.keys.wish.connection.initiator_recv_bytes_max = 4096;
	login_run(&p);
	EXPECT(is_established());
	EXPECT(iscsi_login_params(&p.t.l)->session.has_rdma);
	EXPECT_EQ(iscsi_login_params(&p.t.l)->connection.send_bytes_max, 4096);
	/* A target that needs it and gets none. */
	p.request.keys.wish.session.has_rdma = p.request.keys.needs_rdma = false;
	login_run(&p);
	expect_refusal(WEFT_R_ISCSI_UNACCEPTABLE, ISCSI_STATUS_INITIATOR_ERROR);
}

TEST(test_rfc7143_6_3_time_runs_out)
{
	login_pair_init(&p);
	login_target(&p);
	EXPECT_EQ(iscsi_login_due(&p.t.l), LOGIN_TIMEOUT_NS);
	iscsi_login_expire(&p.t.l, LOGIN_TIMEOUT_NS - 1);
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_NONE);
	iscsi_login_expire(&p.t.l, LOGIN_TIMEOUT_NS);
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_FAILED);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_CONNECT_TIMEOUT);
	EXPECT_EQ(iscsi_login_due(&p.t.l), UINT64_MAX);
	iscsi_login_eof(&p.t.l);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_CONNECT_TIMEOUT);
}

TEST(test_rfc7143_6_3_peer_goes_away)
{
	login_pair_init(&p);
	login_target(&p);
	iscsi_login_eof(&p.t.l);
	EXPECT_EQ(iscsi_login_event(&p.t.l), ISCSI_LOGIN_FAILED);
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_CONNECT_CLOSED);
	/* While the owner decides: then the decision comes too late. */
	login_target(&p);
	iscsi_login_take(&p.t.l, &(struct iscsi_login_pdu){ 0 });
	EXPECT_EQ(iscsi_login_reason(&p.t.l), WEFT_R_ISCSI_LOGIN_MISSING);
}

/* Whatever both ends want, and in whatever pieces: both have the same, or both know that not. */
TEST(test_rfc7143_6_3_random_logins_agree)
{
	struct prng prng = { 5 };
	int agreed = 0;

	for (int round = 0; round < HISTORIES(1000); round++) {
		struct iscsi_session_params *si, *st;

		login_pair_init(&p);
		si = &p.request.keys.wish.session;
		st = &p.decision.keys.wish.session;
		if (prng_below(&prng, 2))
			login_pair_use_chap(&p, prng_below(&prng, 2));
		p.request.allows_none = prng_below(&prng, 2);
		p.decision.allows_none = prng_below(&prng, 2);
		p.i.limits.piece_bytes_max = 20 + prng_below(&prng, 200);
		p.t.limits.piece_bytes_max = 20 + prng_below(&prng, 200);
		si->burst_bytes_max = 512 + prng_below(&prng, 1 << 20);
		st->burst_bytes_max = 512 + prng_below(&prng, 1 << 20);
		si->needs_r2t = prng_below(&prng, 2);
		st->needs_r2t = prng_below(&prng, 2);
		st->time2retain_s = prng_below(&prng, 100);
		p.request.keys.wish.connection.header_digest = (uint32_t)ANY_OF(&prng, 1, 2, 0x12,
										0x21);
		p.decision.keys.wish.connection.header_digest = (uint32_t)ANY_OF(&prng, 1, 2, 0x12,
										 0x21);
		login_run(&p);
		if (p.i.l.state == ISCSI_LOGIN_STATE_ESTABLISHED) {
			const struct iscsi_params *a = iscsi_login_params(&p.i.l);
			const struct iscsi_params *b = iscsi_login_params(&p.t.l);

			EXPECT_EQ(p.t.l.state, ISCSI_LOGIN_STATE_ESTABLISHED);
			EXPECT_MEM(&a->session, &b->session, sizeof(a->session));
			EXPECT_EQ(a->connection.header_digest, b->connection.header_digest);
			EXPECT_EQ(a->connection.recv_bytes_max, b->connection.send_bytes_max);
			agreed++;
		}
		EXPECT(p.i.l.state == ISCSI_LOGIN_STATE_ESTABLISHED ||
		       p.i.l.state == ISCSI_LOGIN_STATE_FAILED);
	}
	EXPECT(agreed > HISTORIES(400));
}
