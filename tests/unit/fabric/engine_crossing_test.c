/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that cross a fabric where nothing waits, and need not be posted (fabric/fabric.h). */
#include <string.h>

#include "unit/fabric/engine_bed.h"

enum { LARGE = 4096, SMALL = 8, LEVEL = 3 };

static const struct topology_plan star = { TOPOLOGY_FAT_TREE, { 4, 4 } };
static const struct topology_plan tree = { TOPOLOGY_FAT_TREE, { 16, 4 } };

/* A frame from endnode 0 to another; whether it may cross. */
static bool may_cross(struct engine_bed *b, const uint8_t *frame, uint32_t length,
		      struct fabric_crossing *c)
{
	*c = (struct fabric_crossing){ .node = b->ends[0], .port = 1 };
	return fabric_crossing_find(b->f, frame, length, c);
}

static uint32_t frame_of(struct engine_bed *b, uint8_t *frame, uint32_t to, uint32_t bytes)
{
	return bed_frame(frame, engine_bed_lid(b, 0), engine_bed_lid(b, to), LEVEL, bytes);
}

static bool crosses(struct engine_bed *b, uint32_t to, uint32_t bytes)
{
	uint8_t frame[IBA_FRAME_MAX];
	struct fabric_crossing c;

	return may_cross(b, frame, frame_of(b, frame, to, bytes), &c);
}

static void counts_compare(struct engine_bed *a, struct engine_bed *b)
{
	for (uint32_t node = 0; node < a->nodes; node++) {
		const struct fabric_node *na = fabric_node_at(a->f, node);
		const struct fabric_node *nb = fabric_node_at(b->f, node);

		for (uint32_t port = 1; port <= na->cfg.ports; port++) {
			const struct fabric_link *la = fabric_link_at(a->f, node, port);
			const struct fabric_link *lb = fabric_link_at(b->f, node, port);

			harness_note("port %u of node %u", port, node);
			EXPECT_MEM(&na->ports[port].counts, &nb->ports[port].counts,
				   sizeof(na->ports[port].counts));
			EXPECT_EQ(la ? la->counts.flits_sent : 0, lb ? lb->counts.flits_sent : 0);
			EXPECT_EQ(la ? la->counts.flits_taken : 0, lb ? lb->counts.flits_taken : 0);
		}
	}
}

/* Where they come out, on which lane, and what all ports on the way count. */
TEST(test_fab_15_frames_that_cross_come_out_and_are_counted_as_those_that_are_posted)
{
	struct engine_bed posted = engine_bed_make(tree, NULL);
	struct engine_bed crossed = engine_bed_make(tree, NULL);

	for (uint32_t to = 1; to < posted.end_count; to++) {
		uint8_t frame[IBA_FRAME_MAX], came[IBA_FRAME_MAX];
		uint32_t length = frame_of(&posted, frame, to, to * 100);
		struct fabric_crossing c;

		harness_note("to %u", to);
		EXPECT(may_cross(&crossed, frame, length, &c));
		EXPECT_EQ(c.node, crossed.ends[to]);
		EXPECT_EQ(c.port, 1);
		fabric_crossing_count(crossed.f, &c, 1, length / 4, flits_of(length));
		EXPECT(fabric_post(posted.f, posted.ends[0], 1, frame, length));
		engine_bed_rest(&posted);
		EXPECT_EQ(fabric_take(posted.f, posted.ends[to], 1, came), length);
		EXPECT_EQ(iba_lane(came), c.lane);
		engine_bed_rest(&posted);
	}
	counts_compare(&posted, &crossed);
	engine_bed_close(&posted);
	engine_bed_close(&crossed);
}

TEST(test_fab_15_frames_behind_one_that_waits_do_not_cross)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	uint32_t posted = 0;

	EXPECT(crosses(&b, 1, LARGE));
	EXPECT(engine_bed_post(&b, 2, 1, LEVEL, LARGE));
	engine_bed_rest(&b); /* it waits for its owner */
	EXPECT(!crosses(&b, 1, LARGE));
	EXPECT(crosses(&b, 3, LARGE));
	EXPECT_EQ(engine_bed_take_all(&b, 1), 1);
	EXPECT(crosses(&b, 1, LARGE));
	/* Until they wait in the switch, and where they were posted. */
	while (engine_bed_post(&b, 0, 1, LEVEL, LARGE)) {
		engine_bed_pass(&b, 0); /* so that none grows old */
		posted++;
	}
	EXPECT(!crosses(&b, 3, LARGE));
	while (engine_bed_take_all(&b, 1) > 0)
		engine_bed_pass(&b, 0);
	EXPECT(posted > 3 && crosses(&b, 3, LARGE));
	engine_bed_close(&b);
}

