/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the responder of RC says (IBA 9.7.5.1): answers to Reads and atomics in the order of their
 * numbers, and behind them one ACK or NAK for all there was.
 */
#include "ib/responder.h"

#include "base/check.h"
#include "ib/conn.h"
#include "ib/pace.h"
#include "ib/packet.h"
#include "ib/port.h"
#include "ib/rc.h"
#include "ib/rc_retry.h"
#include "ib/requester.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

static struct resource *res_at(const struct responder *r, uint32_t n)
{
	return &r->res[n & r->res_mask];
}

/* What follows answers waits until they are out, and they until the pace lets them. */
static bool rc_reply_is_due(const struct ib_conn *c, bool is_open)
{
	const struct responder *r = &c->resp;

	if (responder_is_answering(r))
		return is_open && !r->is_source_absent;
	return r->is_nak_due || r->is_ack_due;
}

bool rc_reply_is_ack(const struct ib_conn *c)
{
	const struct responder *r = &c->resp;

	return !responder_is_answering(r) && r->is_ack_due && !r->is_nak_due;
}

/* IBA 9.7.7.2: one credit for each posted receive; an SRQ gives no credits. */
static uint8_t credits(struct ib_conn *c)
{
	uint32_t count;

	if (c->is_ee || c->is_xrc || c->resp.qp->srq)
		return IBA_CREDITS_UNUSED;
	count = c->resp.qp->rq.posted + (c->resp.qp->recv != NULL);
	if (count == 0) {
		c->resp.is_hungry = true; /* when there is one, the peer is told */
		qp_await_receive(c->resp.qp, &c->resp.qp->rq);
	}
	return iba_credit_code(count);
}

/*
 * AMB-35: over IP one ACK is of all frames before it, in a fabric each frame has its own. The MSN
 * is that of now: the peer knows of what has ended as early as it can.
 */
static uint32_t ack_psn(const struct ib_conn *c)
{
	const struct responder *r = &c->resp;
	bool is_owed = iba_psn_is_before(r->psn_unsaid, r->psn) &&
		       iba_psn_distance(r->psn_unsaid, r->psn) <= IB_WINDOW_DEFAULT;

	return ib_path_is_local(&c->path) && is_owed ? r->psn_unsaid
						     : iba_psn_add(r->psn, IBA_PSN_MASK);
}

