/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: dialled, accepted, rejected, ended; and how the engine tells of them. */
#include <errno.h>
#include <stdlib.h>

#include "compat/rdmacm/rdmacm.h"

/* ---- What the engine tells ------------------------------------------------------------------ */

/* As the kernel's connection manager sorts what iWARP drivers say. */
static enum rdma_cm_event_type failure_event(enum weft_reason reason)
{
	switch (reason) {
	case WEFT_R_CONNECT_REJECTED:
	case WEFT_R_CONNECT_REFUSED:
	case WEFT_R_CONNECT_CLOSED:
		return RDMA_CM_EVENT_REJECTED;
	case WEFT_R_CONNECT_UNREACHABLE:
	case WEFT_R_CONNECT_TIMEOUT:
		return RDMA_CM_EVENT_UNREACHABLE;
	default:
		return RDMA_CM_EVENT_CONNECT_ERROR;
	}
}

static int failure_status(enum weft_reason reason)
{
	return reason == WEFT_R_CONNECT_REJECTED ? -ECONNREFUSED : cm_error(reason);
}

/* cm_lock() is held. */
static void connect_failed(struct id *id, enum weft_reason reason)
{
	enum rdma_cm_event_type event = failure_event(reason);

	/* Only who asks can be rejected. */
	if (!id->is_active && event == RDMA_CM_EVENT_REJECTED)
		event = RDMA_CM_EVENT_CONNECT_ERROR;
	if (id_move(id, ID_FAILED))
		note_post(id, NOTE_CONNECT, event, failure_status(reason));
}

/* Who has no queue pair of ours must still make its own ready, and say so: rdma_establish(). */
static void connected(struct id *id)
{
	bool is_response = id->is_active && id->wire->is_external;

	if (id_move(id, ID_ESTABLISHED))
		note_post(id, NOTE_CONNECT,
			  is_response ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED,
			  0);
}

