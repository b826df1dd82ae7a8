/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues that belong to an id: its queue pair, and what it needs beside. */
#include <errno.h>
#include <rdma/rdma_verbs.h>

#include "compat/rdmacm/rdmacm.h"

/* ---- Completion queues ---------------------------------------------------------------------- */

/* A completion queue with a channel, both in the id where the program finds them. */
static int cq_create(struct id *id, uint32_t entries, struct ibv_comp_channel **channel,
		     struct ibv_cq **cq)
{
	int error;

	*channel = ibv_create_comp_channel(id->rdma.verbs);
	if (!*channel)
		return cm_errno();
	/* Its context is the id: rdma_get_send_comp() looks. */
	*cq = ibv_create_cq(id->rdma.verbs, entries > 0 ? (int)entries : 1, id, *channel, 0);
	if (*cq)
		return 0;
	error = -cm_errno();
	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	return -error;
}

static void cq_destroy(bool *is_owned, struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*is_owned) {
		(void)ibv_destroy_cq(*cq);
		(void)ibv_destroy_comp_channel(*channel);
		*channel = NULL;
	}
	*is_owned = false;
	*cq = NULL;
}

static void cqs_destroy(struct id *id)
{
	struct rdma_cm_id *r = &id->rdma;

	cq_destroy(&id->owns_send_cq, &r->send_cq_channel, &r->send_cq);
	cq_destroy(&id->owns_recv_cq, &r->recv_cq_channel, &r->recv_cq);
}

/* Completions of receives that may wait: of a shared queue as many as that holds. */
static uint32_t recvs_max(const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_srq_attr srq;

	if (attr->srq && ibv_query_srq(attr->srq, &srq) == 0)
		return srq.max_wr;
	return attr->cap.max_recv_wr;
}

/* Those that the program did not bring. */
static int cqs_get(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_cm_id *rdma = &id->rdma;
	int r = 0;

	if (!attr->send_cq) {
		r = cq_create(id, attr->cap.max_send_wr, &rdma->send_cq_channel, &rdma->send_cq);
		id->owns_send_cq = r == 0;
		attr->send_cq = rdma->send_cq;
	}
	if (r == 0 && !attr->recv_cq) {
		r = cq_create(id, recvs_max(attr), &rdma->recv_cq_channel, &rdma->recv_cq);
		id->owns_recv_cq = r == 0;
		attr->recv_cq = rdma->recv_cq;
	}
	return r;
}

/* ---- Queue pairs ---------------------------------------------------------------------------- */

