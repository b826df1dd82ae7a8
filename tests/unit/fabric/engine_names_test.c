/* SPDX-License-Identifier: BSD-2-Clause */
/* Names in a fabric, and the paths that follow from them: two subnets, two ways in the first. */
#include <string.h>

#include "unit/fabric/engine_bed.h"
#include "wire/iba_aeth.h"

static const char text[] = "Switch 4 \"S1\"\n[1] \"H1\"[1]\n[2] \"R1\"[1]\n[3] \"S2\"[3]\n"
			   "[4] \"S2\"[4]\n"
			   "Switch 4 \"S2\"\n[1] \"H2\"[1]\n[2] \"H1\"[2]\n"
			   "Switch 4 \"S3\"\n[1] \"H3\"[1]\n[2] \"R1\"[2]\n"
			   "Ca 2 \"H1\"\nCa 1 \"H2\"\nCa 1 \"H3\"\nRt 2 \"R1\"\n";

enum { H1, H2, H3, R1, HOPS = 9, S1 = 0, S2 = 1, GARBAGE = 60, NAMES = 32 };

static const struct fabric_node_port *port_at(struct engine_bed *b, uint32_t node, uint32_t port)
{
	return &fabric_node_at(b->f, node)->ports[port];
}

static bool is_switch(struct engine_bed *b, uint32_t node)
{
	return fabric_node_at(b->f, node)->cfg.type == SM_NODE_SWITCH;
}

/* Ports that have addresses: port 0 of a switch, each port of the others. */
static uint32_t addressed(struct engine_bed *b, const struct fabric_node_port *ports[NAMES])
{
	uint32_t count = 0;

	for (uint32_t node = 0; node < b->nodes; node++) {
		uint32_t last = is_switch(b, node) ? 0 : fabric_node_at(b->f, node)->cfg.ports;

		for (uint32_t port = last > 0; port <= last; port++)
			ports[count++] = port_at(b, node, port);
	}
	REQUIRE(count == 9);
	return count;
}

static bool is_same_subnet(const struct fabric_node_port *a, const struct fabric_node_port *b)
{
	return a->info.subnet_prefix == b->info.subnet_prefix;
}

TEST(test_fab_22_fab_22b_fab_22c_fab_22e_names_are_unique_where_they_have_to_be)
{
	struct engine_bed b = engine_bed_read(text, NULL);
	const struct fabric_node_port *ports[NAMES];
	uint32_t count = addressed(&b, ports), shared = 0;

	for (uint32_t i = 0; i < b.nodes; i++)
		for (uint32_t j = 0; j < i; j++)
			EXPECT(fabric_node_at(b.f, i)->cfg.guid !=
			       fabric_node_at(b.f, j)->cfg.guid);
	for (uint32_t i = 0; i < count; i++) {
		EXPECT(ports[i]->info.lid != IBA_LID_NONE && ports[i]->guids[0] != 0);
		EXPECT(ports[i]->info.lid < IBA_LID_MULTICAST_MIN);
		for (uint32_t j = 0; j < i; j++) {
			bool is_same = ports[i]->info.lid == ports[j]->info.lid;

			EXPECT(ports[i]->guids[0] != ports[j]->guids[0]); /* so GIDs differ */
			EXPECT(!is_same || !is_same_subnet(ports[i], ports[j]));
			shared += is_same;
		}
	}
	EXPECT(shared > 0); /* a LID means something in its subnet only */
	EXPECT(is_same_subnet(port_at(&b, b.ends[H1], 1), port_at(&b, b.ends[H2], 1)));
	EXPECT(is_same_subnet(port_at(&b, b.ends[H3], 1), port_at(&b, b.ends[R1], 2)));
	EXPECT(!is_same_subnet(port_at(&b, b.ends[H1], 1), port_at(&b, b.ends[H3], 1)));
	engine_bed_close(&b);
}

