/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections. Data on a connection is sent and arrives in order, each with its own delay. A Write
 * completes for its sender when it is sent; a Read when its response arrives. A failed end accepts
 * nothing more, while data that it has sent is still in flight; the other end learns of the failure
 * some time later.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

enum { US = 1000, MS = 1000 * US, SERIAL_SHIFT = 16, SILENT_ONE_IN = 20, SILENT_FACTOR = 64 };

struct rw_conn *rw_conn_of(struct rio_world *w, uint32_t end)
{
	return &w->conns[end / 2];
}

struct rw_end *rw_end_of(struct rio_world *w, uint32_t end)
{
	return &w->conns[end / 2].ends[end % 2];
}

static bool is_open(const struct rw_end *e)
{
	return e->state == RW_END_GREETING || e->state == RW_END_UP;
}

/* ---- Events --------------------------------------------------------------------------------- */

static uint64_t delay(struct rio_world *w)
{
	uint64_t ns = US + rw_draw_ns(w, w->limits.delay_ns);

	return rw_draw(w, SILENT_ONE_IN) == 0 ? 16 * ns : ns;
}

static void schedule_end(struct rio_world *w, enum rw_event kind, uint32_t end, uint64_t in_ns)
{
	uint64_t serial = rw_conn_of(w, end)->serial;

	world_schedule(&w->world, in_ns,
		       (struct world_event){ .kind = kind, .arg = serial << SERIAL_SHIFT | end });
}

/* False: the event's connection no longer exists. */
static bool event_end(struct rio_world *w, uint64_t arg, uint32_t *end)
{
	*end = (uint32_t)arg & ((1U << SERIAL_SHIFT) - 1);
	return rw_conn_of(w, *end)->serial == arg >> SERIAL_SHIFT;
}

/* ---- Flights -------------------------------------------------------------------------------- */

static struct rw_flight *flight_new(struct rio_world *w, uint32_t end, const struct rw_flight *from)
{
	struct rw_flight *f;

	CHECK(!list_is_empty(&w->free_flights));
	f = CONTAINER_OF(list_pop(&w->free_flights), struct rw_flight, link);
	*f = *from;
	list_init(&f->link);
	f->end = end;
	f->serial = rw_conn_of(w, end)->serial;
	return f;
}

static void flight_tidy(struct rio_world *w, struct rw_flight *f)
{
	if (f->has_event || f->is_linked)
		return;
	free(f->data);
	f->data = NULL;
	list_add_tail(&w->free_flights, &f->link);
}

static void flight_unlink(struct rio_world *w, struct rw_flight *f)
{
	list_remove(&f->link);
	f->is_linked = false;
	flight_tidy(w, f);
}

static void flight_schedule(struct rio_world *w, struct rw_flight *f, enum rw_event kind,
			    uint64_t at_ns)
{
	f->has_event = true;
	world_schedule(&w->world, at_ns - w->world.now_ns,
		       (struct world_event){ .kind = kind, .arg = (uint64_t)(f - w->flights) });
}

static void flight_post(struct rio_world *w, struct rw_flight *f)
{
	struct rw_end *e = rw_end_of(w, f->end);
	uint64_t at_ns = w->world.now_ns + rw_draw_ns(w, w->limits.delay_ns / 4);

	e->transmit_ns = at_ns > e->transmit_ns ? at_ns : e->transmit_ns + 1;
	flight_schedule(w, f, RW_EV_TRANSMIT, e->transmit_ns);
}

/* Schedules the flight from this end to the other. */
static void flight_travel(struct rio_world *w, struct rw_flight *f, uint32_t from)
{
	struct rw_end *e = rw_end_of(w, from);
	uint64_t at_ns = w->world.now_ns + delay(w);

	e->arrival_ns = at_ns > e->arrival_ns ? at_ns : e->arrival_ns + 1;
	flight_schedule(w, f, RW_EV_ARRIVE, e->arrival_ns);
}

