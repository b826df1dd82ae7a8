/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of RoCE: the two ends talk by InfiniBand's connection manager, and each moves its own
 * queue pair as they agree. As in Linux the program's call does that for a queue pair of the id's,
 * and the program itself for one of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/random.h>

#include "compat/rdmacm/rdmacm.h"

enum { PSN_MAX = 0xffffff };

/* ---- What this end says --------------------------------------------------------------------- */

int roce_path(const struct id *id, struct weft_path *path)
{
	const struct rdma_addr *addr = &id->rdma.route.addr;
	struct ibv_port_attr port;
	int error;

	if (fabric_is_ours())
		return fabric_path(id, path);
	error = ibv_query_port(id->rdma.verbs, PORT, &port);

	if (error)
		return -error;
	*path = (struct weft_path){ .mtu_bytes = 128U << port.active_mtu,
				    .traffic_class = id->tos };
	address_to_weft(&addr->src_addr, &path->from);
	address_to_weft(&addr->dst_addr, &path->to);
	return 0;
}

static int random_psn(uint32_t *psn)
{
	if (getrandom(psn, sizeof(*psn), 0) != sizeof(*psn))
		return -EIO;
	*psn &= PSN_MAX;
	return 0;
}

/* Some programs ask for more than there are, and get all, as in the kernel. */
static uint8_t retries_of(uint8_t asked)
{
	return asked < RETRIES ? asked : RETRIES;
}

/* The queue pair is known; conn_param may be NULL. */
static void make_offer(struct id *id, const struct rdma_conn_param *param,
		       const struct depths *depths)
{
	const struct ibv_qp *qp = id_qp(id);

	id->talk.offer = (struct weft_cm_id_offer){
		.qp_number = id->qp_number,
		.psn = id->talk.offer.psn,
		.reads_in = depths->in,
		.reads_out = depths->out,
		.retries = param ? retries_of(param->retry_count) : RETRIES,
		.rnr_retries = param ? retries_of(param->rnr_retry_count) : RETRIES,
		.timeout_code = id->has_ack_timeout ? id->ack_timeout & 31 : ACK_TIMEOUT_CODE,
		.is_uc = qp && qp->qp_type == IBV_QPT_UC,
		.has_srq = qp ? qp->srq != NULL : param && param->srq,
		.has_flow_control = !param || param->flow_control,
		.private_data = param ? param->private_data : NULL,
		.private_bytes = param ? param->private_data_len : 0,
	};
}

/* What is the program's is not kept. */
static void forget_private_data(struct id *id)
{
	id->talk.offer.private_data = NULL;
	id->talk.offer.private_bytes = 0;
}

/* ---- Active --------------------------------------------------------------------------------- */

/*
 * To INIT, where connecting begins: one that is somewhere else cannot be connected. A program's own
 * is on its way, or soon will.
 */
static int begin(struct id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr now;
	struct ibv_qp *qp = id_qp(id);

	if (!qp)
		return 0; /* a number of the program's, that is of no queue pair here */
	(void)ibv_query_qp(qp, &now, IBV_QP_STATE, &init);
	if (id->wire->is_external)
		return now.qp_state == IBV_QPS_ERR ? -EINVAL : 0;
	if (now.qp_state == IBV_QPS_RESET)
		return qp_move(id, qp, IBV_QPS_INIT);
	return now.qp_state == IBV_QPS_INIT ? 0 : -EINVAL;
}

static int choose_port(struct id *id)
{
	struct sockaddr_storage from = id->rdma.route.addr.src_storage;
	int r;

	if (address_port(&id->rdma.route.addr.src_addr) != 0)
		return 0;
	r = port_hold(id, &from, (struct kinds){ .has_roce = true });
	if (r == 0)
		id->rdma.route.addr.src_storage = from;
	return r;
}

static int open_talk(struct id *id)
{
	struct weft_cm_id_options options = {
		.port_space = (enum weft_port_space)id->rdma.ps,
		.refused_wait_ns = refused_wait_ns,
		.context = &id->talk.sink,
	};
	enum weft_reason reason;
	int r = roce_path(id, &options.path);

	if (r != 0)
		return r;
	id->talk.mtu_bytes = options.path.mtu_bytes;
	id->talk.sink.take = roce_news_sink;
	if (!id_try(id, ID_CONNECTING))
		return -EINVAL;
	reason = weft_cm_id_open(weftv_adapter(), &options, &id->talk.offer, &id->talk.cm_id);
	if (reason != WEFT_OK)
		(void)id_try(id, ID_ROUTE);
	return cm_error(reason);
}

static int roce_connect(struct id *id, const struct rdma_conn_param *param)
{
	struct depths depths;
	int r = id_depths(id, param, &depths);

	if (r == 0)
		r = wire_find(id, param);
	if (r == 0)
		r = begin(id);
	if (r == 0)
		r = choose_port(id);
	if (r == 0)
		r = random_psn(&id->talk.offer.psn);
	if (r != 0)
		return r;
	make_offer(id, param, &depths);
	r = open_talk(id);
	forget_private_data(id);
	return r;
}

/* The program has moved its queue pair, and is ready. */
static int roce_establish(struct id *id)
{
	struct ibv_qp *qp = id_qp(id);
	enum weft_reason reason;

	if (id_state(id) != ID_RESPONDED)
		return -EINVAL;
	if (qp)
		(void)weft_cm_id_bind(id->talk.cm_id, weftv_qp(qp));
	reason = weft_cm_id_ready(id->talk.cm_id);
	if (reason == WEFT_OK)
		(void)id_try(id, ID_ESTABLISHED);
	return cm_error(reason);
}

