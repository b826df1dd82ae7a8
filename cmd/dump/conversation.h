/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP connections of a capture: packets in, what iWARP or iSCSI said in them out. A connection
 * is known for iWARP by an MPA start frame, at its beginning or, for upper protocols that talk
 * plainly first, at the beginning of a later segment. Other connections to the port of iSCSI are
 * iSCSI's. The others are only counted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/dump/iscsi_dissect.h"
#include "cmd/dump/mpa_dissect.h"
#include "cmd/dump/packet.h"
#include "cmd/dump/tcp_stream.h"

enum { CONVERSATION_BUCKETS = 4096 };

struct conversation {
	struct conversation *chained; /* in its bucket */
	struct conversation *later;   /* in the order in which they began */
	struct packet_end ends[2];
	struct tcp_stream streams[2];
	uint32_t syn[2], acked[2]; /* of the side; acked by the other */
	bool has_syn[2], has_acked[2];
	bool is_ended[2];	     /* the side has said all, and this was told */
	bool is_over;		     /* as was the whole connection */
	uint32_t number;	     /* from 1, in the order of their first items; 0: none yet */
	int initiator;		     /* the side that sent the MPA Request, or logs in */
	struct mpa_dissect *mpa;     /* NULL: it does not speak iWARP */
	struct iscsi_dissect *iscsi; /* NULL: nor iSCSI */
};

struct conversations {
	struct conversation *buckets[CONVERSATION_BUCKETS];
	struct conversation *first, *last;
	uint32_t mpa_count, iscsi_count, other_count, numbered;
	uint16_t iscsi_port; /* 0: there is no iSCSI */
	void (*tell)(void *context, const struct conversation *c, const struct mpa_item *item);
	void (*tell_iscsi)(void *context, const struct conversation *c,
			   const struct iscsi_item *item);
	void *context;
};

/* All zero but what tells, context and iscsi_port, which the caller sets: a fresh table. */

void conversations_take(struct conversations *all, const struct packet *p);

/* The capture ends: what was left half is told. */
void conversations_end(struct conversations *all);

void conversations_fini(struct conversations *all);
