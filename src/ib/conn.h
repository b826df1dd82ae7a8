/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection: a queue pair's part of the port. It has a requester and a responder, each with the
 * PSN state of its direction. So has an end-to-end context (ee.h), on behalf of the queue pairs
 * that it serves: RD is the code of RC, with another queue pair for each message.
 */
#pragma once

#include "ib/pace.h"
#include "ib/port.h"
#include "ib/requester.h"
#include "ib/responder.h"

/* An RD queue pair has one request at a time in flight. */
enum rd_state {
	RD_IDLE = 0,
	RD_WAITING,  /* for its turn on the context */
	RD_ACTIVE,   /* has its turn */
	RD_SUSPENDED /* the peer had no receive; waits before the next try */
};

/* Replies and requests take turns where both are due. */
enum turn {
	TURN_REPLY,   /* the last packet was a request, or there was none: a reply is next */
	TURN_ACK,     /* a request went ahead of an ACK that was due: the ACK is next */
	TURN_REQUEST, /* the last packet was a reply: a request is next */
	TURN_STATES
};

/* A path of a connection, and what goes with it. */
struct ib_way {
	struct ib_path path;
	uint16_t p_key;
	uint64_t timeout_ns;
};

struct ib_conn {
	struct ib_port *port;
	struct weft_qp *qp; /* in a state that receives; NULL: it has left */
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
	bool is_near_latest; /* UD, RD: the latest datagram, in or out, was by shared memory */
	bool is_peer_gone;   /* its process was on this host, and has died */
	bool has_grant;	     /* its peer may access memory directly, see direct.h */
	uint32_t epoch;	     /* tells it from others of the same queue pair; not 0 */
	/* Of direct_issue(). */
	uint32_t direct_epoch; /* of the peer's connection; 0: not known yet */
	uint32_t direct_polls; /* send_cq->polls at the latest request */
	uint32_t direct_ahead; /* requests since that changed */
	uint32_t window, ack_every, q_key;
	enum turn turn;
	/* Path migration, see migrate.h. */
	enum ib_migration migration;
	uint32_t migrations;  /* so far */
	bool is_striping;     /* what is new goes by both paths in turn */
	struct ib_way *other; /* the alternate path; NULL: there is none */
	/* The end. */
	enum weft_reason why;
	/* Every further request is answered by resp.nak at resp.psn; RD: until RESYNC. */
	bool has_final;
	bool is_reported;    /* its end was reported to the owner */
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

/* Whether a packet can wait for a page: it is sent again, and no other message waits behind it. */
static inline bool conn_can_wait(const struct ib_conn *c)
{
	return c->service == WEFT_RC && !c->is_ee;
}

static inline enum iba_service conn_service(const struct ib_conn *c)
{
	return c->is_ee ? IBA_RD : c->is_xrc ? IBA_XRC : IBA_RC;
}

/* NULL: a RESYNC of an end-to-end context. */
static inline struct send_wqe *rc_req_wqe(const struct ib_conn *c, const struct sent *s)
{
	return c->req.qp ? send_queue_at(&c->req.qp->sq, s->slot) : NULL;
}

/* The queue pair that sent the arriving message. */
static inline uint32_t conn_sender(const struct ib_conn *c)
{
	return c->is_ee ? c->resp.src_qp : c->peer_qp;
}

/* RD-04: the context that it came by, and so the node. 0: of a connection, whose peer is known. */
static inline uint32_t conn_sender_ee(const struct ib_conn *c)
{
	return c->is_ee ? c->number : 0;
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

extern const struct transport ib_transport;

/* The connection may have something to send. */
void conn_ready(struct ib_conn *c);

/* Sets its timer to go off no later than this. */
void conn_deadline(struct ib_conn *c, uint64_t deadline_ns);
void conn_alarm(struct ib_conn *c);

/* Fails the queue pair, if it has not left. */
void conn_fail(struct ib_conn *c, enum weft_reason reason);

uint64_t conn_timeout_ns(uint8_t code);

/* Keeps both ends in the queue pair, for messages to users even after the connection has ended. */
void conn_note_path(struct ib_conn *c);
