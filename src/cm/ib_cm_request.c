/* SPDX-License-Identifier: BSD-2-Clause */
/* What begins a cm_id at the passive side: REQ and SIDR_REQ, their checks and duplicates. */
#include <string.h>

#include "base/check.h"
#include "cm/ib_cm_inside.h"
#include "wire/iba.h"

/* 0 and 1 are for management, the last one is a multicast group. */
bool qpn_is_sound(uint32_t qpn)
{
	return qpn > 1 && qpn < 0xffffff;
}

/* ---- Stale connections ---------------------------------------------------------------------- */

/* Consecutive challenges of a peer, and how long after the last one an answer counts. */
enum { CHALLENGES_MAX = 4 };
static const uint64_t challenge_ns = UINT64_C(10) * 1000 * 1000 * 1000;

static void stale_end(struct ib_cm *cm, uint64_t now_ns, struct cm_id *old)
{
	static const struct ib_cm_reject stale = { .code = IBCM_REJECT_STALE };

	/* If the other end still has the connection, the REJ ends it there. */
	cm_id_say_reject(cm, old, &stale);
	cm_id_end(cm, now_ns, old, WEFT_R_CM_STALE);
}

bool stale_clear(struct ib_cm *cm, uint64_t now_ns, const struct cm_id *but,
		 const struct ibcm_ip *ip, uint32_t qpn)
{
	struct cm_id *old = cm_id_find_qpn(cm, ip, qpn, NULL);
	bool was_established = false;

	while (old) {
		struct cm_id *next = cm_id_find_qpn(cm, ip, qpn, old);

		if (old != but) {
			was_established |= cm_id_was_established(old);
			stale_end(cm, now_ns, old);
		}
		old = next;
	}
	return was_established;
}

/* IBA 12.9.8.3.1: a QP is the same if its number and its CA's GUID are. */
static struct cm_id *find_same_qp(const struct ib_cm *cm, const struct ibcm_ip *ip,
				  const struct ibcm_req *q)
{
	struct cm_id *c = cm_id_find_qpn(cm, ip, q->qpn, NULL);

	while (c && c->peer_guid != q->ca_guid)
		c = cm_id_find_qpn(cm, ip, q->qpn, c);
	return c;
}

bool challenge_is_open(const struct cm_id *c, uint64_t now_ns)
{
	return c->challenges > 0 && now_ns - c->challenged_ns < challenge_ns;
}

/*
 * A REQ says that the peer began anew, but it can be forged, so it ends no connection. As RFC 5961
 * section 4.2 does with a SYN, the peer is challenged (stray_challenge). A peer that has forgotten
 * the connection answers with a DREP that carries the ids of both ends. That ends the connection,
 * and the REQ succeeds when it is sent again. A peer that still has the connection does not answer;
 * then the REQ is refused.
 */
static enum weft_reason challenge(struct ib_cm *cm, uint64_t now_ns, struct cm_id *old,
				  const struct ibcm_ip *ip, const struct ibcm_msg *m)
{
	bool is_open = challenge_is_open(old, now_ns);

	if (is_open && now_ns - old->challenged_ns < cm->config.first_retry_ns / 2)
		return WEFT_R_CM_STALE;
	if (is_open && old->challenges == CHALLENGES_MAX) {
		stray_reject(cm, ip, m, IBCM_REJECT_STALE);
		return WEFT_R_CM_STALE;
	}
	old->challenges = is_open ? old->challenges + 1 : 1;
	old->challenged_ns = now_ns;
	cm->counts.challenges++;
	stray_challenge(cm, old);
	return WEFT_R_CM_STALE;
}

/* ---- Addresses ------------------------------------------------------------------------------ */

/* Which service ids are ports of the RDMA CM, whose requests begin with addresses (annex A11). */
static bool service_has_header(uint64_t service_id)
{
	return ibcm_is_service(service_id, IBCM_PS_TCP) ||
	       ibcm_is_service(service_id, IBCM_PS_UDP) ||
	       ibcm_is_service(service_id, IBCM_PS_IPOIB);
}

