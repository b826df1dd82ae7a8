/* SPDX-License-Identifier: BSD-2-Clause */
/* What D3 says of flits, lanes and the crossbar, at switches of a fabric as one that runs has. */
#include <string.h>

#include "unit/fabric/engine_bed.h"
#include "wire/iba_aeth.h"
#include "wire/smp.h"

enum { A, B, C, MTU = 256, MESSAGE = 2 * MTU, LARGE = 4096, SMALL = 8, FLIT_NS = 100, SL = 5 };

/* ---- FAB-S1: endnode, two switches, endnode -------------------------------------------------- */

static const char chain[] = "Switch 4 \"S1\"\n[1] \"A\"[1]\n[2] \"S2\"[3]\n"
			    "Switch 4 \"S2\"\n[4] \"B\"[1]\n"
			    "Ca 1 \"A\"\nCa 1 \"B\"\n";

/* The six ends of links, in the order of the message's way: out and in of each hop. */
enum { ENDS = 6 };

struct counted {
	struct fabric_link_counts of[ENDS];
};

static struct counted count(struct engine_bed *b)
{
	const uint32_t ports[ENDS][2] = { { b->ends[A], 1 },	 { b->switches[0], 1 },
					  { b->switches[0], 2 }, { b->switches[1], 3 },
					  { b->switches[1], 4 }, { b->ends[B], 1 } };
	struct counted c;

	for (int i = 0; i < ENDS; i++)
		c.of[i] = fabric_link_at(b->f, ports[i][0], ports[i][1])->counts;
	return c;
}

/* Each hop from an even end to the next, or back, has sent so much since. */
static void expect_hops(struct engine_bed *b, const struct counted *was, bool is_back,
			uint64_t frames, uint64_t flits)
{
	struct counted now = count(b);

	for (int i = 0; i < ENDS; i += 2) {
		int out = i + is_back, in = i + !is_back;

		harness_note("hop %d%s", i / 2, is_back ? " back" : "");
		EXPECT_EQ(now.of[out].frames_sent - was->of[out].frames_sent, frames);
		EXPECT_EQ(now.of[out].flits_sent - was->of[out].flits_sent, flits);
		EXPECT_EQ(now.of[in].flits_taken - was->of[in].flits_taken, flits);
		EXPECT_EQ(now.of[in].acks_sent - was->of[in].acks_sent, 1);
		EXPECT_EQ(now.of[out].acks_taken - was->of[out].acks_taken, 1);
		EXPECT_EQ(now.of[out].acks_sent, was->of[out].acks_sent);
		EXPECT_EQ(now.of[in].flits_sent, was->of[in].flits_sent);
	}
}

static uint32_t rc_post(struct engine_bed *b, uint32_t from, uint32_t to, enum iba_op op,
			uint32_t psn)
{
	static const uint8_t payload[MTU];
	uint8_t bytes[IBA_FRAME_MAX];
	struct iba_frame f = {
		.lrh = { .from = engine_bed_lid(b, from), .to = engine_bed_lid(b, to) },
		.packet = { .opcode = iba_opcode(IBA_RC, op),
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 9,
			    .psn = psn,
			    .payload = payload,
			    .payload_bytes = op == IBA_ACKNOWLEDGE ? 0 : MTU },
	};
	uint32_t length = iba_frame_encode(&f, bytes);

	REQUIRE(fabric_post(b->f, b->ends[from], 1, bytes, length));
	return flits_of(length);
}

TEST(test_fab_s1_fab_01_frames_of_a_message_cross_switches_as_four_flits_each)
{
	struct fabric_cfg cfg = engine_bed_timed();
	struct engine_bed b = engine_bed_read(chain, &cfg);
	struct counted was = count(&b);

	EXPECT_EQ(rc_post(&b, A, B, IBA_SEND_FIRST, 1), 4);
	EXPECT_EQ(rc_post(&b, A, B, IBA_SEND_LAST, 2), 4);
	engine_bed_rest(&b);
	expect_hops(&b, &was, false, 2, 8);
	EXPECT_EQ(engine_bed_take_all(&b, B), 2);
	engine_bed_rest(&b);
	was = count(&b);
	/* The receiver acknowledges each frame by one (AMB-35), of one flit (FAB-06). */
	EXPECT_EQ(rc_post(&b, B, A, IBA_ACKNOWLEDGE, 1), 1);
	EXPECT_EQ(rc_post(&b, B, A, IBA_ACKNOWLEDGE, 2), 1);
	engine_bed_rest(&b);
	expect_hops(&b, &was, true, 2, 2);
	EXPECT_EQ(engine_bed_take_all(&b, A), 2);
	engine_bed_close(&b);
}

