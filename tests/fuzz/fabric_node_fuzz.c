/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agents of a node whose neighbours and owners send whatever they like: frames of arbitrary
 * bytes, and datagrams of management with arbitrary bytes in a frame that is right. In between time
 * passes, links go down and up, and the node's traps leave. Whatever the node sends is a frame, by
 * a port that it has; its attributes stay such as can be told.
 */
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "fabric/node.h"
#include "wire/mad.h"

enum { OP_RAW, OP_SMP, OP_SERVICE, OP_TIME, OP_LINK, OP_LET, OPS, PORTS = 4, TRAPS_MAX = 1000 };

struct bed {
	struct fabric_node n, peer;
	uint64_t now_ns;
	uint8_t bytes[IBA_FRAME_MAX];
};

static void check_way(struct bed *b, struct fabric_way way)
{
	struct iba_glance g;

	if (way.to == FABRIC_TO_NOWHERE)
		return;
	CHECK(way.to <= FABRIC_TO_SUBNET && way.port <= b->n.cfg.ports);
	CHECK(way.port > 0 || b->n.cfg.type == SM_NODE_SWITCH);
	CHECK(way.length <= IBA_FRAME_MAX);
	CHECK(iba_frame_glance(&g, b->bytes, way.length) == WEFT_OK);
	if (b->n.cfg.type == SM_NODE_SWITCH)
		CHECK(fabric_node_outputs(&b->n, 0, &g.lrh) >> (b->n.cfg.ports + 1) == 0);
}

/* Everything that the node wants to say; its links go down and up as it wishes. */
static void settle(struct bed *b)
{
	uint32_t port, changes, traps = 0;
	struct fabric_way way;

	while ((way = fabric_node_next(&b->n, b->now_ns, b->bytes)).to != FABRIC_TO_NOWHERE) {
		check_way(b, way);
		CHECK(++traps < TRAPS_MAX);
	}
	while ((changes = fabric_node_changes(&b->n, &port)) != 0) {
		CHECK(port <= b->n.cfg.ports);
		if (!(changes & FABRIC_CHANGE_LINK) || port == 0)
			continue;
		fabric_node_part(&b->n, port, b->now_ns);
		if (b->n.ports[port].wants_link)
			(void)fabric_node_join(&b->n, port, &b->peer, port, b->now_ns);
	}
	for (port = 1; port <= b->n.cfg.ports; port++)
		CHECK(fabric_node_lanes(&b->n, port) <= IBA_LANE_MANAGEMENT);
}

static void hear(struct bed *b, uint32_t port, bool is_own, uint32_t length)
{
	if (is_own)
		check_way(b, fabric_node_post(&b->n, b->now_ns, port, b->bytes, length));
	else
		check_way(b, fabric_node_recv(&b->n, b->now_ns, port, b->bytes, length));
}

/* What is missing at the end of the input is 0. */
static uint32_t some_bytes(struct rd *r, uint8_t *to, uint32_t most)
{
	uint32_t length = (uint32_t)(r->end - r->at);

	length = length < most ? length : most;
	memset(to, 0, most);
	rd_bytes(r, to, length);
	return length;
}

static uint32_t datagram(struct bed *b, struct rd *r, bool is_smp)
{
	uint8_t mad[MAD_BYTES];
	struct iba_frame f = {
		.lrh = { .lane = is_smp ? IBA_LANE_MANAGEMENT : 0,
			 .to = is_smp ? IBA_LID_PERMISSIVE : 1,
			 .from = IBA_LID_PERMISSIVE },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = is_smp ? 0 : IBA_QPN_GSI,
			    .q_key = is_smp ? 0 : 0x80010000,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	(void)some_bytes(r, mad, MAD_BYTES);
	mad[0] = 1; /* of the base version, and mostly of a class and method that exist */
	if (is_smp)
		mad[1] = mad[1] & 1 ? MAD_SUBNET_DIRECTED : MAD_SUBNET_LID;
	else
		mad[1] = MAD_PERFORMANCE;
	return iba_frame_encode(&f, b->bytes);
}

static void act(struct bed *b, struct rd *r)
{
	uint8_t op = rd_u8(r), argument = rd_u8(r);
	uint32_t first = b->n.cfg.type == SM_NODE_SWITCH ? 0 : 1;
	uint32_t port = argument % b->n.cfg.ports + 1;
	bool is_own = argument >> 7;

	if (is_own && first == 0)
		port = 0;
	switch (op % OPS) {
	case OP_RAW:
		hear(b, port, is_own, some_bytes(r, b->bytes, argument % 100U + 2));
		break;
	case OP_SMP:
	case OP_SERVICE:
		hear(b, port, is_own, datagram(b, r, op % OPS == OP_SMP));
		break;
	case OP_TIME:
		b->now_ns += UINT64_C(1) << argument % 34;
		break;
	case OP_LINK:
		port = argument % b->n.cfg.ports + 1;
		fabric_node_part(&b->n, port, b->now_ns);
		if (b->n.ports[port].wants_link)
			(void)fabric_node_join(&b->n, port, &b->peer, port, b->now_ns);
		break;
	case OP_LET:
		if (first > 0)
			break;
		(void)some_bytes(r, b->bytes, 64);
		port = argument % b->n.cfg.ports + 1;
		(void)fabric_node_lets_in(&b->n, b->now_ns, port, b->bytes, 64);
		(void)fabric_node_lets_out(&b->n, b->now_ns, port, b->bytes, 64);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum sm_node_type types[] = { SM_NODE_CA, SM_NODE_SWITCH, SM_NODE_ROUTER };
	struct rd r = rd_of(data, size);
	struct fabric_node_cfg cfg = { .ports = PORTS,
				       .guid = 0x1000,
				       .description = "fuzzed",
				       .lanes = 4,
				       .linear_max = 128,
				       .multicast_max = 64 };
	static struct bed b;

	memset(&b, 0, sizeof(b));
	cfg.type = types[rd_u8(&r) % 3];
	CHECK(fabric_node_init(&b.n, &cfg) == 0);
	cfg.type = SM_NODE_SWITCH;
	cfg.guid = 0x2000;
	CHECK(fabric_node_init(&b.peer, &cfg) == 0);
	for (uint32_t port = 1; port <= PORTS; port++)
		CHECK(fabric_node_join(&b.n, port, &b.peer, port, 0));
	while (r.at < r.end) {
		act(&b, &r);
		settle(&b);
	}
	fabric_node_fini(&b.n);
	fabric_node_fini(&b.peer);
	return 0;
}
