/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads on topologies in virtual time, and what their reports say. */
#include <string.h>

#include "fabric/topology_make.h"
#include "sim/fabric/fabric_load.h"
#include "test.h"

static const struct topology_plan star = { TOPOLOGY_FAT_TREE, { 8, 36 } };
static const struct topology_plan tree = { TOPOLOGY_FAT_TREE, { 64, 16 } };
static const struct topology_plan ring = { TOPOLOGY_RING, { 8 } };

static struct fabric_load_cfg cfg_of(enum fabric_load_kind kind, uint32_t load_percent)
{
	return (struct fabric_load_cfg){ .kind = kind,
					 .routing = FABRIC_UP_DOWN,
					 .seed = 1,
					 .messages = 50,
					 .bytes = 4096,
					 .load_percent = load_percent,
					 .lanes = 4,
					 .mbps = 100000 };
}

/* A copy; the lines of links are gone. */
static struct fabric_load_report run(const struct topology_plan *plan,
				     const struct fabric_load_cfg *cfg)
{
	struct fabric_load_report r;
	struct fabric_load *l;
	struct topology t;

	REQUIRE(topology_make(&t, plan) == WEFT_OK);
	REQUIRE(fabric_load_open(&l, &t, cfg) == WEFT_OK);
	topology_fini(&t);
	while (fabric_load_step(l))
		continue;
	r = *fabric_load_report(l);
	r.lines = NULL;
	fabric_load_close(l);
	return r;
}

static void expect_whole(const struct fabric_load_report *r)
{
	EXPECT(r->expected > 0);
	EXPECT_EQ(r->came, r->expected);
	EXPECT_EQ(r->times.count + r->probes.count, r->came);
	EXPECT_EQ(r->discards + r->relay_errors + r->others, 0);
	EXPECT_EQ(r->deadlock[0], '\0');
}

TEST(test_fab_13_workloads_on_any_topology_come_whole_whatever_their_load)
{
	static const struct topology_plan plans[] = { { TOPOLOGY_FAT_TREE, { 12, 4 } },
						      { TOPOLOGY_TORUS, { 3, 3 } },
						      { TOPOLOGY_DRAGONFLY, { 1 } },
						      { TOPOLOGY_RING, { 5 } } };

	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
		for (uint32_t kind = 0; kind <= FABRIC_LOAD_STORAGE; kind++)
			for (uint32_t load = 40; load <= 400; load *= 10) {
				struct fabric_load_cfg cfg = cfg_of((enum fabric_load_kind)kind,
								    load);
				struct fabric_load_report r;

				cfg.bytes = 10000;
				cfg.messages = 20;
				cfg.probes = 5;
				cfg.is_cut_through = kind & 1;
				harness_note("plan %zu, kind %u, load %u", i, kind, load);
				r = run(&plans[i], &cfg);
				expect_whole(&r);
				EXPECT(r.waits > 0 || load < 100 || kind != FABRIC_LOAD_INCAST);
			}
}

/*
 * A frame of 4130 bytes is 47 flits of 8 ns; there are two cables of 25 ns, a switch of 100 ns.
 */
TEST(test_fab_18_a_message_alone_takes_the_time_of_its_flits_cables_and_switches)
{
	struct fabric_load_cfg cfg = cfg_of(FABRIC_LOAD_PERMUTATION, 1);
	struct fabric_load_report r = run(&star, &cfg);

	EXPECT_EQ(r.times.least_ns, 2 * (47 * 8 + 25) + 100);
	EXPECT(r.times.most_ns <= r.times.least_ns + 2 * 8); /* behind acknowledgements */
	EXPECT_EQ(r.flits, UINT64_C(8) * 50 * 47 * 2);
	EXPECT_EQ(r.frames, 8 * 50 * 2);
	cfg.is_cut_through = true;
	r = run(&star, &cfg);
	EXPECT_EQ(r.times.least_ns, 47 * 8 + 8 + 2 * 25 + 100);
	cfg.bytes = 8192; /* two frames, one behind the other */
	cfg.is_cut_through = false;
	r = run(&star, &cfg);
	EXPECT_EQ(r.times.least_ns, 3 * 47 * 8 + 2 * 25 + 100);
}

TEST(test_fab_load_is_what_was_asked_for)
{
	struct fabric_load_cfg cfg = cfg_of(FABRIC_LOAD_PERMUTATION, 50);
	const struct fabric_load_report *r;
	struct fabric_load *l;
	struct topology t;
	uint32_t loaded = 0;

	cfg.messages = 400;
	REQUIRE(topology_make(&t, &star) == WEFT_OK);
	REQUIRE(fabric_load_open(&l, &t, &cfg) == WEFT_OK);
	while (fabric_load_step(l))
		continue;
	r = fabric_load_report(l);
	EXPECT_EQ(r->line_count, 16);
	for (uint32_t i = 0; i < r->line_count; i++)
		loaded += r->lines[i].share > 0.48 && r->lines[i].share < 0.52;
	EXPECT_EQ(loaded, 16);
	fabric_load_close(l);
	topology_fini(&t);
}

