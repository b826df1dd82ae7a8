/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of an MPA set-up against frames made by hand: what it refuses, and time. */
#include "cm_fixture.h"

static const struct mpa_config revision_1 = {
	.revision = 1,
	.wants_crc = true,
	.ird = 4,
	.ord = 4,
	.timeout_ns = CM_TIMEOUT_NS,
};
static const struct mpa_config revision_2 = {
	.revision = 2,
	.wants_crc = true,
	.ird = 4,
	.ord = 4,
	.timeout_ns = CM_TIMEOUT_NS,
};

/* The reason for which it failed just now, by itself and without a Terminate. */
static enum weft_reason failed(struct mpa_setup *s)
{
	REQUIRE(mpa_setup_event(s) == MPA_SETUP_FAILED);
	REQUIRE(mpa_setup_event(s) == MPA_SETUP_NONE);
	REQUIRE(mpa_setup_want(s).length == 0 && mpa_setup_have(s).length == 0);
	REQUIRE(mpa_setup_due(s) == UINT64_MAX);
	REQUIRE(!mpa_setup_must_terminate(s));
	return mpa_setup_reason(s);
}

static enum weft_reason initiator_judges(const struct mpa_config *config,
					 const struct cm_frame *reply)
{
	struct mpa_setup s;

	cm_asked(&s, config);
	(void)cm_feed_frame(&s, reply);
	return failed(&s);
}

static enum weft_reason responder_judges(const struct cm_frame *request)
{
	struct mpa_setup s;

	mpa_setup_init_responder(&s, &revision_2, 0);
	(void)cm_feed_frame(&s, request);
	return failed(&s);
}

/* ---- What is sent --------------------------------------------------------------------------- */

TEST(test_rfc5044_7_1_1_request_as_bytes)
{
	static const uint8_t flags[4] = { 0, CM_C, CM_M, CM_M | CM_C };
	struct mpa_config config = revision_1;
	struct mpa_setup s;
	struct cm_frame request, expected;

	for (uint32_t n = 0; n < 4; n++) {
		config.wants_crc = n & 1;
		config.wants_markers = n & 2;
		EXPECT_EQ(mpa_setup_init_initiator(&s, &config, cm_bytes("hello", 5), 0), WEFT_OK);
		request = cm_drain(&s, 3);
		expected = cm_frame("Req", flags[n], 1, cm_bytes("hello", 5));
		EXPECT_EQ(request.length, expected.length);
		EXPECT_MEM(request.bytes, expected.bytes, expected.length);
	}
}

TEST(test_rfc6581_9_request_as_bytes)
{
	/* A Read is offered as ready-to-receive message only if one may be in flight. */
	static const struct {
		bool is_peer_to_peer;
		uint16_t ird, ord, first, second;
	} rows[] = {
		{ false, 4, 5, 0x0004, 0x0005 },
		{ false, 0, 0, 0x0000, 0x0000 },
		{ false, MPA_DEPTH_MAX, MPA_DEPTH_MAX, 0x3ffe, 0x3ffe },
		{ true, 4, 5, 0x8004, 0xc005 },
		{ true, 0, 1, 0x8000, 0xc001 },
		{ true, 7, 0, 0x8007, 0x8000 },
	};

	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		struct mpa_config config = revision_2;
		struct cm_frame request, expected;
		struct mpa_setup s;

		config.is_peer_to_peer = rows[n].is_peer_to_peer;
		config.ird = rows[n].ird;
		config.ord = rows[n].ord;
		EXPECT_EQ(mpa_setup_init_initiator(&s, &config, cm_nothing(), 0), WEFT_OK);
		request = cm_drain(&s, CM_BYTES_MAX);
		expected = cm_enhanced("Req", CM_C, rows[n].first, rows[n].second);
		EXPECT_EQ(request.length, expected.length);
		EXPECT_MEM(request.bytes, expected.bytes, expected.length);
	}
}