static void make_ack(struct ib_conn *c, struct ib_out *out)
{
	struct responder *r = &c->resp;
	struct iba_packet p = {
		.opcode = iba_opcode(conn_service(c), IBA_ACKNOWLEDGE),
		.psn = r->is_nak_due ? r->psn : ack_psn(c),
		.msn = r->msn,
	};

	if (r->is_nak_due) {
		bool is_rnr = iba_syndrome(r->nak) == IBA_SYNDROME_RNR;

		p.syndrome = r->nak;
		c->port->counts.rnrs_out += is_rnr;
		c->port->counts.naks_out += !is_rnr;
		tally_of(c->port, r->qp)->rnrs_out += is_rnr;
		tally_of(c->port, r->qp)->naks_out += !is_rnr;
		note(c, r->qp, TRACE_NAK_SENT, p.psn, p.syndrome);
	} else {
		p.syndrome = iba_syndrome_ack(credits(c));
	}
	r->psn_unsaid = iba_psn_add(p.psn, 1);
	r->is_ack_due = !r->is_nak_due && r->psn_unsaid != r->psn;
	r->is_nak_due = false;
	packet_make(c, &p, NULL, out);
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void answer_atomic(struct ib_conn *c, const struct resource *e, struct ib_out *out)
{
	struct iba_packet p = {
		.opcode = iba_opcode(conn_service(c), IBA_ATOMIC_ACKNOWLEDGE),
		.psn = e->psn,
		.syndrome = iba_syndrome_ack(credits(c)),
		.msn = e->msn,
		.original = e->original,
	};

	packet_make(c, &p, NULL, out);
}

/* IWARP-07's way: asked for part by part, as the answer goes out. */
static enum weft_reason open_part(struct ib_conn *c, const struct resource *e, uint32_t offset,
				  struct mem_grant *grant)
{
	uint32_t mtu = c->path.mtu_bytes, left = e->length - offset;
	struct mem_access access = {
		.addr = e->va + offset,
		.length = left < mtu ? left : mtu,
		.tag = e->r_key,
		.pd = e->pd,
		.kind = MEM_REMOTE_READ,
		.can_wait = conn_can_wait(c),
	};

	return qp_access(c->resp.qp, &access, grant);
}

static enum iba_op response_op(bool is_first, bool is_last)
{
	if (is_first)
		return is_last ? IBA_READ_RESPONSE_ONLY : IBA_READ_RESPONSE_FIRST;
	return is_last ? IBA_READ_RESPONSE_LAST : IBA_READ_RESPONSE_MIDDLE;
}

/* A packet of a Read's answer: which, and where it stands in what is being answered. */
struct part {
	uint32_t packet;
	bool is_first, is_last;
};

enum answer {
	ANSWER_MADE,
	ANSWER_REFUSED, /* it could not be had any more */
	ANSWER_ABSENT	/* its page is being brought in: no packet was made (VMM-09) */
};

/* ANSWER_REFUSED: a connection is over. */
static enum answer answer_read(struct ib_conn *c, struct resource *e, const struct part *part,
			       struct ib_out *out)
{
	enum iba_op op = response_op(part->is_first, part->is_last);
	struct iba_packet p = {
		.opcode = iba_opcode(conn_service(c), op),
		.psn = iba_psn_add(e->psn, part->packet),
		.msn = e->msn,
	};
	struct mem_grant grant;
	struct load load;
	enum weft_reason reason = open_part(c, e, part->packet * c->path.mtu_bytes, &grant);

	if (reason == WEFT_R_SPACE_UNMAPPED && conn_can_wait(c) && mem_grant_will_come(&grant)) {
		c->resp.is_source_absent = true;
		qp_await_memory(c->resp.qp);
		return ANSWER_ABSENT;
	}
	load_init_in(&load, out, p.opcode);
	if (reason == WEFT_OK)
		reason = packet_gather_grant(c, &grant, &load);
	if (reason != WEFT_OK) {
		qp_refused(c->resp.qp, reason, e->va, e->r_key);
		e->refused = iba_syndrome_nak(IBA_NAK_ACCESS);
		if (!c->is_ee)
			rc_resp_end(c, p.psn, IBA_NAK_ACCESS, reason);
		return ANSWER_REFUSED;
	}
	if (iba_form(p.opcode)->headers & IBA_HAS_AETH)
		p.syndrome = iba_syndrome_ack(credits(c));
	packet_make(c, &p, &load, out);
	if (part->packet + 1 == e->count && e->length > 0 &&
	    mem_touch_is_once(&c->port->adapter->mem, e->r_key)) {
		e->is_touch_due = true;
		c->resp.has_touch_due = true;
	}
	return ANSWER_MADE;
}

/*
 * RD: as often as it is asked for. The peer may have had its answer, and have gone on: that this
 * one is repeated in vain must not change what is expected next.
 */
static void answer_refusal(struct ib_conn *c, const struct resource *e, uint32_t packet,
			   struct ib_out *out)
{
	struct iba_packet p = {
		.opcode = iba_opcode(IBA_RD, IBA_ACKNOWLEDGE),
		.psn = iba_psn_add(e->psn, packet),
		.syndrome = e->refused,
		.msn = e->msn,
	};

	c->port->counts.naks_out++;
	note(c, c->resp.qp, TRACE_NAK_SENT, p.psn, p.syndrome);
	packet_make(c, &p, NULL, out);
}

/* A packet of an answer; or that it is refused, which ends the answer. */
static enum answer answer_or_refuse(struct ib_conn *c, struct resource *e, const struct part *part,
				    struct ib_out *out)
{
	enum answer answer = e->refused ? ANSWER_REFUSED : answer_read(c, e, part, out);

	if (answer != ANSWER_REFUSED)
		return answer;
	if (c->is_ee)
		answer_refusal(c, e, part->packet, out);
	else
		make_ack(c, out); /* the refusal, in its place */
	return ANSWER_REFUSED;
}

/* Of what was asked for again: before what is being answered goes on. False: its page is away. */
static bool answer_part_next(struct ib_conn *c, struct ib_out *out)
{
	struct responder *r = &c->resp;
	struct again *a = &r->again[r->again_first & r->res_mask];
	struct resource *e = res_at(r, a->res);
	const struct part part = {
		.packet = a->at,
		.is_first = a->at == a->began,
		.is_last = a->at + 1 == a->end,
	};

	if (e->kind == IBA_KIND_ATOMIC) {
		answer_atomic(c, e, out);
		a->at++;
	} else {
		switch (answer_or_refuse(c, e, &part, out)) {
		case ANSWER_MADE:
			a->at++;
			break;
		case ANSWER_REFUSED:
			a->at = a->end;
			break;
		case ANSWER_ABSENT:
			return false;
		}
	}
	/* A refusal may have been the end of all of them. */
	if (r->again_first != r->again_next && a->at == a->end)
		r->again_first++;
	return true;
}

/* Behind the packet that is made now. */
static void step(struct ib_conn *c, const struct resource *e)
{
	struct responder *r = &c->resp;

	if (++r->res_packet == e->count) {
		r->res_at++;
		r->res_packet = 0;
		r->res_began = 0;
		if ((int32_t)(r->res_at - r->res_answered) > 0) {
			r->res_answered = r->res_at;
			if (!e->refused)
				count_message_out(c->port, r->qp, e->length);
		}
	}
	/* Behind the last answer all before it is acknowledged too, if nothing came since. */
	if (r->res_at == r->res_next &&
	    iba_psn_is_before(r->psn_unsaid, iba_psn_add(e->psn, e->count)))
		r->psn_unsaid = iba_psn_add(e->psn, e->count);
	if (r->res_at == r->res_next && iba_psn_add(e->psn, e->count) == r->psn)
		r->is_ack_due = false;
}

/* False: the next response waits for a page. */
static bool rc_reply_next(struct ib_conn *c, struct ib_out *out)
{
	struct responder *r = &c->resp;
	struct part part = { .packet = r->res_packet };
	enum answer answer = ANSWER_MADE;
	struct resource *e;

	if (!responder_is_answering(r)) {
		if (r->refusal != WEFT_OK && c->resp.qp)
			rc_resp_end(c, r->psn, (enum iba_nak)(r->nak & IBA_CODE_MASK), r->refusal);
		make_ack(c, out);
		return true;
	}
	if (r->again_first != r->again_next)
		return answer_part_next(c, out);
	e = res_at(r, r->res_at);
	if (e->kind == IBA_KIND_ATOMIC) {
		answer_atomic(c, e, out);
	} else {
		/* The first of this answer: also of one that is only the rest of what was lost. */
		part.is_first = r->res_packet == r->res_began;
		part.is_last = r->res_packet + 1 == e->count;
		answer = answer_or_refuse(c, e, &part, out);
	}
	if (answer == ANSWER_ABSENT)
		return false;
	if (answer == ANSWER_REFUSED) {
		if (!c->is_ee)
			return true;
		r->res_packet = e->count - 1;
	}
	step(c, e);
	return true;
}

/*
 * Any turn may follow any other; but once an ACK has waited for a request, a reply is next: only a
 * reply makes the ACK unnecessary.
 */
static const uint32_t turn_moves[TURN_STATES] = {
	[TURN_REPLY] = 1U << TURN_REPLY | 1U << TURN_ACK | 1U << TURN_REQUEST,
	[TURN_ACK] = 1U << TURN_REQUEST,
	[TURN_REQUEST] = 1U << TURN_REPLY | 1U << TURN_ACK | 1U << TURN_REQUEST,
};

static void turn_move(struct ib_conn *c, enum turn to)
{
	CHECK(turn_moves[c->turn] & 1U << to);
	c->turn = to;
}

bool rc_is_silent(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	const struct responder *r = &c->resp;

	return q->at == q->count && !q->is_probe_due && !q->is_filling && q->rnr != RNR_ASK_DUE &&
	       q->hole_count == 0 && !responder_is_answering(r) && !r->is_nak_due && !r->is_ack_due;
}

/* Of a context it is the queue pairs' turns that go on. */
void rc_go_on(struct ib_conn *c)
{
	if (c->is_ee || !rc_is_silent(c))
		conn_ready(c);
}

/*
 * Answers and requests take turns where both are due. An ACK goes before what the peer's program is
 * told of, as it expects that its Send has ended when the answer comes. A Write goes first: behind
 * it, as the smaller one, the ACK leaves in the same message to the kernel (UDP_SEGMENT).
 */
bool rc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out)
{
	bool is_open = !c->qp || pace_is_open(&c->pace, now_ns);
	bool has_reply = rc_reply_is_due(c, is_open), is_ack = rc_reply_is_ack(c);
	bool has_request = is_open && rc_req_can_send(c);
	bool is_replys_turn = is_ack ? c->turn == TURN_ACK || rc_req_needs_receive(c)
				     : c->turn != TURN_REQUEST;

	if (has_request && !(has_reply && is_replys_turn)) {
		turn_move(c, is_ack ? TURN_ACK : TURN_REPLY);
		if (rc_req_next(c, now_ns, out))
			return true;
		has_reply = rc_reply_is_due(c, is_open);
	}
	if (!has_reply) {
		rc_retry_spare(c, now_ns);
		return false;
	}
	turn_move(c, TURN_REQUEST);
	if (rc_reply_next(c, out))
		return true;
	/* The answer waits for a page; requests need not. */
	return is_open && rc_req_can_send(c) && rc_req_next(c, now_ns, out);
}