/* In the IB port space the header is optional: there is one if the bytes form a valid header. */
static bool service_may_have_header(uint64_t service_id)
{
	return ibcm_is_service(service_id, IBCM_PS_IB);
}

/*
 * Reads the header and fills *back with the addresses of an answer: from us to the peer, with the
 * ports of the RDMA CM. The addresses in the header must be those of the packet.
 */
static enum weft_reason header_read(const struct ibcm_ip *ip, uint64_t service_id,
				    struct ibcm_bytes private, struct ibcm_ip *back,
				    bool *has_header)
{
	size_t bytes = ip->is_ipv6 ? 16 : 4;
	struct ibcm_ip said = { 0 };
	bool is_due = service_has_header(service_id);
	enum weft_reason reason;

	*back = (struct ibcm_ip){ .is_ipv6 = ip->is_ipv6, .from = ip->to, .to = ip->from };
	back->from.port = 0;
	back->to.port = 0;
	*has_header = false;
	if (!is_due && !service_may_have_header(service_id))
		return WEFT_OK;
	reason = ibcm_ip_decode(&said, service_id, private);
	if (reason == WEFT_OK && (said.is_ipv6 != ip->is_ipv6 ||
				  memcmp(said.from.address, ip->from.address, bytes) != 0 ||
				  memcmp(said.to.address, ip->to.address, bytes) != 0))
		reason = WEFT_R_CM_SENDER;
	if (reason != WEFT_OK)
		return is_due ? reason : WEFT_OK;
	*has_header = true;
	back->from.port = said.to.port;
	back->to.port = said.from.port;
	return WEFT_OK;
}

static void keep_begin(struct cm_id *c, struct ibcm_bytes private)
{
	uint32_t header = c->has_header ? IBCM_IP_BYTES : 0;

	c->begin_bytes = private.length - header;
	memcpy(c->begin, private.bytes + header, c->begin_bytes);
}

/* ---- REQ ------------------------------------------------------------------------------------ */

/* Code 0: accepted. Otherwise the reason for us and the code for the peer. */
struct verdict {
	enum weft_reason reason;
	uint16_t code;
};

static struct verdict req_check(const struct ib_cm *cm, const struct ibcm_ip *ip,
				const struct ibcm_req *q)
{
	uint8_t theirs[IBCM_GID_BYTES], ours[IBCM_GID_BYTES];

	gid_of(ip, &ip->from, theirs);
	gid_of(ip, &ip->to, ours);
	if (!(cm->config.transports & 1U << q->transport))
		return (struct verdict){ WEFT_R_CM_FORM, IBCM_REJECT_TRANSPORT };
	/* A REQ with another sender's GID would direct our packets there. */
	if (memcmp(q->primary.local_gid, theirs, sizeof(theirs)) != 0 ||
	    memcmp(q->primary.remote_gid, ours, sizeof(ours)) != 0)
		return (struct verdict){ WEFT_R_CM_SENDER, IBCM_REJECT_GID };
	if (iba_mtu_bytes(q->path_mtu) == 0)
		return (struct verdict){ WEFT_R_CM_FORM, IBCM_REJECT_MTU };
	if (!qpn_is_sound(q->qpn))
		return (struct verdict){ WEFT_R_CM_FORM, IBCM_REJECT_UNSUPPORTED };
	return (struct verdict){ WEFT_OK, 0 };
}

/* False: another request with the same id, from a peer that lost its state. */
static bool req_is_same(const struct cm_id *c, const struct ibcm_req *q)
{
	return c->peer.qpn == q->qpn && c->peer.psn == q->psn && c->service_id == q->service_id;
}

static void req_again(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c, const struct ibcm_ip *ip,
		      const struct ibcm_msg *m)
{
	cm->counts.duplicates++;
	cm_id_credit(c);
	if (c->state == IB_CM_REQ_RCVD || c->state == IB_CM_MRA_REQ_SENT) {
		/* The peer sends again, so let it know that the REQ has arrived. */
		cm_id_say_mra(cm, c);
		cm_id_wait_owner(cm, now_ns, c);
	} else if (c->state == IB_CM_REP_SENT) {
		cm_id_say_again(cm, c);
	} else if (c->state == IB_CM_TIMEWAIT) {
		if (c->message_kind == IBCM_REJ)
			cm_id_say_again(cm, c);
		else
			stray_reject(cm, ip, m, IBCM_REJECT_STALE);
	}
}

