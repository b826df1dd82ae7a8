/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends set up against each other, with every combination of wishes. */
#include "cm_fixture.h"

enum { DEPTHS = 4, STREAM_BYTES = 5 };

static const uint16_t depths[DEPTHS] = { 0, 1, 7, MPA_DEPTH_MAX };

/* What an initiator and a responder wish. */
struct wishes {
	struct mpa_config i, r;
	size_t chunk;
};

static struct wishes wishes_of(uint32_t n)
{
	const struct wishes w = {
		.i = { .revision = n & 1 ? 2 : 1,
		       .wants_crc = n & 2,
		       .wants_markers = n & 4,
		       .is_peer_to_peer = (n & 8) && (n & 1),
		       .ird = depths[n >> 6 & 3],
		       .ord = depths[n >> 8 & 3],
		       .timeout_ns = CM_TIMEOUT_NS },
		.r = { .wants_crc = n & 16,
		       .wants_markers = n & 32,
		       .ird = depths[n >> 10 & 3],
		       .ord = depths[n >> 12 & 3],
		       .timeout_ns = CM_TIMEOUT_NS },
		.chunk = n >> 14 == 0	? 1
			 : n >> 14 == 1 ? 7
					: CM_BYTES_MAX,
	};

	return w;
}

/* The rules once more, as a person would say them. */
static struct iwarp_terms initiator_expects(const struct wishes *w)
{
	struct iwarp_terms t = { .is_initiator = true, .ird = w->i.ird, .ord = w->i.ord };

	if (w->i.wants_crc || w->r.wants_crc)
		t.has_crc = true;
	t.takes_markers = w->i.wants_markers;
	t.sends_markers = w->r.wants_markers;
	if (w->i.revision == 2 && w->r.ird < w->i.ord)
		t.ord = w->r.ird;
	if (w->i.is_peer_to_peer)
		t.rtr = IWARP_RTR_WRITE;
	return t;
}

static struct iwarp_terms responder_expects(const struct wishes *w)
{
	struct iwarp_terms t = { .ird = w->r.ird, .ord = w->r.ord };

	if (w->i.wants_crc || w->r.wants_crc)
		t.has_crc = true;
	t.takes_markers = w->r.wants_markers;
	t.sends_markers = w->i.wants_markers;
	if (w->i.revision == 2 && w->i.ird < w->r.ord)
		t.ord = w->i.ird;
	if (w->i.is_peer_to_peer)
		t.rtr = IWARP_RTR_WRITE;
	return t;
}

static void expect_terms(const struct iwarp_terms *t, const struct iwarp_terms *expected)
{
	EXPECT_EQ(t->is_initiator, expected->is_initiator);
	EXPECT_EQ(t->has_crc, expected->has_crc);
	EXPECT_EQ(t->sends_markers, expected->sends_markers);
	EXPECT_EQ(t->takes_markers, expected->takes_markers);
	EXPECT_EQ(t->ird, expected->ird);
	EXPECT_EQ(t->ord, expected->ord);
	EXPECT_EQ(t->rtr, expected->rtr);
}

/* What each end learns of the other. The reply's C says what came of both wishes. */
static void expect_peer(const struct mpa_setup *s, const struct mpa_config *other, bool is_enhanced)
{
	bool is_reply = s->terms.is_initiator;
	struct mpa_peer peer = mpa_setup_peer(s);

	EXPECT_EQ(peer.wants_crc, other->wants_crc || (is_reply && s->config.wants_crc));
	EXPECT_EQ(peer.wants_markers, other->wants_markers);
	EXPECT_EQ(peer.revision, is_enhanced ? 2 : 1);
	EXPECT_EQ(peer.ird, is_enhanced ? other->ird : MPA_DEPTH_UNKNOWN);
}

