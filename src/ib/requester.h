/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester: PSNs of the requests, which of them are in flight, credits and retries. rc_req.c
 * turns requests into packets, rc_comp.c takes the responses and acknowledgements of the peer.
 */
#pragma once

#include "ib/ib.h"
#include "wire/iba_psn.h"

struct hole;

/* SEND-11: a request in flight, or about to be sent. Its slot tells where its data is. */
struct sent {
	uint32_t psn;	/* of its first packet; of a Read: of the first response packet */
	uint32_t count; /* PSNs that it takes */
	uint32_t slot;	/* of the send queue */
};

/* How to handle a peer that has no receive for the oldest request. */
enum rnr {
	RNR_NONE,    /* the peer may have a receive */
	RNR_TRIED,   /* asked for credits long enough: send the request, whatever comes */
	RNR_LEFT,    /* waiting out an RNR NAK; in this and the later states no request is sent */
	RNR_ASKED,   /* asking for credits now and then, as another RNR NAK would be fatal */
	RNR_ASK_DUE, /* the same, and it is time to ask */
	RNR_STATES
};

/*
 * The latest probe: the packet at psn_una was sent again, alone, to hear how far the peer is.
 * Whether the next one is due is another matter: it may be while the one before has no answer.
 */
enum probed {
	PROBED_NONE,   /* there is none, or it was answered */
	PROBED_PACKET, /* of probe_psn, not a Read: nothing new was heard since */
	PROBED_READ,   /* of a Read, of which nothing was heard since; its PSNs end at probe_end */
	PROBED_STATES
};

struct requester {
	struct weft_qp *qp; /* owner of the requests; NULL: it has left */
	struct sent *sent;  /* a ring, as long as the send queue */
	uint32_t max, first, count;
	uint32_t at;	    /* index from first: the request whose packets are sent next */
	uint32_t psn_una;   /* the oldest without acknowledgement or response */
	uint32_t psn_high;  /* the peer has executed all before it */
	uint32_t psn_send;  /* of the next packet */
	uint32_t psn_sent;  /* one after the highest ever sent */
	uint32_t psn_next;  /* of the next request */
	uint32_t read_psns; /* PSNs of Reads from psn_una to psn_send */
	uint32_t ssn;	    /* IBA 9.7.7.2: of the latest request, counted from 1 */
	uint32_t unasked;   /* packets since the last with AckReq */
	/* When the latest with AckReq went; asked_ns: or the first of those in flight. */
	uint64_t hurry_ns, asked_ns;
	uint64_t kept_bytes; /* of Sends and Writes in flight, see struct ib_counts */
	/* Missing responses before psn_high, in order. The oldest: psn_una, if it is a Read. */
	struct hole *holes; /* RC: NULL if none is missing */
	uint32_t hole_max, hole_count;
	uint32_t missing;      /* packets of all holes */
	uint32_t asks;	       /* repeated requests for missing responses so far */
	uint64_t repeats_due;  /* packets that repeated Reads may still bring a second time */
	uint32_t psn_reported; /* psn_high, or higher if holes had no room for all */
	/* SEND-09: the data of the packet at absent_psn is paged out, and was asked for. */
	uint32_t absent_psn;
	bool is_absent;
	bool is_sink_absent; /* an answer was dropped, as its page was away */
	/* IBA 9.7.7.2, end-to-end credits: messages that need a receive up to limit_ssn go. */
	bool is_limited;
	bool is_answered;  /* a request has ended: the peer has the same connection */
	uint32_t read_tag; /* of the request that ended last, if that was a Read; or 0 */
	uint32_t psn_first;
	uint8_t retries_left, rnr_left;
	uint32_t limit_ssn;
	/* Retries. */
	enum rnr rnr;
	enum probed probed;
	uint8_t tries_left; /* its host says it is gone: last tries; 0: nothing says so */
	bool is_missed;	    /* the peer NAKed a loss since the last progress or retry */
	bool is_probe_due;  /* a probe is to be sent */
	bool is_repairing;  /* that at psn_una is known to be lost, and goes again */
	bool is_timed;	    /* the packet at timed_psn measures the round trip */
	uint32_t probe_psn, probe_end; /* of a Read: without probe_end */
	uint32_t probe_high;	       /* psn_sent when the packet at probe_psn was probed first */
	bool is_keeping; /* the peer keeps what comes early: it acknowledged more than was resent */
	uint8_t alones;	 /* repairs in a row that it acknowledged alone */
	/* Several packets were lost: what was sent before goes again where the line is idle. */
	bool is_filling;
	uint32_t fill_psn, fill_end; /* from the next one on, without fill_end */
	uint32_t back_psn;	     /* all from there on was sent again, at back_ns */
	uint64_t rnr_since_ns; /* when the oldest request first found no receive; or UINT64_MAX */
	uint64_t deadline_ns;  /* UINT64_MAX: none */
	uint64_t progress_ns;  /* of the latest progress, or of the first packet in flight */
	uint64_t back_ns;
	uint64_t missed_ns; /* since when is_missed */
	uint64_t probe_ns;  /* silence until the next probe */
	/* Round trips, by RFC 6298; srtt_ns 0: unknown. */
	uint64_t timed_ns;
	uint64_t srtt_ns, rttvar_ns;
	uint32_t timed_psn;
};

static inline bool requester_is_waiting(const struct requester *q)
{
	return q->rnr >= RNR_LEFT;
}

static inline bool requester_is_asking(const struct requester *q)
{
	return q->rnr >= RNR_ASKED;
}

/* rc_req.c */
enum issue rc_issue(struct ib_conn *c, struct send_wqe *wqe);
bool rc_req_can_send(const struct ib_conn *c);

/* The next packet, if rc_req_can_send(). False: there is none after all. */
bool rc_req_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* Part of rc_more(). */
uint32_t rc_req_more(struct ib_conn *c, uint64_t now_ns, const struct ib_more *more);

/* Whether the next request consumes a receive of the peer. */
bool rc_req_needs_receive(const struct ib_conn *c);

/* Whether all requests wait for a receive that the peer is known not to have (IBA 9.7.7.2). */
bool rc_req_is_starved(const struct ib_conn *c);

/* The n-th request, from the oldest on. */
static inline struct sent *rc_req_at(const struct requester *q, uint32_t n)
{
	uint32_t i = q->first + n;

	return &q->sent[i < q->max ? i : i - q->max];
}

/* Index, from the oldest, of the request that has this PSN; q->count: none. */
uint32_t rc_req_find(const struct requester *q, uint32_t psn);

/* IBA 9.7.7.2: the SSN of the n-th request. */
static inline uint32_t rc_req_ssn(const struct requester *q, uint32_t n)
{
	return iba_psn_add(q->ssn, n + 1 - q->count);
}

/* The data of the next packet is not available. True: it waits for a page; false: it failed. */
bool request_waits(struct ib_conn *c, struct send_wqe *wqe, enum weft_reason reason);

/* Removes the oldest request, which has ended. */
void rc_req_pop(struct ib_conn *c);

/* Fails the oldest request; nothing more is sent. */
void rc_req_fail(struct ib_conn *c, enum weft_status status, enum weft_reason reason);

/* rc_comp.c */

/* The answer of a Read or an atomic has been placed: ends it. */
void rc_read_end(struct ib_conn *c, struct send_wqe *wqe);
enum weft_reason rc_comp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
