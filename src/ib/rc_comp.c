/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer of RC (IBA 9.7.5 and 9.9.2): what the peer says to our requests. */
#include "ib/requester.h"

#include <string.h>

#include "ib/conn.h"
#include "ib/message.h"
#include "ib/packet.h"
#include "ib/port.h"
#include "ib/rc.h"
#include "ib/rc_genuine.h"
#include "ib/rc_holes.h"
#include "ib/rc_retry.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

static const struct outcome success = { .status = WEFT_SUCCESS };

static bool is_read(const struct ib_conn *c)
{
	return c->req.count > 0 && c->req.qp && wqe_is_read(rc_req_wqe(c, rc_req_at(&c->req, 0)));
}

/* The oldest request is done with up to there. */
static void una_move(struct ib_conn *c, uint32_t psn)
{
	struct requester *q = &c->req;

	if (q->at > 0 && is_read(c))
		q->read_psns -= iba_psn_distance(q->psn_una, psn);
	q->psn_una = psn;
	if (iba_psn_is_before(q->psn_send, psn))
		q->psn_send = psn;
}

/* AMB-04: the answer is a message to its sinks, and the one touch of theirs. */
void rc_read_end(struct ib_conn *c, struct send_wqe *wqe)
{
	struct outcome out = { .status = WEFT_SUCCESS, .byte_count = wqe->length };

	for (uint32_t i = 0; i < wqe->sge_count && wqe->opcode == WEFT_OP_READ; i++) {
		if (wqe_segments(wqe)[i].length > 0)
			mem_touch_message(&c->port->adapter->mem, wqe_segments(wqe)[i].tag);
	}
	count_message_in(c->port, c->req.qp, wqe->opcode == WEFT_OP_READ ? wqe->length : 0);
	send_queue_end(c->req.qp, wqe, &out);
}

static void oldest_end(struct ib_conn *c, const struct sent *s)
{
	struct send_wqe *wqe = rc_req_wqe(c, s);

	c->req.read_tag = is_read(c) ? wqe->remote_tag : 0;
	if (is_read(c)) {
		una_move(c, iba_psn_add(s->psn, s->count));
		rc_read_end(c, wqe);
	} else {
		if (!c->is_ee && !request_is_inline(wqe))
			port_kept(c->port, &c->req, -(int64_t)wqe->length);
		if (c->req.qp)
			send_queue_end(c->req.qp, wqe, &success);
	}
	rc_req_pop(c);
}

/*
 * IBA 9.7.5.1.2: what the peer has carried out ends, in order. What has an answer of its own ends
 * only by that: those that are missing are asked for again.
 */
static void advance(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;
	uint32_t una = q->psn_una, to;

	if (iba_psn_is_before(q->psn_high, q->psn_reported)) /* perhaps there is room now */
		(void)rc_holes_extend(c, q->psn_reported);
	to = q->hole_count > 0 ? q->holes[0].from : q->psn_high;
	/* Bound: the requests on their way. */
	while (q->count > 0) {
		const struct sent *s = rc_req_at(q, 0);

		if (iba_psn_is_before(to, iba_psn_add(s->psn, s->count))) {
			if (iba_psn_is_before(q->psn_una, to))
				una_move(c, to);
			break;
		}
		oldest_end(c, s);
	}
	if (q->psn_una != una)
		rc_retry_progress(c, now_ns);
	if (q->count > 0 && rc_holes_due(q))
		rc_retry_ask_again(c, now_ns);
}

static void tell(struct requester *q, uint32_t psn_end)
{
	if (iba_psn_is_before(q->psn_reported, psn_end))
		q->psn_reported = psn_end;
}

/* The peer has carried out all before this number. False: too much is missing to note it all. */
static bool carried_out(struct ib_conn *c, uint64_t now_ns, uint32_t psn_end)
{
	struct requester *q = &c->req;

	if (!iba_psn_is_before(q->psn_high, psn_end))
		return true;
	tell(q, psn_end);
	advance(c, now_ns);
	return !iba_psn_is_before(q->psn_high, psn_end);
}

/* IBA 9.7.7.2: how many more messages the peer has receives for. */
static void take_credits(struct ib_conn *c, const struct iba_packet *p)
{
	struct requester *q = &c->req;
	uint32_t credits = iba_credits(p->syndrome & IBA_CODE_MASK), limit;

	/* RD has none: receives are not those of the context. */
	q->is_limited = credits != UINT32_MAX && !c->is_ee;
	if (!q->is_limited) {
		if (requester_is_asking(q)) /* it will not tell */
			rc_retry_wait_end(c);
		return;
	}
	limit = iba_psn_add(p->msn, credits);
	if (iba_psn_is_before(q->limit_ssn, limit))
		q->limit_ssn = limit;
	/* A receive has come: no need to wait for the end of the time. */
	if (requester_is_waiting(q) && iba_psn_diff(rc_req_ssn(q, 0), limit) <= 0)
		rc_retry_wait_end(c);
	rc_go_on(c);
}

/* ---- ACK and NAK ---------------------------------------------------------------------------- */

