/* SPDX-License-Identifier: BSD-2-Clause */
/* Two subnets with a router between them; two endnodes in the first, one in the second. */
#include <string.h>

#include "unit/fabric/engine_bed.h"

static const char text[] = "Switch 4 \"S1\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n[3] \"R1\"[1]\n"
			   "Switch 4 \"S2\"\n[1] \"H3\"[1]\n[2] \"R1\"[2]\n"
			   "Ca 1 \"H1\"\nCa 1 \"H2\"\nCa 1 \"H3\"\nRt 2 \"R1\"\n";

enum { H1, H2, H3, R1, HOPS = 9 };

static void gid_of(struct engine_bed *b, uint32_t end, uint8_t gid[IBA_GID_BYTES])
{
	const struct fabric_node_port *p = &fabric_node_at(b->f, b->ends[end])->ports[1];

	for (uint32_t i = 0; i < 8; i++) {
		gid[i] = (uint8_t)(p->info.subnet_prefix >> (56 - 8 * i));
		gid[8 + i] = (uint8_t)(p->guids[0] >> (56 - 8 * i));
	}
}

/* A datagram with a global header, by way of the router; returns its length. */
static uint32_t global_frame(struct engine_bed *b, uint8_t bytes[IBA_FRAME_MAX], uint32_t from,
			     uint32_t to, uint8_t hops)
{
	uint8_t payload[200];
	struct iba_frame f = {
		.lrh = { .level = 2, .to = engine_bed_lid(b, R1), .from = engine_bed_lid(b, from) },
		.has_grh = true,
		.grh = { .next_header = IBA_GRH_NEXT_BTH, .hop_limit = hops, .flow_label = 5 },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 7,
			    .payload = payload,
			    .payload_bytes = sizeof(payload) },
	};

	memset(payload, 0x5a, sizeof(payload));
	gid_of(b, from, f.grh.from);
	gid_of(b, to, f.grh.to);
	return iba_frame_encode(&f, bytes);
}

TEST(test_fab_16_fab_s3_a_router_forwards_by_gid_and_changes_headers_only)
{
	struct fabric_cfg cfg = fabric_cfg_live();
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX];
	struct engine_bed b;
	uint32_t length;
	struct iba_frame f;

	cfg.has_vcrc = true;
	b = engine_bed_read(text, &cfg);
	/* LIDs are of a subnet: both have an endnode with LID 2. */
	EXPECT_EQ(engine_bed_lid(&b, H1), engine_bed_lid(&b, H3));
	length = global_frame(&b, sent, H1, H3, HOPS);
	EXPECT(fabric_post(b.f, b.ends[H1], 1, sent, length));
	engine_bed_rest(&b);
	EXPECT_EQ(fabric_take(b.f, b.ends[H3], 1, came), length);
	EXPECT_EQ(iba_frame_decode(&f, came, length), WEFT_OK); /* its ICRC is that of the sender */
	EXPECT_EQ(f.grh.hop_limit, HOPS - 1);
	EXPECT(f.grh.flow_label == 5 && f.lrh.level == 2);
	EXPECT_EQ(f.lrh.to, engine_bed_lid(&b, H3));
	EXPECT_EQ(f.lrh.from, fabric_node_at(b.f, b.ends[R1])->ports[2].info.lid);
	EXPECT_MEM(came + IBA_LRH_BYTES + 8, sent + IBA_LRH_BYTES + 8,
		   length - IBA_LRH_BYTES - 8 - IBA_VCRC_BYTES);
	/* And back; within a subnet no router is asked. */
	length = global_frame(&b, sent, H3, H2, HOPS);
	sent[3] = (uint8_t)fabric_node_at(b.f, b.ends[R1])->ports[2].info.lid;
	EXPECT(fabric_post(b.f, b.ends[H3], 1, sent, length));
	EXPECT(engine_bed_post(&b, H1, H2, 0, 100));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, H2), 2);
	engine_bed_close(&b);
}

TEST(test_fab_16_what_a_router_cannot_forward_is_counted)
{
	struct engine_bed b = engine_bed_read(text, NULL);
	uint8_t sent[IBA_FRAME_MAX];
	uint32_t length = global_frame(&b, sent, H1, H3, 1);

	EXPECT(fabric_post(b.f, b.ends[H1], 1, sent, length)); /* it has no hop left */
	length = global_frame(&b, sent, H1, H3, HOPS);
	sent[IBA_LRH_BYTES + 39] ^= 1; /* to a GID of no port */
	EXPECT(fabric_post(b.f, b.ends[H1], 1, sent, length));
	length = global_frame(&b, sent, H1, H3, HOPS);
	sent[IBA_LRH_BYTES + 31] ^= 4; /* of no subnet that it is in */
	EXPECT(fabric_post(b.f, b.ends[H1], 1, sent, length));
	length = global_frame(&b, sent, H1, H2, HOPS); /* of the subnet where it came */
	EXPECT(fabric_post(b.f, b.ends[H1], 1, sent, length));
	sent[IBA_LRH_BYTES + 31] ^= 1; /* a GUID of one subnet in the other */
	EXPECT(fabric_post(b.f, b.ends[H1], 1, sent, length));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, H2) + engine_bed_take_all(&b, H3), 0);
	EXPECT_EQ(fabric_node_at(b.f, b.ends[R1])->ports[1].counts.relay_errors, 5);
	engine_bed_close(&b);
}

/* The endnode of the other subnet takes nothing: all wait, and nothing is lost. */
TEST(test_fab_13_fab_16_a_router_has_back_pressure)
{
	enum { FRAMES = 3000 };
	struct engine_bed b = engine_bed_read(text, NULL);
	uint8_t sent[IBA_FRAME_MAX];
	uint32_t length = global_frame(&b, sent, H1, H3, HOPS), posted = 0, came = 0;

	while (posted < FRAMES && fabric_post(b.f, b.ends[H1], 1, sent, length)) {
		posted++;
		fabric_run(b.f, b.now_ns);
	}
	EXPECT(posted > 10 && posted < FRAMES);
	for (uint32_t round = 0; round < FRAMES && came < posted; round++) {
		came += fabric_take(b.f, b.ends[H3], 1, sent) > 0;
		fabric_run(b.f, b.now_ns);
	}
	EXPECT_EQ(came, posted);
	engine_bed_close(&b);
}

/* What goes on to the other subnet waits behind what is for the router's owner, and no longer. */
TEST(test_fab_16_the_owner_of_a_routers_port_gets_its_frames_and_others_go_on)
{
	struct engine_bed b = engine_bed_read(text, NULL);
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length;

	EXPECT(engine_bed_post(&b, H1, R1, 2, 100));
	EXPECT(engine_bed_post(&b, H1, R1, 2, 200));
	length = global_frame(&b, bytes, H1, H3, HOPS);
	EXPECT(fabric_post(b.f, b.ends[H1], 1, bytes, length));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, H3), 0);
	EXPECT_EQ(engine_bed_take_all(&b, R1), 2);
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, H3), 1);
	engine_bed_close(&b);
}
