/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trying again (IBA 9.7.6, 9.9.2.4). The local ACK timeout is what the consumer pays a retry for.
 * Within it a silence that is long against the round trip makes us ask, as a lost NAK, answer or
 * last packet would else cost the whole of it: the oldest packet goes once more, alone (a tail loss
 * probe, RFC 8985 section 7; the oldest, as a peer that has said its NAK answers to no other). If
 * the peer has it and more, the acknowledgement says so; if it is all that was missing so far, the
 * rest follows. How long that silence is, RFC 6298 says, by round trips of packets that went once.
 *
 *	sent      |1|2|3|4|                 |1|         |2|3|4|
 *	arrived       |1| x x x                |1|             |2|3|4|
 *	ACK       ......silence: probe_ns.....    |1|                |4|
 */
#include "ib/rc_retry.h"

#include "base/check.h"
#include "base/least.h"
#include "ib/conn.h"
#include "ib/ee.h"
#include "ib/migrate.h"
#include "ib/port.h"
#include "ib/rc.h"
#include "ib/rc_holes.h"
#include "ib/requester.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

enum {
	PROBE_RTTS = 3,
	PROBE_READS = 3, /* so much longer, as all of an answer would come twice */
	PROBE_SHARE = 64,
	SRTT_SHARE = 8, /* RFC 6298 section 2.3: alpha is 1/8, beta 1/4, K 4 */
	RTTVAR_SHARE = 4,
	RTTVAR_TIMES = 4,
	REPAIR_SHARE = 4, /* of a round trip that the answer to a repair may be late */
	LAST_TRIES = 8,
	ALONES_MAX = 3
};

/* Less is nothing to a scheduler. */
static const uint64_t probe_least_ns = 200 * 1000;

/* Between last tries: the peer may be there after all, and want a processor. */
static const uint64_t last_try_ns = 20 * 1000 * 1000;

/* For a connection without a timeout: that of code 14, which most programs ask for. */
static const uint64_t complaint_ns = UINT64_C(4096) << 14;

/*
 * Of what is done about a missing receive. From any it ends with the request, or with a receive; it
 * is asked for in place of an RNR NAK that would be the last, so who was tried need not be asked.
 * Not traced: the NAKs that it comes from are.
 */
static const uint32_t rnr_moves[RNR_STATES] = {
	[RNR_NONE] = 1U << RNR_LEFT | 1U << RNR_ASKED,
	[RNR_TRIED] = 1U << RNR_NONE | 1U << RNR_LEFT, /* retries may be given anew meanwhile */
	[RNR_LEFT] = 1U << RNR_NONE,
	[RNR_ASKED] = 1U << RNR_NONE | 1U << RNR_ASK_DUE | 1U << RNR_TRIED,
	[RNR_ASK_DUE] = 1U << RNR_NONE | 1U << RNR_ASKED | 1U << RNR_TRIED,
};

void requester_move(struct requester *q, enum rnr to)
{
	CHECK(q->rnr == to || rnr_moves[q->rnr] & 1U << to);
	q->rnr = to;
}

/*
 * Of the latest probe. A Read stays probed when psn_una has passed it, until that is known to be
 * all (rc_retry_read_alone); any other packet only until psn_una moves, so no Read can follow it.
 */
static const uint32_t probed_moves[PROBED_STATES] = {
	[PROBED_NONE] = 1U << PROBED_PACKET | 1U << PROBED_READ,
	[PROBED_PACKET] = 1U << PROBED_NONE,
	[PROBED_READ] = 1U << PROBED_NONE | 1U << PROBED_PACKET,
};