TEST(test_fab_15_only_data_for_one_endnode_crosses)
{
	enum { QP_AT = IBA_LRH_BYTES + 7 };
	struct engine_bed b = engine_bed_make(star, NULL);
	uint32_t length, leaf = b.switches[0];
	uint8_t frame[IBA_FRAME_MAX];
	struct fabric_crossing c;

	length = frame_of(&b, frame, 1, SMALL);
	EXPECT(may_cross(&b, frame, length, &c));
	frame[QP_AT] = 1; /* services */
	EXPECT(!may_cross(&b, frame, length, &c));
	frame[QP_AT] = 7;
	iba_lane_put(frame, IBA_LANE_MANAGEMENT);
	EXPECT(!may_cross(&b, frame, length, &c));
	length = bed_frame(frame, engine_bed_lid(&b, 0), 0xc001, LEVEL, SMALL);
	EXPECT(!may_cross(&b, frame, length, &c));
	length = bed_frame(frame, engine_bed_lid(&b, 0), 999, LEVEL, SMALL);
	EXPECT(!may_cross(&b, frame, length, &c)); /* no port has it */
	length = bed_frame(frame, engine_bed_lid(&b, 0),
			   fabric_node_at(b.f, leaf)->ports[0].info.lid, LEVEL, SMALL);
	EXPECT(!may_cross(&b, frame, length, &c)); /* of the switch */
	EXPECT(!may_cross(&b, frame, length - 1, &c));
	engine_bed_close(&b);
}

static void seen(void *of, const struct fabric_seen *frame)
{
	(void)of;
	(void)frame;
}

TEST(test_fab_07_frames_do_not_cross_where_a_cable_is_not_sound_or_a_capture_runs)
{
	struct fabric_cfg timed = engine_bed_timed();
	struct engine_bed b = engine_bed_make(star, NULL), t = engine_bed_make(star, &timed);
	uint32_t cable = fabric_cable_at(b.f, b.ends[1], 1);

	EXPECT(!crosses(&t, 1, SMALL));
	fabric_watch(b.f, seen, NULL);
	EXPECT(!crosses(&b, 1, SMALL));
	fabric_watch(b.f, NULL, NULL);
	EXPECT(crosses(&b, 1, SMALL));
	fabric_degrade(b.f, cable, 4);
	EXPECT(!crosses(&b, 1, SMALL));
	EXPECT(crosses(&b, 2, SMALL));
	fabric_degrade(b.f, fabric_cable_at(b.f, b.ends[2], 1), 4);
	fabric_degrade(b.f, fabric_cable_at(b.f, b.ends[2], 1), 1);
	EXPECT(!crosses(&b, 2, SMALL)); /* what left slowly may still be on its way */
	fabric_errors(b.f, fabric_cable_at(b.f, b.ends[3], 1), 1000);
	EXPECT(!crosses(&b, 3, SMALL));
	engine_bed_close(&b);
	b = engine_bed_make(star, NULL);
	fabric_cut(b.f, fabric_cable_at(b.f, b.ends[1], 1));
	engine_bed_rest(&b);
	EXPECT(!crosses(&b, 1, SMALL));
	EXPECT(crosses(&b, 2, SMALL));
	engine_bed_close(&b);
	engine_bed_close(&t);
}

/* Of the ports on the way: their state, MTU, lanes and P_Keys. */
TEST(test_fab_22_frames_cross_if_every_port_on_the_way_lets_them_pass)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	struct fabric_node *leaf = fabric_node_at(b.f, b.switches[0]);
	struct fabric_node *end = fabric_node_at(b.f, b.ends[1]);
	uint32_t node[2], port[2], out, length;
	uint8_t frame[IBA_FRAME_MAX];
	struct fabric_crossing c;

	fabric_cable_ends(b.f, fabric_cable_at(b.f, b.ends[1], 1), node, port);
	out = node[0] == b.switches[0] ? port[0] : port[1];
	EXPECT(crosses(&b, 1, LARGE));
	leaf->ports[out].info.mtu = 1; /* 256 bytes */
	EXPECT(!crosses(&b, 1, LARGE));
	EXPECT(crosses(&b, 1, SMALL));
	leaf->ports[out].info.enforces_out = true;
	EXPECT(crosses(&b, 1, SMALL));
	memset(leaf->ports[out].pkeys, 0, sizeof(leaf->ports[out].pkeys));
	EXPECT(!crosses(&b, 1, SMALL));
	leaf->ports[out].info.enforces_out = false;
	end->ports[1].info.lanes = 1; /* one lane: not that of the level */
	EXPECT(!crosses(&b, 1, SMALL));
	end->ports[1].info.lanes = leaf->ports[out].info.lanes;
	EXPECT(crosses(&b, 1, SMALL));
	end->ports[1].info.state = SM_PORT_ARMED;
	EXPECT(!crosses(&b, 1, SMALL));
	end->ports[1].info.state = SM_PORT_ACTIVE;
	length = frame_of(&b, frame, 1, SMALL);
	EXPECT(may_cross(&b, frame, length, &c));
	end->ports[1].info.lid += 64;
	EXPECT(!may_cross(&b, frame, length, &c)); /* the table leads to the wrong port */
	engine_bed_close(&b);
}