/* Behind an ACK those that are owed for the next frames (AMB-35), while nothing else is due. */
static uint32_t acks_more(struct ib_conn *c, const struct ib_more *more)
{
	struct responder *r = &c->resp;
	struct iba_packet p = {
		.opcode = iba_opcode(conn_service(c), IBA_ACKNOWLEDGE),
		.psn = ack_psn(c),
		.msn = r->msn,
	};
	uint32_t owed = iba_psn_distance(p.psn, r->psn), n;

	if (!rc_reply_is_ack(c) || rc_req_can_send(c) || !ib_path_is_local(&c->path) ||
	    ib_path_route_bytes(&c->path) + iba_packet_bytes(p.opcode, 0) != more->each)
		return 0;
	n = owed < more->most ? owed : more->most;
	p.syndrome = iba_syndrome_ack(credits(c));
	packet_make_row(c, &p, more->outs, n);
	r->psn_unsaid = iba_psn_add(p.psn, n);
	r->is_ack_due = r->psn_unsaid != r->psn;
	return n;
}

uint32_t rc_more(struct ib_conn *c, uint64_t now_ns, const struct ib_more *more)
{
	if (c->qp && c->turn == TURN_REQUEST)
		return acks_more(c, more);
	if (!c->qp || c->turn != TURN_REPLY || !pace_is_open(&c->pace, now_ns) ||
	    pace_gap_ns(&c->pace, c->path.mtu_bytes) > 0 || rc_reply_is_due(c, true))
		return 0;
	return rc_req_more(c, now_ns, more);
}