/* Runs the exchange; behind the reply comes the stream, of which nothing may be taken. */
static void exchange(const struct wishes *w, struct mpa_setup *i, struct mpa_setup *r)
{
	const struct mpa_answer answer = { cm_bytes("yes", 3), w->r.ird, w->r.ord };
	struct cm_frame frame;

	REQUIRE(mpa_setup_init_initiator(i, &w->i, cm_bytes("please", 6), 0) == WEFT_OK);
	mpa_setup_init_responder(r, &w->r, 0);
	frame = cm_drain(i, w->chunk);
	memset(frame.bytes + frame.length, 0xee, STREAM_BYTES);
	REQUIRE(cm_feed(r, cm_bytes(frame.bytes, frame.length + STREAM_BYTES), w->chunk) ==
		frame.length);
	REQUIRE(mpa_setup_event(r) == MPA_SETUP_REQUEST);
	expect_peer(r, &w->i, w->i.revision == 2);
	REQUIRE(mpa_setup_peer(r).is_peer_to_peer == w->i.is_peer_to_peer);
	REQUIRE(mpa_setup_peer(r).private_data.length == 6);
	REQUIRE(memcmp(mpa_setup_peer(r).private_data.bytes, "please", 6) == 0);
	REQUIRE(mpa_setup_accept(r, &answer, 0) == WEFT_OK);
	frame = cm_drain(r, w->chunk);
	memset(frame.bytes + frame.length, 0xee, STREAM_BYTES);
	REQUIRE(cm_feed(i, cm_bytes(frame.bytes, frame.length + STREAM_BYTES), w->chunk) ==
		frame.length);
	expect_peer(i, &w->r, w->i.revision == 2);
	REQUIRE(mpa_setup_peer(i).private_data.length == 3);
	REQUIRE(memcmp(mpa_setup_peer(i).private_data.bytes, "yes", 3) == 0);
}

TEST(test_rfc5044_7_1_2_rfc6581_9_1_every_pair_agrees)
{
	for (uint32_t n = 0; n < 3U << 14; n++) {
		const struct wishes w = wishes_of(n);
		const struct iwarp_terms i_expects = initiator_expects(&w);
		const struct iwarp_terms r_expects = responder_expects(&w);
		struct mpa_setup i, r;

		exchange(&w, &i, &r);
		EXPECT_EQ(mpa_setup_event(&i), MPA_SETUP_ESTABLISHED);
		EXPECT_EQ(mpa_setup_event(&r), MPA_SETUP_ESTABLISHED);
		EXPECT_EQ(mpa_setup_event(&i), MPA_SETUP_NONE);
		EXPECT_EQ(mpa_setup_event(&r), MPA_SETUP_NONE);
		expect_terms(mpa_setup_terms(&i), &i_expects);
		expect_terms(mpa_setup_terms(&r), &r_expects);
		EXPECT_EQ(mpa_setup_due(&i), UINT64_MAX);
		EXPECT_EQ(mpa_setup_due(&r), UINT64_MAX);
	}
}

/* Neither end has more in flight than its peer serves. */
TEST(test_rfc6581_9_1_depths_fit_each_other)
{
	for (uint32_t n = 1; n < 1U << 14; n += 2) {
		const struct wishes w = wishes_of(n);
		struct mpa_setup i, r;

		exchange(&w, &i, &r);
		EXPECT(mpa_setup_terms(&i)->ord <= mpa_setup_terms(&r)->ird);
		EXPECT(mpa_setup_terms(&r)->ord <= mpa_setup_terms(&i)->ird);
		EXPECT_EQ(mpa_setup_peer(&i).ord, mpa_setup_terms(&r)->ord);
		EXPECT_EQ(mpa_setup_peer(&r).ord, w.i.ord);
	}
}

/* Every request rejected: the private data arrives, whatever the kind of frame. */
TEST(test_rfc5044_7_1_2_every_pair_rejected)
{
	for (uint32_t n = 0; n < 64; n++) {
		const struct wishes w = wishes_of(n);
		struct mpa_setup i, r;
		struct cm_frame frame;

		EXPECT_EQ(mpa_setup_init_initiator(&i, &w.i, cm_nothing(), 0), WEFT_OK);
		mpa_setup_init_responder(&r, &w.r, 0);
		frame = cm_drain(&i, 1);
		EXPECT_EQ(cm_feed_frame(&r, &frame), frame.length);
		EXPECT_EQ(mpa_setup_reject(&r, cm_bytes("no", 2), 0), WEFT_OK);
		EXPECT_EQ(mpa_setup_event(&r), MPA_SETUP_NONE);
		frame = cm_drain(&r, 1);
		EXPECT_EQ(mpa_setup_event(&r), MPA_SETUP_REJECTED);
		EXPECT_EQ(mpa_setup_reason(&r), WEFT_OK);
		EXPECT_EQ(frame.bytes[16] & CM_R, CM_R);
		EXPECT_EQ(frame.bytes[17], w.i.revision);
		EXPECT_EQ(cm_feed_frame(&i, &frame), frame.length);
		EXPECT_EQ(mpa_setup_event(&i), MPA_SETUP_REJECTED);
		EXPECT_EQ(mpa_setup_reason(&i), WEFT_R_CONNECT_REJECTED);
		EXPECT(!mpa_setup_must_terminate(&i));
		EXPECT_EQ(mpa_setup_peer(&i).private_data.length, 2);
		EXPECT_MEM(mpa_setup_peer(&i).private_data.bytes, "no", 2);
	}
}