static void take_ack(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	struct requester *q = &c->req;
	bool is_of_probe = q->probed == PROBED_PACKET && !iba_psn_is_before(p->psn, q->probe_psn);
	bool is_alone = p->psn == q->probe_psn, was_lost = q->is_repairing;
	bool is_ahead = q->is_missed && rc_retry_is_ahead(q, p->psn);

	(void)carried_out(c, now_ns, iba_psn_add(p->psn, 1));
	take_credits(c, p);
	if (is_of_probe)
		rc_retry_probed(c, now_ns, is_alone, was_lost);
	else if (is_ahead)
		rc_retry_kept(c, now_ns);
}

/* Whether the number is of the oldest request; if not, an answer before it was lost. */
static bool is_of_oldest(const struct ib_conn *c, uint32_t psn)
{
	const struct sent *s = rc_req_at(&c->req, 0);

	return iba_psn_is_within(psn, s->psn, s->count);
}

static enum weft_reason fail_oldest(struct ib_conn *c, enum iba_nak nak)
{
	switch (nak) {
	case IBA_NAK_INVALID:
		rc_req_fail(c, WEFT_ERR_REMOTE_REQUEST, WEFT_R_IB_INVALID);
		return WEFT_OK;
	case IBA_NAK_ACCESS:
		rc_req_fail(c, WEFT_ERR_REMOTE_ACCESS, WEFT_R_PEER_RIGHTS);
		return WEFT_OK;
	case IBA_NAK_OPERATION:
		rc_req_fail(c, WEFT_ERR_REMOTE_OPERATION, WEFT_R_PEER_RECEIVE);
		return WEFT_OK;
	case IBA_NAK_INVALID_RD:
		if (!c->is_ee)
			return WEFT_R_IB_OPCODE;
		rc_req_fail(c, WEFT_ERR_PEER_GONE, WEFT_R_PEER_UNKNOWN);
		return WEFT_OK;
	default:
		return WEFT_R_IB_OPCODE;
	}
}

/* IBA 9.7.5.2: all before it was carried out; what stands there was not. */
static enum weft_reason take_nak(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	enum iba_nak nak = (enum iba_nak)(p->syndrome & IBA_CODE_MASK);
	bool is_rnr = iba_syndrome(p->syndrome) == IBA_SYNDROME_RNR;

	c->port->counts.naks_in += !is_rnr;
	c->port->counts.rnrs_in += is_rnr;
	tally_of(c->port, c->req.qp)->naks_in += !is_rnr;
	tally_of(c->port, c->req.qp)->rnrs_in += is_rnr;
	note(c, c->req.qp, TRACE_NAK_TAKEN, p->psn, p->syndrome);
	(void)carried_out(c, now_ns, p->psn);
	if (c->req.count == 0) /* one has failed, which its queue pair has yet to learn */
		return WEFT_R_IB_PSN;
	if (!is_rnr && nak != IBA_NAK_SEQUENCE) {
		/* Sent again it would be refused again. What is missing before it is asked for. */
		return is_of_oldest(c, p->psn) ? fail_oldest(c, nak) : WEFT_OK;
	}
	if (!is_rnr || !is_of_oldest(c, p->psn)) {
		rc_retry_lost(c, now_ns, p->psn);
		return WEFT_OK;
	}
	if (is_read(c) || !c->req.qp) /* which need no receive */
		return WEFT_R_IB_PSN;
	rc_retry_not_ready(c, now_ns, p->syndrome & IBA_CODE_MASK);
	return WEFT_OK;
}

static enum weft_reason take_aeth(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	switch (iba_syndrome(p->syndrome)) {
	case IBA_SYNDROME_ACK:
		take_ack(c, now_ns, p);
		return WEFT_OK;
	case IBA_SYNDROME_RNR:
	case IBA_SYNDROME_NAK:
		return take_nak(c, now_ns, p);
	default:
		return WEFT_R_IB_OPCODE;
	}
}

/* ---- Answers -------------------------------------------------------------------------------- */

/* The sink is gone: the request fails, and with it all. */
static void sink_gone(struct ib_conn *c, enum weft_reason r)
{
	rc_req_fail(c, WEFT_ERR_LOCAL_ACCESS, mem_gone_reason(r, WEFT_R_SINK_GONE));
}

/*
 * IBA 9.7.5.1.4: every packet full but the last, which ends where the request said. Of what is
 * missing a part may have been asked for, which ends before.
 */
static bool is_as_asked(const struct ib_conn *c, const struct send_wqe *wqe, uint32_t i,
			const struct iba_packet *p)
{
	uint32_t mtu = c->path.mtu_bytes, left = wqe->length - i * mtu;
	bool is_last = left <= mtu, is_again = iba_psn_is_before(p->psn, c->req.psn_high);
	bool is_marked_last = iba_form(p->opcode)->traits & IBA_LAST;

	if (wqe->opcode != WEFT_OP_READ)
		return iba_form(p->opcode)->kind == IBA_KIND_ATOMIC_ACK;
	return iba_form(p->opcode)->kind == IBA_KIND_READ_RESPONSE &&
	       p->payload_bytes == (is_last ? left : mtu) &&
	       (is_last == is_marked_last || (is_marked_last && is_again));
}

