/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "fabric/engine.h"

/* ---- Flights -------------------------------------------------------------------------------- */

enum { SLAB_FLIGHTS = 256, X16 = 16 };

/* The one that is used next; it is not taken yet. NULL when memory is short. */
static struct engine_flight *flight_next(struct fabric *f)
{
	struct engine_flight *more;

	if (f->flights)
		return CONTAINER_OF(f->flights, struct engine_flight, timer);
	more = fabric_store_clear(&f->store, SLAB_FLIGHTS, sizeof(*more));
	for (uint32_t i = SLAB_FLIGHTS; more && i > 0; i--) {
		more[i - 1].timer.next = f->flights;
		f->flights = &more[i - 1].timer;
	}
	return more;
}

/* ---- Bad links ------------------------------------------------------------------------------ */

static struct fabric_node_port *port_of(struct fabric *f, const struct engine_end *e)
{
	return &f->nodes[e->node].agents.ports[e->port];
}

static void error_tell(struct fabric *f, struct engine_end *e, enum fabric_error what)
{
	fabric_node_error(&f->nodes[e->node].agents, e->port, what);
	engine_mark_node(f, e->node);
}

/* IBA 14.2.5.6, LocalPhyErrors: each damaged flit counts up, each good one down. */
void engine_line_damaged(struct fabric *f, uint32_t end, uint32_t flits, uint32_t damaged)
{
	struct engine_end *e = &f->ends[end];
	uint32_t good = flits - damaged;

	if (damaged < flits)
		e->silences = 0;
	e->local_errors += damaged;
	e->local_errors -= good < e->local_errors ? good : e->local_errors;
	if (e->local_errors <= port_of(f, e)->info.local_errors)
		return;
	e->local_errors = 0;
	error_tell(f, e, FABRIC_ERROR_INTEGRITY);
}

/* The other end has not answered in time: told once, until it is heard again. */
static void silence_count(struct fabric *f, struct engine_end *e)
{
	if (++e->silences == ENGINE_SILENCES_MAX)
		error_tell(f, e, FABRIC_ERROR_WATCHDOG);
}

/* ---- Deadlines ------------------------------------------------------------------------------ */

/* A link whose cable loses nothing need not be watched for losses. */
static uint64_t due_of(const struct engine_end *e)
{
	return e->is_lossy ? fabric_link_due(&e->link) : e->link.ack_at_ns;
}

/* It may go off too early: then it is set anew. */
static bool is_due_unset(const struct engine_end *e)
{
	uint64_t due_ns = due_of(e);

	return due_ns != UINT64_MAX && (!wheel_is_set(&e->due) || e->due.at_ns > due_ns);
}

static void due_set(struct fabric *f, struct engine_end *e)
{
	if (is_due_unset(e))
		wheel_set(f->wheel, &e->due, due_of(e));
}

void engine_line_stir(struct fabric *f, uint32_t end)
{
	const struct engine_end *e = &f->ends[end];

	if (e->is_trunks || !fabric_link_is_idle(&e->link) || e->link.ack_at_ns <= f->now_ns ||
	    is_due_unset(e))
		engine_mark_end(f, end);
}

/* ---- Arriving ------------------------------------------------------------------------------- */

/* Flits `begin` to `end` of a run, undamaged. */
static void stretch_take(struct fabric *f, struct engine_end *to, const struct fabric_run *r,
			 uint32_t begin, uint32_t end)
{
	struct fabric_run part = *r;

	if (begin == end)
		return;
	part.sequence = (uint16_t)(part.sequence + begin);
	part.index = (uint8_t)(part.index + begin);
	part.flits = (uint8_t)(end - begin);
	fabric_link_take(&to->link, f->now_ns, &part);
}

bool engine_line_damages(struct fabric *f, uint64_t one_in_bits)
{
	enum { FLIT_BITS = FLIT_BYTES_MAX * 8 };

	return one_in_bits > 0 && prng_next(&f->prng) % one_in_bits < FLIT_BITS;
}

/* No flit of zeros has the right CRC. */
void engine_line_spoil(struct fabric *f, uint32_t end)
{
	static const uint8_t zeros[FLIT_BYTES_MAX];

	fabric_link_recv(&f->ends[end].link, f->now_ns, zeros, sizeof(zeros));
}

