/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "compat/rdmacm/rdmacm.h"

struct id *id_create(struct channel *channel, void *context, enum rdma_port_space ps)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->rdma.context = context;
	id->rdma.ps = ps;
	id->rdma.qp_type = id_is_datagram(id) ? IBV_QPT_UD : IBV_QPT_RC;
	id->port_socket = -1;
	pthread_mutex_init(&id->calls, NULL);
	pthread_mutex_init(&id->drain, NULL);
	list_init(&id->channel_link);
	list_init(&id->groups);
	for (int i = 0; i < NOTE_OF_ID; i++) {
		id->notes[i] = (struct note){ .id = id, .kind = (enum note_kind)i };
		list_init(&id->notes[i].link);
	}
	if (!channel)
		return id;
	cm_lock();
	channel_add(channel, id);
	cm_unlock();
	return id;
}

/* A thread that is to be cancelled destroys the whole of it first, or none. */
int id_destroy(struct id *id)
{
	struct channel *own = id->is_synchronous ? id->channel : NULL;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	id_forget_event(id);
	listener_close(id);
	id_lock(id);
	groups_leave(id);
	if (id->transport)
		id->transport->leave(id);
	wire_detach(id);
	id_unlock(id);
	id_leave_channel(id);
	port_release(id);
	if (own)
		channel_destroy(own);
	pthread_mutex_destroy(&id->calls);
	pthread_mutex_destroy(&id->drain);
	free(id);
	pthread_setcancelstate(cancel, NULL);
	return 0;
}

static int create(struct channel *channel, void *context, enum rdma_port_space ps, struct id **made)
{
	struct channel *own = NULL;
	struct id *id;

	if (!channel) {
		own = channel_create();
		if (!own)
			return cm_errno();
	}
	id = id_create(channel ? channel : own, context, ps);
	if (!id) {
		if (own)
			channel_destroy(own);
		return -ENOMEM;
	}
	id->is_synchronous = own != NULL;
	*made = id;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	struct id *made;
	int r;

	if (!id ||
	    (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IPOIB && ps != RDMA_PS_IB))
		return cm_result(-EINVAL);
	r = create(channel ? channel_of(channel) : NULL, context, ps, &made);
	if (r == 0)
		*id = &made->rdma;
	return cm_result(r);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (!id)
		return cm_result(-EINVAL);
	return cm_result(id_destroy(id_of(id)));
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return id ? address_port(&id->route.addr.src_addr) : 0;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return id ? address_port(&id->route.addr.dst_addr) : 0;
}