void qp_attr_init(const struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	*attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT,
		.port_num = id->rdma.port_num,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

int qp_move(struct id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, r = id->transport->qp_attr(id, &attr, &mask);

	return r != 0 ? r : -ibv_modify_qp(qp, &attr, mask);
}

/* One for datagrams is ready when it is made; others are connected. */
static int qp_prepare(struct id *id, struct ibv_qp *qp)
{
	int r = qp_move(id, qp, IBV_QPS_INIT);

	if (r != 0 || !id_is_datagram(id))
		return r != 0 ? r : wire_attach(id, qp, false);
	r = qp_move(id, qp, IBV_QPS_RTR);
	return r != 0 ? r : qp_move(id, qp, IBV_QPS_RTS);
}

static int qp_make(struct id *id, struct ibv_qp_init_attr_ex *attr, struct ibv_qp **made)
{
	struct ibv_qp *qp;
	int r;

	if ((attr->qp_type == IBV_QPT_UD) != id_is_datagram(id))
		return -EINVAL;
	qp = ibv_create_qp_ex(id->rdma.verbs, attr);
	if (!qp)
		return cm_errno();
	r = qp_prepare(id, qp);
	if (r != 0)
		(void)ibv_destroy_qp(qp);
	else
		*made = qp;
	return r;
}

static int create_qp(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_init_attr_ex asked = *attr;
	struct rdma_cm_id *rdma = &id->rdma;
	struct ibv_qp *qp;
	int r;

	if (!rdma->verbs || rdma->qp)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = rdma->pd;
	}
	if (attr->pd->context != rdma->verbs)
		return -EINVAL;
	if (!attr->srq)
		attr->srq = rdma->srq;
	r = cqs_get(id, attr);
	if (r == 0)
		r = qp_make(id, attr, &qp);
	if (r != 0) {
		cqs_destroy(id);
		*attr = asked; /* who tries again is not to bring queues that are gone */
		return r;
	}
	rdma->qp = qp;
	rdma->pd = attr->pd;
	rdma->qp_type = attr->qp_type;
	rdma->send_cq = attr->send_cq;
	rdma->recv_cq = attr->recv_cq;
	return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *rdma, struct ibv_qp_init_attr_ex *qp_init_attr)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma || !qp_init_attr)
		return cm_result(-EINVAL);
	id_lock(id);
	r = create_qp(id, qp_init_attr);
	id_unlock(id);
	return cm_result(r);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	struct ibv_qp_init_attr_ex ex;
	int r;

	if (!id || !qp_init_attr)
		return cm_result(-EINVAL);
	ex = (struct ibv_qp_init_attr_ex){
		.qp_context = qp_init_attr->qp_context,
		.send_cq = qp_init_attr->send_cq,
		.recv_cq = qp_init_attr->recv_cq,
		.srq = qp_init_attr->srq,
		.cap = qp_init_attr->cap,
		.qp_type = qp_init_attr->qp_type,
		.sq_sig_all = qp_init_attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	r = rdma_create_qp_ex(id, &ex);
	if (r == 0)
		qp_init_attr->cap = ex.cap;
	return r;
}

void rdma_destroy_qp(struct rdma_cm_id *rdma)
{
	struct id *id = id_of(rdma);
	struct ibv_qp *qp;

	if (!rdma || !rdma->qp)
		return;
	id_lock(id);
	qp = rdma->qp;
	groups_detach(id);
	rdma->qp = NULL;
	if (!id->home->is_roce)
		id_end(id); /* the connection ends, too; on RoCE the cm_id reports that */
	weftv_qp_set_sink(qp, NULL);
	wire_detach(id);
	id_unlock(id);
	/* Unlocked: it may wait for a thread that reads events, ours among them. */
	(void)ibv_destroy_qp(qp);
	cqs_destroy(id);
}

int rdma_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma || !qp_attr || !qp_attr_mask || !rdma->verbs)
		return cm_result(-EINVAL);
	id_lock(id);
	r = id->transport->qp_attr(id, qp_attr, qp_attr_mask);
	id_unlock(id);
	return cm_result(r);
}

/* ---- Shared receive queues ------------------------------------------------------------------ */

static int create_srq(struct id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct rdma_cm_id *rdma = &id->rdma;
	struct ibv_srq *srq;

	if (!rdma->verbs || rdma->srq)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		attr->pd = rdma->pd;
	}
	if (attr->pd->context != rdma->verbs)
		return -EINVAL;
	srq = ibv_create_srq_ex(rdma->verbs, attr);
	if (!srq)
		return cm_errno();
	rdma->srq = srq;
	rdma->pd = attr->pd;
	return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *rdma, struct ibv_srq_init_attr_ex *attr)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma || !attr)
		return cm_result(-EINVAL);
	id_lock(id);
	r = create_srq(id, attr);
	id_unlock(id);
	return cm_result(r);
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex;
	int r;

	if (!id || !attr)
		return cm_result(-EINVAL);
	ex = (struct ibv_srq_init_attr_ex){
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd,
	};
	r = rdma_create_srq_ex(id, &ex);
	if (r == 0)
		attr->attr = ex.attr;
	return r;
}

void rdma_destroy_srq(struct rdma_cm_id *rdma)
{
	struct id *id = id_of(rdma);

	if (!rdma || !rdma->srq)
		return;
	id_lock(id);
	(void)ibv_destroy_srq(rdma->srq);
	rdma->srq = NULL;
	id_unlock(id);
}
