/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/rio/rio_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
	US = 1000,
	MS = 1000 * US,
	EVENTS_MAX = 3 * RW_FLIGHTS_MAX,
	TRACE_EVENTS = 4096,
	TICK_NS = 5 * MS,
	HOLD_TICKS = 100,
	AUDIT_BYTES = 8192
};

static const uint64_t rest_ns = UINT64_C(30000) * MS;

void rw_fail(struct rio_world *w, const char *format, ...)
{
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	vsnprintf(w->failure, sizeof(w->failure), format, args);
	va_end(args);
}

void rw_trace(struct rio_world *w, enum rw_trace kind, uint32_t node, uint64_t a, uint64_t b)
{
	trace_add(&w->world.trace,
		  (struct trace_event){ .kind = (uint16_t)kind, .who = node, .a = a, .b = b });
}

void rw_trace_reason(struct rio_world *w, struct trace_event e, uint32_t reason)
{
	e.reason = (uint16_t)reason;
	trace_add(&w->world.trace, e);
}

/* ---- What the seed draws -------------------------------------------------------------------- */

/* Each kind of fault is on or off, so that strong faults do not mask what weak ones find. */
static uint32_t draw_weight(struct rio_world *w)
{
	return rw_draw(w, 2) == 0 ? 0 : 1 + rw_draw(w, 8);
}

static void faults_draw(struct rio_world *w)
{
	struct rw_limits *l = &w->limits;

	l->is_calm = rw_draw(w, 8) == 0;
	if (l->is_calm)
		return;
	l->fault_gap_ns = (uint64_t)MS << rw_draw(w, 9);
	for (uint32_t i = 0; i < 3; i++)
		l->stop_weight[i] = draw_weight(w);
	l->break_weight = draw_weight(w);
	l->hang_weight = draw_weight(w);
	l->clog_weight = draw_weight(w);
	l->hang_ns = (uint64_t)MS << rw_draw(w, 12);
	l->away_ns = (uint64_t)MS << rw_draw(w, 11);
	l->step_ppm = rw_draw(w, 2) == 0 ? 0 : rw_draw(w, 800000);
	l->expose_ppm = rw_draw(w, 4) == 0 ? rw_draw(w, 20000) : 0;
}

/* Timeouts short enough to expire; devices stuck far longer. */
static void hazards_limit(struct rio_world *w)
{
	struct rw_limits *l = &w->limits;

	if (w->hazards & RW_HAZARD_LATE) {
		l->timeout_ns = (uint64_t)(2 * MS) << rw_draw(w, 6);
		/* Requesters keep asking after the first timeouts. */
		l->gap_ns = l->timeout_ns >> rw_draw(w, 4);
		l->run_ns = l->asks * l->gap_ns;
		l->stick_weight = draw_weight(w);
		l->stuck_ns = l->timeout_ns << rw_draw(w, 5);
		l->stuck_ppm = rw_draw(w, 4) == 0 ? 0 : rw_draw(w, 200000);
		/* Enough slots for new requests beside stuck ones. */
		l->owner_requests = 4 + rw_draw(w, 12);
		l->commands = 8 + rw_draw(w, 24);
		l->pieces = 16 + rw_draw(w, 16);
		if (l->delay_ns > l->timeout_ns / 64)
			l->delay_ns = l->timeout_ns / 64;
	}
	if (w->hazards & RW_HAZARD_APART) {
		l->part_weight = draw_weight(w);
		l->part_ns = (uint64_t)MS << rw_draw(w, 12);
		l->alive_ns = (uint64_t)MS << rw_draw(w, 11);
	}
	if (w->hazards & RW_HAZARD_MIRROR) {
		l->sick_weight = draw_weight(w);
		l->sick_ns = (uint64_t)MS << rw_draw(w, 10);
	}
	if (w->hazards)
		l->again_ppm = 200000 + rw_draw(w, 600000);
}

