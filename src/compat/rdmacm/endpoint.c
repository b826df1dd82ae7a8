/* SPDX-License-Identifier: BSD-2-Clause */
/* Synchronous ids, which wait for their own events, and endpoints, which are made of them. */
#include <errno.h>
#include <rdma/rdma_verbs.h>

#include "compat/rdmacm/rdmacm.h"

enum { RESOLVE_MS = 2000 };

void id_forget_event(struct id *id)
{
	struct rdma_cm_event *event = id->rdma.event;

	/* Of an id that is not synchronous it is never set, and other threads look at it too. */
	if (!event)
		return;
	id->rdma.event = NULL;
	(void)rdma_ack_cm_event(event);
}

static int await_event(struct id *id)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(id->rdma.channel, &event) < 0)
		return cm_errno();
	id->rdma.event = event;
	if (event->status == 0)
		return 0;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return -ECONNREFUSED;
	return event->status < 0 ? event->status : -event->status;
}

int id_unlock_await(struct id *id, int r, bool will_tell)
{
	bool is_synchronous = id->is_synchronous;

	id_unlock(id);
	if (!is_synchronous)
		return r;
	/* Only now: what the call was given may point into it. */
	id_forget_event(id);
	return r == 0 && will_tell ? await_event(id) : r;
}

/* ---- Endpoints ------------------------------------------------------------------------------ */

static int passive(struct rdma_cm_id *rdma, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		   const struct ibv_qp_init_attr *attr)
{
	struct id *id = id_of(rdma);

	if (rdma_bind_addr(rdma, res->ai_src_addr) < 0)
		return -1;
	if (!attr)
		return 0;
	id->qp_attr = *attr;
	id->qp_attr.qp_type = (enum ibv_qp_type)res->ai_qp_type;
	id->qp_pd = pd;
	id->has_qp_attr = true;
	return 0;
}

static int active(struct rdma_cm_id *rdma, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		  struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(rdma, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) < 0 ||
	    rdma_resolve_route(rdma, RESOLVE_MS) < 0)
		return -1;
	if (!attr)
		return 0;
	attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(rdma, pd, attr);
}

int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr)
{
	struct rdma_cm_id *made;
	int r, error;

	if (!id || !res)
		return cm_result(-EINVAL);
	if (rdma_create_id(NULL, &made, NULL, (enum rdma_port_space)res->ai_port_space) < 0)
		return -1;
	if (res->ai_qp_type)
		made->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	if (res->ai_flags & RAI_PASSIVE)
		r = passive(made, res, pd, qp_init_attr);
	else
		r = active(made, res, pd, qp_init_attr);
	if (r == 0) {
		*id = made;
		return 0;
	}
	error = -cm_errno();
	rdma_destroy_ep(made);
	return cm_result(-error);
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	(void)rdma_destroy_id(id);
}

/* The id of a request gets the queue pair that rdma_create_ep() was given the attributes of. */
static int request_qp(const struct id *listener, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = listener->qp_attr;

	if (!listener->has_qp_attr)
		return 0;
	return rdma_create_qp(id, listener->qp_pd, &attr);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct id *listener = id_of(listen);
	struct rdma_cm_event *event;
	int error;

	if (!listen || !id || !listener->is_synchronous || id_state(listener) != ID_LISTENING)
		return cm_result(-EINVAL);
	id_forget_event(listener);
	if (rdma_get_cm_event(listen->channel, &event) < 0)
		return -1;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		(void)rdma_ack_cm_event(event);
		return cm_result(-EINVAL);
	}
	event->id->event = event;
	if (request_qp(listener, event->id) == 0) {
		*id = event->id;
		return 0;
	}
	error = -cm_errno();
	rdma_destroy_ep(event->id);
	return cm_result(-error);
}
