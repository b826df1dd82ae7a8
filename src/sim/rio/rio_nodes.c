/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes. Input for a process waits until its next turn; a turn takes all of it, and then
 * carries out the core's acts, as the loop of a real process does.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

enum { US = 1000, MS = 1000 * US, TURN_NS = 20 * US, STEPS_MAX = 300 };

static const uint64_t greeting_ns = UINT64_C(5000) * MS;
static const uint64_t redial_ns = 20 * MS, redial_most_ns = UINT64_C(1000) * MS;

uint32_t rw_node_of(const struct rio_world *w, struct platform platform)
{
	for (uint32_t i = 0; i < w->node_count; i++) {
		if (platform_is_same(w->known[i].platform, platform))
			return i;
	}
	return RW_NONE;
}

/* ---- When it looks -------------------------------------------------------------------------- */

static uint64_t dial_due(const struct rw_node *n)
{
	uint64_t due = WORLD_NEVER;

	for (uint32_t i = 0; i < n->dial_count; i++) {
		if (n->dials[i].end == RW_NONE && n->dials[i].next_ns < due)
			due = n->dials[i].next_ns;
	}
	return due;
}

static uint64_t greeting_due(struct rio_world *w, uint32_t node)
{
	uint64_t due = WORLD_NEVER;

	for (uint32_t end = 0; end < 2 * w->conn_count; end++) {
		const struct rw_end *e = rw_end_of(w, end);

		if (e->state == RW_END_GREETING && e->node == node && e->deadline_ns < due)
			due = e->deadline_ns;
	}
	return due;
}

void rw_node_wake(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];
	uint64_t at = rw_role_due(w, node), other = dial_due(n);

	at = other < at ? other : at;
	other = greeting_due(w, node);
	at = other < at ? other : at;
	if (!list_is_empty(&n->input))
		at = w->world.now_ns + rw_draw_ns(w, TURN_NS);
	if (at != WORLD_NEVER && at < n->hung_until_ns)
		at = n->hung_until_ns;
	world_alarm_set(&w->world, &n->turn, at);
}

void rw_input(struct rio_world *w, uint32_t node, const struct rw_input *input)
{
	struct rw_node *n = &w->nodes[node];
	struct rw_input *own = malloc(sizeof(*own));
	uint64_t at = w->world.now_ns + rw_draw_ns(w, TURN_NS);

	CHECK(own && n->is_up);
	*own = *input;
	own->serial = rw_conn_of(w, input->end)->serial;
	list_add_tail(&n->input, &own->link);
	if (list_is_linked(&own->link) && n->input.next == &own->link)
		world_alarm_set(&w->world, &n->turn, at < n->hung_until_ns ? n->hung_until_ns : at);
}

static void input_free(struct rw_input *m)
{
	list_remove(&m->link);
	free(m->bytes);
	free(m);
}

/* ---- Greeting ------------------------------------------------------------------------------- */

static void greet(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_node *n = &w->nodes[e->node];
	uint8_t bytes[RIO_GREETING_MAX];
	enum weft_reason r;
	size_t length;

	while ((length = rio_handshake_say(&e->handshake, bytes)) > 0)
		rw_say(w, end, bytes, length);
	if (e->state != RW_END_GREETING || !rio_handshake_is_done(&e->handshake))
		return;
	e->peer = rio_handshake_peer(&e->handshake).platform;
	e->state = RW_END_UP;
	if (e->dial != RW_NONE)
		n->dials[e->dial].wait_ns = redial_ns;
	r = rw_role_came(w, end);
	if (r == WEFT_OK) {
		e->is_known_to_role = true;
		rw_trace(w, RW_TRACE_MET, e->node, rw_node_of(w, e->peer), 0);
	} else {
		rw_end_fail(w, end, r);
	}
}