static enum weft_reason place_answer(struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
				     const struct iba_packet *p)
{
	struct stretch part = request_stretch(wqe);

	part.can_wait = conn_can_wait(c);
	if (wqe->opcode != WEFT_OP_READ)
		return place_list(c->req.qp, &part, (const uint8_t *)&p->original);
	part.offset = (uint64_t)i * c->path.mtu_bytes;
	part.length = p->payload_bytes;
	return place_list(c->req.qp, &part, p->payload);
}

/*
 * VMM-09: the page of an answer is being brought in. The answer counts as lost, and is asked for
 * again when the page is there.
 */
static bool sink_waits(struct ib_conn *c, uint64_t now_ns, struct send_wqe *wqe)
{
	const struct stretch all = request_stretch(wqe);

	if (!conn_can_wait(c) || !qp_segments_will_come(c->req.qp, &all))
		return false;
	c->req.is_sink_absent = true;
	qp_await_memory(c->req.qp);
	rc_retry_alive(c, now_ns);
	return true;
}

/* One that came is placed, though it be early: nothing behind a lost one need come again. */
static enum weft_reason take_placed(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	struct requester *q = &c->req;
	uint32_t una = q->psn_una;

	if (iba_psn_is_before(p->psn, q->psn_high)) {
		rc_holes_fill(q, p->psn);
	} else {
		rc_holes_passed(q, p->psn);
		rc_retry_answered(q, now_ns, p->psn);
		q->psn_high = iba_psn_add(p->psn, 1);
	}
	tell(q, q->psn_high);
	advance(c, now_ns);
	if (q->psn_una == una)
		rc_retry_alive(c, now_ns);
	if (q->probed == PROBED_READ && !iba_psn_is_before(q->psn_una, q->probe_end))
		rc_retry_read_alone(c, now_ns);
	conn_ready(c);
	if (iba_form(p->opcode)->headers & IBA_HAS_AETH)
		take_credits(c, p);
	return WEFT_OK;
}

static enum weft_reason take_answer(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	struct requester *q = &c->req;
	struct send_wqe *wqe;
	enum weft_reason r;
	uint32_t n, i;

	if (iba_form(p->opcode)->headers & IBA_HAS_AETH &&
	    iba_syndrome(p->syndrome) != IBA_SYNDROME_ACK)
		return WEFT_R_IB_OPCODE;
	if (!carried_out(c, now_ns, p->psn)) {
		tell(q, iba_psn_add(p->psn, 1)); /* this one is missing, too */
		rc_retry_alive(c, now_ns);
		return WEFT_R_IB_PSN;
	}
	n = rc_req_find(q, p->psn);
	wqe = n < q->count ? rc_req_wqe(c, rc_req_at(q, n)) : NULL;
	if (!wqe || !wqe_is_read(wqe) ||
	    (iba_psn_is_before(p->psn, q->psn_high) && !rc_holes_has(q, p->psn)))
		return WEFT_R_IB_PSN;
	i = iba_psn_distance(rc_req_at(q, n)->psn, p->psn);
	if (!is_as_asked(c, wqe, i, p))
		return WEFT_R_IB_LENGTH;
	r = place_answer(c, wqe, i, p);
	if (r == WEFT_R_SPACE_UNMAPPED && sink_waits(c, now_ns, wqe))
		return r;
	if (r != WEFT_OK) {
		if (n == 0)
			sink_gone(c, r);
		return WEFT_R_SINK_GONE;
	}
	return take_placed(c, now_ns, p);
}

/*
 * What was asked for twice comes twice. A peer answers in order, so what is awaited comes behind
 * it; if it were asked for again meanwhile, a slow peer would have ever more to answer.
 */
static void take_repeat(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	if (q->repeats_due > 0 && is_read(c)) {
		q->repeats_due--;
		rc_retry_busy(c, now_ns);
	}
}

enum weft_reason rc_comp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	const struct requester *q = &c->req;
	bool is_ack = iba_form(p->opcode)->kind == IBA_KIND_ACK;
	uint32_t out = iba_psn_distance(q->psn_una, q->psn_sent);

	/* Nothing new but credits. */
	if (is_ack && p->psn == iba_psn_add(q->psn_una, IBA_PSN_MASK) &&
	    iba_syndrome(p->syndrome) == IBA_SYNDROME_ACK) {
		take_credits(c, p);
		return WEFT_OK;
	}
	/* IBA 9.7.5.1.1: answers to what was never sent, or had its answer, are not looked at. */
	if (!iba_psn_is_within(p->psn, q->psn_una, out)) {
		if (!is_ack)
			take_repeat(c, now_ns);
		return WEFT_R_IB_PSN;
	}
	if (is_ack && iba_syndrome(p->syndrome) != IBA_SYNDROME_ACK && !rc_genuine_nak(c, p))
		return WEFT_R_IB_PSN;
	return is_ack ? take_aeth(c, now_ns, p) : take_answer(c, now_ns, p);
}
