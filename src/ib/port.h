/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structs of a port and its connections, for the files of this room:
 *
 *	port.c      packets in and out, the table of connections, deadlines, events
 *	conn.c      creation and end of a connection, the transport's table for the verbs
 *	packet.c    builds outgoing packets: headers, payload, ICRC
 *	pace.c      output rate: limits and congestion control
 *	message.c   an incoming Send or Write: every check, placement, delivery
 *	rc_req.c    RC requester: requests -> packets
 *	rc_comp.c   RC completer: responses and acknowledgements of the peer
 *	rc_holes.c  missing Read responses
 *	rc_near.c   which PSNs a genuine peer can be at
 *	rc_retry.c  timeouts and retries
 *	rc_resp.c   RC responder: requests of the peer
 *	rc_reply.c  RC responder: responses and acknowledgements
 *	uc.c, ud.c  the unacknowledged services
 *	gsi.c       management datagrams, to and from queue pair 1
 *	group.c     multicast
 *	ee.c        end-to-end contexts: creation and end, turns of the queue pairs
 *	rd.c        reliable datagrams: where they differ from RC
 *	raw.c       raw datagrams
 *
 * The PSN state of the two directions has structs of its own (struct requester, struct responder).
 * A connected queue pair has both, and so has an end-to-end context, on behalf of the queue pairs
 * that it serves. So RD is the code of RC, with another queue pair for each message.
 */
#pragma once

#include "ib/ib.h"
#include "verbs/ee.h"
#include "wire/iba_aeth.h"
#include "wire/iba_grh.h"
#include "wire/iba_icrc.h"
#include "wire/iba_psn.h"

enum {
	IB_BURST = 16,		     /* packets of a connection before the next one's turn */
	IB_READ_PSNS_MAX = 1 << 22,  /* of one Read's response */
	IB_PSNS_MAX = (1 << 23) - 1, /* in flight: half of the PSN space */
	IB_HELD_MAX = 64,	     /* pins of one batch of packets */
	IB_BOUNCES = 16,	     /* copies of a batch, if its owner supplies no room */
	IB_FACTORS = IBA_PACKET_MAX / 4 + 1,
	IB_MADS_MAX = 64,
	IB_MEMBERS_MAX = 4096
};

/* Management datagrams, in order. */
struct mad_ring {
	struct ib_mad mads[IB_MADS_MAX];
	uint32_t first, count;
};

/* A membership of a queue pair in a group. */
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
	struct timer_queue timers; /* one for each connection: when an answer is due */
	struct timer_queue wakes;  /* one for each connection: when pacing lets it send */
	struct list ready;	   /* connections that have something to send */
	struct list ended;	   /* ended connections, to report to the owner */
	struct list members;	   /* struct member, of all groups */
	struct mad_ring mads_in, mads_out;
	uint32_t mad_psn;
	uint32_t member_count;
	struct hole_list *hole_lists; /* IB_HOLE_LISTS */
	struct hole_list *hole_lists_free;
	uint32_t hole_lists_fresh; /* index of the first that was never used */
	struct list raws;	   /* connections of raw datagrams */
	struct list ees_ended;	   /* failed end-to-end contexts, to report to the owner */
	struct ib_counts counts;
	uint64_t drops[WEFT_REASON_COUNT]; /* of counts.dropped */
	uint64_t cut_after;		   /* injected fault: bytes one way; UINT64_MAX: never */
	struct qp_tally unowned; /* counts without a queue pair: it has left, or of a context */
	uint32_t burst;		 /* packets that the first of ready has sent in its turn */
	uint32_t factors[IB_FACTORS]; /* of iba_icrc_factor(), by words; 0: not computed yet */
	uint8_t bounce[IB_BOUNCES][IBA_PAYLOAD_MAX];
	uint32_t bounced; /* packets of this batch with payload in bounce */
	uint64_t now_ns;  /* of the latest call that had the time */
	/* SEND-05: memory that packets are being sent from. */
	struct held {
		struct mem_paging *paging;
		uint64_t real, length;
	} held[IB_HELD_MAX];
	uint32_t held_count;
	uint64_t kept_ns; /* the time up to which counts.kept_byte_ns is summed */
};

/* ---- Requester ------------------------------------------------------------------------------ */

/* SEND-11: a request in flight, or about to be sent. Its slot tells where its data is. */
struct sent {
	uint32_t psn;	/* of its first packet; of a Read: of the first response packet */
	uint32_t count; /* PSNs that it takes */
	uint32_t slot;	/* of the send queue */
};

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

