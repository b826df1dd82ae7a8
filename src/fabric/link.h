/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a link (FAB-05, FAB-07, FAB-09, FAB-10): sends frames as flits, takes in those of the
 * other end. Flits are numbered; the other end acknowledges several by one, and asks for those that
 * were damaged or lost. A flit is sent only if the other end has room for it on its lane.
 *
 * What leaves at a time is a run: flits of one frame, one after the other, or an acknowledgement.
 * Within a process a run is handed on as it is; on a wire, or where a cable damages flits, each of
 * its flits is encoded. One flit is the smallest run.
 *
 * The caller carries runs, and says when a link is up. It gives frames (fabric/switch.h,
 * fabric/end.h) and takes those that have come from `in`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/arbiter.h"
#include "fabric/lane.h"

enum {
	FABRIC_WINDOW = 256,  /* flits sent and not acknowledged, at most */
	FABRIC_RUNS = 64,     /* in as many runs */
	FABRIC_ACK_FLITS = 8, /* acknowledged by one, or a run if that has more */
	FABRIC_BLOCKS_MAX = INT16_MAX
};

struct fabric_link_cfg {
	uint32_t lanes;	       /* 0 to lanes - 1, and lane 15; at most 15 */
	uint32_t lane_blocks;  /* of each buffer; at most FABRIC_BLOCKS_MAX */
	uint32_t run_flits;    /* at most; 0: as many as a frame has */
	uint32_t ack_delay_ns; /* until fewer flits are acknowledged */
	uint32_t resend_ns;    /* without an acknowledgement until flits are sent again */
};

struct fabric_link_counts {
	/* Of each frame: in one cache line. */
	uint64_t flits_sent, frames_sent, flits_taken, frames_taken;
	uint64_t words_sent, words_taken; /* of whole frames, 4 bytes each */
	uint64_t acks_sent, acks_taken;
	uint64_t flits_resent;
	uint64_t frames_lost;			  /* the link went down */
	uint64_t multicast_sent, multicast_taken; /* frames of these */
	uint64_t damaged, malformed, overruns;
	uint64_t broken;   /* frames whose VCRC is wrong, though their flits are right */
	uint64_t recovers; /* flits were asked for, or sent again after silence */
	uint64_t waits;	   /* a frame had no credit to go on */
};

/* Flits of a frame, or an acknowledgement, as struct flit has them. */
struct fabric_run {
	struct fabric_frame *frame; /* at the sender; NULL: an acknowledgement */
	uint16_t sequence;	    /* of the first flit */
	uint16_t limit;		    /* of credit_lane */
	uint8_t index, flits;	    /* the first one in its frame; how many */
	uint8_t lane, credit_lane;
	uint8_t kind; /* enum flit_kind */
	/* Of an acknowledgement: */
	bool wants_resend, wants_ack;
	uint16_t limits[FLIT_LANES];
};

/* A run that was sent. */
struct fabric_sent {
	struct fabric_frame *frame;
	uint16_t sequence;
	uint8_t index, flits; /* a frame has fewer */
	uint8_t lane;
};

_Static_assert(FABRIC_FRAME_FLITS <= UINT8_MAX, "a frame has too many flits to count them so");

/* What leaves on a lane: half a cache line. */
struct fabric_out {
	struct fabric_frame *sending; /* or NULL */
	/* The caller's: */
	struct fabric_waiting waiting;
	uint64_t given_ns; /* when it gave the frame */
};

/*
 * Fields are in the order of cache lines, as far as the link begins with one: those that each frame
 * needs come first, then those of a lane. A fabric has very many ends.
 */