/* Requests complete in the order in which they were posted. */
static void completions(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);

	while (!list_is_empty(&e->flights)) {
		struct rw_flight *f = CONTAINER_OF(e->flights.next, struct rw_flight, link);

		if (!f->is_ready)
			return;
		rw_input(w, e->node,
			 &(struct rw_input){ .kind = RW_INPUT_MOVED, .end = end, .id = f->id });
		flight_unlink(w, f);
	}
}

static uint8_t *copy_of(const uint8_t *bytes, size_t length)
{
	uint8_t *copy = malloc(length > 0 ? length : 1);

	CHECK(copy);
	if (length > 0)
		memcpy(copy, bytes, length);
	return copy;
}

void rw_say(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length)
{
	const struct rw_flight f = { .kind = RW_MESSAGE,
				     .data = copy_of(bytes, length),
				     .length = (uint32_t)length };
	struct rw_end *e = rw_end_of(w, end);

	if (!is_open(e)) {
		free(f.data);
		return;
	}
	if (!rw_conn_of(w, end)->is_data) {
		w->owner_bytes += length;
		rw_model_message(w, bytes, length);
	}
	rw_trace(w, RW_TRACE_MESSAGE, e->node, rw_end_of(w, end ^ 1)->node,
		 (uint64_t)bytes[3] << 32 | length);
	flight_post(w, flight_new(w, end, &f));
}

enum weft_reason rw_move(struct rio_world *w, uint32_t end, const struct rw_flight *move)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_flight *f;

	if (e->state != RW_END_UP)
		return WEFT_R_PEER_GONE;
	f = flight_new(w, end, move);
	f->is_linked = true;
	list_add_tail(&e->flights, &f->link);
	flight_post(w, f);
	return WEFT_OK;
}

static void transmit(struct rio_world *w, struct rw_flight *f)
{
	struct rw_end *e = rw_end_of(w, f->end);

	f->has_event = false;
	if (rw_conn_of(w, f->end)->serial != f->serial || !is_open(e)) {
		flight_tidy(w, f);
		return;
	}
	if (f->kind == RW_WRITE) {
		f->data = copy_of(f->bytes, f->length);
		f->is_ready = true;
	}
	flight_travel(w, f, f->end);
	completions(w, f->end);
}

/* ---- Memory --------------------------------------------------------------------------------- */

uint32_t rw_handle_new(struct rio_world *w, uint32_t node, uint32_t ask)
{
	if (w->handle_count == w->handle_room) {
		w->handle_room = w->handle_room ? 2 * w->handle_room : 1024;
		w->handles = realloc(w->handles, w->handle_room * sizeof(*w->handles));
		CHECK(w->handles);
	}
	w->handles[w->handle_count] = (struct rw_handle){ node, w->nodes[node].incarnation, ask };
	return ++w->handle_count;
}

/* The memory that a Read or Write names at the node; NULL: access denied. */
static uint8_t *reach(struct rio_world *w, uint32_t node, const struct rw_flight *f)
{
	bool is_control = !rw_conn_of(w, f->end)->is_data;
	struct platform who = w->nodes[rw_end_of(w, f->end)->node].self.platform;

	for (uint32_t i = 0; i < RW_WINDOWS_ALL; i++) {
		const struct rw_window *v = &w->nodes[node].windows[i];

		if (!v->is_open || v->handle != f->handle)
			continue;
		if (!platform_is_none(v->only) && !platform_is_same(v->only, who))
			return NULL;
		if (v->is_control != is_control || f->remote < v->address ||
		    f->length > v->length || f->remote - v->address > v->length - f->length)
			return NULL;
		if (i > RW_SHARED && v->is_written != (f->kind == RW_WRITE))
			return NULL;
		return v->bytes + (f->remote - v->address);
	}
	return NULL;
}