/* How to handle a peer that has no receive for the oldest request. */
enum rnr {
	RNR_NONE,    /* the peer may have a receive */
	RNR_TRIED,   /* asked for credits long enough: send the request, whatever comes */
	RNR_LEFT,    /* waiting out an RNR NAK; in this and the later states no request is sent */
	RNR_ASKED,   /* asking for credits now and then, as another RNR NAK would be fatal */
	RNR_ASK_DUE, /* the same, and it is time to ask */
	RNR_STATES
};

struct requester {
	struct weft_qp *qp; /* owner of the requests; NULL: it has left */
	struct sent *sent;  /* a ring, as long as the send queue */
	uint32_t max, first, count;
	uint32_t at;	    /* index from first: the request whose packets are sent next */
	uint32_t psn_una;   /* the oldest without acknowledgement or response */
	uint32_t psn_high;  /* the peer has executed all before it */
	uint32_t psn_send;  /* of the next packet */
	uint32_t psn_sent;  /* one after the highest ever sent */
	uint32_t psn_next;  /* of the next request */
	uint32_t read_psns; /* PSNs of Reads from psn_una to psn_send */
	uint32_t ssn;	    /* IBA 9.7.7.2: of the latest request, counted from 1 */
	uint32_t unasked;   /* packets since the last with AckReq */
	uint64_t asked_ns;
	uint64_t kept_bytes; /* of Sends and Writes in flight, see struct ib_counts */
	/* Missing responses before psn_high, in order. The oldest: psn_una, if it is a Read. */
	struct hole *holes; /* RC: NULL if none is missing */
	uint32_t hole_max, hole_count;
	uint32_t missing;      /* packets of all holes */
	uint32_t asks;	       /* repeated requests for missing responses so far */
	uint32_t psn_reported; /* psn_high, or higher if holes had no room for all */
	/* SEND-09: the data of the packet at absent_psn is paged out, and was asked for. */
	uint32_t absent_psn;
	bool is_absent;
	/* IBA 9.7.7.2, end-to-end credits: messages that need a receive up to limit_ssn go. */
	bool is_limited;
	uint8_t retries_left, rnr_left;
	uint32_t limit_ssn;
	/* Retries. A probe resends the one packet at psn_una. */
	enum rnr rnr;
	bool is_missed;		       /* the peer NAKed a loss since the last progress or retry */
	bool is_probe_due;	       /* a probe is to be sent */
	bool is_probed;		       /* probe of probe_psn, no Read: nothing new heard since */
	bool is_read_probed;	       /* probe of a Read: nothing heard of it since */
	bool is_timed;		       /* the packet at timed_psn measures the round trip */
	uint32_t probe_psn, probe_end; /* of a Read: without probe_end */
	uint32_t back_psn;	       /* all from there on was sent again, at back_ns */
	uint64_t rnr_since_ns; /* when the oldest request first found no receive; or UINT64_MAX */
	uint64_t deadline_ns;  /* UINT64_MAX: none */
	uint64_t progress_ns;  /* of the latest progress, or of the first packet in flight */
	uint64_t back_ns;
	uint64_t missed_ns; /* since when is_missed */
	uint64_t probe_ns;  /* silence until the next probe */
	/* Round trips, by RFC 6298; srtt_ns 0: unknown. */
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
	uint8_t kind;	       /* IBA_KIND_SEND, IBA_KIND_WRITE; IBA_KIND_NONE: no message */
	uint32_t bytes;	       /* received so far */
	struct recv_wqe *recv; /* RD Send: its receive, between its packets */
	uint64_t room;	       /* Send: of its receive */
	/* Write. */
	uint64_t va;
	uint32_t r_key, length;
};

/* A Read or atomic of the peer: kept for its response, and for repeated responses. */
struct resource {
	uint32_t psn : 24, kind : 8; /* IBA_KIND_READ, IBA_KIND_ATOMIC */
	/* refused: the NAK syndrome of a refused Read; 0: it is served. */
	uint32_t msn : 24, refused : 8;
	uint32_t count : 24;
	bool is_touch_due : 1; /* once the peer has the response, a one-touch tag is used up */
	uint32_t r_key, length;
	uint32_t pd; /* of the memory */
	uint64_t va;
	uint64_t original; /* of an atomic: the value of the response */
};

