/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/ib_net.h"

#include <stdlib.h>

#include "base/check.h"

enum { WIRES_MAX = 4096, PACKETS_MAX = 4096 };

/* Longer than a NAK may need to be heard, shorter than it takes to give up. */
static const uint64_t left_ns = 500 * 1000 * 1000;

struct wire {
	struct ib_net *net;
	struct ib_conn *conns[2];
	bool is_reliable, has_left[2];
	uint32_t notices; /* under way */
};

struct node {
	struct ib_node ib;
	struct ib_net *net;
	struct sim_datagram out;
};

struct ib_net {
	struct world world;
	struct node nodes[2];
	struct wire *wires[WIRES_MAX];
	uint32_t wire_count;
};

/* ---- Connections ---------------------------------------------------------------------------- */

struct ib_config ib_wire_config(const struct ib_wire_options *o, int i, uint32_t peer_qp)
{
	return (struct ib_config){
		.path = { .is_ipv6 = o->is_ipv6, .mtu_bytes = o->mtu_bytes, .hop_limit = 64 },
		.peer_qp = peer_qp,
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
}

static struct ib_config config_of(struct ib_net *net, const struct weft_qp *const qps[2], int i,
				  const struct ib_wire_options *o)
{
	struct ib_config k = ib_wire_config(o, i, qps[!i]->number);

	k.path.from = net->nodes[i].ib.at[o->is_ipv6];
	k.path.to = net->nodes[!i].ib.at[o->is_ipv6];
	if (o->is_local)
		k.path.local = ib_node_local(i, !i, o->is_ipv6);
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
		r = ib_create(net->nodes[i].ib.port, qps[i], &k, &w->conns[i]);
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

/* An end has left: the other hears of it later; when both have, the wire goes. */
static bool node_hear_ends(struct node *n)
{
	struct ib_conn *c;
	bool has_moved = false;

	while ((c = ib_port_event(n->ib.port)) != NULL) {
		struct wire **adapter_slot = ib_owner(c);
		struct wire *w = *adapter_slot;

		w->has_left[n->ib.index] = true;
		w->notices++;
		world_schedule(&n->net->world, left_ns,
			       (struct world_event){
				       .node = (uint32_t)!n->ib.index,
				       .kind = EVENT_LEFT,
				       .arg = (uint64_t)(adapter_slot - n->net->wires),
			       });
		has_moved = true;
	}
	return has_moved;
}

/* ---- Packets -------------------------------------------------------------------------------- */

static struct node *node_of(struct ib_node *n)
{
	return CONTAINER_OF(n, struct node, ib);
}

static void carry(struct ib_node *n, const struct ib_out *out)
{
	ib_node_put(&node_of(n)->out, out);
}

static bool net_output(struct ib_node *n)
{
	bool has_moved = ib_node_send(n, carry);

	return node_hear_ends(node_of(n)) || has_moved;
}

static bool net_poll(struct ib_node *n)
{
	struct node *peer = &node_of(n)->net->nodes[!n->index];
	bool has_moved;

	n->is_ready = false;
	has_moved = ib_node_recv(n, &peer->out, &peer->ib);
	has_moved |= ib_node_expire(n);
	return net_output(n) || has_moved;
}

/* ---- The network ---------------------------------------------------------------------------- */

static void node_open(struct ib_net *net, int i, struct adapter *adapter,
		      const struct sim_faults *faults)
{
	struct node *n = &net->nodes[i];
	const struct sim_datagram_options pipe = {
		.id = (uint32_t)i,
		.arrived = { .node = (uint32_t)!i, .kind = EVENT_ARRIVED },
		.faults = *faults,
		.datagrams_max = PACKETS_MAX,
		.bytes_max = IB_NODE_BYTES_MAX,
	};

	n->net = net;
	n->ib.world = &net->world;
	n->ib.output = net_output;
	n->ib.poll = net_poll;
	ib_node_open(&n->ib, i, adapter);
	CHECK(sim_datagram_init(&n->out, &net->world, &pipe) == 0);
}

struct ib_net *ib_net_open(const struct ib_net_options *options, struct adapter *const adapters[2])
{
	const struct world_options o = {
		.seed = options->seed,
		.events_max = 2 * WIRES_MAX + 16,
		.trace_max = options->trace_max,
	};
	struct ib_net *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	CHECK(world_init(&net->world, &o) == 0);
	net->nodes[1].ib.is_dropping_early = options->is_dropping_early;
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
		ib_port_destroy(net->nodes[i].ib.port);
	}
	world_fini(&net->world);
	free(net);
}

struct ib_net *ib_net_of(struct ib_node *n)
{
	return node_of(n)->net;
}

struct ib_node *ib_net_node(struct ib_net *net, int node)
{
	return &net->nodes[node].ib;
}

struct world *ib_net_world(struct ib_net *net)
{
	return &net->world;
}

struct sim_datagram *ib_net_pipe(struct ib_net *net, int node)
{
	return &net->nodes[node].out;
}

static void notice_arrived(struct ib_net *net, const struct world_event *event)
{
	uint32_t n = (uint32_t)event->arg;
	struct wire *w = net->wires[n];
	int i = (int)event->node;

	w->notices--;
	if (w->is_reliable) /* the others share nothing that could be lost */
		ib_peer_left(w->conns[i], ib_why(w->conns[!i]));
	if (w->has_left[0] && w->has_left[1] && w->notices == 0)
		wire_free(net, n);
}

int ib_net_step(struct ib_net *net)
{
	struct ib_node *const nodes[] = { &net->nodes[0].ib, &net->nodes[1].ib };
	struct world_event event;
	int who = ib_nodes_step(&net->world, nodes, 2, &event);

	if (event.kind == EVENT_LEFT)
		notice_arrived(net, &event);
	return who;
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
	return w->notices > 0 || ib_is_busy(w->conns[0]) || ib_is_busy(w->conns[1]);
}