static void ended(struct id *id)
{
	if (id_move(id, ID_DISCONNECTED))
		note_post(id, NOTE_END, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* Engine locked. */
static void wire_take(struct weftv_sink *sink, const struct weft_event *event)
{
	struct wire *wire = CONTAINER_OF(sink, struct wire, sink);
	struct id *id;

	cm_lock();
	id = wire->number == event->number ? wire->id : NULL;
	if (id && event->kind == WEFT_EVENT_CONNECTED) {
		connected(id);
	} else if (id && event->kind == WEFT_EVENT_CONNECT_FAILED) {
		connect_failed(id, event->reason);
	} else if (id && event->kind == WEFT_EVENT_QP_ERROR) {
		ended(id);
		/* Before it was connected, somebody moved the queue pair. */
		connect_failed(id, event->reason);
	}
	cm_unlock();
}

void id_end(struct id *id)
{
	cm_lock();
	ended(id);
	cm_unlock();
}

/* ---- Wires ---------------------------------------------------------------------------------- */

/* cm_lock() guards it. */
static struct list wires_free;

int wire_attach(struct id *id, struct ibv_qp *qp, bool is_external)
{
	struct wire *wire = NULL;

	wire_detach(id); /* one that was refused may be there */
	cm_lock();
	if (wires_free.next && !list_is_empty(&wires_free))
		wire = CONTAINER_OF(list_pop(&wires_free), struct wire, link);
	cm_unlock();
	if (!wire)
		wire = calloc(1, sizeof(*wire));
	if (!wire)
		return -ENOMEM;
	list_init(&wire->link);
	cm_lock();
	wire->sink.take = wire_take;
	wire->id = id;
	wire->number = qp->qp_num;
	wire->is_external = is_external;
	id->wire = wire;
	cm_unlock();
	id->qp_number = qp->qp_num;
	weftv_qp_set_sink(qp, &wire->sink);
	return 0;
}

void wire_detach(struct id *id)
{
	cm_lock();
	if (id->wire) {
		if (!wires_free.next)
			list_init(&wires_free);
		id->wire->id = NULL;
		list_add_tail(&wires_free, &id->wire->link);
	}
	id->wire = NULL;
	cm_unlock();
	id->qp_number = 0;
}

struct ibv_qp *id_qp(const struct id *id)
{
	return id->qp_number ? weftv_qp_find(id->rdma.verbs, id->qp_number) : NULL;
}

/* ---- Parameters ----------------------------------------------------------------------------- */

/*
 * Adapters take longer to connect than this one, and programs rely on it: servers that end one
 * listener and begin the next are met in between. On a busy machine, or in an emulated one, that
 * takes them more than 200 ms.
 */
static const uint64_t refused_wait_ns = 1000 * 1000 * 1000;

/*
 * Linux's siw dials without an RTR message, and programs have servers that send first
 * (ib_write_lat): what adapters let them do.
 */
static const uint64_t first_wait_ns = 20 * 1000 * 1000;

/* A depth as the program gave it, or what it leaves to us, as weft takes it. */
static int depth_of(uint8_t asked, uint8_t rest, uint8_t max, uint32_t *depth)
{
	if (asked == RDMA_MAX_RESP_RES)
		asked = rest;
	if (asked > max)
		return -EINVAL;
	*depth = asked == 0 ? WEFT_DEPTH_NONE : asked;
	return 0;
}

/* conn_param may be NULL: all that the device can, or as the request asks. */
static int options_of(const struct id *id, const struct rdma_conn_param *param,
		      struct weft_connect_options *o)
{
	uint8_t ird = id->is_active ? id->home->ird_max : id->peer_ord;
	uint8_t ord = id->is_active ? id->home->ord_max : id->peer_ird;
	int r;

	*o = (struct weft_connect_options){
		.refused_wait_ns = refused_wait_ns,
		.first_wait_ns = first_wait_ns,
	};
	if (param && param->private_data_len > 0) {
		if (!param->private_data)
			return -EINVAL;
		o->private_data = param->private_data;
		o->private_bytes = param->private_data_len;
	}
	r = depth_of(param ? param->responder_resources : RDMA_MAX_RESP_RES, ird, id->home->ird_max,
		     &o->ird);
	if (r != 0)
		return r;
	return depth_of(param ? param->initiator_depth : RDMA_MAX_INIT_DEPTH, ord,
			id->home->ord_max, &o->ord);
}

/* The queue pair that is to be connected: the id's, or the program's own by its number. */
static int connection_qp(struct id *id, const struct rdma_conn_param *param)
{
	struct ibv_qp *qp;

	if (id_qp(id))
		return 0;
	wire_detach(id); /* from one that is gone */
	qp = param ? weftv_qp_find(id->rdma.verbs, param->qp_num) : NULL;
	return qp ? wire_attach(id, qp, true) : -EINVAL;
}

/* An option of the id that its queue pair has; iWARP does nothing with it. */
static void set_ack_timeout(struct id *id)
{
	struct ibv_qp_attr attr = { .timeout = id->ack_timeout };

	if (id->has_ack_timeout)
		(void)ibv_modify_qp(id_qp(id), &attr, IBV_QP_TIMEOUT);
}

/* ---- Active --------------------------------------------------------------------------------- */

/* What cannot be right is refused; what may be so elsewhere is told as an event. */
static int dial(struct id *id, const struct weft_connect_options *options)
{
	struct weft_address to;
	enum weft_reason reason;

	address_to_weft(&id->rdma.route.addr.dst_addr, &to);
	if (!id_try(id, ID_CONNECTING))
		return -EINVAL;
	reason = weft_qp_dial(weftv_qp(id_qp(id)), &to, options);
	if (reason == WEFT_OK)
		return 0;
	cm_lock();
	if (failure_event(reason) == RDMA_CM_EVENT_CONNECT_ERROR)
		(void)id_move(id, ID_ROUTE);
	else
		connect_failed(id, reason);
	cm_unlock();
	return failure_event(reason) == RDMA_CM_EVENT_CONNECT_ERROR ? cm_error(reason) : 0;
}

static int connect_id(struct id *id, const struct rdma_conn_param *param)
{
	struct weft_connect_options options;
	struct weft_address from;
	int r;

	if (id_state(id) != ID_ROUTE)
		return -EINVAL;
	id->is_active = true;
	r = options_of(id, param, &options);
	if (r == 0)
		r = connection_qp(id, param);
	if (r != 0)
		return r;
	address_to_weft(&id->rdma.route.addr.src_addr, &from);
	options.from = &from;
	set_ack_timeout(id);
	r = dial(id, &options);
	if (r == 0)
		port_release(id);
	return r;
}

int rdma_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *conn_param)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma)
		return cm_result(-EINVAL);
	id_forget_event(id);
	id_lock(id);
	r = connect_id(id, conn_param);
	return cm_result(id_unlock_await(id, r, true));
}

