/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of the owner. */
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "cm/ib_cm_inside.h"
#include "wire/iba.h"

enum { DEFAULT_PKEY = 0xffff, DEFAULT_HOP_LIMIT = 64, NO_LID = 0xffff };

static bool data_fits(struct ibcm_bytes data, uint32_t max)
{
	return data.length <= max;
}

static uint64_t limit_of(uint64_t now_ns, uint64_t timeout_ns)
{
	return timeout_ns > 0 ? deadline_after(now_ns, timeout_ns) : UINT64_MAX;
}

/* ---- Active --------------------------------------------------------------------------------- */

static bool connect_is_sound(const struct ib_cm_connect *c)
{
	const struct ib_cm_end *e = &c->end;

	return qpn_is_sound(e->qpn) && e->psn <= 0xffffff && e->retries <= 7 &&
	       e->rnr_retries <= 7 && iba_mtu_code(c->mtu_bytes) > 0 && c->ack_code <= 31 &&
	       c->flow_label <= 0xfffff && c->transport != IBCM_TRANSPORT_RD &&
	       c->transport <= IBCM_TRANSPORT_EXTENDED;
}

static struct ibcm_req req_of(const struct ib_cm *cm, const struct ib_cm_connect *c)
{
	const struct ib_cm_end *e = &c->end;
	struct ibcm_req q = {
		.service_id = c->service_id,
		.ca_guid = cm->config.ca_guid,
		.q_key = e->q_key,
		.qpn = e->qpn,
		.psn = e->psn,
		.responder_resources = e->reads_in,
		.initiator_depth = e->reads_out,
		.remote_timeout = cm->config.response_code,
		.local_timeout = cm->config.response_code,
		.transport = c->transport,
		.extended_transport = c->transport == IBCM_TRANSPORT_EXTENDED,
		.has_flow_control = e->has_flow_control,
		.has_srq = e->has_srq,
		.retry_count = e->retries,
		.rnr_retry = e->rnr_retries,
		.cm_retries = cm->config.retries,
		.p_key = c->p_key ? c->p_key : DEFAULT_PKEY,
		.path_mtu = iba_mtu_code(c->mtu_bytes),
	};

	q.primary = (struct ibcm_path){
		.local_lid = NO_LID,
		.remote_lid = NO_LID,
		.flow_label = c->flow_label,
		.traffic_class = c->traffic_class,
		.hop_limit = c->hop_limit ? c->hop_limit : DEFAULT_HOP_LIMIT,
		.ack_timeout = c->ack_code ? c->ack_code : IB_CM_ACK_CODE,
	};
	gid_of(&c->ip, &c->ip.from, q.primary.local_gid);
	gid_of(&c->ip, &c->ip.to, q.primary.remote_gid);
	return q;
}

enum weft_reason ib_cm_connect(struct ib_cm *cm, uint64_t now_ns, const struct ib_cm_connect *c,
			       uint32_t *id)
{
	uint32_t room_bytes = IB_CM_REQ_DATA + (c->is_plain ? IBCM_IP_BYTES : 0);
	struct ibcm_msg m = { .kind = IBCM_REQ };
	uint8_t room[IB_CM_REQ_DATA + IBCM_IP_BYTES];
	struct cm_id *v;

	if (!connect_is_sound(c))
		return WEFT_R_BAD_ARGUMENT;
	if (!data_fits(c->private_data, room_bytes))
		return WEFT_R_PRIVATE_DATA;
	v = cm_id_new(cm, &c->ip);
	if (!v)
		return WEFT_R_LIMIT;
	m.req = req_of(cm, c);
	v->is_active = true;
	v->is_known = true;
	v->has_header = !c->is_plain;
	v->owner = c->owner;
	v->service_id = c->service_id;
	v->tid = cm->tid_next++;
	v->qpn = c->end.qpn;
	v->traffic_class = c->traffic_class;
	v->hop_limit = c->hop_limit;
	v->ack_code = m.req.primary.ack_timeout;
	v->limit_ns = limit_of(now_ns, c->timeout_ns);
	m.private_data = request_data(v, c->private_data, room);
	cm_id_move(cm, v, IB_CM_REQ_SENT, WEFT_OK);
	cm_id_say(cm, v, &m);
	cm_id_wait_answer(cm, now_ns, v);
	*id = v->id;
	return WEFT_OK;
}

