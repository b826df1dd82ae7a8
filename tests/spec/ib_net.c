/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_net.h"

#include <stdlib.h>
#include <string.h>

#include "wire/iba_icrc.h"

enum {
	WIRES_MAX = 4096,
	PACKETS_MAX = 4096,
	PACKET_BYTES = IBA_PACKET_MAX,
	TRACE_EVENTS = 16 /* only the hash of all counts */
};

enum { EVENT_DEADLINE, EVENT_TICK, EVENT_ARRIVED, EVENT_LEFT };

static const uint64_t tick_ns = 1000 * 1000;

/* Longer than a NAK may need to be heard, shorter than it takes to give up. */
static const uint64_t left_ns = 500 * 1000 * 1000;

struct wire {
	struct ib_net *net;
	struct ib_conn *conns[2];
	bool is_reliable, has_left[2];
	uint32_t words; /* under way */
};

struct node {
	struct ib_net *net;
	int index;
	struct weft_adapter *adapter;
	struct ib_port *port;
	struct inet_end at[2]; /* IPv4 and IPv6 */
	struct sim_datagram out;
	bool is_ready;
	struct world_alarm alarm;
};

struct ib_net {
	struct world world;
	struct world_alarm tick;
	struct node nodes[2];
	struct wire *wires[WIRES_MAX];
	uint32_t wire_count;
};

/* ---- Connections ---------------------------------------------------------------------------- */

static struct ib_config config_of(struct ib_net *net, const struct weft_qp *const qps[2], int i,
				  const struct ib_wire_options *o)
{
	struct ib_config k = {
		.path = { .is_ipv6 = o->is_ipv6, .mtu_bytes = o->mtu_bytes, .hop_limit = 64 },
		.peer_qp = qps[!i]->number,
		.psn_send = o->psn[i],
		.psn_recv = o->psn[!i],
		.reads_out = o->reads[!i],
		.reads_in = o->reads[i],
		.timeout_code = o->timeout_code,
		.retries = o->retries,
		.rnr_retries = o->rnr_retries,
		.rnr_timer_code = o->rnr_timer_code,
		.window_packets = o->window[i],
		.ack_every = o->ack_every[i],
	};

	k.path.from = net->nodes[i].at[o->is_ipv6];
	k.path.to = net->nodes[!i].at[o->is_ipv6];
	k.path.flow_label = iba_flow_label(qps[i]->number, qps[!i]->number);
	k.path.from.port = iba_udp_port(k.path.flow_label);
	return k;
}

enum weft_reason ib_net_connect(struct ib_net *net, struct weft_qp *const qps[2],
				const struct ib_wire_options *options)
{
	const struct weft_qp *const both[2] = { qps[0], qps[1] };
	struct wire *w = calloc(1, sizeof(*w));
	uint32_t n = 0;

	while (n < net->wire_count && net->wires[n])
		n++;
	if (!w || n == WIRES_MAX) {
		free(w);
		return WEFT_R_LIMIT;
	}
	net->wires[n] = w;
	net->wire_count = n == net->wire_count ? n + 1 : net->wire_count;
	w->net = net;
	w->is_reliable = qps[0]->service == WEFT_RC;
	for (int i = 0; i < 2; i++) {
		struct ib_config k = config_of(net, both, i, options);
		enum weft_reason r;

		k.owner = &net->wires[n];
		r = ib_create(net->nodes[i].port, qps[i], &k, &w->conns[i]);
		if (r == WEFT_OK)
			r = ib_start(w->conns[i], &k);
		if (r != WEFT_OK)
			return r;
	}
	return WEFT_OK;
}

static void wire_free(struct ib_net *net, uint32_t n)
{
	for (int i = 0; i < 2; i++) {
		if (net->wires[n]->conns[i])
			ib_destroy(net->wires[n]->conns[i]);
	}
	free(net->wires[n]);
	net->wires[n] = NULL;
	while (net->wire_count > 0 && !net->wires[net->wire_count - 1])
		net->wire_count--;
}

