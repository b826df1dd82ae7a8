/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams on an end-to-end context (IBA 9.7.8, RD-01): where RC's code has a queue pair,
 * each message of RD brings its own.
 */
#include "ib/ee.h"

#include "ib/conn.h"
#include "ib/rc.h"
#include "ib/requester.h"
#include "ib/responder.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

/* ---- Requester ------------------------------------------------------------------------------ */

enum weft_reason rd_check(const struct weft_qp *qp, const struct weft_send_wr *wr)
{
	const struct ib_conn *c = qp->stream;
	const struct ib_ee *ee;
	uint64_t bytes = 0;

	if (!opcode_is_carried(wr->opcode))
		return WEFT_OK;
	if (wr->opcode == WEFT_OP_SEND_INVALIDATE) /* there is no such packet */
		return WEFT_R_WR_WIRE;
	if (!wr->ee)
		return WEFT_R_NULL_ARGUMENT;
	ee = ib_ee_of(wr->ee);
	if (ee->conn.port != c->port) /* perhaps of another adapter */
		return WEFT_R_BAD_ARGUMENT;
	if (ee->conn.rdd != c->rdd)
		return WEFT_R_IB_RDD;
	for (uint32_t i = 0; i < wr->sge_count; i++)
		bytes += wr->sges[i].length;
	return bytes <= (uint64_t)IB_READ_PSNS_MAX * ee->conn.path.mtu_bytes ? WEFT_OK
									     : WEFT_R_WR_LENGTH;
}

void rd_address(struct ib_conn *c, struct iba_packet *p)
{
	const struct ib_ee *ee = ee_of(c);

	p->eec = ee->peer;
	if (iba_form(p->opcode)->traits & IBA_RESPONSE) {
		p->dest_qp = c->resp.src_qp;
		return;
	}
	p->dest_qp = ee->dest_qp;
	p->src_qp = ee->src_qp;
	p->q_key = ee->q_key;
}

static bool has_more(struct ib_ee *ee)
{
	if (ee->conn.req.count > 0)
		return rc_req_can_send(&ee->conn);
	return ee->peer != 0 && !list_is_empty(&ee->waiting);
}

bool rd_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out)
{
	struct ib_ee *ee = ee_of(c);

	/* Bound: a round that gives no packet has one request less to look at. */
	do {
		ee_turn(ee);
		if (rc_next(c, now_ns, out))
			return true;
	} while (has_more(ee));
	return false;
}

/* ---- Responder ------------------------------------------------------------------------------ */

/* Several contexts may bring messages to one queue pair: each keeps the receive of its own. */
static struct recv_wqe *receive_take(struct responder *r)
{
	struct recv_wqe *recv = r->in.recv;

	r->in.recv = NULL;
	if (!recv && r->qp) {
		recv = r->qp->recv;
		r->qp->recv = NULL;
	}
	return recv;
}

static void answers_drop(struct responder *r)
{
	r->res_at = r->res_answered = r->res_first = r->res_next;
	r->again_first = r->again_next;
	r->res_packet = r->res_began = 0;
}

/* Its receive serves another. */
void rd_message_drop(struct ib_conn *c)
{
	struct responder *r = &c->resp;
	struct recv_wqe *recv = receive_take(r);

	r->in.kind = IBA_KIND_NONE;
	answers_drop(r);
	if (!recv)
		return;
	recv_queue_return(qp_recv_queue(r->qp), recv);
	qp_wake_senders(qp_recv_queue(r->qp));
}

/* A Read is not answered any more; an atomic was carried out, and its answer is known. */
void rd_leave(struct ib_ee *ee, struct weft_qp *qp)
{
	struct weft_completion flushed = {
		.status = WEFT_ERR_FLUSHED,
		.opcode = WEFT_OP_RECV,
		.reason = WEFT_R_FLUSHED,
	};
	struct ib_conn *c = &ee->conn;
	struct responder *r = &c->resp;

	if (r->qp != qp)
		return;
	rc_resp_touch(c);
	if (r->in.recv) {
		qp->recv = receive_take(r);
		qp_recv_retire(qp, &flushed, false);
	}
	r->in.kind = IBA_KIND_NONE;
	if (ee->resource.kind == IBA_KIND_READ)
		ee->resource.refused = iba_syndrome_nak(IBA_NAK_INVALID_RD);
	r->qp = NULL;
}

/* IBA 9.6.1.5 and 9.7.8: whether the destination queue pair exists and accepts the packet. */
static enum weft_reason check_destination(const struct ib_conn *c, const struct iba_packet *p,
					  const struct ib_conn *own)
{
	if (!own || own->service != WEFT_RD || !own->qp)
		return WEFT_R_PEER_UNKNOWN;
	if (own->rdd != c->rdd)
		return WEFT_R_IB_RDD;
	return own->q_key == p->q_key ? WEFT_OK : WEFT_R_IB_QKEY;
}

/* The queue pair of a message that begins; or is it one that goes on? */
static enum weft_reason aim(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	struct ib_conn *own;
	enum weft_reason reason;

	if (r->in.kind != IBA_KIND_NONE)
		return r->qp->number == p->dest_qp && r->src_qp == p->src_qp ? WEFT_OK
									     : WEFT_R_IB_ORDER;
	own = ib_port_find(c->port, p->dest_qp);
	reason = check_destination(c, p, own);
	if (reason != WEFT_OK)
		return reason;
	/* The peer goes on, so it has the answer of what came before. */
	rc_resp_touch(c);
	answers_drop(r);
	r->qp = own->qp;
	own->is_near_latest = c->path.near_number != 0;
	return WEFT_OK;
}

/* A message of the peer was taken away, or refused: the numbers begin anew behind it. */
static enum weft_reason take_resync(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;

	if (iba_psn_diff(p->psn, r->psn) < 0) {
		c->port->counts.duplicates++;
	} else {
		rc_resp_touch(c);
		rd_message_drop(c);
		c->has_final = false;
		r->is_deaf = r->is_nak_due = false;
		r->psn = iba_psn_add(p->psn, 1);
		r->src_qp = p->src_qp;
	}
	responder_ack_all(r);
	conn_ready(c);
	return WEFT_OK;
}

static enum weft_reason take_request(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	int32_t ahead = iba_psn_diff(p->psn, r->psn);
	enum weft_reason reason = WEFT_OK;
	struct weft_qp *qp;

	if (ahead == 0 && !c->has_final)
		reason = aim(c, p);
	if (ahead >= 0)
		r->src_qp = p->src_qp;
	if (reason != WEFT_OK) {
		rc_resp_end(c, p->psn, IBA_NAK_INVALID_RD, reason);
		return reason;
	}
	qp = r->qp;
	if (qp)
		qp->recv = receive_take(r);
	reason = rc_resp_recv(c, now_ns, p);
	if (qp) {
		r->in.recv = qp->recv;
		qp->recv = NULL;
	}
	return reason;
}

enum weft_reason rd_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	const struct ib_ee *ee = ee_of(c);

	if (ee->why != WEFT_OK)
		return WEFT_R_PEER_GONE;
	if (iba_form(p->opcode)->traits & IBA_RESPONSE)
		return p->dest_qp == ee->src_qp ? rc_comp_recv(c, now_ns, p) : WEFT_R_PEER_UNKNOWN;
	if (iba_form(p->opcode)->kind == IBA_KIND_RESYNC)
		return take_resync(c, p);
	return take_request(c, now_ns, p);
}