enum weft_reason ib_cm_ready(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			     struct ibcm_bytes private_data)
{
	struct ibcm_msg m = { .kind = IBCM_RTU, .private_data = private_data };
	struct cm_id *c = cm_id_find(cm, id);

	(void)now_ns;
	if (!c)
		return WEFT_R_CM_UNKNOWN;
	if (c->state != IB_CM_REP_RCVD && c->state != IB_CM_MRA_REP_SENT)
		return WEFT_R_CM_STATE;
	if (!data_fits(private_data, ibcm_private_max(IBCM_RTU)))
		return WEFT_R_PRIVATE_DATA;
	cm_id_untell(c, IB_CM_REPLIED);
	timer_queue_cancel(&cm->timers, &c->timer);
	cm_id_move(cm, c, IB_CM_CONNECTED, WEFT_OK);
	cm_id_say(cm, c, &m);
	return WEFT_OK;
}

/* ---- Passive -------------------------------------------------------------------------------- */

static bool request_is_open(const struct cm_id *c)
{
	return c->state == IB_CM_REQ_RCVD || c->state == IB_CM_MRA_REQ_SENT;
}

static bool reply_is_open(const struct cm_id *c)
{
	return c->state == IB_CM_REP_RCVD || c->state == IB_CM_MRA_REP_SENT;
}

/* IBA 12.6.8: an alternate path of the requester is not used here. */
static uint8_t failover_of(const struct ibcm_req *q)
{
	static const uint8_t none[IBCM_GID_BYTES];
	enum { ACCEPTED = 0, UNSUPPORTED = 1 };

	return memcmp(q->alternate.local_gid, none, sizeof(none)) == 0 ? ACCEPTED : UNSUPPORTED;
}

enum weft_reason ib_cm_accept(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_accept *a)
{
	const struct ib_cm_end *e = &a->end;
	struct ibcm_msg m = { .kind = IBCM_REP, .private_data = a->private_data };
	struct cm_id *c = cm_id_find(cm, id);

	if (!c)
		return WEFT_R_CM_UNKNOWN;
	if (!request_is_open(c))
		return WEFT_R_CM_STATE;
	if (!qpn_is_sound(e->qpn) || e->psn > 0xffffff || e->rnr_retries > 7 || e->ack_delay > 31)
		return WEFT_R_BAD_ARGUMENT;
	if (!data_fits(a->private_data, ibcm_private_max(IBCM_REP)))
		return WEFT_R_PRIVATE_DATA;
	m.rep = (struct ibcm_rep){
		.q_key = e->q_key,
		.qpn = e->qpn,
		.psn = e->psn,
		.responder_resources = e->reads_in,
		.initiator_depth = e->reads_out < c->peer.reads_in ? e->reads_out
								   : c->peer.reads_in,
		.ack_delay = e->ack_delay,
		.failover = failover_of(&c->req),
		.has_flow_control = e->has_flow_control,
		.has_srq = e->has_srq,
		.rnr_retry = e->rnr_retries,
		.ca_guid = cm->config.ca_guid,
	};
	c->owner = a->owner;
	c->qpn = e->qpn;
	cm_id_move(cm, c, IB_CM_REP_SENT, WEFT_OK);
	cm_id_say(cm, c, &m);
	cm_id_wait_answer(cm, now_ns, c);
	return WEFT_OK;
}

enum weft_reason ib_cm_reject(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_reject *r)
{
	struct cm_id *c = cm_id_find(cm, id);