/* A repeated request for packets of a kept response: those from at up to end are due. */
struct again {
	uint32_t res; /* number of the resource */
	uint32_t began, at, end;
};

struct responder {
	struct weft_qp *qp; /* serves the peer's requests; NULL: it has left */
	uint32_t psn;	    /* expected */
	uint32_t msn;
	struct message in;
	/* To be sent after all responses. */
	bool is_ack_due, is_nak_due;
	uint32_t src_qp;	  /* RD: queue pair of the latest request, to which replies go */
	uint8_t nak;		  /* syndrome */
	bool is_deaf;		  /* after a NAK or RNR NAK: drops all but the expected packet */
	uint32_t psn_early;	  /* the latest out-of-order PSN, while is_deaf */
	uint64_t far_next_ns;	  /* until then PSNs that are far ahead are not answered */
	enum weft_reason refusal; /* of the expected request: NAKed after all responses */
	bool is_hungry;		  /* the peer was told that there is no receive */
	bool has_touch_due;	  /* is_touch_due of a resource */
	/* Reads and atomics by number, the newest is res_next - 1. A ring of res_mask + 1. */
	struct resource *res;
	uint32_t res_mask, res_max;   /* res_max: that may wait for a response */
	uint32_t res_first, res_next; /* the kept ones */
	uint32_t res_at, res_packet;  /* the next response packet */
	uint32_t res_began;	      /* the first packet of this response */
	uint32_t res_answered;	      /* all before it had a response at least once */
	/* Repeated responses, in the order of the requests. A ring of the same size. */
	struct again *again;
	uint32_t again_first, again_next;
};

/* Whether responses to Reads or atomics are due, or to be repeated. */
static inline bool responder_is_answering(const struct responder *r)
{
	return r->res_at != r->res_next || r->again_first != r->again_next;
}

/* ---- Pace ----------------------------------------------------------------------------------- */

struct pace {
	uint64_t limit_bps; /* as configured; 0: none */
	/* During congestion: rate_bps is not 0. */
	uint64_t rate_bps, target_bps;
	uint64_t cut_ns, raise_ns;
	uint32_t alpha, stage;
	/* Packets. */
	uint64_t next_ns;  /* no packet before */
	struct timer wake; /* set while a packet waits for next_ns */
	uint64_t meter_ns, meter_bytes, meter_bps, sent_ns;
	/* Congestion of arriving packets: CNPs to their sender. */
	uint64_t notified_ns;
	bool has_notified, is_notice_due;
};

/* An RD queue pair has one request at a time in flight. */
enum rd_state {
	RD_IDLE = 0,
	RD_WAITING,  /* for its turn on the context */
	RD_ACTIVE,   /* has its turn */
	RD_SUSPENDED /* the peer had no receive; waits before the next try */
};

/* ---- The connection ------------------------------------------------------------------------- */

struct ib_conn {
	struct ib_port *port;
	struct weft_qp *qp; /* NULL: it has left */
	enum weft_qp_service service;
	bool is_xrc;
	uint32_t number, peer_qp;
	uint16_t p_key;
	struct ib_path path;
	struct list ready_link, ended_link;
	struct timer timer;
	struct requester req;
	struct responder resp;
	struct pace pace;
	/* From the config. */
	uint64_t timeout_ns; /* UINT64_MAX: for ever */
	uint8_t retries, rnr_retries, rnr_timer_code;
	uint32_t window, ack_every, q_key;
	/* The end. */
	enum weft_reason why;
	/* Every further request is answered by resp.nak at resp.psn; RD: until RESYNC. */
	bool has_final;
	bool is_reported;    /* its end was reported to the owner */
	bool was_reply;	     /* the last packet was a reply: requests are next */
	bool has_ack_waited; /* an ACK was deferred to let a request go first */
	bool is_established; /* a packet of the peer came in RTR */
	bool is_ee;	     /* part of an end-to-end context (struct ib_ee) */
	void *owner;
	/* Raw datagrams. */
	struct list raw_link;
	struct ib_raw raw;
	/* RD queue pair: its one request that waits for its turn, or has it. */
	enum rd_state rd_state;
	struct ib_ee *ee; /* the context of that request */
	uint32_t slot;	  /* of that request in the send queue */
	uint32_t rdd;	  /* RD queue pair and context: the RD domain */
	struct list turn_link;
};

