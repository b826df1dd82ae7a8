/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of ports, tables that are set, and lives of links. */
#include <string.h>

#include "unit/fabric/engine_bed.h"
#include "wire/smp.h"

enum { A, B, C, LARGE = 4096, SMALL = 8, GROUP = IBA_LID_MULTICAST_MIN + 3 };

static const char star[] = "Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n[3] \"C\"[1]\n"
			   "Ca 1 \"A\"\nCa 1 \"B\"\nCa 1 \"C\"\n";

static struct engine_bed star_open(void)
{
	struct fabric_cfg cfg = engine_bed_timed();

	return engine_bed_read(star, &cfg);
}

static struct fabric_node_port *port_of(struct engine_bed *b, uint32_t port)
{
	return &fabric_node_at(b->f, b->switches[0])->ports[port];
}

/* ---- Counters (IBA 16.1.3) ------------------------------------------------------------------- */

static void expect_sum(struct engine_bed *b, uint32_t port, struct fabric_port_counts was,
		       const uint64_t more[8])
{
	const struct fabric_port_counts *c = &port_of(b, port)->counts;

	EXPECT_EQ(c->receive_packets - was.receive_packets, more[0]);
	EXPECT_EQ(c->receive_data - was.receive_data, more[1]);
	EXPECT_EQ(c->unicast_receive - was.unicast_receive, more[2]);
	EXPECT_EQ(c->multicast_receive - was.multicast_receive, more[3]);
	EXPECT_EQ(c->transmit_packets - was.transmit_packets, more[4]);
	EXPECT_EQ(c->transmit_data - was.transmit_data, more[5]);
	EXPECT_EQ(c->unicast_transmit - was.unicast_transmit, more[6]);
	EXPECT_EQ(c->multicast_transmit - was.multicast_transmit, more[7]);
}

TEST(test_iba_16_1_3_ports_count_packets_and_words_each_way)
{
	struct engine_bed b = star_open();
	struct fabric_port_counts in = port_of(&b, 1)->counts, out = port_of(&b, 3)->counts;
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length = bed_frame(frame, engine_bed_lid(&b, A), GROUP, 0, 100);
	uint64_t words = 2 * (uint64_t)(length / 4);

	fabric_node_at(b.f, b.switches[0])->multicast[GROUP - IBA_LID_MULTICAST_MIN] = 1 << 2 |
										       1 << 3;
	for (int i = 0; i < 2; i++)
		EXPECT(fabric_post(b.f, b.ends[A], 1, frame, length));
	for (int i = 0; i < 3; i++)
		EXPECT(engine_bed_post(&b, A, C, 0, 1000));
	EXPECT(engine_bed_post(&b, A, B, 0, 1000));
	words += 3 * (uint64_t)((1000 + 34) / 4);
	engine_bed_rest(&b);
	expect_sum(&b, 1, in, (const uint64_t[]){ 6, words + (1000 + 34) / 4, 4, 2, 0, 0, 0, 0 });
	expect_sum(&b, 3, out, (const uint64_t[]){ 0, 0, 0, 0, 5, words, 3, 2 });
	engine_bed_close(&b);
}

