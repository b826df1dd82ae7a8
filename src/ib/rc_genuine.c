/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which PSNs a genuine peer can be at. A packet with another PSN is forged, and is neither answered
 * nor obeyed: a forger that knows the queue pair but not the PSN must not make the genuine peer
 * send again what it sent, nor end the connection (RFC 5961 section 3.2: what ends a connection
 * must match exactly).
 */
#include "ib/rc_genuine.h"

#include "ib/conn.h"
#include "ib/rc_holes.h"
#include "ib/requester.h"
#include "ib/responder.h"
#include "wire/iba_psn.h"

/* More packets than that are not on their way at once; IBA 9.7.2 sets no limit. */
enum { AHEAD_MAX = 4096 };

/* What a far number brings about happens once in this time. */
static const uint64_t far_each_ns = 100 * 1000 * 1000;

static bool is_close(uint32_t from, uint32_t psn)
{
	return iba_psn_distance(from, psn) < AHEAD_MAX;
}

/*
 * A request of the peer that came too early. Those between may be one Read whose answer takes many
 * numbers, so a far one is possible if the peer may read, but not often.
 */
bool rc_genuine_early(struct responder *r, uint64_t now_ns, uint32_t psn)
{
	if (is_close(r->psn, psn))
		return true;
	if (r->res_max == 0 || now_ns < r->far_next_ns)
		return false;
	r->far_next_ns = now_ns + far_each_ns;
	return true;
}

/* Of a Read: an answer that is missing, or one that is not far behind the last that came. */
static bool is_awaited(struct requester *q, uint32_t psn)
{
	if (iba_psn_is_before(psn, q->psn_high))
		return rc_holes_has(q, psn);
	return iba_psn_is_before(psn, q->psn_reported) || is_close(q->psn_reported, psn);
}

/*
 * A NAK names a packet that the responder has before it: any of a Send or Write, the request of a
 * Read, or a response that it is at, for the first time or because it was asked for again.
 */
bool rc_genuine_nak(struct ib_conn *c, const struct iba_packet *p)
{
	struct requester *q = &c->req;

	/* Bound: the requests on their way. */
	for (uint32_t i = 0; i < q->count; i++) {
		const struct sent *s = rc_req_at(q, i);
		const struct send_wqe *wqe = rc_req_wqe(c, s);

		if (!iba_psn_is_within(p->psn, s->psn, s->count))
			continue;
		return !wqe || !wqe_is_read(wqe) || p->psn == s->psn || is_awaited(q, p->psn);
	}
	return true;
}
