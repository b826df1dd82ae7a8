/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End-to-end contexts, and the reliable datagrams that they carry: a context is a connection that
 * serves one queue pair after the other. ee.c has creation, end and turns of the queue pairs, rd.c
 * where RD differs from RC.
 */
#pragma once

#include "base/check.h"
#include "ib/conn.h"
#include "ib/rc_holes.h"
#include "verbs/ee.h"

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

/* For all contexts, see ib_port_near_ended() and ib_port_near_refused(). */
void ee_near_ended(struct ib_port *port, uint32_t near_number);
struct ib_path *ee_near_refused(struct ib_port *port, uint32_t near_number);

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
