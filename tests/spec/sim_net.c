/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim_net.h"

#include <stdlib.h>

#include "sim/world/tcp_link.h"

enum {
	WIRES_MAX = 4096,
	ALARMS_PER_WIRE = 6, /* two of each pipe, one of each end */
	TRACE_EVENTS = 16    /* only the hash of all counts */
};

enum { EVENT_DEADLINE, EVENT_TICK, EVENT_TCP };

static const uint64_t setup_ns = UINT64_C(10) * 1000 * 1000 * 1000;
static const uint64_t tick_ns = 1000 * 1000;

/* One end of a wire, that of the node of the same index, waits for its node to move. */
struct wire_end {
	struct tcp_end *tcp;
	struct list ready_link; /* of the node */
	uint32_t events;	/* 1 << enum tcp_event, of those that came meanwhile */
};

struct wire {
	struct tcp_link tcp; /* its id is the number of the wire */
	struct wire_end ends[2];
};

struct node {
	struct sim_net *net;
	struct weft_adapter *adapter;
	struct list attention;	  /* of streams */
	struct list ready;	  /* ends that have something to do */
	struct world_alarm alarm; /* the next deadline of the adapter */
};

struct sim_net {
	struct world world;
	struct world_alarm tick;
	struct node nodes[2];
	struct wire *wires[WIRES_MAX];
	uint32_t wire_count; /* from there on there are none */
};

/* ---- Connections ---------------------------------------------------------------------------- */

static struct wire *wire_of(const struct tcp_end *e)
{
	return CONTAINER_OF(e->link, struct wire, tcp);
}

static struct wire_end *end_of(const struct tcp_end *e)
{
	return &wire_of(e)->ends[e->side];
}

static void end_ready(struct sim_net *net, const struct tcp_end *e)
{
	struct wire_end *end = end_of(e);

	if (!list_is_linked(&end->ready_link))
		list_add_tail(&net->nodes[e->side].ready, &end->ready_link);
}

static void wire_free(struct sim_net *net, struct wire *w)
{
	net->wires[w->tcp.id] = NULL;
	while (net->wire_count > 0 && !net->wires[net->wire_count - 1])
		net->wire_count--;
	for (int i = 0; i < 2; i++)
		list_remove(&w->ends[i].ready_link);
	tcp_link_fini(&w->tcp);
	free(w);
}

/* After whatever was done with an end: what follows from it. The wire may be gone then. */
static void end_settle(struct sim_net *net, struct tcp_end *e)
{
	tcp_end_answer(e, true);
	if (tcp_link_is_over(e->link))
		wire_free(net, wire_of(e));
	else if (e->phase == TCP_STREAM && e->is_readable && iwarp_wants(e->stream))
		end_ready(net, e); /* it may have been deaf until now */
}

static uint32_t number_free(const struct sim_net *net)
{
	uint32_t number = 0;

	while (number < net->wire_count && net->wires[number])
		number++;
	return number;
}

static struct tcp_dial dial_of(const struct sim_wire_options *o)
{
	struct tcp_dial dial = { .initiator = (uint32_t)o->initiator, .rtr = o->rtr };

	for (int i = 0; i < 2; i++) {
		dial.configs[i] = (struct mpa_config){
			.wants_crc = !o->is_crc_off,
			.wants_markers = o->wants_markers[i],
			.revision = o->revision,
			.is_peer_to_peer = o->is_peer_to_peer,
			.ird = o->ird[i],
			.ord = o->ord[i],
			.timeout_ns = setup_ns,
		};
		dial.faults[i] = o->faults[i];
		dial.bytes_max[i] = o->bytes_max[i];
	}
	return dial;
}

enum weft_reason sim_net_connect(struct sim_net *net, struct weft_qp *const qps[2],
				 const struct sim_wire_options *options)
{
	const struct tcp_dial dial = dial_of(options);
	uint32_t number = number_free(net);
	struct wire *w = number < WIRES_MAX ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return WEFT_R_LIMIT;
	net->wires[number] = w;
	if (number == net->wire_count)
		net->wire_count++;
	tcp_link_init(&w->tcp, &net->world, number, EVENT_TCP);
	for (int i = 0; i < 2; i++) {
		w->ends[i].tcp = &w->tcp.ends[i];
		list_init(&w->ends[i].ready_link);
		w->tcp.ends[i].qp = qps[i];
		w->tcp.ends[i].attention = &net->nodes[i].attention;
	}
	CHECK(tcp_link_dial(&w->tcp, &dial) == 0);
	return WEFT_OK;
}

static const struct tcp_end *tcp_of(const struct weft_qp *qp)
{
	return qp->stream ? iwarp_owner(qp->stream) : NULL;
}

/* A responder may send once it has heard of the initiator. */
bool sim_net_is_connected(const struct weft_qp *qp)
{
	const struct tcp_end *e = tcp_of(qp);

	return e && (e->terms.is_initiator || iwarp_is_ready(e->stream));
}

/* ---- The host ------------------------------------------------------------------------------- */

