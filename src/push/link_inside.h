/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of a link, for the files of this room only. link.c: life, events, deadlines;
 * own_pools.c: the target; peer_pools.c: the initiator; link_take.c: what came; link_act.c: what
 * goes; link_cfg.c: configuration.
 */
#pragma once

#include "base/list.h"
#include "push/push.h"

/* ---- Elements ------------------------------------------------------------------------------- */

/* Of own pools: which end has the element. */
enum own_element {
	OWN_HELD,   /* this end: its pool is not advertised, or is closing */
	OWN_THEIRS, /* the other end may write it */
	OWN_TOLD,   /* is being told of, in a message whose other entries are not checked yet */
	OWN_FULL,   /* the consumer has the packet in it */
	OWN_READY,  /* the consumer is done with it; the other end does not know yet */
	OWN_ELEMENT_STATES
};

/* Of the other end's pools: what this end knows. */
enum peer_element {
	PEER_USED, /* the other end's: written, or not granted yet */
	PEER_BACK, /* is being returned, in a message whose other entries are not checked yet */
	PEER_FREE,
	PEER_WRITING, /* a Write into it is under way */
	PEER_EARLY,   /* and it has been returned */
	PEER_ELEMENT_STATES
};

/*
 * The elements of all pools of a side, one pool behind the other; a pool's queue is a ring there.
 */
struct push_elements {
	uint8_t *states;
	uint32_t *queue; /* own: ready ones; the other end's: free ones; oldest first */
	uint32_t used, max;
};

struct push_queue {
	uint32_t head, count;
};

/* ---- Pools ---------------------------------------------------------------------------------- */

enum own_pool_state {
	OWN_POOL_NONE,
	OWN_POOL_NEW,	      /* a REGISTER is due */
	OWN_POOL_REGISTERING, /* it was pulled */
	OWN_POOL_REGISTERED,  /* a BufferRecvPool is due, once the link is open */
	OWN_POOL_OPEN,	      /* advertised */
	OWN_POOL_FLUSHING,    /* a BufferPoolFlushRequest is due */
	OWN_POOL_ASKED,	      /* it was sent */
	OWN_POOL_OVER,	      /* a DEREGISTER is due */
	OWN_POOL_LEAVING,     /* it was pulled */
	OWN_POOL_CLOSED,      /* a PUSH_EVENT_POOL_CLOSED is due */
	OWN_POOL_STATES
};

struct own_pool {
	enum own_pool_state state;
	struct push_pool_config config;
	uint32_t handle;
	uint32_t base; /* in the elements */
	uint32_t theirs, full;
	struct push_queue ready;
	uint64_t flush;	  /* ASKED: context of the request */
	bool is_leaving;  /* REGISTERING: it is to be closed when it is registered */
	bool is_released; /* OPEN to ASKED: the initiator has asked for its flush */
	enum weft_reason reason;
};

enum peer_pool_state {
	PEER_POOL_NONE,
	PEER_POOL_OPEN,
	PEER_POOL_FLUSHED,   /* the target flushes it: a reply is owed when no Write is under way */
	PEER_POOL_RELEASING, /* a request of this end is due when no Write is under way */
	PEER_POOL_ASKED,     /* it was sent */
	PEER_POOL_STATES
};

struct peer_pool {
	enum peer_pool_state state;
	struct push_pool is;
	uint32_t base;
	uint32_t writing;
	uint32_t untold; /* written, with a BufferRDMAIndicate due */
	struct push_queue free;
	bool is_flushed;  /* the target has asked for it */
	uint32_t flush;	  /* FLUSHED: which of `flushes` */
	uint64_t release; /* ASKED: context of the request */
};

/* A BufferPoolFlushRequest of the target: the reply is owed when all its pools are quiet. */
struct push_flush {
	uint64_t context;
	uint32_t pools; /* that are not quiet yet */
	bool is_used;
};

/* ---- Packets, messages, requests ------------------------------------------------------------ */

struct push_out {
	struct list link; /* free, waiting or over; none: under way */
	struct push_packet is;
	uint32_t pool, element; /* while it is written */
	bool has_waited;
	enum weft_reason reason; /* over */
};

/* An own element that is full, and of which the consumer has not been told yet. */
struct push_full {
	uint32_t pool, element, bytes;
};

enum push_use { PUSH_USE_NONE, PUSH_USE_OTHER, PUSH_USE_UPDATE, PUSH_USE_INDICATE, PUSH_USES };

