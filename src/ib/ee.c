/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End-to-end contexts (RD-02): RC's requester and responder without a queue pair of their own. One
 * message is under way at a time (IBA 9.7.8), and the queue pairs take turns:
 *
 *	        +----------------------- suspended <---- RNR NAK, and RESYNC
 *	        v   the time is over                        |
 *	 --> waiting ------------------> active ------------+--> ended
 *	 issue     first in, first out          ACK, NAK (and RESYNC)
 *
 * A message that is taken away before its end leaves a hole in the numbers, as packets of it may
 * still be about. RESYNC, acknowledged like a request, takes the peer to what follows the hole.
 */
#include "ib/ee.h"

#include <stdlib.h>

#include "base/check.h"
#include "ib/conn.h"
#include "ib/pace.h"
#include "ib/port.h"
#include "ib/rc.h"
#include "ib/rc_holes.h"
#include "ib/rc_retry.h"
#include "ib/requester.h"
#include "ib/responder.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

/* ---- Life ----------------------------------------------------------------------------------- */

static bool config_is_good(const struct ib_ee_config *k)
{
	return k->path.mtu_bytes > 0 &&
	       iba_mtu_bytes(iba_mtu_code(k->path.mtu_bytes)) == k->path.mtu_bytes &&
	       k->psn_send <= IBA_PSN_MASK && k->timeout_code < 32 && k->retries <= 7 &&
	       k->rnr_retries <= IB_RNR_RETRY_FOREVER && k->window_packets < IB_PSNS_MAX / 2;
}

static void conn_init(struct ib_ee *ee, struct ib_port *port, const struct ib_ee_config *k)
{
	struct ib_conn *c = &ee->conn;
	struct requester *q = &c->req;

	c->port = port;
	c->service = WEFT_RD;
	c->is_ee = true;
	c->rdd = k->rdd;
	c->p_key = k->p_key ? k->p_key : port->p_keys[0];
	c->path = k->path;
	c->timeout_ns = conn_timeout_ns(k->timeout_code);
	c->retries = k->retries;
	c->rnr_retries = k->rnr_retries;
	c->window = k->window_packets ? k->window_packets : IB_WINDOW_DEFAULT;
	c->ack_every = k->ack_every ? k->ack_every : (c->window + 3) / 4;
	c->owner = k->owner;
	pace_init(&c->pace);
	list_init(&c->ready_link);
	list_init(&c->ended_link);
	list_init(&c->turn_link);
	list_init(&c->raw_link);
	q->psn_una = q->psn_high = q->psn_reported = k->psn_send;
	q->psn_send = q->psn_sent = q->psn_next = k->psn_send;
	q->back_psn = iba_psn_add(k->psn_send, IBA_PSN_MASK); /* nowhere */
	q->retries_left = k->retries;
	q->deadline_ns = q->rnr_since_ns = UINT64_MAX;
	q->sent = &ee->sent;
	q->holes = ee->holes;
	q->hole_max = IB_EE_HOLES_MAX;
	q->max = 1;
	c->resp.res = &ee->resource;
	c->resp.again = &ee->again;
	c->resp.res_max = 1;
}

enum weft_reason ib_ee_create(struct ib_port *port, const struct ib_ee_config *k, struct ib_ee **ee)
{
	struct ib_ee *e;

	if (!config_is_good(k))
		return WEFT_R_BAD_ARGUMENT;
	e = calloc(1, sizeof(*e));
	if (!e)
		return WEFT_R_NO_MEMORY;
	e->handle.adapter = port->adapter;
	e->handle.number = id_table_add(&port->adapter->ees, &e->handle);
	if (e->handle.number == 0) {
		free(e);
		return WEFT_R_LIMIT;
	}
	conn_init(e, port, k);
	e->conn.number = e->handle.number;
	list_init(&e->waiting);
	list_init(&e->suspended);
	list_init(&e->ended_link);
	port->conns_used++;
	*ee = e;
	return WEFT_OK;
}

enum weft_reason ib_ee_connect(struct ib_ee *ee, uint32_t peer, uint32_t psn_recv)
{
	if (peer == 0 || peer > IBA_NUMBER_MAX || psn_recv > IBA_PSN_MASK)
		return WEFT_R_BAD_ARGUMENT;
	if (ee->peer != 0)
		return WEFT_R_QP_CONNECTED;
	ee->peer = peer;
	ee->conn.resp.psn = psn_recv;
	conn_ready(&ee->conn);
	return WEFT_OK;
}

void ib_ee_set_source(struct ib_ee *ee, uint16_t port, uint32_t near_number)
{
	CHECK(ee->peer == 0);
	ee->conn.path.from.port = port;
	ee->conn.path.near_number = near_number;
}

void ib_ee_destroy(struct ib_ee *ee)
{
	struct ib_port *port = ee->conn.port;

	ee_fail(ee, WEFT_R_STREAM_LOST);
	list_remove(&ee->ended_link);
	id_table_remove(&port->adapter->ees, ee->handle.number);
	port->conns_used--;
	free(ee);
}