TEST(test_iba_16_1_3_a_port_counts_what_waits_for_credit)
{
	struct engine_bed b = star_open();
	uint32_t posted = 0;

	EXPECT(engine_bed_post(&b, A, C, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT_EQ(port_of(&b, 3)->counts.transmit_wait, 0);
	while (engine_bed_post(&b, A, C, 0, LARGE)) { /* its owner takes nothing */
		engine_bed_pass(&b, 10000);
		REQUIRE(++posted < 1000);
	}
	EXPECT(port_of(&b, 3)->counts.transmit_wait > 0);
	EXPECT_EQ(port_of(&b, 2)->counts.transmit_wait, 0);
	engine_bed_close(&b);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void smp_post(struct engine_bed *b, const struct smp *s, uint16_t from, uint16_t to)
{
	uint8_t mad[MAD_BYTES], bytes[IBA_FRAME_MAX];
	const struct iba_frame f = { .lrh = { .lane = IBA_LANE_MANAGEMENT, .to = to, .from = from },
				     .packet = { .opcode = IBA_UD_SEND,
						 .p_key = IBA_PKEY_DEFAULT,
						 .payload = mad,
						 .payload_bytes = MAD_BYTES } };

	smp_encode(s, mad);
	REQUIRE(fabric_post(b->f, b->ends[A], 1, bytes, iba_frame_encode(&f, bytes)));
	engine_bed_rest(b);
}

/* A manager leaves lane 0 of a port without a turn: it stands, and lane 1 goes on. */
TEST(test_fab_12_arbitration_that_is_set_holds_at_the_link_of_the_port)
{
	struct engine_bed b = star_open();
	union sm_value v = { .vl_arbitration = { .lanes = { 1 }, .weights = { 9 } } };
	struct smp s = { .mad = { .mgmt_class = MAD_SUBNET_DIRECTED,
				  .class_version = SMP_CLASS_VERSION,
				  .method = MAD_SET,
				  .attribute = SM_VL_ARBITRATION,
				  .modifier = 1 << 16 | 3 },
			 .is_directed = true,
			 .hop_count = 1,
			 .there = { 0, 1 },
			 .from = IBA_LID_PERMISSIVE,
			 .to = IBA_LID_PERMISSIVE };

	mad_layout_encode(sm_layout(SM_VL_ARBITRATION), &v, s.data);
	smp_post(&b, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE);
	EXPECT_EQ(engine_bed_take_all(&b, A), 1); /* the answer */
	EXPECT(engine_bed_post(&b, A, C, 0, SMALL) && engine_bed_post(&b, A, C, 1, SMALL));
	engine_bed_pass(&b, 100000);
	EXPECT_EQ(engine_bed_take_all(&b, C), 1);
	engine_bed_close(&b);
}

/* IBA 7.6.4: what the owner gets first of all that has come. */
TEST(test_fab_12_management_is_taken_before_data)
{
	const struct smp s = { .mad = { .mgmt_class = MAD_SUBNET_LID,
					.class_version = SMP_CLASS_VERSION,
					.method = MAD_GET,
					.attribute = SM_SM_INFO } };
	struct engine_bed b = star_open();
	uint8_t came[IBA_FRAME_MAX];
	struct iba_lrh h;

	fabric_node_set_sm(fabric_node_at(b.f, b.ends[C]), 1, true, b.now_ns);
	fabric_touch(b.f, b.ends[C]);
	EXPECT(engine_bed_post(&b, A, C, 0, SMALL) && engine_bed_post(&b, A, C, 3, SMALL));
	smp_post(&b, &s, engine_bed_lid(&b, A), engine_bed_lid(&b, C));
	for (int i = 0; i < 3; i++) {
		uint32_t length = fabric_take(b.f, b.ends[C], 1, came);

		MUST(iba_lrh_decode(&h, came, length));
		EXPECT_EQ(h.lane == IBA_LANE_MANAGEMENT, i == 0);
	}
	engine_bed_close(&b);
}

/* ---- Lives ----------------------------------------------------------------------------------- */

/* The frame is on the first cable, whose link is down and up again before it comes. */
TEST(test_fab_20_what_was_under_way_does_not_come_to_a_link_that_begins_anew)
{
	struct engine_bed b = star_open();
	uint32_t cable = fabric_cable_at(b.f, b.ends[A], 1);
	const struct fabric_link *in = fabric_link_at(b.f, b.switches[0], 1);
	uint64_t flits = in->counts.flits_taken;

	EXPECT(engine_bed_post(&b, A, C, 0, LARGE));
	engine_bed_pass(&b, 100);
	fabric_cut(b.f, cable);
	fabric_mend(b.f, cable);
	engine_bed_rest(&b);
	EXPECT_EQ(in->counts.flits_taken, flits);
	EXPECT_EQ(in->counts.malformed + in->counts.recovers, 0);
	REQUIRE(fabric_setup(b.f, FABRIC_MIN_HOP) == 0);
	EXPECT(engine_bed_post(&b, A, C, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, C), 1);
	engine_bed_close(&b);
}
