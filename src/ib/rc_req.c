/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of RC (IBA 9.7.3): requests become packets. What was sent is kept as descriptors,
 * of which the oldest is the one that psn_una falls into:
 *
 *	sent[first]        sent[first + at]
 *	 |  psn_una           |  psn_send          psn_next
 *	 |     |              |     |                  |
 *	 [==acknowledged==on its way=====to be sent====]
 */
#include "ib/requester.h"

#include "base/check.h"
#include "ib/conn.h"
#include "ib/direct.h"
#include "ib/ee.h"
#include "ib/migrate.h"
#include "ib/pace.h"
#include "ib/packet.h"
#include "ib/port.h"
#include "ib/rc.h"
#include "ib/rc_early.h"
#include "ib/rc_holes.h"
#include "ib/rc_retry.h"
#include "wire/iba_psn.h"

enum {
	FILL_ACKS = 8,
	UNHURRIED_MAX = 8 /* packets whose ACK is asked for later, if requests are unhurried */
};

/* So long after an ACK was asked for, unhurried requests ask for none: less than a probe takes. */
static const uint64_t unhurried_ns = 150 * 1000;

uint32_t rc_req_find(const struct requester *q, uint32_t psn)
{
	uint32_t n = 0;

	/* Bound: the requests on their way. */
	while (n < q->count &&
	       !iba_psn_is_within(psn, rc_req_at(q, n)->psn, rc_req_at(q, n)->count))
		n++;
	return n;
}

enum issue rc_issue(struct ib_conn *c, struct send_wqe *wqe)
{
	struct requester *q = &c->req;
	bool is_atomic = wqe_is_read(wqe) && wqe->opcode != WEFT_OP_READ;
	uint32_t count = is_atomic ? 1 : iba_psn_count(wqe->length, c->path.mtu_bytes);

	if (direct_awaits(c, wqe))
		return ISSUE_NO_ROOM;
	/* What is on its way must be told from what was, by numbers that wrap. */
	if (q->count > 0 && iba_psn_distance(q->psn_una, q->psn_next) + count > IB_PSNS_MAX)
		return ISSUE_NO_ROOM;
	CHECK(q->count < q->max);
	*rc_req_at(q, q->count++) = (struct sent){
		.psn = q->psn_next,
		.count = count,
		.slot = send_queue_index(&c->req.qp->sq, wqe),
	};
	if (!c->is_ee)
		wqe->source_checked = c->port->adapter->mem.changes;
	q->ssn = iba_psn_add(q->ssn, 1);
	q->psn_next = iba_psn_add(q->psn_next, count);
	conn_ready(c);
	return ISSUE_BEGUN;
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

bool ib_block_find(const struct ib_conn *c, uint32_t psn, struct ib_block *block)
{
	const struct requester *q = &c->req;
	uint32_t n = rc_req_find(q, psn);
	struct send_wqe *wqe = n < q->count ? rc_req_wqe(c, rc_req_at(q, n)) : NULL;

	if (!wqe || wqe_is_read(wqe) || request_is_inline(wqe) ||
	    !iba_psn_is_within(psn, q->psn_una, iba_psn_distance(q->psn_una, q->psn_sent)) ||
	    !request_block(c, wqe, iba_psn_distance(rc_req_at(q, n)->psn, psn), block))
		return false;
	block->psn = psn;
	block->is_again = true;
	return true;
}

/* Of a source in one piece, which has not changed since it was checked: without another check. */
static bool payload_known(const struct ib_conn *c, const struct sent *s, uint32_t i, uint32_t bytes,
			  struct load *load)
{
	struct send_wqe *wqe = rc_req_wqe(c, s);
	const struct weft_sge *all = wqe_segments(wqe);
	const struct weft_sge part = { .addr = all->addr + (uint64_t)i * c->path.mtu_bytes,
				       .length = bytes,
				       .tag = all->tag };
	struct mem_span span;

