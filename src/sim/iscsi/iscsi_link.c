/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "base/check.h"
#include "sim/iscsi/iscsi_iser.h"

enum { ROUNDS_MAX = 1000000, CLOSE_WAIT_MS = 200 };

static const uint64_t close_wait_ns = CLOSE_WAIT_MS * UINT64_C(1000000);

static enum iscsi_side other(enum iscsi_side side)
{
	return side == ISCSI_INITIATOR ? ISCSI_TARGET : ISCSI_INITIATOR;
}

/* ---- Life ----------------------------------------------------------------------------------- */

bool isw_link_is_free(const struct isw_link *l)
{
	if (l->world->is_iser)
		return tcp_link_is_over(&l->tcp) && !l->far && l->world->hosts[l->host].link != l;
	return !l->ends[0].is_used && !l->ends[1].is_used;
}

void isw_link_fini(struct isw_link *l)
{
	if (l->world->is_iser) {
		tcp_link_fini(&l->tcp);
		return;
	}
	world_alarm_cancel(&l->world->world, &l->due);
	world_alarm_cancel(&l->world->world, &l->ends[0].hold);
	world_alarm_cancel(&l->world->world, &l->ends[1].hold);
	if (!l->has_pipes)
		return;
	sim_stream_fini(&l->ends[0].out);
	sim_stream_fini(&l->ends[1].out);
	l->has_pipes = false;
}

static bool end_begin(struct isw_link *l, enum iscsi_side side)
{
	struct iscsi_world *w = l->world;
	struct isw_end *e = &l->ends[side];
	const struct sim_stream_options o = {
		.id = 2 * l->id + side,
		.readable = { .node = 2 * l->id + other(side), .kind = ISW_EV_READABLE },
		.writable = { .node = 2 * l->id + side, .kind = ISW_EV_WRITABLE },
		.faults = w->phase == ISW_RUN ? w->limits.faults : (struct sim_faults){ 0 },
		.bytes_max = w->limits.pipe_bytes,
	};

	e->in.length = 0;
	e->count = 0;
	e->is_used = true;
	e->is_held = false;
	e->hold.event = (struct world_event){ .node = 2 * l->id + side, .kind = ISW_EV_HOLD };
	e->is_blocked = e->is_readable = e->is_closing = e->is_closed = e->is_corrupted = false;
	return sim_stream_init(&e->out, &w->world, &o) == 0;
}

static bool begin(struct isw_link *l)
{
	struct iscsi_world *w = l->world;
	struct isw_host *h = &w->hosts[l->host];
	char peer[32], local[32];
	struct iscsi_accept a = { .peer = peer, .local = local, .owner = l };
	const struct iscsi_offload_config c = { .close_wait_ns = close_wait_ns,
						.attention = &h->attention,
						.owner = l };

	snprintf(peer, sizeof(peer), "10.0.0.%u:5000", 10 + l->host);
	snprintf(local, sizeof(local), "10.0.0.%u:3260", 1 + l->portal);
	for (uint32_t i = 0; i < sizeof(a.random); i++)
		a.random[i] = (uint8_t)isw_draw(w, 256);
	if (iscsi_node_accept(w->node, &a, w->world.now_ns, &l->connection) != WEFT_OK)
		return false;
	if (iscsi_offload_create(h->qp, &c, &l->stream) == WEFT_OK)
		return true;
	iscsi_connection_destroy(l->connection, w->world.now_ns);
	return false;
}

struct isw_link *isw_link_dial(struct iscsi_world *w, uint32_t host, uint32_t portal)
{
	struct isw_link *l = NULL;

	for (uint32_t i = 0; i < ISW_LINKS && !l; i++)
		if (isw_link_is_free(&w->links[i]))
			l = &w->links[i];
	if (!l || !w->node)
		return NULL;
	if (!w->is_iser)
		isw_link_fini(l);
	l->host = host;
	l->portal = portal;
	l->is_silent = false;
	if (w->is_iser)
		return isw_iser_link_dial(l);
	l->due.event = (struct world_event){ .node = l->id, .kind = ISW_EV_LINK_DUE };
	isw_wire_begin(&l->wire);
	if (!begin(l))
		return NULL;
	l->has_pipes = true;
	CHECK(end_begin(l, ISCSI_INITIATOR) && end_begin(l, ISCSI_TARGET));
	isw_trace(w, ISW_TRACE_CONNECTED, host, l->id, portal);
	return l;
}

