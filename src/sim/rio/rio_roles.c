/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the cores of owner, requesters and I/O units: hands in events and carries out acts. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

enum { LISTS_BYTES = RW_LISTS * RIO_LIST_BYTES_MAX, LISTS_AT = 0x10000 };

static const uint64_t arena_at = UINT64_C(0x100000000);
static const uint64_t fetch_ns = 1000 * 1000 * 1000; /* longer than any fetch takes */

/* Counts an act. False: the node stops before it. */
static bool may_act(struct rw_node *n)
{
	if (n->acts_left == 0)
		return true;
	n->acts_left--;
	n->is_stopping = n->acts_left == 0;
	return !n->is_stopping;
}

/* ---- Owner ---------------------------------------------------------------------------------- */

static void owner_open(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];
	struct rio_owner_config config = {
		.self = n->self.platform,
		.requesters_max = w->limits.requesters,
		.iounits_max = w->limits.units,
		.requests_max = w->limits.owner_requests,
		.lists_max = w->limits.owner_lists,
		.lists = n->lists,
		.lists_address = LISTS_AT,
		.timeout_ns = w->limits.timeout_ns + fetch_ns,
	};

	for (uint32_t i = 0; i < sizeof(config.secret); i++)
		config.secret[i] = (uint8_t)rw_draw(w, 256);
	CHECK(rio_owner_create(&config, w->policy, &n->owner) == WEFT_OK);
}

static uint32_t owner_end(struct rio_world *w, uint32_t node, uint32_t number)
{
	for (uint32_t end = 0; end < 2 * w->conn_count; end++) {
		const struct rw_end *e = rw_end_of(w, end);

		if (e->state == RW_END_UP && e->node == node && e->is_known_to_role &&
		    e->number == number)
			return end;
	}
	return RW_NONE;
}

static void owner_fetch(struct rio_world *w, struct rw_node *n, const struct rio_owner_act *act,
			uint32_t end)
{
	const struct rw_flight f = { .kind = RW_READ,
				     .id = act->id,
				     .bytes = act->bytes,
				     .length = (uint32_t)act->length,
				     .handle = act->handle,
				     .remote = act->remote };
	enum weft_reason r = end != RW_NONE ? rw_move(w, end, &f) : WEFT_R_PEER_GONE;

	if (r != WEFT_OK)
		rio_owner_fetched(n->owner, act->id, r);
}

/* The window of a list, after the windows that only requesters use. */
static struct rw_window *owner_window(struct rw_node *n, uint32_t id)
{
	return &n->windows[1 + RW_SHARED + id];
}

static void owner_expose(struct rio_world *w, struct rw_node *n, const struct rio_owner_act *act,
			 uint32_t end)
{
	struct rw_window *v = owner_window(n, act->id);

	if (v->is_open)
		rw_fail(w, "the owner exposes list %u, which is exposed", act->id);
	if (end == RW_NONE || (w->phase == RW_RUN && rw_chance(w, w->limits.expose_ppm))) {
		rio_owner_exposed(n->owner, act->id,
				  end == RW_NONE ? WEFT_R_RIO_IOUNIT_LEFT : WEFT_R_LIMIT, 0);
		return;
	}
	*v = (struct rw_window){ .handle = rw_handle_new(w, (uint32_t)(n - w->nodes), RW_NONE),
				 .is_open = true,
				 .is_control = true,
				 .only = rw_end_of(w, end)->peer,
				 .address = LISTS_AT + (uint64_t)(act->bytes - n->lists),
				 .length = (uint32_t)act->length,
				 .bytes = act->bytes };
	rio_owner_exposed(n->owner, act->id, WEFT_OK, v->handle);
}