TEST(test_fab_22g_fab_22h_a_switch_has_addresses_at_its_management_port_only)
{
	struct engine_bed b = engine_bed_read(text, NULL);

	for (uint32_t node = 0; node < b.nodes; node++) {
		struct fabric_node *n = fabric_node_at(b.f, node);

		for (uint32_t port = 1; port <= n->cfg.ports; port++) {
			bool has_cable = fabric_cable_at(b.f, node, port) != FABRIC_NO_CABLE;

			EXPECT_EQ(n->ports[port].info.lid != 0, has_cable && !is_switch(&b, node));
		}
		if (!is_switch(&b, node))
			continue;
		EXPECT(n->ports[0].info.lid != 0 && n->ports[0].guids[0] == n->cfg.guid);
	}
	/* As an endpoint of management it takes what has its LID, and has one name. */
	EXPECT_EQ(memcmp(fabric_node_at(b.f, b.switches[S2])->description, "S2", 3), 0);
	EXPECT(fabric_node_at(b.f, b.ends[H1])->ports[1].info.lid !=
	       fabric_node_at(b.f, b.ends[H1])->ports[2].info.lid);
	engine_bed_close(&b);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void path_set(struct engine_bed *b, uint32_t at, uint16_t lid, uint8_t port)
{
	fabric_node_at(b->f, b->switches[at])->linear[lid] = port;
}

static uint64_t frames_by(struct engine_bed *b, uint32_t at, uint32_t port)
{
	return fabric_link_at(b->f, b->switches[at], port)->counts.frames_sent;
}

/* What leaves S1 and S2 by their cables 3 and 4. */
struct cable_use {
	uint64_t there[2], back[2];
};

static struct cable_use use_of(struct engine_bed *b)
{
	return (struct cable_use){ { frames_by(b, S1, 3), frames_by(b, S1, 4) },
				   { frames_by(b, S2, 3), frames_by(b, S2, 4) } };
}

/* A packet of a reliable connection: a Send, or an acknowledgement. */
static uint32_t rc_frame(struct engine_bed *b, uint8_t bytes[IBA_FRAME_MAX], uint32_t from,
			 uint32_t to, enum iba_op op)
{
	static const uint8_t payload[256];
	struct iba_frame f = {
		.lrh = { .from = engine_bed_lid(b, from), .to = engine_bed_lid(b, to) },
		.packet = { .opcode = iba_opcode(IBA_RC, op),
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 9,
			    .psn = 4,
			    .is_ack_requested = op != IBA_ACKNOWLEDGE,
			    .payload = payload,
			    .payload_bytes = op == IBA_ACKNOWLEDGE ? 0 : sizeof(payload) },
	};

	return iba_frame_encode(&f, bytes);
}

static void rc_post(struct engine_bed *b, uint32_t from, uint32_t to, enum iba_op op)
{
	uint8_t bytes[IBA_FRAME_MAX];

	EXPECT(fabric_post(b->f, b->ends[from], 1, bytes, rc_frame(b, bytes, from, to, op)));
	engine_bed_rest(b);
}

TEST(test_fab_s3_fab_19_fab_23_a_request_and_its_acknowledgement_take_different_cables)
{
	struct engine_bed b = engine_bed_read(text, NULL);
	uint16_t h1 = engine_bed_lid(&b, H1), h2 = engine_bed_lid(&b, H2);
	struct cable_use before = use_of(&b), after;

	path_set(&b, S1, h2, 3);
	path_set(&b, S2, h1, 4);
	rc_post(&b, H1, H2, IBA_SEND_ONLY);
	EXPECT_EQ(engine_bed_take_all(&b, H2), 1);
	rc_post(&b, H2, H1, IBA_ACKNOWLEDGE);
	EXPECT_EQ(engine_bed_take_all(&b, H1), 1);
	after = use_of(&b);
	EXPECT(after.there[0] == before.there[0] + 1 && after.there[1] == before.there[1]);
	EXPECT(after.back[0] == before.back[0] && after.back[1] == before.back[1] + 1);
	/* The path is that of the destination's LID, and changes with its table. */
	path_set(&b, S1, h2, 4);
	rc_post(&b, H1, H2, IBA_SEND_ONLY);
	before = use_of(&b);
	EXPECT(before.there[0] == after.there[0] && before.there[1] == after.there[1] + 1);
	engine_bed_close(&b);
}

/* The second port of the first endnode is at the second switch. */
TEST(test_fab_20_fab_22f_a_message_comes_by_the_second_port_while_the_first_has_no_cable)
{
	struct engine_bed b = engine_bed_read(text, NULL);
	uint16_t second = port_at(&b, b.ends[H1], 2)->info.lid;
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = bed_frame(bytes, second, engine_bed_lid(&b, H2), 0, 100);

	fabric_cut(b.f, fabric_cable_at(b.f, b.ends[H1], 1));
	EXPECT(fabric_post(b.f, b.ends[H1], 2, bytes, length));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, H2), 1);
	length = bed_frame(bytes, engine_bed_lid(&b, H2), second, 0, 100);
	EXPECT(fabric_post(b.f, b.ends[H2], 1, bytes, length));
	engine_bed_rest(&b);
	EXPECT(fabric_take(b.f, b.ends[H1], 2, bytes) > 0);
	EXPECT_EQ(fabric_take(b.f, b.ends[H1], 1, bytes), 0);
	engine_bed_close(&b);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static uint64_t frames_of_all(struct engine_bed *b)
{
	uint64_t sum = 0;

	for (uint32_t node = 0; node < b->nodes; node++)
		for (uint32_t port = 1; port <= fabric_node_at(b->f, node)->cfg.ports; port++)
			if (fabric_link_at(b->f, node, port))
				sum += fabric_link_at(b->f, node, port)->counts.frames_sent;
	return sum;
}