void isw_link_reset(struct isw_link *l)
{
	if (l->world->is_iser)
		tcp_link_reset(&l->tcp);
	if (!l->has_pipes)
		return;
	sim_stream_reset(&l->ends[0].out);
	sim_stream_reset(&l->ends[1].out);
}

void isw_link_close(struct isw_link *l, uint32_t side)
{
	if (l->has_pipes)
		sim_stream_close(&l->ends[side].out);
	/* Its sender would not know: what it sends passes no more. */
	else if (l->tcp.has_pipes)
		sim_stream_cut(&l->tcp.ends[side].out);
}

void isw_link_cut(struct isw_link *l)
{
	if (l->world->is_iser)
		isw_iser_link_cut(l);
	if (!l->has_pipes)
		return;
	sim_stream_cut(&l->ends[0].out);
	sim_stream_cut(&l->ends[1].out);
}

void isw_link_calm(struct isw_link *l)
{
	if (l->world->is_iser) {
		isw_iser_link_calm(l);
		return;
	}
	for (uint32_t side = 0; side < 2 && l->has_pipes; side++) {
		l->ends[side].out.line.faults = (struct sim_faults){ 0 };
		if (!l->is_silent)
			sim_stream_heal(&l->ends[side].out);
	}
	/* The process at one end is gone: what comes for it is answered by a reset, at last. */
	if (l->is_silent)
		isw_link_reset(l);
}