/* The reply says what this end wishes; of CRC, what came of it: Linux reads no more than that. */
TEST(test_rfc5044_7_1_2_reply_carries_the_responders_wishes)
{
	const struct cm_frame request = cm_frame("Req", CM_C, 1, cm_nothing());
	struct mpa_config config = revision_1;
	struct cm_frame reply;
	struct mpa_setup s;

	config.wants_crc = false;
	config.wants_markers = true;
	cm_was_asked(&s, &config, &request);
	reply = cm_accept(&s, cm_nothing());
	EXPECT_EQ(reply.bytes[16], CM_M | CM_C);
	EXPECT(mpa_setup_terms(&s)->has_crc);
	EXPECT(mpa_setup_terms(&s)->takes_markers && !mpa_setup_terms(&s)->sends_markers);
}

/* Revision 1 is answered in revision 1, and S only with S; the depths are then not agreed upon. */
TEST(test_rfc6581_10_answer_in_kind)
{
	static const struct {
		uint8_t flags, revision, reply_flags;
	} rows[] = {
		{ 0, 1, CM_C },
		{ CM_S, 1, CM_C }, /* S means nothing in revision 1 */
		{ 0, 2, CM_C },
		{ CM_S, 2, CM_C | CM_S },
	};

	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		bool is_enhanced = rows[n].reply_flags & CM_S;
		const struct cm_frame request = cm_frame("Req", rows[n].flags, rows[n].revision,
							 cm_bytes("\0\2\0\3", 4));
		struct mpa_setup s;
		struct cm_frame reply;

		cm_was_asked(&s, &revision_2, &request);
		EXPECT_EQ(mpa_setup_peer(&s).revision, rows[n].revision);
		EXPECT_EQ(mpa_setup_peer(&s).private_data.length, is_enhanced ? 0 : 4);
		EXPECT_EQ(mpa_setup_peer(&s).ird, is_enhanced ? 2 : MPA_DEPTH_UNKNOWN);
		EXPECT_EQ(mpa_setup_peer(&s).ord, is_enhanced ? 3 : MPA_DEPTH_UNKNOWN);
		reply = cm_accept(&s, cm_nothing());
		EXPECT_EQ(reply.bytes[16], rows[n].reply_flags);
		EXPECT_EQ(reply.bytes[17], rows[n].revision);
		EXPECT_EQ(reply.length, is_enhanced ? 24 : 20);
		EXPECT_EQ(mpa_setup_terms(&s)->ird, 4);
		EXPECT_EQ(mpa_setup_terms(&s)->ord, is_enhanced ? 2 : 4);
		EXPECT_EQ(mpa_setup_terms(&s)->rtr, IWARP_RTR_NONE);
	}
}

/* ---- What is refused ------------------------------------------------------------------------ */

TEST(test_rfc5044_7_1_2_wrong_key)
{
	for (size_t at = 0; at < 16; at++) {
		struct cm_frame reply = cm_enhanced("Rep", CM_C, 4, 4);
		struct cm_frame request = cm_enhanced("Req", CM_C, 4, 4);

		reply.bytes[at] ^= 1;
		request.bytes[at] ^= 1;
		EXPECT_EQ(initiator_judges(&revision_2, &reply), WEFT_R_MPA_KEY);
		EXPECT_EQ(responder_judges(&request), WEFT_R_MPA_KEY);
	}
}

/* Both ends connected: each sees the other's request where a reply is due. */
TEST(test_rfc5044_7_1_2_initiator_meets_initiator)
{
	struct mpa_setup ends[2];
	struct cm_frame requests[2];

	for (int e = 0; e < 2; e++) {
		EXPECT_EQ(mpa_setup_init_initiator(&ends[e], &revision_2, cm_nothing(), 0),
			  WEFT_OK);
		requests[e] = cm_drain(&ends[e], CM_BYTES_MAX);
	}
	for (int e = 0; e < 2; e++) {
		(void)cm_feed_frame(&ends[e], &requests[1 - e]);
		EXPECT_EQ(failed(&ends[e]), WEFT_R_MPA_KEY);
	}
}