static void access_do(struct rio_world *w, struct rw_flight *f)
{
	uint32_t there = f->end ^ 1, node = rw_end_of(w, there)->node;
	uint8_t *bytes = f->length > 0 ? reach(w, node, f) : (uint8_t *)"";

	if (!bytes) {
		rw_trace(w, RW_TRACE_BARRED, rw_end_of(w, f->end)->node, node, f->length);
		rw_model_barred(w, node, f);
		rw_end_fail(w, there, WEFT_R_FLUSHED);
		flight_tidy(w, f);
		return;
	}
	rw_trace(w, f->kind == RW_WRITE ? RW_TRACE_WROTE : RW_TRACE_READ,
		 rw_end_of(w, f->end)->node, node, f->length);
	if (rw_conn_of(w, f->end)->is_data)
		w->payload_bytes += f->length;
	if (f->kind == RW_WRITE) {
		memcpy(bytes, f->data, f->length);
		flight_tidy(w, f);
		return;
	}
	f->data = copy_of(bytes, f->length);
	f->is_back = true;
	flight_travel(w, f, there);
}

static void arrive(struct rio_world *w, struct rw_flight *f)
{
	uint32_t there = f->is_back ? f->end : f->end ^ 1;
	struct rw_end *e = rw_end_of(w, there);

	f->has_event = false;
	if (rw_conn_of(w, there)->serial != f->serial || !is_open(e) ||
	    rw_conn_of(w, there)->is_clogged) {
		flight_tidy(w, f);
	} else if (f->is_back) {
		if (f->length > 0)
			memcpy(f->bytes, f->data, f->length);
		f->is_ready = true;
		completions(w, there);
	} else if (f->kind == RW_MESSAGE) {
		rw_input(w, e->node,
			 &(struct rw_input){ .kind = RW_INPUT_MESSAGE,
					     .end = there,
					     .bytes = f->data,
					     .length = f->length });
		f->data = NULL;
		flight_tidy(w, f);
	} else {
		access_do(w, f);
	}
}

/* ---- Ends ----------------------------------------------------------------------------------- */

uint32_t rw_data_end(struct rio_world *w, uint32_t node, struct platform peer)
{
	for (uint32_t end = 0; end < 2 * w->conn_count; end++) {
		const struct rw_end *e = rw_end_of(w, end);

		if (rw_conn_of(w, end)->is_data && e->state != RW_END_GONE &&
		    e->state != RW_END_DYING && e->node == node && platform_is_same(e->peer, peer))
			return end;
	}
	return RW_NONE;
}

uint32_t rw_dial(struct rio_world *w, uint32_t from, uint32_t to, const struct rio_bytes *question)
{
	struct rw_conn *c = w->conns;
	uint32_t end;

	while (c->ends[0].state != RW_END_GONE || c->ends[1].state != RW_END_GONE) {
		if (++c == w->conns + RW_CONNS_MAX)
			return RW_NONE;
	}
	end = 2 * (uint32_t)(c - w->conns);
	if (end / 2 == w->conn_count)
		w->conn_count++;
	*c = (struct rw_conn){ .serial = c->serial + 1, .is_data = question, .to = to };
	list_init(&c->ends[0].flights);
	list_init(&c->ends[1].flights);
	c->ends[0].state = RW_END_CONNECTING;
	c->ends[0].node = from;
	c->ends[0].dial = c->ends[1].dial = RW_NONE;
	c->ends[1].node = to;
	if (question) {
		CHECK(question->length == sizeof(c->words));
		memcpy(c->words, question->bytes, sizeof(c->words));
	}
	schedule_end(w, RW_EV_DIALLED, end + 1, delay(w));
	return end;
}

void rw_answer(struct rio_world *w, uint32_t end, enum weft_reason reason,
	       const struct rio_bytes *answer)
{
	struct rw_conn *c = rw_conn_of(w, end);

	c->answer = reason;
	if (answer)
		memcpy(c->words, answer->bytes, sizeof(c->words));
	schedule_end(w, RW_EV_ANSWERED, end & ~1U, delay(w));
}