enum ask_state { ASK_IDLE, ASK_DUE, ASK_SENT };

/* A request of this end: that of the owner or the greeting; and the link's own PING. */
enum push_asking { ASKING_OWNER, ASKING_PING, ASKINGS };

struct push_asked {
	enum ask_state state;
	struct push_cfg cfg;
	uint64_t context;
	uint64_t again_ns;
	uint32_t tries;
};

/* A request of the other end, of each sort. */
struct push_owed {
	enum { OWED_NONE, OWED_OWNER, OWED_DUE, OWED_SENT } state; /* the last can be sent again */
	uint64_t context;
	struct push_cfg cfg; /* the request; later the reply */
};

struct push_link {
	struct push_config config;
	enum push_state state;
	struct push_hello peer; /* after the greeting */
	struct push_agreed agreed;
	uint64_t offered; /* features of the greeting */
	struct push_statistics counts;
	uint64_t heard_ns, contexts, refusals;
	enum weft_reason refused_for; /* the latest */

	/* The end. */
	enum weft_reason end_reason;

	/* Target. */
	struct own_pool *own;
	uint32_t own_used; /* pools that are not OWN_POOL_NONE */
	uint32_t own_due;  /* of these: in states in which something is due */
	struct push_elements own_elements;
	struct push_full *full; /* a ring of own_elements.max: arrived and not pulled */
	struct push_queue fulls;
	struct push_data inlined; /* a packet that came in a message; length 0: none */
	struct push_get asked_pools;

	/* Initiator. */
	struct peer_pool *peers;
	uint32_t *order; /* of open pools, by the size of their elements */
	uint32_t peer_used, peer_due, order_count; /* due: PEER_POOL_RELEASING */
	struct push_elements peer_elements;
	struct push_used *untold; /* a ring of peer_elements.max: written, to be indicated */
	struct push_queue untolds;
	struct push_out *packets;
	struct list free_packets, waiting, over;
	uint32_t waiting_count, writes;
	uint64_t waits_ns;  /* since when the first packet waits for an element, if it has_waited */
	uint64_t get_at_ns; /* UINT64_MAX: nothing to ask for */
	uint32_t gets;	    /* for the first packet that waits, at most GETS_DOUBLED */

	/* Channel 0. */
	enum push_use *uses; /* of each message buffer */
	uint32_t sends, uses_under_way[PUSH_USES];
	struct push_flush *flushes; /* as many as pools of the other end */
	uint32_t flush_count;	    /* of these, used */
	uint64_t *replies;	    /* a ring of contexts: BufferPoolFlushReply due */
	uint32_t replies_max;
	struct push_queue replies_due;
	struct push_asked asked[ASKINGS];
	struct push_owed owed[ASKINGS];
	struct push_cfg answer;

	/* Of all of the above, as facts. */
	bool is_lost;	     /* nothing is posted any more */
	bool is_broken;	     /* PUSH_EVENT_BROKEN is due */
	bool is_answered;    /* PUSH_EVENT_ANSWER is due, with `answer` */
	bool is_owner_asked; /* PUSH_EVENT_ASKED_CFG is due */
	bool is_opened;	     /* PUSH_EVENT_OPEN is due */
	bool is_update_due;  /* elements are to be returned */
	bool is_asked_pools; /* PUSH_EVENT_ASKED_POOLS is due */
};

/* ---- link.c --------------------------------------------------------------------------------- */

void push_link_move(struct push_link *l, enum push_state to);

/* Counts a refusal, and ends the link if it was one too many. Returns the reason. */
enum weft_reason link_refuse(struct push_link *l, enum weft_reason reason);

/* The link ends by itself: the owner closes the connection. */
void link_break(struct push_link *l, enum weft_reason reason);

void link_opened(struct push_link *l);

static inline bool link_is_live(const struct push_link *l)
{
	return l->state == PUSH_OPEN || (l->state == PUSH_ENDING && !l->is_lost);
}

static inline bool link_is_rdma(const struct push_link *l)
{
	return l->config.hello.mode == PUSH_MODE_RDMA;
}

/* As many BufferPoolFlushReply are owed as can be in order: the other end asks, and takes none. */
static inline bool link_owes_replies(const struct push_link *l)
{
	return l->replies_due.count + l->flush_count >= l->replies_max;
}

/* Of the packets of this direction: their length may be this. */
bool link_length_is_good(const struct push_link *l, uint64_t length, bool is_out);

