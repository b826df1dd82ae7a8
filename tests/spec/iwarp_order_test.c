/* SPDX-License-Identifier: BSD-2-Clause */
/* IWARP-05, IWARP-S2: Read Requests find their entry by number, in whatever order they come. */
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