/* An end has left: the other hears of it later; when both have, nobody needs the wire. */
static bool node_hear_ends(struct node *n)
{
	struct ib_conn *c;
	bool has_moved = false;

	while ((c = ib_port_event(n->port)) != NULL) {
		struct wire **place = ib_owner(c);
		struct wire *w = *place;

		w->has_left[n->index] = true;
		w->words++;
		world_schedule(&n->net->world, left_ns,
			       (struct world_event){
				       .node = (uint32_t)!n->index,
				       .kind = EVENT_LEFT,
				       .arg = (uint64_t)(place - n->net->wires),
			       });
		has_moved = true;
	}
	return has_moved;
}

/* ---- The host ------------------------------------------------------------------------------- */

static struct node *node_of(const struct weft_adapter *a)
{
	return a->world;
}

static uint64_t net_now_ns(struct weft_adapter *a)
{
	return node_of(a)->net->world.now_ns;
}

/* A packet as it is in the pipe: which IP, and the port it came from, go ahead of it. */
static void node_put(struct node *n, const struct ib_out *out)
{
	uint8_t bytes[PACKET_BYTES + 3];
	size_t at = 3;

	bytes[0] = out->path->is_ipv6;
	bytes[1] = (uint8_t)(out->path->from.port >> 8);
	bytes[2] = (uint8_t)out->path->from.port;
	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(bytes + at, out->spans.spans[i].bytes, out->spans.spans[i].length);
		at += out->spans.spans[i].length;
	}
	CHECK(at == out->spans.length + 3);
	sim_datagram_send(&n->out, bytes, at);
}

static bool net_output(struct weft_adapter *a, bool can_wait)
{
	struct node *n = node_of(a);
	struct ib_out out = { .ipv4_id = 0 };
	bool has_moved = false;

	(void)can_wait;
	while (ib_port_send(n->port, n->net->world.now_ns, &out)) {
		node_put(n, &out);
		has_moved = true;
	}
	ib_port_sent(n->port, n->net->world.now_ns);
	return node_hear_ends(n) || has_moved;
}

/* What was corrupted ahead of the packet would be another's packet: IP has checks of its own. */
static void node_take(struct node *n, const uint8_t *bytes, size_t length)
{
	bool is_ipv6 = bytes[0] & 1;
	struct ib_in in = {
		.bytes = bytes + 3,
		.length = length - 3,
		.is_ipv6 = is_ipv6,
		.from = n->net->nodes[!n->index].at[is_ipv6],
		.to = n->at[is_ipv6],
		.is_ipv4_word_known = true,
		.ipv4_fragment = IBA_IPV4_DF,
		.hop_limit = 64,
	};

	in.from.port = (uint16_t)(bytes[1] << 8 | bytes[2]);
	in.to.port = IBA_UDP_PORT;
	(void)ib_port_recv(n->port, n->net->world.now_ns, &in);
}

static bool net_poll(struct weft_adapter *a, bool is_all)
{
	struct node *n = node_of(a);
	struct sim_datagram *in = &n->net->nodes[!n->index].out;
	uint8_t bytes[PACKET_BYTES + 3];
	size_t length;
	bool has_moved = false;

	(void)is_all;
	n->is_ready = false;
	while (sim_datagram_recv(in, bytes, sizeof(bytes), &length)) {
		if (length > 3)
			node_take(n, bytes, length);
		has_moved = true;
	}
	if (ib_port_due(n->port) <= n->net->world.now_ns) {
		ib_port_expire(n->port, n->net->world.now_ns);
		has_moved = true;
	}
	return net_output(a, false) || has_moved;
}

static uint64_t net_due(struct weft_adapter *a)
{
	return ib_port_due(node_of(a)->port);
}

static const struct host net_host = {
	.now_ns = net_now_ns,
	.output = net_output,
	.poll = net_poll,
	.due = net_due,
};

/* ---- The network ---------------------------------------------------------------------------- */