/* Positions in a ring of `max`. */
static inline uint32_t queue_at(const struct push_queue *q, uint32_t nth, uint32_t max)
{
	uint64_t at = (uint64_t)q->head + nth;

	return (uint32_t)(at < max ? at : at - max);
}

/* The position of a new last one. */
static inline uint32_t queue_add(struct push_queue *q, uint32_t max)
{
	CHECK(q->count < max);
	return queue_at(q, q->count++, max);
}

/* The position of the first one, which is taken off. */
static inline uint32_t queue_take(struct push_queue *q, uint32_t max)
{
	uint32_t at = q->head;

	CHECK(q->count > 0);
	q->count--;
	q->head = queue_at(q, 1, max);
	return at;
}

/* Room for a pool's elements, behind all others; and the room of a pool that has gone. */
uint32_t elements_add(struct push_elements *e, uint32_t count, uint8_t state);
void elements_remove(struct push_elements *e, uint32_t base, uint32_t count);

/* ---- own_pools.c ---------------------------------------------------------------------------- */

void own_pool_move(struct push_link *l, struct own_pool *p, enum own_pool_state to);
void own_pools_opened(struct push_link *l); /* the other end's limits are known */
void own_pools_end(struct push_link *l);    /* orderly */
void own_pools_lost(struct push_link *l);
void own_pool_over(struct push_link *l, struct own_pool *p);
void own_pool_advertised(struct push_link *l, struct own_pool *p);
void own_pool_free(struct push_link *l, uint32_t index);

/* The oldest of the pool's ready elements is the other end's again. */
uint32_t own_element_give(struct push_link *l, struct own_pool *p);

enum weft_reason own_written(struct push_link *l, const struct push_used *u, bool is_immediate);
enum weft_reason own_take_indicate(struct push_link *l, const struct push_entries *used);
enum weft_reason own_take_release(struct push_link *l, const struct push_msg *m);
enum weft_reason own_take_reply(struct push_link *l, uint64_t context);

/* Whose element is to be asked for (PUSH-04); NULL: enough are. */
struct own_pool *own_pull_pool(struct push_link *l);

/* ---- peer_pools.c --------------------------------------------------------------------------- */

void peer_pools_end(struct push_link *l);
void peer_pools_lost(struct push_link *l);
void peer_pool_move(struct push_link *l, struct peer_pool *p, enum peer_pool_state to);
enum weft_reason peer_take_pools(struct push_link *l, const struct push_entries *pools);
enum weft_reason peer_take_runs(struct push_link *l, const struct push_entries *runs);
enum weft_reason peer_take_pull(struct push_link *l, const struct push_run *run);
enum weft_reason peer_take_flush(struct push_link *l, const struct push_msg *m);
enum weft_reason peer_take_reply(struct push_link *l, uint64_t context);

/* The pool for a packet of this length; NULL: none has a free element. */
struct peer_pool *peer_pool_for(const struct push_link *l, uint32_t length);

/* Whether any pool has elements of this size. */
bool peer_pools_fit(const struct push_link *l, uint32_t length);

/* Takes a free element for a Write, of so many bytes; ends that. */
uint32_t peer_element_take(struct push_link *l, struct peer_pool *p);
void peer_written(struct push_link *l, uint32_t pool, uint32_t element);

/* Whether an indication of this pool fits into 32 bits now (PUSH-21). */
bool peer_is_immediate(const struct push_link *l, const struct peer_pool *p);

/* A BufferRDMAIndicate that covers it was made. */
void peer_told(struct push_link *l, const struct push_used *u);

/* ---- link_cfg.c ----------------------------------------------------------------------------- */

void cfg_greet(struct push_link *l);
enum weft_reason cfg_take_request(struct push_link *l, const struct push_msg *m);
enum weft_reason cfg_take_reply(struct push_link *l, const struct push_msg *m);

/* A request that could not be decoded gets a reply all the same. */
void cfg_refuse(struct push_link *l, uint64_t context, enum weft_reason reason);

/* The next request or reply to be sent; false: none is due. */
bool cfg_next(struct push_link *l, uint64_t now_ns, struct push_msg *m);
uint64_t cfg_due(const struct push_link *l);

/* What says how long packets may be goes first. */
bool cfg_holds_packets(const struct push_link *l);
void cfg_expire(struct push_link *l, uint64_t now_ns);