/* ---- Passive -------------------------------------------------------------------------------- */

int roce_requested(struct id *id, struct weft_cm_id *cm_id, const struct weft_cm_id_news *news)
{
	int r = random_psn(&id->talk.offer.psn);

	if (r != 0)
		return r;
	id->talk.cm_id = cm_id;
	id->talk.heard = *news;
	id->talk.sink.take = roce_news_sink;
	(void)id_try(id, ID_REQUESTED);
	(void)weft_cm_id_set_context(cm_id, &id->talk.sink);
	roce_news_take(id); /* news that came before set_context() raised no event */
	return 0;
}

/* One of the id's is moved here; the program moved its own. */
static int make_ready(struct id *id, const struct depths *depths)
{
	struct ibv_qp *qp = id_qp(id);
	int r = begin(id);

	if (r == 0 && !id->wire->is_external)
		r = roce_qp_connect(id, depths);
	if (r == 0 && qp)
		(void)weft_cm_id_bind(id->talk.cm_id, weftv_qp(qp));
	return r;
}

static void undo(struct id *id)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	if (!id->wire->is_external)
		(void)ibv_modify_qp(id_qp(id), &error, IBV_QP_STATE);
}

static int roce_accept(struct id *id, const struct rdma_conn_param *param)
{
	struct depths depths;
	enum weft_reason reason;
	int r = id_depths(id, param, &depths);

	if (r == 0)
		r = wire_find(id, param);
	if (r == 0 && id_qp(id) && (id_qp(id)->qp_type == IBV_QPT_UC) != id->talk.heard.is_uc)
		r = -EINVAL; /* RC and UC do not understand each other */
	if (r == 0)
		r = make_ready(id, &depths);
	if (r != 0)
		return r;
	make_offer(id, param, &depths);
	if (!id_try(id, ID_ACCEPTING))
		return -EINVAL;
	reason = weft_cm_id_accept(id->talk.cm_id, &id->talk.offer);
	forget_private_data(id);
	if (reason == WEFT_OK)
		return 0;
	(void)id_try(id, ID_REQUESTED);
	undo(id);
	/* The other end has given up meanwhile. */
	return reason == WEFT_R_CM_UNKNOWN || reason == WEFT_R_CM_STATE ? -ECONNRESET
									: cm_error(reason);
}

static int roce_reject(struct id *id, const void *private_data, uint8_t private_bytes)
{
	enum weft_reason reason = weft_cm_id_reject(id->talk.cm_id, 0, private_data, private_bytes);

	return reason == WEFT_R_CM_UNKNOWN ? 0 : cm_error(reason);
}

/* ---- Both ----------------------------------------------------------------------------------- */

/* To Error, as Linux does it, but in order: the peer sees no failure. */
static void hang_up(struct ibv_qp *qp)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	if (weft_qp_disconnect(weftv_qp(qp)) != WEFT_OK)
		(void)ibv_modify_qp(qp, &error, IBV_QP_STATE); /* it receives nothing yet */
}

/*
 * The queue pair first, as Linux does. The event comes when the other end has answered, so that a
 * program that waits for it is there to repeat the message if it is lost.
 */
static int roce_disconnect(struct id *id)
{
	struct ibv_qp *qp = id_qp(id);

	if (qp)
		hang_up(qp);
	(void)weft_cm_id_disconnect(id->talk.cm_id);
	return 0;
}

static void roce_leave(struct id *id)
{
	struct ibv_qp *qp = id_qp(id);
	enum id_state state = id_state(id);

	wire_detach(id);
	if (id->talk.cm_id)
		(void)weft_cm_id_close(id->talk.cm_id);
	id->talk.cm_id = NULL;
	if (qp && (state == ID_ESTABLISHED || state == ID_CONNECTING || state == ID_ACCEPTING ||
		   state == ID_RESPONDED))
		hang_up(qp);
}

static int roce_notify(struct id *id)
{
	return id->is_active ? -EINVAL : cm_error(weft_cm_id_established(id->talk.cm_id));
}

static void roce_tell(struct id *id, struct taken *taken)
{
	const struct weft_cm_id_news *heard = &id->talk.heard;
	struct rdma_conn_param *conn = &taken->rdma.param.conn;
	struct depths depths;

	if (taken->rdma.status == 0) {
		depths = roce_depths(id);
		conn->responder_resources = depths.in;
		conn->initiator_depth = depths.out;
		conn->rnr_retry_count = heard->rnr_retries;
		conn->srq = heard->has_srq;
		conn->qp_num = heard->qp_number;
	}
	if (id->is_active)
		event_private_data(taken, heard->private_data, heard->private_bytes);
}

/*
 * The cm_id, which ends with its connection, reports the end. An error of a queue pair that is not
 * connected yet is handled after the cm_id's news: these may say that it was connected before.
 */
static void roce_hear(struct id *id, const struct weft_event *event)
{
	bool is_waiting = id->state == ID_CONNECTING || id->state == ID_ACCEPTING;

	if (event->kind == WEFT_EVENT_QP_ERROR)
		id->talk.qp_error = event->reason;
	else if (event->kind == WEFT_EVENT_ESTABLISHED)
		id->talk.is_heard = true;
	else
		return;
	if (is_waiting) {
		id->looks++;
		note_post(id, NOTE_NEWS, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
}

const struct transport roce_transport = {
	.connect = roce_connect,
	.accept = roce_accept,
	.reject = roce_reject,
	.disconnect = roce_disconnect,
	.establish = roce_establish,
	.notify = roce_notify,
	.leave = roce_leave,
	.qp_attr = roce_qp_attr,
	.tell = roce_tell,
	.hear = roce_hear,
};
