/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The split network card (D2): one end of a link between a host and an I/O unit, by push-push
 * messages. Each end is both: target of the packets that it receives (it owns pools of elements,
 * and advertises them) and initiator of those that it sends (it writes into the pools of the other
 * end, unasked, and tells which element it used). The two are alike; only configuration has a
 * host's side and a unit's.
 *
 * This is the core: the owner hands in what the connection and the consumer did, and then pulls
 * until both are empty:
 *
 *	while (push_act(l, now, &act))	   what to post on the connection, or to register
 *		...
 *	while (push_event(l, &event))	   what the consumer must know
 *		...
 *
 * The link never touches packets: it names their memory. Which host of a unit gets which frame of
 * the LAN is push/lan.h; packets in cells of 256 bytes are push/cells.h. A unit has a link for each
 * host, so that hosts share neither pools nor handles nor limits (PUSH-05).
 *
 * RDMA mode (PUSH-08): one acknowledged connection. Channel 0, Sends: messages. Channel 1: RDMA
 * Writes into elements. Both in the order in which their acts were pulled. Send mode (PUSH-07): two
 * unacknowledged connections. Channel 0: configuration, asked again if no reply comes. Channel 1: a
 * packet is a Send; no pools. Packets may be lost; push_statistics() tells how many.
 *
 *	own element	held -> theirs -> full -> ready -> theirs
 *	peer's element	free -> writing -> used -> free
 *	link		down -> greeting -> open -> ending -> ended
 */
#pragma once

#include "base/check.h"
#include "wire/push_msg.h"

struct push_link;

/* What this end does. Zero deadlines are replaced by push_config_init()'s values. */
struct push_config {
	/*
	 * What this end says of itself, and can do. role and mode are the link's. is_pull: this end
	 * sends a packet only when asked for it, for comparison (PUSH-04): neither end: push-push;
	 * the unit: push-pull; both: pull-pull. pools_max, elements_max: of the other end's pools
	 * that are kept in mind. A unit's hello is its offer; push_answer() says what it gives.
	 */
	struct push_hello hello;
	bool has_immediate;	   /* a Write brings 32 bits to the other end, and its length */
	uint32_t own_pools_max;	   /* pools of this end at a time; 0: receives by SendData only */
	uint32_t own_elements_max; /* in all of them together */
	uint32_t packets_max;	   /* given to push_packet() and not over: waiting and under way */
	uint32_t writes_max;	   /* of these, acts of channel 1 under way */
	uint32_t sends_max;	   /* acts of channel 0 under way; at least 2 */
	uint8_t *messages;     /* sends_max * PUSH_MSG_BYTES_MAX, borrowed: SENDs are from there */
	uint32_t inline_bytes; /* packets up to this go by SendData (PUSH-10); 0: none do */
	uint32_t pulls_max;    /* if the other end is_pull: elements asked for at a time */
	uint32_t refusals_max; /* so many refusals end the link; 0: none do */
	uint64_t answer_wait_ns; /* Send mode: for a reply, before the request is sent again */
	uint32_t answer_tries;	 /* Send mode: times that a request is sent; RDMA mode: 1 */
	uint64_t ping_after_ns;	 /* of silence: a PING; UINT64_MAX: never */
	/* To the next BufferRecvPoolGet; then twice as long each time, up to 1024 times this. */
	uint64_t get_again_ns;
};

/* A configuration for RDMA mode with pools for some hundred packets each way. */
void push_config_init(struct push_config *c, enum push_role role, enum push_mode mode);

/* WEFT_R_BAD_ARGUMENT: a limit is 0, `messages` is missing, or the hello is none. */
enum weft_reason push_link_create(const struct push_config *c, struct push_link **out);
void push_link_destroy(struct push_link *l);

/* ---- Life ----------------------------------------------------------------------------------- */

enum push_state { PUSH_DOWN, PUSH_GREETING, PUSH_OPEN, PUSH_ENDING, PUSH_ENDED, PUSH_STATES };

enum push_state push_link_state(const struct push_link *l);
const char *push_state_name(enum push_state state); /* never NULL */

/* The connection is up, the connections are. The host greets; the unit waits for that. */
void push_up(struct push_link *l, uint64_t now_ns);

/*
 * An orderly end: packets that wait are not sent any more; the pools of both ends are flushed
 * (PUSH-17); then PUSH_EVENT_ENDED comes. Packets that still come are told.
 */
void push_end(struct push_link *l, uint64_t now_ns);

/*
 * The connection is lost, or refused. PUSH_EVENT_ENDED follows when every act that was pulled is
 * done, and every pool deregistered.
 */
void push_lost(struct push_link *l, enum weft_reason reason);

