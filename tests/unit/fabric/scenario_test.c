/* SPDX-License-Identifier: BSD-2-Clause */
/* The scenarios of D3 on links: figures 8 to 10B, and what lanes are for. */
#include <string.h>

#include "base/check.h"
#include "unit/fabric/fabric_bed.h"
#include "wire/iba_aeth.h"

enum { LID_A = 1, LID_B = 2, MTU = 256, MESSAGE = 2 * MTU };

/* A packet of a reliable connection, as a frame. */
static uint32_t rc_frame(uint8_t bytes[IBA_FRAME_MAX], enum iba_op op, uint32_t psn,
			 const uint8_t *payload)
{
	bool is_ack = op == IBA_ACKNOWLEDGE;
	struct iba_frame f = {
		.lrh = { .from = is_ack ? LID_B : LID_A, .to = is_ack ? LID_A : LID_B },
		.packet = { .opcode = iba_opcode(IBA_RC, op),
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 9,
			    .psn = psn,
			    .msn = psn,
			    .payload = payload,
			    .payload_bytes = is_ack ? 0 : MTU },
	};

	return iba_frame_encode(&f, bytes);
}

/* FAB-S1: endnode, two switches, endnode. */
struct chain {
	struct fabric_net *net;
	uint32_t a, b, first, second;
};

static struct chain chain_open(void)
{
	struct chain c = { .net = bed_open() };

	c.a = bed_end(c.net);
	c.b = bed_end(c.net);
	c.first = bed_switch(c.net, 4);
	c.second = bed_switch(c.net, 4);
	(void)bed_join(c.net, c.a, 1, c.first, 1);
	(void)bed_join(c.net, c.first, 2, c.second, 3);
	(void)bed_join(c.net, c.second, 4, c.b, 1);
	fabric_net_route(c.net, c.a, LID_A);
	fabric_net_route(c.net, c.b, LID_B);
	bed_rest(c.net);
	return c;
}

/* The six ends of links, in the order of the message's way: out and in of each hop. */
static void ends_of(const struct chain *c, struct fabric_link *ends[6])
{
	const struct fabric_net_port ports[6] = { { c->a, 1 },	    { c->first, 1 },
						  { c->first, 2 },  { c->second, 3 },
						  { c->second, 4 }, { c->b, 1 } };

	for (int i = 0; i < 6; i++)
		ends[i] = fabric_net_link(c->net, ports[i]);
}

TEST(test_fab_s1_fab_01_two_frames_of_four_flits_a_hop_and_two_acknowledgements)
{
	struct chain c = chain_open();
	uint8_t message[MESSAGE], bytes[IBA_FRAME_MAX], got[MESSAGE];
	struct fabric_link *ends[6];
	struct iba_frame f;
	uint32_t length;

	for (int i = 0; i < MESSAGE; i++)
		message[i] = (uint8_t)(i * 13);
	ends_of(&c, ends);
	for (int i = 0; i < 6; i++)
		memset(&ends[i]->counts, 0, sizeof(ends[i]->counts));
	/* One message is two frames. */
	length = rc_frame(bytes, IBA_SEND_FIRST, 1, message);
	EXPECT_EQ(flits_of(length), 4);
	EXPECT(fabric_net_post(c.net, c.a, bytes, length));
	length = rc_frame(bytes, IBA_SEND_LAST, 2, message + MTU);
	EXPECT_EQ(flits_of(length), 4);
	EXPECT(fabric_net_post(c.net, c.a, bytes, length));
	bed_rest(c.net);
	for (int i = 0; i < 2; i++) {
		length = fabric_net_take(c.net, c.b, bytes);
		EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_OK);
		EXPECT(f.packet.psn == (uint32_t)i + 1 && f.packet.payload_bytes == MTU);
		memcpy(got + (size_t)i * MTU, f.packet.payload, MTU);
	}
	EXPECT_MEM(got, message, MESSAGE);
	for (int i = 0; i < 6; i += 2) { /* each hop: eight flits, acknowledged by one */
		harness_note("hop %d", i / 2);
		EXPECT(ends[i]->counts.flits_sent == 8 && ends[i + 1]->counts.flits_taken == 8);
		EXPECT(ends[i]->counts.frames_sent == 2 && ends[i + 1]->counts.frames_taken == 2);
		EXPECT(ends[i + 1]->counts.acks_sent == 1 && ends[i]->counts.acks_taken == 1);
		EXPECT(ends[i]->counts.acks_sent == 0 && ends[i]->counts.flits_resent == 0);
	}
	/* The receiver acknowledges each frame by one (AMB-35), of one flit (FAB-06). */
	for (uint32_t psn = 1; psn <= 2; psn++) {
		length = rc_frame(bytes, IBA_ACKNOWLEDGE, psn, NULL);
		EXPECT_EQ(flits_of(length), 1);
		EXPECT(fabric_net_post(c.net, c.b, bytes, length));
	}
	bed_rest(c.net);
	for (uint32_t psn = 1; psn <= 2; psn++) {
		length = fabric_net_take(c.net, c.a, bytes);
		EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_OK);
		EXPECT(f.packet.psn == psn && f.packet.opcode == 0x11);
	}
	for (int i = 0; i < 6; i += 2) { /* each hop back: two flits, acknowledged by one */
		harness_note("hop %d back", i / 2);
		EXPECT(ends[i + 1]->counts.flits_sent == 2 && ends[i]->counts.flits_taken == 2);
		EXPECT(ends[i]->counts.acks_sent == 1 && ends[i + 1]->counts.acks_taken == 1);
		EXPECT(ends[i + 1]->counts.acks_sent == 1);
	}
	bed_close(c.net);
}