static void node_open(struct ib_net *net, int i, struct weft_adapter *adapter,
		      const struct sim_faults *faults)
{
	struct node *n = &net->nodes[i];
	const struct ib_port_config config = { .adapter = &adapter->core };
	const struct sim_datagram_options pipe = {
		.id = (uint32_t)i,
		.arrived = { .node = (uint32_t)!i, .kind = EVENT_ARRIVED },
		.faults = *faults,
		.datagrams_max = PACKETS_MAX,
		.bytes_max = PACKET_BYTES + 3,
	};

	n->net = net;
	n->index = i;
	n->adapter = adapter;
	n->alarm.event = (struct world_event){ .node = (uint32_t)i, .kind = EVENT_DEADLINE };
	n->port = ib_port_create(&config);
	CHECK(n->port && sim_datagram_init(&n->out, &net->world, &pipe) == 0);
	memcpy(n->at[0].address, (uint8_t[]){ 10, 0, 0, (uint8_t)(1 + i) }, 4);
	n->at[1].address[0] = 0xfd;
	n->at[1].address[15] = (uint8_t)(1 + i);
	n->at[0].port = n->at[1].port = IBA_UDP_PORT;
	adapter->host = &net_host;
	adapter->world = n;
}

struct ib_net *ib_net_open(const struct ib_net_options *options,
			   struct weft_adapter *const adapters[2])
{
	const struct world_options o = {
		.seed = options->seed,
		.events_max = 2 * WIRES_MAX + 16,
		.trace_max = TRACE_EVENTS,
	};
	struct ib_net *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	CHECK(world_init(&net->world, &o) == 0);
	net->tick.event.kind = EVENT_TICK;
	for (int i = 0; i < 2; i++)
		node_open(net, i, adapters[i], &options->faults[i]);
	return net;
}

void ib_net_close(struct ib_net *net)
{
	for (uint32_t i = 0; i < WIRES_MAX; i++) {
		if (net->wires[i])
			wire_free(net, i);
	}
	for (int i = 0; i < 2; i++) {
		sim_datagram_fini(&net->nodes[i].out);
		ib_port_destroy(net->nodes[i].port);
	}
	world_fini(&net->world);
	free(net);
}

struct ib_net *ib_net_of(const struct weft_adapter *a)
{
	return node_of(a)->net;
}

struct world *ib_net_world(struct ib_net *net)
{
	return &net->world;
}

struct ib_port *ib_net_port(struct ib_net *net, int node)
{
	return net->nodes[node].port;
}

struct sim_datagram *ib_net_pipe(struct ib_net *net, int node)
{
	return &net->nodes[node].out;
}

/* The word has arrived. */
static void node_told(struct ib_net *net, const struct world_event *event)
{
	uint32_t n = (uint32_t)event->arg;
	struct wire *w = net->wires[n];
	int i = (int)event->node;

	w->words--;
	if (w->is_reliable) /* the others share nothing that could be lost */
		ib_peer_left(w->conns[i], ib_why(w->conns[!i]));
	if (w->has_left[0] && w->has_left[1] && w->words == 0)
		wire_free(net, n);
}

int ib_net_step(struct ib_net *net)
{
	struct world_event event;

	for (int i = 0; i < 2; i++) {
		struct node *n = &net->nodes[i];
		uint64_t core = adapter_due(&n->adapter->core), port = ib_port_due(n->port);

		if (n->is_ready)
			return i;
		world_alarm_set(&net->world, &n->alarm, core < port ? core : port);
	}
	world_alarm_set(&net->world, &net->tick, net->world.now_ns + tick_ns);
	CHECK(world_next(&net->world, &event));
	world_alarm_cancel(&net->world, &net->tick);
	if (event.kind == EVENT_TICK)
		return -1;
	if (event.kind == EVENT_LEFT)
		node_told(net, &event);
	net->nodes[event.node].is_ready = true;
	return (int)event.node;
}

bool ib_net_is_flowing(const struct weft_qp *qp)
{
	const struct ib_conn *c = qp->stream;
	const struct wire *w;
	struct ib_net *net;

	if (!c)
		return false;
	w = *(struct wire **)ib_owner(c);
	net = w->net;
	if (!sim_datagram_is_empty(&net->nodes[0].out) ||
	    !sim_datagram_is_empty(&net->nodes[1].out))
		return true;
	return w->words > 0 || ib_is_busy(w->conns[0]) || ib_is_busy(w->conns[1]);
}