/* ---- Pools of this end: target -------------------------------------------------------------- */

struct push_pool_config {
	uint8_t *memory; /* elements * element_bytes; borrowed until PUSH_EVENT_POOL_CLOSED */
	uint32_t elements, element_bytes;
	uint64_t context; /* told to the other end */
};

/*
 * A pool for the other end to write into; in any state before the end. It is registered, and
 * advertised as soon as the link is open. *index: the lowest that is free. WEFT_R_BAD_ARGUMENT: it
 * has no element or no bytes; WEFT_R_LIMIT: of pools or elements of this end; WEFT_R_PUSH_POOLS:
 * more than the other end can keep in mind; WEFT_R_PUSH_MODE: in Send mode there are none;
 * WEFT_R_PUSH_STATE: the link is ending.
 */
enum weft_reason push_pool_open(struct push_link *l, const struct push_pool_config *c,
				uint32_t *index);

/*
 * Flushes a pool: the other end stops using it and replies, then it is deregistered (PUSH-17).
 * Packets that come meanwhile are told. WEFT_R_PUSH_POOL: there is none.
 */
enum weft_reason push_pool_close(struct push_link *l, uint32_t index);

/*
 * The consumer has moved the packet out of the element: the other end may use it again, and learns
 * so together with others (PUSH-24). CHECKs that a PUSH_EVENT_PACKET told of it. A pool's elements
 * need not be returned after its PUSH_EVENT_POOL_CLOSED.
 */
void push_return(struct push_link *l, uint32_t pool, uint32_t element);

/* ---- Packets of this end: initiator --------------------------------------------------------- */

/*
 * Virtio-net's header, if agreed on, and the frame. The memory must stay as it is until
 * PUSH_EVENT_SENT.
 */
struct push_packet {
	const uint8_t *bytes;
	uint32_t length;
	uint64_t cookie;
};

/*
 * Sends a packet, in order. WEFT_OK: PUSH_EVENT_SENT comes once. Otherwise nothing has changed:
 * WEFT_R_PUSH_FRAME: shorter than an Ethernet header or longer than agreed on;
 * WEFT_R_PUSH_CROWDED: packets_max are not over yet (counted as dropped); WEFT_R_PUSH_STATE: the
 * link is not open.
 */
enum weft_reason push_packet(struct push_link *l, const struct push_packet *p, uint64_t now_ns);

/* How long a packet to the other end, and from it, may be now, with virtio-net's header. */
uint32_t push_packet_max(const struct push_link *l, bool is_out);

/*
 * Stops using a pool of the other end, and has it flushed (PUSH-17). WEFT_R_PUSH_POOL: it is not
 * advertised, or is being flushed.
 */
enum weft_reason push_pool_release(struct push_link *l, uint32_t pool);

/* ---- Configuration and statistics (PUSH-09, PUSH-16h) ---------------------------------------- */

/*
 * Asks the other end; PUSH_EVENT_ANSWER comes once. WEFT_R_BUSY: a request is under way;
 * WEFT_R_PUSH_STATE: the link is not open; WEFT_R_PUSH_UNEXPECTED: the other role asks for this.
 */
enum weft_reason push_ask(struct push_link *l, const struct push_cfg *cfg, uint64_t now_ns);

/*
 * Answers the request of the last PUSH_EVENT_ASKED_CFG: cfg->reason, and of a PUSH_HELLO that is
 * accepted the unit's own hello, for which the event's is a proposal. CHECKs that an answer is
 * owed.
 */
void push_answer(struct push_link *l, const struct push_cfg *cfg);

void push_statistics(const struct push_link *l, struct push_statistics *s);

/* What both ends agreed on in their hellos, and changed since; zeroes before that. */
struct push_agreed {
	uint64_t features;
	uint16_t mtu, queues;
	uint8_t mac[PUSH_MAC_BYTES]; /* the host's */
	bool is_link_up;	     /* of the LAN */
};

const struct push_agreed *push_agreed(const struct push_link *l);

/* ---- What the connection did ---------------------------------------------------------------- */

/*
 * A message came on channel 0. A refusal has changed nothing but counters (PUSH-14, PUSH-18); the
 * link goes on, unless it was one too many. Pull all events before the next call: what they point
 * to is in these bytes. WEFT_R_PUSH_...: see the reasons.
 */
enum weft_reason push_take(struct push_link *l, const uint8_t *bytes, size_t length,
			   uint64_t now_ns);

/*
 * RDMA mode: a Write with immediate data came, of so many bytes: the adapter has stored the payload
 * in the element, and hands the 32 bits here (PUSH-23).
 */
enum weft_reason push_written(struct push_link *l, uint32_t immediate, uint32_t bytes,
			      uint64_t now_ns);