	return wqe->sge_count == 1 && bytes > 0 && !c->is_ee &&
	       mem_known_span(&c->port->adapter->mem, wqe->source_checked, &part, &span) &&
	       load_copy(load, &span);
}

/*
 * The payload of a packet, or of a run. Of one that goes again only its number counts: the blocks
 * tell where its data is (SEND-13), and the memory what it is now (SEND-09).
 */
static enum weft_reason payload_of(struct ib_conn *c, const struct sent *s,
				   const struct iba_packet *p, uint32_t i, struct load *load)
{
	struct send_wqe *wqe = rc_req_wqe(c, s);
	uint32_t bytes = request_bytes(c, wqe, i);
	struct ib_block block;

	if (p->run > 0)
		bytes = i == 0 ? wqe->length : (1 + p->run) * c->path.mtu_bytes;
	if (payload_known(c, s, i, bytes, load))
		return WEFT_OK;
	if (p->run > 0) {
		CHECK(request_block(c, wqe, i, &block));
		return request_gather(c, &block, bytes, load);
	}
	if (!iba_psn_is_before(p->psn, c->req.psn_sent) || request_is_inline(wqe) || bytes == 0)
		return request_payload(c, wqe, i, load);
	CHECK(ib_block_find(c, p->psn, &block));
	return request_gather(c, &block, bytes, load);
}

/* ---- What may go ---------------------------------------------------------------------------- */

static bool needs_receive(const struct send_wqe *wqe)
{
	return wqe->opcode != WEFT_OP_WRITE && !wqe_is_read(wqe);
}

static bool is_beyond_credits(const struct ib_conn *c, uint32_t n)
{
	const struct requester *q = &c->req;

	return q->is_limited && iba_psn_diff(rc_req_ssn(q, n), q->limit_ssn) > 0 &&
	       needs_receive(rc_req_wqe(c, rc_req_at(q, n)));
}

/*
 * IBA 9.7.7.2.5: a message that needs a receive begins if the peer has one for it, as far as is
 * known; else one packet may find out, and the rest follows when that was acknowledged.
 */
static bool has_credit(const struct ib_conn *c)
{
	const struct requester *q = &c->req;

	if (!is_beyond_credits(c, q->at) || (q->at == 0 && q->psn_una != rc_req_at(q, 0)->psn))
		return true;
	return q->psn_send == q->psn_una && !rc_retry_is_last(c);
}

bool rc_req_is_starved(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, 0);

	return q->count > 0 && q->at == 0 && q->psn_send == s->psn && q->psn_una == s->psn &&
	       is_beyond_credits(c, 0);
}

/* Of the answers to Reads before psn_high, those that have come. */
static uint32_t answers_placed(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	uint32_t psns = 0;

	/* Bound: the requests on their way. */
	for (uint32_t n = 0; n < q->count; n++) {
		const struct sent *s = rc_req_at(q, n);
		const struct send_wqe *wqe = rc_req_wqe(c, s);
		uint32_t from = n > 0 ? s->psn : q->psn_una;
		uint32_t to = iba_psn_add(s->psn, s->count);

		if (!iba_psn_is_before(from, q->psn_high))
			break;
		if (wqe && wqe_is_read(wqe))
			psns += iba_psn_distance(
				from, iba_psn_is_before(to, q->psn_high) ? to : q->psn_high);
	}
	return psns - q->missing;
}

/*
 * Answers to Reads that were asked for and have not come are under way as packets that were sent
 * are: the window holds for them, too, or they would overflow what receives them here. What was
 * placed ahead of a missing one has come. A Read that is longer than the window goes alone.
 */
static bool is_beyond_reads(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	const struct send_wqe *wqe;

	if (q->read_psns < c->window)
		return false;
	wqe = rc_req_wqe(c, rc_req_at(q, q->at));
	return wqe && wqe_is_read(wqe) && q->read_psns >= answers_placed(c) + c->window;
}

/*
 * What the peer keeps behind a lost packet is not in flight any more: while that packet is sent
 * again, the window is wider.
 */
static bool is_beyond_window(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	uint32_t out = iba_psn_distance(q->psn_una, q->psn_send) - q->read_psns;

	return out >= c->window &&
	       (!q->is_repairing || !q->is_keeping || out >= 2 * c->window || out >= IB_EARLY_MAX);
}

