/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that arrive for a cm_id: by kind, then by state (IBA 12.9.7). */
#include <string.h>

#include "base/check.h"
#include "cm/ib_cm_inside.h"

/* IBA 12.6.9: status codes of an APR. */
enum { APR_COMM_ID = 1, APR_UNSUPPORTED = 2 };

/* A received message and the cm_id that it is for. */
struct take {
	struct ib_cm *cm;
	uint64_t now_ns;
	const struct ibcm_ip *ip;
	const struct ibcm_msg *m;
	struct cm_id *c;
};

static enum weft_reason duplicate(const struct take *t)
{
	t->cm->counts.duplicates++;
	return WEFT_OK;
}

/* Sends the last message again. */
static enum weft_reason repeat(const struct take *t)
{
	cm_id_say_again(t->cm, t->c);
	return duplicate(t);
}

static void keep(uint8_t *to, uint32_t *bytes, struct ibcm_bytes from)
{
	*bytes = from.length;
	if (from.length > 0)
		memcpy(to, from.bytes, from.length);
}

static void keep_end(const struct take *t)
{
	keep(t->c->end, &t->c->end_bytes, t->m->private_data);
	keep(t->c->info, &t->c->info_bytes, t->m->info);
}

/* ---- REP ------------------------------------------------------------------------------------ */

/* IBA 12.6.8; also refuses a QP of the peer that is connected already (12.9.8.3.1). */
static enum weft_reason rep_refuse(const struct take *t, uint16_t code, enum weft_reason reason)
{
	const struct ib_cm_reject r = { .code = code };

	/* Pass through REP Rcvd: the REJ is about the REP. */
	t->c->peer_id = t->m->local_id;
	cm_id_move(t->cm, t->c, IB_CM_REP_RCVD, reason);
	cm_id_say_reject(t->cm, t->c, &r);
	cm_id_end(t->cm, t->now_ns, t->c, reason);
	return reason;
}

static enum weft_reason rep_first(const struct take *t)
{
	const struct ibcm_rep *p = &t->m->rep;
	struct cm_id *c = t->c;

	if (!qpn_is_sound(p->qpn))
		return rep_refuse(t, IBCM_REJECT_UNSUPPORTED, WEFT_R_CM_FORM);
	if (stale_clear(t->cm, t->now_ns, c, t->ip, p->qpn))
		return rep_refuse(t, IBCM_REJECT_STALE, WEFT_R_CM_STALE);
	c->peer_id = t->m->local_id;
	c->peer_guid = p->ca_guid;
	cm_id_prove(t->cm, c);
	c->limit_ns = UINT64_MAX;
	c->mra_ns = c->response_ns / 2;
	c->peer = (struct ib_cm_end){
		.qpn = p->qpn,
		.psn = p->psn,
		.q_key = p->q_key,
		.reads_in = p->responder_resources,
		.reads_out = p->initiator_depth,
		.rnr_retries = p->rnr_retry,
		.ack_delay = p->ack_delay,
		.has_srq = p->has_srq,
		.has_flow_control = p->has_flow_control,
	};
	keep(c->begin, &c->begin_bytes, t->m->private_data);
	cm_id_index_add(t->cm, c, BY_PEER_QPN);
	/* The REQ need not be sent again. */
	cm_id_hush(c);
	cm_id_move(t->cm, c, IB_CM_REP_RCVD, WEFT_OK);
	cm_id_wait_owner(t->cm, t->now_ns, c);
	cm_id_tell(t->cm, c, IB_CM_REPLIED);
	return WEFT_OK;
}

static enum weft_reason recv_rep(const struct take *t)
{
	struct cm_id *c = t->c;

	if (!c->is_active)
		return WEFT_R_CM_STATE;
	switch (c->state) {
	case IB_CM_REQ_SENT:
	case IB_CM_MRA_REQ_RCVD:
		return rep_first(t);
	case IB_CM_REP_RCVD:
	case IB_CM_MRA_REP_SENT:
		cm_id_say_mra(t->cm, c);
		cm_id_wait_owner(t->cm, t->now_ns, c);
		return duplicate(t);
	case IB_CM_CONNECTED: /* the RTU was lost */
		return repeat(t);
	case IB_CM_TIMEWAIT:
		if (c->message_kind == IBCM_REJ && c->peer_id == t->m->local_id)
			return repeat(t);
		stray_reject(t->cm, t->ip, t->m, IBCM_REJECT_COMM_ID);
		return duplicate(t);
	default:
		return duplicate(t);
	}
}