static void req_fill(struct ib_cm *cm, struct cm_id *c, const struct ibcm_msg *m)
{
	const struct ibcm_req *q = &m->req;
	uint8_t max = cm->config.response_code;
	uint8_t theirs = q->local_timeout < max ? q->local_timeout : max;
	uint8_t ours = q->remote_timeout < max ? q->remote_timeout : max;

	c->req = *q;
	c->tid = m->tid;
	c->peer_id = m->local_id;
	c->peer_guid = q->ca_guid;
	c->service_id = q->service_id;
	c->traffic_class = q->primary.traffic_class;
	c->ack_code = q->primary.ack_timeout;
	/* IBA 12.6.5: the requester chooses retries and timeouts for both ends. */
	c->retries = q->cm_retries < c->retries ? q->cm_retries : c->retries;
	c->response_ns = ib_cm_code_ns(theirs);
	c->mra_ns = ib_cm_code_ns(ours) / 2;
	c->peer = (struct ib_cm_end){
		.qpn = q->qpn,
		.psn = q->psn,
		.q_key = q->q_key,
		.reads_in = q->responder_resources,
		.reads_out = q->initiator_depth,
		.retries = q->retry_count,
		.rnr_retries = q->rnr_retry,
		.has_srq = q->has_srq,
		.has_flow_control = q->has_flow_control,
	};
}

static enum weft_reason refuse(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *m,
			       struct verdict v)
{
	stray_reject(cm, ip, m, v.code);
	return v.reason;
}

/* Sends no answer if there is no room: the peer repeats the request, and there may be room then. */
static enum weft_reason passive_new(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *back,
				    bool is_unproven, struct cm_id **c)
{
	enum weft_reason reason = half_open_room(cm, now_ns, back, is_unproven);

	*c = reason == WEFT_OK ? cm_id_new(cm, back) : NULL;
	if (*c) {
		(*c)->is_unproven = is_unproven;
		(*c)->began_ns = now_ns;
		(*c)->credit = 1;
		return WEFT_OK;
	}
	reason = reason == WEFT_OK ? WEFT_R_LIMIT : reason;
	cm->counts.full++;
	cm->counts.crowded += reason == WEFT_R_CM_CROWD;
	trace_add(cm->config.trace, (struct trace_event){ .kind = TRACE_PACKET_DROPPED,
							  .who = IBA_QPN_GSI,
							  .reason = (uint16_t)reason });
	return reason;
}

/* Looks for a cm_id with the same peer id. True: the message repeats its request. */
static bool req_meets(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
		      const struct ibcm_msg *m)
{
	struct cm_id *c = cm_id_find_peer(cm, ip, m->local_id, false);

	if (c && req_is_same(c, &m->req)) {
		req_again(cm, now_ns, c, ip, m);
		return true;
	}
	return false;
}

/*
 * Handles cm_ids that conflict with the request: one with the same id, and one with the same queue
 * pair. An established connection stays. An older request of the same peer ends: the peer has given
 * it up.
 */
static enum weft_reason req_supersedes(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
				       const struct ibcm_msg *m)
{
	struct cm_id *by_id = cm_id_find_peer(cm, ip, m->local_id, false);
	struct cm_id *by_qp = find_same_qp(cm, ip, &m->req);

	if (by_id && by_id->state == IB_CM_CONNECTED)
		return challenge(cm, now_ns, by_id, ip, m);
	if (by_qp && by_qp->state == IB_CM_CONNECTED)
		return challenge(cm, now_ns, by_qp, ip, m);
	if (by_id && by_id->state != IB_CM_TIMEWAIT) {
		if (by_id->peer_guid != m->req.ca_guid)
			return WEFT_R_CM_STALE;
		cm_id_end(cm, now_ns, by_id, WEFT_R_CM_STALE);
	}
	if (by_id)
		cm_id_index_remove(cm, by_id, BY_PEER_ID);
	if (by_qp && by_qp != by_id)
		stale_end(cm, now_ns, by_qp);
	return WEFT_OK;
}