static void limits_draw(struct rio_world *w)
{
	static const uint32_t mischief[] = { 0, 2000, 20000, 100000 };
	struct rw_limits *l = &w->limits;

	faults_draw(w);
	l->requesters = 1 + rw_draw(w, RW_REQUESTERS_MAX);
	l->units = 1 + rw_draw(w, RW_UNITS_MAX);
	l->asks = 5 + rw_draw(w, 40);
	l->delay_ns = (uint64_t)(5 * US) << rw_draw(w, 10);
	l->gap_ns = (uint64_t)(50 * US) << rw_draw(w, 11);
	l->run_ns = (uint64_t)(20 * MS) << rw_draw(w, 7);
	l->timeout_ns = (uint64_t)(20 * MS) << rw_draw(w, 10);
	l->grace_ns = (uint64_t)(10 * MS) << rw_draw(w, 8);
	if (l->is_calm || rw_draw(w, 3) == 0)
		l->timeout_ns = rw_patient_ns;
	if (l->is_calm)
		w->hazards = 0;
	/* No clogging with unlimited patience: requests would never end. */
	if (l->timeout_ns == rw_patient_ns)
		l->clog_weight = 0;
	l->mischief_ppm = mischief[rw_draw(w, 4)];
	l->hot_blocks = rw_draw(w, 3) == 0 ? 1 + rw_draw(w, 3) : 0;
	l->owner_requests = 1 + rw_draw(w, 8);
	l->owner_lists = 1 + rw_draw(w, RW_LISTS);
	l->owner_list_max = rw_draw(w, 2) == 0 ? RIO_REQUEST_LIST_MAX : 64 + rw_draw(w, 512);
	l->commands = 1 + rw_draw(w, 8);
	l->pieces = 1 + rw_draw(w, 8);
	l->piece_bytes = 4096 * (1 + rw_draw(w, 4));
	l->moves = 1 + rw_draw(w, 8);
	l->unit_list_max = rw_draw(w, 2) == 0 ? RIO_COMMAND_LIST_MAX : 64 + rw_draw(w, 512);
	hazards_limit(w);
}

static void identity_make(struct rio_world *w, uint32_t node, const uint8_t *seed)
{
	struct rio_identity *self = &w->nodes[node].self;

	self->platform = (struct platform){ 10 + node, 1 };
	self->role = rw_is_owner(w, node)	? RIO_OWNER
		     : rw_is_requester(w, node) ? RIO_REQUESTER
						: RIO_IOUNIT;
	rio_identity_make(self, seed);
}

/* The second owner has the identity of the first. */
static void node_draw(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];
	uint8_t seed[RIO_SEED_BYTES];

	for (uint32_t i = 0; i < sizeof(seed); i++)
		seed[i] = (uint8_t)rw_draw(w, 256);
	if (node != 0 && rw_is_owner(w, node))
		n->self = w->nodes[0].self;
	else
		identity_make(w, node, seed);
	n->turn.event = (struct world_event){ .node = node, .kind = RW_EV_TURN };
	list_init(&n->input);
	w->known[node].platform = n->self.platform;
	w->known[node].role = n->self.role;
	memcpy(w->known[node].key, n->self.key, sizeof(n->self.key));
}

static void schedule_fault(struct rio_world *w)
{
	const struct rw_limits *l = &w->limits;

	if (!l->is_calm)
		world_schedule(&w->world, rw_draw_ns(w, 2 * l->fault_gap_ns),
			       (struct world_event){ .kind = RW_EV_FAULT });
}

static void begin(struct rio_world *w)
{
	for (uint32_t i = 0; i < w->node_count; i++) {
		rw_node_start(w, i);
		if (!rw_is_requester(w, i))
			continue;
		w->nodes[i].asks_left = w->limits.asks;
		world_schedule(&w->world, rw_draw_ns(w, w->limits.gap_ns),
			       (struct world_event){ .node = i, .kind = RW_EV_ASK });
	}
	world_schedule(&w->world, w->limits.run_ns, (struct world_event){ .kind = RW_EV_PHASE });
	schedule_fault(w);
}

/* Uses its own generator, so that a seed gives the same world with and without hazards. */
static uint32_t hazards_draw(uint64_t seed, uint32_t hazards)
{
	struct prng prng = { .state = ~seed };

	return hazards & (uint32_t)prng_next(&prng);
}