static void lossy_take(struct fabric *f, uint32_t end, const struct fabric_run *r,
		       uint64_t one_in_bits)
{
	struct engine_end *to = &f->ends[end];
	uint32_t begin = 0, damaged = 0;

	for (uint32_t i = 0; i < r->flits; i++) {
		if (!engine_line_damages(f, one_in_bits))
			continue;
		stretch_take(f, to, r, begin, i);
		engine_line_spoil(f, end);
		begin = i + 1;
		damaged++;
	}
	stretch_take(f, to, r, begin, r->flits);
	engine_line_damaged(f, end, r->flits, damaged);
}

static void take(struct fabric *f, uint32_t end, const struct fabric_run *r, uint64_t tail_ns)
{
	struct engine_end *to = &f->ends[end];

	if (to->one_in_bits > 0)
		lossy_take(f, end, r, to->one_in_bits);
	else
		fabric_link_take(&to->link, f->now_ns, r);
	engine_line_stir(f, end);
	if (r->kind == FLIT_ACK)
		return;
	if (to->link.in[r->lane].head)
		to->link.in[r->lane].last->tail_ns = tail_ns > f->now_ns ? tail_ns : f->now_ns;
	engine_relay_arrived(f, end, r->lane);
}

void engine_line_arrive(struct fabric *f, struct engine_flight *own_flight)
{
	const struct wheel_timer *t = &own_flight->timer;

	if (f->ends[t->of].life == own_flight->life)
		take(f, t->of, &own_flight->run, t->at_ns + own_flight->tail_after_ns);
	own_flight->timer.next = f->flights;
	f->flights = &own_flight->timer;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

/* That it may go on when its head is there: no flit of it can be asked for anew (FAB-18). */
static bool is_cut_through(const struct fabric *f, uint32_t end, const struct fabric_run *r)
{
	return f->cfg.is_cut_through && r->kind == FLIT_FRAME && f->ends[end].one_in_bits == 0 &&
	       engine_is_switch(&f->nodes[f->ends[end ^ 1].node]) &&
	       r->index + r->flits == r->frame->flits;
}

static uint64_t ns_of(uint64_t x16)
{
	return (x16 + X16 - 1) / X16;
}

/*
 * The line is taken while the run's flits are on it, and until the last one of a frame that is
 * still coming in has come. The run is the flight's, which is taken; NULL: there is none.
 */
static void fly(struct fabric *f, uint32_t end, const struct fabric_run *r,
		struct engine_flight *flight)
{
	struct engine_end *from = &f->ends[end];
	uint64_t start_x16 = f->now_ns * X16, crossing_ns = f->cfg.cable_ns, at_ns, tail_ns;

	if (from->idle_x16 > start_x16)
		start_x16 = from->idle_x16;
	from->idle_x16 = start_x16 + r->flits * from->flit_x16;
	if (r->kind == FLIT_FRAME) {
		uint64_t tail_x16 = r->frame->tail_ns * X16 + from->flit_x16;

		if (tail_x16 > from->idle_x16)
			from->idle_x16 = tail_x16;
		if (!from->is_before_ca)
			crossing_ns += f->cfg.switch_ns;
	}
	if (!flight) {
		from->is_lossy = true; /* as if the cable had lost it */
		return;
	}
	f->flights = flight->timer.next;
	__builtin_prefetch(f->flights, 1);
	flight->life = from->life;
	tail_ns = ns_of(from->idle_x16) + crossing_ns;
	at_ns = tail_ns;
	if (is_cut_through(f, end, r))
		at_ns = ns_of(start_x16 + from->flit_x16) + crossing_ns;
	flight->tail_after_ns = (uint32_t)(tail_ns - at_ns);
	flight->timer.kind = r->kind == FLIT_ACK ? ENGINE_ACK : ENGINE_FLIGHT;
	flight->timer.of = end ^ 1;
	wheel_set(f->wheel, &flight->timer, at_ns);
}

static bool is_timed(const struct fabric *f, const struct engine_end *e)
{
	return e->flit_x16 > 0 || f->cfg.cable_ns > 0;
}

/* True: the line is not free yet. What is to be sent then is told by a timer. */
static bool is_busy(struct fabric *f, struct engine_end *e)
{
	if (e->idle_x16 <= f->now_ns * X16)
		return false;
	if (!wheel_is_set(&e->free) && fabric_link_has_more(&e->link))
		wheel_set(f->wheel, &e->free, ns_of(e->idle_x16));
	return true;
}

/* ---- Age ------------------------------------------------------------------------------------ */

uint64_t engine_life_ns(uint8_t code)
{
	enum { UNIT_NS = 4096, CODE_MAX = 19 };

	return code > CODE_MAX ? UINT64_MAX : (uint64_t)UNIT_NS << code;
}

/* When the frame that was given to a lane of a switch's port is too old; UINT64_MAX: never. */
static uint64_t old_at(const struct fabric *f, const struct engine_end *e, uint8_t lane)
{
	const struct engine_node *n = &f->nodes[e->node];

	if (!engine_is_switch(n) || !fabric_link_is_stalled(&e->link, lane))
		return UINT64_MAX;
	return deadline_after(e->link.out[lane].given_ns,
			      engine_life_ns(n->agents.ports[e->port].info.head_of_queue_life));
}

static void age_watch(struct fabric *f, struct engine_end *e)
{
	uint64_t at_ns = UINT64_MAX;

	if (wheel_is_set(&e->age))
		return;
	for (uint32_t left = e->link.sending_lanes; left; left &= left - 1) {
		uint64_t lane_ns = old_at(f, e, (uint8_t)__builtin_ctz(left));

		at_ns = lane_ns < at_ns ? lane_ns : at_ns;
	}
	if (at_ns != UINT64_MAX)
		wheel_set(f->wheel, &e->age, at_ns);
}

/* IBA 18.2.5.4: what waits too long at the head of its queue is discarded. */
void engine_line_age(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];

	for (uint32_t left = e->link.sending_lanes; left; left &= left - 1) {
		uint8_t lane = (uint8_t)__builtin_ctz(left);

		if (old_at(f, e, lane) <= f->now_ns && fabric_link_withdraw(&e->link, lane))
			engine_relay_freed(f, end, lane);
	}
	engine_mark_end(f, end);
}

