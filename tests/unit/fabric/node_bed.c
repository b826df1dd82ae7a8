/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/fabric/node_bed.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

/* ---- Nodes ---------------------------------------------------------------------------------- */

struct node_bed *node_bed_open(void)
{
	struct node_bed *b = calloc(1, sizeof(*b));

	REQUIRE(b);
	memset(b->peers, BED_NONE, sizeof(b->peers));
	return b;
}

void node_bed_close(struct node_bed *own_b)
{
	for (uint32_t i = 0; i < own_b->count; i++)
		fabric_node_fini(&own_b->nodes[i]);
	free(own_b);
}

uint32_t node_bed_add(struct node_bed *b, enum sm_node_type type, uint32_t ports)
{
	struct fabric_node_cfg cfg = {
		.type = type,
		.ports = ports,
		.guid = 0x1000 + 0x100 * (uint64_t)b->count,
		.description = "a node",
		.lanes = 4,
		.linear_max = BED_TABLE,
		.multicast_max = BED_TABLE,
	};

	REQUIRE(b->count < BED_NODES && ports <= BED_PORTS);
	REQUIRE(fabric_node_init(&b->nodes[b->count], &cfg) == 0);
	return b->count++;
}

void node_bed_cable(struct node_bed *b, uint32_t a, uint32_t port_a, uint32_t c, uint32_t port_c)
{
	b->peers[a][port_a].node = (uint8_t)c;
	b->peers[a][port_a].port = (uint8_t)port_c;
	b->peers[c][port_c].node = (uint8_t)a;
	b->peers[c][port_c].port = (uint8_t)port_a;
	REQUIRE(fabric_node_join(&b->nodes[a], port_a, &b->nodes[c], port_c, b->now_ns));
}

struct node_bed *node_bed_star(void)
{
	struct node_bed *b = node_bed_open();

	(void)node_bed_add(b, SM_NODE_CA, 1);
	(void)node_bed_add(b, SM_NODE_SWITCH, 4);
	(void)node_bed_add(b, SM_NODE_CA, 1);
	node_bed_cable(b, 0, 1, 1, 1);
	node_bed_cable(b, 2, 1, 1, 2);
	return b;
}

/* ---- Frames --------------------------------------------------------------------------------- */

/* On their way; each is at a node that has not looked at it yet. */
struct flight {
	struct node_bed_frame frames[BED_CAME];
	uint32_t begin, end;
};

static void fly(struct flight *f, uint32_t node, uint32_t port, const uint8_t *bytes,
		uint32_t length)
{
	struct node_bed_frame *frame = &f->frames[f->end++];

	REQUIRE(f->end <= BED_CAME);
	frame->node = node;
	frame->port = port;
	frame->length = length;
	memcpy(frame->bytes, bytes, length);
}

static void by_link(struct node_bed *b, struct flight *f, const struct node_bed_frame *at,
		    uint32_t port)
{
	struct fabric_node *n = &b->nodes[at->node];

	if (n->cfg.type == SM_NODE_SWITCH &&
	    !fabric_node_lets_out(n, b->now_ns, port, at->bytes, at->length))
		return;
	if (b->peers[at->node][port].node != BED_NONE && n->ports[port].is_joined)
		fly(f, b->peers[at->node][port].node, b->peers[at->node][port].port, at->bytes,
		    at->length);
}

static void go(struct node_bed *b, struct flight *f, struct node_bed_frame *at,
	       struct fabric_way way);

/* By the tables of a switch. */
static void by_tables(struct node_bed *b, struct flight *f, const struct node_bed_frame *at,
		      uint32_t in)
{
	struct fabric_node *n = &b->nodes[at->node];
	struct iba_lrh h;
	uint64_t outputs;

	REQUIRE(iba_lrh_decode(&h, at->bytes, at->length) == WEFT_OK);
	outputs = fabric_node_outputs(n, in, &h);
	if (outputs & 1) {
		struct node_bed_frame own = *at;

		go(b, f, &own, fabric_node_recv(n, b->now_ns, in, own.bytes, own.length));
	}
	for (uint32_t port = 1; port <= n->cfg.ports; port++)
		if (outputs >> port & 1)
			by_link(b, f, at, port);
}

static void go(struct node_bed *b, struct flight *f, struct node_bed_frame *at,
	       struct fabric_way way)
{
	at->length = way.length;
	if (way.to == FABRIC_TO_OWNER) {
		REQUIRE(b->came_count < BED_CAME);
		at->port = way.port;
		b->came[b->came_count++] = *at;
	} else if (way.to == FABRIC_TO_LINK) {
		by_link(b, f, at, way.port);
	} else if (way.to == FABRIC_TO_SUBNET) {
		if (b->nodes[at->node].cfg.type == SM_NODE_SWITCH)
			by_tables(b, f, at, 0);
		else
			by_link(b, f, at, way.port);
	}
}