/* ---- RTU, MRA, REJ -------------------------------------------------------------------------- */

static enum weft_reason recv_rtu(const struct take *t)
{
	struct cm_id *c = t->c;

	if (c->is_active)
		return WEFT_R_CM_STATE;
	switch (c->state) {
	case IB_CM_REP_SENT:
	case IB_CM_MRA_REP_RCVD:
		keep(c->begin, &c->begin_bytes, t->m->private_data);
		cm_id_establish(t->cm, t->now_ns, c);
		return WEFT_OK;
	case IB_CM_TIMEWAIT:
		return c->message_kind == IBCM_REJ ? repeat(t) : duplicate(t);
	case IB_CM_CONNECTED:
	case IB_CM_DREQ_SENT:
	case IB_CM_DREQ_RCVD:
		return duplicate(t);
	default:
		return WEFT_R_CM_STATE;
	}
}

static enum weft_reason recv_mra(const struct take *t)
{
	struct cm_id *c = t->c;
	uint8_t asked = t->m->mra.timeout;
	uint8_t code = asked < IB_CM_MRA_CODE_MAX ? asked : IB_CM_MRA_CODE_MAX;
	bool is_rep = t->m->mra.about == IBCM_ABOUT_REP;

	if (t->m->mra.about != (c->is_active ? IBCM_ABOUT_REQ : IBCM_ABOUT_REP))
		return WEFT_R_CM_STATE;
	switch (c->state) {
	case IB_CM_REQ_SENT:
	case IB_CM_REP_SENT:
		cm_id_move(t->cm, c, is_rep ? IB_CM_MRA_REP_RCVD : IB_CM_MRA_REQ_RCVD, WEFT_OK);
		break;
	case IB_CM_MRA_REQ_RCVD:
	case IB_CM_MRA_REP_RCVD:
		t->cm->counts.duplicates++;
		break;
	case IB_CM_REQ_RCVD:
	case IB_CM_MRA_REQ_SENT:
		return WEFT_R_CM_STATE;
	default:
		return duplicate(t);
	}
	if (c->is_active)
		c->peer_id = t->m->local_id;
	cm_id_wait(t->cm, t->now_ns, c, ib_cm_code_ns(code) + c->response_ns);
	return WEFT_OK;
}

/*
 * The meaning of a REJ here. Codes that are not listed are refusals by the peer's CM, not by its
 * program.
 */
static enum weft_reason reject_reason(uint16_t code)
{
	switch (code) {
	case IBCM_REJECT_SERVICE_ID:
		return WEFT_R_CONNECT_REFUSED;
	case IBCM_REJECT_CONSUMER:
		return WEFT_R_CONNECT_REJECTED;
	case IBCM_REJECT_TIMEOUT:
		return WEFT_R_CONNECT_TIMEOUT;
	case IBCM_REJECT_COMM_ID:
	case IBCM_REJECT_COMM_INSTANCE:
		return WEFT_R_CONNECT_CLOSED;
	case IBCM_REJECT_STALE:
		return WEFT_R_CM_STALE;
	default:
		return WEFT_R_CM_REFUSED;
	}
}

static enum weft_reason recv_rej(const struct take *t)
{
	struct cm_id *c = t->c;
	enum weft_reason reason = reject_reason(t->m->rej.reason);

	if (c->state == IB_CM_TIMEWAIT || c->state == IB_CM_DREQ_RCVD)
		return duplicate(t);
	/* A peer that was connected knows our id: a REJ without it does not end a connection. */
	if (t->m->remote_id == 0 && !cm_id_is_half_open(c))
		return WEFT_R_CM_STATE;
	t->cm->counts.rejects_in++;
	if (cm_id_was_established(c) && reason != WEFT_R_CM_STALE)
		reason = WEFT_R_STREAM_LOST;
	c->reject = t->m->rej.reason;
	c->reject_about = t->m->rej.about;
	keep_end(t);
	cm_id_hush(c);
	cm_id_end(t->cm, t->now_ns, c, reason);
	return WEFT_OK;
}

/* ---- DREQ and DREP -------------------------------------------------------------------------- */

static void answer_drep(const struct take *t)
{
	t->c->tid = t->m->tid;
	cm_id_say_drep(t->cm, t->c, (struct ibcm_bytes){ 0 });
}

static enum weft_reason dreq_first(const struct take *t)
{
	struct cm_id *c = t->c;