uint32_t ib_ee_number(const struct ib_ee *ee)
{
	return ee->handle.number;
}

void *ib_ee_owner(const struct ib_ee *ee)
{
	return ee->conn.owner;
}

struct weft_ee *ib_ee_handle(struct ib_ee *ee)
{
	return &ee->handle;
}

struct ib_ee *ib_ee_of(struct weft_ee *handle)
{
	return CONTAINER_OF(handle, struct ib_ee, handle);
}

struct ib_ee *ib_port_find_ee(const struct ib_port *port, uint32_t number)
{
	struct weft_ee *handle = ee_find(port->adapter, number);
	struct ib_ee *ee = handle ? ib_ee_of(handle) : NULL;

	return ee && ee->conn.port == port && ee->peer != 0 ? ee : NULL;
}

enum weft_reason ib_ee_why(const struct ib_ee *ee)
{
	return ee->why;
}

bool ib_ee_is_busy(const struct ib_ee *ee)
{
	return list_is_linked(&ee->conn.ready_link) || ee->conn.req.count > 0;
}

struct ib_ee *ib_port_ee_event(struct ib_port *port)
{
	if (list_is_empty(&port->ees_ended))
		return NULL;
	return CONTAINER_OF(list_pop(&port->ees_ended), struct ib_ee, ended_link);
}

/* ---- Turns ---------------------------------------------------------------------------------- */

/* RD-04: the queue pair that is to have it, and how it proves that it may. */
static void turn_begin(struct ib_ee *ee, struct ib_conn *c)
{
	struct send_wqe *wqe = send_queue_at(&c->qp->sq, c->slot);
	/* IBA 10.2.5: a user's request cannot name a privileged key, but has its queue pair's. */
	bool is_own = wqe->remote_q_key >> 31;

	c->rd_state = RD_ACTIVE;
	c->is_near_latest = ee->conn.path.near_number != 0;
	ee->active = c;
	ee->src_qp = c->number;
	ee->dest_qp = wqe->dest_qp_number;
	ee->q_key = is_own ? c->q_key : wqe->remote_q_key;
	ee->conn.req.qp = c->qp;
	CHECK(rc_issue(&ee->conn, wqe) == ISSUE_BEGUN);
}

void ee_turn(struct ib_ee *ee)
{
	if (ee->conn.req.count > 0 || ee->peer == 0 || list_is_empty(&ee->waiting))
		return;
	turn_begin(ee, CONTAINER_OF(list_pop(&ee->waiting), struct ib_conn, turn_link));
}

/* The queue pair has no request here any more. */
static void turn_over(struct ib_conn *c)
{
	c->rd_state = RD_IDLE;
	c->ee = NULL;
	c->req.deadline_ns = UINT64_MAX;
	list_remove(&c->turn_link);
	timer_queue_cancel(&c->port->timers, &c->timer);
}

static void request_end(struct ib_conn *c, enum weft_status status, enum weft_reason reason)
{
	struct send_wqe *wqe = send_queue_at(&c->qp->sq, c->slot);

	turn_over(c);
	send_queue_end(c->qp, wqe, &(struct outcome){ .status = status, .reason = reason });
}

void ee_request_ended(struct ib_conn *c)
{
	struct ib_ee *ee = ee_of(c);

	if (ee->active)
		turn_over(ee->active);
	ee->active = NULL;
	c->req.qp = NULL;
	conn_ready(c);
}

/* What is under way is so no more; what went out of it must be told from what comes next. */
static void abandon(struct ib_ee *ee)
{
	struct ib_conn *c = &ee->conn;
	struct requester *q = &c->req;
	bool was_sent = q->psn_sent != ee->sent.psn;

	CHECK(q->count == 1 && ee->active);
	q->count = q->at = 0;
	q->read_psns = q->unasked = 0;
	q->is_timed = false;
	q->hole_count = q->missing = 0;
	q->is_probe_due = false;
	requester_move_probed(q, PROBED_NONE);
	q->deadline_ns = UINT64_MAX;
	q->psn_una = q->psn_send = q->psn_next = q->psn_sent;
	q->psn_high = q->psn_reported = q->psn_sent;
	ee_request_ended(c);
	if (!was_sent)
		return;
	ee->sent = (struct sent){ .psn = q->psn_next, .count = 1 };
	q->count = 1;
	q->psn_next = iba_psn_add(q->psn_next, 1);
}

void ee_request_fail(struct ib_conn *c, enum weft_status status, enum weft_reason reason)
{
	struct ib_ee *ee = ee_of(c);
	struct ib_conn *own = ee->active;

	if (!own) { /* RESYNC, which no peer refuses that has such a context */
		ee_fail(ee, WEFT_R_PEER_TERMINATED);
		return;
	}
	abandon(ee);
	request_end(own, status, reason);
}

