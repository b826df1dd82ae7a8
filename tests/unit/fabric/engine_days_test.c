/* SPDX-License-Identifier: BSD-2-Clause */
/* Bad days of whole fabrics: damage, overload, loops, deadlocks, switches that die. */
#include <string.h>

#include "unit/fabric/engine_bed.h"

enum { LARGE = 4096, SMALL = 8, RING = 4, GROUP = IBA_LID_MULTICAST_MIN + 3 };

static const struct topology_plan star = { TOPOLOGY_FAT_TREE, { 4, 4 } };
static const struct topology_plan tree = { TOPOLOGY_FAT_TREE, { 16, 4 } };
static const struct topology_plan ring = { TOPOLOGY_RING, { RING } };

static struct fabric_node *node_at(struct engine_bed *b, uint32_t node)
{
	return fabric_node_at(b->f, node);
}

static uint64_t discards_of(struct engine_bed *b)
{
	uint64_t sum = 0;

	for (uint32_t node = 0; node < b->nodes; node++)
		for (uint32_t port = 1; port <= node_at(b, node)->cfg.ports; port++)
			sum += node_at(b, node)->ports[port].counts.transmit_discards;
	return sum;
}

/* Posts and takes until all have come, or time is over; the numbers in them are in order. */
static uint32_t stream(struct engine_bed *b, uint32_t from, uint32_t to, uint32_t frames)
{
	uint32_t posted = 0, taken = 0;

	for (uint32_t round = 0; round < 100000 && taken < frames; round++) {
		uint8_t came[IBA_FRAME_MAX];

		while (posted < frames && engine_bed_post(b, from, to, 0, 8 + 3 * posted))
			posted++;
		engine_bed_pass(b, 100000);
		while (fabric_take(b->f, b->ends[to], 1, came) > 0) {
			struct iba_frame f;
			uint32_t length = 8 + 3 * taken + 34 + (0 - 3 * taken % 4) % 4;

			REQUIRE(iba_frame_decode_inner(&f, came, length) == WEFT_OK);
			taken++;
		}
	}
	return taken;
}

TEST(test_fab_07_fab_05_frames_pass_cables_that_damage_bits_whole_and_in_order)
{
	for (int is_timed = 0; is_timed < 2; is_timed++) {
		struct fabric_cfg cfg = is_timed ? engine_bed_timed() : fabric_cfg_live();
		struct engine_bed b = engine_bed_make(star, &cfg);
		uint32_t cable = fabric_cable_at(b.f, b.ends[0], 1);
		const struct fabric_node_port *p;

		harness_note("timed %d", is_timed);
		fabric_errors(b.f, cable, 20000);
		EXPECT_EQ(stream(&b, 0, 1, 300), 300);
		p = &node_at(&b, b.switches[0])->ports[1];
		EXPECT(p->counts.symbol_errors > 10 && p->counts.receive_errors == 0);
		fabric_errors(b.f, cable, 0);
		engine_bed_rest(&b);
		EXPECT_EQ(stream(&b, 0, 1, 300), 300);
		EXPECT_EQ(discards_of(&b), 0);
		engine_bed_close(&b);
	}
}

/* Of all ports but one. */
static uint64_t integrity_elsewhere(struct engine_bed *b, const struct fabric_node_port *but)
{
	uint64_t sum = 0;

	for (uint32_t node = 0; node < b->nodes; node++) {
		for (uint32_t port = 1; port <= node_at(b, node)->cfg.ports; port++) {
			const struct fabric_node_port *p = &node_at(b, node)->ports[port];

			sum += p == but ? 0 : p->counts.integrity_errors;
		}
	}
	return sum;
}

TEST(test_fab_07_a_link_that_damages_more_than_its_port_allows_is_an_integrity_error)
{
	enum { NOW_AND_THEN = 1000000, MOSTLY = 1000 };
	struct fabric_cfg cfg = engine_bed_timed();
	struct engine_bed b = engine_bed_make(star, &cfg);
	uint32_t cable = fabric_cable_at(b.f, b.ends[0], 1);
	const struct fabric_node_port *p = &node_at(&b, b.switches[0])->ports[1];
	uint64_t others;

	fabric_errors(b.f, cable, NOW_AND_THEN);
	EXPECT_EQ(stream(&b, 0, 1, 1000), 1000);
	(void)node_at(&b, b.switches[0]); /* settles what its links have counted */
	EXPECT(p->counts.symbol_errors > 0);
	EXPECT_EQ(p->counts.integrity_errors, 0);
	fabric_errors(b.f, cable, MOSTLY);
	EXPECT_EQ(stream(&b, 0, 1, 30), 30);
	EXPECT(p->counts.integrity_errors > 0);
	others = integrity_elsewhere(&b, p);
	EXPECT_EQ(others, node_at(&b, b.ends[0])->ports[1].counts.integrity_errors);
	engine_bed_close(&b);
}