/* The next request, or what is to be sent again of it by going back. */
static bool can_go_on(const struct ib_conn *c)
{
	const struct requester *q = &c->req;

	if (q->at == q->count || requester_is_waiting(q) ||
	    (q->is_absent && q->psn_send == q->absent_psn))
		return false;
	if (is_beyond_window(c) || is_beyond_reads(c))
		return false;
	return has_credit(c);
}

/* A packet that may have been lost, among others of which the oldest was. */
static bool can_fill(const struct requester *q)
{
	uint32_t out = iba_psn_distance(q->psn_una, q->psn_sent);

	return q->is_filling && q->count > 0 && !requester_is_waiting(q) &&
	       iba_psn_is_within(q->fill_psn, q->psn_una, out) &&
	       iba_psn_is_before(q->fill_psn, q->fill_end);
}

bool rc_req_can_send(const struct ib_conn *c)
{
	const struct requester *q = &c->req;

	if (q->count > 0 && (q->is_probe_due || q->rnr == RNR_ASK_DUE || rc_holes_due(q)))
		return true;
	return can_go_on(c) || can_fill(q);
}

bool rc_req_needs_receive(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	const struct send_wqe *wqe = q->at < q->count ? rc_req_wqe(c, rc_req_at(q, q->at)) : NULL;

	return wqe && needs_receive(wqe); /* RESYNC of a context has none */
}

/* ---- Packets -------------------------------------------------------------------------------- */

/* IBA 9.7.5.1.7: of what was lost of a response only that is asked for again. */
static void read_packet(const struct ib_conn *c, const struct send_wqe *wqe, uint32_t i,
			struct iba_packet *p)
{
	uint32_t offset = i * c->path.mtu_bytes;

	p->opcode = iba_opcode(conn_service(c), IBA_READ_REQUEST);
	p->xrc_srq = wqe->dest_qp_number;
	p->va = wqe->remote_addr + offset;
	p->r_key = wqe->remote_tag;
	p->dma_bytes = wqe->length - offset;
}

static void atomic_packet(const struct ib_conn *c, const struct send_wqe *wqe, struct iba_packet *p)
{
	bool is_swap = wqe->opcode == WEFT_OP_COMPARE_SWAP;

	p->opcode = iba_opcode(conn_service(c), is_swap ? IBA_COMPARE_SWAP : IBA_FETCH_ADD);
	p->xrc_srq = wqe->dest_qp_number;
	p->va = wqe->remote_addr;
	p->r_key = wqe->remote_tag;
	p->swap_add = is_swap ? wqe->swap : wqe->operand;
	p->compare = is_swap ? wqe->operand : 0;
}

/*
 * SEND-15: the source has gone since it was checked. It fails, and nothing goes from there on; what
 * went before it may still arrive.
 */
static void source_gone(struct ib_conn *c, struct send_wqe *wqe, enum weft_reason r)
{
	enum weft_reason reason = mem_gone_reason(r, WEFT_R_SOURCE_GONE);

	if (c->is_ee) {
		ee_request_fail(c, WEFT_ERR_LOCAL_ACCESS, reason);
		return;
	}
	c->req.ssn = rc_req_ssn(&c->req, c->req.at - 1);
	c->req.count = c->req.at;
	send_queue_end(c->req.qp, wqe,
		       &(struct outcome){
			       .status = WEFT_ERR_LOCAL_ACCESS,
			       .reason = reason,
		       });
}

/*
 * SEND-09, SEND-10: the pager has been asked for a page that was written out. The packet waits for
 * it, and so do those behind it.
 */
bool request_waits(struct ib_conn *c, struct send_wqe *wqe, enum weft_reason reason)
{
	const struct stretch all = request_stretch(wqe);
	struct requester *q = &c->req;

	if (reason != WEFT_R_SPACE_UNMAPPED || !qp_segments_will_come(c->qp, &all))
		return false;
	q->is_absent = true;
	q->absent_psn = q->psn_send;
	qp_await_memory(c->qp);
	return true;
}

/* answers: the packets that the peer answers with, if it was a Read. */
static void count_again(struct ib_conn *c, uint32_t answers)
{
	c->port->counts.again++;
	tally_of(c->port, c->req.qp)->resent++;
	c->req.repeats_due += answers;
}

