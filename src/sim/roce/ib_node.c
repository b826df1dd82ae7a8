/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/ib_node.h"

#include <string.h>

#include "base/check.h"
#include "wire/iba_icrc.h"

/* Rounds of core and network; polls in a row that may look at no packet. As in the driver. */
enum { ROUNDS_MAX = 8, POLLS_CONTENT = 32 };

static const uint64_t tick_ns = 1000 * 1000;

void ib_node_addresses(int index, struct inet_end at[2])
{
	memcpy(at[0].address, (uint8_t[]){ 10, 0, 0, (uint8_t)(1 + index) }, 4);
	at[1].address[0] = 0xfd;
	at[1].address[15] = (uint8_t)(1 + index);
	at[0].port = at[1].port = IBA_UDP_PORT;
}

struct ib_local ib_node_local(int from, int to, bool has_grh)
{
	return (struct ib_local){
		.from = (uint16_t)(2 + 2 * from + to % 2),
		.to = (uint16_t)(2 + 2 * to + from % 2),
		.level = 3,
		.has_grh = has_grh,
	};
}

int ib_node_index(const struct ib_path *path)
{
	return path->to.address[path->is_ipv6 ? 15 : 3] - 1;
}

void ib_node_open(struct ib_node *n, int index, struct adapter *adapter)
{
	n->index = index;
	n->adapter = adapter;
	n->alarm.event = (struct world_event){ .node = (uint32_t)index, .kind = EVENT_DEADLINE };
	n->port = ib_port_create(&(struct ib_port_config){
		.adapter = adapter,
		.is_dropping_early = n->is_dropping_early,
	});
	CHECK(n->port);
	ib_node_addresses(index, n->at);
}

/* ---- Packets -------------------------------------------------------------------------------- */

struct ib_group ib_node_group(bool is_ipv6, uint8_t number)
{
	struct ib_group g = { .is_ipv6 = is_ipv6 };

	CHECK(number > 0 && number <= IB_NODE_GROUPS_MAX);
	if (is_ipv6)
		memcpy(g.address, (uint8_t[16]){ 0xff, 0x0e, [15] = number }, 16);
	else
		memcpy(g.address, (uint8_t[]){ 239, 0, 0, number }, 4);
	return g;
}

uint8_t ib_node_group_number(const struct ib_path *path)
{
	const uint8_t *to = path->to.address;

	if (path->is_ipv6)
		return to[0] == 0xff ? to[15] : 0;
	return to[0] == 239 ? to[3] : 0;
}

void ib_node_put(struct sim_datagram *pipe, const struct ib_out *out)
{
	uint8_t bytes[IB_NODE_BYTES_MAX];
	size_t at = IB_NODE_HEAD;

	bytes[0] = (uint8_t)(out->path->is_ipv6 | ib_node_group_number(out->path) << 1);
	if (out->route_bytes > 0)
		bytes[0] = IB_NODE_IS_FRAME << 1;
	if (out->run > 0) {
		bytes[0] |= IB_NODE_IS_RUN << 1;
		bytes[at++] = (uint8_t)out->run;
		bytes[at++] = (uint8_t)out->run;
	}
	bytes[1] = (uint8_t)(out->path->from.port >> 8);
	bytes[2] = (uint8_t)out->path->from.port;
	CHECK(at + out->spans.length <= sizeof(bytes));
	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(bytes + at, out->spans.spans[i].bytes, out->spans.spans[i].length);
		at += out->spans.spans[i].length;
	}
	if (out->route_bytes > 0) {
		at += IBA_VCRC_BYTES;
		iba_vcrc_put(bytes + IB_NODE_HEAD, at - IB_NODE_HEAD);
	}
	sim_datagram_send(pipe, bytes, at);
}

enum { MORE_MAX = 3 };