/* ---- FAB-S2: a ring -------------------------------------------------------------------------- */

enum { RING = 4, POSTED = 200, PAYLOAD = 4096 };

/*
 * Each endnode sends to the one two switches on, by the next switch: all four ways together are a
 * loop. Levels are 1 where the way passes from the last switch to the first, else 0.
 */
static uint64_t ring_delivered(bool has_lanes)
{
	struct fabric_net *n = bed_open();
	uint32_t ends[RING], switches[RING], posted[RING] = { 0 };
	uint64_t delivered = 0, before;
	uint8_t bytes[IBA_FRAME_MAX];

	for (uint32_t i = 0; i < RING; i++) {
		ends[i] = bed_end(n);
		switches[i] = bed_switch(n, 3);
	}
	for (uint32_t i = 0; i < RING; i++) {
		(void)bed_join(n, switches[i], 1, ends[i], 1);
		(void)bed_join(n, switches[i], 2, switches[(i + 1) % RING], 3);
		for (uint32_t to = 0; to < RING; to++)
			n->nodes[switches[i]].sw.linear[to + 1] = to == i ? 1 : 2;
		for (uint32_t port = 1; has_lanes && port <= 3; port++)
			n->nodes[switches[i]].sw.ports[port].lane_of[1] = 1;
		n->nodes[ends[i]].end.lane_of[1] = has_lanes;
	}
	do {
		before = delivered;
		for (uint32_t i = 0; i < RING; i++)
			while (posted[i] < POSTED) {
				uint8_t level = i >= RING - 2;
				uint16_t to = (uint16_t)((i + 2) % RING + 1);
				uint32_t length = bed_frame(bytes, (uint16_t)(i + 1), to, level,
							    PAYLOAD);

				if (!fabric_net_post(n, ends[i], bytes, length))
					break;
				posted[i]++;
			}
		bed_run(n, 1000000);
		for (uint32_t i = 0; i < RING; i++)
			while (fabric_net_take(n, ends[i], bytes) > 0)
				delivered++;
	} while (delivered != before);
	bed_close(n);
	return delivered;
}

TEST(test_fab_s2_fab_12_a_ring_that_deadlocks_on_one_lane_is_free_with_two)
{
	uint64_t on_one = ring_delivered(false), on_two = ring_delivered(true);

	harness_note("%u of %u on one lane", (unsigned int)on_one, RING * POSTED);
	EXPECT(on_one < RING * POSTED);
	EXPECT_EQ(on_two, RING * POSTED);
}