static void owner_work(struct rio_world *w, struct rw_node *n)
{
	struct rio_owner_act act;

	rio_owner_expire(n->owner, w->world.now_ns);
	while (!n->is_stopping && rio_owner_act(n->owner, &act)) {
		bool has_number = act.kind != RIO_OWNER_NOTE && act.kind != RIO_OWNER_CLOSE;
		uint32_t end = has_number ? owner_end(w, (uint32_t)(n - w->nodes), act.number)
					  : RW_NONE;

		if (!may_act(n))
			return;
		if (act.kind == RIO_OWNER_SAY && end != RW_NONE) {
			rw_order_said(w, end, act.bytes, act.length);
			rw_say(w, end, act.bytes, act.length);
		} else if (act.kind == RIO_OWNER_FETCH)
			owner_fetch(w, n, &act, end);
		else if (act.kind == RIO_OWNER_NOTE) {
			rw_order_noted(w, &act.note);
			rw_trace_reason(w,
					(struct trace_event){ .kind = RW_TRACE_DECIDED,
							      .a = act.note.kind,
							      .b = act.note.request },
					(uint32_t)act.note.reason);
		} else if (act.kind == RIO_OWNER_SEND_AWAY && end != RW_NONE)
			rw_end_fail(w, end, WEFT_R_RIO_TIMEOUT);
		else if (act.kind == RIO_OWNER_EXPOSE)
			owner_expose(w, n, &act, end);
		else if (act.kind == RIO_OWNER_CLOSE)
			owner_window(n, act.id)->is_open = false;
	}
}

/* ---- I/O unit ------------------------------------------------------------------------------- */

static void unit_open(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];
	struct rio_iounit_config config = {
		.self = n->self.platform,
		.devices_max = RW_UNIT_DEVICES,
		.commands_max = w->limits.commands,
		.platforms_max = RW_REQUESTERS_MAX,
		.moves_max = w->limits.moves,
		.pieces_max = w->limits.pieces,
		.piece_bytes = w->limits.piece_bytes,
		.timeout_ns = w->limits.timeout_ns,
	};

	n->buffers = calloc(config.pieces_max, config.piece_bytes);
	CHECK(n->buffers);
	config.buffers = n->buffers;
	CHECK(rio_iounit_create(&config, &n->unit) == WEFT_OK);
	rw_devices_start(w, node);
}

static void unit_dial(struct rio_world *w, uint32_t node, const struct rio_act *act)
{
	uint32_t to = rw_node_of(w, act->platform);
	const struct rio_bytes question = { act->bytes, act->length };
	uint32_t end = RW_NONE;

	if (to == RW_NONE || act->address.port != 1000 + to)
		rw_fail(w, "unit %u dials %u.%u at port %u", node, act->platform.unit,
			act->platform.process, act->address.port);
	else
		end = rw_dial(w, node, to, &question);
	if (end == RW_NONE)
		rio_iounit_dialled(w->nodes[node].unit, act->platform, WEFT_R_LIMIT, NULL);
	else
		rw_end_of(w, end)->peer = act->platform;
}

static void unit_move(struct rio_world *w, uint32_t node, const struct rio_act *act)
{
	struct rw_node *n = &w->nodes[node];
	const struct rw_flight f = { .kind = act->kind == RIO_ACT_WRITE ? RW_WRITE : RW_READ,
				     .id = act->id,
				     .bytes = act->bytes,
				     .length = (uint32_t)act->length,
				     .handle = act->handle,
				     .remote = act->remote };
	uint32_t end = act->kind == RIO_ACT_FETCH ? n->owner_end
						  : rw_data_end(w, node, act->platform);
	enum weft_reason r = end != RW_NONE ? rw_move(w, end, &f) : WEFT_R_PEER_GONE;

	if (r != WEFT_OK)
		rio_iounit_ended(n->unit, act->id, r);
}