void fabric_watch(struct fabric *f, void (*seen)(void *of, const struct fabric_seen *frame),
		  void *of)
{
	f->seen = seen;
	f->seen_of = of;
}

/* The first flits of a frame leave. */
static void show(struct fabric *f, uint32_t end, const struct fabric_run *r)
{
	uint8_t bytes[IBA_FRAME_MAX];
	struct fabric_seen seen = { .bytes = bytes, .length = r->frame->bytes };

	fabric_frame_copy_on(r->frame, r->lane, bytes);
	for (uint32_t i = 0; i < 2; i++) {
		if (f->ends[end ^ i].is_away)
			continue;
		seen.node = f->ends[end ^ i].node;
		seen.port = f->ends[end ^ i].port;
		f->seen(f->seen_of, &seen);
	}
}

bool engine_line_next(struct fabric *f, uint32_t end, struct fabric_run *r)
{
	struct engine_end *e = &f->ends[end];

	if (!e->link.is_up)
		return false;
	if (e->link.ack_at_ns <= f->now_ns)
		fabric_link_expire(&e->link, f->now_ns);
	if (is_busy(f, e) || !fabric_link_send(&e->link, f->now_ns, r))
		return false;
	if (f->seen && r->kind == FLIT_FRAME && r->index == 0)
		show(f, end, r);
	return true;
}

/* A trunk has no flights here: its line is taken as long as its rate says. */
static void trunk_take(struct fabric *f, struct engine_end *e, const struct fabric_run *r)
{
	uint64_t start_x16 = f->now_ns * X16;

	if (e->idle_x16 > start_x16)
		start_x16 = e->idle_x16;
	e->idle_x16 = start_x16 + r->flits * e->flit_x16;
}

void engine_line_sent(struct fabric *f, uint32_t end, const struct fabric_run *r)
{
	if (f->ends[end].is_trunks)
		trunk_take(f, &f->ends[end], r);
	if (r->kind == FLIT_FRAME)
		engine_relay_freed(f, end, r->lane);
}

void engine_line_rest(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];

	if (!e->link.is_up)
		return;
	due_set(f, e);
	if (e->link.is_stalled)
		age_watch(f, e);
}