static bool are_apart(const struct rio_world *w, uint32_t one, uint32_t other)
{
	return w->apart_until_ns[one][other] > w->world.now_ns;
}

/* A connection request arrives at the responder. */
static void dialled(struct rio_world *w, uint32_t end)
{
	struct rw_conn *c = rw_conn_of(w, end);
	struct rw_end *e = rw_end_of(w, end);

	if (c->ends[0].state != RW_END_CONNECTING)
		return;
	if (are_apart(w, c->ends[0].node, c->to)) {
		rw_answer(w, end, WEFT_R_CONNECT_TIMEOUT, NULL);
	} else if (!w->nodes[c->to].is_up) {
		rw_answer(w, end, WEFT_R_CONNECT_REFUSED, NULL);
	} else if (c->is_data) {
		rw_input(w, c->to, &(struct rw_input){ .kind = RW_INPUT_ASKED, .end = end });
	} else {
		e->state = RW_END_GREETING;
		rw_input(w, c->to, &(struct rw_input){ .kind = RW_INPUT_ACCEPT, .end = end });
		rw_answer(w, end, WEFT_OK, NULL);
	}
}

static void answered(struct rio_world *w, uint32_t end)
{
	struct rw_conn *c = rw_conn_of(w, end);
	struct rw_end *e = rw_end_of(w, end);

	if (e->state != RW_END_CONNECTING)
		return;
	if (c->answer == WEFT_OK) {
		rw_input(w, e->node,
			 &(struct rw_input){ .kind = RW_INPUT_CONNECTED,
					     .end = end,
					     .bytes = copy_of(c->words, sizeof(c->words)),
					     .length = sizeof(c->words) });
	} else {
		e->state = RW_END_DYING;
		e->reason = c->answer;
		rw_input(w, e->node, &(struct rw_input){ .kind = RW_INPUT_GONE, .end = end });
	}
}

/* Tells the other end: usually soon; late if the host vanished silently. */
static void notice_other(struct rio_world *w, uint32_t end)
{
	uint64_t ns = delay(w);

	if (rw_draw(w, SILENT_ONE_IN) == 0)
		ns = SILENT_FACTOR * ns + rw_draw_ns(w, 100 * (uint64_t)MS);
	schedule_end(w, RW_EV_NOTICE, end ^ 1, ns);
}

void rw_end_fail(struct rio_world *w, uint32_t end, enum weft_reason reason)
{
	struct rw_end *e = rw_end_of(w, end);

	if (e->state == RW_END_GONE || e->state == RW_END_DYING)
		return;
	e->state = RW_END_DYING;
	e->reason = reason;
	schedule_end(w, RW_EV_BURY, end, rw_draw_ns(w, 50 * (uint64_t)US));
	notice_other(w, end);
}

static void reap(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);

	if (e->state != RW_END_DYING)
		return; /* its node has stopped */
	while (!list_is_empty(&e->flights)) {
		struct rw_flight *f = CONTAINER_OF(e->flights.next, struct rw_flight, link);

		rw_input(w, e->node,
			 &(struct rw_input){ .kind = RW_INPUT_MOVED,
					     .end = end,
					     .id = f->id,
					     .reason = WEFT_R_FLUSHED });
		flight_unlink(w, f);
	}
	rw_input(w, e->node, &(struct rw_input){ .kind = RW_INPUT_GONE, .end = end });
}

/* Is a Read in progress on the connection? */
static bool is_read_over(struct rio_world *w, uint32_t conn)
{
	const struct rw_end *e = &w->conns[conn].ends[0];

	for (const struct list *l = e->flights.next; l != &e->flights; l = l->next) {
		if (CONTAINER_OF(l, struct rw_flight, link)->kind == RW_READ)
			return true;
	}
	return false;
}

