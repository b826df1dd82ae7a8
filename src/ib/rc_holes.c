/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which answers are missing (IBA 9.7.5.1.3): of what the peer has carried out, those parts of Read
 * responses that did not arrive. What arrives behind them is placed where it belongs, so only they
 * are asked for again:
 *
 *	  psn_una                         psn_high        psn_sent
 *	     |                               |               |
 *	     [-hole-]===placed===[-hole-]====]---not heard---]
 */
#include "ib/port.h"

/* Behind all others. False: there is no room. */
static bool append(struct requester *q, uint32_t from, uint32_t to)
{
	if (q->hole_count > 0 && q->holes[q->hole_count - 1].to == from) {
		q->holes[q->hole_count - 1].to = to;
		return true;
	}
	if (q->hole_count == IB_HOLES_MAX)
		return false;
	q->holes[q->hole_count++] = (struct psn_range){ from, to };
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
		uint32_t from = s->psn, to = iba_psn_add(s->psn, s->count);

		if (!iba_psn_is_before(from, high))
			break;
		if (!iba_psn_is_before(q->psn_high, to) || !wqe_is_read(rc_req_wqe(c, s)))
			continue;
		if (iba_psn_is_before(from, q->psn_high))
			from = q->psn_high;
		if (iba_psn_is_before(high, to))
			to = high;
		if (!append(q, from, to)) {
			q->psn_high = from;
			return false;
		}
		q->psn_high = to;
	}
	q->psn_high = high;
	return true;
}

static struct psn_range *hole_of(struct requester *q, uint32_t psn)
{
	for (uint32_t i = 0; i < q->hole_count; i++) {
		struct psn_range *hole = &q->holes[i];

		if (iba_psn_is_within(psn, hole->from, iba_psn_distance(hole->from, hole->to)))
			return hole;
	}
	return NULL;
}

bool rc_holes_has(struct requester *q, uint32_t psn)
{
	const struct psn_range *hole = hole_of(q, psn);

	if (!hole)
		return false;
	return psn == hole->from || iba_psn_add(psn, 1) == hole->to || q->hole_count < IB_HOLES_MAX;
}

/* The answer to what was asked again came without its beginning: that is asked for once more. */
static void note_lost_again(struct requester *q, const struct psn_range *hole, uint32_t psn)
{
	if (hole == q->holes && psn != hole->from && iba_psn_is_before(psn, q->psn_again))
		q->psn_again = hole->from;
}

void rc_holes_fill(struct requester *q, uint32_t psn)
{
	struct psn_range *hole = hole_of(q, psn), *end = &q->holes[q->hole_count];
	uint32_t next = iba_psn_add(psn, 1);

	note_lost_again(q, hole, psn);
	if (psn == hole->from && next == hole->to) {
		for (q->hole_count--; hole + 1 < end; hole++)
			hole[0] = hole[1];
	} else if (psn == hole->from) {
		hole->from = next;
	} else if (next == hole->to) {
		hole->to = psn;
	} else {
		for (struct psn_range *at = end; at > hole; at--)
			at[0] = at[-1];
		q->hole_count++;
		hole[0].to = psn;
		hole[1].from = next;
	}
}