static void unit_work(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];
	struct rio_act act;
	uint32_t end;

	rio_iounit_progress(n->unit, w->world.now_ns);
	while (!n->is_stopping && rio_iounit_act(n->unit, &act)) {
		if (!may_act(n))
			return;
		switch (act.kind) {
		case RIO_ACT_SAY:
			if (n->owner_end != RW_NONE)
				rw_say(w, n->owner_end, act.bytes, act.length);
			break;
		case RIO_ACT_DIAL:
			unit_dial(w, node, &act);
			break;
		case RIO_ACT_HANG_UP:
			end = rw_data_end(w, node, act.platform);
			if (end != RW_NONE)
				rw_end_fail(w, end, WEFT_R_PEER_GONE);
			break;
		case RIO_ACT_TELL:
			end = rw_data_end(w, node, act.platform);
			if (end != RW_NONE)
				rw_say(w, end, act.bytes, act.length);
			break;
		default:
			unit_move(w, node, &act);
		}
	}
}

/* The end failed; the next move gets a new connection at once. */
static void unit_lose(struct rio_world *w, uint32_t end, enum weft_reason reason)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rio_iounit *unit = w->nodes[e->node].unit;

	if (e->was_lost)
		return;
	e->was_lost = true;
	rw_end_fail(w, end, reason);
	if (e->is_known_to_role)
		rio_iounit_lost(unit, e->peer);
	else
		rio_iounit_dialled(unit, e->peer, reason, NULL);
}

static void unit_gone(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_node *n = &w->nodes[e->node];

	if (rw_conn_of(w, end)->is_data) {
		unit_lose(w, end, e->reason);
	} else if (end == n->owner_end) {
		n->owner_end = RW_NONE;
		rw_order_owner(w, e->node);
		rio_iounit_owner_left(n->unit);
	}
}

static void unit_moved(struct rio_world *w, uint32_t node, const struct rw_input *input)
{
	const struct rw_conn *c = rw_conn_of(w, input->end);

	if (input->reason != WEFT_OK && c->is_data && c->serial == input->serial)
		unit_lose(w, input->end, input->reason);
	rio_iounit_ended(w->nodes[node].unit, input->id, input->reason);
}

/* ---- Requester ------------------------------------------------------------------------------ */

static void requester_open(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];
	const struct rio_requester_config config = {
		.self = n->self.platform,
		.requests_max = 8,
		.sges_max = RW_WINDOWS,
		.iounits_max = RW_UNITS_MAX,
		.devices_max = RW_DEVICES_MAX,
		.lists_max = RW_LISTS,
		.lists = n->lists,
		.lists_handle = n->windows[0].handle,
		.lists_address = LISTS_AT,
		.timeout_ns = w->limits.timeout_ns,
		.grace_ns = w->limits.grace_ns,
	};

	n->arena = calloc(1, RW_ARENA + RW_SHARED * RW_SHARED_BYTES);
	CHECK(n->arena);
	memset(n->cells, 0, sizeof(n->cells));
	n->shared_used = 0;
	for (uint32_t i = 0; i < RW_SHARED; i++)
		n->windows[1 + i] = (struct rw_window){
			.handle = rw_handle_new(w, node, RW_NONE),
			.is_open = true,
			.address = arena_at + RW_ARENA + i * RW_SHARED_BYTES,
			.length = RW_SHARED_BYTES,
			.bytes = n->arena + RW_ARENA + i * RW_SHARED_BYTES,
		};
	CHECK(rio_requester_create(&config, &n->requester) == WEFT_OK);
}

static void requester_expose(struct rio_world *w, uint32_t node,
			     const struct rio_requester_act *act)
{
	struct rw_node *n = &w->nodes[node];
	struct rw_window *v = &n->windows[1 + RW_SHARED + act->id];

	if (w->phase == RW_RUN && rw_chance(w, w->limits.expose_ppm)) {
		rio_requester_exposed(n->requester, act->id, WEFT_R_LIMIT, 0);
		return;
	}
	if (v->is_open || act->address < arena_at ||
	    act->address - arena_at > RW_ARENA - act->window_length) {
		rw_fail(w, "requester %u opens a window over memory that it did not name", node);
		return;
	}
	/* The region's tag is the number of the ask. */
	*v = (struct rw_window){ .handle = rw_handle_new(w, node, act->tag),
				 .is_open = true,
				 .is_written = act->is_written,
				 .only = act->iounit,
				 .address = act->address,
				 .length = act->window_length,
				 .bytes = n->arena + (act->address - arena_at) };
	rio_requester_exposed(n->requester, act->id, WEFT_OK, v->handle);
}