	c->tid = t->m->tid;
	c->reason = WEFT_R_PEER_GONE;
	c->is_by_peer = true;
	keep_end(t);
	cm_id_hush(c);
	cm_id_tell(t->cm, c, IB_CM_DISCONNECTED);
	cm_id_move(t->cm, c, IB_CM_DREQ_RCVD, WEFT_R_PEER_GONE);
	cm_id_wait(t->cm, t->now_ns, c, t->cm->config.first_retry_ns / 2 + 1);
	if (c->is_forgotten) {
		answer_drep(t);
		cm_id_end(t->cm, t->now_ns, c, WEFT_R_PEER_GONE);
	}
	return WEFT_OK;
}

/* The passive end disconnects before we have answered its REP, or even received it. */
static enum weft_reason dreq_early(const struct take *t)
{
	t->c->peer_id = t->m->local_id;
	keep_end(t);
	answer_drep(t);
	cm_id_end(t->cm, t->now_ns, t->c, WEFT_R_CONNECT_CLOSED);
	return WEFT_OK;
}

static enum weft_reason recv_dreq(const struct take *t)
{
	struct cm_id *c = t->c;

	/* IBA 12.6.10: a DREQ names our QP. */
	if (t->m->dreq_remote_qpn != c->qpn)
		return WEFT_R_CM_FORM;
	switch (c->state) {
	case IB_CM_REP_SENT:
	case IB_CM_MRA_REP_RCVD:
		/* The RTU was lost; the DREQ proves as much. */
		c->begin_bytes = 0;
		cm_id_establish(t->cm, t->now_ns, c);
		return dreq_first(t);
	case IB_CM_CONNECTED:
		return dreq_first(t);
	case IB_CM_REQ_SENT:
	case IB_CM_MRA_REQ_RCVD:
	case IB_CM_REP_RCVD:
	case IB_CM_MRA_REP_SENT:
		return dreq_early(t);
	case IB_CM_DREQ_SENT: /* both ends disconnect at once */
		c->is_by_peer = true;
		keep_end(t);
		answer_drep(t);
		cm_id_end(t->cm, t->now_ns, c, WEFT_R_PEER_GONE);
		return WEFT_OK;
	case IB_CM_DREQ_RCVD:
		return duplicate(t);
	case IB_CM_TIMEWAIT:
		if (c->message_kind == IBCM_DREP)
			return repeat(t);
		stray_drep(t->cm, t->ip, t->m);
		return duplicate(t);
	default:
		return WEFT_R_CM_STATE;
	}
}

static enum weft_reason recv_drep(const struct take *t)
{
	struct cm_id *c = t->c;

	if (c->state == IB_CM_TIMEWAIT)
		return duplicate(t);
	if (c->state == IB_CM_CONNECTED && challenge_is_open(c, t->now_ns)) {
		cm_id_hush(c);
		cm_id_end(t->cm, t->now_ns, c, WEFT_R_CM_STALE);
		return WEFT_OK;
	}
	if (c->state != IB_CM_DREQ_SENT)
		return WEFT_R_CM_STATE;
	keep_end(t);
	cm_id_hush(c);
	cm_id_end(t->cm, t->now_ns, c, WEFT_OK);
	return WEFT_OK;
}

/* ---- SIDR_REP ------------------------------------------------------------------------------- */

static enum weft_reason recv_sidr_rep(const struct take *t)
{
	struct cm_id *c = t->c;

	if (c->state != IB_CM_SIDR_SENT)
		return WEFT_R_CM_STATE;
	c->status = t->m->sidr_rep.status;
	c->peer.qpn = t->m->sidr_rep.qpn;
	c->peer.q_key = t->m->sidr_rep.q_key;
	keep_end(t);
	cm_id_tell(t->cm, c, IB_CM_RESOLVED);
	cm_id_release(t->cm, c);
	return WEFT_OK;
}

/* ---- Any ------------------------------------------------------------------------------------ */

/* No cm_id has the id. Answers a peer that would otherwise wait for us (IBA 12.9.7). */
static enum weft_reason recv_unknown(struct ib_cm *cm, const struct ibcm_ip *ip,
				     const struct ibcm_msg *m)
{
	if (m->kind == IBCM_REP)
		stray_reject(cm, ip, m, IBCM_REJECT_COMM_ID);
	else if (m->kind == IBCM_DREQ)
		stray_drep(cm, ip, m);
	else if (m->kind == IBCM_LAP)
		stray_apr(cm, ip, m, APR_COMM_ID);
	return WEFT_R_CM_UNKNOWN;
}

