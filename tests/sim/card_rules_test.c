/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds of a split network card, by what they show; and seeds in which a rule counts, which
 * tests/mutate/card_world.txt leaves out one by one. The swarm (card_swarm_test.c) found these; if
 * worlds draw otherwise one day, it finds others.
 */
#include "seeds.h"
#include "sim/card/card_world.h"
#include "test.h"

#define RUN(...)                                                                                   \
	do {                                                                                       \
		static const uint64_t seeds[] = { __VA_ARGS__ };                                   \
		seeds_run_each(SIM_CARD, seeds, sizeof(seeds) / sizeof(seeds[0]));                 \
	} while (0)

/* A world to its end, which is good. */
static void run(struct card_world *w, uint64_t seed, const struct cdw_choice *choice)
{
	REQUIRE(card_world_open(w, seed, choice) == 0);
	while (card_world_step(w))
		continue;
	EXPECT_STR(card_world_failure(w), "");
	card_world_close(w);
}

/* ---- Scenarios ------------------------------------------------------------------------------- */

/* The wires of RDMA mode: RoCE and iWARP. */
static const struct cdw_choice wires[] = {
	{ .has_wire = true,
	  .has_mode = true,
	  .has_model = true,
	  .wire = CDW_ROCE,
	  .mode = PUSH_MODE_RDMA,
	  .model = CDW_PUSH_PUSH,
	  .is_plain = true },
	{ .has_wire = true,
	  .has_mode = true,
	  .has_model = true,
	  .wire = CDW_IWARP,
	  .mode = PUSH_MODE_RDMA,
	  .model = CDW_PUSH_PUSH,
	  .is_plain = true },
};

/* Each packet is one Write with its 32 bits; no end asks for one. */
TEST(test_push_s1_push_23_packets_are_told_by_immediate_data_over_both_wires)
{
	for (int i = 0; i < 2; i++) {
		struct card_world w;

		run(&w, 1, &wires[i]);
		EXPECT(w.packets > 100);
		EXPECT_EQ(w.writes, w.packets);
		EXPECT_EQ(w.immediates, w.packets);
		EXPECT_EQ(w.messages[PUSH_PULL], 0);
		EXPECT_EQ(w.messages[PUSH_RDMA_INDICATE], 0);
	}
}

/* Both ways, in both modes. */
TEST(test_push_s2_push_07_packets_go_both_ways_in_both_modes)
{
	struct cdw_choice c = wires[0];
	struct card_world w;

	run(&w, 2, &c);
	EXPECT(w.came[0] > 50 && w.came[1] > 50);
	c.mode = PUSH_MODE_SEND;
	run(&w, 2, &c);
	EXPECT(w.came[0] > 50 && w.came[1] > 50);
	EXPECT_EQ(w.writes, 0);
	EXPECT_EQ(w.messages[PUSH_RECV_POOL], 0);
}

/* PUSH-S5: the same packets on the same wire; an end that is asked for each waits for that. */
TEST(test_push_s5_push_04_pushing_needs_fewer_messages_and_less_time)
{
	for (int i = 0; i < 2; i++) {
		struct card_world w[CDW_PULL_PULL + 1];
		uint64_t messages[CDW_PULL_PULL + 1] = { 0 };

		for (int model = 0; model <= CDW_PULL_PULL; model++) {
			struct cdw_choice c = wires[i];

			c.model = (enum cdw_model)model;
			run(&w[model], 3, &c);
			for (int f = 0; f < PUSH_FUNCTION_COUNT; f++)
				messages[model] += w[model].messages[f];
			EXPECT(w[model].packets > 100);
		}
		EXPECT(messages[CDW_PUSH_PUSH] * 2 < messages[CDW_PUSH_PULL]);
		EXPECT(messages[CDW_PUSH_PULL] < messages[CDW_PULL_PULL]);
		EXPECT(w[CDW_PUSH_PUSH].latency_ns * w[CDW_PUSH_PULL].packets <
		       w[CDW_PUSH_PULL].latency_ns * w[CDW_PUSH_PUSH].packets);
		EXPECT(w[CDW_PUSH_PULL].latency_ns * w[CDW_PULL_PULL].packets <
		       w[CDW_PULL_PULL].latency_ns * w[CDW_PUSH_PULL].packets);
	}
}

/* Judges that have nothing to judge find nothing. */
TEST(test_push_s3_push_s4_worlds_meet_all_that_can_happen)
{
	enum { SEEDS = 40 };
	uint64_t messages[PUSH_FUNCTION_COUNT] = { 0 }, immediates = 0, writes = 0, breaks = 0;
	uint64_t orderly = 0, stops = 0, resets = 0, many = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct card_world w;

		run(&w, seed, NULL);
		for (int f = 0; f < PUSH_FUNCTION_COUNT; f++)
			messages[f] += w.messages[f];
		immediates += w.immediates;
		writes += w.writes;
		breaks += w.breaks;
		orderly += w.orderly;
		stops += w.stops;
		resets += w.resets;
		many += w.limits.pools > PUSH_IMMEDIATE_POOLS;
	}
	for (int f = PUSH_RECV_POOL; f < PUSH_FUNCTION_COUNT; f++)
		EXPECT(messages[f] > 50);
	EXPECT(immediates > 1000 && writes - immediates > 1000);
	EXPECT(breaks > 0 && orderly > 50 && stops > 20 && resets > 10 && many > 3);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

TEST(test_push_17_card_nothing_is_under_way_at_a_release)
{
	RUN(6, 12, 26);
}

TEST(test_push_19_card_packets_are_told_in_order)
{
	RUN(15, 63, 65);
}

TEST(test_push_19_card_messages_do_not_overtake_writes)
{
	RUN(3, 11, 31);
}

TEST(test_push_09_card_packets_that_became_too_long_are_not_sent)
{
	RUN(15, 18, 23);
}

TEST(test_push_17_card_a_pool_goes_after_the_reply_to_its_flush)
{
	RUN(2, 5, 6);
}