/* ---- Three endnodes at a switch -------------------------------------------------------------- */

static const char star[] = "Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n[3] \"C\"[1]\n"
			   "Ca 1 \"A\"\nCa 1 \"B\"\nCa 1 \"C\"\n";

/* Flits leave one by one, so that those of two frames could mix. */
static struct engine_bed star_open(void)
{
	struct fabric_cfg cfg = engine_bed_timed();

	cfg.link.run_flits = 1;
	return engine_bed_read(star, &cfg);
}

static const struct fabric_link *link_of(struct engine_bed *b, uint32_t end)
{
	return fabric_link_at(b->f, b->ends[end], 1);
}

static struct fabric_node_port *port_of(struct engine_bed *b, uint32_t port)
{
	return &fabric_node_at(b->f, b->switches[0])->ports[port];
}

/* The lane of a level from one port of the switch to another. */
static uint8_t *lane_of(struct engine_bed *b, uint32_t in, uint32_t out, uint8_t level)
{
	struct fabric_node *n = fabric_node_at(b->f, b->switches[0]);

	return &n->lane_of[(out * (n->cfg.ports + 1) + in) * SM_LEVELS + level];
}

/* Frames of A and B for C: how many have come when as many flits have as are in one. */
static uint64_t whole_of_two(struct engine_bed *b, uint8_t level_of_b)
{
	uint64_t flits = flits_of(8 + 12 + 8 + LARGE + 6),
		 before = link_of(b, C)->counts.flits_taken;

	REQUIRE(engine_bed_post(b, A, C, 0, LARGE) && engine_bed_post(b, B, C, level_of_b, LARGE));
	while (link_of(b, C)->counts.flits_taken - before < flits)
		engine_bed_pass(b, FLIT_NS);
	REQUIRE(link_of(b, C)->counts.flits_taken - before < 2 * flits);
	return link_of(b, C)->counts.frames_taken;
}

TEST(test_fab_14_a_lane_of_an_output_has_one_frame_after_the_other)
{
	struct engine_bed b = star_open();

	EXPECT_EQ(whole_of_two(&b, 0), 1);
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, C), 2);
	engine_bed_close(&b);
}

TEST(test_fab_10_two_lanes_of_an_output_have_their_flits_in_turn)
{
	struct engine_bed b = star_open();

	EXPECT_EQ(whole_of_two(&b, 1), 0);
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, C), 2);
	engine_bed_close(&b);
}

/* Each link has a lane of its own for a level, by the port where the frame came in. */
TEST(test_fab_11_a_frame_keeps_its_level_and_leaves_by_the_lane_of_it)
{
	struct engine_bed b = star_open();
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX];
	uint32_t length = bed_frame(sent, engine_bed_lid(&b, A), engine_bed_lid(&b, C), SL, 1000);
	uint16_t before[2] = { link_of(&b, C)->in[3].taken, link_of(&b, C)->in[1].taken };
	struct iba_lrh h;

	*lane_of(&b, 1, 3, SL) = 3;
	*lane_of(&b, 2, 3, SL) = 2;
	EXPECT(fabric_post(b.f, b.ends[A], 1, sent, length));
	engine_bed_rest(&b);
	EXPECT_EQ(link_of(&b, C)->in[3].taken - before[0], flits_of(length));
	EXPECT_EQ(link_of(&b, C)->in[1].taken, before[1]); /* that of the first link */
	EXPECT_EQ(fabric_take(b.f, b.ends[C], 1, came), length);
	EXPECT_EQ(iba_lrh_decode(&h, came, length), WEFT_OK);
	EXPECT(h.level == SL && h.lane == 3);
	EXPECT_MEM(came + 1, sent + 1, length - 1 - IBA_VCRC_BYTES);
	engine_bed_close(&b);
}