/* ---- The end-to-end context ----------------------------------------------------------------- */

/* RD-02. One allocation; all other state belongs to the queue pairs that use it. */
struct ib_ee {
	struct weft_ee handle;
	struct ib_conn conn;	/* without a queue pair of its own */
	uint32_t peer;		/* number of the peer's context; 0: not known yet */
	struct ib_conn *active; /* the queue pair with a request in flight; NULL: none, RESYNC */
	struct list waiting;	/* queue pairs that wait for their turn, in order */
	struct list suspended;	/* queue pairs in RD_SUSPENDED */
	/* Of the request in flight, or abandoned. */
	uint32_t src_qp, dest_qp, q_key;
	enum weft_reason why; /* of its failure */
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

/* The queue pair that sent the arriving message. */
static inline uint32_t conn_sender(const struct ib_conn *c)
{
	return c->is_ee ? c->resp.src_qp : c->peer_qp;
}

/* The counters for a queue pair, which may have left. */
static inline struct qp_tally *tally_of(struct ib_port *port, struct weft_qp *qp)
{
	return qp ? &qp->tally : &port->unowned;
}

/* Traces an event of a queue pair. */
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

/* A message was received completely; the last packet of a message was sent for the first time. */
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

/* The connection may have something to send. */
void conn_ready(struct ib_conn *c);

/* Sets its timer to go off no later than this. */
void conn_deadline(struct ib_conn *c, uint64_t deadline_ns);
void conn_alarm(struct ib_conn *c);

/* Fails the queue pair, if it has not left. */
void conn_fail(struct ib_conn *c, enum weft_reason reason);

uint64_t conn_timeout_ns(uint8_t code);

/* port.c */
void port_dropped(struct ib_port *port, uint32_t who, enum weft_reason reason);
enum weft_reason port_check_icrc(struct ib_port *port, const struct ib_in *in);

/* Pins the memory of a packet. False: copy it instead. port_release: unpins those from an index. */
bool port_hold(struct ib_port *port, const struct mem_span *span);
void port_release(struct ib_port *port, uint32_t from);

/* Adjusts the bytes that would be pinned if all data were pinned until it is acknowledged. */
void port_kept(struct ib_port *port, struct requester *q, int64_t bytes);

/* ---- packet.c ------------------------------------------------------------------------------- */

/* The payload of a packet. */
struct load {
	struct mem_span spans[IB_OUT_SPANS_MAX];
	uint32_t count;
	uint32_t bytes;	 /* in all */
	bool is_bounced; /* copied to port->bounce */
};

/* Builds a packet for a path, which must live as long as *out. load: its payload, or NULL. */
void packet_write(struct ib_port *port, const struct ib_path *path, struct iba_packet *p,
		  const struct load *load, struct ib_out *out);

/* The same to the peer of a connection: fills in the fields common to its packets. */
void packet_make(struct ib_conn *c, struct iba_packet *p, const struct load *load,
		 struct ib_out *out);

/*
 * Gathers the payload of a stretch of a list, or of a grant. WEFT_OK: all of it is in *load.
 */
enum weft_reason packet_gather(struct ib_conn *c, const struct stretch *part, struct load *load);
enum weft_reason packet_gather_grant(struct ib_conn *c, struct mem_grant *grant, struct load *load);

/* Whether the data of the request is inline. */
bool request_is_inline(const struct send_wqe *wqe);

/* Packet number i of a Send or Write: opcode and headers; payload, or why it is not available. */
void request_packet(struct ib_conn *c, const struct send_wqe *wqe, uint32_t i,
		    struct iba_packet *p);
enum weft_reason request_payload(struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
				 struct load *load);

/* ---- pace.c --------------------------------------------------------------------------------- */

void pace_init(struct pace *s);

/* Whether a packet with payload may be sent now; one was sent. */
bool pace_is_open(struct pace *s, uint64_t now_ns);
void pace_sent(struct pace *s, uint64_t now_ns, uint64_t packet_bytes);

/* The gap after a packet of this length; 0: none. */
uint64_t pace_gap_ns(const struct pace *s, uint64_t packet_bytes);

/* A CNP came: our packets met congestion. */
void pace_notified(struct pace *s, uint64_t now_ns);

/* A packet of the peer was marked CE. True: a CNP is due now; their rate is limited. */
bool pace_marked(struct pace *s, uint64_t now_ns);
void pace_notice(struct ib_conn *c, struct ib_out *out);

/* ---- message.c ------------------------------------------------------------------------------ */

/* The result of a packet of a Send or Write. */
struct verdict {
	enum weft_reason reason; /* WEFT_OK: it was placed */
	uint8_t nak;		 /* enum iba_nak, for any other reason */
	bool is_not_ready;	 /* there is no receive; no state has changed */
};

/* Checks and places an in-order packet of the connection; the last one delivers the message. */
struct verdict message_take(struct ib_conn *c, const struct iba_packet *p);

/*
 * LOC-06: checks the whole receive before any of it is used. On-demand memory is paged in packet by
 * packet: else one byte of a peer would page in all of a large receive.
 */
enum weft_reason receive_check(struct weft_qp *qp);

/* Copies received bytes to the memory of a stretch. */
enum weft_reason place_list(struct weft_qp *qp, struct stretch *part, const uint8_t *bytes);

/* ---- rc_*.c --------------------------------------------------------------------------------- */

enum weft_reason rc_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
bool rc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* rc_req.c */
enum issue rc_issue(struct ib_conn *c, struct send_wqe *wqe);
bool rc_req_can_send(const struct ib_conn *c);

/* The next packet, if rc_req_can_send(). False: there is none after all. */
bool rc_req_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* Whether the next request consumes a receive of the peer. */
bool rc_req_needs_receive(const struct ib_conn *c);

/* Whether all requests wait for a receive that the peer is known not to have (IBA 9.7.7.2). */
bool rc_req_is_starved(const struct ib_conn *c);

/* Whether an ACK is all that the responder has to send. */
bool rc_reply_is_ack(const struct ib_conn *c);
struct sent *rc_req_at(const struct requester *q, uint32_t n);

/* Index, from the oldest, of the request that has this PSN; q->count: none. */
uint32_t rc_req_find(const struct requester *q, uint32_t psn);

/* IBA 9.7.7.2: the SSN of the n-th request. */
static inline uint32_t rc_req_ssn(const struct requester *q, uint32_t n)
{
	return iba_psn_add(q->ssn, n + 1 - q->count);
}

/* NULL: a RESYNC of an end-to-end context. */
struct send_wqe *rc_req_wqe(const struct ib_conn *c, const struct sent *s);

/* The data of the next packet is not available. True: it waits for a page; false: it failed. */
bool request_waits(struct ib_conn *c, struct send_wqe *wqe, enum weft_reason reason);

/* Removes the oldest request, which has ended. */
void rc_req_pop(struct ib_conn *c);

/* Fails the oldest request; nothing more is sent. */
void rc_req_fail(struct ib_conn *c, enum weft_status status, enum weft_reason reason);

/* rc_comp.c */
enum weft_reason rc_comp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);