TEST(test_fab_load_the_same_seed_has_the_same_history)
{
	struct fabric_load_cfg cfg = cfg_of(FABRIC_LOAD_STORAGE, 90);
	struct fabric_load_report a = run(&tree, &cfg), b = run(&tree, &cfg), other;

	expect_whole(&a);
	EXPECT_MEM(&a, &b, sizeof(a));
	cfg.seed = 2;
	other = run(&tree, &cfg);
	EXPECT(other.times.sum_ns != a.times.sum_ns);
}

/* 63 endnodes send the first one three times what its link carries. */
TEST(test_fab_s2_fab_12_fab_13_a_priority_lane_keeps_its_latency_in_an_incast)
{
	struct fabric_load_cfg cfg = cfg_of(FABRIC_LOAD_INCAST, 10);
	struct fabric_load_report idle, busy, mixed;

	cfg.probes = 20;
	idle = run(&tree, &cfg);
	cfg.load_percent = 300;
	busy = run(&tree, &cfg);
	expect_whole(&busy);
	EXPECT(busy.times.sum_ns / busy.times.count > 20 * idle.times.sum_ns / idle.times.count);
	EXPECT(busy.probes.sum_ns / busy.probes.count < 2 * idle.probes.sum_ns / idle.probes.count);
	cfg.lanes = 1; /* then probes wait behind all others */
	mixed = run(&tree, &cfg);
	EXPECT(mixed.probes.sum_ns > 10 * busy.probes.sum_ns);
}

TEST(test_fab_s2_a_ring_that_deadlocks_by_fewest_hops_is_free_with_up_down)
{
	struct fabric_load_cfg cfg = cfg_of(FABRIC_LOAD_PERMUTATION, 300);
	struct fabric_load_report r;

	cfg.seed = 3;
	cfg.messages = 200;
	cfg.lanes = 1;
	cfg.routing = FABRIC_MIN_HOP;
	r = run(&ring, &cfg);
	EXPECT(r.came < r.expected);
	EXPECT(strstr(r.deadlock, "deadlock: 8 ports") != NULL);
	cfg.routing = FABRIC_UP_DOWN;
	r = run(&ring, &cfg);
	expect_whole(&r);
}

/* The cable of the second endnode is a 48th as fast as the other. */
TEST(test_fab_load_cables_have_the_rates_that_the_topology_tells)
{
	static const char text[] = "Switch 4 \"S1\"\n[1] \"H1\"[1] # 4xEDR\n[2] \"H2\"[1] # 1xSDR\n"
				   "Ca 1 \"H1\"\nCa 1 \"H2\"\n";
	struct fabric_load_cfg cfg = cfg_of(FABRIC_LOAD_PERMUTATION, 1);
	const struct fabric_load_report *r;
	struct fabric_load *l;
	struct topology t;
	uint32_t line;

	REQUIRE(topology_parse(&t, text, sizeof(text) - 1, &line) == WEFT_OK);
	REQUIRE(fabric_load_open(&l, &t, &cfg) == WEFT_OK);
	while (fabric_load_step(l))
		continue;
	r = fabric_load_report(l);
	EXPECT_EQ(r->mbps, 4 * 24242);
	EXPECT(r->times.least_ns > 49 * 47 * 8 && r->times.least_ns < 51 * 47 * 8);
	fabric_load_close(l);
	topology_fini(&t);
}

TEST(test_fab_load_quantiles_are_of_slots)
{
	struct fabric_load_times t = { .count = 100, .most_ns = 5000 };

	EXPECT_EQ(fabric_load_slot_ns(0), 0);
	EXPECT_EQ(fabric_load_slot_ns(8), 8);
	EXPECT_EQ(fabric_load_slot_ns(16), 16);
	EXPECT_EQ(fabric_load_slot_ns(17), 18);
	t.slots[8] = 90;
	t.slots[17] = 9;
	t.slots[80] = 1;
	EXPECT_EQ(fabric_load_quantile(&t, 900), 8);
	EXPECT_EQ(fabric_load_quantile(&t, 901), 19);
	EXPECT_EQ(fabric_load_quantile(&t, 990), 19);
	EXPECT_EQ(fabric_load_quantile(&t, 1000), 4607);
}

TEST(test_fab_load_needs_two_endnodes)
{
	static const char text[] = "Switch 4 \"S1\"\n[1] \"H1\"[1]\nCa 1 \"H1\"\nCa 1 \"H2\"\n";
	struct fabric_load_cfg cfg = cfg_of(FABRIC_LOAD_ALL_TO_ALL, 50);
	struct fabric_load *l;
	struct topology t;
	uint32_t line;

	REQUIRE(topology_parse(&t, text, sizeof(text) - 1, &line) == WEFT_OK);
	EXPECT_EQ(fabric_load_open(&l, &t, &cfg), WEFT_R_TOPOLOGY_LIMIT);
	EXPECT(l == NULL);
	topology_fini(&t);
}