TEST(test_rfc5044_7_1_2_responder_gets_a_reply)
{
	const struct cm_frame reply = cm_enhanced("Rep", CM_C, 4, 4);

	EXPECT_EQ(responder_judges(&reply), WEFT_R_MPA_KEY);
}

TEST(test_rfc5044_7_1_1_unknown_revision)
{
	static const uint8_t revisions[] = { 0, 3, 129, 255 };

	for (size_t n = 0; n < sizeof(revisions); n++) {
		const struct cm_frame reply = cm_frame("Rep", CM_C, revisions[n], cm_nothing());
		const struct cm_frame request = cm_frame("Req", CM_C, revisions[n], cm_nothing());

		EXPECT_EQ(initiator_judges(&revision_1, &reply), WEFT_R_MPA_REVISION);
		EXPECT_EQ(initiator_judges(&revision_2, &reply), WEFT_R_MPA_REVISION);
		EXPECT_EQ(responder_judges(&request), WEFT_R_MPA_REVISION);
	}
}

/* A reply of another kind than the request leaves open what was agreed, so there is no stream. */
TEST(test_rfc6581_10_reply_not_in_kind)
{
	const struct cm_frame old = cm_frame("Rep", CM_C, 1, cm_nothing());
	const struct cm_frame plain = cm_frame("Rep", CM_C, 2, cm_bytes("\0\4\0\4", 4));
	const struct cm_frame enhanced = cm_enhanced("Rep", CM_C, 4, 4);

	EXPECT_EQ(initiator_judges(&revision_2, &old), WEFT_R_MPA_REVISION);
	EXPECT_EQ(initiator_judges(&revision_2, &plain), WEFT_R_MPA_REVISION);
	EXPECT_EQ(initiator_judges(&revision_1, &plain), WEFT_R_MPA_REVISION);
	EXPECT_EQ(initiator_judges(&revision_1, &enhanced), WEFT_R_MPA_REVISION);
}

/* But a rejection is understood in any. */
TEST(test_rfc6581_10_rejection_not_in_kind)
{
	const struct cm_frame frames[] = {
		cm_frame("Rep", CM_R, 1, cm_bytes("why", 3)),
		cm_frame("Rep", CM_R, 2, cm_bytes("why", 3)),
		cm_frame("Rep", CM_R | CM_S, 2, cm_bytes("\0\4\0\4why", 7)),
	};

	for (size_t n = 0; n < 6; n++) {
		struct mpa_setup s;

		cm_asked(&s, n & 1 ? &revision_1 : &revision_2);
		EXPECT_EQ(cm_feed_frame(&s, &frames[n / 2]), frames[n / 2].length);
		EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_REJECTED);
		EXPECT_EQ(mpa_setup_reason(&s), WEFT_R_CONNECT_REJECTED);
		EXPECT_EQ(mpa_setup_peer(&s).private_data.length, 3);
		EXPECT_MEM(mpa_setup_peer(&s).private_data.bytes, "why", 3);
	}
}

TEST(test_rfc5044_7_1_1_pd_length)
{
	static const uint8_t zeros[CM_BYTES_MAX];
	static const size_t lengths[] = { 513, 514, 0x400 - 20 };
	const struct cm_frame longest = cm_frame("Req", CM_C, 1, cm_bytes(zeros, 512));
	struct mpa_setup s;

	for (size_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++) {
		const struct mpa_bytes pd = cm_bytes(zeros, lengths[n]);
		const struct cm_frame reply = cm_frame("Rep", CM_C | CM_S, 2, pd);
		const struct cm_frame request = cm_frame("Req", CM_C, 1, pd);

		EXPECT_EQ(initiator_judges(&revision_2, &reply), WEFT_R_MPA_LENGTH);
		EXPECT_EQ(responder_judges(&request), WEFT_R_MPA_LENGTH);
	}
	cm_was_asked(&s, &revision_1, &longest);
	EXPECT_EQ(mpa_setup_peer(&s).private_data.length, 512);
}