TEST(test_fab_05_a_link_whose_other_end_is_silent_is_told_once)
{
	enum { ALWAYS = 1 };
	struct fabric_cfg cfg = engine_bed_timed();
	struct engine_bed b = engine_bed_make(star, &cfg);
	struct fabric_node *n = node_at(&b, b.ends[0]);
	uint64_t tid;

	n->ports[1].info.sm_lid = n->ports[1].info.lid; /* traps go nowhere else */
	tid = n->tid;
	fabric_errors(b.f, fabric_cable_at(b.f, b.ends[0], 1), ALWAYS);
	EXPECT(engine_bed_post(&b, 0, 1, 0, SMALL));
	engine_bed_pass(&b, 100000000);
	EXPECT_EQ(n->tid, tid + 1);
	engine_bed_close(&b);
}

TEST(test_fab_13_overload_is_back_pressure_and_never_loss)
{
	enum { EACH = 40 };
	struct engine_bed b = engine_bed_make(tree, NULL);
	uint32_t posted[16] = { 0 }, taken = 0;

	for (uint32_t round = 0; round < 10000 && taken < 15 * EACH; round++) {
		uint8_t came[IBA_FRAME_MAX];

		for (uint32_t from = 1; from < 16; from++)
			while (posted[from] < EACH && engine_bed_post(&b, from, 0, 0, LARGE))
				posted[from]++;
		fabric_run(b.f, b.now_ns);
		taken += fabric_take(b.f, b.ends[0], 1, came) > 0; /* one at a time */
	}
	EXPECT_EQ(taken, 15 * EACH);
	EXPECT_EQ(discards_of(&b), 0);
	engine_bed_close(&b);
}

/* ---- Lifetimes ------------------------------------------------------------------------------- */

TEST(test_fab_13_what_waits_longer_than_its_port_allows_is_discarded_and_counted)
{
	enum { LIFE_131_US = 5, FRAMES = 30 };
	struct engine_bed b = engine_bed_make(star, NULL);
	struct fabric_node_port *to_1 = &node_at(&b, b.switches[0])->ports[2];
	uint32_t posted = 0;

	to_1->info.head_of_queue_life = LIFE_131_US;
	while (engine_bed_post(&b, 0, 1, 0, LARGE)) { /* its owner takes nothing */
		fabric_run(b.f, b.now_ns);
		REQUIRE(++posted < 1000);
	}
	engine_bed_pass(&b, 100000);
	EXPECT_EQ(discards_of(&b), 0);
	engine_bed_pass(&b, 10000000);
	EXPECT(node_at(&b, b.switches[0])->ports[2].counts.transmit_discards > 3);
	/* The way is free for others. */
	EXPECT(engine_bed_post(&b, 0, 2, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, 2), 1);
	EXPECT(engine_bed_take_all(&b, 1) < posted);
	engine_bed_close(&b);
}

/* ---- A loop ---------------------------------------------------------------------------------- */

/* The port of a switch that leads to the next one of the ring, or to the one before. */
static uint32_t port_to(struct engine_bed *b, uint32_t from, uint32_t to)
{
	for (uint32_t port = 1; port <= node_at(b, b->switches[from])->cfg.ports; port++) {
		uint32_t cable = fabric_cable_at(b->f, b->switches[from], port), node[2], ports[2];

		if (cable == FABRIC_NO_CABLE)
			continue;
		fabric_cable_ends(b->f, cable, node, ports);
		if (node[0] == b->switches[to] || node[1] == b->switches[to])
			return port;
	}
	return 0;
}

TEST(test_fab_18_frames_in_a_loop_of_tables_die_and_are_counted)
{
	for (int is_timed = 0; is_timed < 2; is_timed++) {
		struct fabric_cfg cfg = is_timed ? engine_bed_timed() : fabric_cfg_live();
		struct engine_bed b = engine_bed_make(ring, &cfg);
		uint16_t lid = engine_bed_lid(&b, 2);

		for (uint32_t i = 0; i < RING; i++)
			node_at(&b, b.switches[i])->linear[lid] = (uint8_t)port_to(&b, i,
										   (i + 1) % RING);
		for (uint32_t i = 0; i < 5; i++)
			EXPECT(engine_bed_post(&b, 0, 2, 0, LARGE));
		engine_bed_rest(&b);
		EXPECT_EQ(engine_bed_take_all(&b, 2), 0);
		EXPECT_EQ(discards_of(&b), 5);
		/* Others do not notice. */
		EXPECT_EQ(stream(&b, 0, 1, 20), 20);
		engine_bed_close(&b);
	}
}

