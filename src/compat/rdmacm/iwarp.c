/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of iWARP: the queue pair dials or accepts, and tells by itself how it went. */
#include <arpa/inet.h>
#include <errno.h>

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

/* cm_lock() is held. */
static void failed(struct id *id, enum weft_reason reason)
{
	enum rdma_cm_event_type event = failure_event(reason);
	int status = reason == WEFT_R_CONNECT_REJECTED ? -ECONNREFUSED : cm_error(reason);

	/* Only an initiator can be rejected. */
	if (!id->is_active && event == RDMA_CM_EVENT_REJECTED)
		event = RDMA_CM_EVENT_CONNECT_ERROR;
	id_failed(id, event, status);
}

/* A program that brings its own queue pair must make it ready and call rdma_establish(). */
static void iwarp_hear(struct id *id, const struct weft_event *event)
{
	bool is_response = id->is_active && id->wire->is_external;

	switch (event->kind) {
	case WEFT_EVENT_CONNECTED:
		id_connected(id, ID_ESTABLISHED,
			     is_response ? RDMA_CM_EVENT_CONNECT_RESPONSE
					 : RDMA_CM_EVENT_ESTABLISHED);
		break;
	case WEFT_EVENT_QP_ERROR:
		id_ended(id);
		failed(id, event->reason); /* the program moved it before it was connected */
		break;
	case WEFT_EVENT_CONNECT_FAILED:
		failed(id, event->reason);
		break;
	default:
		break;
	}
}

static void tell_private_data(struct taken *taken, const struct weft_peer *peer)
{
	event_private_data(taken, peer->private_data, peer->private_bytes);
}

/* The one who asked hears what the other end said. */
static void iwarp_tell(struct id *id, struct taken *taken)
{
	struct rdma_conn_param *conn = &taken->rdma.param.conn;
	struct ibv_qp *qp = id_qp(id);
	struct weft_peer peer;

	if (!qp || weft_qp_peer(weftv_qp(qp), &peer) != WEFT_OK)
		return;
	if (taken->rdma.status == 0) {
		conn->responder_resources = depth_clamp(peer.ord, id->home->ird_max);
		conn->initiator_depth = depth_clamp(peer.ird, id->home->ord_max);
		address_set_port(&id->rdma.route.addr.src_addr, htons(peer.local.port));
	}
	if (id->is_active)
		tell_private_data(taken, &peer);
}

/* ---- Parameters ----------------------------------------------------------------------------- */

/*
 * Linux's siw dials without an RTR message, and programs have servers that send first
 * (ib_write_lat): what adapters let them do.
 */
static const uint64_t first_wait_ns = 20 * 1000 * 1000;

static uint32_t as_weft(uint8_t depth)
{
	return depth == 0 ? WEFT_DEPTH_NONE : depth;
}

static int options_of(const struct id *id, const struct rdma_conn_param *param,
		      struct weft_connect_options *o)
{
	struct depths depths;
	int r = id_depths(id, param, &depths);

	if (r != 0)
		return r;
	*o = (struct weft_connect_options){
		.private_data = param ? param->private_data : NULL,
		.private_bytes = param ? param->private_data_len : 0,
		.ird = as_weft(depths.in),
		.ord = as_weft(depths.out),
		.refused_wait_ns = refused_wait_ns,
		.first_wait_ns = first_wait_ns,
	};
	return 0;
}

/* An option of the id that its queue pair has; iWARP does nothing with it. */
static void set_ack_timeout(struct id *id)
{
	struct ibv_qp_attr attr = { .timeout = id->ack_timeout };

	if (id->has_ack_timeout)
		(void)ibv_modify_qp(id_qp(id), &attr, IBV_QP_TIMEOUT);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* Refuses wrong arguments; reports what depends on the network as an event. */
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
		failed(id, reason);
	cm_unlock();
	return failure_event(reason) == RDMA_CM_EVENT_CONNECT_ERROR ? cm_error(reason) : 0;
}

static int iwarp_connect(struct id *id, const struct rdma_conn_param *param)
{
	struct weft_connect_options options;
	struct weft_address from;
	int r = options_of(id, param, &options);

	if (r == 0)
		r = wire_find(id, param);
	if (r != 0)
		return r;
	address_to_weft(&id->rdma.route.addr.src_addr, &from);
	options.from = &from;
	set_ack_timeout(id);
	r = dial(id, &options);
	if (r == 0)
		port_release_tcp(id);
	return r;
}

static int iwarp_accept(struct id *id, const struct rdma_conn_param *param)
{
	struct weft_connect_options options;
	enum weft_reason reason;
	int r = options_of(id, param, &options);

	if (r == 0)
		r = wire_find(id, param);
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

static int iwarp_reject(struct id *id, const void *private_data, uint8_t private_bytes)
{
	const struct weft_connect_options options = { .private_data = private_data,
						      .private_bytes = private_bytes };
	enum weft_reason reason = weft_request_reject(id->request, &options);

	id->request = NULL;
	return cm_error(reason);
}

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

static int iwarp_disconnect(struct id *id)
{
	hang_up(id_qp(id), id_state(id));
	id_end(id);
	return 0;
}

static void iwarp_leave(struct id *id)
{
	struct ibv_qp *qp = id_qp(id);
	enum id_state state = id_state(id);

	wire_detach(id);
	hang_up(qp, state);
	if (id->request)
		(void)weft_request_reject(id->request, NULL);
	id->request = NULL;
}

/* The stream began with the response: what is left to say was said. */
static int iwarp_establish(struct id *id)
{
	return id_state(id) == ID_ESTABLISHED ? 0 : -EINVAL;
}

/* rdma_notify() has nothing to add: the stream itself reports that it has begun. */
static int iwarp_notify(struct id *id)
{
	(void)id;
	return 0;
}

static int iwarp_qp_attr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		qp_attr_init(id, attr, mask);
		return 0;
	case IBV_QPS_RTR:
	case IBV_QPS_RTS: /* the rest is agreed on the wire */
		*mask = IBV_QP_STATE;
		return 0;
	default:
		return -EINVAL;
	}
}

const struct transport iwarp_transport = {
	.connect = iwarp_connect,
	.accept = iwarp_accept,
	.reject = iwarp_reject,
	.disconnect = iwarp_disconnect,
	.establish = iwarp_establish,
	.notify = iwarp_notify,
	.leave = iwarp_leave,
	.qp_attr = iwarp_qp_attr,
	.tell = iwarp_tell,
	.hear = iwarp_hear,
};