TEST(test_rfc6581_6_private_data_too_short_for_the_enhanced_part)
{
	for (size_t n = 0; n < 4; n++) {
		const struct mpa_bytes pd = cm_bytes("\0\0\0", n);
		const struct cm_frame reply = cm_frame("Rep", CM_C | CM_S, 2, pd);
		const struct cm_frame request = cm_frame("Req", CM_C | CM_S, 2, pd);

		EXPECT_EQ(initiator_judges(&revision_2, &reply), WEFT_R_MPA_LENGTH);
		EXPECT_EQ(responder_judges(&request), WEFT_R_MPA_LENGTH);
	}
}

/* A frame is judged by its first 20 bytes: what a liar announces is not waited for. */
TEST(test_rfc5044_7_1_2_judged_before_the_private_data)
{
	struct cm_frame reply = cm_frame("Rep", CM_C, 1, cm_bytes("0123456789", 10));
	struct mpa_setup s;

	cm_asked(&s, &revision_2);
	EXPECT_EQ(cm_feed_frame(&s, &reply), 20);
	EXPECT_EQ(failed(&s), WEFT_R_MPA_REVISION);
}

/* ---- What is not checked -------------------------------------------------------------------- */

TEST(test_rfc5044_7_1_1_bits_that_do_not_count)
{
	const struct cm_frame request = cm_enhanced("Req", CM_C | CM_R | 0x0f, 4, 4);
	const struct cm_frame reply = cm_enhanced("Rep", CM_C | 0x0f, 4, 4);
	struct cm_frame answer;
	struct mpa_setup s;

	/* R in a request, and the reserved bits, which are not sent back. */
	cm_was_asked(&s, &revision_2, &request);
	answer = cm_accept(&s, cm_nothing());
	EXPECT_EQ(answer.bytes[16], CM_C | CM_S);
	cm_asked(&s, &revision_2);
	EXPECT_EQ(cm_feed_frame(&s, &reply), reply.length);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_ESTABLISHED);
}

TEST(test_rfc6581_9_2_without_a_the_other_bits_do_not_count)
{
	const struct cm_frame request = cm_enhanced("Req", CM_C, 0x4004, 0xc004);
	struct cm_frame reply;
	struct mpa_setup s;

	cm_was_asked(&s, &revision_2, &request);
	EXPECT(!mpa_setup_peer(&s).is_peer_to_peer);
	reply = cm_accept(&s, cm_nothing());
	EXPECT_MEM(reply.bytes + 20, "\0\4\0\4", 4);
	EXPECT_EQ(mpa_setup_terms(&s)->rtr, IWARP_RTR_NONE);
	/* Nor does a responder's A when it was not asked for. */
	reply = cm_enhanced("Rep", CM_C, 0x8004, 0xc004);
	cm_asked(&s, &revision_2);
	(void)cm_feed_frame(&s, &reply);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_ESTABLISHED);
	EXPECT_EQ(mpa_setup_terms(&s)->rtr, IWARP_RTR_NONE);
}

/* ---- Private data --------------------------------------------------------------------------- */

TEST(test_rfc5044_7_1_4_private_data_of_a_request)
{
	static const uint8_t data[600] = { 1, 2, 3 };
	struct cm_frame request;
	struct mpa_setup s;

	EXPECT_EQ(mpa_setup_init_initiator(&s, &revision_1, cm_bytes(data, 513), 0),
		  WEFT_R_PRIVATE_DATA);
	EXPECT_EQ(mpa_setup_init_initiator(&s, &revision_2, cm_bytes(data, 509), 0),
		  WEFT_R_PRIVATE_DATA);
	EXPECT_EQ(mpa_setup_init_initiator(&s, &revision_1, cm_bytes(data, 512), 0), WEFT_OK);
	request = cm_drain(&s, CM_BYTES_MAX);
	EXPECT_EQ(request.length, 532);
	EXPECT_MEM(request.bytes + 20, data, 512);
	EXPECT_EQ(mpa_setup_init_initiator(&s, &revision_2, cm_bytes(data, 508), 0), WEFT_OK);
	request = cm_drain(&s, CM_BYTES_MAX);
	EXPECT_EQ(request.length, 532);
	EXPECT_MEM(request.bytes + 24, data, 508);
}

