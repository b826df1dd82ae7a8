/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lan/framing.h"

struct bed {
	struct lan_framing f;
	uint8_t bytes[LAN_FRAMING_ROOM];
	uint64_t empty;
};

static struct bed *bed_make(void)
{
	struct bed *b = calloc(1, sizeof(*b));

	REQUIRE(b != NULL);
	b->f.bytes = b->bytes;
	return b;
}

static void put(struct bed *b, const void *bytes, size_t length)
{
	struct span want = lan_framing_want(&b->f);

	REQUIRE(want.length >= length);
	memcpy(want.bytes, bytes, length);
	lan_framing_got(&b->f, length);
}

static void put_length(struct bed *b, uint32_t length)
{
	uint8_t head[LAN_FRAMING_BYTES];

	lan_framing_head(head, length);
	put(b, head, sizeof(head));
}

TEST(test_lan_framing_length_is_big_endian)
{
	static const uint8_t wanted[LAN_FRAMING_BYTES] = { 0, 1, 0x0f, 0xf3 };
	uint8_t head[LAN_FRAMING_BYTES];

	lan_framing_head(head, 0x10ff3);
	EXPECT_MEM(head, wanted, sizeof(head));
}

TEST(test_lan_framing_frame_comes_when_it_is_whole)
{
	struct bed *b = bed_make();
	struct span frame;

	put_length(b, 3);
	EXPECT_EQ(lan_framing_next(&b->f, &frame, &b->empty), WEFT_OK);
	EXPECT_EQ(frame.length, 0);
	put(b, "ab", 2);
	EXPECT_EQ(lan_framing_next(&b->f, &frame, &b->empty), WEFT_OK);
	EXPECT_EQ(frame.length, 0);
	put(b, "c", 1);
	EXPECT_EQ(lan_framing_next(&b->f, &frame, &b->empty), WEFT_OK);
	EXPECT_EQ(frame.length, 3);
	EXPECT_MEM(frame.bytes, "abc", 3);
	free(b);
}

TEST(test_lan_framing_empty_frames_are_left_out_and_counted)
{
	struct bed *b = bed_make();
	struct span frame;

	put_length(b, 0);
	put_length(b, 0);
	put_length(b, 1);
	put(b, "x", 1);
	EXPECT_EQ(lan_framing_next(&b->f, &frame, &b->empty), WEFT_OK);
	EXPECT_EQ(frame.length, 1);
	EXPECT_EQ(b->empty, 2);
	free(b);
}

TEST(test_lan_framing_length_that_no_frame_has_is_refused)
{
	struct bed *b = bed_make();
	struct span frame;

	put_length(b, LAN_FRAMING_MAX + 1);
	EXPECT_EQ(lan_framing_next(&b->f, &frame, &b->empty), WEFT_R_LAN_FRAMING);
	EXPECT_EQ(frame.length, 0);
	lan_framing_reset(&b->f);
	put_length(b, LAN_FRAMING_MAX);
	EXPECT_EQ(lan_framing_next(&b->f, &frame, &b->empty), WEFT_OK);
	free(b);
}

/* Frames of random lengths, in pieces of random lengths, are those that were sent. */
TEST(test_lan_framing_random_pieces)
{
	struct bed *b = bed_make();
	static uint8_t sent[1 << 20];
	size_t total = 0, at = 0, check = 0;
	struct span frame;
	struct prng p;

	p = (struct prng){ .state = 22 };
	while (total < sizeof(sent) - LAN_FRAMING_MAX - LAN_FRAMING_BYTES) {
		uint32_t length = prng_next(&p) % 8 == 0
					  ? LAN_FRAMING_MAX - (uint32_t)(prng_next(&p) % 5)
					  : 1 + (uint32_t)(prng_next(&p) % 300);

		lan_framing_head(sent + total, length);
		for (uint32_t i = 0; i < length; i++)
			sent[total + LAN_FRAMING_BYTES + i] = (uint8_t)(total + i);
		total += LAN_FRAMING_BYTES + length;
	}
	while (check < total) {
		struct span want = lan_framing_want(&b->f);
		size_t n = 1 + prng_next(&p) % 100000;

		EXPECT(want.length > 0);
		n = n < want.length ? n : want.length;
		n = n < total - at ? n : total - at;
		memcpy(want.bytes, sent + at, n);
		lan_framing_got(&b->f, n);
		at += n;
		for (;;) {
			EXPECT_EQ(lan_framing_next(&b->f, &frame, &b->empty), WEFT_OK);
			if (frame.length == 0)
				break;
			EXPECT_MEM(frame.bytes, sent + check + LAN_FRAMING_BYTES, frame.length);
			check += LAN_FRAMING_BYTES + frame.length;
		}
	}
	EXPECT_EQ(at, total);
	free(b);
}
