/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a link (FAB-05, FAB-07, FAB-09, FAB-10): sends frames as flits, takes in those of the
 * other end. Flits are numbered; the other end acknowledges several by one, and asks for those that
 * were damaged or lost. A flit is sent only if the other end has room for it on its lane.
 *
 * The caller carries flits, as bytes, and says when a link is up. It gives frames (fabric/switch.h,
 * fabric/end.h) and takes those that have come from `in`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/arbiter.h"
#include "fabric/lane.h"

enum {
	FABRIC_WINDOW = 64,  /* flits sent and not acknowledged */
	FABRIC_ACK_FLITS = 8 /* acknowledged by one, at most */
};

struct fabric_link_cfg {
	uint32_t lanes;	       /* 0 to lanes - 1, and lane 15; at most 15 */
	uint32_t lane_blocks;  /* of each buffer */
	uint64_t ack_delay_ns; /* until fewer flits are acknowledged */
	uint64_t resend_ns;    /* without an acknowledgement until flits are sent again */
};

struct fabric_link_counts {
	uint64_t flits_sent, flits_resent, acks_sent;
	uint64_t flits_taken, acks_taken;
	uint64_t frames_sent, frames_taken, frames_lost; /* lost: the link went down */
	uint64_t damaged, malformed, overruns;
	uint64_t waits; /* a frame had no credit to go on */
};

/* A flit that was sent. */
struct fabric_sent {
	struct fabric_frame *frame;
	uint32_t index;
	uint8_t lane;
};

struct fabric_link {
	struct fabric_link_cfg cfg;
	struct fabric_arbiter arbiter;
	struct fabric_link_counts counts;
	bool is_up;

	/* Out. The window is `acked` to `end`; `next` is its end, or one that is sent again. */
	struct fabric_sent window[FABRIC_WINDOW];
	uint16_t acked, next, end;
	struct fabric_frame *sending[FLIT_LANES];
	uint32_t sending_at[FLIT_LANES]; /* flits of it that were sent */
	uint16_t sent[FLIT_LANES], limits[FLIT_LANES];
	uint64_t resend_at_ns;
	bool is_stalled, wants_ack;

	/* In. */
	struct fabric_lane in[FLIT_LANES];
	uint16_t expected;
	uint16_t taken[FLIT_LANES], told[FLIT_LANES]; /* flits; the limits that were told */
	uint32_t unacknowledged;
	bool owes_ack, wants_resend, has_asked;
	uint64_t ack_at_ns;
	uint8_t credit_lane; /* whose limit the next flit tells */
};

/* It is down. 0, or -1 when memory is short. */
int fabric_link_init(struct fabric_link *l, const struct fabric_link_cfg *cfg);
void fabric_link_fini(struct fabric_link *l);

/* Both ends begin anew; flits that are under way must not arrive any more. */
void fabric_link_up(struct fabric_link *l);

/* Frames on their way out are lost; those that have come in whole stay. */
void fabric_link_down(struct fabric_link *l);

/* Whether a frame may be given on this lane: one at a time (FAB-14). */
bool fabric_link_is_free(const struct fabric_link *l, uint8_t lane);

/* Adds a reference to the frame. */
void fabric_link_give(struct fabric_link *l, uint8_t lane, struct fabric_frame *f);

/* The next flit; returns its length. 0: there is nothing to be sent now. */
size_t fabric_link_send(struct fabric_link *l, uint64_t now_ns, uint8_t bytes[FLIT_BYTES_MAX]);

void fabric_link_recv(struct fabric_link *l, uint64_t now_ns, const uint8_t *bytes, size_t length);

/* The next deadline; UINT64_MAX: none. When it has passed, fabric_link_expire(), then send. */
uint64_t fabric_link_due(const struct fabric_link *l);
void fabric_link_expire(struct fabric_link *l, uint64_t now_ns);