/* An answer that does not fit is refused, and another may be given. */
TEST(test_rfc5044_7_1_4_private_data_of_a_reply)
{
	static const uint8_t data[600] = { 1, 2, 3 };
	const struct cm_frame requests[2] = { cm_frame("Req", 0, 1, cm_nothing()),
					      cm_enhanced("Req", 0, 4, 4) };

	for (int n = 0; n < 4; n++) {
		size_t room = n & 1 ? 508 : 512;
		struct mpa_answer answer = { cm_bytes(data, room + 1), 1, 1 };
		struct cm_frame reply;
		struct mpa_setup s;

		cm_was_asked(&s, &revision_2, &requests[n & 1]);
		EXPECT_EQ(mpa_setup_accept(&s, &answer, 0), WEFT_R_PRIVATE_DATA);
		EXPECT_EQ(mpa_setup_reject(&s, answer.private_data, 0), WEFT_R_PRIVATE_DATA);
		EXPECT_EQ(mpa_setup_have(&s).length, 0);
		answer.private_data.length = room;
		EXPECT_EQ(n & 2 ? mpa_setup_accept(&s, &answer, 0)
				: mpa_setup_reject(&s, answer.private_data, 0),
			  WEFT_OK);
		EXPECT_EQ(mpa_setup_peer(&s).private_data.length, 0);
		reply = cm_drain(&s, CM_BYTES_MAX);
		EXPECT_EQ(reply.length, 532);
		EXPECT_MEM(reply.bytes + 532 - room, data, room);
	}
}

/* The peer's own data, all or the end of it, sent back from where it lies. */
TEST(test_rfc5044_7_1_4_private_data_echoed)
{
	const struct cm_frame requests[2] = {
		cm_frame("Req", 0, 1, cm_bytes("abcdefgh", 8)),
		cm_frame("Req", CM_S, 2, cm_bytes("\0\4\0\4abcdefgh", 12)),
	};

	for (size_t n = 0; n < 4; n++) {
		size_t skipped = n / 2;
		const struct cm_frame *request = &requests[n % 2];
		struct mpa_bytes echo;
		struct cm_frame reply;
		struct mpa_setup s;

		cm_was_asked(&s, &revision_2, request);
		echo = mpa_setup_peer(&s).private_data;
		EXPECT_EQ(echo.length, 8);
		reply = cm_accept(&s, cm_bytes(echo.bytes + skipped, echo.length - skipped));
		EXPECT_EQ(reply.length, request->length - skipped);
		EXPECT_MEM(reply.bytes + reply.length - (8 - skipped), &"abcdefgh"[skipped],
			   8 - skipped);
		/* Its place was needed for the reply. */
		EXPECT_EQ(mpa_setup_peer(&s).private_data.length, 0);
	}
}

/* ---- Wishes out of range -------------------------------------------------------------------- */

TEST(test_rfc6581_9_1_wishes_out_of_range)
{
	struct mpa_config bad[7];
	struct mpa_setup s;

	for (size_t n = 0; n < 7; n++)
		bad[n] = revision_2;
	bad[0].ird = MPA_DEPTH_UNKNOWN;
	bad[1].ord = MPA_DEPTH_UNKNOWN;
	bad[2].revision = 0;
	bad[3].revision = 3;
	bad[4].timeout_ns = 0;
	bad[5].revision = 1;
	bad[5].is_peer_to_peer = true;
	bad[6].ird = 0xffff;
	for (size_t n = 0; n < 7; n++)
		EXPECT_EQ(mpa_setup_init_initiator(&s, &bad[n], cm_nothing(), 0),
			  WEFT_R_BAD_ARGUMENT);
}