void requester_move_probed(struct requester *q, enum probed to)
{
	CHECK(q->probed == to || probed_moves[q->probed] & 1U << to);
	q->probed = to;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Whether the oldest is a Read that nothing is known to be missing of. */
static bool is_read_awaited(const struct ib_conn *c)
{
	const struct requester *q = &c->req;

	return q->count > 0 && q->hole_count == 0 && q->qp &&
	       wqe_is_read(rc_req_wqe(c, rc_req_at(q, 0)));
}

/*
 * RFC 6298 section 2, but that peers acknowledge at once where they are asked to, and are asked
 * twice within this time at least. What many packets answer is asked for again early only of a peer
 * whose round trip is known.
 */
static uint64_t probe_first(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	uint64_t share_ns = c->timeout_ns / PROBE_SHARE, ns;

	if (q->srtt_ns > 0)
		ns = most(probe_least_ns, q->srtt_ns + most((PROBE_RTTS - 1) * q->srtt_ns,
							    RTTVAR_TIMES * q->rttvar_ns));
	else
		ns = share_ns;
	if (is_read_awaited(c)) {
		if (q->srtt_ns == 0 && rc_req_at(q, 0)->count > 1)
			return c->timeout_ns;
		ns = most(PROBE_READS * ns, share_ns);
	}
	return least(ns, c->timeout_ns);
}

static void wait_for_answer(struct ib_conn *c, uint64_t now_ns, uint64_t ns)
{
	if (c->timeout_ns != UINT64_MAX)
		conn_deadline(c, now_ns + ns);
}

void rc_retry_sent(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	if (q->deadline_ns != UINT64_MAX)
		return;
	if (c->is_peer_gone) {
		conn_deadline(c, now_ns);
		return;
	}
	q->progress_ns = now_ns;
	q->probe_ns = probe_first(c);
	wait_for_answer(c, now_ns, q->probe_ns);
}

/* RFC 6298 sections 2.2, 2.3. By Karn's rule what was sent twice is not timed: is_timed is off. */
static void take_round_trip(struct requester *q, uint64_t now_ns)
{
	uint64_t ns = now_ns - q->timed_ns, diff_ns;

	q->is_timed = false;
	if (q->srtt_ns == 0) {
		q->srtt_ns = ns;
		q->rttvar_ns = ns / 2;
		return;
	}
	diff_ns = most(q->srtt_ns, ns) - least(q->srtt_ns, ns);
	q->rttvar_ns = q->rttvar_ns - q->rttvar_ns / RTTVAR_SHARE + diff_ns / RTTVAR_SHARE;
	q->srtt_ns = q->srtt_ns - q->srtt_ns / SRTT_SHARE + ns / SRTT_SHARE;
}

void rc_retry_answered(struct requester *q, uint64_t now_ns, uint32_t psn)
{
	if (q->is_timed && psn == q->timed_psn)
		take_round_trip(q, now_ns);
}

void rc_retry_alive(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	q->is_missed = false;
	q->retries_left = c->retries;
	q->progress_ns = now_ns;
}

void rc_retry_busy(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	q->progress_ns = now_ns;
	if (q->deadline_ns != UINT64_MAX && !requester_is_waiting(q))
		wait_for_answer(c, now_ns, q->probe_ns);
}

/* Where a probe had to find out how far the peer is, it is not left at that for long. */
void rc_retry_progress(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;
	bool was_probed = q->probed == PROBED_PACKET && q->srtt_ns > 0;

	if (q->is_timed && iba_psn_is_before(q->timed_psn, q->psn_una))
		take_round_trip(q, now_ns);
	if (requester_is_waiting(q))
		requester_move(q, RNR_NONE);
	q->is_probe_due = q->is_repairing = false;
	if (q->probed == PROBED_PACKET)
		requester_move_probed(q, PROBED_NONE);
	if (q->is_filling && !iba_psn_is_before(q->psn_una, q->fill_end))
		q->is_filling = false;
	rc_retry_alive(c, now_ns);
	q->probe_ns = probe_first(c);
	if (q->psn_sent == q->psn_una)
		q->deadline_ns = UINT64_MAX; /* nothing is out */
	else
		wait_for_answer(c, now_ns, was_probed ? q->srtt_ns / 2 : q->probe_ns);
	rc_go_on(c);
}

/* Where the next packet comes from; and what of the way there are numbers of Reads. */
static void seek(struct ib_conn *c, uint32_t psn)
{
	struct requester *q = &c->req;

	q->psn_send = psn;
	q->read_psns = 0;
	/* Bound: the requests on their way. */
	for (q->at = 0; q->at < q->count; q->at++) {
		const struct sent *s = rc_req_at(q, q->at);
		const struct send_wqe *wqe = rc_req_wqe(c, s);
		uint32_t from = q->at > 0 ? s->psn : q->psn_una;
		uint32_t to = iba_psn_add(s->psn, s->count);

		if (iba_psn_is_before(psn, to))
			return;
		if (wqe && wqe_is_read(wqe))
			q->read_psns += iba_psn_distance(from, to);
	}
}

void rc_retry_go_back(struct ib_conn *c, uint64_t now_ns, uint32_t psn)
{
	struct requester *q = &c->req;

	seek(c, psn);
	q->unasked = 0;
	q->is_timed = q->is_probe_due = q->is_repairing = q->is_filling = false;
	requester_move_probed(q, PROBED_NONE);
	q->back_psn = psn;
	q->back_ns = now_ns;
	if (q->deadline_ns != UINT64_MAX)
		wait_for_answer(c, now_ns, q->probe_ns);
	conn_ready(c);
}

void rc_retry_ask_again(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	/* A peer that was silent for longer, and whose round trip is not known, may be slow. */
	if (q->probed != PROBED_READ || q->srtt_ns > 0)
		q->probe_ns = probe_first(c);
	wait_for_answer(c, now_ns, q->probe_ns);
	conn_ready(c);
}

/* Of the Reads that are out the oldest was asked for again and has its answer, and that is all. */
static bool is_read_alone(const struct requester *q)
{
	return q->probed == PROBED_READ && q->count > 0 && q->psn_una == q->probe_end &&
	       q->psn_reported == q->psn_una && q->psn_send == q->psn_sent &&
	       q->psn_una != q->psn_sent;
}

/*
 * The peer may have dropped the Reads behind it as too early, and said so by a NAK that was lost;
 * or all their answers were lost. To wait for each would take a silence for every Read that is out.
 * But if the answer is that to the first request, which was slow, the others are on their way: that
 * shows soon. Of a peer whose round trip is not known it does not, so one is asked for at a time.
 */
void rc_retry_read_alone(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	if (!is_read_alone(q)) {
		requester_move_probed(q, PROBED_NONE);
	} else if (q->srtt_ns > 0) {
		wait_for_answer(c, now_ns, q->srtt_ns / 2);
	} else {
		q->is_probe_due = true;
		rc_retry_ask_again(c, now_ns);
	}
}

/*
 * IBA 9.9.2.4.1: takes one of the consumer's retries, those of the alternate path after those of
 * the path (IBA 17.2.8.1). False: they are spent, and that is the end.
 * Whether the peer was heard since the one before says why.
 */
static bool retry_or_end(struct ib_conn *c)
{
	struct requester *q = &c->req;
	enum weft_reason reason = q->is_missed ? WEFT_R_IB_LOST : WEFT_R_PEER_GONE;

	q->is_missed = false;
	if (q->retries_left > 0) {
		q->retries_left--;
		return true;
	}
	if (migrate_away(c))
		return true;
	if (c->is_ee)
		ee_fail(ee_of(c), reason);
	else
		rc_req_fail(c, WEFT_ERR_PEER_GONE, reason);
	return false;
}

/* Complaints of the same packet that come sooner than this are of before it was sent again. */
static uint64_t quiet_until(const struct ib_conn *c)
{
	const struct requester *q = &c->req;
	uint64_t rtt_ns = c->timeout_ns == UINT64_MAX ? probe_least_ns
						      : c->timeout_ns / PROBE_SHARE;

	return q->back_ns + (q->srtt_ns > 0 ? q->srtt_ns : rtt_ns) / 2;
}

/* ---- Repairs -------------------------------------------------------------------------------- */

/*
 * A peer that keeps what comes early, as ours does (rc_early.c), needs the lost packet alone. That
 * it is one shows when it first lost a packet and all goes again: it acknowledges more than it was
 * sent again. No other peer is treated otherwise than by going back.
 *
 *	sent      |1|2|3|4|5|6|          |2|7|8|
 *	arrived       |1| x |3|4|5|6|        |2|7|8|
 *	answers             NAK 2            ACK 6 ...
 */

bool rc_retry_is_ahead(const struct requester *q, uint32_t psn)
{
	return q->psn_send != q->psn_sent && q->psn_una == q->back_psn &&
	       !iba_psn_is_before(psn, q->psn_send);
}

/*
 * Nothing is lost by shared memory. Reads are not kept, as rc_early.c says. Without a timeout it
 * would not be noticed that the repair was lost, too.
 */
static bool can_repair(const struct ib_conn *c)
{
	const struct requester *q = &c->req;

	return q->is_keeping && c->path.near_number == 0 && conn_can_wait(c) && q->count > 0 &&
	       c->timeout_ns != UINT64_MAX && q->hole_count == 0 && q->qp->sq.reads == 0;
}

/* The oldest packet goes again, alone; and once more soon, if the repair is lost, too. */
static void repair(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	q->is_probe_due = q->is_repairing = true;
	q->back_psn = q->psn_una;
	q->back_ns = now_ns;
	q->probe_ns = probe_first(c);
	if (q->srtt_ns > 0)
		q->probe_ns = least(q->probe_ns, q->srtt_ns + most(q->srtt_ns / REPAIR_SHARE,
								   RTTVAR_TIMES * q->rttvar_ns));
	wait_for_answer(c, now_ns, q->probe_ns);
	conn_ready(c);
}

/*
 * All before probe_high has arrived, or was lost, and more than one was. A round trip for each of
 * these is long: where nothing new may be sent, the packets behind the oldest go again, too.
 */
static void fill_begin(struct requester *q)
{
	uint32_t next = iba_psn_add(q->psn_una, 1);

	if (!q->is_filling || iba_psn_is_before(q->fill_psn, next))
		q->fill_psn = next;
	q->fill_end = q->probe_high;
	q->is_filling = true;
}

/* The peer has what was to go again, but for the oldest, which was lost, too. */
void rc_retry_kept(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	q->is_keeping = true;
	q->alones = 0;
	if (!can_repair(c))
		return;
	seek(c, q->psn_sent);
	if (q->psn_una != q->psn_sent)
		repair(c, now_ns);
}

/*
 * Alone: what went behind it had not arrived, or was dropped as too early, so all of it goes again
 * (as RFC 5682 section 2.1 step 2a). If it is one of the packet as it was sent first, that costs
 * what is on its way, once. A peer that keeps what comes early misses the next one, too; but if
 * that happens often, it keeps nothing any more, or has lost many in a row.
 *
 * Not alone, but not with all that was sent before it: the next one was lost, too (RFC 6582 section
 * 3.2, a partial acknowledgement).
 */
void rc_retry_probed(struct ib_conn *c, uint64_t now_ns, bool is_alone, bool was_lost)
{
	struct requester *q = &c->req;
	bool has_more = iba_psn_is_before(q->psn_una, q->probe_high);

	if (!is_alone)
		q->alones = 0;
	else if (was_lost && has_more && ++q->alones >= ALONES_MAX)
		q->is_keeping = false;
	if (!has_more || q->hole_count > 0)
		return;
	if (was_lost && can_repair(c) && q->psn_send == q->psn_sent) {
		fill_begin(q);
		repair(c, now_ns);
	} else if (is_alone) {
		rc_retry_go_back(c, now_ns, q->psn_una);
	}
}

/*
 * While what was lost is on its way again, what had been sent before still makes the peer complain.
 * One that misses another packet has had this one: that is a loss of its own. A complaint that may
 * be old is looked into by a probe, soon.
 *
 * IBA 9.9.2.4.1 takes a retry for each NAK. On a network that drops and reorders they would soon be
 * spent, by complaints of one loss: as with silence a retry is a whole timeout in which nothing got
 * better, so a peer that always complains is given up, too. Who waits for answers for ever has no
 * timeout, and is lent one here.
 */
void rc_retry_lost(struct ib_conn *c, uint64_t now_ns, uint32_t psn)
{
	struct requester *q = &c->req;

	if (requester_is_waiting(q))
		return;
	if (psn == q->back_psn && now_ns < quiet_until(c)) {
		if (quiet_until(c) < q->deadline_ns && !q->is_repairing)
			conn_deadline(c, quiet_until(c));
		return;
	}
	migrate_unstripe(c);
	if (!q->is_missed) {
		q->is_missed = true;
		q->missed_ns = now_ns;
	}
	if (c->timeout_ns == UINT64_MAX && now_ns - q->missed_ns >= complaint_ns &&
	    !retry_or_end(c))
		return;
	if (can_repair(c) && psn == q->psn_una)
		repair(c, now_ns);
	else
		rc_retry_go_back(c, now_ns, psn);
}

/* IBA 9.7.5.2.8 and 9.9.2.4.2; receiver_wait_ns is the consumer's own measure. */
void rc_retry_not_ready(struct ib_conn *c, uint64_t now_ns, uint8_t timer_code)
{
	struct requester *q = &c->req;
	uint64_t wait_ns = iba_rnr_ns(timer_code);

	if (c->is_ee) {
		ee_request_suspend(c, now_ns, timer_code);
		return;
	}
	if (requester_is_waiting(q))
		return;
	if (q->rnr_since_ns == UINT64_MAX)
		q->rnr_since_ns = now_ns;
	if ((c->rnr_retries != IB_RNR_RETRY_FOREVER && q->rnr_left == 0) ||
	    now_ns - q->rnr_since_ns >= c->req.qp->receiver_wait_ns) {
		rc_req_fail(c, WEFT_ERR_RECEIVER_NOT_READY, WEFT_R_RECEIVER_NOT_READY);
		return;
	}
	if (q->rnr_left > 0 && c->rnr_retries != IB_RNR_RETRY_FOREVER)
		q->rnr_left--;
	rc_retry_go_back(c, now_ns, q->psn_una);
	requester_move(q, RNR_LEFT);
	q->retries_left = c->retries; /* it is there, and answers */
	conn_deadline(c, now_ns + wait_ns);
}

bool rc_retry_is_last(const struct ib_conn *c)
{
	/* 7, which is for ever, is never spent. */
	return c->req.rnr_left == 0 && c->req.rnr != RNR_TRIED && c->timeout_ns != UINT64_MAX;
}

static void wait_end(struct ib_conn *c, enum rnr to)
{
	requester_move(&c->req, to);
	c->req.deadline_ns = UINT64_MAX;
	conn_ready(c);
}

void rc_retry_wait_end(struct ib_conn *c)
{
	wait_end(c, RNR_NONE);
}

/*
 * The peer tells when it has a receive, if it does as we do. That may be lost, so it is asked, now
 * and then, for as long as it might be silent, or the consumer waits for a receive; then it is
 * tried. Who wants no RNR retries may still have a receiver that is slower than the sender.
 */
void rc_retry_spare(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	if (!rc_retry_is_last(c) || requester_is_waiting(q) || !rc_req_is_starved(c))
		return;
	if (q->rnr_since_ns == UINT64_MAX)
		q->rnr_since_ns = now_ns;
	requester_move(q, RNR_ASKED);
	q->probe_ns = probe_first(c);
	conn_deadline(c, now_ns + q->probe_ns);
}

static void ask(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;
	uint64_t silence_ns = c->timeout_ns * (c->retries + 1U);
	uint64_t patience_ns = q->qp->receiver_wait_ns, left_ns;

	if (patience_ns > silence_ns)
		patience_ns = silence_ns;
	if (now_ns - q->rnr_since_ns >= patience_ns) {
		wait_end(c, RNR_TRIED);
		return;
	}
	left_ns = patience_ns - (now_ns - q->rnr_since_ns);
	requester_move(q, RNR_ASK_DUE);
	q->probe_ns = 2 * q->probe_ns < c->timeout_ns ? 2 * q->probe_ns : c->timeout_ns;
	conn_deadline(c, now_ns + (q->probe_ns < left_ns ? q->probe_ns : left_ns));
	conn_ready(c);
}

/* If nothing went since all was to go again, that goes on, as far as it may. */
void rc_retry_probe(struct ib_conn *c)
{
	struct requester *q = &c->req;

	if (q->hole_count > 0)
		rc_holes_ask_first(q);
	else
		q->is_probe_due = q->psn_send != q->psn_una;
	conn_ready(c);
}

/*
 * The consumer's retries are counted by whole timeouts without a word, not by our probes. It may be
 * that nothing was lost and the peer has no time: not all is sent again before it says so.
 */
static void timed_out(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	c->port->counts.timeouts++;
	tally_of(c->port, q->qp)->timeouts++;
	migrate_unstripe(c);
	note(c, q->qp, TRACE_TIMEOUT, q->psn_una, 0);
	q->progress_ns = now_ns;
	q->is_timed = false;
	q->srtt_ns = 0; /* whatever it was, it is not that any more */
	if (!retry_or_end(c))
		return;
	/* A context has one message under way: there is little to send again. */
	if (c->is_ee)
		rc_retry_go_back(c, now_ns, q->psn_una);
	else
		rc_retry_probe(c);
}

/* Where the round trip is not known all of them take a timeout, as one retry does. */
static void try_again(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;
	uint64_t gap_ns = c->timeout_ns / LAST_TRIES;

	if (q->srtt_ns > 0)
		gap_ns = least(gap_ns, most(last_try_ns, probe_first(c)));
	if (--q->tries_left == 0) {
		rc_req_fail(c, WEFT_ERR_PEER_GONE, WEFT_R_PEER_GONE);
		return;
	}
	rc_retry_probe(c);
	wait_for_answer(c, now_ns, gap_ns);
}

/* A requester that waits for ever, or was told when to go on, waits still. */
void rc_retry_doubt(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;

	if (!c->qp || q->psn_una == q->psn_sent || q->tries_left > 0 || requester_is_waiting(q) ||
	    c->timeout_ns == UINT64_MAX)
		return;
	q->tries_left = LAST_TRIES + 1; /* the last one has its time, too */
	conn_deadline(c, now_ns);
}

void rc_retry_expire(struct ib_conn *c, uint64_t now_ns)
{
	struct requester *q = &c->req;
	uint64_t left_ns;

	q->deadline_ns = UINT64_MAX;
	if (q->count == 0)
		return;
	if (c->is_peer_gone) {
		rc_req_fail(c, WEFT_ERR_PEER_GONE, WEFT_R_PEER_GONE);
		return;
	}
	if (requester_is_asking(q)) {
		ask(c, now_ns);
		return;
	}
	if (q->rnr == RNR_LEFT) {
		requester_move(q, RNR_NONE);
		conn_ready(c);
		return;
	}
	/* The peer cannot answer what is waiting here for its page. */
	if (q->is_absent && q->psn_una == q->absent_psn)
		return;
	if (q->tries_left > 0) {
		try_again(c, now_ns);
		return;
	}
	if (is_read_alone(q))
		rc_retry_go_back(c, now_ns, q->psn_una);
	else if (now_ns - q->progress_ns >= c->timeout_ns)
		timed_out(c, now_ns);
	else
		rc_retry_probe(c);
	if (q->count == 0) /* that was the end */
		return;
	q->probe_ns = least(2 * q->probe_ns, c->timeout_ns);
	left_ns = c->timeout_ns - (now_ns - q->progress_ns);
	wait_for_answer(c, now_ns, q->probe_ns < left_ns ? q->probe_ns : left_ns);
}

void rc_retry_give_up(struct ib_conn *c, uint64_t now_ns)
{
	c->is_peer_gone = true;
	if (c->qp && c->req.count > 0)
		conn_deadline(c, now_ns);
}
