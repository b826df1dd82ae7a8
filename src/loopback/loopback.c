/* SPDX-License-Identifier: BSD-2-Clause */
#include "loopback/loopback.h"

#include "loopback/request.h"

/* QP-12: the peer of a connected queue pair, else the destination that the request names. */
static struct weft_qp *find_target(struct weft_qp *qp, const struct weft_send_wr *wr)
{
	bool is_connected = qp_is_connected_service(qp);
	struct weft_qp *target;

	target = id_table_find(&qp->adapter->qps, is_connected ? qp->peer : wr->dest_qp_number);
	if (!target || target->service != qp->service || !qp_is_receiving(target))
		return NULL;
	if (is_connected && target->peer != qp->number)
		return NULL;
	return target;
}

static bool loopback_execute(struct weft_qp *qp, struct send_wqe *wqe, struct outcome *out)
{
	struct request req; /* not zeroed: its vec is a kilobyte, begun by request_open_local() */

	req.qp = qp;
	req.wqe = wqe;
	req.out = out;
	req.target = find_target(qp, &wqe->wr);
	if (!request_open_local(&req))
		return true;
	if (!req.target) {
		request_no_target(&req);
		return true;
	}
	switch (wqe->wr.opcode) {
	case WEFT_OP_WRITE:
		request_write(&req);
		return true;
	case WEFT_OP_WRITE_IMM:
		return request_write_imm(&req);
	case WEFT_OP_READ:
		request_read(&req);
		return true;
	case WEFT_OP_COMPARE_SWAP:
	case WEFT_OP_FETCH_ADD:
		request_atomic(&req);
		return true;
	default:
		return request_send(&req);
	}
}

/* Only a reliable connection is a stream that both ends share. */
static void loopback_down(struct weft_qp *qp, enum weft_reason for_peer)
{
	struct weft_qp *peer = id_table_find(&qp->adapter->qps, qp->peer);

	if (qp->service == WEFT_RC && peer && peer->peer == qp->number)
		qp_fail_later(peer, for_peer);
}

const struct transport loopback_transport = {
	.execute = loopback_execute,
	.down = loopback_down,
};