/* Send mode: a packet came on channel 1. The event points to these bytes, as for push_take(). */
enum weft_reason push_take_packet(struct push_link *l, const uint8_t *bytes, size_t length,
				  uint64_t now_ns);

/*
 * An act is done. Of a connection that is lost too: each act that was pulled is done once. A SEND
 * or WRITE that failed in RDMA mode breaks the link for this reason.
 */
void push_done(struct push_link *l, uint64_t id, enum weft_reason reason, uint64_t now_ns);

/* A REGISTER is done, with this handle. A refusal closes the pool: PUSH_EVENT_POOL_CLOSED. */
void push_registered(struct push_link *l, uint64_t id, enum weft_reason reason, uint32_t handle);

/* UINT64_MAX: no deadline. Call push_expire() when it has passed. */
uint64_t push_due(const struct push_link *l);
void push_expire(struct push_link *l, uint64_t now_ns);

/* ---- Acts ----------------------------------------------------------------------------------- */

enum push_act_kind {
	PUSH_ACT_SEND,	      /* channel 0: bytes of `messages` */
	PUSH_ACT_WRITE,	      /* channel 1: a packet, into an element of the other end */
	PUSH_ACT_SEND_PACKET, /* channel 1 of Send mode: a packet */
	PUSH_ACT_REGISTER,    /* memory that the other end may write; push_registered() */
	PUSH_ACT_DEREGISTER   /* of `handle`; afterwards the other end cannot write there */
};

struct push_act {
	enum push_act_kind kind;
	uint64_t id; /* for push_done(), push_registered() */
	/* SEND: valid until done. WRITE, SEND_PACKET: the packet's. REGISTER, DEREGISTER: the
	 * pool's. */
	const uint8_t *bytes;
	uint64_t length;
	uint64_t cookie;    /* WRITE, SEND_PACKET: the packet's */
	uint64_t address;   /* WRITE: where to, in the memory of */
	uint32_t handle;    /* WRITE; DEREGISTER: the pool's own */
	bool has_immediate; /* WRITE */
	uint32_t immediate;
	bool is_urgent; /* SEND: post it at once; else it may wait for more */
};

/* Pulls the next act; false: none is due. Acts of the connection are posted in this order. */
bool push_act(struct push_link *l, uint64_t now_ns, struct push_act *act);

/* ---- Events --------------------------------------------------------------------------------- */

enum push_event_kind {
	PUSH_EVENT_OPEN,	/* packets may go: push_agreed() */
	PUSH_EVENT_PACKET,	/* a packet came: rdata indicate (PUSH-23), or a Send */
	PUSH_EVENT_SENT,	/* a packet is over: cookie, reason */
	PUSH_EVENT_ASKED_POOLS, /* the other end asks for elements of so many bytes (PUSH-16b) */
	PUSH_EVENT_POOL_CLOSED, /* own pool: its memory is its owner's again; reason */
	PUSH_EVENT_ASKED_CFG,	/* the other end's request: push_answer() is owed */
	PUSH_EVENT_ANSWER,	/* to push_ask(): cfg, with its reason */
	PUSH_EVENT_BROKEN,	/* close the connection: the link ends by itself, for this reason */
	PUSH_EVENT_ENDED	/* the last event: reason; close the connection, if it is up */
};

struct push_event {
	enum push_event_kind kind;
	enum weft_reason reason;
	const uint8_t *bytes; /* PACKET */
	uint32_t length;
	bool is_returned; /* PACKET: to be returned by push_return(); else it came in a Send */
	uint32_t pool, element; /* PACKET that is_returned; POOL_CLOSED: pool */
	uint64_t cookie;	/* SENT */
	struct push_get get;	/* ASKED_POOLS */
	const struct push_cfg
		*cfg; /* ASKED_CFG, ANSWER: valid until the next call of push_take() */
};

/* Pulls the next event; false: there is none. */
bool push_event(struct push_link *l, struct push_event *event);

/* ---- Looking -------------------------------------------------------------------------------- */

/* What a link has, and what waits in it. */
struct push_view {
	enum push_state state;
	uint32_t own_pools, peer_pools;
	/* Own elements: the other end may write; with the consumer; returned, not told yet. */
	uint32_t theirs, full, ready;
	/* The other end's elements. */
	uint32_t free, writing, used;
	uint32_t waiting;	      /* packets that wait for an element */
	enum weft_reason refused_for; /* the latest refusal; WEFT_OK: there was none */
};

void push_view(const struct push_link *l, struct push_view *v);

/* Since when the first packet that waits has found no element; UINT64_MAX: none waits for one. */
uint64_t push_waits_since(const struct push_link *l);