TEST(test_fab_11_what_has_a_level_without_a_lane_is_discarded_where_it_would_leave)
{
	struct engine_bed b = star_open();

	*lane_of(&b, 1, 3, SL) = 4; /* there are four */
	EXPECT(engine_bed_post(&b, A, C, SL, SMALL));
	*lane_of(&b, 1, 3, SL) = IBA_LANE_MANAGEMENT;
	EXPECT(engine_bed_post(&b, A, C, SL, SMALL));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, C), 0);
	EXPECT_EQ(port_of(&b, 3)->counts.transmit_discards, 2);
	EXPECT_EQ(fabric_link_at(b.f, b.switches[0], 1)->in[1].blocks_used, 0);
	engine_bed_close(&b);
}

TEST(test_fab_18_what_no_table_of_a_switch_has_is_counted_where_it_came_in)
{
	static const uint16_t lids[] = { 40, 2000, IBA_LID_MULTICAST_MIN + 1,
					 IBA_LID_MULTICAST_MIN + 99 };
	struct engine_bed b = star_open();
	uint8_t sent[IBA_FRAME_MAX];

	for (uint32_t i = 0; i <= sizeof(lids) / sizeof(lids[0]); i++) {
		uint16_t to = i < sizeof(lids) / sizeof(lids[0]) ? lids[i] : 0;

		if (to == 0) { /* back where it came from */
			struct fabric_node *n = fabric_node_at(b.f, b.switches[0]);

			to = engine_bed_lid(&b, C);
			n->linear[to] = 1;
		}
		EXPECT(fabric_post(b.f, b.ends[A], 1, sent,
				   bed_frame(sent, engine_bed_lid(&b, A), to, 0, SMALL)));
	}
	EXPECT(engine_bed_post(&b, A, B, 0, SMALL));
	engine_bed_rest(&b);
	EXPECT(port_of(&b, 1)->counts.relay_errors == 5 &&
	       port_of(&b, 2)->counts.relay_errors == 0);
	EXPECT_EQ(engine_bed_take_all(&b, B), 1);
	EXPECT_EQ(engine_bed_take_all(&b, C), 0);
	engine_bed_close(&b);
}

/* IBA 18.2.5.4: what has been in a switch for longer than all of it allows. */
TEST(test_fab_13_what_is_in_a_switch_for_longer_than_that_allows_is_discarded)
{
	enum { LIFE_131_US = 5, ENDLESS = 31 };
	struct engine_bed b = star_open();
	uint32_t posted = 0, came = 0, more;

	for (uint32_t port = 1; port <= 3; port++)
		port_of(&b, port)->info.head_of_queue_life = ENDLESS;
	fabric_node_at(b.f, b.switches[0])->switch_info.life_time = LIFE_131_US;
	while (engine_bed_post(&b, A, C, 0, LARGE)) { /* its owner takes nothing */
		engine_bed_pass(&b, 10000);
		REQUIRE(++posted < 1000);
	}
	EXPECT_EQ(port_of(&b, 3)->counts.transmit_discards, 0);
	engine_bed_pass(&b, 1000000);
	do {
		more = engine_bed_take_all(&b, C);
		came += more;
		engine_bed_pass(&b, 1000000);
	} while (more > 0);
	EXPECT(port_of(&b, 3)->counts.transmit_discards > 0);
	EXPECT_EQ(came + port_of(&b, 3)->counts.transmit_discards, posted);
	EXPECT(engine_bed_post(&b, A, C, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, C), 1);
	engine_bed_close(&b);
}

/* ---- What a switch looks at ------------------------------------------------------------------ */

TEST(test_fab_22f_a_switch_asks_its_ports_about_each_frame_that_enters_or_leaves)
{
	enum { OTHER_P_KEY = 0x8001 };
	struct engine_bed b = star_open();

	for (int is_in = 0; is_in < 2; is_in++) {
		struct fabric_node_port *p = port_of(&b, is_in ? 1 : 3);

		EXPECT(engine_bed_post(&b, A, C, 0, SMALL));
		engine_bed_rest(&b);
		EXPECT_EQ(engine_bed_take_all(&b, C), 1);
		p->info.enforces_in = is_in;
		p->info.enforces_out = !is_in;
		p->pkeys[0] = OTHER_P_KEY;
		fabric_touch(b.f, b.switches[0]);
		EXPECT(engine_bed_post(&b, A, C, 0, SMALL));
		engine_bed_rest(&b);
		EXPECT_EQ(engine_bed_take_all(&b, C), 0);
		EXPECT_EQ(p->counts.receive_constraint_errors, is_in);
		EXPECT_EQ(p->counts.transmit_constraint_errors, !is_in);
		EXPECT(engine_bed_post(&b, A, B, 0, SMALL));
		engine_bed_rest(&b);
		EXPECT_EQ(engine_bed_take_all(&b, B), !is_in);
		p->info.enforces_in = p->info.enforces_out = 0;
		fabric_touch(b.f, b.switches[0]);
	}
	engine_bed_close(&b);
}