/* A program may answer less than the adapter can, not more. */
TEST(test_rfc6581_9_1_answer_beyond_the_adapter)
{
	const struct cm_frame request = cm_enhanced("Req", 0, 9, 9);
	struct mpa_answer answer = { cm_nothing(), 5, 4 };
	struct mpa_setup s;
	struct cm_frame reply;

	cm_was_asked(&s, &revision_2, &request);
	EXPECT_EQ(mpa_setup_accept(&s, &answer, 0), WEFT_R_BAD_ARGUMENT);
	answer = (struct mpa_answer){ cm_nothing(), 4, 5 };
	EXPECT_EQ(mpa_setup_accept(&s, &answer, 0), WEFT_R_BAD_ARGUMENT);
	answer = (struct mpa_answer){ cm_nothing(), 3, 2 };
	EXPECT_EQ(mpa_setup_accept(&s, &answer, 0), WEFT_OK);
	reply = cm_drain(&s, CM_BYTES_MAX);
	EXPECT_MEM(reply.bytes + 20, "\0\3\0\2", 4);
}

/* ---- Time and the connection's end ---------------------------------------------------------- */

TEST(test_rfc5042_initiator_time_runs_out)
{
	for (int is_sent = 0; is_sent < 2; is_sent++) {
		struct mpa_setup s;

		EXPECT_EQ(mpa_setup_init_initiator(&s, &revision_2, cm_nothing(), 500), WEFT_OK);
		if (is_sent)
			(void)cm_drain(&s, CM_BYTES_MAX);
		/* One deadline for both: the request going out and the reply. */
		EXPECT_EQ(mpa_setup_due(&s), 500 + CM_TIMEOUT_NS);
		mpa_setup_expire(&s, 499 + CM_TIMEOUT_NS);
		EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_NONE);
		mpa_setup_expire(&s, 500 + CM_TIMEOUT_NS);
		EXPECT_EQ(failed(&s), WEFT_R_CONNECT_TIMEOUT);
	}
}

/* The program may think as long as it likes; the peer may not. */
TEST(test_rfc5042_responder_time_runs_out)
{
	const struct cm_frame request = cm_enhanced("Req", 0, 4, 4);
	const struct mpa_answer yes = { cm_nothing(), 4, 4 };

	for (int n = 0; n < 3; n++) {
		uint64_t late = 1000 * (uint64_t)CM_TIMEOUT_NS;
		struct mpa_setup s;

		mpa_setup_init_responder(&s, &revision_2, 500);
		EXPECT_EQ(mpa_setup_due(&s), 500 + CM_TIMEOUT_NS);
		mpa_setup_expire(&s, 499 + CM_TIMEOUT_NS);
		if (n == 0) {
			/* One byte short of a request. */
			(void)cm_feed(&s, cm_bytes(request.bytes, request.length - 1), 1);
			mpa_setup_expire(&s, 500 + CM_TIMEOUT_NS);
			EXPECT_EQ(failed(&s), WEFT_R_CONNECT_TIMEOUT);
			continue;
		}
		(void)cm_feed_frame(&s, &request);
		EXPECT_EQ(mpa_setup_due(&s), UINT64_MAX);
		mpa_setup_expire(&s, late);
		EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_REQUEST);
		EXPECT_EQ(n == 1 ? mpa_setup_accept(&s, &yes, late)
				 : mpa_setup_reject(&s, cm_nothing(), late),
			  WEFT_OK);
		EXPECT_EQ(mpa_setup_due(&s), late + CM_TIMEOUT_NS);
		mpa_setup_sent(&s, mpa_setup_have(&s).length - 1);
		mpa_setup_expire(&s, late + CM_TIMEOUT_NS);
		EXPECT_EQ(failed(&s), WEFT_R_CONNECT_TIMEOUT);
	}
}

