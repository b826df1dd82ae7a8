/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim_net.h"

#include <stdlib.h>

#include "cm/cm.h"

enum {
	WIRES_MAX = 4096,
	ALARMS_PER_WIRE = 4,
	TRACE_EVENTS = 16 /* only the hash of all counts */
};

enum { EVENT_READABLE, EVENT_WRITABLE, EVENT_DEADLINE, EVENT_TICK };

enum end_phase { END_SETUP, END_STREAM, END_OVER };

static const uint64_t setup_ns = UINT64_C(10) * 1000 * 1000 * 1000;
static const uint64_t close_wait_ns = UINT64_C(2) * 1000 * 1000 * 1000;
static const uint64_t tick_ns = 1000 * 1000;

struct wire;

struct wire_end {
	struct wire *wire;
	struct node *node;
	struct sim_stream *out, *in;
	struct list ready_link; /* of the node */
	struct timer timer;
	enum end_phase phase;
	bool has_input;	 /* perhaps: the pipe has told so, and was not found empty since */
	bool is_blocked; /* the pipe takes no more for now */
	struct weft_qp *qp;
	struct mpa_setup setup;
	struct iwarp_stream *stream;
};

struct wire {
	uint32_t number;
	struct sim_wire_options options;
	struct sim_stream ways[2]; /* from the node of this index */
	struct wire_end ends[2];
};

struct node {
	struct sim_net *net;
	struct weft_adapter *adapter;
	struct list attention; /* of streams */
	struct list ready;     /* ends that have something to do */
	struct timer_queue timers;
	struct world_alarm alarm; /* the next deadline */
};

struct sim_net {
	struct world world;
	struct world_alarm tick;
	struct node nodes[2];
	struct wire *wires[WIRES_MAX];
	uint32_t wire_count; /* from there on there are none */
};

static uint64_t now_of(const struct node *n)
{
	return n->net->world.now_ns;
}