/* What may follow a packet at less cost, as sockets have it. */
static void send_more(struct ib_node *n, void (*carry)(struct ib_node *n, const struct ib_out *out),
		      size_t each)
{
	struct ib_out outs[MORE_MAX];
	uint8_t rooms[MORE_MAX][IB_ROUTE_BYTES_MAX + IBA_PACKET_MAX];
	uint32_t count;

	for (uint32_t i = 0; i < MORE_MAX; i++) {
		outs[i].room = rooms[i] + IB_ROUTE_BYTES_MAX;
		outs[i].run_bytes = 0;
		outs[i].ipv4_id = 0;
		outs[i].near_number = 0;
	}
	count = ib_port_send_more(
		n->port, n->world->now_ns,
		&(struct ib_more){ .outs = outs, .most = MORE_MAX, .each = each });
	for (uint32_t i = 0; i < count; i++)
		carry(n, &outs[i]);
}

bool ib_node_send(struct ib_node *n, void (*carry)(struct ib_node *n, const struct ib_out *out))
{
	uint64_t now_ns = n->world->now_ns;
	struct ib_out out = { .run_bytes = n->has_runs ? IBA_PAYLOAD_MAX : 0 };
	bool has_moved = false;

	while (ib_port_send(n->port, now_ns, &out)) {
		carry(n, &out);
		has_moved = true;
		if (!n->has_runs && ib_out_may_have_more(&out))
			send_more(n, carry, out.spans.length);
	}
	ib_port_sent(n->port, now_ns);
	return has_moved;
}

/* To which group a packet was sent, if it names all queue pairs of one; 0: none. */
static uint8_t group_of(const uint8_t *bytes, const struct ib_in *in)
{
	struct iba_packet p = { 0 };
	bool is_for_all = bytes[0] > 1 && iba_decode(&p, in->bytes, in->length) == WEFT_OK &&
			  p.dest_qp == IBA_QPN_MULTICAST;

	return is_for_all ? bytes[0] >> 1 : 0;
}

/* Its VCRC is not looked at: what flips must be found by the packet's own CRC. */
static void take_frame(struct ib_node *n, const uint8_t *frame, size_t length)
{
	struct ib_in in;
	enum weft_reason r = ib_in_of_frame(&in, frame, length);

	if (r == WEFT_OK)
		(void)ib_port_recv(n->port, n->world->now_ns, &in);
	else
		ib_port_drop(n->port, r);
}

/* Bits that flip ahead of the packet would make it another's: IP has a checksum of its own. */
static void take(struct ib_node *n, const struct ib_node *from, const uint8_t *bytes, size_t length)
{
	bool is_ipv6 = bytes[0] & 1;
	struct ib_in in = {
		.bytes = bytes + IB_NODE_HEAD,
		.length = length - IB_NODE_HEAD,
		.is_ipv6 = is_ipv6,
		.from = from->at[is_ipv6],
		.to = n->at[is_ipv6],
		.is_ipv4_word_known = true,
		.ipv4_fragment = IBA_IPV4_DF,
		.hop_limit = 64,
	};
	uint8_t group;

	if (bytes[0] >> 1 == IB_NODE_IS_RUN) {
		/* The count is there twice: if they differ, it was corrupted on its way. */
		if (in.length < IB_NODE_RUN || in.bytes[0] != in.bytes[1])
			return;
		in.run = in.bytes[0];
		in.bytes += IB_NODE_RUN;
		in.length -= IB_NODE_RUN;
	}
	group = in.run > 0 ? 0 : group_of(bytes, &in);
	if (group > 0) {
		const struct ib_group g = ib_node_group(is_ipv6, group);

		memcpy(in.to.address, g.address, sizeof(in.to.address));
	}
	in.from.port = (uint16_t)(bytes[1] << 8 | bytes[2]);
	in.to.port = IBA_UDP_PORT;
	(void)ib_port_recv(n->port, n->world->now_ns, &in);
}