/* ---- A ring that deadlocks ------------------------------------------------------------------- */

/* Room for two frames a lane. */
static struct engine_bed ring_make(void)
{
	struct fabric_cfg cfg = engine_bed_timed();

	cfg.link.lane_blocks = 2 * FABRIC_FRAME_FLITS;
	return engine_bed_make(ring, &cfg);
}

/*
 * Each endnode sends to the one two switches on, by the next switch. Levels are 1 where the way
 * passes from the last switch to the first, else 0. Returns how many frames came.
 */
static uint32_t ring_run(struct engine_bed *b, bool has_lanes, uint32_t posted[RING])
{
	uint32_t came = 0, idle = 0;

	for (uint32_t i = 0; i < RING; i++) {
		struct fabric_node *n = node_at(b, b->switches[i]);

		n->switch_info.life_time = 31;
		for (uint32_t port = 1; port <= n->cfg.ports; port++)
			n->ports[port].info.head_of_queue_life = 31;
		for (uint32_t to = 0; to < RING; to++)
			if (to != i)
				n->linear[engine_bed_lid(b, to)] = (uint8_t)port_to(b, i,
										    (i + 1) % RING);
	}
	while (idle < 100) {
		uint32_t before = came;

		for (uint32_t from = 0; from < RING; from++)
			while (posted[from] < 200 && engine_bed_post(b, from, (from + 2) % RING,
								     has_lanes && from >= 2, LARGE))
				posted[from]++;
		engine_bed_pass(b, 2000);
		for (uint32_t to = 0; to < RING; to++)
			came += engine_bed_take_all(b, to);
		idle = came > before ? 0 : idle + 1;
	}
	return came;
}

TEST(test_fab_s2_a_deadlock_in_a_ring_is_seen_and_explained_and_lanes_free_it)
{
	struct engine_bed b = ring_make();
	struct fabric_wait waits[8];
	uint32_t posted[RING] = { 0 };
	char text[2000];

	EXPECT_EQ(fabric_deadlock(b.f, waits, 8), 0);
	EXPECT(ring_run(&b, false, posted) < 4 * 200);
	EXPECT_EQ(fabric_deadlock(b.f, waits, 8), RING);
	for (uint32_t i = 0; i < RING; i++) {
		EXPECT_EQ(waits[i].lane, 0);
		EXPECT_EQ(waits[i].to_node, waits[(i + 1) % RING].node);
	}
	EXPECT_EQ(fabric_deadlock_text(b.f, text, sizeof(text)), RING);
	EXPECT(strstr(text, "deadlock: 4 ports") && strstr(text, "S1 port") &&
	       strstr(text, "S4 port") && strstr(text, "lane 0") && strstr(text, "up/down"));
	engine_bed_close(&b);

	b = ring_make();
	memset(posted, 0, sizeof(posted));
	EXPECT_EQ(ring_run(&b, true, posted), 4 * 200);
	EXPECT_EQ(fabric_deadlock_text(b.f, text, sizeof(text)), 0);
	EXPECT_EQ(text[0], '\0');
	engine_bed_close(&b);
}

TEST(test_fab_s2_a_deadlock_ends_when_frames_are_too_old)
{
	struct engine_bed b = ring_make();
	uint32_t posted[RING] = { 0 }, came = 0;
	struct fabric_wait waits[8];

	(void)ring_run(&b, false, posted);
	EXPECT_EQ(fabric_deadlock(b.f, waits, 8), RING);
	for (uint32_t i = 0; i < RING; i++)
		for (uint32_t port = 1; port <= 3; port++)
			node_at(&b, b.switches[i])->ports[port].info.head_of_queue_life = 5;
	for (uint32_t i = 0; i < RING; i++) /* what is stuck is looked at again */
		fabric_touch(b.f, b.switches[i]);
	engine_bed_pass(&b, 100000000);
	EXPECT(discards_of(&b) > 0);
	for (uint32_t i = 0; i < RING; i++)
		came += engine_bed_take_all(&b, i);
	engine_bed_pass(&b, 100000000);
	EXPECT_EQ(fabric_deadlock(b.f, waits, 8), 0);
	EXPECT(came > 0);
	engine_bed_close(&b);
}

