/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structs of a port and its connections, for the files of this room:
 *
 *	port.c      packets in and out, the table of connections, deadlines, events
 *	conn.c      life and death of a connection, the transport's face to the verbs
 *	packet.c    a packet on its way out: headers, payload, ICRC
 *	pace.c      how fast they go out: a rate, and congestion
 *	message.c   a Send or Write on its way in: every check, placement, delivery
 *	rc_req.c    RC requester: requests -> packets
 *	rc_comp.c   RC completer: what the peer answers
 *	rc_holes.c  which answers to Reads are missing
 *	rc_near.c   which sequence numbers a true peer can be at
 *	rc_retry.c  when it answers too late, or to try again
 *	rc_resp.c   RC responder: the peer's requests
 *	rc_reply.c  what it is answered
 *	uc.c, ud.c  the services without acknowledgement
 *	gsi.c       management datagrams, to and from queue pair 1
 *	group.c     datagrams to many
 *	ee.c        end-to-end contexts: life and death, whose turn it is
 *	rd.c        reliable datagrams: what they have that RC has not
 *	raw.c       raw datagrams
 *
 * The sequence state of the two directions stands in structs of its own (struct requester, struct
 * responder): a connected queue pair has them, and an end-to-end context, for whatever queue pairs
 * it serves. So RD is RC's code with another queue pair for each message.
 */
#pragma once

#include "ib/ib.h"
#include "verbs/ee.h"
#include "wire/iba_aeth.h"
#include "wire/iba_grh.h"
#include "wire/iba_icrc.h"
#include "wire/iba_psn.h"

enum {
	IB_BURST = 16,		     /* packets of one connection before the next has its turn */
	IB_READ_PSNS_MAX = 1 << 22,  /* of one Read's response */
	IB_PSNS_MAX = (1 << 23) - 1, /* of requests at a time: half of the circle */
	IB_HELD_MAX = 64,	     /* pins of one batch of packets */
	IB_BOUNCES = 16,	     /* copies of one, where its owner gives no room */
	IB_FACTORS = IBA_PACKET_MAX / 4 + 1,
	IB_MADS_MAX = 64,
	IB_MEMBERS_MAX = 4096
};

/* Management datagrams, in order. */
struct mad_ring {
	struct ib_mad mads[IB_MADS_MAX];
	uint32_t first, count;
};

/* Of one queue pair in one group. */
struct member {
	struct list link;
	struct ib_conn *conn;
	struct ib_group group;
};

struct ib_port {
	struct adapter *adapter;
	uint16_t p_keys[IB_PKEYS_MAX];
	struct ib_conn **conns; /* by the slot of the queue pair's number */
	uint32_t conns_max, conns_used;
	struct timer_queue timers; /* one for each connection, by when an answer is due */
	struct timer_queue wakes;  /* the same: when it may send on */
	struct list ready;	   /* connections that have something to send */
	struct list ended;	   /* connections that their owner must hear of */
	struct list members;	   /* struct member, of all groups */
	struct mad_ring mads_in, mads_out;
	uint32_t mad_psn;
	uint32_t member_count;
	struct hole_list *hole_lists; /* IB_HOLE_LISTS */
	struct hole_list *hole_lists_free;
	uint32_t hole_lists_fresh; /* the first that was never lent */
	struct list raws;	   /* connections of raw datagrams */
	struct list ees_ended;	   /* end-to-end contexts, likewise */
	struct ib_counts counts;
	uint64_t drops[WEFT_REASON_COUNT]; /* of counts.dropped */
	uint64_t cut_after;	 /* bytes one way, by a fault on purpose; UINT64_MAX: never */
	struct qp_tally nobodys; /* of queue pairs that have left; of contexts, which are of many */
	uint32_t burst;		 /* packets that the first of ready has sent in its turn */
	uint32_t factors[IB_FACTORS]; /* of iba_icrc_factor(), by words; 0: not known yet */
	uint8_t bounce[IB_BOUNCES][IBA_PAYLOAD_MAX];
	uint32_t bounced; /* packets of this batch whose payload lies there */
	uint64_t now_ns;  /* of the latest call that told it */
	/* SEND-05: what packets are being sent from. */
	struct held {
		struct mem_paging *paging;
		uint64_t real, length;
	} held[IB_HELD_MAX];
	uint32_t held_count;
	uint64_t kept_ns; /* counts.kept_byte_ns is of then */
};