bool ib_node_recv(struct ib_node *n, struct sim_datagram *pipe, const struct ib_node *from)
{
	uint8_t bytes[IB_NODE_BYTES_MAX];
	size_t length;
	bool has_moved = false;

	while (sim_datagram_recv(pipe, bytes, sizeof(bytes), &length)) {
		if (length > IB_NODE_HEAD && bytes[0] >> 1 == IB_NODE_IS_FRAME)
			take_frame(n, bytes + IB_NODE_HEAD, length - IB_NODE_HEAD);
		else if (length > IB_NODE_HEAD)
			take(n, from, bytes, length);
		has_moved = true;
	}
	return has_moved;
}

bool ib_node_expire(struct ib_node *n)
{
	if (ib_port_due(n->port) > n->world->now_ns)
		return false;
	ib_port_expire(n->port, n->world->now_ns);
	return true;
}

/* ---- Time ----------------------------------------------------------------------------------- */

int ib_nodes_step(struct world *world, struct ib_node *const nodes[], int count,
		  struct world_event *event)
{
	struct world_alarm tick = { .event.kind = EVENT_TICK };

	*event = (struct world_event){ .kind = EVENT_DEADLINE };
	for (int i = 0; i < count; i++) {
		struct ib_node *n = nodes[i];
		uint64_t core = adapter_due(n->adapter), port = ib_port_due(n->port);

		if (n->is_ready)
			return i;
		world_alarm_set(world, &n->alarm, core < port ? core : port);
	}
	world_alarm_set(world, &tick, world->now_ns + tick_ns);
	CHECK(world_next(world, event));
	world_alarm_cancel(world, &tick);
	if (event->kind == EVENT_TICK)
		return -1;
	nodes[event->node]->is_ready = true;
	return (int)event->node;
}

/* ---- Work ----------------------------------------------------------------------------------- */

static void core_work(struct ib_node *n)
{
	bool has_work = adapter_due(n->adapter) != UINT64_MAX || !list_is_empty(&n->adapter->ready);

	while (has_work)
		has_work = adapter_progress(n->adapter, n->world->now_ns);
}

void ib_node_work(struct ib_node *n)
{
	bool has_moved;
	int round = 0;

	do {
		core_work(n);
		has_moved = n->output(n);
	} while (++round < ROUNDS_MAX && (has_moved || !list_is_empty(&n->adapter->ready)));
}

void ib_node_look(struct ib_node *n)
{
	n->polls++;
	if (n->poll(n) || !list_is_empty(&n->adapter->ready) ||
	    adapter_due(n->adapter) != UINT64_MAX || ib_port_due(n->port) != UINT64_MAX)
		ib_node_work(n);
}

enum weft_reason ib_node_post_send(struct ib_node *n, struct weft_qp *qp, struct weft_send_wr *wr)
{
	uint32_t posted;
	enum weft_reason r = qp_post_send(qp, wr, 1, &posted);

	ib_node_work(n);
	return r;
}

/* A receive gives work only to a request that waited for it, and to a consumer by its flush. */
enum weft_reason ib_node_post_recv(struct ib_node *n, struct weft_qp *qp,
				   const struct weft_recv_wr *wr)
{
	uint32_t posted;
	enum weft_reason r = qp_post_recv(qp, wr, 1, &posted);

	if (!list_is_empty(&n->adapter->events) || !list_is_empty(&n->adapter->ready))
		ib_node_work(n);
	return r;
}

enum weft_reason ib_node_modify(struct ib_node *n, struct weft_qp *qp,
				const struct weft_qp_attr *attr, uint32_t fields)
{
	enum weft_reason r = qp_modify(qp, attr, fields);

	ib_node_work(n);
	return r;
}

bool ib_node_cq_poll(struct ib_node *n, struct weft_cq *cq, struct weft_completion *c)
{
	uint32_t count = 0;

	if (cq->count > cq->hidden && list_is_empty(&n->adapter->ready) &&
	    n->polls % POLLS_CONTENT != 0)
		n->polls++;
	else
		ib_node_look(n);
	return cq_poll(cq, c, 1, &count) == WEFT_OK && count > 0;
}
