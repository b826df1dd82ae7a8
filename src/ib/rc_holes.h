/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Missing responses: parts of Read and atomic responses that did not arrive, though the peer has
 * executed the requests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ib_conn;
struct requester;

/* Missing packets of a Read or atomic response. */
struct hole {
	uint32_t from, to; /* PSNs, without `to` */
	uint32_t read;	   /* first PSN of the request */
	uint32_t asked;	   /* number of the latest repeated request for it; 0: none yet */
	uint32_t later;	   /* first PSN of the request sent after it */
};

/* Response packets that would make more holes are dropped. A context has one message in flight. */
enum { IB_HOLES_MAX = 64, IB_EE_HOLES_MAX = 16, IB_HOLE_LISTS = 64 };

/* Lent to an RC connection while responses are missing: most never need one. */
struct hole_list {
	struct hole_list *next; /* of the free ones */
	struct hole holes[IB_HOLES_MAX + 1];
};

/* No response is missing any more: returns the list to the port. */
void rc_holes_return(struct requester *q);

/*
 * The peer has executed all before this PSN, which is after psn_high: sets psn_high to it, and
 * notes the responses in between as missing. False: there is no room to note them all, and psn_high
 * advances to the first of those without room.
 */
bool rc_holes_extend(struct ib_conn *c, uint32_t high);

/* Whether the response at this PSN, before psn_high, is missing and can be marked; marks it. */
bool rc_holes_has(struct requester *q, uint32_t psn);
void rc_holes_fill(struct requester *q, uint32_t psn);

/* A new response has come, with the highest PSN so far. */
void rc_holes_passed(struct requester *q, uint32_t psn);

/* The first hole to request now, or NULL; it was requested; the first is to be requested again. */
struct hole *rc_holes_due(const struct requester *q);
void rc_holes_asked(struct requester *q, struct hole *hole);
void rc_holes_ask_first(struct requester *q);