void engine_line_send(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];
	struct engine_flight *flight;
	struct fabric_run run, *r;

	if (e->is_trunks) {
		f->cables[end / 2].has_more = true;
		return;
	}
	for (;;) {
		flight = is_timed(f, e) ? flight_next(f) : NULL;
		r = flight ? &flight->run : &run;
		if (!engine_line_next(f, end, r))
			break;
		if (is_timed(f, e))
			fly(f, end, r, flight);
		else
			take(f, end ^ 1, r, 0);
		engine_line_sent(f, end, r);
	}
	engine_line_rest(f, end);
}

void engine_line_expire(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];

	if (fabric_link_due(&e->link) <= f->now_ns && e->link.resend_at_ns <= f->now_ns)
		silence_count(f, e);
	if (due_of(e) <= f->now_ns)
		fabric_link_expire(&e->link, f->now_ns);
	engine_mark_end(f, end);
}

/* ---- Up and down ---------------------------------------------------------------------------- */

void engine_end_down(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];

	e->life++; /* what is under way does not arrive */
	fabric_link_down(&e->link);
	wheel_cancel(f->wheel, &e->free);
	wheel_cancel(f->wheel, &e->due);
	wheel_cancel(f->wheel, &e->age);
	fabric_node_part(&f->nodes[e->node].agents, e->port, f->now_ns);
	engine_mark_node(f, e->node);
}

void engine_end_up(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];

	fabric_link_up(&e->link);
	e->idle_x16 = 0;
	e->local_errors = e->silences = 0;
	e->is_lossy = e->one_in_bits > 0 || f->ends[end ^ 1].one_in_bits > 0;
	engine_mark_end(f, end);
	engine_mark_node(f, e->node);
}

/* Frames that wait for a link that is down are dropped. */
void engine_waiting_drop(struct fabric *f, uint32_t end)
{
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		engine_relay_freed(f, end, lane);
}

void engine_link_renew(struct fabric *f, uint32_t cable)
{
	uint32_t a = 2 * cable, b = a + 1;
	struct engine_end *ea = &f->ends[a], *eb = &f->ends[b];

	if (f->cables[cable].is_trunk) {
		engine_trunk_renew(f, cable);
		return;
	}
	if (ea->link.is_up) {
		engine_end_down(f, a);
		engine_end_down(f, b);
		engine_waiting_drop(f, a);
		engine_waiting_drop(f, b);
	}
	if (f->cables[cable].is_away || f->cables[cable].is_cut || !port_of(f, ea)->wants_link ||
	    !port_of(f, eb)->wants_link)
		return;
	if (!fabric_node_join(&f->nodes[ea->node].agents, ea->port, &f->nodes[eb->node].agents,
			      eb->port, f->now_ns))
		return;
	engine_end_up(f, a);
	engine_end_up(f, b);
}

void fabric_cut(struct fabric *f, uint32_t cable)
{
	CHECK(cable < f->cable_count);
	f->cables[cable].is_cut = true;
	engine_link_renew(f, cable);
}

void fabric_mend(struct fabric *f, uint32_t cable)
{
	CHECK(cable < f->cable_count);
	if (!f->cables[cable].is_cut)
		return;
	f->cables[cable].is_cut = false;
	engine_link_renew(f, cable);
}

bool fabric_is_cut(const struct fabric *f, uint32_t cable)
{
	CHECK(cable < f->cable_count);
	return f->cables[cable].is_cut;
}

void fabric_errors(struct fabric *f, uint32_t cable, uint64_t one_in_bits)
{
	CHECK(cable < f->cable_count);
	for (uint32_t end = 2 * cable; end < 2 * cable + 2; end++) {
		struct engine_end *e = &f->ends[end];

		e->one_in_bits = one_in_bits;
		e->is_lossy |= one_in_bits > 0;
		f->cables[cable].owes_link = f->cables[cable].is_joined;
		engine_mark_end(f, end);
	}
}

void fabric_degrade(struct fabric *f, uint32_t cable, uint32_t divisor)
{
	uint64_t full_x16 = f->cfg.flit_ns_x16;

	CHECK(cable < f->cable_count && divisor > 0);
	if (full_x16 == 0 && divisor > 1)
		full_x16 = f->cfg.slow_ns_x16;
	for (uint32_t end = 2 * cable; end < 2 * cable + 2; end++) {
		f->ends[end].flit_x16 = full_x16 * divisor;
		f->ends[end].is_lossy = true; /* runs may overtake slower ones before them */
	}
}
