/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes and Reads in the memory of a peer on this host, see struct ib_direct. */
#pragma once

#include "ib/ib.h"

/* Executes a request without packets, and ends it. False: packets must carry it. */
bool direct_issue(struct ib_conn *c, struct send_wqe *wqe);

/* Whether a request waits for those in flight, to go direct then. */
bool direct_awaits(const struct ib_conn *c, const struct send_wqe *wqe);

/* A connection begins, or takes another path: both ends find out anew whether they agree. */
void direct_begin(struct ib_conn *c);

/* Grants the peer what the queue pair allows now, in place of what it was granted; ends that. */
void direct_grant(struct ib_conn *c);
void direct_revoke(struct ib_conn *c);