TEST(test_rfc5042_a_deadline_beyond_all_time)
{
	struct mpa_config config = revision_2;
	struct mpa_setup s;

	config.timeout_ns = UINT64_MAX;
	mpa_setup_init_responder(&s, &config, 500);
	EXPECT_EQ(mpa_setup_due(&s), UINT64_MAX);
	mpa_setup_expire(&s, UINT64_MAX);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_NONE);
}

/* What is final stays so, whatever the connection does afterwards. */
static void expect_final(struct mpa_setup *s)
{
	enum weft_reason reason = mpa_setup_reason(s);

	mpa_setup_eof(s);
	mpa_setup_expire(s, UINT64_MAX);
	EXPECT_EQ(mpa_setup_event(s), MPA_SETUP_NONE);
	EXPECT_EQ(mpa_setup_reason(s), reason);
}

TEST(test_rfc5044_7_1_2_closed_after_any_byte)
{
	const struct cm_frame request = cm_frame("Req", CM_S, 2, cm_bytes("\0\4\0\4abc", 7));
	const struct cm_frame reply = cm_frame("Rep", CM_S, 2, cm_bytes("\0\4\0\4abc", 7));

	for (size_t n = 0; n < request.length; n++) {
		struct mpa_setup i, r;

		cm_asked(&i, &revision_2);
		EXPECT_EQ(cm_feed(&i, cm_bytes(reply.bytes, n), 1), n);
		mpa_setup_eof(&i);
		EXPECT_EQ(failed(&i), WEFT_R_CONNECT_CLOSED);
		expect_final(&i);
		mpa_setup_init_responder(&r, &revision_2, 0);
		EXPECT_EQ(cm_feed(&r, cm_bytes(request.bytes, n), 1), n);
		mpa_setup_eof(&r);
		EXPECT_EQ(failed(&r), WEFT_R_CONNECT_CLOSED);
		expect_final(&r);
	}
}

TEST(test_rfc5044_7_1_2_closed_while_a_frame_goes_out)
{
	const struct cm_frame request = cm_enhanced("Req", 0, 4, 4);
	const struct mpa_answer yes = { cm_nothing(), 4, 4 };
	struct mpa_setup s;

	EXPECT_EQ(mpa_setup_init_initiator(&s, &revision_2, cm_nothing(), 0), WEFT_OK);
	mpa_setup_sent(&s, 5);
	mpa_setup_eof(&s);
	EXPECT_EQ(failed(&s), WEFT_R_CONNECT_CLOSED);
	cm_was_asked(&s, &revision_2, &request);
	EXPECT_EQ(mpa_setup_accept(&s, &yes, 0), WEFT_OK);
	mpa_setup_sent(&s, 5);
	mpa_setup_eof(&s);
	EXPECT_EQ(failed(&s), WEFT_R_CONNECT_CLOSED);
}

/* The program answers a request whose sender has gone: it learns so, and nothing is sent. */
TEST(test_rfc5044_7_1_2_closed_while_the_program_thinks)
{
	const struct cm_frame request = cm_enhanced("Req", 0, 4, 4);
	const struct mpa_answer yes = { cm_nothing(), 4, 4 };
	struct mpa_setup s;

	cm_was_asked(&s, &revision_2, &request);
	mpa_setup_eof(&s);
	EXPECT_EQ(failed(&s), WEFT_R_CONNECT_CLOSED);
	EXPECT_EQ(mpa_setup_accept(&s, &yes, 0), WEFT_R_CONNECT_CLOSED);
	EXPECT_EQ(mpa_setup_reject(&s, cm_nothing(), 0), WEFT_R_CONNECT_CLOSED);
	EXPECT_EQ(mpa_setup_have(&s).length, 0);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_NONE);
}

