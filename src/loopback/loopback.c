/* SPDX-License-Identifier: BSD-2-Clause */
#include "loopback/loopback.h"

#include "loopback/request.h"

/* QP-12: the peer of a connected queue pair, else the destination that the request names. */
static struct weft_qp *find_target(struct weft_qp *qp, const struct send_wqe *wqe)
{
	bool is_connected = qp_is_connected_service(qp);
	struct weft_qp *target;

	target = id_table_find(&qp->adapter->qps, is_connected ? qp->peer : wqe->dest_qp_number);
	if (!target || target->service != qp->service || !qp_is_receiving(target))
		return NULL;
	if (is_connected && target->peer != qp->number)
		return NULL;
	return target;
}

static enum weft_reason loopback_check(const struct weft_qp *qp, const struct weft_send_wr *wr)
{
	(void)qp;
	(void)wr;
	return WEFT_OK; /* every operation of the verbs */
}

/* Carries the request out. False: it waits for a receive of the target's. */
static bool carry_out(struct request *req)
{
	if (!request_open_local(req))
		return true;
	if (!req->target) {
		request_no_target(req);
		return true;
	}
	switch (req->wqe->opcode) {
	case WEFT_OP_WRITE:
		request_write(req);
		return true;
	case WEFT_OP_WRITE_IMM:
		return request_write_imm(req);
	case WEFT_OP_READ:
		request_read(req);
		return true;
	case WEFT_OP_COMPARE_SWAP:
	case WEFT_OP_FETCH_ADD:
		request_atomic(req);
		return true;
	default:
		return request_send(req);
	}
}

static enum issue loopback_issue(struct weft_qp *qp, struct send_wqe *wqe)
{
	struct request req; /* not zeroed: its vec is a kilobyte, begun by request_open_local() */

	req.qp = qp;
	req.wqe = wqe;
	req.out = (struct outcome){ .status = WEFT_SUCCESS };
	req.target = find_target(qp, wqe);
	if (!carry_out(&req))
		return ISSUE_NO_RECEIVE;
	send_queue_end(qp, wqe, &req.out);
	return ISSUE_BEGUN;
}

/* Nothing moves here but by the send queue itself. */
static void loopback_advance(struct weft_qp *qp, uint64_t now_ns)
{
	(void)qp;
	(void)now_ns;
}

/* Only a reliable connection is a stream that both ends share. */
static void loopback_down(struct weft_qp *qp, enum weft_reason why)
{
	struct weft_qp *peer = id_table_find(&qp->adapter->qps, qp->peer);

	if (qp->service == WEFT_RC && peer && peer->peer == qp->number)
		qp_fail_later(peer, why);
}

const struct transport loopback_transport = {
	.check = loopback_check,
	.issue = loopback_issue,
	.advance = loopback_advance,
	.down = loopback_down,
};