static struct node *node_of(const struct weft_adapter *a)
{
	return a->world;
}

static uint64_t sim_now_ns(struct weft_adapter *a)
{
	return node_of(a)->net->world.now_ns;
}

static bool sim_output(struct weft_adapter *a, bool can_wait)
{
	struct node *n = node_of(a);
	struct iwarp_stream *s;
	bool has_moved = false;

	(void)can_wait;
	while ((s = iwarp_attend(&n->attention)) != NULL) {
		struct tcp_end *e = iwarp_owner(s);

		tcp_end_service(e);
		end_settle(n->net, e);
		has_moved = true;
	}
	return has_moved;
}

/* What came meanwhile, one after the other. */
static void end_move(struct node *n, struct wire_end *end)
{
	uint32_t events = end->events;

	end->events = 0;
	for (int i = 0; i < TCP_EVENTS; i++) {
		if (events >> i & 1)
			tcp_end_event(end->tcp, (enum tcp_event)i);
	}
	if (events == 0)
		tcp_end_service(end->tcp);
	end_settle(n->net, end->tcp);
}

static bool sim_poll(struct weft_adapter *a, bool is_all)
{
	struct node *n = node_of(a);
	bool has_moved = false;

	(void)is_all; /* there is only one look here */
	while (!list_is_empty(&n->ready)) {
		end_move(n, CONTAINER_OF(list_pop(&n->ready), struct wire_end, ready_link));
		has_moved = true;
	}
	return sim_output(a, false) || has_moved;
}

/* The deadlines of wires are events of the world. */
static uint64_t sim_due(struct weft_adapter *a)
{
	(void)a;
	return UINT64_MAX;
}

static const struct host sim_host = {
	.now_ns = sim_now_ns,
	.output = sim_output,
	.poll = sim_poll,
	.due = sim_due,
};

/* ---- The network ---------------------------------------------------------------------------- */

struct sim_net *sim_net_open(uint64_t seed, struct weft_adapter *const adapters[2])
{
	const struct world_options o = {
		.seed = seed,
		.events_max = WIRES_MAX * ALARMS_PER_WIRE + 3,
		.trace_max = TRACE_EVENTS,
	};
	struct sim_net *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	CHECK(world_init(&net->world, &o) == 0);
	net->tick.event.kind = EVENT_TICK;
	for (uint32_t i = 0; i < 2; i++) {
		struct node *n = &net->nodes[i];

		n->net = net;
		n->adapter = adapters[i];
		n->alarm.event = (struct world_event){ .node = i, .kind = EVENT_DEADLINE };
		list_init(&n->attention);
		list_init(&n->ready);
		n->adapter->host = &sim_host;
		n->adapter->world = n;
	}
	return net;
}

void sim_net_close(struct sim_net *net)
{
	for (uint32_t i = 0; i < WIRES_MAX; i++) {
		if (net->wires[i])
			wire_free(net, net->wires[i]);
	}
	world_fini(&net->world);
	free(net);
}

struct sim_net *sim_net_of(const struct weft_adapter *a)
{
	return node_of(a)->net;
}

struct world *sim_net_world(struct sim_net *net)
{
	return &net->world;
}

/* What the event is about is looked at when its node moves; says which that is. */
static int note(struct sim_net *net, const struct world_event *event)
{
	struct wire *w = net->wires[event->node / 2];
	uint32_t side = event->node % 2;

	w->ends[side].events |= 1U << (event->kind - EVENT_TCP);
	end_ready(net, &w->tcp.ends[side]);
	return (int)side;
}

int sim_net_step(struct sim_net *net)
{
	struct world_event event;

	for (int i = 0; i < 2; i++) {
		struct node *n = &net->nodes[i];

		if (!list_is_empty(&n->ready))
			return i;
		world_alarm_set(&net->world, &n->alarm, adapter_due(&n->adapter->core));
	}
	world_alarm_set(&net->world, &net->tick, net->world.now_ns + tick_ns);
	CHECK(world_next(&net->world, &event));
	world_alarm_cancel(&net->world, &net->tick);
	if (event.kind == EVENT_TICK)
		return -1;
	return event.kind == EVENT_DEADLINE ? (int)event.node : note(net, &event);
}

/* Bytes will still go into the pipe to this end, or out of it. */
static bool is_flowing_to(const struct tcp_link *l, int i)
{
	const struct tcp_end *to = &l->ends[i], *from = &l->ends[!i];
	const struct sim_stream *way = &from->out;

	if (from->phase != TCP_ENDED && from->is_blocked && way->bytes_count < way->bytes_max)
		return true;
	if (to->phase != TCP_STREAM || !iwarp_wants(to->stream))
		return false;
	return way->bytes_count > 0 || way->state == SIM_STREAM_CLOSED;
}

bool sim_net_is_flowing(const struct weft_qp *qp)
{
	const struct tcp_end *e = tcp_of(qp);

	return e && (is_flowing_to(e->link, 0) || is_flowing_to(e->link, 1));
}