/* ---- Requester ------------------------------------------------------------------------------ */

/* SEND-11: a request that is on its way, or about to be. Where its data lies, the slot says. */
struct sent {
	uint32_t psn;	/* of its first packet; of a Read: of the first of its response */
	uint32_t count; /* packet sequence numbers that it takes */
	uint32_t slot;	/* of the send queue */
};

/* Packets of one Read's response, or an atomic's answer, that are missing. */
struct hole {
	uint32_t from, to; /* from the first up to the second */
	uint32_t read;	   /* first number of the request */
	uint32_t asked;	   /* number of the request that asked for it again last; 0: none yet */
	uint32_t later;	   /* first number of the request that went out behind it */
};

/* With more than these what comes is dropped. A context has one message under way. */
enum { IB_HOLES_MAX = 64, IB_EE_HOLES_MAX = 16, IB_HOLE_LISTS = 64 };

/* Lent to a connection of RC while parts of answers are missing there: most never need one. */
struct hole_list {
	struct hole_list *next; /* of those that are free */
	struct hole holes[IB_HOLES_MAX + 1];
};

/* What is done about a peer that has no receive for the oldest request. */
enum rnr {
	RNR_NONE,    /* nothing: it is not known to have none */
	RNR_TRIED,   /* it was asked for as long as may be: the request goes, come what may */
	RNR_LEFT,    /* it wants to be left alone for a while; from here on no request goes */
	RNR_ASKED,   /* for credits, now and then, as an RNR NAK would be the end */
	RNR_ASK_DUE, /* so now */
	RNR_STATES
};