static void gid_of(const struct fabric_node_port *p, uint8_t gid[IBA_GID_BYTES])
{
	for (uint32_t i = 0; i < 8; i++) {
		gid[i] = (uint8_t)(p->info.subnet_prefix >> (56 - 8 * i));
		gid[8 + i] = (uint8_t)(p->guids[0] >> (56 - 8 * i));
	}
}

/* The first endnode's to the third one's, whose transport header is what `op` says. */
static uint32_t global_frame(struct engine_bed *b, uint8_t bytes[IBA_FRAME_MAX], uint32_t from,
			     uint32_t to, uint8_t opcode)
{
	static const uint8_t payload[GARBAGE] = { 1, 2, 3 };
	struct iba_frame f = { .lrh = { .from = engine_bed_lid(b, from) },
			       .has_grh = true,
			       .grh = { .next_header = IBA_GRH_NEXT_BTH, .hop_limit = HOPS },
			       .packet = { .opcode = opcode,
					   .p_key = IBA_PKEY_DEFAULT,
					   .dest_qp = 9,
					   .payload = payload,
					   .payload_bytes = sizeof(payload) } };

	f.lrh.to = port_at(b, b->ends[R1], from == H3 ? 2 : 1)->info.lid;
	gid_of(port_at(b, b->ends[from], 1), f.grh.from);
	gid_of(port_at(b, b->ends[to], 1), f.grh.to);
	return iba_frame_encode(&f, bytes);
}

/* A Send and its acknowledgement cross a switch, the router and a switch: four links each. */
TEST(test_fab_17_switches_and_routers_make_and_consume_no_requests_or_acknowledgements)
{
	struct engine_bed b = engine_bed_read(text, NULL);
	uint8_t bytes[IBA_FRAME_MAX];
	uint64_t before = frames_of_all(&b);
	uint32_t length = global_frame(&b, bytes, H1, H3, iba_opcode(IBA_RC, IBA_SEND_ONLY));

	EXPECT(fabric_post(b.f, b.ends[H1], 1, bytes, length));
	engine_bed_rest(&b);
	EXPECT_EQ(frames_of_all(&b), before + 4);
	EXPECT_EQ(engine_bed_take_all(&b, H1), 0);
	EXPECT_EQ(engine_bed_take_all(&b, R1), 0);
	EXPECT_EQ(engine_bed_take_all(&b, H3), 1);
	length = global_frame(&b, bytes, H3, H1, iba_opcode(IBA_RC, IBA_ACKNOWLEDGE));
	EXPECT(fabric_post(b.f, b.ends[H3], 1, bytes, length));
	engine_bed_rest(&b);
	EXPECT_EQ(frames_of_all(&b), before + 8);
	EXPECT_EQ(engine_bed_take_all(&b, H1), 1);
	engine_bed_close(&b);
}

/* A transport that the fabric does not know passes: only endnodes have one. */
TEST(test_sys_08_switches_know_links_and_routers_networks_and_neither_knows_transports)
{
	struct fabric_cfg cfg = fabric_cfg_live();
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX];
	struct engine_bed b;
	uint32_t length, transport_at = IBA_LRH_BYTES + IBA_GRH_BYTES;

	cfg.has_vcrc = true;
	b = engine_bed_read(text, &cfg);
	length = global_frame(&b, sent, H1, H3, iba_opcode(IBA_RC, IBA_SEND_ONLY));
	sent[transport_at] = 0xdf; /* an opcode of no service */
	memset(sent + transport_at + 16, 0xa5, 8);
	EXPECT(fabric_post(b.f, b.ends[H1], 1, sent, length));
	engine_bed_rest(&b);
	EXPECT_EQ(fabric_take(b.f, b.ends[H3], 1, came), length);
	EXPECT_MEM(came + transport_at, sent + transport_at,
		   length - transport_at - IBA_VCRC_BYTES);
	engine_bed_close(&b);
}