static void end_ready(struct wire_end *e)
{
	if (!list_is_linked(&e->ready_link))
		list_add_tail(&e->node->ready, &e->ready_link);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void wire_free(struct sim_net *net, struct wire *w)
{
	net->wires[w->number] = NULL;
	while (net->wire_count > 0 && !net->wires[net->wire_count - 1])
		net->wire_count--;
	for (int i = 0; i < 2; i++)
		sim_stream_fini(&w->ways[i]);
	free(w);
}

/* The end closes its socket, so to speak. The wire goes with the second. */
static void end_over(struct wire_end *e, bool is_reset)
{
	struct wire *w = e->wire;

	if (e->phase == END_OVER)
		return;
	e->phase = END_OVER;
	if (e->stream)
		iwarp_destroy(e->stream);
	e->stream = NULL;
	list_remove(&e->ready_link);
	timer_queue_cancel(&e->node->timers, &e->timer);
	sim_stream_close(e->out);
	if (is_reset) {
		sim_stream_reset(e->out);
		sim_stream_reset(e->in);
	}
	if (w->ends[0].phase == END_OVER && w->ends[1].phase == END_OVER)
		wire_free(e->node->net, w);
}

static struct mpa_config config_of(const struct wire *w, int i)
{
	const struct sim_wire_options *o = &w->options;

	return (struct mpa_config){
		.wants_crc = !o->is_crc_off,
		.wants_markers = o->wants_markers[i],
		.revision = o->revision,
		.is_peer_to_peer = o->is_peer_to_peer,
		.ird = o->ird[i],
		.ord = o->ord[i],
		.timeout_ns = setup_ns,
	};
}

static enum weft_reason end_begin(struct wire *w, int i, struct weft_qp *qp)
{
	const struct mpa_config config = config_of(w, i);
	struct wire_end *e = &w->ends[i];

	e->qp = qp;
	timer_queue_set(&e->node->timers, &e->timer, now_of(e->node) + setup_ns);
	end_ready(e);
	if (i == w->options.initiator)
		return mpa_setup_init_initiator(&e->setup, &config, (struct mpa_bytes){ 0 },
						now_of(e->node));
	mpa_setup_init_responder(&e->setup, &config, now_of(e->node));
	return WEFT_OK;
}

static uint32_t number_free(const struct sim_net *net)
{
	uint32_t number = 0;

	while (number < net->wire_count && net->wires[number])
		number++;
	return number;
}

enum weft_reason sim_net_connect(struct sim_net *net, struct weft_qp *const qps[2],
				 const struct sim_wire_options *options)
{
	uint32_t number = number_free(net);
	struct wire *w = number < WIRES_MAX ? calloc(1, sizeof(*w)) : NULL;
	enum weft_reason r = WEFT_OK;

	if (!w)
		return WEFT_R_LIMIT;
	w->number = number;
	w->options = *options;
	net->wires[number] = w;
	if (number == net->wire_count)
		net->wire_count++;
	for (uint32_t i = 0; i < 2; i++) {
		const struct sim_stream_options o = {
			.id = 2 * number + i,
			.readable = { .node = !i, .kind = EVENT_READABLE, .arg = number },
			.writable = { .node = i, .kind = EVENT_WRITABLE, .arg = number },
			.faults = options->faults[i],
			.bytes_max = options->bytes_max[i],
		};

		CHECK(sim_stream_init(&w->ways[i], &net->world, &o) == 0);
		w->ends[i].wire = w;
		w->ends[i].node = &net->nodes[i];
		w->ends[i].out = &w->ways[i];
		w->ends[i].in = &w->ways[!i];
		list_init(&w->ends[i].ready_link);
	}
	for (int i = 0; i < 2 && r == WEFT_OK; i++)
		r = end_begin(w, i, qps[i]);
	return r;
}

static struct wire_end *end_of(const struct weft_qp *qp)
{
	return qp->stream ? iwarp_owner(qp->stream) : NULL;
}

/* A responder may send once it has heard of the initiator. */
bool sim_net_is_connected(const struct weft_qp *qp)
{
	const struct wire_end *e = end_of(qp);

	return e && (mpa_setup_terms(&e->setup)->is_initiator || iwarp_is_ready(e->stream));
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

enum moved { MOVED_ALL, MOVED_SOME, MOVED_END, MOVED_LOST };

static enum moved pipe_recv(struct wire_end *e, const struct span_list *l, size_t *n)
{
	*n = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		size_t got;
		enum sim_stream_status status = sim_stream_recv(e->in, l->spans[i].bytes,
								l->spans[i].length, &got);

		*n += got;
		if (got == l->spans[i].length)
			continue;
		/* What comes after bytes is seen the next time. */
		if (*n == 0 && status == SIM_STREAM_EOF)
			return MOVED_END;
		if (*n == 0 && status == SIM_STREAM_RESET)
			return MOVED_LOST;
		/* An event tells of more; an end stays, and is not told again. */
		e->has_input = status == SIM_STREAM_EOF || status == SIM_STREAM_RESET;
		return MOVED_SOME;
	}
	return MOVED_ALL;
}

static enum moved pipe_send(struct wire_end *e, const struct span_list *l, size_t *n)
{
	*n = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		size_t taken;
		enum sim_stream_status status = sim_stream_send(e->out, l->spans[i].bytes,
								l->spans[i].length, &taken);

		*n += taken;
		if (status == SIM_STREAM_RESET)
			return MOVED_LOST;
		if (taken < l->spans[i].length) {
			e->is_blocked = true;
			return MOVED_SOME;
		}
	}
	return MOVED_ALL;
}

/* ---- Set-up --------------------------------------------------------------------------------- */

static void begin_stream(struct wire_end *e)
{
	const struct sim_wire_options *o = &e->wire->options;
	struct iwarp_config config = {
		.terms = *mpa_setup_terms(&e->setup),
		.close_wait_ns = close_wait_ns,
		.attention = &e->node->attention,
		.owner = e,
	};

	if (config.terms.rtr != IWARP_RTR_NONE)
		config.terms.rtr = o->rtr;
	timer_queue_cancel(&e->node->timers, &e->timer);
	/* The set-up stays as it is, to be asked for the terms. */
	if (iwarp_create(e->qp, &config, &e->stream) == WEFT_OK)
		e->phase = END_STREAM;
	else
		end_over(e, true);
}