struct requester {
	struct weft_qp *qp; /* whose requests they are; NULL: it has left */
	struct sent *sent;  /* a ring, as long as the send queue */
	uint32_t max, first, count;
	uint32_t at;	    /* from first on: the request whose packets go next */
	uint32_t psn_una;   /* the oldest that was not acknowledged, or not answered */
	uint32_t psn_high;  /* the peer has carried out all before it */
	uint32_t psn_send;  /* of the next packet */
	uint32_t psn_sent;  /* behind the furthest that ever went out */
	uint32_t psn_next;  /* of the next request */
	uint32_t read_psns; /* from psn_una to psn_send: those of Reads */
	uint32_t ssn;	    /* IBA 9.7.7.2: of the latest request, counted from 1 */
	uint32_t unasked;   /* packets since the last that asked for an acknowledgement */
	uint64_t asked_ns;
	uint64_t kept_bytes; /* of Sends and Writes that are out, see struct ib_counts */
	/* Answers before psn_high that are missing, in order. Oldest: psn_una, if it is a Read. */
	struct hole *holes; /* NULL: none is missing, of RC */
	uint32_t hole_max, hole_count;
	uint32_t missing;      /* packets of all of them */
	uint32_t asks;	       /* requests so far for what is missing */
	uint32_t psn_reported; /* psn_high, or further on if holes could not all be noted */
	/* SEND-09: the data of the packet at absent_psn is away, and was asked for. */
	uint32_t absent_psn;
	bool is_absent;
	/* IBA 9.7.7.2, end-to-end credits: messages that need a receive go up to this one. */
	bool is_limited;
	uint8_t retries_left, rnr_left;
	uint32_t limit_ssn;
	/* Trying again. */
	enum rnr rnr;
	bool is_missed;	     /* the peer has missed something since the last progress or retry */
	bool is_probe_due;   /* the packet at psn_una is to be sent again, alone */
	bool is_probed;	     /* it was, at probe_psn, is no Read, and nothing new was heard since */
	bool is_read_probed; /* it was, and is a Read that nothing was heard of */
	bool is_timed;	     /* the packet at timed_psn tells the round trip */
	uint32_t probe_psn, probe_end; /* of a Read: up to the second */
	uint32_t back_psn;	       /* from there on all was sent again, at back_ns */
	uint64_t rnr_since_ns; /* when the oldest request first found no receive; or UINT64_MAX */
	uint64_t deadline_ns;  /* UINT64_MAX: none */
	uint64_t progress_ns;  /* of the latest, or of the first packet after none was out */
	uint64_t back_ns;
	uint64_t missed_ns; /* since when is_missed */
	uint64_t probe_ns;  /* how long the next silence may last */
	/* Round trips, by RFC 6298; srtt_ns 0: not known. */
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

/* ---- Responder ------------------------------------------------------------------------------ */

/* A message of the peer that is arriving. */
struct message {
	uint8_t kind;	       /* IBA_KIND_SEND, IBA_KIND_WRITE; IBA_KIND_NONE: none is */
	uint32_t bytes;	       /* so far */
	struct recv_wqe *recv; /* RD, of a Send: its receive, between its packets */
	uint64_t room;	       /* of a Send: of its receive */
	/* Of a Write. */
	uint64_t va;
	uint32_t r_key, length;
};

/* A Read or atomic of the peer: kept to be answered, and answered again. */
struct resource {
	uint32_t psn : 24, kind : 8; /* IBA_KIND_READ, IBA_KIND_ATOMIC */
	/* A Read may be refused: the syndrome it is answered with. 0: it gets what it asks for. */
	uint32_t msn : 24, refused : 8;
	uint32_t count : 24;
	bool is_touch_due : 1; /* answered; when that was heard, a one-touch tag is spent */
	uint32_t r_key, length;
	uint32_t pd; /* whose memory it is */
	uint64_t va;
	uint64_t original; /* of an atomic: the answer */
};

/* Packets of a kept answer that were asked for again: those from at up to end are due. */
struct again {
	uint32_t res; /* its number */
	uint32_t began, at, end;
};

struct responder {
	struct weft_qp *qp; /* that serves the peer's requests; NULL: it has left */
	uint32_t psn;	    /* expected */
	uint32_t msn;
	struct message in;
	/* What is to be said when all responses are out. */
	bool is_ack_due, is_nak_due;
	uint32_t src_qp;    /* RD: who asked last, and is answered */
	uint8_t nak;	    /* syndrome */
	bool is_deaf;	    /* a NAK or RNR NAK was given: nothing but the expected packet counts */
	uint32_t psn_early; /* the latest that came too early, while deaf */
	uint64_t far_next_ns;	  /* before then no number that is far ahead is answered */
	enum weft_reason refusal; /* of the expected one: it is told when all responses are out */
	bool is_hungry;		  /* the peer was told that there is no receive */
	bool has_touch_due;	  /* of some of those below */
	/* Reads and atomics by number, the newest is res_next - 1. A ring of res_mask + 1. */
	struct resource *res;
	uint32_t res_mask, res_max;   /* res_max: that may wait to be answered */
	uint32_t res_first, res_next; /* those that are kept */
	uint32_t res_at, res_packet;  /* the next response packet */
	uint32_t res_began;	      /* the first packet of this response */
	uint32_t res_answered;	      /* all before it were answered once at least */
	/* What is answered once more, in the order in which it was asked for. As long a ring. */
	struct again *again;
	uint32_t again_first, again_next;
};

/* Whether Reads or atomics are still to be answered, or answered again. */
static inline bool responder_is_answering(const struct responder *r)
{
	return r->res_at != r->res_next || r->again_first != r->again_next;
}

/* ---- Pace ----------------------------------------------------------------------------------- */

struct pace {
	uint64_t limit_bps; /* asked for; 0: none */
	/* While it knows of congestion: rate_bps is not 0. */
	uint64_t rate_bps, target_bps;
	uint64_t cut_ns, raise_ns;
	uint32_t alpha, stage;
	/* Packets. */
	uint64_t next_ns;  /* no packet before */
	struct timer wake; /* somebody waits for that */
	uint64_t meter_ns, meter_bytes, meter_bps, sent_ns;
	/* Of what arrives: its sender is told. */
	uint64_t notified_ns;
	bool has_notified, is_notice_due;
};

/* A queue pair of RD has one request at a time on its way. */
enum rd_state {
	RD_IDLE = 0,
	RD_WAITING,  /* for its turn */
	RD_ACTIVE,   /* it has its turn */
	RD_SUSPENDED /* its peer had no receive; it waits before it tries again */
};

/* ---- The connection ------------------------------------------------------------------------- */

struct ib_conn {
	struct ib_port *port;
	struct weft_qp *qp; /* NULL: it has left */
	enum weft_service service;
	bool is_xrc;
	uint32_t number, peer_qp;
	uint16_t p_key;
	struct ib_path path;
	struct list ready_link, ended_link;
	struct timer timer;
	struct requester req;
	struct responder resp;
	struct pace pace;
	/* Of the config. */
	uint64_t timeout_ns; /* UINT64_MAX: for ever */
	uint8_t retries, rnr_retries, rnr_timer_code;
	uint32_t window, ack_every, q_key;
	/* The end. */
	enum weft_reason why;
	/* resp.nak at resp.psn is all that is said from now on: ever; RD: until RESYNC */
	bool has_final;
	bool is_reported;    /* its owner has heard of it */
	bool was_reply;	     /* the last packet was one: requests are next */
	bool has_ack_waited; /* for the last packet, a request */
	bool is_established; /* its peer was heard, in RTR */
	bool is_ee;	     /* it is that of an end-to-end context (struct ib_ee) */
	void *owner;
	/* Raw datagrams. */
	struct list raw_link;
	struct ib_raw raw;
	/* RD. Of a queue pair: its one request that waits for its turn, or has it. */
	enum rd_state rd_state;
	struct ib_ee *ee; /* where that request goes */
	uint32_t slot;	  /* where it stands in the send queue */
	uint32_t rdd;	  /* both: the domain, of those who may talk */
	struct list turn_link;
};

/* ---- The end-to-end context ----------------------------------------------------------------- */

/* RD-02. One allocation; the queue pairs that use it bring all else. */
struct ib_ee {
	struct weft_ee handle;
	struct ib_conn conn;	/* without a queue pair of its own */
	uint32_t peer;		/* number of the peer's; 0: not known yet */
	struct ib_conn *active; /* whose request is under way; NULL: none, or RESYNC */
	struct list waiting;	/* queue pairs whose requests want to go, in order */
	struct list suspended;	/* those whose peer had no receive */
	/* Of the request that is under way, or was abandoned. */
	uint32_t src_qp, dest_qp, q_key;
	enum weft_reason why; /* it has failed */
	struct list ended_link;
	struct sent sent;
	struct hole holes[IB_EE_HOLES_MAX];
	struct resource resource;
	struct again again;
};

static inline struct ib_ee *ee_of(struct ib_conn *c)
{
	return CONTAINER_OF(c, struct ib_ee, conn);
}

static inline enum iba_service conn_service(const struct ib_conn *c)
{
	return c->is_ee ? IBA_RD : c->is_xrc ? IBA_XRC : IBA_RC;
}

/* Who sent the message that is arriving. */
static inline uint32_t conn_sender(const struct ib_conn *c)
{
	return c->is_ee ? c->resp.src_qp : c->peer_qp;
}

/* Where it is counted what befalls a queue pair, which may have left. */
static inline struct qp_tally *tally_of(struct ib_port *port, struct weft_qp *qp)
{
	return qp ? &qp->tally : &port->nobodys;
}

/* Something of a queue pair that a person may want to know. */
static inline void note(const struct ib_conn *c, const struct weft_qp *qp, uint16_t kind,
			uint64_t a, uint64_t b)
{
	trace_add(c->port->adapter->trace, (struct trace_event){
						   .kind = kind,
						   .who = qp ? qp->number : c->number,
						   .a = a,
						   .b = b,
					   });
}

/* A message was taken whole; its last packet has gone out for the first time. */
static inline void count_message_in(struct ib_port *port, struct weft_qp *qp, uint64_t payload)
{
	struct qp_tally *t = tally_of(port, qp);

	port->counts.messages_in++;
	t->messages_in++;
	t->payload_in += payload;
}

static inline void count_message_out(struct ib_port *port, struct weft_qp *qp, uint64_t payload)
{
	struct qp_tally *t = tally_of(port, qp);

	port->counts.messages_out++;
	t->messages_out++;
	t->payload_out += payload;
}

/* conn.c */
extern const struct transport ib_transport;

/* It may have something to send. */
void conn_ready(struct ib_conn *c);

/* Its timer goes off no later than this. */
void conn_deadline(struct ib_conn *c, uint64_t deadline_ns);
void conn_alarm(struct ib_conn *c);

/* The queue pair fails, if it is still there. */
void conn_fail(struct ib_conn *c, enum weft_reason reason);

uint64_t conn_timeout_ns(uint8_t code);

/* port.c */
void port_dropped(struct ib_port *port, uint32_t who, enum weft_reason reason);
enum weft_reason port_check_icrc(struct ib_port *port, const struct ib_in *in);

/* Pins what a packet is sent from. False: copy it instead; what was pinned before it may go. */
bool port_hold(struct ib_port *port, const struct mem_span *span);
void port_release(struct ib_port *port, uint32_t from);

/* Bytes that would be pinned if all were until it is acknowledged: so many more, or fewer. */
void port_kept(struct ib_port *port, struct requester *q, int64_t bytes);

/* ---- packet.c ------------------------------------------------------------------------------- */

/* A packet's payload, from wherever it comes. */
struct load {
	struct mem_span spans[IB_OUT_SPANS_MAX];
	uint32_t count;
	uint32_t bytes;	 /* in all */
	bool is_bounced; /* it lies in the port */
};

/* A packet by a path, which must last as long as *out; the payload is in *load, or it is NULL. */
void packet_write(struct ib_port *port, const struct ib_path *path, struct iba_packet *p,
		  const struct load *load, struct ib_out *out);

/* The same to the peer of a connection: fills in what all its packets have. */
void packet_make(struct ib_conn *c, struct iba_packet *p, const struct load *load,
		 struct ib_out *out);

/*
 * The payload of a stretch of a list, or of a range behind a grant. WEFT_OK: all of it is in *load.
 */
enum weft_reason packet_gather(struct ib_conn *c, const struct stretch *part, struct load *load);
enum weft_reason packet_gather_grant(struct ib_conn *c, struct mem_grant *grant, struct load *load);

/* Whether it goes into the packet's own bytes. */
bool request_is_inline(const struct send_wqe *wqe);

/* Packet number i of a Send or Write: opcode and headers; payload, or why it cannot be had. */
void request_packet(struct ib_conn *c, const struct send_wqe *wqe, uint32_t i,
		    struct iba_packet *p);
enum weft_reason request_payload(struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
				 struct load *load);

/* ---- pace.c --------------------------------------------------------------------------------- */

void pace_init(struct pace *s);

/* Whether a packet with payload may go now; one has gone. */
bool pace_is_open(struct pace *s, uint64_t now_ns);
void pace_sent(struct pace *s, uint64_t now_ns, uint64_t packet_bytes);

/* How long a packet of this length keeps the next one waiting; 0: not at all. */
uint64_t pace_gap_ns(const struct pace *s, uint64_t packet_bytes);

/* The peer was told of congestion by what we sent, and tells us. */
void pace_notified(struct pace *s, uint64_t now_ns);

/* What the peer sent met congestion: from time to time it is told. True: so now. */
bool pace_marked(struct pace *s, uint64_t now_ns);
void pace_notice(struct ib_conn *c, struct ib_out *out);

/* ---- message.c ------------------------------------------------------------------------------ */

/* What becomes of a packet of a Send or Write. */
struct verdict {
	enum weft_reason reason; /* WEFT_OK: it was placed */
	uint8_t nak;		 /* enum iba_nak, else */
	bool is_not_ready;	 /* there is no receive: nothing has changed */
};

/* In order and of the connection: checks it, places it, delivers the message with its last. */
struct verdict message_take(struct ib_conn *c, const struct iba_packet *p);

/*
 * LOC-06: all of it is checked before any is used. Memory on demand is asked for packet by packet:
 * else a peer's one byte would bring all of a large receive.
 */
enum weft_reason receive_check(struct weft_qp *qp);

/* Copies what has arrived to where a stretch says. */
enum weft_reason place_list(struct weft_qp *qp, struct stretch *part, const uint8_t *bytes);

/* ---- rc_*.c --------------------------------------------------------------------------------- */

enum weft_reason rc_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
bool rc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* rc_req.c */
enum issue rc_issue(struct ib_conn *c, struct send_wqe *wqe);
bool rc_req_can_send(const struct ib_conn *c);

/* Its next packet, if it can send. False: there is none after all. */
bool rc_req_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* Whether the next request is one that ends a receive of the peer. */
bool rc_req_needs_receive(const struct ib_conn *c);

/* Whether all waits for a receive of the peer that it is known not to have (IBA 9.7.7.2). */
bool rc_req_is_starved(const struct ib_conn *c);

/* Whether an ACK is all that the responder has to say. */
bool rc_reply_is_ack(const struct ib_conn *c);
struct sent *rc_req_at(const struct requester *q, uint32_t n);

/* Which request, counted from the oldest, this is a number of; their count: none. */
uint32_t rc_req_find(const struct requester *q, uint32_t psn);

/* IBA 9.7.7.2: which message the n-th is, counted from 1. */
static inline uint32_t rc_req_ssn(const struct requester *q, uint32_t n)
{
	return iba_psn_add(q->ssn, n + 1 - q->count);
}

/* NULL: it is RESYNC, of an end-to-end context. */
struct send_wqe *rc_req_wqe(const struct ib_conn *c, const struct sent *s);

/* The data of its next packet cannot be had for this reason. False: nor later. */
bool request_waits(struct ib_conn *c, struct send_wqe *wqe, enum weft_reason reason);

/* Takes the oldest request off, which has ended. */
void rc_req_pop(struct ib_conn *c);

/* Ends the oldest with a failure; nothing is sent from now on. */
void rc_req_fail(struct ib_conn *c, enum weft_status status, enum weft_reason reason);

/* rc_comp.c */
enum weft_reason rc_comp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);