/*
 * How many more packets go with the next one, which is of a Send or Write: all others of a message
 * that fits, or further middle ones of a longer one. Only for the first time:
 * what is sent again is sent packet by packet, as the peer may have some of them.
 */
static uint16_t run_of(const struct ib_conn *c, const struct sent *s, const struct send_wqe *wqe,
		       const struct ib_out *out)
{
	const struct requester *q = &c->req;
	uint32_t i = iba_psn_distance(s->psn, q->psn_send), most, left, room;

	if (out->run_bytes == 0 || c->port->has_near_icrc || c->port->cut_after != UINT64_MAX ||
	    q->psn_send != q->psn_sent || s->count == 1 || c->service != WEFT_RC ||
	    request_is_inline(wqe))
		return 0;
	room = c->window - (iba_psn_distance(q->psn_una, q->psn_send) - q->read_psns);
	if (i == 0) {
		bool is_whole = wqe->length <= out->run_bytes && s->count <= room &&
				!is_beyond_credits(c, q->at);

		return (uint16_t)(is_whole ? s->count - 1 : 0);
	}
	most = out->run_bytes / c->path.mtu_bytes;
	left = s->count - 1 - i;
	most = most < left ? most : left;
	most = most < room ? most : room;
	return (uint16_t)(most > 0 ? most - 1 : 0);
}

/* Behind the packets that are made now. */
static void step(struct ib_conn *c, const struct sent *s, bool is_read, uint32_t packets)
{
	struct requester *q = &c->req;
	uint32_t taken = is_read ? iba_psn_distance(q->psn_send, iba_psn_add(s->psn, s->count))
				 : packets;

	if (iba_psn_is_before(q->psn_send, q->psn_sent))
		count_again(c, is_read ? taken : 0);
	if (is_read)
		q->read_psns += taken;
	q->psn_send = iba_psn_add(q->psn_send, taken);
	if (q->psn_send == iba_psn_add(s->psn, s->count))
		q->at++;
	if (iba_psn_is_before(q->psn_sent, q->psn_send))
		q->psn_sent = q->psn_send;
}

/* The peer would else be silent for longer than is good to hear. */
static bool is_slow(const struct ib_conn *c, uint64_t now_ns)
{
	const struct requester *q = &c->req;
	uint64_t gap_ns = pace_gap_ns(&c->pace, c->path.mtu_bytes);

	return now_ns + gap_ns - q->asked_ns >= q->probe_ns / (gap_ns > 0 ? 4 : 2);
}

/*
 * Whether a later request may ask for the acknowledgement of this one, which was the last. If none
 * follows, a probe asks; so there must be a timeout, and room for what comes until then.
 */
static bool can_ask_later(const struct ib_conn *c, uint64_t now_ns, const struct send_wqe *wqe)
{
	const struct requester *q = &c->req;
	uint32_t out = iba_psn_distance(q->psn_una, q->psn_send) - q->read_psns;

	if (!wqe || !(wqe->flags & WEFT_UNHURRIED) || c->is_ee || q->at < q->count ||
	    q->psn_send != q->psn_sent || now_ns - q->hurry_ns >= unhurried_ns)
		return false;
	if (c->timeout_ns == UINT64_MAX || q->unasked >= UNHURRIED_MAX || 2 * q->count > q->max)
		return false;
	return out + UNHURRIED_MAX < c->window &&
	       (!q->is_limited || iba_psn_diff(q->limit_ssn, q->ssn) > UNHURRIED_MAX);
}

/*
 * An acknowledgement is asked for where nothing goes on behind this packet, and now and then. One
 * such packet at a time tells the round trip.
 */
static void ask_for_ack(struct ib_conn *c, uint64_t now_ns, struct iba_packet *p,
			const struct send_wqe *wqe, bool is_telling)
{
	struct requester *q = &c->req;

	q->unasked += 1 + p->run;
	p->is_ack_requested = q->unasked >= c->ack_every || is_slow(c, now_ns) ||
			      (!rc_req_can_send(c) && !can_ask_later(c, now_ns, wqe));
	if (p->is_ack_requested) {
		q->unasked = 0;
		q->asked_ns = q->hurry_ns = now_ns;
	}
	if (q->is_timed || !is_telling ||
	    (!p->is_ack_requested && iba_op(p->opcode) != IBA_READ_REQUEST))
		return;
	q->is_timed = true;
	q->timed_psn = p->psn;
	q->timed_ns = now_ns;
}