TEST(test_rfc5044_7_1_2_closed_after_the_end)
{
	const struct cm_frame request = cm_enhanced("Req", 0, 4, 4);
	const struct cm_frame reply = cm_enhanced("Rep", 0, 4, 4);
	const struct cm_frame no = cm_enhanced("Rep", CM_R, 4, 4);
	struct mpa_setup s;

	cm_was_asked(&s, &revision_2, &request);
	(void)cm_accept(&s, cm_nothing());
	expect_final(&s);
	cm_asked(&s, &revision_2);
	(void)cm_feed_frame(&s, &reply);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_ESTABLISHED);
	expect_final(&s);
	cm_asked(&s, &revision_2);
	(void)cm_feed_frame(&s, &no);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_REJECTED);
	expect_final(&s);
}

/* Nothing is wanted while a frame goes out or the program thinks: the bytes may be the stream's. */
TEST(test_rfc5044_7_1_2_nothing_is_taken_out_of_turn)
{
	const struct cm_frame request = cm_enhanced("Req", 0, 4, 4);
	const struct mpa_answer yes = { cm_nothing(), 4, 4 };
	struct mpa_setup s;

	EXPECT_EQ(mpa_setup_init_initiator(&s, &revision_2, cm_nothing(), 0), WEFT_OK);
	EXPECT_EQ(mpa_setup_want(&s).length, 0);
	mpa_setup_sent(&s, 0);
	mpa_setup_sent(&s, 23);
	EXPECT_EQ(mpa_setup_want(&s).length, 0);
	mpa_setup_sent(&s, 1);
	EXPECT_EQ(mpa_setup_want(&s).length, 20);
	EXPECT_EQ(mpa_setup_have(&s).length, 0);
	mpa_setup_init_responder(&s, &revision_2, 0);
	EXPECT_EQ(mpa_setup_peer(&s).revision, 0);
	EXPECT_EQ(mpa_setup_peer(&s).ird, MPA_DEPTH_UNKNOWN);
	EXPECT_EQ(mpa_setup_want(&s).length, 20);
	EXPECT_EQ(cm_feed(&s, cm_bytes(request.bytes, 20), 20), 20);
	EXPECT_EQ(mpa_setup_want(&s).length, 4);
	mpa_setup_got(&s, 0);
	EXPECT_EQ(mpa_setup_want(&s).length, 4);
	EXPECT_EQ(cm_feed(&s, cm_bytes(request.bytes + 20, 4), 4), 4);
	EXPECT_EQ(mpa_setup_want(&s).length, 0);
	EXPECT_EQ(mpa_setup_have(&s).length, 0);
	EXPECT_EQ(mpa_setup_accept(&s, &yes, 0), WEFT_OK);
	EXPECT_EQ(mpa_setup_want(&s).length, 0);
	EXPECT_EQ(mpa_setup_have(&s).length, 24);
}

/* A caller that moved no byte may say so at any time. */
TEST(test_rfc5044_7_1_2_no_bytes_change_nothing)
{
	const struct cm_frame request = cm_enhanced("Req", 0, 4, 4);
	struct mpa_setup s;

	cm_was_asked(&s, &revision_2, &request);
	mpa_setup_got(&s, 0);
	mpa_setup_sent(&s, 0);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_NONE);
	(void)cm_accept(&s, cm_nothing());
	mpa_setup_got(&s, 0);
	mpa_setup_sent(&s, 0);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_NONE);
	EXPECT_EQ(mpa_setup_terms(&s)->ird, 4);
}

TEST(test_states_have_names)
{
	for (int n = 0; n < MPA_STATE_COUNT; n++)
		EXPECT(mpa_setup_state_name((enum mpa_setup_state)n)[0] != 'u');
	EXPECT_STR(mpa_setup_state_name(MPA_STATE_DECIDING), "DECIDING");
	EXPECT_STR(mpa_setup_state_name(MPA_STATE_COUNT), "unknown");
}
