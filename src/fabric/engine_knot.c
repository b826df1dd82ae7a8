/* SPDX-License-Identifier: BSD-2-Clause */
/* Deadlocks (FAB-S2): ports that wait for each other in a circle. */
#include <stdlib.h>
#include <string.h>

#include "fabric/engine.h"

/* Lanes of ends, numbered; of each whether no frame will ever leave by it. */
struct knot {
	const struct fabric *f;
	uint8_t *is_stuck;
};

static uint32_t number_of(uint32_t end, uint32_t lane)
{
	return end * FLIT_LANES + lane;
}

static const struct fabric_lane *room_of(const struct fabric *f, uint32_t number)
{
	return &f->ends[(number / FLIT_LANES) ^ 1].link.in[number % FLIT_LANES];
}

/* ---- What waits for what -------------------------------------------------------------------- */

static uint32_t queued_flits(const struct fabric_lane *in)
{
	uint32_t flits = 0;

	for (const struct fabric_frame *fr = in->head; fr; fr = fr->next)
		flits += fr->flits;
	return flits;
}

/*
 * The next lane by which the head of `in`, or a frame that has left it, is to leave, and which is
 * stuck; from `*port` on. ENGINE_NONE: no more. Adds up the flits that wait there.
 */
static uint32_t next_holder(const struct knot *k, const struct fabric_lane *in, uint32_t *port,
			    uint32_t *flits)
{
	const struct engine_node *n = &k->f->nodes[in->owner];
	const struct fabric_frame *head = in->is_waiting ? in->head : NULL;

	for (; *port <= n->agents.cfg.ports; ++*port) {
		uint32_t end = n->ports[*port].end;
		const struct fabric_link *l;

		if (end == ENGINE_NONE)
			continue;
		l = &k->f->ends[end].link;
		for (uint32_t left = l->sending_lanes; left; left &= left - 1) {
			uint32_t lane = (uint32_t)__builtin_ctz(left);

			if (l->out[lane].sending->lane != in)
				continue;
			*flits += l->out[lane].sending->flits;
			++*port;
			return number_of(end, lane);
		}
		if (head && head->pending >> *port & 1) {
			++*port;
			return number_of(end, head->out_lane);
		}
	}
	return ENGINE_NONE;
}

/* No frame that has room there will ever leave, as far as is known. */
static bool is_room_stuck(const struct knot *k, const struct fabric_lane *in)
{
	uint32_t port = 1, flits = queued_flits(in), holder, holders = 0;

	if (!engine_is_switch(&k->f->nodes[in->owner]))
		return false; /* the owner may take them */
	while ((holder = next_holder(k, in, &port, &flits)) != ENGINE_NONE) {
		if (!k->is_stuck[holder])
			return false;
		holders++;
	}
	return holders > 0 && flits >= in->blocks_used; /* none is on its way */
}

/* ---- The circle ----------------------------------------------------------------------------- */

static void stalls_find(struct knot *k)
{
	for (uint32_t end = 0; end < 2 * k->f->cable_count; end++) {
		const struct fabric_link *l = &k->f->ends[end].link;

		for (uint32_t left = l->sending_lanes; left; left &= left - 1) {
			uint8_t lane = (uint8_t)__builtin_ctz(left);

			k->is_stuck[number_of(end, lane)] = fabric_link_is_stalled(l, lane);
		}
	}
}

/* What waits for a lane that is not stuck is not, until nothing changes any more. */
static void stuck_settle(struct knot *k)
{
	uint32_t lanes = 2 * k->f->cable_count * FLIT_LANES;
	bool has_changed = true;

	while (has_changed) {
		has_changed = false;
		for (uint32_t i = 0; i < lanes; i++) {
			if (!k->is_stuck[i] || is_room_stuck(k, room_of(k->f, i)))
				continue;
			k->is_stuck[i] = false;
			has_changed = true;
		}
	}
}

