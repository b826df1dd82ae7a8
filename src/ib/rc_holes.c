/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which answers are missing (IBA 9.7.5.1.3): of what the peer has carried out, those parts of Read
 * responses that did not arrive. What arrives behind them is placed where it belongs, so only they
 * are asked for again:
 *
 *	  psn_una                         psn_high        psn_sent
 *	     |                               |               |
 *	     [-hole-]===placed===[-hole-]====]---not heard---]
 *
 * A hole lies within one Read. Of each Read the first hole is asked for, and the next one when that
 * is filled: Linux' rxe forgets what is before the part that it was asked for last. Requests are
 * answered in the order in which they arrive, so an answer that overtakes one that was asked for
 * earlier shows that the latter was lost (as RFC 8985 section 6.2 has it, by order in place of
 * time).
 */
#include "ib/rc_holes.h"

#include "ib/conn.h"
#include "ib/port.h"
#include "ib/requester.h"
#include "wire/iba_psn.h"

/* ---- Lists of holes ------------------------------------------------------------------------- */

static struct ib_conn *conn_of(struct requester *q)
{
	return CONTAINER_OF(q, struct ib_conn, req);
}

static struct hole *borrow(struct ib_port *port)
{
	struct hole_list *l = port->hole_lists_free;

	if (l)
		port->hole_lists_free = l->next;
	else if (port->hole_lists_fresh < IB_HOLE_LISTS)
		l = &port->hole_lists[port->hole_lists_fresh++];
	return l ? l->holes : NULL;
}

static bool has_room(struct requester *q)
{
	if (!q->holes && q->hole_max > 0)
		q->holes = borrow(conn_of(q)->port);
	return q->holes && q->hole_count < q->hole_max;
}

void rc_holes_return(struct requester *q)
{
	struct ib_conn *c = conn_of(q);
	struct hole_list *l;

	if (!q->holes || c->is_ee)
		return;
	l = CONTAINER_OF(q->holes, struct hole_list, holes[0]);
	l->next = c->port->hole_lists_free;
	c->port->hole_lists_free = l;
	q->holes = NULL;
}

/* ---- Holes ---------------------------------------------------------------------------------- */

/* Behind all others. False: there is no room. */
static bool append(struct requester *q, const struct hole *hole)
{
	struct hole *last = q->hole_count > 0 ? &q->holes[q->hole_count - 1] : NULL;

	if (last && last->to == hole->from && last->read == hole->read &&
	    last->asked == hole->asked) {
		last->to = hole->to;
	} else {
		if (!has_room(q))
			return false;
		q->holes[q->hole_count++] = *hole;
	}
	q->missing += iba_psn_distance(hole->from, hole->to);
	/* What will have been asked for twice tells no round trip. */
	if (iba_psn_is_within(q->timed_psn, hole->from, iba_psn_distance(hole->from, hole->to)))
		q->is_timed = false;
	return true;
}

bool rc_holes_extend(struct ib_conn *c, uint32_t high)
{
	struct requester *q = &c->req;

	if (!q->qp || q->qp->sq.reads == 0) {
		q->psn_high = high;
		return true;
	}
	/* Bound: the requests on their way. */
	for (uint32_t n = 0; n < q->count; n++) {
		const struct sent *s = rc_req_at(q, n);
		struct hole hole = {
			.from = s->psn,
			.to = iba_psn_add(s->psn, s->count),
			.read = s->psn,
		};

		if (!iba_psn_is_before(s->psn, high))
			break;
		if (!iba_psn_is_before(q->psn_high, hole.to) || !wqe_is_read(rc_req_wqe(c, s)))
			continue;
		if (iba_psn_is_before(hole.from, q->psn_high))
			hole.from = q->psn_high;
		if (iba_psn_is_before(high, hole.to))
			hole.to = high;
		if (!append(q, &hole)) {
			q->psn_high = hole.from;
			return false;
		}
		q->psn_high = hole.to;
	}
	q->psn_high = high;
	return true;
}

static struct hole *hole_of(struct requester *q, uint32_t psn)
{
	for (uint32_t i = 0; i < q->hole_count; i++) {
		struct hole *hole = &q->holes[i];

		if (iba_psn_is_within(psn, hole->from, iba_psn_distance(hole->from, hole->to)))
			return hole;
	}
	return NULL;
}

bool rc_holes_has(struct requester *q, uint32_t psn)
{
	const struct hole *hole = hole_of(q, psn);

	if (!hole)
		return false;
	return psn == hole->from || iba_psn_add(psn, 1) == hole->to || q->hole_count < q->hole_max;
}

/* ---- What was asked for, and was lost again ------------------------------------------------- */

/* What was asked for before this request, or before any packet of this number, had its turn. */
static void overtake(struct requester *q, uint32_t asked, const uint32_t *psn)
{
	for (uint32_t i = 0; i < q->hole_count; i++) {
		struct hole *hole = &q->holes[i];

		if (hole->asked == 0)
			continue;
		if (psn ? !iba_psn_is_before(*psn, hole->later)
			: (int32_t)(hole->asked - asked) < 0)
			hole->asked = 0;
	}
}

void rc_holes_passed(struct requester *q, uint32_t psn)
{
	overtake(q, 0, &psn);
}

void rc_holes_fill(struct requester *q, uint32_t psn)
{
	struct hole *hole = hole_of(q, psn), *end = &q->holes[q->hole_count];
	uint32_t next = iba_psn_add(psn, 1);

	if (hole->asked != 0)
		overtake(q, hole->asked, NULL);
	q->missing--;
	if (psn == hole->from && next == hole->to) {
		for (q->hole_count--; hole + 1 < end; hole++)
			hole[0] = hole[1];
	} else if (psn == hole->from) {
		hole->from = next;
	} else {
		/* The answer came without its beginning: that is asked for once more. */
		if (next != hole->to) {
			for (struct hole *at = end; at > hole; at--)
				at[0] = at[-1];
			q->hole_count++;
			hole[1].from = next;
		}
		hole->to = psn;
		hole->asked = 0;
	}
	if (q->hole_count == 0)
		rc_holes_return(q);
}

/* ---- What is to be asked for ---------------------------------------------------------------- */

struct hole *rc_holes_due(const struct requester *q)
{
	for (uint32_t i = 0; i < q->hole_count; i++) {
		struct hole *hole = &q->holes[i];

		if (hole->asked == 0 && (i == 0 || hole[-1].read != hole->read))
			return hole;
	}
	return NULL;
}

void rc_holes_asked(struct requester *q, struct hole *hole)
{
	if (++q->asks == 0)
		q->asks = 1;
	hole->asked = q->asks;
	hole->later = q->psn_send;
}

void rc_holes_ask_first(struct requester *q)
{
	q->holes[0].asked = 0;
}
