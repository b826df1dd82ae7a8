/* SPDX-License-Identifier: BSD-2-Clause */
/* Timeouts and retries of a requester: when packets are sent again, and when it gives up. */
#pragma once

#include "ib/conn.h"

/* Change the RNR state, or what was probed; only moves of the tables are legal. */
void requester_move(struct requester *q, enum rnr to);
void requester_move_probed(struct requester *q, enum probed to);

/* Resends everything from this packet on. */
void rc_retry_go_back(struct ib_conn *c, uint64_t now_ns, uint32_t psn);

/*
 * After a NAK of the peer for this packet: resends it alone if the peer keeps those behind it, else
 * everything from it on; limited by the retries.
 */
void rc_retry_lost(struct ib_conn *c, uint64_t now_ns, uint32_t psn);

/* Asks for the oldest that is missing: how far the peer is, or the response of a Read. */
void rc_retry_probe(struct ib_conn *c);

/*
 * Whether an acknowledgement of this PSN, after a NAK, tells that the peer keeps what comes early;
 * it does.
 */
bool rc_retry_is_ahead(const struct requester *q, uint32_t psn);
void rc_retry_kept(struct ib_conn *c, uint64_t now_ns);

/* A probe was acknowledged, alone or with packets behind it. was_lost: it was a repair. */
void rc_retry_probed(struct ib_conn *c, uint64_t now_ns, bool is_alone, bool was_lost);

/* A response was lost: requests it alone again. */
void rc_retry_ask_again(struct ib_conn *c, uint64_t now_ns);

/*
 * A repeated Read has its response, and nothing was heard of the requests after it: they are
 * repeated if nothing comes soon.
 */
void rc_retry_read_alone(struct ib_conn *c, uint64_t now_ns);
void rc_retry_not_ready(struct ib_conn *c, uint64_t now_ns, uint8_t timer_code);

/*
 * Whether another RNR NAK for the oldest request would exhaust its retries: then the peer is asked
 * for credits first. rc_retry_spare: starts to ask, if all other requests are done.
 */
bool rc_retry_is_last(const struct ib_conn *c);
void rc_retry_spare(struct ib_conn *c, uint64_t now_ns);

/* Ends the wait for a receive: there is one, or the peer will not say. */
void rc_retry_wait_end(struct ib_conn *c);

/* A new Read response came, with the highest PSN so far. */
void rc_retry_answered(struct requester *q, uint64_t now_ns, uint32_t psn);

/* The oldest packet was acknowledged; a response came, but not to the oldest; a packet was sent. */
void rc_retry_progress(struct ib_conn *c, uint64_t now_ns);
void rc_retry_alive(struct ib_conn *c, uint64_t now_ns);
void rc_retry_sent(struct ib_conn *c, uint64_t now_ns);
void rc_retry_expire(struct ib_conn *c, uint64_t now_ns);

/* The peer is busy with an earlier answer: the silence begins anew. */
void rc_retry_busy(struct ib_conn *c, uint64_t now_ns);

/*
 * The peer's host says that nothing receives what was sent. That may be forged, so the oldest
 * packet goes again a few times soon, and the end comes only if none of these is answered: retries
 * exceeded, after one timeout at most. rc_retry_heard: a packet of the peer came, so it is there.
 */
void rc_retry_doubt(struct ib_conn *c, uint64_t now_ns);
static inline void rc_retry_heard(struct ib_conn *c)
{
	c->req.tries_left = 0;
}

/* The peer is known to be gone: its answers are not waited for. */
void rc_retry_give_up(struct ib_conn *c, uint64_t now_ns);