/* rc_holes.c */

/* None is missing any more: a list that was lent goes back to the port. */
void rc_holes_return(struct requester *q);

/*
 * The peer has carried out all before this number, which is behind psn_high: that becomes psn_high,
 * and answers in between are missing. False: there is no room to note them all, and psn_high moves
 * up to the first of those.
 */
bool rc_holes_extend(struct ib_conn *c, uint32_t high);

/* Whether this answer, of before psn_high, is missing and can be noted to have come; it has. */
bool rc_holes_has(struct requester *q, uint32_t psn);
void rc_holes_fill(struct requester *q, uint32_t psn);

/* An answer has come for the first time, behind all that came before. */
void rc_holes_passed(struct requester *q, uint32_t psn);

/* The first hole that is to be asked for now, or NULL; that is done; it is to be done again. */
struct hole *rc_holes_due(const struct requester *q);
void rc_holes_asked(struct requester *q, struct hole *hole);
void rc_holes_ask_first(struct requester *q);

/* rc_retry.c */

/* By the table of the moves that there are. */
void requester_move(struct requester *q, enum rnr to);

/* Everything from this packet on is sent again. */
void rc_retry_go_back(struct ib_conn *c, uint64_t now_ns, uint32_t psn);

/* The same because the peer missed this packet: as often as that is allowed. */
void rc_retry_lost(struct ib_conn *c, uint64_t now_ns, uint32_t psn);