/*
 * A packet of a Send or Write that was sent before. An acknowledgement is asked for now and then,
 * as the peer may have had all but a few of these.
 */
static bool fill_next(struct ib_conn *c, struct ib_out *out)
{
	struct requester *q = &c->req;
	uint32_t n = rc_req_find(q, q->fill_psn), i;
	struct send_wqe *wqe = n < q->count ? rc_req_wqe(c, rc_req_at(q, n)) : NULL;
	struct iba_packet p = { .psn = q->fill_psn };
	struct load load;

	q->is_filling = false; /* unless it can be had; else it goes when it is the oldest */
	if (!wqe || wqe_is_read(wqe))
		return false;
	i = iba_psn_distance(rc_req_at(q, n)->psn, q->fill_psn);
	load.count = load.bytes = 0;
	request_packet(c, wqe, i, &p);
	load_init_in(&load, out, p.opcode);
	if (payload_of(c, rc_req_at(q, n), &p, i, &load) != WEFT_OK)
		return false;
	q->is_filling = true;
	q->fill_psn = iba_psn_add(q->fill_psn, 1);
	p.is_ack_requested = q->fill_psn % FILL_ACKS == 0 || q->fill_psn == q->fill_end;
	count_again(c, 0);
	packet_make(c, &p, &load, out);
	return true;
}

/* Of the oldest request what is missing: packets of it, and payload. */
static enum weft_reason oldest_packet(struct ib_conn *c, struct iba_packet *p, struct load *load,
				      struct ib_out *out)
{
	struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, 0);
	struct send_wqe *wqe = rc_req_wqe(c, s);
	uint32_t i = iba_psn_distance(s->psn, q->psn_una);

	q->probe_end = iba_psn_add(s->psn, s->count);
	if (!wqe) {
		p->opcode = iba_opcode(IBA_RD, IBA_RESYNC);
		return WEFT_OK;
	}
	if (!wqe_is_read(wqe)) {
		request_packet(c, wqe, i, p);
		load_init_in(load, out, p->opcode);
		return payload_of(c, s, p, i, load);
	}
	if (wqe->opcode == WEFT_OP_READ)
		read_packet(c, wqe, i, p);
	else
		atomic_packet(c, wqe, p);
	return WEFT_OK;
}

/* A part of an answer that is missing is asked for again, and no more. */
static void ask_again(struct ib_conn *c, struct hole *hole, struct ib_out *out)
{
	struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, rc_req_find(q, hole->read));
	const struct send_wqe *wqe = rc_req_wqe(c, s);
	struct iba_packet p = { .psn = hole->from, .is_ack_requested = true };

	if (wqe->opcode == WEFT_OP_READ) {
		read_packet(c, wqe, iba_psn_distance(s->psn, hole->from), &p);
		if (hole->to != iba_psn_add(s->psn, s->count))
			p.dma_bytes = iba_psn_distance(hole->from, hole->to) * c->path.mtu_bytes;
	} else {
		atomic_packet(c, wqe, &p);
	}
	rc_holes_asked(q, hole);
	count_again(c, iba_psn_distance(hole->from, hole->to));
	packet_make(c, &p, NULL, out);
}

/*
 * The oldest packet once more, alone, to hear how far the peer is; of a Read what is missing of its
 * answer. False: its data cannot be had now, and all begins anew with it.
 */