static bool is_data_up(const struct rw_conn *c)
{
	return c->is_data && c->ends[0].state == RW_END_UP && c->ends[1].state == RW_END_UP;
}

void rw_clog_one(struct rio_world *w)
{
	uint32_t from = rw_draw(w, RW_CONNS_MAX);

	for (uint32_t i = 0; i < RW_CONNS_MAX; i++) {
		uint32_t conn = (from + i) % RW_CONNS_MAX;
		struct rw_conn *c = &w->conns[conn];

		if (!is_data_up(c) || c->is_clogged || !is_read_over(w, conn))
			continue;
		rw_trace(w, RW_TRACE_CLOGGED, c->ends[0].node, c->ends[1].node, 0);
		c->is_clogged = true;
		return;
	}
}

void rw_part_two(struct rio_world *w)
{
	uint32_t one = rw_draw(w, w->node_count), other = rw_draw(w, w->node_count);
	uint64_t until_ns = w->world.now_ns + rw_draw_ns(w, w->limits.part_ns);

	if (one == other)
		return;
	rw_trace(w, RW_TRACE_APART, one, other, until_ns);
	w->apart_until_ns[one][other] = w->apart_until_ns[other][one] = until_ns;
	for (uint32_t i = 0; i < RW_CONNS_MAX; i++) {
		struct rw_conn *c = &w->conns[i];
		uint32_t from = c->ends[0].node, to = c->ends[1].node;

		if (!((from == one && to == other) || (from == other && to == one)))
			continue;
		c->is_clogged = true;
		for (uint32_t side = 0; side < 2; side++)
			schedule_end(w, RW_EV_NOTICE, 2 * i + side,
				     rw_draw_ns(w, w->limits.alive_ns));
	}
}

void rw_clogs_end(struct rio_world *w)
{
	for (uint32_t i = 0; i < RW_CONNS_MAX; i++) {
		if (w->conns[i].is_clogged && is_data_up(&w->conns[i]) && !is_read_over(w, i))
			rw_end_fail(w, 2 * i, WEFT_R_PEER_GONE);
	}
}

void rw_end_forget(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);

	rw_order_parted(w, end);
	if (e->state != RW_END_DYING)
		notice_other(w, end);
	while (!list_is_empty(&e->flights))
		flight_unlink(w, CONTAINER_OF(e->flights.next, struct rw_flight, link));
	rio_handshake_fini(&e->handshake);
	e->state = RW_END_GONE;
}

bool rw_net_event(struct rio_world *w, const struct world_event *e)
{
	uint32_t end;

	if (e->kind == RW_EV_TRANSMIT || e->kind == RW_EV_ARRIVE) {
		struct rw_flight *f = &w->flights[e->arg];

		(e->kind == RW_EV_TRANSMIT ? transmit : arrive)(w, f);
		return true;
	}
	if (e->kind < RW_EV_DIALLED || e->kind > RW_EV_BURY)
		return false;
	if (!event_end(w, e->arg, &end))
		return true;
	if (e->kind == RW_EV_DIALLED)
		dialled(w, end);
	else if (e->kind == RW_EV_ANSWERED)
		answered(w, end);
	else if (e->kind == RW_EV_NOTICE)
		rw_end_fail(w, end, WEFT_R_PEER_GONE);
	else
		reap(w, end);
	return true;
}

int rw_net_open(struct rio_world *w)
{
	w->flights = calloc(RW_FLIGHTS_MAX, sizeof(*w->flights));
	list_init(&w->free_flights);
	if (!w->flights)
		return -1;
	for (uint32_t i = 0; i < RW_FLIGHTS_MAX; i++)
		list_add_tail(&w->free_flights, &w->flights[i].link);
	return 0;
}

void rw_net_close(struct rio_world *w)
{
	for (uint32_t i = 0; w->flights && i < RW_FLIGHTS_MAX; i++)
		free(w->flights[i].data);
	free(w->flights);
	free(w->handles);
}
