/* SPDX-License-Identifier: BSD-2-Clause */
/* The reliable connection as a whole: packets in and out, by its requester and its responder. */
#pragma once

#include "ib/ib.h"

/* Limits of PSNs. */
enum {
	IB_READ_PSNS_MAX = 1 << 22, /* of one Read's response */
	IB_PSNS_MAX = (1 << 23) - 1 /* in flight: half of the PSN space */
};

/* Takes a packet of the peer; makes the next packet to the peer, false: nothing to send. */
enum weft_reason rc_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
bool rc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* As many calls of rc_next() would: see ib_port_send_more(). */
uint32_t rc_more(struct ib_conn *c, uint64_t now_ns, const struct ib_more *more);

/* Whether rc_next() would have nothing, whatever the time and the window. */
bool rc_is_silent(const struct ib_conn *c);

/* Something has changed for the requester: it goes on, unless there is nothing to go on with. */
void rc_go_on(struct ib_conn *c);