TEST(test_iba_7_8_a_frame_longer_than_the_mtu_of_a_port_of_a_switch_leaves_by_none)
{
	struct engine_bed b = star_open();

	port_of(&b, 3)->info.mtu = 1;
	EXPECT(engine_bed_post(&b, A, C, 0, LARGE));
	EXPECT(engine_bed_post(&b, A, C, 0, MTU));
	EXPECT(engine_bed_post(&b, A, B, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT(engine_bed_take_all(&b, C) == 1 && engine_bed_take_all(&b, B) == 1);
	EXPECT_EQ(port_of(&b, 3)->counts.transmit_discards, 1);
	engine_bed_close(&b);
}

static void smp_post(struct engine_bed *b, const struct smp *s, uint16_t from, uint16_t to)
{
	uint8_t mad[MAD_BYTES], bytes[IBA_FRAME_MAX];
	const struct iba_frame f = { .lrh = { .lane = IBA_LANE_MANAGEMENT, .to = to, .from = from },
				     .packet = { .opcode = IBA_UD_SEND,
						 .p_key = IBA_PKEY_DEFAULT,
						 .payload = mad,
						 .payload_bytes = MAD_BYTES } };

	smp_encode(s, mad);
	EXPECT(fabric_post(b->f, b->ends[A], 1, bytes, iba_frame_encode(&f, bytes)));
}

/* To the subnet manager at an endnode; such a datagram stays as it came. */
static void manager_post(struct engine_bed *b, uint32_t end)
{
	const struct smp s = { .mad = { .mgmt_class = MAD_SUBNET_LID,
					.class_version = SMP_CLASS_VERSION,
					.method = MAD_GET,
					.attribute = SM_SM_INFO } };

	smp_post(b, &s, engine_bed_lid(b, A), engine_bed_lid(b, end));
}

/* To the agents of what is behind a port of the switch. */
static void agent_post(struct engine_bed *b, uint8_t by)
{
	const struct smp s = { .mad = { .mgmt_class = MAD_SUBNET_DIRECTED,
					.class_version = SMP_CLASS_VERSION,
					.method = MAD_GET,
					.attribute = SM_NODE_INFO },
			       .is_directed = true,
			       .hop_count = 2,
			       .there = { 0, 1, by },
			       .from = IBA_LID_PERMISSIVE,
			       .to = IBA_LID_PERMISSIVE };

	smp_post(b, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE);
}

/* IBA 7.6.3: lane 15 has no flow control, and is the only way to mend a fabric. */
TEST(test_iba_7_6_3_an_owner_that_takes_no_management_holds_up_no_other)
{
	enum { MORE_THAN_ROOM = 300 };
	struct engine_bed b = star_open();
	struct fabric_node *manager = fabric_node_at(b.f, b.ends[C]);

	fabric_node_set_sm(manager, 1, true, b.now_ns);
	fabric_touch(b.f, b.ends[C]);
	for (int i = 0; i < MORE_THAN_ROOM; i++) {
		manager_post(&b, C); /* its owner takes none */
		engine_bed_pass(&b, 10000);
	}
	EXPECT(manager->ports[1].counts.vl15_dropped > 0);
	agent_post(&b, 2);
	agent_post(&b, 3);
	engine_bed_pass(&b, 100000);
	EXPECT_EQ(engine_bed_take_all(&b, A), 2); /* the answers */
	EXPECT_EQ(engine_bed_take_all(&b, C) + manager->ports[1].counts.vl15_dropped,
		  MORE_THAN_ROOM);
	engine_bed_close(&b);
}