static void greet_begin(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_node *n = &w->nodes[e->node];
	/* Peers cannot tell the second owner from the first. */
	const struct rio_book book = { w->known, w->node_count + 1 - w->owner_count };
	const struct rio_handshake_limits limits = {
		rw_is_owner(w, e->node) ? w->limits.owner_requests : w->limits.commands,
		rw_is_owner(w, e->node) ? w->limits.owner_list_max : w->limits.unit_list_max,
	};
	struct rio_address at = { 0 };
	uint8_t random[RIO_SEED_BYTES];

	for (uint32_t i = 0; i < sizeof(random); i++)
		random[i] = (uint8_t)rw_draw(w, 256);
	if (rw_is_owner(w, e->node))
		rw_conn_of(w, end)->term = n->term;
	e->state = RW_END_GREETING;
	e->deadline_ns = w->world.now_ns + greeting_ns;
	if (rw_is_requester(w, e->node))
		at = (struct rio_address){ .family = 4,
					   .port = (uint16_t)(1000 + e->node),
					   .ip = { 127, 0, 0, 1 } };
	if (end % 2 == 0)
		rio_handshake_dial(&e->handshake, &n->self, &w->known[rw_conn_of(w, end)->to], &at,
				   random);
	else
		rio_handshake_await(&e->handshake, &n->self, &book, &limits, random);
	greet(w, end);
}

/* ---- Mail ----------------------------------------------------------------------------------- */

static void connected(struct rio_world *w, uint32_t end, const struct rw_input *m)
{
	struct rw_end *e = rw_end_of(w, end);

	if (e->state != RW_END_CONNECTING)
		return;
	if (!rw_conn_of(w, end)->is_data) {
		greet_begin(w, end);
		return;
	}
	e->state = RW_END_UP;
	e->is_known_to_role = true;
	rio_iounit_dialled(w->nodes[e->node].unit, e->peer, WEFT_OK,
			   &(struct rio_bytes){ m->bytes, m->length });
}

static void message(struct rio_world *w, uint32_t end, const struct rw_input *m)
{
	struct rw_end *e = rw_end_of(w, end);
	enum weft_reason r = WEFT_OK;

	if (e->state == RW_END_GREETING) {
		r = rio_handshake_take(&e->handshake, m->bytes, m->length);
		if (r == WEFT_OK)
			greet(w, end);
	} else if (e->state == RW_END_UP) {
		r = rw_role_message(w, end, m);
	}
	if (r == WEFT_OK)
		return;
	if (r == WEFT_R_RIO_SUPERSEDED) {
		/* A superseded owner stops. */
		w->nodes[e->node].is_stopping = rw_is_owner(w, e->node);
		rw_end_fail(w, end, r);
		return;
	}
	/*
	 * All peers are honest, so no message may be refused, except a notice of a unit that was
	 * revoked meanwhile.
	 */
	if (!rw_conn_of(w, end)->is_data)
		rw_fail(w, "node %u refuses a message of node %u: %s", e->node,
			rw_end_of(w, end ^ 1)->node, weft_reason_name(r));
	rw_end_fail(w, end, r);
}

static void gone(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_node *n = &w->nodes[e->node];

	rw_trace_reason(w,
			(struct trace_event){ .kind = RW_TRACE_PARTED,
					      .who = e->node,
					      .a = rw_end_of(w, end ^ 1)->node },
			(uint32_t)e->reason);
	if (e->dial != RW_NONE) {
		struct rw_dial *d = &n->dials[e->dial];

		d->end = RW_NONE;
		d->next_ns = w->world.now_ns + d->wait_ns;
		d->wait_ns = d->wait_ns < redial_most_ns ? 2 * d->wait_ns : redial_most_ns;
	}
	if (e->is_known_to_role || rw_conn_of(w, end)->is_data)
		rw_role_gone(w, end);
	rw_end_forget(w, end);
}

static void input_take(struct rio_world *w, uint32_t node, const struct rw_input *m)
{
	uint32_t end = m->end;

	/* Completions go to the core, even if the connection is gone. */
	if (m->kind == RW_INPUT_MOVED) {
		rw_role_moved(w, node, m);
		return;
	}
	if (rw_conn_of(w, end)->serial != m->serial)
		return;
	switch (m->kind) {
	case RW_INPUT_ACCEPT:
		if (rw_end_of(w, end)->state == RW_END_GREETING)
			greet_begin(w, end);
		break;
	case RW_INPUT_ASKED:
		rw_role_asked(w, end);
		break;
	case RW_INPUT_CONNECTED:
		connected(w, end, m);
		break;
	case RW_INPUT_MESSAGE:
		message(w, end, m);
		break;
	default:
		gone(w, end);
		break;
	}
}