static void requester_act(struct rio_world *w, uint32_t node, const struct rio_requester_act *act)
{
	struct rw_node *n = &w->nodes[node];
	uint32_t end;

	switch (act->kind) {
	case RIO_REQUESTER_SAY:
		if (n->owner_end != RW_NONE)
			rw_say(w, n->owner_end, act->bytes, act->length);
		break;
	case RIO_REQUESTER_EXPOSE:
		requester_expose(w, node, act);
		break;
	case RIO_REQUESTER_CLOSE:
		if (!n->windows[1 + RW_SHARED + act->id].is_open)
			rw_fail(w, "requester %u closes a window that is not open", node);
		n->windows[1 + RW_SHARED + act->id].is_open = false;
		break;
	case RIO_REQUESTER_HANG_UP:
		end = rw_data_end(w, node, act->iounit);
		if (end != RW_NONE)
			rw_end_fail(w, end, WEFT_R_PEER_GONE);
		break;
	}
}

static void requester_work(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];
	struct rio_requester_act act;
	struct rio_ended ended;

	rio_requester_expire(n->requester, w->world.now_ns);
	while (!n->is_stopping && rio_requester_act(n->requester, &act)) {
		if (!may_act(n))
			return;
		requester_act(w, node, &act);
	}
	while (!n->is_stopping && rio_requester_ended(n->requester, &ended))
		rw_ask_ended(w, node, &ended);
}

/* AMB-26: accepts only an I/O unit that the owner has announced. */
void rw_role_asked(struct rio_world *w, uint32_t end)
{
	struct rw_conn *c = rw_conn_of(w, end);
	struct rw_end *e = rw_end_of(w, end);
	uint8_t answer[RIO_DATA_BYTES];
	const struct rio_bytes question = { c->words, sizeof(c->words) };
	const struct rio_bytes said = { answer, sizeof(answer) };
	struct platform iounit;
	enum weft_reason r;
	uint32_t old;

	if (c->ends[0].state != RW_END_CONNECTING)
		return;
	r = rio_requester_asked(w->nodes[c->to].requester, &question, &iounit, answer);
	if (r == WEFT_OK) {
		/* The unit's new request means that its former connection is dead. */
		old = rw_data_end(w, c->to, iounit);
		if (old != RW_NONE)
			rw_end_fail(w, old, WEFT_R_PEER_GONE);
		e->state = RW_END_UP;
		e->peer = iounit;
	}
	rw_answer(w, end, r, &said);
}

/* ---- All of them ---------------------------------------------------------------------------- */

void rw_role_open(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	memset(n->windows, 0, sizeof(n->windows));
	rw_order_owner(w, node);
	if (rw_is_unit(w, node)) {
		unit_open(w, node);
		return;
	}
	n->lists = calloc(1, LISTS_BYTES);
	CHECK(n->lists);
	if (rw_is_owner(w, node)) {
		owner_open(w, node);
		return;
	}
	n->windows[0] = (struct rw_window){ .handle = rw_handle_new(w, node, RW_NONE),
					    .is_open = true,
					    .is_control = true,
					    .address = LISTS_AT,
					    .length = LISTS_BYTES,
					    .bytes = n->lists };
	requester_open(w, node);
}

