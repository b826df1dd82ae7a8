/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable connection (IBA 9.8.2): messages go out once and end when they are on the wire
 * (QP-11); of those that arrive, one that has a gap is lost, without a word.
 */
#include "ib/datagram.h"

#include "ib/conn.h"
#include "ib/message.h"
#include "ib/pace.h"
#include "ib/packet.h"
#include "ib/port.h"
#include "ib/requester.h"
#include "ib/responder.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

/* A packet of the oldest request is on the wire; was it the last, the request has ended. */
void uc_sent(struct ib_conn *c)
{
	struct requester *q = &c->req;
	const struct sent *s = rc_req_at(q, 0);
	struct send_wqe *wqe = rc_req_wqe(c, s);

	q->psn_send = iba_psn_add(q->psn_send, 1);
	if (q->psn_send != iba_psn_add(s->psn, s->count))
		return;
	count_message_out(c->port, c->req.qp, wqe->length);
	rc_req_pop(c);
	send_queue_end(c->req.qp, wqe, &(struct outcome){ .status = WEFT_SUCCESS });
}

/* What follows it is flushed with it. The numbers go on where they are. */
void uc_gone(struct ib_conn *c, enum weft_reason reason)
{
	struct requester *q = &c->req;
	struct send_wqe *wqe = rc_req_wqe(c, rc_req_at(q, 0));

	q->count = q->at = 0;
	q->psn_next = q->psn_una = q->psn_send;
	send_queue_end(c->req.qp, wqe,
		       &(struct outcome){
			       .status = WEFT_ERR_LOCAL_ACCESS,
			       .reason = reason,
		       });
}

bool uc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out)
{
	struct requester *q = &c->req;
	struct iba_packet p = { .psn = q->psn_send };
	const struct sent *s;
	struct send_wqe *wqe;
	struct load load;
	enum weft_reason r;
	uint32_t i;

	if (!c->req.qp || q->count == 0 || q->is_absent || !pace_is_open(&c->pace, now_ns))
		return false;
	s = rc_req_at(q, 0);
	wqe = rc_req_wqe(c, s);
	i = iba_psn_distance(s->psn, q->psn_send);
	request_packet(c, wqe, i, &p);
	load_init_in(&load, out, p.opcode);
	r = request_payload(c, wqe, i, &load);
	if (r != WEFT_OK) {
		if (!request_waits(c, wqe, r))
			uc_gone(c, mem_gone_reason(r, WEFT_R_SOURCE_GONE));
		return false;
	}
	packet_make(c, &p, &load, out);
	uc_sent(c);
	return true;
}

static enum weft_reason dropped(struct ib_conn *c, enum weft_reason reason)
{
	c->resp.in.kind = IBA_KIND_NONE;
	c->port->adapter->messages_dropped++;
	return reason;
}

/* The receive was at fault, and has ended: what the consumer expects there will not come. */
static bool is_of_receive(const struct verdict *v)
{
	return v->nak == IBA_NAK_OPERATION || v->reason == WEFT_R_RECEIVE_TOO_SHORT;
}

/*
 * IBA 9.8.2.2.2: after a gap the next message that begins is the next that counts, whatever its
 * number: it cannot be told whether a number is old, or so many were lost. So a packet that is a
 * whole message is delivered as often as the network brings it, as other adapters do.
 */
enum weft_reason uc_recv(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	bool is_first = iba_form(p->opcode)->traits & IBA_FIRST;
	struct verdict v;

	if (!c->resp.qp)
		return WEFT_R_QP_STATE;
	if (p->psn != r->psn && r->in.kind != IBA_KIND_NONE)
		(void)dropped(c, WEFT_R_IB_PSN);
	r->psn = iba_psn_add(p->psn, 1);
	if (is_first && r->in.kind != IBA_KIND_NONE)
		(void)dropped(c, WEFT_R_IB_ORDER);
	if (!is_first && r->in.kind == IBA_KIND_NONE)
		return WEFT_R_IB_PSN; /* of a message that was dropped */
	v = message_take(c, p);
	if (v.reason == WEFT_OK)
		return WEFT_OK;
	(void)dropped(c, v.reason);
	if (!v.is_not_ready && is_of_receive(&v))
		conn_fail(c, v.reason);
	return v.reason;
}