static bool probe_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out)
{
	struct requester *q = &c->req;
	struct iba_packet p = { .psn = q->psn_una, .is_ack_requested = true };
	struct load load;
	enum weft_reason r;

	load.count = load.bytes = 0;
	r = oldest_packet(c, &p, &load, out);
	if (r != WEFT_OK) {
		rc_retry_go_back(c, now_ns, q->psn_una);
		if (!c->is_ee)
			(void)request_waits(c, rc_req_wqe(c, rc_req_at(q, 0)), r);
		return false;
	}
	q->is_probe_due = q->is_timed = false;
	if (q->probed != PROBED_PACKET || q->probe_psn != q->psn_una)
		q->probe_high = q->psn_sent;
	/* No ACK answers a Read. */
	requester_move_probed(q, iba_form(p.opcode)->kind == IBA_KIND_READ ? PROBED_READ
									   : PROBED_PACKET);
	q->probe_psn = q->psn_una;
	count_again(c, q->probed == PROBED_READ ? iba_psn_distance(q->psn_una, q->probe_end) : 0);
	packet_make(c, &p, &load, out);
	return true;
}

/*
 * Resends a packet that the peer has already executed: the peer only acknowledges it again (IBA
 * 9.7.5.1.5), with its present credits. It is a Write without data, whatever the original packet
 * was: its data may not exist any more.
 */
static void ask_for_credits(struct ib_conn *c, struct ib_out *out)
{
	struct requester *q = &c->req;
	struct iba_packet p = {
		.opcode = iba_opcode(conn_service(c), IBA_WRITE_ONLY),
		.psn = iba_psn_add(q->psn_una, IBA_PSN_MASK),
		.is_ack_requested = true,
		.xrc_srq = rc_req_wqe(c, rc_req_at(q, 0))->dest_qp_number,
	};

	requester_move(q, RNR_ASKED);
	packet_make(c, &p, NULL, out);
}

static bool request_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out)
{
	struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, q->at);
	struct send_wqe *wqe = rc_req_wqe(c, s);
	uint32_t i = iba_psn_distance(s->psn, q->psn_send);
	struct iba_packet p = { .psn = q->psn_send };
	bool is_read = wqe && wqe_is_read(wqe), is_new = q->psn_send == q->psn_sent;
	bool is_first = q->psn_send == q->psn_una;
	enum weft_reason r;
	struct load load;

	load.count = load.bytes = 0;
	if (!wqe) {
		p.opcode = iba_opcode(IBA_RD, IBA_RESYNC);
	} else if (wqe->opcode == WEFT_OP_READ) {
		read_packet(c, wqe, i, &p);
	} else if (is_read) {
		atomic_packet(c, wqe, &p);
	} else {
		p.run = run_of(c, s, wqe, out);
		request_packet(c, wqe, i, &p);
		load_init_in(&load, out, p.opcode);
		r = payload_of(c, s, &p, i, &load);
		if (r == WEFT_R_SPACE_UNMAPPED && p.run > 0) {
			/* There may never be as many pages at a time. */
			p.run = 0;
			request_packet(c, wqe, i, &p);
			load_init_in(&load, out, p.opcode);
			r = payload_of(c, s, &p, i, &load);
		}
		if (r != WEFT_OK) {
			if (c->is_ee || !request_waits(c, wqe, r))
				source_gone(c, wqe, r);
			return false;
		}
		if (is_new && i == 0 && !c->is_ee && !request_is_inline(wqe))
			port_kept(c->port, q, wqe->length);
	}
	step(c, s, is_read, 1 + p.run);
	if (is_new && wqe && q->psn_send == iba_psn_add(s->psn, s->count))
		count_message_out(c->port, q->qp, is_read ? 0 : wqe->length);
	rc_retry_sent(c, now_ns);
	if (is_first)
		q->asked_ns = now_ns;
	/*
	 * Answers to Reads that are on their way come first, and take their time: of a Read that is
	 * more than the round trip, but better than not to know it at all.
	 */
	is_first |= q->srtt_ns == 0;
	ask_for_ack(c, now_ns, &p, wqe,
		    is_new && (is_read ? is_first : wqe && q->qp->sq.reads == 0));
	packet_make_by(c, migrate_stripe(c, p.psn, is_new && !is_read), &p, &load, out);
	return true;
}