/* IBA 9.7.5.2.8 for RD: others need not wait for the receive of one. */
void ee_request_suspend(struct ib_conn *c, uint64_t now_ns, uint8_t timer_code)
{
	struct ib_ee *ee = ee_of(c);
	struct ib_conn *own = ee->active;
	struct requester *q = &own->req;

	if (q->rnr_since_ns == UINT64_MAX)
		q->rnr_since_ns = now_ns;
	if (q->rnr_left == 0 || now_ns - q->rnr_since_ns >= own->qp->receiver_wait_ns) {
		ee_request_fail(c, WEFT_ERR_RECEIVER_NOT_READY, WEFT_R_RECEIVER_NOT_READY);
		return;
	}
	if (c->rnr_retries != IB_RNR_RETRY_FOREVER)
		q->rnr_left--;
	c->req.retries_left = c->retries; /* it is there, and answers */
	abandon(ee);
	own->rd_state = RD_SUSPENDED;
	own->ee = ee;
	list_add_tail(&ee->suspended, &own->turn_link);
	conn_deadline(own, now_ns + iba_rnr_ns(timer_code));
}

static void wait_for_turn(struct ib_conn *c)
{
	c->rd_state = RD_WAITING;
	list_add_tail(&c->ee->waiting, &c->turn_link);
	conn_ready(&c->ee->conn);
}

void rd_expire(struct ib_conn *c)
{
	c->req.deadline_ns = UINT64_MAX;
	if (c->rd_state != RD_SUSPENDED)
		return;
	list_remove(&c->turn_link);
	wait_for_turn(c);
}

enum issue rd_issue(struct ib_conn *c, struct send_wqe *wqe)
{
	struct weft_ee *handle = ee_find(c->port->adapter, wqe->ee);
	struct ib_ee *ee = handle ? ib_ee_of(handle) : NULL;

	if (!ee || ee->why != WEFT_OK) {
		send_queue_end(c->qp, wqe,
			       &(struct outcome){
				       .status = WEFT_ERR_PEER_GONE,
				       .reason = WEFT_R_PEER_GONE,
			       });
		return ISSUE_BEGUN;
	}
	c->ee = ee;
	c->slot = send_queue_index(&c->qp->sq, wqe);
	c->req.rnr_since_ns = UINT64_MAX;
	c->req.rnr_left = ee->conn.rnr_retries;
	wait_for_turn(c);
	return ISSUE_BEGUN;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void list_fail(struct list *list)
{
	while (!list_is_empty(list))
		request_end(CONTAINER_OF(list->next, struct ib_conn, turn_link), WEFT_ERR_PEER_GONE,
			    WEFT_R_PEER_GONE);
}

void ee_fail(struct ib_ee *ee, enum weft_reason reason)
{
	struct ib_conn *c = &ee->conn;

	if (ee->why != WEFT_OK)
		return;
	ee->why = reason;
	c->req.count = c->req.at = 0;
	c->req.deadline_ns = UINT64_MAX;
	c->req.qp = NULL;
	if (ee->active)
		request_end(ee->active, WEFT_ERR_PEER_GONE, WEFT_R_PEER_GONE);
	ee->active = NULL;
	list_fail(&ee->waiting);
	list_fail(&ee->suspended);
	rc_resp_touch(c);
	rd_message_drop(c);
	c->resp.qp = NULL;
	c->resp.is_ack_due = c->resp.is_nak_due = false;
	timer_queue_cancel(&c->port->timers, &c->timer);
	list_remove(&c->ready_link);
	list_add_tail(&c->port->ees_ended, &ee->ended_link);
}

/* The next context from that index on whose packets go by this number; NULL: none. */
static struct ib_ee *next_near(const struct ib_port *port, uint32_t *at, uint32_t near_number)
{
	const struct id_table *ees = &port->adapter->ees;

	while (*at < ees->slots_max && ees->used > 0) {
		struct weft_ee *handle = ees->objects[(*at)++];
		struct ib_ee *ee = handle ? ib_ee_of(handle) : NULL;

		if (ee && ee->conn.port == port && ee->conn.path.near_number == near_number)
			return ee;
	}
	return NULL;
}

void ee_near_ended(struct ib_port *port, uint32_t near_number)
{
	struct ib_ee *ee;
	uint32_t at = 0;

	while ((ee = next_near(port, &at, near_number)) != NULL)
		ee_fail(ee, WEFT_R_PEER_GONE);
}

struct ib_path *ee_near_refused(struct ib_port *port, uint32_t near_number)
{
	uint32_t at = 0;
	struct ib_ee *ee = next_near(port, &at, near_number);

	if (!ee)
		return NULL;
	ee->conn.path.near_number = 0;
	return &ee->conn.path;
}

/* A queue pair leaves: its request goes, whether it had its turn or not. */
void rd_down(struct ib_conn *c)
{
	const struct id_table *ees = &c->port->adapter->ees;

	if (c->rd_state == RD_ACTIVE)
		abandon(c->ee);
	else if (c->rd_state != RD_IDLE)
		turn_over(c);
	for (uint32_t i = 0; i < ees->slots_max && ees->used > 0; i++) {
		struct weft_ee *handle = ees->objects[i];

		if (handle)
			rd_leave(ib_ee_of(handle), c->qp);
	}
}