/* The stream began with the response: what is left to say was said. */
int rdma_establish(struct rdma_cm_id *rdma)
{
	if (!rdma || rdma->qp || id_state(id_of(rdma)) != ID_ESTABLISHED)
		return cm_result(-EINVAL);
	return 0;
}

/* ---- Passive -------------------------------------------------------------------------------- */

static int accept_id(struct id *id, const struct rdma_conn_param *param)
{
	struct weft_connect_options options;
	enum weft_reason reason;
	int r;

	if (id_state(id) != ID_REQUESTED)
		return -EINVAL;
	r = options_of(id, param, &options);
	if (r == 0)
		r = connection_qp(id, param);
	if (r != 0)
		return r;
	set_ack_timeout(id);
	if (!id_try(id, ID_ACCEPTING))
		return -EINVAL;
	reason = weft_request_accept(id->request, weftv_qp(id_qp(id)), &options);
	if (reason == WEFT_OK || reason == WEFT_R_CONNECT_CLOSED)
		id->request = NULL;
	if (reason == WEFT_R_CONNECT_CLOSED)
		(void)id_try(id, ID_FAILED);
	else if (reason != WEFT_OK)
		(void)id_try(id, ID_REQUESTED);
	return cm_error(reason);
}

int rdma_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *conn_param)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma)
		return cm_result(-EINVAL);
	id_lock(id);
	r = accept_id(id, conn_param);
	return cm_result(id_unlock_await(id, r, true));
}

int rdma_reject(struct rdma_cm_id *rdma, const void *private_data, uint8_t private_data_len)
{
	const struct weft_connect_options options = { .private_data = private_data,
						      .private_bytes = private_data_len };
	struct id *id = id_of(rdma);
	int r = -EINVAL;

	if (!rdma || (private_data_len > 0 && !private_data))
		return cm_result(-EINVAL);
	id_lock(id);
	if (id_try(id, ID_REJECTED)) {
		r = cm_error(weft_request_reject(id->request, &options));
		id->request = NULL;
	}
	return cm_result(id_unlock_await(id, r, false));
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return rdma_reject(id, private_data, private_data_len);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void hang_up(struct ibv_qp *qp, enum id_state state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (!qp)
		return;
	/* It may have ended by itself just now, which is as good. */
	if (state == ID_ESTABLISHED)
		(void)weft_qp_disconnect(weftv_qp(qp));
	else if (state == ID_CONNECTING || state == ID_ACCEPTING)
		(void)ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void id_hang_up(struct id *id)
{
	struct ibv_qp *qp = id_qp(id);
	enum id_state state = id_state(id);

	wire_detach(id);
	hang_up(qp, state);
}

static int disconnect_id(struct id *id, bool *will_tell)
{
	enum id_state state = id_state(id);
	struct ibv_qp *qp = id_qp(id);

	*will_tell = state == ID_ESTABLISHED;
	switch (state) {
	case ID_ESTABLISHED:
		hang_up(qp, state);
		id_end(id);
		return 0;
	case ID_CONNECTING:
	case ID_ACCEPTING:
		hang_up(qp, state);
		return 0;
	case ID_DISCONNECTED:
		return 0;
	default:
		return -EINVAL;
	}
}

int rdma_disconnect(struct rdma_cm_id *rdma)
{
	struct id *id = id_of(rdma);
	bool will_tell;
	int r;

	if (!rdma)
		return cm_result(-EINVAL);
	id_lock(id);
	r = disconnect_id(id, &will_tell);
	return cm_result(id_unlock_await(id, r, will_tell));
}

int rdma_notify(struct rdma_cm_id *rdma, enum ibv_event_type event)
{
	if (!rdma || event != IBV_EVENT_COMM_EST)
		return cm_result(-EINVAL);
	switch (id_state(id_of(rdma))) {
	case ID_ESTABLISHED:
		return cm_result(-EISCONN);
	case ID_CONNECTING:
	case ID_ACCEPTING:
		return 0; /* it will be told by itself */
	default:
		return cm_result(-EINVAL);
	}
}
