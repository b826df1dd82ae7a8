/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Orders: Read Requests find their entry by number, in whatever order they come (IWARP-05,
 * IWARP-S2); segments of a Write their place (IWARP-10).
 */
#include "iwarp_peer.h"

#include <string.h>

/* Each reads other bytes, so that the answers tell them apart. */
static void ask(struct iwarp_bed *b, uint32_t tag, uint32_t msn)
{
	b->msn[RDMAP_QN_REQUEST] = msn - 1;
	peer_read(b, tag, addr_of(b, msn * 64), 8);
}

static void expect_answer(struct iwarp_bed *b, uint32_t msn)
{
	const struct frame *f = expect_frame(b, RDMAP_READ_RESPONSE);

	EXPECT_EQ(f->bytes, 8);
	EXPECT_MEM(f->payload, b->memory + msn * 64, 8);
}

static const struct setup three = {
	.terms = { .is_initiator = true, .has_crc = true, .ird = 3 },
};

TEST(test_iwarp_05_iwarp_s2_numbers_inside_the_queue_are_served_in_order)
{
	static const uint32_t orders[][3] = { { 1, 3, 2 }, { 2, 1, 3 }, { 2, 3, 1 },
					      { 3, 1, 2 }, { 3, 2, 1 }, { 1, 2, 3 } };

	for (size_t i = 0; i < 6; i++) {
		for (struct iwarp_bed *b = bed_first(&three); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

			for (uint32_t round = 0; round < 3; round++) {
				for (int k = 0; k < 3; k++)
					ask(b, tag, 3 * round + orders[i][k]);
				bed_move(b);
				for (uint32_t msn = 1; msn <= 3; msn++)
					expect_answer(b, 3 * round + msn);
				EXPECT_EQ(peer_left(b), 0);
			}
		}
	}
}

/* What is missing is waited for: nothing is answered past it. */
TEST(test_iwarp_05_a_gap_holds_the_answers_behind_it)
{
	for (struct iwarp_bed *b = bed_first(&three); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

		ask(b, tag, 2);
		ask(b, tag, 3);
		bed_move(b);
		EXPECT_EQ(peer_left(b), 0);
		ask(b, tag, 1);
		bed_move(b);
		for (uint32_t msn = 1; msn <= 3; msn++)
			expect_answer(b, msn);
	}
}

TEST(test_iwarp_05_iwarp_s2_a_number_beyond_the_queue_terminates)
{
	for (struct iwarp_bed *b = bed_first(&three); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

		ask(b, tag, 2);
		ask(b, tag, 4);
		expect_refused(b, &(struct stream_end){ WEFT_R_DDP_MSN, { 1, 2, 3 }, HEADERS_DDP });
	}
}

TEST(test_iwarp_05_a_number_that_is_here_already_terminates)
{
	for (struct iwarp_bed *b = bed_first(&three); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

		ask(b, tag, 2);
		ask(b, tag, 2);
		expect_refused(b, &(struct stream_end){ WEFT_R_DDP_MSN, { 1, 2, 3 }, HEADERS_DDP });
	}
}

/* ---- Segments of one Write ------------------------------------------------------------------ */

enum { PARTS = 4, ORDERS = 24, PART_BYTES = 1500, WRITE_AT = 4096 };

/* The n-th order of the parts. */
static void order_make(uint32_t n, uint32_t order[PARTS])
{
	uint32_t left[PARTS];

	for (uint32_t i = 0; i < PARTS; i++)
		left[i] = i;
	for (uint32_t i = PARTS; i > 0; n /= i, i--) {
		uint32_t at = n % i;

		order[PARTS - i] = left[at];
		memmove(left + at, left + at + 1, (PARTS - 1 - at) * sizeof(left[0]));
	}
}

/* Small ones pass through the buffer, large ones are received in place; and both in turn. */
static uint32_t part_bytes(uint32_t part, uint32_t kind)
{
	return kind == 0 || (kind == 2 && part % 2) ? 40 : PART_BYTES;
}

/* The last one to come ends the message, wherever it is placed. */
static void put_parts(struct iwarp_bed *b, uint32_t tag, const uint32_t order[PARTS], uint32_t kind)
{
	uint8_t bytes[PART_BYTES];

	for (uint32_t i = 0; i < PARTS; i++) {
		size_t at = WRITE_AT + (size_t)order[i] * PART_BYTES;
		struct ddp_tagged h = tagged(RDMAP_WRITE, tag, addr_of(b, at));

		h.is_last = i == PARTS - 1;
		memset(bytes, (int)(0xa0 + order[i]), sizeof(bytes));
		peer_tagged(b, &h, bytes, part_bytes(order[i], kind));
		memcpy(b->shadow + at, bytes, part_bytes(order[i], kind));
	}
}

/* IWARP-10: where a segment belongs says its own offset, not that of the one before it. */
TEST(test_iwarp_10_segments_of_a_write_are_placed_in_any_order)
{
	for (uint32_t n = 0; n < ORDERS * 3; n++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
			uint32_t order[PARTS];

			order_make(n / 3, order);
			bed_receive(b, tag, 0, 64);
			put_parts(b, tag, order, n % 3);
			bed_move(b);
			EXPECT(is_unchanged(b));
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
			EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 1);
			expect_no_completion(b);
			peer_send(b, RDMAP_SEND, 0, NULL, 0);
			bed_move(b);
			expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		}
	}
}

/* TOUCH-01: a one-touch window lives until the last of them has come, whichever that is. */
TEST(test_iwarp_10_touch_01_a_one_touch_window_lives_until_the_last_of_any_order)
{
	for (uint32_t n = 0; n < ORDERS; n++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			const struct weft_bind bind = {
				.addr = addr_of(b, WRITE_AT),
				.length = PARTS * PART_BYTES,
				.rights = WEFT_REMOTE_WRITE,
				.is_one_touch = true,
			};
			uint32_t tag = bed_window(b, &bind), order[PARTS];

			order_make(n, order);
			put_parts(b, tag, order, 2);
			bed_move(b);
			EXPECT(is_unchanged(b));
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
			EXPECT_EQ(b->adapter.mem.entries[weft_tag_index(tag)].state, MEM_RESERVED);
		}
	}
}