void isw_link_leave(struct isw_link *l, enum iscsi_side side, uint32_t as)
{
	struct isw_end *e = &l->ends[side];

	if (l->world->is_iser)
		isw_iser_link_leave(l, side, as);
	if (!e->is_used)
		return;
	e->is_used = false;
	if (side == ISCSI_INITIATOR) {
		iscsi_offload_destroy(l->stream);
		l->stream = NULL;
		world_alarm_cancel(&l->world->world, &l->due);
	} else {
		iscsi_connection_destroy(l->connection, l->world->world.now_ns);
		l->connection = NULL;
	}
	if (as == 0) {
		e->is_closing = true;
		isw_relay_pass(l, side);
	} else if (as == 1) {
		isw_link_reset(l);
	} else {
		l->is_silent = true;
		isw_link_cut(l);
	}
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* A bad line flips a bit, where a digest will show it. */
static void corrupt(struct isw_link *l, enum iscsi_side side, const struct span_list *list,
		    size_t n)
{
	struct iscsi_world *w = l->world;
	const struct isw_keys *k = &l->wire.keys;
	uint32_t at;

	if (!l->wire.is_full || !k->has_header_digest || !k->has_data_digest || n == 0 ||
	    w->phase != ISW_RUN || !isw_chance(w, w->limits.corrupt_ppm))
		return;
	/* The login's last PDU has no digest, and may be on the way yet. */
	if (side == ISCSI_INITIATOR &&
	    l->ends[ISCSI_TARGET].out.counts.bytes_received - n < l->wire.login_bytes)
		return;
	at = isw_draw(w, (uint32_t)n);
	w->corruptions++;
	l->ends[side].is_corrupted = true;
	for (uint32_t i = 0; i < list->count; i++) {
		if (at < list->spans[i].length) {
			list->spans[i].bytes[at] ^= (uint8_t)(1U << isw_draw(w, 8));
			return;
		}
		at -= (uint32_t)list->spans[i].length;
	}
}

static void want(struct isw_link *l, enum iscsi_side side, struct span_list *list)
{
	if (side == ISCSI_INITIATOR)
		iscsi_offload_want(l->stream, l->world->world.now_ns, list);
	else
		iscsi_connection_want(l->connection, l->world->world.now_ns, list);
}

static void got(struct isw_link *l, enum iscsi_side side, const struct span_list *list, size_t n)
{
	corrupt(l, side, list, n);
	if (side == ISCSI_INITIATOR)
		iscsi_offload_got(l->stream, l->world->world.now_ns, list, n);
	else
		iscsi_connection_got(l->connection, l->world->world.now_ns, list, n);
}

static void gone(struct isw_link *l, enum iscsi_side side, bool is_reset)
{
	if (side == ISCSI_TARGET)
		iscsi_connection_eof(l->connection, l->world->world.now_ns);
	else if (is_reset)
		iscsi_offload_lost(l->stream);
	else
		iscsi_offload_eof(l->stream, l->world->world.now_ns);
}

/* False: no more can be received now. */
static bool input(struct isw_link *l, enum iscsi_side side)
{
	struct sim_stream *in = &l->ends[other(side)].out;
	struct span_list list;
	size_t done = 0, n = 0;
	enum sim_stream_status status = SIM_STREAM_OK;

	want(l, side, &list);
	if (list.count == 0)
		return false;
	for (uint32_t i = 0; i < list.count && status == SIM_STREAM_OK; i++) {
		status = sim_stream_recv(in, list.spans[i].bytes, list.spans[i].length, &n);
		done += n;
		if (n < list.spans[i].length)
			break;
	}
	if (done > 0) {
		got(l, side, &list, done);
		return true;
	}
	if (status == SIM_STREAM_EOF || status == SIM_STREAM_RESET)
		gone(l, side, status == SIM_STREAM_RESET);
	l->ends[side].is_readable = false;
	return false;
}

/* False: nothing to send, or no room. */
static bool output(struct isw_link *l, enum iscsi_side side)
{
	uint64_t now_ns = l->world->world.now_ns;
	struct isw_end *e = &l->ends[side];
	struct span_list list;
	size_t done = 0;

	isw_relay_pass(l, side);
	if (e->count == ISW_PDUS || e->is_closing)
		return false;
	if (side == ISCSI_INITIATOR)
		iscsi_offload_have(l->stream, now_ns, &list);
	else
		iscsi_connection_have(l->connection, now_ns, &list);
	for (uint32_t i = 0; i < list.count; i++) {
		size_t n = isw_relay_take(l, side, list.spans[i].bytes, list.spans[i].length);

		done += n;
		if (n < list.spans[i].length)
			break;
	}
	if (done == 0)
		return false;
	if (side == ISCSI_INITIATOR)
		iscsi_offload_sent(l->stream, now_ns, done);
	else
		iscsi_connection_sent(l->connection, now_ns, done);
	isw_relay_pass(l, side);
	return true;
}

static void act(struct isw_link *l, enum iscsi_side side)
{
	if (side == ISCSI_TARGET) {
		enum iscsi_action a = iscsi_connection_action(l->connection);

		if (a != ISCSI_ACTION_NONE)
			isw_link_leave(l, side, a == ISCSI_ACTION_ABORT);
		return;
	}
	switch (iscsi_offload_action(l->stream)) {
	case ISCSI_OFFLOAD_NOTHING:
		world_alarm_set(&l->world->world, &l->due, iscsi_offload_due(l->stream));
		return;
	case ISCSI_OFFLOAD_SHUT:
		l->ends[side].is_closing = true;
		isw_relay_pass(l, side);
		world_alarm_set(&l->world->world, &l->due, iscsi_offload_due(l->stream));
		return;
	case ISCSI_OFFLOAD_CLOSE:
		isw_link_leave(l, side, 0);
		break;
	case ISCSI_OFFLOAD_ABORT:
		isw_link_leave(l, side, 1);
		break;
	}
	isw_host_hung_up(&l->world->hosts[l->host]);
}

/* The process has left: what it had sent goes on; what comes for it is answered by a reset. */
static void left(struct isw_link *l, enum iscsi_side side)
{
	struct isw_end *e = &l->ends[side];
	uint8_t byte;
	size_t n = 0;

	isw_relay_pass(l, side);
	if (!e->is_readable || l->is_silent)
		return;
	e->is_readable = false;
	if (sim_stream_recv(&l->ends[other(side)].out, &byte, 1, &n) == SIM_STREAM_OK)
		isw_link_reset(l);
}

void isw_link_serve(struct isw_link *l, enum iscsi_side side)
{
	struct isw_end *e = &l->ends[side];
	bool has_moved = true;

	if (l->far)
		isw_iser_end_serve(l);
	if (!e->is_used) {
		if (l->has_pipes)
			left(l, side);
		return;
	}
	if (e->out.state == SIM_STREAM_BROKEN ||
	    l->ends[other(side)].out.state == SIM_STREAM_BROKEN)
		gone(l, side, true);
	for (uint32_t round = 0; has_moved; round++) {
		has_moved = e->is_readable && input(l, side);
		has_moved |= output(l, side);
		CHECK(round < ROUNDS_MAX);
	}
	act(l, side);
}