int rio_world_open(struct rio_world *w, uint64_t seed, uint32_t hazards)
{
	const struct world_options o = {
		.seed = seed,
		.events_max = EVENTS_MAX,
		.trace_max = TRACE_EVENTS,
	};

	memset(w, 0, sizeof(*w));
	if (world_init(&w->world, &o) < 0)
		return -1;
	w->hazards = hazards_draw(seed, hazards);
	limits_draw(w);
	w->owner_count = w->hazards & RW_HAZARD_OWNERS ? RW_OWNERS_MAX : 1;
	w->node_count = w->owner_count + w->limits.requesters + w->limits.units;
	w->policy = calloc(1, sizeof(*w->policy));
	w->transactions = calloc(RW_TRANSACTIONS_MAX, sizeof(*w->transactions));
	if (!w->policy || !w->transactions || rw_net_open(w) < 0)
		return -1;
	for (uint32_t i = 0; i < w->node_count; i++)
		node_draw(w, i);
	if (rw_devices_draw(w) < 0 || rw_values_open(w) < 0)
		return -1;
	rw_policy_draw(w);
	begin(w);
	return 0;
}

/* ---- Faults --------------------------------------------------------------------------------- */

static void stop_one(struct rio_world *w, uint32_t first, uint32_t count)
{
	uint32_t node = first + rw_draw(w, count);

	if (w->nodes[node].is_up)
		rw_node_stop(w, node);
}

/* False: no such connection. Busy: with data in flight. */
static bool break_one(struct rio_world *w, bool is_busy)
{
	uint32_t from = rw_draw(w, 2 * RW_CONNS_MAX);

	for (uint32_t i = 0; i < 2 * RW_CONNS_MAX; i++) {
		uint32_t end = (from + i) % (2 * RW_CONNS_MAX);
		const struct rw_end *e = rw_end_of(w, end);

		if (e->state == RW_END_GONE || e->state == RW_END_DYING)
			continue;
		if (is_busy && (!rw_conn_of(w, end)->is_data || list_is_empty(&e->flights)))
			continue;
		rw_trace(w, RW_TRACE_BROKEN, e->node, rw_end_of(w, end ^ 1)->node, 0);
		rw_end_fail(w, end, WEFT_R_PEER_GONE);
		return true;
	}
	return false;
}

/* Hangs an I/O unit or the owner. */
static void hang_one(struct rio_world *w)
{
	uint32_t nth = rw_draw(w, 1 + w->limits.units);
	uint32_t node = nth == 0 ? 0 : w->limits.requesters + nth;
	struct rw_node *n = &w->nodes[node];

	if (!n->is_up)
		return;
	if (n->hung_until_ns <= w->world.now_ns)
		n->hung_since_ns = w->world.now_ns;
	n->hung_until_ns = w->world.now_ns + rw_draw_ns(w, w->limits.hang_ns);
	if (n->hung_until_ns - n->hung_since_ns > w->longest_hang_ns)
		w->longest_hang_ns = n->hung_until_ns - n->hung_since_ns;
	rw_trace(w, RW_TRACE_HUNG, node, n->hung_until_ns, 0);
	rw_node_wake(w, node);
}

