/* SPDX-License-Identifier: BSD-2-Clause */
/* Wires: how an id hears of the queue pair that it connects. */
#include <errno.h>
#include <stdlib.h>

#include "compat/rdmacm/rdmacm.h"

/* Engine locked. */
static void wire_take(struct weftv_sink *sink, const struct weft_event *event)
{
	struct wire *wire = CONTAINER_OF(sink, struct wire, sink);
	struct id *id;

	cm_lock();
	id = wire->number == event->number ? wire->id : NULL;
	if (id)
		id->transport->hear(id, event);
	cm_unlock();
}

/* cm_lock() guards it. */
static struct list wires_free;

static int attach(struct id *id, uint32_t qp_number, bool is_external)
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
	wire->number = qp_number;
	wire->is_external = is_external;
	id->wire = wire;
	id->talk.qp_error = WEFT_OK; /* of another */
	cm_unlock();
	id->qp_number = qp_number;
	return 0;
}

int wire_attach(struct id *id, struct ibv_qp *qp, bool is_external)
{
	int r = attach(id, qp->qp_num, is_external);

	if (r == 0)
		weftv_qp_set_sink(qp, &id->wire->sink);
	return r;
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
	return id->qp_number ? weftv_qp_find(NULL, id->qp_number) : NULL;
}

/*
 * A program's own may be of a context that it opened itself. On RoCE the number may be of no queue
 * pair at all: as in Linux, it is the program's business who is there.
 */
int wire_find(struct id *id, const struct rdma_conn_param *param)
{
	struct ibv_qp *qp;

	if (id_qp(id))
		return 0;
	wire_detach(id); /* from one that is gone */
	qp = param ? weftv_qp_find(NULL, param->qp_num) : NULL;
	if (qp && weftv_is_ib(qp->context) == id->home->is_roce)
		return wire_attach(id, qp, true);
	return !qp && param && param->qp_num != 0 && id->home->is_roce
		       ? attach(id, param->qp_num, true)
		       : -EINVAL;
}