/* Whether a REQ comes from a peer that has proved that it receives messages at its address. */
static bool is_unproven(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_req *q)
{
	return !host_is_proved(host_find(cm, ip->is_ipv6, &ip->from), q->ca_guid);
}

enum weft_reason recv_req(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			  const struct ibcm_msg *m)
{
	struct verdict v = { WEFT_OK, 0 };
	struct ibcm_ip back;
	bool has_header;
	struct cm_id *c;

	if (req_meets(cm, now_ns, ip, m))
		return WEFT_OK;
	v = req_check(cm, ip, &m->req);
	if (v.reason == WEFT_OK) {
		v.reason = header_read(ip, m->req.service_id, m->private_data, &back, &has_header);
		v.code = v.reason == WEFT_R_CM_SENDER ? IBCM_REJECT_GID : IBCM_REJECT_UNSUPPORTED;
	}
	if (v.reason != WEFT_OK)
		return refuse(cm, ip, m, v);
	v.reason = req_supersedes(cm, now_ns, ip, m);
	if (v.reason == WEFT_OK)
		v.reason = passive_new(cm, now_ns, &back, is_unproven(cm, ip, &m->req), &c);
	if (v.reason != WEFT_OK)
		return v.reason;
	c->has_header = has_header;
	req_fill(cm, c, m);
	keep_begin(c, m->private_data);
	cm_id_index_add(cm, c, BY_PEER_ID);
	cm_id_index_add(cm, c, BY_PEER_QPN);
	cm_id_move(cm, c, IB_CM_REQ_RCVD, WEFT_OK);
	cm_id_wait_owner(cm, now_ns, c);
	cm_id_tell(cm, c, IB_CM_REQUESTED);
	return WEFT_OK;
}

/* ---- SIDR_REQ ------------------------------------------------------------------------------- */

static bool sidr_meets(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_sidr_req *q)
{
	struct cm_id *c = cm_id_find_peer(cm, ip, q->request_id, true);

	if (!c)
		return false;
	if (c->service_id != q->service_id) {
		if (c->state == IB_CM_TIMEWAIT) {
			cm_id_index_remove(cm, c, BY_PEER_ID);
			return false;
		}
		/* The owner has the earlier request; the peer will repeat this one. */
		return true;
	}
	cm->counts.duplicates++;
	cm_id_credit(c);
	if (c->state == IB_CM_TIMEWAIT)
		cm_id_say_again(cm, c);
	return true;
}

enum weft_reason recv_sidr_req(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			       const struct ibcm_msg *m)
{
	const struct ibcm_sidr_req *q = &m->sidr_req;
	enum weft_reason reason;
	struct ibcm_ip back;
	bool has_header;
	struct cm_id *c;

	if (sidr_meets(cm, ip, q))
		return WEFT_OK;
	reason = header_read(ip, q->service_id, m->private_data, &back, &has_header);
	if (reason != WEFT_OK) {
		stray_sidr(cm, ip, m, IBCM_SIDR_REJECT);
		return reason;
	}
	reason = passive_new(cm, now_ns, &back, true, &c);
	if (reason != WEFT_OK)
		return reason;
	c->is_sidr = true;
	c->has_header = has_header;
	c->tid = m->tid;
	c->peer_id = q->request_id;
	c->service_id = q->service_id;
	c->req.p_key = q->p_key;
	keep_begin(c, m->private_data);
	cm_id_index_add(cm, c, BY_PEER_ID);
	cm_id_move(cm, c, IB_CM_SIDR_RCVD, WEFT_OK);
	/* SIDR has no MRA to announce a delay: the requester waits no longer than this. */
	cm_id_wait(cm, now_ns, c, c->response_ns * (c->retries + 1U));
	cm_id_tell(cm, c, IB_CM_SIDR_REQUESTED);
	return WEFT_OK;
}