static void fault(struct rio_world *w)
{
	const struct rw_limits *l = &w->limits;
	const uint32_t weights[] = { l->stop_weight[0], l->stop_weight[1], l->stop_weight[2],
				     l->break_weight,	l->hang_weight,	   l->clog_weight,
				     l->stick_weight,	l->part_weight,	   l->sick_weight };
	uint32_t sum = 0, pick, kind = 0;

	if (w->phase != RW_RUN)
		return;
	for (uint32_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
		sum += weights[i];
	if (sum == 0)
		return;
	for (pick = rw_draw(w, sum); pick >= weights[kind]; kind++)
		pick -= weights[kind];
	if (kind == 0)
		stop_one(w, rw_draw(w, w->owner_count) * (w->node_count - 1), 1);
	else if (kind == 1)
		stop_one(w, 1, l->requesters);
	else if (kind == 2)
		stop_one(w, 1 + l->requesters, l->units);
	else if (kind == 3)
		(void)(break_one(w, rw_draw(w, 2) == 0) || break_one(w, false));
	else if (kind == 4)
		hang_one(w);
	else if (kind == 5)
		rw_clog_one(w);
	else if (kind == 6)
		rw_devices_stick(w);
	else if (kind == 7)
		rw_part_two(w);
	else
		rw_devices_sicken(w);
	schedule_fault(w);
}

/* ---- The end -------------------------------------------------------------------------------- */

static bool is_to_be_offered(const struct rio_world *w, uint32_t node, uint32_t device)
{
	for (uint32_t i = 0; i < w->rule_count; i++) {
		const struct rw_rule *r = &w->rules[i];

		if ((r->requester == RW_NONE || r->requester == node) &&
		    (r->device == RW_NONE || r->device == device))
			return true;
	}
	return false;
}

static const char *requester_unrest(const struct rio_world *w, uint32_t node)
{
	const struct rio_requester *q = w->nodes[node].requester;

	if (!rio_requester_has_owner(q))
		return "a requester has no owner";
	if (!rio_requester_is_idle(q))
		return "a requester is not idle";
	for (uint32_t i = 0; i < w->device_count; i++) {
		if (rw_has_offer(w, node, i) != is_to_be_offered(w, node, i))
			return "a requester is not offered what it may use, or more";
	}
	return NULL;
}

static const char *owner_unrest(const struct rio_owner *o)
{
	uint32_t number = rio_owner_next(o, 0);

	for (; number != UINT32_MAX; number = rio_owner_next(o, number + 1)) {
		struct rio_owner_peer p;

		rio_owner_query(o, number, &p);
		if (p.now > 0)
			return "the owner has something under way";
	}
	return NULL;
}

/* Why the world is not at rest; NULL: it is. */
static const char *unrest(struct rio_world *w)
{
	const char *why = NULL;

	for (uint32_t i = 0; i < w->node_count && !why; i++) {
		if (i != 0 && rw_is_owner(w, i))
			continue; /* the second owner stays down */
		if (!w->nodes[i].is_up)
			why = "a node is not there";
		else if (w->nodes[i].owner)
			why = owner_unrest(w->nodes[i].owner);
		else if (w->nodes[i].owner_end == RW_NONE)
			why = "a node has no owner";
		else if (w->nodes[i].requester)
			why = requester_unrest(w, i);
		else if (!rio_iounit_is_idle(w->nodes[i].unit))
			why = "an I/O unit is not idle";
	}
	for (uint32_t i = 0; i < RW_CONNS_MAX && !why; i++) {
		const struct rw_end *e = w->conns[i].ends;

		if (e[0].state != e[1].state ||
		    (e[0].state != RW_END_GONE && e[0].state != RW_END_UP))
			why = "a connection is neither there nor gone";
	}
	for (uint32_t i = 0; i < w->ask_count && !why; i++) {
		if (!w->asks[i].is_over)
			why = "an ask has not ended";
	}
	return why;
}

/* Ends the second owner, and restarts the first with a higher term. */
static void owners_end(struct rio_world *w)
{
	if (w->owner_count == 1)
		return;
	if (w->nodes[w->node_count - 1].is_up)
		rw_node_stop(w, w->node_count - 1);
	if (w->nodes[0].is_up) {
		rw_node_stop(w, 0);
		rw_node_start(w, 0);
	}
}

static void phase_next(struct rio_world *w)
{
	if (w->phase == RW_OVER) {
		w->is_over = true;
		return;
	}
	w->phase++;
	w->phase_ns = w->world.now_ns;
	w->audit_device = 0;
	w->audit_at = 0;
	w->audit_ask = RW_NONE;
	rw_trace(w, RW_TRACE_PHASE, 0, w->phase, 0);
	if (w->phase == RW_REST) {
		owners_end(w);
		rw_devices_heal(w);
		rw_clogs_end(w);
		memset(w->apart_until_ns, 0, sizeof(w->apart_until_ns));
	}
	for (uint32_t i = 0; i < w->node_count; i++) {
		bool is_cut = w->phase == RW_CUT || w->phase == RW_CUT_AGAIN;

		w->nodes[i].acts_left = 0;
		if (!rw_is_unit(w, i) || !is_cut)
			continue;
		rw_node_stop(w, i);
		rw_node_start(w, i);
	}
}

/* Everything must come to rest, and stay at rest for a while. */
static void rest(struct rio_world *w)
{
	uint64_t most_ns = w->limits.timeout_ns + w->limits.grace_ns + w->limits.hang_ns +
			   w->limits.away_ns + w->limits.alive_ns + 2 * w->limits.stuck_ns +
			   rest_ns;
	const char *why = unrest(w);

	if (why && w->world.now_ns - w->phase_ns > most_ns)
		rw_fail(w, "in phase %u the world does not come to rest: %s", w->phase, why);
	w->audit_at = why ? 0 : w->audit_at + 1;
	if (w->audit_at == HOLD_TICKS)
		phase_next(w);
}

/* Asks for the next piece, once the previous one has ended. */
static void audit(struct rio_world *w)
{
	const struct rw_device *d = &w->devices[w->audit_device];
	struct sgl_transaction is = { .operation = w->phase == RW_FILL ? SGL_WRITE : SGL_READ,
				      .offset = w->audit_at,
				      .length = AUDIT_BYTES };

	if (w->audit_ask != RW_NONE && !w->asks[w->audit_ask].is_over)
		return;
	if (w->audit_device == w->device_count) {
		phase_next(w);
		return;
	}
	is.is_fua = w->phase == RW_FILL && rw_draw(w, 2) == 0;
	/*
	 * The owner may still hold earlier requests: it hears of their end later than the
	 * requester.
	 */
	if (!rw_ask_audit(w, &is, w->audit_device)) {
		w->audit_ask = RW_NONE;
		if (w->world.now_ns - w->phase_ns > rw_patient_ns)
			rw_fail(w, "the final audit cannot be made");
		return;
	}
	w->audit_at += AUDIT_BYTES;
	if (w->audit_at == d->size_bytes) {
		w->audit_device++;
		w->audit_at = 0;
	}
}

static void phase_tick(struct rio_world *w)
{
	switch (w->phase) {
	case RW_RUN:
		phase_next(w);
		break;
	case RW_REST:
	case RW_CUT:
	case RW_CUT_AGAIN:
	case RW_OVER:
		rest(w);
		break;
	default:
		audit(w);
		break;
	}
	world_schedule(&w->world, TICK_NS, (struct world_event){ .kind = RW_EV_PHASE });
}

/* ---- The loop ------------------------------------------------------------------------------- */

bool rio_world_step(struct rio_world *w)
{
	struct world_event e;

	if (w->is_over || w->failure[0] || !world_next(&w->world, &e))
		return false;
	if (rw_net_event(w, &e))
		return !w->failure[0];
	switch ((enum rw_event)e.kind) {
	case RW_EV_TURN:
		rw_node_turn(w, e.node);
		break;
	case RW_EV_ASK:
		rw_ask_act(w, e.node);
		break;
	case RW_EV_FAULT:
		fault(w);
		break;
	case RW_EV_START:
		rw_node_start(w, e.node);
		break;
	case RW_EV_PHASE:
		phase_tick(w);
		break;
	default:
		CHECK(false);
	}
	return !w->failure[0] && !w->is_over;
}

const char *rio_world_failure(const struct rio_world *w)
{
	return w->failure;
}

void rio_world_close(struct rio_world *w)
{
	w->phase = RW_OVER;
	for (uint32_t i = 0; i < w->node_count; i++) {
		if (w->nodes[i].is_up)
			rw_node_stop(w, i);
	}
	for (uint32_t i = 0; i < w->transaction_count; i++)
		free(w->transactions[i].sges);
	free(w->transactions);
	free(w->policy);
	rw_values_close(w);
	rw_devices_close(w);
	rw_net_close(w);
	world_fini(&w->world);
}
