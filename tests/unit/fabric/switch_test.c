/* SPDX-License-Identifier: BSD-2-Clause */
/* One switch with endnodes around it. Endnode i has LID i + 1 and is at port i + 1. */
#include <string.h>

#include "unit/fabric/fabric_bed.h"

enum { LARGE = 4096, SMALL = 8, ENDS_MAX = 8, GROUP = IBA_LID_MULTICAST_MIN + 1 };

struct star {
	struct fabric_net *net;
	uint32_t count, ends[ENDS_MAX], cables[ENDS_MAX], hub;
	struct fabric_switch *sw;
};

static struct star star_open(uint32_t count)
{
	struct star s = { .net = bed_open(), .count = count };

	for (uint32_t i = 0; i < count; i++)
		s.ends[i] = bed_end(s.net);
	s.hub = bed_switch(s.net, count);
	s.sw = &s.net->nodes[s.hub].sw;
	for (uint32_t i = 0; i < count; i++) {
		s.cables[i] = bed_join(s.net, s.ends[i], 1, s.hub, i + 1);
		fabric_net_route(s.net, s.ends[i], (uint16_t)(i + 1));
	}
	bed_rest(s.net);
	return s;
}

/* Of level 0, or of another. */
static bool post(const struct star *s, uint32_t from, uint16_t to, uint8_t level, uint32_t bytes)
{
	uint8_t frame[IBA_FRAME_MAX];

	return fabric_net_post(s->net, s->ends[from], frame,
			       bed_frame(frame, (uint16_t)(from + 1), to, level, bytes));
}

static uint32_t take_all(const struct star *s, uint32_t end)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t taken = 0;

	while (fabric_net_take(s->net, s->ends[end], frame) > 0)
		taken++;
	return taken;
}

static struct fabric_link *end_link(const struct star *s, uint32_t end)
{
	return fabric_net_link(s->net, (struct fabric_net_port){ s->ends[end], 1 });
}

TEST(test_fab_15_a_frame_goes_by_its_lid_and_is_not_modified)
{
	struct star s = star_open(3);
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX];
	uint32_t length = bed_frame(sent, 1, 3, 0, 1000);

	EXPECT(fabric_net_post(s.net, s.ends[0], sent, length));
	bed_rest(s.net);
	EXPECT_EQ(take_all(&s, 1), 0);
	EXPECT_EQ(fabric_net_take(s.net, s.ends[2], came), length);
	EXPECT_MEM(came, sent, length);
	bed_close(s.net);
}

/* The service level says the lane of each link; lane and VCRC are all that changes. */
TEST(test_fab_11_a_frame_keeps_its_level_and_each_link_has_a_lane_for_it)
{
	struct star s = star_open(2);
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX];
	uint32_t length = bed_frame(sent, 1, 2, 5, 1000);
	struct iba_lrh h;

	s.net->nodes[s.ends[0]].end.lane_of[5] = 1;
	s.sw->ports[2].lane_of[5] = 3;
	EXPECT(fabric_net_post(s.net, s.ends[0], sent, length));
	EXPECT_EQ(sent[0], 0x10);
	bed_rest(s.net);
	EXPECT(end_link(&s, 1)->in[3].taken == flits_of(length) &&
	       end_link(&s, 1)->in[1].taken == 0);
	EXPECT_EQ(fabric_net_take(s.net, s.ends[1], came), length);
	EXPECT_EQ(iba_lrh_decode(&h, came, length), WEFT_OK);
	EXPECT(h.lane == 3 && h.level == 5);
	EXPECT_MEM(came + 1, sent + 1, length - 3);
	bed_close(s.net);
}

TEST(test_fab_18_what_no_table_has_is_counted_and_stops_no_other)
{
	struct star s = star_open(2);

	EXPECT(post(&s, 0, 40, 0, SMALL));    /* in no table */
	EXPECT(post(&s, 0, 1000, 0, SMALL));  /* beyond it */
	EXPECT(post(&s, 0, GROUP, 0, SMALL)); /* a group of none */
	EXPECT(post(&s, 0, GROUP + 99, 0, SMALL));
	EXPECT(post(&s, 0, 1, 0, SMALL)); /* back where it came from */
	EXPECT(post(&s, 0, 2, 0, SMALL));
	bed_rest(s.net);
	EXPECT(s.sw->ports[1].relay_errors == 5 && s.sw->ports[2].relay_errors == 0);
	EXPECT_EQ(take_all(&s, 1), 1);
	EXPECT_EQ(fabric_lane_room(&s.sw->ports[1].link.in[0]), BED_BLOCKS);
	bed_close(s.net);
}

TEST(test_fab_11_a_level_without_a_lane_goes_no_further)
{
	struct star s = star_open(2);

	s.sw->ports[2].lane_of[7] = BED_LANES;
	EXPECT(post(&s, 0, 2, 7, SMALL));
	s.sw->ports[2].lane_of[6] = IBA_LANE_MANAGEMENT; /* not for data */
	EXPECT(post(&s, 0, 2, 6, SMALL));
	bed_rest(s.net);
	EXPECT(take_all(&s, 1) == 0 && s.sw->ports[1].relay_errors == 2);
	bed_close(s.net);
}