/* The stuck lane for which the frames wait that take the room behind a lane. */
static uint32_t next_stuck(const struct knot *k, uint32_t number)
{
	uint32_t port = 1, flits = 0;

	return next_holder(k, room_of(k->f, number), &port, &flits);
}

/* After as many steps as there are lanes the walk is in a circle. */
static uint32_t circle_find(const struct knot *k, struct fabric_wait *waits, uint32_t max)
{
	uint32_t lanes = 2 * k->f->cable_count * FLIT_LANES, at = 0, first, count = 0;

	while (at < lanes && !k->is_stuck[at])
		at++;
	if (at == lanes)
		return 0;
	for (uint32_t i = 0; i < lanes; i++)
		at = next_stuck(k, at);
	first = at;
	do {
		const struct engine_end *e = &k->f->ends[at / FLIT_LANES],
					*to = &k->f->ends[at / FLIT_LANES ^ 1];

		if (count < max)
			waits[count] = (struct fabric_wait){ .node = e->node,
							     .port = e->port,
							     .to_node = to->node,
							     .to_port = to->port,
							     .lane = at % FLIT_LANES };
		count++;
		at = next_stuck(k, at);
	} while (at != first);
	return count;
}

uint32_t fabric_deadlock(const struct fabric *f, struct fabric_wait *waits, uint32_t max)
{
	struct knot k = { .f = f };
	uint32_t count = 0;

	k.is_stuck = calloc(2 * (size_t)f->cable_count + 1, FLIT_LANES);
	if (!k.is_stuck)
		return 0;
	stalls_find(&k);
	stuck_settle(&k);
	count = circle_find(&k, waits, max);
	free(k.is_stuck);
	return count;
}

/* ---- In words ------------------------------------------------------------------------------- */

struct words {
	char *at, *end;
};

static void say(struct words *w, const char *text)
{
	while (*text && w->at < w->end)
		*w->at++ = *text++;
}

static void say_number(struct words *w, uint32_t number)
{
	char digits[11];
	uint32_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	say(w, digits + at);
}

static void say_port(struct words *w, const struct fabric *f, uint32_t node, uint32_t port)
{
	char name[SM_DESCRIPTION_BYTES + 1] = { 0 };

	memcpy(name, f->nodes[node].agents.description, SM_DESCRIPTION_BYTES);
	say(w, name);
	say(w, " port ");
	say_number(w, port);
}

uint32_t fabric_deadlock_text(const struct fabric *f, char *text, size_t length)
{
	enum { SHOWN = 16 };
	struct words w = { text, text + length - 1 };
	struct fabric_wait waits[SHOWN];
	uint32_t count = fabric_deadlock(f, waits, SHOWN);

	*text = '\0';
	if (count == 0)
		return 0;
	say(&w, "deadlock: ");
	say_number(&w, count);
	say(&w, " ports wait for each other in a circle, and no frame in it can move:\n");
	for (uint32_t i = 0; i < count && i < SHOWN; i++) {
		say(&w, "  ");
		say_port(&w, f, waits[i].node, waits[i].port);
		say(&w, ", lane ");
		say_number(&w, waits[i].lane);
		say(&w, ": waits for room at ");
		say_port(&w, f, waits[i].to_node, waits[i].to_port);
		if (i + 1 < count && i + 1 < SHOWN) {
			say(&w, ", which the frames for ");
			say_port(&w, f, waits[i + 1].node, waits[i + 1].port);
		} else {
			say(&w, ", which the frames for ");
			say_port(&w, f, waits[0].node, waits[0].port);
		}
		say(&w, " fill\n");
	}
	if (count > SHOWN)
		say(&w, "  and so on\n");
	say(&w,
	    "It ends when lifetimes of switches discard some of them. Ways that cross one cable "
	    "of the circle need another lane, or no table may have a way that turns up again "
	    "(up/down).\n");
	*w.at = '\0';
	return count;
}