struct fabric_link {
	/*
	 * Out. The window is `acked` to `end`, in runs `run_begin` to `run_end`; `next` is its end,
	 * or the flit that is sent again, of run `run_next`.
	 */
	uint16_t acked, next, end;
	uint16_t expected; /* in */
	uint16_t run_begin, run_next, run_end;
	uint16_t lanes;		/* a bit for each */
	uint16_t sending_lanes; /* a bit for each that has a frame */
	bool is_up;
	bool is_stalled, wants_ack;
	/* In. */
	bool owes_ack, wants_resend, has_asked;
	uint16_t hungry_lanes;	 /* on which the other end may soon know of too little room */
	uint16_t used_lanes;	 /* on which anything has come since it is up, or had before */
	uint16_t unacknowledged; /* flits */
	uint8_t credit_lane;	 /* whose limit the next run tells */
	/* As in struct fabric_link_cfg. */
	uint8_t run_flits;
	uint16_t lane_blocks;
	uint32_t ack_delay_ns, resend_ns;
	uint64_t ack_at_ns, resend_at_ns;

	uint16_t sent[FLIT_LANES], limits[FLIT_LANES];
	struct fabric_link_counts counts;
	uint8_t sending_at[FLIT_LANES]; /* flits that were sent of what is being sent */
	struct fabric_arbiter arbiter;
	struct fabric_out out[FLIT_LANES];
	struct fabric_lane in[FLIT_LANES];
	struct fabric_sent window[FABRIC_RUNS];
};

_Static_assert(offsetof(struct fabric_link, sent) == FABRIC_LINE_BYTES &&
		       offsetof(struct fabric_link, counts) == 2 * FABRIC_LINE_BYTES &&
		       offsetof(struct fabric_link, out) % FABRIC_LINE_BYTES == 0 &&
		       offsetof(struct fabric_link, in) % FABRIC_LINE_BYTES == 0 &&
		       sizeof(struct fabric_link) % FABRIC_LINE_BYTES == 0,
	       "what lies in a cache line of a link does not");

/* It is down, and takes memory for what comes in from the pool. */
void fabric_link_init(struct fabric_link *l, const struct fabric_link_cfg *cfg,
		      struct fabric_pool *pool);

/* Both ends begin anew; flits that are under way must not arrive any more. */
void fabric_link_up(struct fabric_link *l);

/* Frames on their way out are lost; those that have come in whole stay. */
void fabric_link_down(struct fabric_link *l);

/* Whether a frame may be given on this lane: one at a time (FAB-14). */
static inline bool fabric_link_is_free(const struct fabric_link *l, uint8_t lane)
{
	return l->is_up && (l->lanes & ~l->sending_lanes) >> lane & 1;
}

/* Adds a reference to the frame. */
void fabric_link_give(struct fabric_link *l, uint8_t lane, struct fabric_frame *f);

/* Takes back a frame that was given, and of which nothing was sent; it is lost. False: no such. */
bool fabric_link_withdraw(struct fabric_link *l, uint8_t lane);

/* Whether the frame that was given on a lane waits for room at the other end. */
bool fabric_link_is_stalled(const struct fabric_link *l, uint8_t lane);

/* The next run. False: there is nothing to be sent now. */
bool fabric_link_send(struct fabric_link *l, uint64_t now_ns, struct fabric_run *r);

/* It has no frame to send, nor anything to tell. */
bool fabric_link_is_idle(const struct fabric_link *l);

/* Whether it would send one. */
bool fabric_link_has_more(struct fabric_link *l);

/* A run of the other end, in the same process; the frame is still in that end's window. */
void fabric_link_take(struct fabric_link *l, uint64_t now_ns, const struct fabric_run *r);

/* The flit of a run as bytes; returns their number. An acknowledgement is one flit. */
size_t fabric_run_encode(const struct fabric_run *r, uint32_t flit, uint8_t bytes[FLIT_BYTES_MAX]);

/* A flit that came as bytes. */
void fabric_link_recv(struct fabric_link *l, uint64_t now_ns, const uint8_t *bytes, size_t length);

/* A flit that a carrier has brought which damages none: it has no CRC, and its frame no VCRC. */
void fabric_link_take_flit(struct fabric_link *l, uint64_t now_ns, const struct flit *f);

/* The next deadline; UINT64_MAX: none. When it has passed, fabric_link_expire(), then send. */
static inline uint64_t fabric_link_due(const struct fabric_link *l)
{
	return l->ack_at_ns < l->resend_at_ns ? l->ack_at_ns : l->resend_at_ns;
}

void fabric_link_expire(struct fabric_link *l, uint64_t now_ns);
