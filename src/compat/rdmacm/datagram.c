/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids for datagrams, on RoCE: to connect one is to ask which queue pair is behind a service (SIDR),
 * and to accept is to say so. Nothing is connected, and nothing ends.
 */
#include <errno.h>

#include "compat/rdmacm/rdmacm.h"

static int datagram_connect(struct id *id, const struct rdma_conn_param *param)
{
	struct weft_cm_id_options options = {
		.is_datagram = true,
		.port_space = (enum weft_port_space)id->rdma.ps,
		.refused_wait_ns = refused_wait_ns,
		.context = &id->talk.sink,
	};
	struct weft_cm_id_offer offer = {
		.private_data = param ? param->private_data : NULL,
		.private_bytes = param ? param->private_data_len : 0,
	};
	enum weft_reason reason;
	int r = roce_path(id, &options.path);

	if (r != 0)
		return r;
	id->talk.sink.take = roce_news_sink;
	if (!id_try(id, ID_CONNECTING))
		return -EINVAL;
	reason = weft_cm_id_open(weftv_adapter(), &options, &offer, &id->talk.cm_id);
	if (reason != WEFT_OK)
		(void)id_try(id, ID_ROUTE);
	return cm_error(reason);
}

/* Answers the SIDR request. No event follows here. */
static int datagram_accept(struct id *id, const struct rdma_conn_param *param)
{
	struct weft_cm_id_offer offer = {
		.q_key = RDMA_UDP_QKEY,
		.private_data = param ? param->private_data : NULL,
		.private_bytes = param ? param->private_data_len : 0,
	};
	enum weft_reason reason;

	if (id->rdma.qp)
		offer.qp_number = id->rdma.qp->qp_num;
	else if (param)
		offer.qp_number = param->qp_num;
	else
		return -EINVAL;
	reason = weft_cm_id_accept(id->talk.cm_id, &offer);
	if (reason == WEFT_OK) {
		(void)id_try(id, ID_ACCEPTING);
		(void)id_try(id, ID_ESTABLISHED);
	}
	return cm_error(reason);
}

static int datagram_reject(struct id *id, const void *private_data, uint8_t private_bytes)
{
	return cm_error(weft_cm_id_reject(id->talk.cm_id, 0, private_data, private_bytes));
}

static int refuse(struct id *id)
{
	(void)id;
	return -EINVAL;
}

static void datagram_leave(struct id *id)
{
	if (id->talk.cm_id)
		(void)weft_cm_id_close(id->talk.cm_id);
	id->talk.cm_id = NULL;
}

static int datagram_qp_attr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;

	if (state != IBV_QPS_INIT && state != IBV_QPS_RTR && state != IBV_QPS_RTS)
		return -EINVAL;
	*attr = (struct ibv_qp_attr){ .qp_state = state,
				      .port_num = id->rdma.port_num,
				      .qkey = RDMA_UDP_QKEY };
	*mask = IBV_QP_STATE;
	if (state == IBV_QPS_INIT)
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	else if (state == IBV_QPS_RTS)
		*mask |= IBV_QP_SQ_PSN;
	return 0;
}

/* Where datagrams are to be sent to. */
static void datagram_tell(struct id *id, struct taken *taken)
{
	const struct weft_cm_id_news *heard = &id->talk.heard;
	struct rdma_ud_param *ud = &taken->rdma.param.ud;
	struct weft_path path = heard->path;

	if (taken->rdma.status == 0) {
		path.traffic_class = id->tos;
		(void)roce_av(id, &path, &ud->ah_attr);
		ud->qp_num = heard->qp_number;
		ud->qkey = heard->q_key;
	}
	event_private_data(taken, heard->private_data, heard->private_bytes);
}

static void datagram_hear(struct id *id, const struct weft_event *event)
{
	(void)id, (void)event;
}

const struct transport datagram_transport = {
	.connect = datagram_connect,
	.accept = datagram_accept,
	.reject = datagram_reject,
	.disconnect = refuse,
	.establish = refuse,
	.notify = refuse,
	.leave = datagram_leave,
	.qp_attr = datagram_qp_attr,
	.tell = datagram_tell,
	.hear = datagram_hear,
};
