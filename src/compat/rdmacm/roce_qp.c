/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of a RoCE queue pair on its way to RTS, from the CM messages of both ends. */
#include <errno.h>
#include <string.h>

#include "base/least.h"
#include "compat/rdmacm/rdmacm.h"

enum { GIDS_MAX = 128, HOPS = 64 };

/* ---- Addresses ------------------------------------------------------------------------------ */

void roce_gid(const struct weft_address *a, union ibv_gid *gid)
{
	*gid = (union ibv_gid){ .raw = { [10] = 0xff, [11] = 0xff } };
	if (a->family == 4)
		memcpy(gid->raw + 12, a->ip, 4);
	else
		memcpy(gid->raw, a->ip, sizeof(gid->raw));
}

static int gid_index(struct ibv_context *context, const union ibv_gid *gid, uint8_t *index)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	ssize_t n = ibv_query_gid_table(context, entries, GIDS_MAX, 0);

	for (ssize_t i = 0; i < n; i++) {
		if (memcmp(&entries[i].gid, gid, sizeof(*gid)) == 0) {
			*index = (uint8_t)entries[i].gid_index;
			return 0;
		}
	}
	return n < 0 ? (int)n : -EADDRNOTAVAIL;
}

int roce_av(struct id *id, const struct weft_path *path, struct ibv_ah_attr *av)
{
	union ibv_gid from;

	if (fabric_is_ours()) {
		fabric_av(id, path, av);
		return 0;
	}
	*av = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = PORT,
		.sl = path->traffic_class >> 5,
		.grh = { .traffic_class = path->traffic_class,
			 .flow_label = path->flow_label,
			 .hop_limit = path->hop_limit ? path->hop_limit : HOPS },
	};
	roce_gid(&path->to, &av->grh.dgid);
	roce_gid(&path->from, &from);
	return gid_index(id->rdma.verbs, &from, &av->grh.sgid_index);
}

/* ---- Attributes ----------------------------------------------------------------------------- */

/* The other end's Reads are served here, and the other way round. */
struct depths roce_depths(const struct id *id)
{
	const struct weft_cm_id_news *heard = &id->talk.heard;

	if (!id->is_active)
		return (struct depths){ id->peer_ord, id->peer_ird };
	return (struct depths){ (uint8_t)least(id->talk.offer.reads_in, heard->reads_out),
				(uint8_t)least(id->talk.offer.reads_out, heard->reads_in) };
}

static enum ibv_mtu mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 128U << mtu < bytes)
		mtu++;
	return mtu;
}

/* The one who asked said how large packets are, and which class they are of. */
static int to_rtr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct weft_cm_id_news *heard = &id->talk.heard;
	struct weft_path path = heard->path;
	bool is_rc = id->rdma.qp_type != IBV_QPT_UC;
	int r;

	if (heard->kind != WEFT_CM_REQUEST && heard->kind != WEFT_CM_REPLY)
		return -EINVAL;
	if (id->tos)
		path.traffic_class = id->tos;
	*attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_of(id->is_active ? id->talk.mtu_bytes : path.mtu_bytes),
		.dest_qp_num = heard->qp_number,
		.rq_psn = id->talk.offer.psn,
		.max_dest_rd_atomic = roce_depths(id).in,
		.min_rnr_timer = RNR_TIMER_CODE,
	};
	r = roce_av(id, &path, &attr->ah_attr);
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		(is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	return r;
}

/* RNR retries are those that the other end wants; the retries and time of the one who asked. */
static int to_rts(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct weft_cm_id_news *heard = &id->talk.heard;
	bool is_rc = id->rdma.qp_type != IBV_QPT_UC;
	uint8_t timeout = heard->timeout_code ? heard->timeout_code : ACK_TIMEOUT_CODE;

	if (heard->kind != WEFT_CM_REQUEST && heard->kind != WEFT_CM_REPLY)
		return -EINVAL;
	if (id->is_active)
		timeout = id->talk.offer.timeout_code;
	*attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = heard->psn,
		.timeout = id->has_ack_timeout ? id->ack_timeout & 31 : timeout,
		.retry_cnt = id->is_active ? id->talk.offer.retries : heard->retries,
		.rnr_retry = heard->rnr_retries,
		.max_rd_atomic = roce_depths(id).out,
	};
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN |
		(is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_MAX_QP_RD_ATOMIC
		       : 0);
	return 0;
}

int roce_qp_attr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		qp_attr_init(id, attr, mask);
		return 0;
	case IBV_QPS_RTR:
		return to_rtr(id, attr, mask);
	case IBV_QPS_RTS:
		return to_rts(id, attr, mask);
	default:
		return -EINVAL;
	}
}

int roce_qp_connect(struct id *id, const struct depths *depths)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp *qp = id_qp(id);
	int mask, r = to_rtr(id, &attr, &mask);

	if (r != 0)
		return r;
	attr.max_dest_rd_atomic = depths->in;
	r = -ibv_modify_qp(qp, &attr, mask);
	if (r == 0)
		r = to_rts(id, &attr, &mask);
	if (r != 0)
		return r;
	attr.max_rd_atomic = depths->out;
	return -ibv_modify_qp(qp, &attr, mask);
}
