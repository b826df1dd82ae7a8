/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the near path:
 *
 *	near.c          life, messages
 *	near_in.c       adapters that send to us
 *	near_out.c      adapters that we send to
 *	near_direct.c   access to the memory of other adapters, and theirs to our own
 *	record.h        what lies in front of a packet in a ring
 */
#pragma once

#include "base/list.h"
#include "near/near.h"

enum { NEAR_SLOTS_MAX = UINT8_MAX };

/* An adapter that sends to us. */
struct near_in {
	struct near_link *link; /* NULL: it has ended */
	struct near *near;
	struct list listed;  /* of near->ins */
	struct ring ring;    /* not mapped before the OFFER */
	uint64_t adapter_id; /* 0 before the OFFER */
	uint8_t adapter_slot;
	bool has_ended; /* the connection has; its packets may still be there */
};

enum near_flow {
	NEAR_OPEN,
	NEAR_BLOCKED, /* no room: the receiver will wake us */
	NEAR_STALLED, /* the same, for long: the receiver is stopped */
	NEAR_STOPPED  /* the same, for so long that datagrams do not wait for it */
};

/* An adapter that we send to. */
struct near_out {
	struct near_link *link;
	struct near *near;
	uint32_t number;	  /* of paths that lead to it */
	uint64_t adapter_id;	  /* 0: it has not taken the ring yet */
	struct list touched_link; /* of near->touched, or of itself */
	struct list blocked_link; /* of near->blocked unless NEAR_OPEN, else of itself */
	struct ring ring;
	uint32_t run_bytes; /* payload of a run; 0: it takes none, or the ring is too small */
	struct near_seen seen;
	enum near_flow flow;
	size_t blocked_bytes; /* the record that has no room */
	uint64_t flow_due_ns; /* while NEAR_BLOCKED or NEAR_STALLED: when the next state begins */
};

/* The end of an out, until near_ended() reports it. */
struct near_end {
	struct near_ended report;
	uint64_t adapter_id; /* packets of this adapter are taken first; 0: of none */
};

enum { NEAR_ENDS_MAX = 2 * NEAR_SLOTS_MAX };

struct near {
	struct near_options options;
	const struct near_system *system; /* of the options */
	struct list ins;		  /* the next to be read first */
	struct list touched;		  /* outs whose receivers may have to be woken */
	struct list blocked;
	struct near_out *outs[NEAR_SLOTS_MAX + 1]; /* by slot */
	uint32_t outs_made;			   /* numbers them */
	bool is_forsaken, is_resting, is_leaving;
	bool has_room_again; /* of an out that was blocked, until near_room_used() */
	struct near_end ends[NEAR_ENDS_MAX];
	uint32_t end_count;
	/* The packet that near_next() returned. */
	struct near_in *from;
	size_t taking;	/* bytes of its record; 0: none */
	uint32_t taken; /* packets of that ring in this turn */
	struct ib_in in;
	struct near_counts counts;
	/* Memory of ours that others access. */
	struct near_shown shown;
	struct mem_publisher publisher;
	/* Of near_begin(); NULL: the packet will be lost. */
	struct near_out *to;
	uint8_t spare[IBA_PACKET_MAX];
};

/* Sends a message without a descriptor. If the link is full, the other end has enough of them. */
void near_say(struct near *n, struct near_link *link, enum near_kind kind);

/* Closes the link, if it is still open. */
void near_link_close(struct near *n, struct near_link **link);

void near_in_close(struct near_in *i);

struct near_out *near_out_find(const struct near *n, uint32_t number);

/* Receivers without room will wake us. False: one has room by now. */
bool near_await_room(struct near *n);

/* Lets others access memory of ours; no longer. */
void near_direct_open(struct near *n);
void near_direct_close(struct near *n);

/*
 * A connection from that adapter begins, which marks nothing before it is taken; nothing of it is
 * left.
 */
void near_in_begins(struct near_in *i);
void near_in_ended(struct near *n, uint8_t adapter_slot);

/* The kind of the message that ended it: REFUSED, LEFT, or else CLOSED. */
void near_out_close(struct near_out *o, enum near_kind why);