	if (!c)
		return WEFT_R_CM_UNKNOWN;
	if (!request_is_open(c) && !reply_is_open(c))
		return WEFT_R_CM_STATE;
	if (!data_fits(r->private_data, ibcm_private_max(IBCM_REJ)) ||
	    !data_fits(r->info, IBCM_INFO_MAX))
		return WEFT_R_PRIVATE_DATA;
	cm_id_forget(cm, c);
	cm_id_say_reject(cm, c, r);
	cm_id_end(cm, now_ns, c, WEFT_OK);
	return WEFT_OK;
}

void ib_cm_own(struct ib_cm *cm, uint32_t id, void *owner)
{
	struct cm_id *c = cm_id_find(cm, id);

	if (c)
		c->owner = owner;
}

enum weft_reason ib_cm_established(struct ib_cm *cm, uint64_t now_ns, uint32_t id)
{
	struct cm_id *c = cm_id_find(cm, id);

	if (!c)
		return WEFT_R_CM_UNKNOWN;
	if (c->state != IB_CM_REP_SENT && c->state != IB_CM_MRA_REP_RCVD)
		return WEFT_OK;
	c->begin_bytes = 0;
	cm_id_prove(cm, c);
	cm_id_establish(cm, now_ns, c);
	return WEFT_OK;
}

/* ---- The end -------------------------------------------------------------------------------- */

enum weft_reason ib_cm_disconnect(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
				  struct ibcm_bytes private_data)
{
	struct cm_id *c = cm_id_find(cm, id);

	if (!c)
		return WEFT_R_CM_UNKNOWN;
	switch (c->state) {
	case IB_CM_REP_SENT:
	case IB_CM_MRA_REP_RCVD:
	case IB_CM_CONNECTED:
		if (!data_fits(private_data, ibcm_private_max(IBCM_DREQ)))
			return WEFT_R_PRIVATE_DATA;
		cm_id_untell(c, IB_CM_ESTABLISHED);
		cm_id_say_dreq(cm, now_ns, c, private_data);
		return WEFT_OK;
	case IB_CM_DREQ_RCVD:
		if (!data_fits(private_data, ibcm_private_max(IBCM_DREP)))
			return WEFT_R_PRIVATE_DATA;
		cm_id_say_drep(cm, c, private_data);
		cm_id_end(cm, now_ns, c, WEFT_R_PEER_GONE);
		return WEFT_OK;
	default:
		return WEFT_R_CM_STATE;
	}
}

/* The owner has dropped a cm_id that is not established: rejects the peer's request or reply. */
static void leave_open(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	bool is_waiting = c->state == IB_CM_REQ_SENT || c->state == IB_CM_MRA_REQ_RCVD;
	const struct ib_cm_reject r = { .code = is_waiting ? IBCM_REJECT_TIMEOUT
							   : IBCM_REJECT_CONSUMER };

	cm_id_say_reject(cm, c, &r);
	cm_id_end(cm, now_ns, c, WEFT_OK);
}

static void leave(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	static const struct ib_cm_answer no = { .status = IBCM_SIDR_REJECT };

	switch (c->state) {
	case IB_CM_REQ_SENT:
	case IB_CM_MRA_REQ_RCVD:
	case IB_CM_REP_RCVD:
	case IB_CM_MRA_REP_SENT:
	case IB_CM_REQ_RCVD:
	case IB_CM_MRA_REQ_SENT:
		leave_open(cm, now_ns, c);
		break;
	case IB_CM_REP_SENT:
	case IB_CM_MRA_REP_RCVD:
	case IB_CM_CONNECTED:
		cm_id_say_dreq(cm, now_ns, c, (struct ibcm_bytes){ 0 });
		break;
	case IB_CM_DREQ_RCVD:
		cm_id_say_drep(cm, c, (struct ibcm_bytes){ 0 });
		cm_id_end(cm, now_ns, c, WEFT_R_PEER_GONE);
		break;
	case IB_CM_SIDR_SENT:
		cm_id_release(cm, c);
		break;
	case IB_CM_SIDR_RCVD:
		cm_id_say_sidr(cm, c, &no);
		cm_id_end(cm, now_ns, c, WEFT_OK);
		break;
	case IB_CM_DREQ_SENT:
	case IB_CM_TIMEWAIT:
	case IB_CM_IDLE:
	case IB_CM_STATE_COUNT:
		break;
	}
}