TEST(test_fab_15_a_multicast_frame_leaves_by_every_port_of_its_group_but_its_own)
{
	struct star s = star_open(4);

	s.sw->multicast[GROUP - IBA_LID_MULTICAST_MIN] = 0x1e & ~(1U << 3); /* ports 1, 2, 4 */
	for (int i = 0; i < 20; i++) {
		EXPECT(post(&s, 0, GROUP, 0, LARGE));
		bed_rest(s.net);
		EXPECT(take_all(&s, 0) == 0 && take_all(&s, 1) == 1);
		EXPECT(take_all(&s, 2) == 0 && take_all(&s, 3) == 1);
	}
	EXPECT_EQ(fabric_lane_room(&s.sw->ports[1].link.in[0]), BED_BLOCKS);
	bed_close(s.net);
}

/* Two frames for one output, on one lane: one passes whole, then the other. */
TEST(test_fab_14_frames_of_a_lane_pass_whole_one_after_the_other)
{
	struct star s = star_open(3);
	uint64_t flits = flits_of(8 + 12 + 8 + LARGE + 6);

	EXPECT(post(&s, 0, 3, 0, LARGE) && post(&s, 1, 3, 0, LARGE));
	while (end_link(&s, 2)->counts.flits_taken < flits)
		EXPECT(fabric_net_step(s.net));
	EXPECT_EQ(end_link(&s, 2)->counts.frames_taken, 1);
	bed_rest(s.net);
	EXPECT_EQ(take_all(&s, 2), 2);
	bed_close(s.net);
}

/* On two lanes they share the link. */
TEST(test_fab_10_frames_of_two_lanes_share_a_link)
{
	struct star s = star_open(3);
	uint64_t flits = flits_of(8 + 12 + 8 + LARGE + 6);

	s.net->nodes[s.ends[1]].end.lane_of[1] = s.sw->ports[3].lane_of[1] = 1;
	EXPECT(post(&s, 0, 3, 0, LARGE) && post(&s, 1, 3, 1, LARGE));
	while (end_link(&s, 2)->counts.flits_taken < flits)
		EXPECT(fabric_net_step(s.net));
	EXPECT_EQ(end_link(&s, 2)->counts.frames_taken, 0);
	bed_close(s.net);
}

/* Seven endnodes send to the eighth: nothing is lost, and each has its share. */
TEST(test_fab_13_overload_is_back_pressure_and_never_loss)
{
	struct star s = star_open(ENDS_MAX);
	uint32_t posted[ENDS_MAX] = { 0 }, taken = 0, each = 40, rounds = 0;

	while (taken < each * (ENDS_MAX - 1)) {
		for (uint32_t i = 1; i < ENDS_MAX; i++)
			while (posted[i] < each && post(&s, i, 1, 0, LARGE))
				posted[i]++;
		bed_run(s.net, 50000);
		taken += take_all(&s, 0);
		if (taken > each && taken < 2 * each)
			for (uint32_t i = 1; i < ENDS_MAX; i++)
				EXPECT(posted[i] > 0 && posted[i] < each);
		EXPECT(++rounds < 1000);
	}
	for (uint32_t i = 0; i < ENDS_MAX; i++)
		EXPECT(s.sw->ports[i + 1].relay_errors + s.sw->ports[i + 1].discards == 0);
	EXPECT_EQ(taken, each * (ENDS_MAX - 1));
	bed_close(s.net);
}

TEST(test_fab_20_frames_for_a_link_that_is_down_are_discarded)
{
	struct star s = star_open(3);

	fabric_net_pull(s.net, s.cables[2]);
	EXPECT(post(&s, 0, 3, 0, LARGE) && post(&s, 0, 2, 0, LARGE));
	bed_rest(s.net);
	EXPECT(take_all(&s, 1) == 1 && s.sw->ports[3].discards == 1);
	fabric_net_plug(s.net, s.cables[2]);
	EXPECT(post(&s, 0, 3, 0, LARGE));
	bed_rest(s.net);
	EXPECT_EQ(take_all(&s, 2), 1);
	bed_close(s.net);
}

/* How long a small frame of level 1 takes from endnode 1 to endnode 0. */
static uint64_t latency_ns(struct star *s)
{
	uint64_t begin_ns = s->net->world.now_ns;
	uint64_t before = end_link(s, 0)->in[1].taken;

	REQUIRE(post(s, 1, 1, 1, SMALL));
	while (end_link(s, 0)->in[1].taken == before)
		REQUIRE(fabric_net_step(s->net));
	(void)take_all(s, 0);
	return s->net->world.now_ns - begin_ns;
}

static void bulk(const struct star *s)
{
	for (uint32_t i = 2; i < s->count; i++)
		while (post(s, i, 1, 0, LARGE))
			continue;
	bed_run(s->net, 20000);
	(void)take_all(s, 0);
}

TEST(test_fab_s2_a_priority_lane_keeps_its_latency_under_saturation)
{
	struct star s = star_open(5);
	struct fabric_turns first = { .lanes = { 1 }, .weights = { 255 } };
	uint64_t idle_ns, busy_ns = 0;

	s.net->nodes[s.ends[1]].end.lane_of[1] = s.sw->ports[1].lane_of[1] = 1;
	s.sw->ports[1].link.arbiter.high = first;
	s.sw->ports[1].link.arbiter.low.weights[1] = 0;
	fabric_arbiter_settle(&s.sw->ports[1].link.arbiter);
	idle_ns = latency_ns(&s);
	for (int i = 0; i < 20; i++) {
		uint64_t ns;

		bulk(&s);
		ns = latency_ns(&s);
		busy_ns = ns > busy_ns ? ns : busy_ns;
	}
	harness_note("%u ns idle, %u ns at most", (unsigned int)idle_ns, (unsigned int)busy_ns);
	EXPECT(busy_ns <= 2 * idle_ns);
	bed_close(s.net);
}
