/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: asked for, accepted, rejected, ended. How is the transport's affair. */
#include <errno.h>

#include "compat/rdmacm/rdmacm.h"

/* ---- What becomes of them ------------------------------------------------------------------- */

void id_connected(struct id *id, enum id_state state, enum rdma_cm_event_type event)
{
	if (id_move(id, state))
		note_post(id, NOTE_CONNECT, event, 0);
}

void id_failed(struct id *id, enum rdma_cm_event_type event, int status)
{
	if (id_move(id, ID_FAILED))
		note_post(id, NOTE_CONNECT, event, status);
}

void id_ended(struct id *id)
{
	if (id_move(id, ID_DISCONNECTED))
		note_post(id, NOTE_END, RDMA_CM_EVENT_DISCONNECTED, 0);
}

void id_end(struct id *id)
{
	cm_lock();
	id_ended(id);
	cm_unlock();
}

/* ---- Parameters ----------------------------------------------------------------------------- */

static int depth_of(uint8_t asked, uint8_t rest, uint8_t max, uint8_t *depth)
{
	*depth = asked == RDMA_MAX_RESP_RES ? rest : asked;
	return *depth > max ? -EINVAL : 0;
}

int id_depths(const struct id *id, const struct rdma_conn_param *param, struct depths *depths)
{
	uint8_t in = id->is_active ? id->home->ird_max : id->peer_ord;
	uint8_t out = id->is_active ? id->home->ord_max : id->peer_ird;
	int r = depth_of(param ? param->responder_resources : RDMA_MAX_RESP_RES, in,
			 id->home->ird_max, &depths->in);

	if (r != 0)
		return r;
	return depth_of(param ? param->initiator_depth : RDMA_MAX_INIT_DEPTH, out,
			id->home->ord_max, &depths->out);
}

static bool is_sound(const struct rdma_conn_param *param)
{
	return !param || param->private_data_len == 0 || param->private_data;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

int rdma_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *conn_param)
{
	struct id *id = id_of(rdma);
	int r = -EINVAL;

	if (!rdma)
		return cm_result(-EINVAL);
	id_forget_event(id);
	id_lock(id);
	if (id_state(id) == ID_ROUTE && is_sound(conn_param)) {
		id->is_active = true;
		r = id->transport->connect(id, conn_param);
	}
	return cm_result(id_unlock_await(id, r, true));
}

int rdma_establish(struct rdma_cm_id *rdma)
{
	struct id *id = id_of(rdma);
	int r = -EINVAL;

	if (!rdma)
		return cm_result(-EINVAL);
	id_lock(id);
	if (!rdma->qp && id->transport)
		r = id->transport->establish(id);
	id_unlock(id);
	return cm_result(r);
}

int rdma_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *conn_param)
{
	struct id *id = id_of(rdma);
	int r = -EINVAL;

	if (!rdma)
		return cm_result(-EINVAL);
	id_lock(id);
	if (id_state(id) == ID_REQUESTED && is_sound(conn_param))
		r = id->transport->accept(id, conn_param);
	return cm_result(id_unlock_await(id, r, !id_is_datagram(id)));
}

int rdma_reject(struct rdma_cm_id *rdma, const void *private_data, uint8_t private_data_len)
{
	struct id *id = id_of(rdma);
	int r = -EINVAL;

	if (!rdma || (private_data_len > 0 && !private_data))
		return cm_result(-EINVAL);
	id_lock(id);
	if (id_try(id, ID_REJECTED))
		r = id->transport->reject(id, private_data, private_data_len);
	return cm_result(id_unlock_await(id, r, false));
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return rdma_reject(id, private_data, private_data_len);
}

static int disconnect(struct id *id, bool *will_tell)
{
	enum id_state state = id_state(id);

	*will_tell = state == ID_ESTABLISHED;
	switch (state) {
	case ID_ESTABLISHED:
	case ID_RESPONDED:
	case ID_CONNECTING:
	case ID_ACCEPTING:
		return id->transport->disconnect(id);
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
	r = disconnect(id, &will_tell);
	return cm_result(id_unlock_await(id, r, will_tell));
}

static int notify(struct id *id)
{
	switch (id_state(id)) {
	case ID_ESTABLISHED:
		return -EISCONN;
	case ID_CONNECTING:
	case ID_ACCEPTING:
		return id->transport->notify(id);
	default:
		return -EINVAL;
	}
}

int rdma_notify(struct rdma_cm_id *rdma, enum ibv_event_type event)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma || event != IBV_EVENT_COMM_EST)
		return cm_result(-EINVAL);
	id_lock(id);
	r = notify(id);
	id_unlock(id);
	return cm_result(r);
}