/* rc_holes.c */

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

/* rc_retry.c */

/* Changes the RNR state; only moves of the table are legal. */
void requester_move(struct requester *q, enum rnr to);

/* Resends everything from this packet on. */
void rc_retry_go_back(struct ib_conn *c, uint64_t now_ns, uint32_t psn);

/* The same after a NAK of the peer for this packet; limited by the retries. */
void rc_retry_lost(struct ib_conn *c, uint64_t now_ns, uint32_t psn);

/* A response was lost: requests it alone again. */
void rc_retry_ask_again(struct ib_conn *c, uint64_t now_ns);

/*
 * A repeated Read has its response, and nothing was heard of the requests after it: they are
 * repeated if nothing comes soon.
 */
void rc_retry_read_alone(struct ib_conn *c, uint64_t now_ns);
void rc_retry_not_ready(struct ib_conn *c, uint64_t now_ns, uint8_t timer_code);

/*
 * Whether another RNR NAK for the oldest request would exhaust its retries: then the peer is asked
 * for credits first. rc_retry_spare: starts to ask, if all other requests are done.
 */
bool rc_retry_is_last(const struct ib_conn *c);
void rc_retry_spare(struct ib_conn *c, uint64_t now_ns);

/* Ends the wait for a receive: there is one, or the peer will not say. */
void rc_retry_wait_end(struct ib_conn *c);

/* A new Read response came, with the highest PSN so far. */
void rc_retry_answered(struct requester *q, uint64_t now_ns, uint32_t psn);