/* False: the end is over. */
static bool setup_events(struct wire_end *e)
{
	const struct mpa_config c = config_of(e->wire, e == &e->wire->ends[1]);
	const struct mpa_answer answer = { .ird = c.ird, .ord = c.ord };

	switch (mpa_setup_event(&e->setup)) {
	case MPA_SETUP_NONE:
		return true;
	case MPA_SETUP_REQUEST:
		CHECK(mpa_setup_accept(&e->setup, &answer, now_of(e->node)) == WEFT_OK);
		return true;
	case MPA_SETUP_ESTABLISHED:
		begin_stream(e);
		return e->phase == END_STREAM;
	default:
		end_over(e, true);
		return false;
	}
}

static bool setup_input(struct wire_end *e)
{
	struct mpa_span want = mpa_setup_want(&e->setup);
	struct span_list l = { .spans = { { want.bytes, want.length } }, .count = 1 };
	size_t n;

	if (want.length == 0)
		return false;
	l.length = want.length;
	switch (pipe_recv(e, &l, &n)) {
	case MOVED_END:
	case MOVED_LOST:
		mpa_setup_eof(&e->setup);
		return true;
	default:
		if (n > 0)
			mpa_setup_got(&e->setup, n);
		return n > 0;
	}
}

static void setup_output(struct wire_end *e)
{
	struct mpa_bytes have = mpa_setup_have(&e->setup);

	while (have.length > 0 && !e->is_blocked) {
		struct span_list l = { .count = 1, .length = have.length };
		size_t n;

		/* What is sent is only read. */
		l.spans[0] = (struct span){ (uint8_t *)(uintptr_t)have.bytes, have.length };
		if (pipe_send(e, &l, &n) == MOVED_LOST) {
			mpa_setup_eof(&e->setup);
			return;
		}
		if (n > 0)
			mpa_setup_sent(&e->setup, n);
		have = mpa_setup_have(&e->setup);
	}
}

/* Until nothing moves any more; perhaps into the stream, or to the end. */
static void setup_service(struct wire_end *e)
{
	do {
		setup_output(e);
		if (!setup_events(e))
			return;
		setup_output(e);
		if (!setup_events(e))
			return;
	} while (e->phase == END_SETUP && e->has_input && setup_input(e));
	if (e->phase == END_SETUP)
		timer_queue_set(&e->node->timers, &e->timer, mpa_setup_due(&e->setup));
}

/* ---- The stream ----------------------------------------------------------------------------- */

static void stream_input(struct wire_end *e)
{
	while (e->has_input) {
		struct span_list l;
		size_t n;

		iwarp_want(e->stream, now_of(e->node), &l);
		if (l.count == 0)
			return;
		switch (pipe_recv(e, &l, &n)) {
		case MOVED_END:
			e->has_input = false;
			iwarp_eof(e->stream, now_of(e->node));
			return;
		case MOVED_LOST:
			e->has_input = false;
			iwarp_lost(e->stream);
			return;
		default:
			if (n > 0)
				iwarp_got(e->stream, now_of(e->node), &l, n);
		}
	}
}

static bool stream_output(struct wire_end *e)
{
	bool has_moved = false;

	while (!e->is_blocked) {
		struct span_list l;
		size_t n;

		iwarp_have(e->stream, now_of(e->node), &l);
		if (l.count == 0)
			break;
		has_moved = true;
		if (pipe_send(e, &l, &n) == MOVED_LOST) {
			iwarp_lost(e->stream);
			break;
		}
		if (n > 0)
			iwarp_sent(e->stream, now_of(e->node), n);
	}
	return has_moved;
}

static bool stream_service(struct wire_end *e)
{
	bool has_moved = stream_output(e);

	switch (iwarp_action(e->stream)) {
	case IWARP_NOTHING:
		break;
	case IWARP_SHUT:
		sim_stream_close(e->out);
		break;
	case IWARP_CLOSE:
		end_over(e, false);
		return true;
	case IWARP_ABORT:
		end_over(e, true);
		return true;
	}
	if (iwarp_due(e->stream) == UINT64_MAX)
		timer_queue_cancel(&e->node->timers, &e->timer);
	else
		timer_queue_set(&e->node->timers, &e->timer, iwarp_due(e->stream));
	/* It may have been deaf until now. */
	if (e->has_input && iwarp_wants(e->stream))
		end_ready(e);
	return has_moved;
}