static void carry(struct node_bed *b, struct flight *f)
{
	for (; f->begin < f->end; f->begin++) {
		struct node_bed_frame *at = &f->frames[f->begin];
		struct fabric_node *n = &b->nodes[at->node];

		if (n->cfg.type != SM_NODE_SWITCH)
			go(b, f, at,
			   fabric_node_recv(n, b->now_ns, at->port, at->bytes, at->length));
		else if (fabric_node_lets_in(n, b->now_ns, at->port, at->bytes, at->length))
			by_tables(b, f, at, at->port);
	}
}

void node_bed_arrive(struct node_bed *b, uint32_t node, uint32_t port, const uint8_t *bytes,
		     uint32_t length)
{
	struct flight *f = calloc(1, sizeof(*f));

	REQUIRE(f);
	fly(f, node, port, bytes, length);
	carry(b, f);
	free(f);
}

void node_bed_post(struct node_bed *b, uint32_t node, uint32_t port, const uint8_t *bytes,
		   uint32_t length)
{
	struct node_bed_frame at = { .node = node, .port = port, .length = length };
	struct flight *f = calloc(1, sizeof(*f));

	REQUIRE(f);
	memcpy(at.bytes, bytes, length);
	go(b, f, &at, fabric_node_post(&b->nodes[node], b->now_ns, port, at.bytes, length));
	carry(b, f);
	free(f);
}

static void link_again(struct node_bed *b, uint32_t node, uint32_t port)
{
	uint8_t other = b->peers[node][port].node, other_port = b->peers[node][port].port;

	fabric_node_part(&b->nodes[node], port, b->now_ns);
	if (other == BED_NONE)
		return;
	fabric_node_part(&b->nodes[other], other_port, b->now_ns);
	if (b->nodes[node].ports[port].wants_link && b->nodes[other].ports[other_port].wants_link)
		(void)fabric_node_join(&b->nodes[node], port, &b->nodes[other], other_port,
				       b->now_ns);
}

void node_bed_settle(struct node_bed *b)
{
	struct flight *f = calloc(1, sizeof(*f));
	struct node_bed_frame at;
	struct fabric_way way;
	uint32_t port, changes;

	REQUIRE(f);
	for (uint32_t i = 0; i < b->count; i++)
		while ((changes = fabric_node_changes(&b->nodes[i], &port)) != 0)
			if (changes & FABRIC_CHANGE_LINK)
				link_again(b, i, port);
	for (uint32_t i = 0; i < b->count; i++)
		for (;;) {
			at.node = i;
			way = fabric_node_next(&b->nodes[i], b->now_ns, at.bytes);
			if (way.to == FABRIC_TO_NOWHERE)
				break;
			go(b, f, &at, way);
		}
	carry(b, f);
	free(f);
}

/* ---- SMPs ----------------------------------------------------------------------------------- */

struct smp node_bed_smp(uint8_t method, uint16_t attribute, uint32_t modifier)
{
	return (struct smp){ .mad = { .mgmt_class = MAD_SUBNET_LID,
				      .class_version = SMP_CLASS_VERSION,
				      .method = method,
				      .attribute = attribute,
				      .modifier = modifier } };
}

struct smp node_bed_route(struct smp s, uint32_t hops, const uint8_t *ports)
{
	s.mad.mgmt_class = MAD_SUBNET_DIRECTED;
	s.is_directed = true;
	s.from = s.to = IBA_LID_PERMISSIVE;
	s.hop_count = (uint8_t)hops;
	if (hops > 0)
		memcpy(s.there + 1, ports, hops);
	return s;
}

void node_bed_fill(struct smp *s, const union sm_value *value)
{
	mad_layout_encode(sm_layout(s->mad.attribute), value, s->data);
}