static void timers(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	for (uint32_t end = 0; end < 2 * w->conn_count; end++) {
		const struct rw_end *e = rw_end_of(w, end);

		if (e->state == RW_END_GREETING && e->node == node &&
		    e->deadline_ns <= w->world.now_ns)
			rw_end_fail(w, end, WEFT_R_CONNECT_TIMEOUT);
	}
	for (uint32_t i = 0; i < n->dial_count; i++) {
		struct rw_dial *d = &n->dials[i];

		if (d->end != RW_NONE || d->next_ns > w->world.now_ns)
			continue;
		if (rw_is_requester(w, node) && w->owner_count > 1)
			d->node = rw_draw(w, 2) * (w->node_count - 1);
		d->end = rw_dial(w, node, d->node, NULL);
		d->next_ns = w->world.now_ns + redial_most_ns;
		if (d->end != RW_NONE)
			rw_end_of(w, d->end)->dial = i;
	}
}

void rw_node_turn(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	if (!n->is_up)
		return;
	/* Only the present input: processing may add more. */
	while (!list_is_empty(&n->input)) {
		struct rw_input *m = CONTAINER_OF(n->input.next, struct rw_input, link);

		input_take(w, node, m);
		input_free(m);
	}
	timers(w, node);
	rw_role_work(w, node);
	if (!n->is_stopping)
		rw_order_turned(w, node);
	if (n->is_stopping)
		rw_node_stop(w, node);
	else
		rw_node_wake(w, node);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void dials_begin(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	n->dial_count = 0;
	if (rw_is_requester(w, node)) {
		n->dials[n->dial_count++].node = 0;
	} else if (rw_is_owner(w, node)) {
		for (uint32_t i = 0; i < w->limits.units; i++)
			n->dials[n->dial_count++].node = 1 + w->limits.requesters + i;
	}
	for (uint32_t i = 0; i < n->dial_count; i++) {
		n->dials[i].end = RW_NONE;
		n->dials[i].next_ns = w->world.now_ns;
		n->dials[i].wait_ns = redial_ns;
	}
}

void rw_node_start(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	CHECK(!n->is_up);
	/* After the run phase only the first owner remains. */
	if (node != 0 && rw_is_owner(w, node) && w->phase != RW_RUN)
		return;
	n->is_up = true;
	n->term = rw_is_owner(w, node) ? ++w->terms : 0;
	n->self.term = (struct rio_term){ .number = n->term };
	n->is_stopping = false;
	n->incarnation++;
	n->hung_until_ns = 0;
	n->owner_end = RW_NONE;
	n->acts_left = 0;
	if (w->phase == RW_RUN && rw_chance(w, w->limits.step_ppm))
		n->acts_left = 1 + rw_draw(w, STEPS_MAX);
	list_init(&n->input);
	rw_trace(w, RW_TRACE_STARTED, node, n->incarnation, 0);
	rw_role_open(w, node);
	dials_begin(w, node);
	rw_node_wake(w, node);
}

/* As by kill -9: peers are not told, and nothing is cleaned up. */
void rw_node_stop(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	CHECK(n->is_up);
	n->is_up = false;
	w->stops++;
	rw_trace(w, RW_TRACE_STOPPED, node, n->incarnation, 0);
	world_alarm_cancel(&w->world, &n->turn);
	for (uint32_t end = 0; end < 2 * w->conn_count; end++) {
		const struct rw_end *e = rw_end_of(w, end);

		if (e->state != RW_END_GONE && e->node == node)
			rw_end_forget(w, end);
	}
	while (!list_is_empty(&n->input))
		input_free(CONTAINER_OF(n->input.next, struct rw_input, link));
	rw_role_close(w, node);
	if (w->phase == RW_RUN)
		world_schedule(&w->world, MS + rw_draw_ns(w, w->limits.away_ns),
			       (struct world_event){ .node = node, .kind = RW_EV_START });
}
