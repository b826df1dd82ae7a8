/* SPDX-License-Identifier: BSD-2-Clause */
/* MPA start frames, FPDU sizes and markers: RFC 5044 and RFC 6581. */
#include "wire/mpa.h"

#include <string.h>

#include "test.h"

static const char request_key[] = "MPA ID Req Frame";
static const char reply_key[] = "MPA ID Rep Frame";

/* A start frame as bytes: key, flags, revision, private data length. */
static void frame(uint8_t *bytes, const char *key, uint8_t flags, uint8_t revision, uint16_t length)
{
	memcpy(bytes, key, 16);
	bytes[16] = flags;
	bytes[17] = revision;
	bytes[18] = (uint8_t)(length >> 8);
	bytes[19] = (uint8_t)length;
}

static enum mpa_err decode(const uint8_t *bytes, size_t length, struct mpa_start *s)
{
	struct rd r = rd_of(bytes, length);
	enum mpa_err err = mpa_start_decode(s, &r);

	/* All of the header is taken, or nothing. */
	REQUIRE(r.at == bytes + (err == MPA_OK ? MPA_START_BYTES : 0));
	return err;
}

TEST(test_rfc5044_7_1_request_and_reply)
{
	uint8_t bytes[MPA_START_BYTES];
	struct mpa_start s;

	frame(bytes, request_key, 0xc0, 1, 12);
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_OK);
	EXPECT(!s.is_reply && s.wants_markers && s.wants_crc && !s.is_rejected && !s.is_enhanced);
	EXPECT_EQ(s.revision, 1);
	EXPECT_EQ(s.private_bytes, 12);
	frame(bytes, reply_key, 0x60, 2, 512);
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_OK);
	EXPECT(s.is_reply && !s.wants_markers && s.wants_crc && s.is_rejected && !s.is_enhanced);
	EXPECT_EQ(s.private_bytes, 512);
}

/* Reserved bits are not checked, R means nothing in a request, S nothing before revision 2. */
TEST(test_rfc5044_7_1_bits_that_do_not_count)
{
	uint8_t bytes[MPA_START_BYTES];
	struct mpa_start s;

	frame(bytes, request_key, 0x3f, 1, 0);
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_OK);
	EXPECT(!s.wants_markers && !s.wants_crc && !s.is_rejected && !s.is_enhanced);
	EXPECT_EQ(s.reserved, 0x0f);
	frame(bytes, request_key, 0x18, 2, 4);
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_OK);
	EXPECT(s.is_enhanced);
}

TEST(test_rfc5044_7_1_what_is_rejected)
{
	const struct mpa_start untouched = { .revision = 77 };
	uint8_t bytes[MPA_START_BYTES];
	struct mpa_start s = untouched;

	for (size_t i = 0; i < 16; i++) {
		frame(bytes, reply_key, 0x40, 2, 0);
		bytes[i] ^= 0x20;
		EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_ERR_KEY);
	}
	frame(bytes, request_key, 0x40, 0, 0);
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_ERR_REVISION);
	frame(bytes, request_key, 0x40, 3, 0);
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_ERR_REVISION);
	frame(bytes, request_key, 0x40, 1, 513);
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_ERR_LENGTH);
	frame(bytes, request_key, 0x50, 2, 3); /* too short for the enhanced part */
	EXPECT_EQ(decode(bytes, sizeof(bytes), &s), MPA_ERR_LENGTH);
	frame(bytes, request_key, 0x40, 1, 0);
	for (size_t n = 0; n < MPA_START_BYTES; n++)
		EXPECT_EQ(decode(bytes, n, &s), MPA_ERR_SHORT);
	EXPECT_MEM(&s, &untouched, sizeof(s));
}

TEST(test_rfc5044_7_1_what_was_encoded_is_decoded)
{
	for (uint32_t bits = 0; bits < 64; bits++) {
		bool is_reply = bits & 1;
		const struct mpa_start sent = {
			.is_reply = is_reply,
			.wants_markers = bits & 2,
			.wants_crc = bits & 4,
			.is_rejected = is_reply && (bits & 8),
			.is_enhanced = (bits & 16) && (bits & 32),
			.reserved = bits & 15,
			.revision = bits & 32 ? 2 : 1,
			.private_bytes = (uint16_t)(bits * 8 + 4),
		};
		uint8_t bytes[MPA_START_BYTES];
		struct wr w = wr_of(bytes, sizeof(bytes));
		struct mpa_start got;

		mpa_start_encode(&sent, &w);
		EXPECT(!w.is_short && w.at == w.end);
		EXPECT_MEM(bytes, is_reply ? reply_key : request_key, 16);
		EXPECT_EQ(decode(bytes, sizeof(bytes), &got), MPA_OK);
		EXPECT_EQ(got.is_reply, sent.is_reply);
		EXPECT_EQ(got.wants_markers, sent.wants_markers);
		EXPECT_EQ(got.wants_crc, sent.wants_crc);
		EXPECT_EQ(got.is_rejected, sent.is_rejected);
		EXPECT_EQ(got.is_enhanced, sent.is_enhanced);
		EXPECT_EQ(got.reserved, sent.reserved);
		EXPECT_EQ(got.revision, sent.revision);
		EXPECT_EQ(got.private_bytes, sent.private_bytes);
	}
}