/* An answer was lost: it alone is asked for again. */
void rc_retry_ask_again(struct ib_conn *c, uint64_t now_ns);

/*
 * A Read that was asked for again alone has its answer, and nothing was heard of what is behind
 * it: that is asked for again, if nothing comes soon.
 */
void rc_retry_read_alone(struct ib_conn *c, uint64_t now_ns);
void rc_retry_not_ready(struct ib_conn *c, uint64_t now_ns, uint8_t timer_code);

/*
 * Whether a packet of the oldest request that the peer has no receive for would be the last: then
 * the peer is asked for credits first, which begins here if all else is done.
 */
bool rc_retry_is_last(const struct ib_conn *c);
void rc_retry_spare(struct ib_conn *c, uint64_t now_ns);

/* No wait for a receive any more: it has come, or the peer will not tell. */
void rc_retry_wait_end(struct ib_conn *c);

/* An answer to a Read came for the first time, and behind all others. */
void rc_retry_answered(struct requester *q, uint64_t now_ns, uint32_t psn);

/* The oldest was acknowledged; an answer came that is not the oldest's; something was sent. */
void rc_retry_progress(struct ib_conn *c, uint64_t now_ns);
void rc_retry_alive(struct ib_conn *c, uint64_t now_ns);
void rc_retry_sent(struct ib_conn *c, uint64_t now_ns);
void rc_retry_expire(struct ib_conn *c, uint64_t now_ns);