/* ---- A switch that dies ---------------------------------------------------------------------- */

TEST(test_fab_20_a_switch_that_dies_takes_its_frames_and_no_more)
{
	struct engine_bed b = engine_bed_make(tree, NULL);
	uint32_t dead = b.switches[b.switch_count - 1], came = 0;
	uint64_t lost_there = 0;

	for (uint32_t port = 1; port <= node_at(&b, dead)->cfg.ports; port++) {
		uint32_t cable = fabric_cable_at(b.f, dead, port);

		if (cable != FABRIC_NO_CABLE)
			fabric_cut(b.f, cable);
	}
	engine_bed_rest(&b);
	REQUIRE(fabric_setup(b.f, FABRIC_UP_DOWN) == 0);
	for (uint32_t from = 0; from < b.end_count; from++)
		for (uint32_t to = 0; to < b.end_count; to++) {
			EXPECT(engine_bed_post(&b, from, to, 0, SMALL));
			engine_bed_pass(&b, 1000);
			came += engine_bed_take_all(&b, to);
		}
	EXPECT_EQ(came, b.end_count * b.end_count);
	/* The dead one has tried to tell its subnet manager. */
	for (uint32_t port = 1; port <= node_at(&b, dead)->cfg.ports; port++)
		lost_there += node_at(&b, dead)->ports[port].counts.transmit_discards;
	EXPECT_EQ(discards_of(&b), lost_there);
	engine_bed_close(&b);
}

/* ---- Multicast ------------------------------------------------------------------------------- */

TEST(test_fab_15_a_multicast_frame_comes_to_every_endnode_of_its_group_once)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	struct fabric_node *hub = node_at(&b, b.switches[0]);
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length = bed_frame(frame, engine_bed_lid(&b, 0), GROUP, 0, 1000);

	hub->multicast[GROUP - IBA_LID_MULTICAST_MIN] = 1 << 1 | 1 << 2 | 1 << 4;
	EXPECT(fabric_post(b.f, b.ends[0], 1, frame, length));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, 0), 0);
	EXPECT_EQ(engine_bed_take_all(&b, 1), 1);
	EXPECT_EQ(engine_bed_take_all(&b, 2), 0);
	EXPECT_EQ(engine_bed_take_all(&b, 3), 1);
	EXPECT_EQ(node_at(&b, b.switches[0])->ports[2].counts.multicast_transmit, 1);
	EXPECT_EQ(node_at(&b, b.switches[0])->ports[2].counts.unicast_transmit, 0);
	engine_bed_close(&b);
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* When a frame has come that is posted now. */
static uint64_t latency(struct engine_bed *b, uint32_t from, uint32_t to)
{
	uint64_t begin_ns = b->now_ns;

	REQUIRE(engine_bed_post(b, from, to, 0, LARGE));
	while (engine_bed_take_all(b, to) == 0) {
		engine_bed_pass(b, 10);
		REQUIRE(b->now_ns - begin_ns < 1000000000);
	}
	return b->now_ns - begin_ns;
}

/* A frame of 47 flits of 100 ns; four switches lie between the ends. */
TEST(test_fab_18_cut_through_waits_for_the_head_of_a_frame_and_not_for_its_tail)
{
	enum { FLITS = 47, FLIT_NS = 100, LINKS = 6, PER_HOP = 50 + 100 };
	struct fabric_cfg cfg = engine_bed_timed();
	struct engine_bed b = engine_bed_make(tree, &cfg);
	uint64_t stored_ns, through_ns;

	stored_ns = latency(&b, 0, 15);
	EXPECT(stored_ns > LINKS * FLITS * FLIT_NS);
	EXPECT(stored_ns < LINKS * (FLITS * FLIT_NS + PER_HOP) + 50);
	engine_bed_close(&b);
	cfg.is_cut_through = true;
	b = engine_bed_make(tree, &cfg);
	through_ns = latency(&b, 0, 15);
	EXPECT(through_ns > FLITS * FLIT_NS);
	EXPECT(through_ns < FLITS * FLIT_NS + LINKS * (FLIT_NS + PER_HOP) + 50);
	/* A slow link comes first: the next one cannot be faster than flits come. */
	fabric_degrade(b.f, fabric_cable_at(b.f, b.ends[0], 1), 4);
	through_ns = latency(&b, 0, 15);
	EXPECT(through_ns > 4 * FLITS * FLIT_NS);
	EXPECT(through_ns < 4 * FLITS * FLIT_NS + LINKS * (4 * FLIT_NS + PER_HOP) + 50);
	engine_bed_close(&b);
}