/* ---- The host ------------------------------------------------------------------------------- */

static struct node *node_of(const struct weft_adapter *a)
{
	return a->world;
}

static uint64_t sim_now_ns(struct weft_adapter *a)
{
	return now_of(node_of(a));
}

static bool sim_output(struct weft_adapter *a)
{
	struct iwarp_stream *s;
	bool has_moved = false;

	while ((s = iwarp_attend(&node_of(a)->attention)) != NULL)
		has_moved |= stream_service(iwarp_owner(s));
	return has_moved;
}

static void expire(struct wire_end *e, uint64_t now_ns)
{
	if (e->phase == END_STREAM)
		iwarp_expire(e->stream, now_ns);
	else
		mpa_setup_expire(&e->setup, now_ns);
	end_ready(e);
}

static bool sim_poll(struct weft_adapter *a, bool is_all)
{
	struct node *n = node_of(a);
	struct timer *t;
	bool has_moved = false;

	(void)is_all; /* there is only one look here */
	while ((t = timer_queue_expire(&n->timers, now_of(n))) != NULL)
		expire(CONTAINER_OF(t, struct wire_end, timer), now_of(n));
	while (!list_is_empty(&n->ready)) {
		struct wire_end *e = CONTAINER_OF(list_pop(&n->ready), struct wire_end, ready_link);

		has_moved = true;
		if (e->phase == END_SETUP) {
			setup_service(e);
			continue;
		}
		stream_input(e);
		stream_service(e);
	}
	return sim_output(a) || has_moved;
}

static uint64_t sim_due(struct weft_adapter *a)
{
	return timer_queue_due(&node_of(a)->timers);
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
		CHECK(timer_queue_init(&n->timers, WIRES_MAX) == 0);
		n->adapter->host = &sim_host;
		n->adapter->world = n;
	}
	return net;
}

void sim_net_close(struct sim_net *net)
{
	for (uint32_t i = 0; i < WIRES_MAX; i++) {
		for (int k = 0; k < 2; k++) {
			if (net->wires[i])
				end_over(&net->wires[i]->ends[k], true);
		}
	}
	for (int i = 0; i < 2; i++)
		timer_queue_fini(&net->nodes[i].timers);
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

/* What the event is about is looked at when its node moves. */
static void note(struct sim_net *net, const struct world_event *event)
{
	struct wire_end *e = &net->wires[event->arg]->ends[event->node];

	if (e->phase == END_OVER)
		return;
	if (event->kind == EVENT_READABLE)
		e->has_input = true;
	else
		e->is_blocked = false;
	end_ready(e);
}

int sim_net_step(struct sim_net *net)
{
	struct world_event event;

	for (int i = 0; i < 2; i++) {
		struct node *n = &net->nodes[i];
		uint64_t core = adapter_due(&n->adapter->core), wires = sim_due(n->adapter);

		if (!list_is_empty(&n->ready))
			return i;
		world_alarm_set(&net->world, &n->alarm, core < wires ? core : wires);
	}
	world_alarm_set(&net->world, &net->tick, net->world.now_ns + tick_ns);
	CHECK(world_next(&net->world, &event));
	world_alarm_cancel(&net->world, &net->tick);
	if (event.kind == EVENT_TICK)
		return -1;
	if (event.kind != EVENT_DEADLINE)
		note(net, &event);
	return (int)event.node;
}

/* Bytes will still go into the pipe to this end, or out of it. */
static bool is_flowing_to(const struct wire *w, int i)
{
	const struct wire_end *to = &w->ends[i], *from = &w->ends[!i];
	const struct sim_stream *way = to->in;

	if (from->phase != END_OVER && from->is_blocked && way->bytes_count < way->bytes_max)
		return true;
	if (to->phase != END_STREAM || !iwarp_wants(to->stream))
		return false;
	return way->bytes_count > 0 || way->state == SIM_STREAM_CLOSED;
}

bool sim_net_is_flowing(const struct weft_qp *qp)
{
	const struct wire_end *e = end_of(qp);

	return e && (is_flowing_to(e->wire, 0) || is_flowing_to(e->wire, 1));
}