/* rc_near.c */

/* Whether the peer can have sent a request so early; it counts as sent. */
bool rc_near_early(struct responder *r, uint64_t now_ns, uint32_t psn);

/* Whether the peer can be at what the NAK names, which is on its way. */
bool rc_near_nak(struct ib_conn *c, const struct iba_packet *p);

/* rc_resp.c */
enum weft_reason rc_resp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
void rc_resp_touch(struct ib_conn *c);
bool rc_resp_is_touched(const struct ib_conn *c, uint32_t tag);

/*
 * The peer's request at this number is refused for good: when what came before it was answered; the
 * second at once.
 */
void rc_resp_refuse(struct ib_conn *c, uint32_t psn, enum iba_nak nak, enum weft_reason reason);
void rc_resp_end(struct ib_conn *c, uint32_t psn, enum iba_nak nak, enum weft_reason reason);

/* rc_reply.c */
bool rc_reply_next(struct ib_conn *c, struct ib_out *out);

/* ---- uc.c, ud.c ----------------------------------------------------------------------------- */

enum weft_reason uc_recv(struct ib_conn *c, const struct iba_packet *p);
enum weft_reason ud_recv(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in);

/* Whether there is a receive for so many bytes in all; its end, with what became of it. */
enum weft_reason datagram_check(struct ib_conn *c, uint64_t bytes);
enum weft_reason datagram_end(struct ib_conn *c, struct weft_completion *completion,
			      enum weft_reason r, bool is_solicited);

