/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric of two subnets whose owners post whatever they like: frames of arbitrary bytes, data to
 * arbitrary LIDs and GIDs, directed SMPs that set arbitrary attributes of any node. In between
 * cables are cut, mended, slow and damage bits, and time passes. A frame comes only to a port that
 * it is for; when the owners have taken all, and time has passed, no buffer holds anything.
 */
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "fabric/fabric.h"
#include "fabric/node.h"
#include "fabric/setup.h"
#include "wire/smp.h"

enum { OP_RAW, OP_DATA, OP_SMP, OP_TAKE, OP_TIME, OP_CABLE, OPS, STEPS_MAX = 200000, ROUNDS = 8 };

static const char text[] =
	"Switch 4 \"S1\"\n[1] \"H1\"[1]\n[2] \"R1\"[1]\n[3] \"S2\"[3]\n[4] \"S2\"[4]\n"
	"Switch 4 \"S2\"\n[1] \"H2\"[1]\n"
	"Switch 4 \"S3\"\n[1] \"H3\"[1]\n[2] \"R1\"[2]\n"
	"Ca 1 \"H1\"\nCa 1 \"H2\"\nCa 1 \"H3\"\nRt 2 \"R1\"\n";

struct bed {
	struct fabric *f;
	uint64_t now_ns;
};

/* A port with an owner. */
static void owner_of(struct bed *b, uint8_t pick, uint32_t *node, uint32_t *port)
{
	struct fabric_node *n;

	*node = pick % fabric_node_count(b->f);
	n = fabric_node_at(b->f, *node);
	*port = n->cfg.type == SM_NODE_SWITCH ? 0 : 1 + pick / 16U % n->cfg.ports;
}

static void pass(struct bed *b, uint64_t ns)
{
	uint64_t until_ns = b->now_ns + ns, due_ns;
	uint32_t steps = 0, node, port, changes;

	fabric_run(b->f, b->now_ns);
	while ((due_ns = fabric_due(b->f)) <= until_ns) {
		b->now_ns = due_ns > b->now_ns ? due_ns : b->now_ns;
		fabric_run(b->f, b->now_ns);
		CHECK(++steps < STEPS_MAX);
	}
	b->now_ns = until_ns;
	while (fabric_changed(b->f, &node, &port, &changes))
		CHECK(node < fabric_node_count(b->f));
}

static void take_all(struct bed *b, uint32_t node, uint32_t port)
{
	const uint8_t *bytes;
	struct fabric_node *n = fabric_node_at(b->f, node);
	const struct sm_port_info *info = &n->ports[port].info;
	struct iba_glance g;
	uint32_t length;

	while ((length = fabric_peek(b->f, node, port, &bytes)) > 0) {
		CHECK(iba_frame_glance(&g, bytes, length) == WEFT_OK);
		if (g.lrh.lane != IBA_LANE_MANAGEMENT && g.lrh.to < IBA_LID_MULTICAST_MIN)
			CHECK(g.lrh.to >> info->lmc == info->lid >> info->lmc);
		fabric_pass(b->f, node, port);
	}
}

static uint32_t rest_of(struct rd *r, uint8_t *to, uint32_t most)
{
	uint32_t length = (uint32_t)(r->end - r->at);

	length = length < most ? length : most;
	memset(to, 0, most);
	rd_bytes(r, to, length);
	return length;
}

/* An SMP along a short route that asks for, or sets, some attribute. */
static uint32_t smp_make(struct rd *r, uint8_t bytes[IBA_FRAME_MAX])
{
	struct smp s = { .mad = { .mgmt_class = MAD_SUBNET_DIRECTED,
				  .class_version = SMP_CLASS_VERSION,
				  .tid = 1 },
			 .is_directed = true,
			 .from = IBA_LID_PERMISSIVE,
			 .to = IBA_LID_PERMISSIVE };
	uint8_t mad[MAD_BYTES], head = rd_u8(r);
	const struct iba_frame f = { .lrh = { .lane = IBA_LANE_MANAGEMENT,
					      .to = IBA_LID_PERMISSIVE,
					      .from = IBA_LID_PERMISSIVE },
				     .packet = { .opcode = IBA_UD_SEND,
						 .p_key = IBA_PKEY_DEFAULT,
						 .payload = mad,
						 .payload_bytes = MAD_BYTES } };

	s.mad.method = head & 1 ? MAD_SET : MAD_GET;
	s.hop_count = head >> 1 & 3;
	for (uint32_t hop = 1; hop <= s.hop_count; hop++)
		s.there[hop] = rd_u8(r) % 5;
	s.mad.attribute = SM_NODE_DESCRIPTION + head / 8;
	s.mad.modifier = rd_u8(r);
	(void)rest_of(r, s.data, SMP_DATA_BYTES);
	smp_encode(&s, mad);
	return iba_frame_encode(&f, bytes);
}