TEST(test_rfc6581_9_enhanced_set_up)
{
	static const uint8_t all[] = { 0xc0, 0x10, 0xff, 0xff };
	static const uint8_t client_server[] = { 0x40, 0x08, 0xc0, 0x04 };
	struct mpa_enhanced e;
	uint8_t bytes[MPA_ENHANCED_BYTES];
	struct rd r = rd_of(all, sizeof(all));
	struct wr w = wr_of(bytes, sizeof(bytes));

	EXPECT_EQ(mpa_enhanced_decode(&e, &r), MPA_OK);
	EXPECT(e.is_peer_to_peer && e.rtr_by_send && e.rtr_by_write && e.rtr_by_read);
	EXPECT_EQ(e.ird, 16);
	EXPECT_EQ(e.ord, MPA_DEPTH_UNKNOWN);
	mpa_enhanced_encode(&e, &w);
	EXPECT_MEM(bytes, all, sizeof(all));
	/* Without A the other three bits are ignored, and sent as 0. */
	r = rd_of(client_server, sizeof(client_server));
	EXPECT_EQ(mpa_enhanced_decode(&e, &r), MPA_OK);
	EXPECT(!e.is_peer_to_peer && !e.rtr_by_send && !e.rtr_by_write && !e.rtr_by_read);
	EXPECT_EQ(e.ird, 8);
	EXPECT_EQ(e.ord, 4);
	for (size_t n = 0; n < sizeof(all); n++) {
		r = rd_of(all, n);
		EXPECT_EQ(mpa_enhanced_decode(&e, &r), MPA_ERR_SHORT);
	}
}

TEST(test_rfc5044_4_2_an_fpdu_is_a_multiple_of_four)
{
	for (uint32_t n = 0; n < 70000; n++) {
		EXPECT(mpa_pad(n) < 4);
		EXPECT_EQ(mpa_fpdu_bytes(n) % 4, 0);
		EXPECT_EQ(mpa_fpdu_bytes(n) - mpa_pad(n), n + 6);
	}
}

TEST(test_rfc5044_4_3_markers)
{
	static const uint8_t good[] = { 0, 0, 0, 0x14 }, odd[] = { 0, 0, 0, 0x15 };
	static const uint8_t reserved[] = { 0, 1, 0, 0x14 };
	uint16_t back = 7;
	uint8_t bytes[MPA_MARKER_BYTES];
	struct rd r = rd_of(odd, sizeof(odd));
	struct wr w = wr_of(bytes, sizeof(bytes));

	EXPECT_EQ(mpa_marker_decode(&back, &r), MPA_ERR_MARKER);
	r = rd_of(good, 3);
	EXPECT_EQ(mpa_marker_decode(&back, &r), MPA_ERR_SHORT);
	EXPECT_EQ(back, 7);
	/* Reserved bits are sent as 0 and not looked at. */
	r = rd_of(reserved, sizeof(reserved));
	EXPECT_EQ(mpa_marker_decode(&back, &r), MPA_OK);
	EXPECT_EQ(back, 0x14);
	r = rd_of(good, sizeof(good));
	EXPECT_EQ(mpa_marker_decode(&back, &r), MPA_OK);
	EXPECT_EQ(back, 0x14);
	mpa_marker_encode(back, &w);
	EXPECT_MEM(bytes, good, sizeof(good));
}

/* A stream of FPDUs laid out byte by byte says the same as the arithmetic. */
TEST(test_rfc5044_4_3_where_markers_fall)
{
	static const uint32_t fpdus[] = { 8, 12, 484, 496, 504, 508, 512, 516, 1016, 1020, 65540 };

	for (uint64_t start = 0; start <= 2 * MPA_MARKER_EVERY; start += 4) {
		for (size_t i = 0; i < sizeof(fpdus) / sizeof(fpdus[0]); i++) {
			uint64_t at = start, field = start;
			uint32_t count = 0;

			for (uint32_t done = 0; done < fpdus[i]; done += 4, at += 4) {
				EXPECT_EQ(mpa_marker_distance(at) == 0, at % 512 == 0);
				if (at % 512 != 0)
					continue;
				EXPECT_EQ(mpa_marker_back(start, (uint32_t)(at - start)),
					  at == start ? 0 : at - field);
				field += at == start ? 4 : 0;
				count++;
				at += 4;
			}
			EXPECT_EQ(mpa_marker_front(start), field - start);
			EXPECT_EQ(mpa_marker_count(start, fpdus[i]), count);
			EXPECT_EQ(mpa_marked_bytes(start, fpdus[i]), at - start);
			EXPECT_EQ(mpa_marked_bytes(start % 512, fpdus[i]), at - start);
		}
	}
}

TEST(test_rfc5044_4_3_the_way_to_the_next_marker)
{
	for (uint32_t n = 1; n < 512; n++)
		EXPECT_EQ(mpa_marker_distance(n), 512 - n);
	EXPECT_EQ(mpa_marker_distance(0), 0);
	EXPECT_EQ(mpa_marker_distance(UINT64_C(512) << 40), 0);
	EXPECT_EQ(mpa_marker_distance((UINT64_C(512) << 40) - 4), 4);
	/* A marker right behind an FPDU is not its own. */
	EXPECT_EQ(mpa_marker_count(4, 508), 0);
	EXPECT_EQ(mpa_marker_count(4, 512), 1);
	EXPECT_EQ(mpa_marker_count(0, 508), 1);
	EXPECT_EQ(mpa_marker_count(0, 512), 2);
}