void ib_cm_forget(struct ib_cm *cm, uint64_t now_ns, uint32_t id)
{
	struct cm_id *c = cm_id_find(cm, id);
	bool is_over;

	if (!c)
		return;
	is_over = c->state == IB_CM_IDLE;
	cm_id_forget(cm, c);
	if (!is_over)
		leave(cm, now_ns, c);
}

void ib_cm_lost(struct ib_cm *cm, uint64_t now_ns, uint32_t id)
{
	struct cm_id *c = cm_id_find(cm, id);
	bool is_open = c && (request_is_open(c) || reply_is_open(c) || c->state == IB_CM_REQ_SENT ||
			     c->state == IB_CM_MRA_REQ_RCVD || c->state == IB_CM_REP_SENT ||
			     c->state == IB_CM_MRA_REP_RCVD);

	if (!is_open && !(c && c->state == IB_CM_CONNECTED))
		return;
	cm_id_hush(c);
	cm_id_end(cm, now_ns, c, is_open ? WEFT_R_CONNECT_CLOSED : WEFT_R_STREAM_LOST);
}

/* ---- SIDR ----------------------------------------------------------------------------------- */

enum weft_reason ib_cm_resolve(struct ib_cm *cm, uint64_t now_ns, const struct ib_cm_resolve *r,
			       uint32_t *id)
{
	uint32_t room_bytes = IB_CM_SIDR_REQ_DATA + (r->is_plain ? IBCM_IP_BYTES : 0);
	struct ibcm_msg m = { .kind = IBCM_SIDR_REQ };
	uint8_t room[IB_CM_SIDR_REQ_DATA + IBCM_IP_BYTES];
	struct cm_id *c;

	if (!data_fits(r->private_data, room_bytes))
		return WEFT_R_PRIVATE_DATA;
	c = cm_id_new(cm, &r->ip);
	if (!c)
		return WEFT_R_LIMIT;
	c->is_active = true;
	c->is_sidr = true;
	c->is_known = true;
	c->has_header = !r->is_plain;
	c->owner = r->owner;
	c->service_id = r->service_id;
	c->tid = cm->tid_next++;
	c->traffic_class = r->traffic_class;
	c->hop_limit = r->hop_limit;
	c->limit_ns = limit_of(now_ns, r->timeout_ns);
	m.sidr_req = (struct ibcm_sidr_req){ .request_id = c->id,
					     .p_key = r->p_key ? r->p_key : DEFAULT_PKEY,
					     .service_id = r->service_id };
	m.private_data = request_data(c, r->private_data, room);
	cm_id_move(cm, c, IB_CM_SIDR_SENT, WEFT_OK);
	cm_id_say(cm, c, &m);
	cm_id_wait_answer(cm, now_ns, c);
	*id = c->id;
	return WEFT_OK;
}

enum weft_reason ib_cm_answer(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_answer *a)
{
	struct cm_id *c = cm_id_find(cm, id);

	if (!c)
		return WEFT_R_CM_UNKNOWN;
	if (c->state != IB_CM_SIDR_RCVD)
		return WEFT_R_CM_STATE;
	if (!data_fits(a->private_data, ibcm_private_max(IBCM_SIDR_REP)) ||
	    !data_fits(a->info, IBCM_INFO_MAX))
		return WEFT_R_PRIVATE_DATA;
	cm_id_forget(cm, c);
	cm_id_say_sidr(cm, c, a);
	cm_id_end(cm, now_ns, c, WEFT_OK);
	return WEFT_OK;
}