void rw_role_close(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	if (n->owner)
		rio_owner_destroy(n->owner);
	if (n->requester) {
		rw_model_lost(w, node);
		rio_requester_destroy(n->requester);
	}
	if (n->unit) {
		rw_devices_stop(w, node);
		rio_iounit_destroy(n->unit);
	}
	free(n->lists);
	free(n->buffers);
	free(n->arena);
	n->owner = NULL;
	n->requester = NULL;
	n->unit = NULL;
	n->lists = n->buffers = n->arena = NULL;
}

enum weft_reason rw_role_came(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_node *n = &w->nodes[e->node];
	enum rio_role role = rio_handshake_peer(&e->handshake).role;

	if (rw_is_owner(w, e->node))
		return rio_owner_came(n->owner, &e->handshake, e->dial == RW_NONE ? 0 : e->dial + 1,
				      &e->number);
	CHECK(role == RIO_OWNER);
	n->meetings++;
	rw_order_met(w, end);
	if (rio_term_compare(&e->handshake.seen, &n->self.term) > 0)
		n->self.term = e->handshake.seen;
	rw_order_owner(w, e->node);
	if (rw_is_requester(w, e->node)) {
		n->owner_end = end;
		rw_conn_of(w, end)->meeting = n->meetings;
		rio_requester_owner_came(n->requester, &e->handshake);
		return WEFT_OK;
	}
	/* The former connection is dead. */
	if (n->owner_end != RW_NONE)
		rw_end_fail(w, n->owner_end, WEFT_R_RIO_TWICE);
	n->owner_end = end;
	rio_iounit_owner_came(n->unit, e->peer, &e->handshake.greet.session);
	return WEFT_OK;
}

enum weft_reason rw_role_message(struct rio_world *w, uint32_t end, const struct rw_input *input)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_node *n = &w->nodes[e->node];
	uint64_t now_ns = w->world.now_ns;

	if (n->owner) {
		rw_order_got(w, end, input->bytes, input->length);
		return rio_owner_take(n->owner, e->number, input->bytes, input->length, now_ns);
	}
	if (rw_conn_of(w, end)->is_data)
		return rio_requester_unit_take(n->requester, e->peer, input->bytes, input->length);
	if (end != n->owner_end)
		return WEFT_R_RIO_UNEXPECTED;
	/* Before the core takes the message, because the core may act on it at once. */
	rw_order_heard(w, end, input->bytes, input->length);
	if (n->unit)
		return rio_iounit_take(n->unit, input->bytes, input->length, now_ns);
	return rio_requester_take(n->requester, input->bytes, input->length, now_ns);
}

void rw_role_moved(struct rio_world *w, uint32_t node, const struct rw_input *input)
{
	struct rw_node *n = &w->nodes[node];

	if (n->owner)
		rio_owner_fetched(n->owner, input->id, input->reason);
	else
		unit_moved(w, node, input);
}

void rw_role_gone(struct rio_world *w, uint32_t end)
{
	struct rw_end *e = rw_end_of(w, end);
	struct rw_node *n = &w->nodes[e->node];

	if (n->owner) {
		rio_owner_left(n->owner, e->number, WEFT_OK);
	} else if (n->unit) {
		unit_gone(w, end);
	} else if (rw_conn_of(w, end)->is_data) {
		if (rw_data_end(w, e->node, e->peer) == RW_NONE)
			rio_requester_lost(n->requester, e->peer);
	} else if (end == n->owner_end) {
		n->owner_end = RW_NONE;
		rw_order_owner(w, e->node);
		rio_requester_owner_left(n->requester);
	}
}

void rw_role_work(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	if (n->owner)
		owner_work(w, n);
	else if (n->unit)
		unit_work(w, node);
	else
		requester_work(w, node);
}

uint64_t rw_role_due(struct rio_world *w, uint32_t node)
{
	const struct rw_node *n = &w->nodes[node];

	if (n->owner)
		return rio_owner_due(n->owner);
	return n->unit ? rio_iounit_due(n->unit) : rio_requester_due(n->requester);
}