uint32_t node_bed_frame(uint8_t bytes[IBA_FRAME_MAX], const struct smp *s, uint16_t from,
			uint16_t to)
{
	uint8_t mad[MAD_BYTES];
	struct iba_frame f = {
		.lrh = { .lane = IBA_LANE_MANAGEMENT, .from = from, .to = to },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	smp_encode(s, mad);
	return iba_frame_encode(&f, bytes);
}

struct smp node_bed_smp_of(const uint8_t *bytes, uint32_t length)
{
	struct iba_frame f;
	struct smp s;

	REQUIRE(iba_frame_decode(&f, bytes, length) == WEFT_OK);
	REQUIRE(smp_decode(&s, f.packet.payload, f.packet.payload_bytes) == WEFT_OK);
	return s;
}

struct smp node_bed_last(const struct node_bed *b)
{
	REQUIRE(b->came_count > 0);
	return node_bed_smp_of(b->came[b->came_count - 1].bytes, b->came[b->came_count - 1].length);
}

struct smp node_bed_ask(struct node_bed *b, uint32_t node, uint32_t port, struct smp s)
{
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t had = b->came_count;
	struct smp answer;

	s.mad.tid = ++b->tid;
	node_bed_post(b, node, port, bytes,
		      node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	REQUIRE(b->came_count == had + 1);
	REQUIRE(b->came[had].node == node && b->came[had].port == port);
	answer = node_bed_last(b);
	REQUIRE(answer.mad.tid == b->tid && answer.mad.method == MAD_GET_RESPONSE);
	REQUIRE(answer.is_returning && answer.hop_pointer == 0);
	b->came_count--;
	return answer;
}

uint16_t node_bed_get(struct node_bed *b, struct smp s, union sm_value *value)
{
	struct smp answer = node_bed_ask(b, 0, 1, s);

	REQUIRE(mad_layout_decode(sm_layout(s.mad.attribute), value, answer.data) == WEFT_OK);
	return answer.mad.status;
}

uint16_t node_bed_set(struct node_bed *b, struct smp s, union sm_value *value)
{
	s.mad.method = MAD_SET;
	node_bed_fill(&s, value);
	return node_bed_get(b, s, value);
}

/* ---- A subnet manager ----------------------------------------------------------------------- */

/* All that is cabled to what has been found gets a route, the first one found. */
struct found {
	bool is_found;
	uint32_t hops;
	uint8_t ports[BED_NODES];
};

static void find(const struct node_bed *b, struct found found[BED_NODES])
{
	found[0].is_found = true;
	for (uint32_t round = 0; round < b->count; round++)
		for (uint32_t i = 0; i < b->count; i++)
			for (uint32_t port = 1; port <= BED_PORTS; port++) {
				uint32_t to = b->peers[i][port].node;

				if (!found[i].is_found || to == BED_NONE || found[to].is_found)
					continue;
				found[to] = found[i];
				found[to].ports[found[to].hops++] = (uint8_t)port;
			}
}

static void port_manage(struct node_bed *b, const struct found *to, uint32_t node, uint32_t port)
{
	struct smp s = node_bed_route(node_bed_smp(MAD_GET, SM_PORT_INFO, port), to->hops,
				      to->ports);
	bool is_endport = b->nodes[node].cfg.type != SM_NODE_SWITCH || port == 0;
	union sm_value v;

	REQUIRE(node_bed_get(b, s, &v) == 0);
	if (is_endport) {
		v.port_info.lid = (uint16_t)(node + 1);
		v.port_info.sm_lid = 1;
	}
	for (uint8_t state = SM_PORT_ARMED; state <= SM_PORT_ACTIVE; state++) {
		v.port_info.state = v.port_info.state > SM_PORT_DOWN && port > 0 ? state : 0;
		v.port_info.phys_state = v.port_info.down_default = 0;
		REQUIRE(node_bed_set(b, s, &v) == 0);
	}
}

/* By the first port of the way, which is found anew from each switch. */
static uint8_t way_to(const struct node_bed *b, uint32_t from, uint32_t to)
{
	uint8_t first[BED_NODES];

	memset(first, BED_NONE, sizeof(first));
	for (uint32_t round = 0; round < b->count; round++)
		for (uint32_t i = 0; i < b->count; i++)
			for (uint32_t port = 1; port <= BED_PORTS; port++) {
				uint32_t next = b->peers[i][port].node;

				if (next == BED_NONE || next == from || first[next] != BED_NONE)
					continue;
				if (i == from)
					first[next] = (uint8_t)port;
				else if (first[i] != BED_NONE)
					first[next] = first[i];
			}
	return from == to ? 0 : first[to];
}

static void switch_manage(struct node_bed *b, const struct found *to, uint32_t node)
{
	struct smp s = node_bed_route(node_bed_smp(MAD_GET, SM_SWITCH_INFO, 0), to->hops,
				      to->ports);
	union sm_value v;

	REQUIRE(node_bed_get(b, s, &v) == 0);
	v.switch_info.linear_top = (uint16_t)b->count;
	REQUIRE(node_bed_set(b, s, &v) == 0);
	s = node_bed_route(node_bed_smp(MAD_SET, SM_LINEAR_TABLE, 0), to->hops, to->ports);
	memset(&v, FABRIC_NO_PORT, sizeof(v));
	for (uint32_t i = 0; i < b->count; i++)
		v.linear_table.ports[i + 1] = way_to(b, node, i);
	REQUIRE(node_bed_set(b, s, &v) == 0);
}

void node_bed_manage(struct node_bed *b)
{
	struct found found[BED_NODES] = { 0 };

	fabric_node_set_sm(&b->nodes[0], 1, true, b->now_ns);
	find(b, found);
	for (uint32_t i = 0; i < b->count; i++) {
		bool is_switch = b->nodes[i].cfg.type == SM_NODE_SWITCH;
		uint32_t last = b->nodes[i].cfg.ports;

		if (!found[i].is_found)
			continue;
		for (uint32_t port = is_switch ? 0 : 1; port <= last; port++)
			port_manage(b, &found[i], i, port);
		if (is_switch)
			switch_manage(b, &found[i], i);
	}
	node_bed_settle(b);
}

uint32_t node_bed_data(uint8_t bytes[IBA_FRAME_MAX], uint16_t from, uint16_t to,
		       uint32_t payload_bytes)
{
	static const uint8_t payload[IBA_PAYLOAD_MAX];
	struct iba_frame f = {
		.lrh = { .from = from, .to = to },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 77,
			    .payload = payload,
			    .payload_bytes = payload_bytes },
	};

	return iba_frame_encode(&f, bytes);
}