/* How many middle packets of the same message go before one that asks for an acknowledgement. */
static uint32_t count_more(const struct ib_conn *c, uint64_t now_ns, uint32_t most)
{
	const struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, q->at);
	uint32_t i = iba_psn_distance(s->psn, q->psn_send);
	uint32_t out = iba_psn_distance(q->psn_una, q->psn_send) - q->read_psns;
	uint32_t unasked = q->unasked + 1;

	/* What goes again, or comes first, is for rc_req_next(). */
	if (q->psn_send != q->psn_sent || q->psn_send == q->psn_una || i == 0 || q->is_absent ||
	    q->is_probe_due || q->is_filling || q->rnr == RNR_ASK_DUE || rc_holes_due(q) ||
	    c->is_striping || !can_go_on(c) || is_slow(c, now_ns))
		return 0;
	if (i + 1 >= s->count || out + 1 >= c->window || unasked >= c->ack_every)
		return 0;
	most = most < s->count - 1 - i ? most : s->count - 1 - i;
	most = most < c->window - 1 - out ? most : c->window - 1 - out;
	return most < c->ack_every - unasked ? most : c->ack_every - unasked;
}

uint32_t rc_req_more(struct ib_conn *c, uint64_t now_ns, const struct ib_more *more)
{
	struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, q->at);
	struct iba_packet p = { .psn = q->psn_send };
	const struct send_wqe *wqe;
	uint32_t i, n, most;
	struct load load;

	if (q->at == q->count || c->is_ee)
		return 0;
	wqe = rc_req_wqe(c, s);
	if (!wqe || wqe_is_read(wqe) || request_is_inline(wqe))
		return 0;
	most = count_more(c, now_ns, more->most);
	i = iba_psn_distance(s->psn, q->psn_send);
	request_packet(c, wqe, i, &p);
	if (ib_path_route_bytes(&c->path) + iba_packet_bytes(p.opcode, c->path.mtu_bytes) !=
	    more->each)
		return 0;
	for (n = 0; n < most; n++) {
		load_init_in(&load, &more->outs[n], p.opcode);
		if (!payload_known(c, s, i + n, c->path.mtu_bytes, &load))
			break;
		packet_make(c, &p, &load, &more->outs[n]);
		p.psn = iba_psn_add(p.psn, 1);
	}
	if (n == 0)
		return 0;
	step(c, s, false, n);
	q->unasked += n;
	rc_retry_sent(c, now_ns);
	return n;
}

bool rc_req_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out)
{
	struct hole *hole = c->req.count > 0 ? rc_holes_due(&c->req) : NULL;

	if (hole) {
		ask_again(c, hole, out);
		return true;
	}
	if (c->req.rnr == RNR_ASK_DUE && c->req.count > 0) {
		ask_for_credits(c, out);
		return true;
	}
	if (c->req.is_probe_due) {
		if (probe_next(c, now_ns, out))
			return true;
		return can_go_on(c) && request_next(c, now_ns, out);
	}
	if (c->req.is_filling && !can_go_on(c))
		return fill_next(c, out);
	return request_next(c, now_ns, out);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

void rc_req_pop(struct ib_conn *c)
{
	struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, 0);

	CHECK(q->count > 0);
	q->psn_una = iba_psn_add(s->psn, s->count);
	q->first = q->first + 1 < q->max ? q->first + 1 : 0;
	q->count--;
	if (q->at > 0)
		q->at--;
	else
		q->psn_send = q->psn_una; /* it was being sent again, and that was not needed */
	q->is_answered = true;
	q->rnr_since_ns = UINT64_MAX;
	q->rnr_left = c->rnr_retries;
	requester_move(q, RNR_NONE);
	if (c->is_ee)
		ee_request_ended(c);
}

void rc_req_fail(struct ib_conn *c, enum weft_status status, enum weft_reason reason)
{
	struct requester *q = &c->req;
	struct send_wqe *wqe;

	if (c->is_ee) {
		ee_request_fail(c, status, reason);
		return;
	}
	wqe = rc_req_wqe(c, rc_req_at(q, 0));
	q->count = q->at = 0;
	q->deadline_ns = UINT64_MAX;
	port_kept(c->port, q, -(int64_t)q->kept_bytes);
	/* It ends the connection; what is heard of the peer until then is not why. */
	qp_record(c->req.qp, reason);
	send_queue_end(c->req.qp, wqe, &(struct outcome){ .status = status, .reason = reason });
}