bool uc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);
bool ud_next(struct ib_conn *c, struct ib_out *out);

/* Which path a datagram goes by; NULL: its address handle is gone. */
const struct ib_path *ud_path(const struct ib_conn *c, const struct send_wqe *wqe,
			      struct ib_out *out);
bool ud_has_path(const struct ib_conn *c, const struct send_wqe *wqe);

/* Of both: a packet of the oldest request is on the wire; what the request needs is gone. */
void uc_sent(struct ib_conn *c);
void uc_gone(struct ib_conn *c, enum weft_reason reason);

/* ---- gsi.c ---------------------------------------------------------------------------------- */

enum weft_reason gsi_recv(struct ib_port *port, const struct iba_packet *p, const struct ib_in *in);
bool gsi_next(struct ib_port *port, struct ib_out *out);

/* ---- group.c -------------------------------------------------------------------------------- */

/* Gives it to every member. WEFT_OK: one has taken it; else why the last did not. */
enum weft_reason group_recv(struct ib_port *port, const struct iba_packet *p,
			    const struct ib_in *in);

/* It leaves every group. */
void group_leave_all(struct ib_conn *c);

/* ---- ee.c, rd.c ----------------------------------------------------------------------------- */

/* Of the context's own connection. */
enum weft_reason rd_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
bool rd_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* Whom a packet is from, and for. */
void rd_address(struct ib_conn *c, struct iba_packet *p);

/* The request that is under way has ended well, or failed, or must wait for a receive. */
void ee_request_ended(struct ib_conn *c);
void ee_request_fail(struct ib_conn *c, enum weft_status status, enum weft_reason reason);
void ee_request_suspend(struct ib_conn *c, uint64_t now_ns, uint8_t timer_code);

/* Gives the next request its turn, if none has it. */
void ee_turn(struct ib_ee *ee);

/* The whole context fails: what is on it ends, and nothing more goes. */
void ee_fail(struct ib_ee *ee, enum weft_reason reason);

/* The peer's message ends without having been served, or was refused for good. */
void rd_message_drop(struct ib_conn *c);

/* The queue pair leaves: what it was being asked on this context ends. */
void rd_leave(struct ib_ee *ee, struct weft_qp *qp);

/* Of a queue pair of RD. */
enum weft_reason rd_check(const struct weft_qp *qp, const struct weft_send_wr *wr);
enum issue rd_issue(struct ib_conn *c, struct send_wqe *wqe);
void rd_expire(struct ib_conn *c);
void rd_down(struct ib_conn *c);