static struct cm_id *addressee(const struct ib_cm *cm, const struct ibcm_ip *ip,
			       const struct ibcm_msg *m)
{
	struct cm_id *c;

	/* IBA 12.6.7: the requester gave up before it received our id. */
	if (m->kind == IBCM_REJ && m->remote_id == 0)
		return cm_id_find_peer(cm, ip, m->local_id, false);
	c = cm_id_find(cm, m->kind == IBCM_SIDR_REP ? m->sidr_rep.request_id : m->remote_id);
	return c && c->state != IB_CM_IDLE ? c : NULL;
}

/* Checks the sender's address and, once the peer's id is known, its id. */
static enum weft_reason sender_check(const struct cm_id *c, const struct ibcm_ip *ip,
				     const struct ibcm_msg *m)
{
	bool is_open = c->state == IB_CM_REQ_SENT || c->state == IB_CM_MRA_REQ_RCVD;
	bool is_rejected = c->is_active && c->state == IB_CM_TIMEWAIT;

	if (ip->is_ipv6 != c->ip.is_ipv6 ||
	    memcmp(ip->from.address, c->ip.to.address, ip->is_ipv6 ? 16 : 4) != 0)
		return WEFT_R_CM_SENDER;
	if (c->is_sidr != (m->kind == IBCM_SIDR_REP))
		return WEFT_R_CM_STATE;
	if (c->is_sidr || is_open || is_rejected || m->local_id == c->peer_id)
		return WEFT_OK;
	return WEFT_R_CM_UNKNOWN;
}

static enum weft_reason recv_known(const struct take *t)
{
	switch (t->m->kind) {
	case IBCM_REP:
		return recv_rep(t);
	case IBCM_RTU:
		return recv_rtu(t);
	case IBCM_MRA:
		return recv_mra(t);
	case IBCM_REJ:
		return recv_rej(t);
	case IBCM_DREQ:
		return recv_dreq(t);
	case IBCM_DREP:
		return recv_drep(t);
	case IBCM_SIDR_REP:
		return recv_sidr_rep(t);
	case IBCM_LAP:
		stray_apr(t->cm, t->ip, t->m, APR_UNSUPPORTED);
		return WEFT_R_CM_STATE;
	case IBCM_APR: /* this agent never sends a LAP */
	case IBCM_REQ:
	case IBCM_SIDR_REQ:
		break;
	}
	return WEFT_R_CM_STATE;
}

static enum weft_reason recv_message(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
				     const struct ibcm_msg *m)
{
	enum weft_reason reason;
	struct cm_id *c;

	if (m->kind == IBCM_REQ)
		return recv_req(cm, now_ns, ip, m);
	if (m->kind == IBCM_SIDR_REQ)
		return recv_sidr_req(cm, now_ns, ip, m);
	c = addressee(cm, ip, m);
	if (!c)
		return recv_unknown(cm, ip, m);
	reason = sender_check(c, ip, m);
	if (reason != WEFT_OK)
		return reason;
	/* A peer that names our id has received messages at its address. */
	if (m->remote_id == c->id && !c->is_active)
		cm_id_prove(cm, c);
	return recv_known(&(struct take){ cm, now_ns, ip, m, c });
}

enum weft_reason ib_cm_recv(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			    const uint8_t *bytes, size_t length)
{
	struct ibcm_msg m;
	enum weft_reason reason = ibcm_decode(&m, bytes, length);

	cm->counts.mads_in++;
	resend_budget_refill(cm, now_ns);
	if (reason == WEFT_OK)
		reason = recv_message(cm, now_ns, ip, &m);
	if (reason != WEFT_OK) {
		cm->counts.dropped++;
		cm->counts.dropped_for = reason;
	}
	return reason;
}

bool ib_cm_where(const uint8_t *bytes, size_t length, struct ib_cm_where *where)
{
	struct ibcm_msg m;
	uint32_t id;

	if (ibcm_decode(&m, bytes, length) != WEFT_OK)
		return false;
	*where = (struct ib_cm_where){ .kind = m.kind };
	if (m.kind == IBCM_REQ || m.kind == IBCM_SIDR_REQ) {
		where->is_request = true;
		where->service_id = m.kind == IBCM_REQ ? m.req.service_id : m.sidr_req.service_id;
		return true;
	}
	id = m.kind == IBCM_SIDR_REP ? m.sidr_rep.request_id : m.remote_id;
	where->adapter_slot = (uint8_t)(id >> 24);
	return true;
}