/* The oldest packet was acknowledged; a response came, but not to the oldest; a packet was sent. */
void rc_retry_progress(struct ib_conn *c, uint64_t now_ns);
void rc_retry_alive(struct ib_conn *c, uint64_t now_ns);
void rc_retry_sent(struct ib_conn *c, uint64_t now_ns);
void rc_retry_expire(struct ib_conn *c, uint64_t now_ns);

/* rc_near.c */

/* Whether a genuine peer can have sent a request this far ahead; if so, notes it. */
bool rc_near_early(struct responder *r, uint64_t now_ns, uint32_t psn);

/* Whether a genuine peer can be at the PSN of the NAK, which is in flight. */
bool rc_near_nak(struct ib_conn *c, const struct iba_packet *p);

/* rc_resp.c */
enum weft_reason rc_resp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
void rc_resp_touch(struct ib_conn *c);
bool rc_resp_is_touched(const struct ib_conn *c, uint32_t tag);

/*
 * Refuses the peer's request at this PSN with a fatal NAK. rc_resp_refuse: after the responses to
 * earlier requests; rc_resp_end: at once.
 */
void rc_resp_refuse(struct ib_conn *c, uint32_t psn, enum iba_nak nak, enum weft_reason reason);
void rc_resp_end(struct ib_conn *c, uint32_t psn, enum iba_nak nak, enum weft_reason reason);

/* rc_reply.c */
bool rc_reply_next(struct ib_conn *c, struct ib_out *out);

/* ---- uc.c, ud.c ----------------------------------------------------------------------------- */

enum weft_reason uc_recv(struct ib_conn *c, const struct iba_packet *p);
enum weft_reason ud_recv(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in);

/* Whether there is a receive for so many bytes; completes it with the result. */
enum weft_reason datagram_check(struct ib_conn *c, uint64_t bytes);
enum weft_reason datagram_end(struct ib_conn *c, struct weft_completion *completion,
			      enum weft_reason r, bool is_solicited);

bool uc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);
bool ud_next(struct ib_conn *c, struct ib_out *out);

/* The path of a datagram; NULL: its address handle was destroyed. */
const struct ib_path *ud_path(const struct ib_conn *c, const struct send_wqe *wqe,
			      struct ib_out *out);
bool ud_has_path(const struct ib_conn *c, const struct send_wqe *wqe);

/* UC and UD: a packet of the oldest request was sent; the request cannot be sent any more. */
void uc_sent(struct ib_conn *c);
void uc_gone(struct ib_conn *c, enum weft_reason reason);

/* ---- gsi.c ---------------------------------------------------------------------------------- */

enum weft_reason gsi_recv(struct ib_port *port, const struct iba_packet *p, const struct ib_in *in);
bool gsi_next(struct ib_port *port, struct ib_out *out);

/* ---- group.c -------------------------------------------------------------------------------- */

/* Delivers to every member. WEFT_OK: at least one took it; else the reason of the last. */
enum weft_reason group_recv(struct ib_port *port, const struct iba_packet *p,
			    const struct ib_in *in);

/* Leaves every group. */
void group_leave_all(struct ib_conn *c);

/* ---- ee.c, rd.c ----------------------------------------------------------------------------- */

/* For the context's own connection. */
enum weft_reason rd_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
bool rd_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);

/* Sets source and destination queue pair of a packet. */
void rd_address(struct ib_conn *c, struct iba_packet *p);

/* The request in flight has succeeded, has failed, or must wait for a receive. */
void ee_request_ended(struct ib_conn *c);
void ee_request_fail(struct ib_conn *c, enum weft_status status, enum weft_reason reason);
void ee_request_suspend(struct ib_conn *c, uint64_t now_ns, uint8_t timer_code);

/* Gives the next waiting request its turn, if none is in flight. */
void ee_turn(struct ib_ee *ee);

/* Fails the whole context: ends its requests, and sends nothing more. */
void ee_fail(struct ib_ee *ee, enum weft_reason reason);

/* Ends the peer's message without delivery, or after a fatal NAK. */
void rd_message_drop(struct ib_conn *c);

/* The queue pair leaves: ends the peer's message to it on this context. */
void rd_leave(struct ib_ee *ee, struct weft_qp *qp);

/* For an RD queue pair. */
enum weft_reason rd_check(const struct weft_qp *qp, const struct weft_send_wr *wr);
enum issue rd_issue(struct ib_conn *c, struct send_wqe *wqe);
void rd_expire(struct ib_conn *c);
void rd_down(struct ib_conn *c);