static uint32_t data_make(struct rd *r, uint8_t bytes[IBA_FRAME_MAX])
{
	static const uint8_t payload[4096];
	uint8_t head = rd_u8(r);
	struct iba_frame f = { .lrh = { .level = head & 0xf, .to = rd_u8(r), .from = rd_u8(r) },
			       .has_grh = head >> 4 & 1,
			       .grh = { .next_header = IBA_GRH_NEXT_BTH, .hop_limit = head },
			       .packet = { .opcode = IBA_UD_SEND,
					   .p_key = IBA_PKEY_DEFAULT,
					   .dest_qp = head >> 5 ? 7 : IBA_QPN_GSI,
					   .payload = payload,
					   .payload_bytes = 16U * rd_u8(r) } };

	if (f.lrh.to >= 0xf0)
		f.lrh.to = (uint16_t)(IBA_LID_MULTICAST_MIN | (f.lrh.to & 0xf));
	f.grh.to[0] = 0xfe;
	f.grh.to[1] = 0x80;
	f.grh.to[7] = head >> 6;
	f.grh.to[13] = 0x20;
	f.grh.to[14] = rd_u8(r);
	f.grh.to[15] = 1;
	return iba_frame_encode(&f, bytes);
}

static void cable_act(struct bed *b, uint8_t pick)
{
	uint32_t cable = pick % fabric_cable_count(b->f);

	switch (pick >> 6) {
	case 0:
		fabric_cut(b->f, cable);
		break;
	case 1:
		fabric_mend(b->f, cable);
		break;
	case 2:
		fabric_errors(b->f, cable, pick & 32 ? 5000 : 0);
		break;
	default:
		fabric_degrade(b->f, cable, 1 + (pick >> 4 & 3));
		break;
	}
}

static void act(struct bed *b, struct rd *r)
{
	uint8_t op = rd_u8(r), pick = rd_u8(r), bytes[IBA_FRAME_MAX];
	uint32_t node, port, length;

	owner_of(b, pick, &node, &port);
	switch (op % OPS) {
	case OP_RAW:
		length = rest_of(r, bytes, 24U + pick % 64U);
		(void)fabric_post(b->f, node, port, bytes, length);
		break;
	case OP_DATA:
		length = data_make(r, bytes);
		for (uint32_t i = 0; i <= op / 32U; i++)
			(void)fabric_post(b->f, node, port, bytes, length);
		break;
	case OP_SMP:
		(void)fabric_post(b->f, node, port, bytes, smp_make(r, bytes));
		break;
	case OP_TAKE:
		take_all(b, node, port);
		break;
	case OP_TIME:
		pass(b, 1U << pick % 20);
		break;
	default:
		cable_act(b, pick);
		break;
	}
}

/* Owners take; what is too old is discarded; a deadlock ends so, too. */
static void rest(struct bed *b)
{
	uint32_t node, port;

	for (uint32_t cable = 0; cable < fabric_cable_count(b->f); cable++)
		fabric_errors(b->f, cable, 0);
	for (node = 0; node < fabric_node_count(b->f); node++) {
		struct fabric_node *n = fabric_node_at(b->f, node);

		n->switch_info.life_time = 5;
		for (port = 1; port <= n->cfg.ports; port++)
			n->ports[port].info.head_of_queue_life = 5;
		fabric_touch(b->f, node);
	}
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t pick = 0; pick < 32; pick++) {
			owner_of(b, (uint8_t)pick, &node, &port);
			take_all(b, node, port);
		}
		pass(b, 50000000);
	}
}

static void check_empty(struct bed *b)
{
	for (uint32_t cable = 0; cable < fabric_cable_count(b->f); cable++) {
		uint32_t node[2], port[2];

		fabric_cable_ends(b->f, cable, node, port);
		for (uint32_t i = 0; i < 2; i++) {
			const struct fabric_link *l = fabric_link_at(b->f, node[i], port[i]);

			for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
				CHECK(l->in[lane].blocks_used == 0);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd r = rd_of(data, size);
	struct fabric_cfg cfg = fabric_cfg_live();
	struct bed b = { .now_ns = 0 };
	struct topology t;
	uint32_t line;
	uint8_t head = rd_u8(&r);

	cfg.linear_max = 256;
	cfg.multicast_max = 64;
	cfg.link.lane_blocks = FABRIC_FRAME_FLITS;
	cfg.link.resend_ns = 100000;
	if (head & 1) {
		cfg.flit_ns_x16 = 16;
		cfg.cable_ns = 10;
		cfg.link.ack_delay_ns = 100;
	}
	cfg.is_cut_through = head & 2;
	CHECK(topology_parse(&t, text, sizeof(text) - 1, &line) == WEFT_OK);
	CHECK(fabric_open(&t, &cfg, &b.f) == WEFT_OK);
	topology_fini(&t);
	pass(&b, 1000000);
	CHECK(fabric_setup(b.f, FABRIC_MIN_HOP) == 0);
	while (r.at < r.end)
		act(&b, &r);
	rest(&b);
	check_empty(&b);
	fabric_close(b.f);
	return 0;
}
