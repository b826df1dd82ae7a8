/* SPDX-License-Identifier: BSD-2-Clause */
/* Outgoing messages: those of cm_ids, and answers to messages that belong to no cm_id. */
#include <string.h>

#include "base/check.h"
#include "cm/ib_cm_inside.h"

/* ---- Of cm_ids ----------------------------------------------------------------------- */

/* An MRA needs two credits: if it used the last one, there would be none for the answer itself. */
static void cm_id_owe(struct ib_cm *cm, struct cm_id *c, enum debt debt)
{
	if (!(c->owes & debt) && !cm_id_may_say(cm, c, debt == OWES_MRA ? 2 : 1))
		return;
	c->owes |= debt;
	if (!list_is_linked(&c->to_send))
		list_add_tail(&cm->to_send, &c->to_send);
}

/* Stores the message for the peer; sends nothing yet. */
static void cm_id_keep(struct cm_id *c, struct ibcm_msg *m)
{
	m->tid = c->tid;
	m->local_id = c->id;
	m->remote_id = c->peer_id;
	ibcm_encode(m, c->message);
	c->message_kind = m->kind;
	c->sent = 0;
	c->tries = 0;
	/* The answer makes a pending MRA void. */
	if (c->owes)
		cm_id_credit(c);
	c->owes = 0;
}

void cm_id_say(struct ib_cm *cm, struct cm_id *c, struct ibcm_msg *m)
{
	cm_id_keep(c, m);
	cm_id_owe(cm, c, OWES_MESSAGE);
}

void cm_id_say_again(struct ib_cm *cm, struct cm_id *c)
{
	cm_id_owe(cm, c, OWES_MESSAGE);
}

void cm_id_say_mra(struct ib_cm *cm, struct cm_id *c)
{
	if (c->state == IB_CM_REQ_RCVD)
		cm_id_move(cm, c, IB_CM_MRA_REQ_SENT, WEFT_OK);
	else if (c->state == IB_CM_REP_RCVD)
		cm_id_move(cm, c, IB_CM_MRA_REP_SENT, WEFT_OK);
	CHECK(c->state == IB_CM_MRA_REQ_SENT || c->state == IB_CM_MRA_REP_SENT);
	c->mra_ns = ib_cm_code_ns(cm->config.mra_code) / 2;
	cm_id_owe(cm, c, OWES_MRA);
}

static void mra_encode(const struct ib_cm *cm, const struct cm_id *c, uint8_t *bytes)
{
	const struct ibcm_msg m = {
		.kind = IBCM_MRA,
		.tid = c->tid,
		.local_id = c->id,
		.remote_id = c->peer_id,
		.mra = { .about = c->is_active ? IBCM_ABOUT_REP : IBCM_ABOUT_REQ,
			 .timeout = cm->config.mra_code },
	};

	ibcm_encode(&m, bytes);
}

/* The message that a REJ is about, by state (IBA 12.6.7.1). */
static enum ibcm_about about_of(enum ib_cm_state state)
{
	if (state == IB_CM_REQ_RCVD || state == IB_CM_MRA_REQ_SENT)
		return IBCM_ABOUT_REQ;
	if (state == IB_CM_REP_RCVD || state == IB_CM_MRA_REP_SENT)
		return IBCM_ABOUT_REP;
	return IBCM_ABOUT_OTHER;
}

void cm_id_keep_reject(struct ib_cm *cm, struct cm_id *c, const struct ib_cm_reject *r)
{
	struct ibcm_msg m = { .kind = IBCM_REJ,
			      .rej = { about_of(c->state), r->code },
			      .info = r->info,
			      .private_data = r->private_data };
	uint8_t guid[8];

	/* IBA 12.6.7.2: a peer that does not know our id identifies us by our CA. */
	if (r->code == IBCM_REJECT_TIMEOUT) {
		for (int i = 0; i < 8; i++)
			guid[i] = (uint8_t)(cm->config.ca_guid >> (56 - 8 * i));
		m.info = (struct ibcm_bytes){ guid, sizeof(guid) };
	}
	cm_id_keep(c, &m);
}

void cm_id_say_reject(struct ib_cm *cm, struct cm_id *c, const struct ib_cm_reject *r)
{
	cm->counts.rejects_out++;
	cm_id_keep_reject(cm, c, r);
	cm_id_owe(cm, c, OWES_MESSAGE);
}

void cm_id_say_dreq(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c, struct ibcm_bytes private)
{
	struct ibcm_msg m = { .kind = IBCM_DREQ,
			      .dreq_remote_qpn = c->peer.qpn,
			      .private_data = private };

	c->tid = cm->tid_next++;
	cm_id_move(cm, c, IB_CM_DREQ_SENT, WEFT_OK);
	cm_id_say(cm, c, &m);
	cm_id_wait_answer(cm, now_ns, c);
}

void cm_id_say_drep(struct ib_cm *cm, struct cm_id *c, struct ibcm_bytes private)
{
	struct ibcm_msg m = { .kind = IBCM_DREP, .private_data = private };

	cm_id_say(cm, c, &m);
}

void cm_id_say_sidr(struct ib_cm *cm, struct cm_id *c, const struct ib_cm_answer *a)
{
	struct ibcm_msg m = { .kind = IBCM_SIDR_REP,
			      .info = a->info,
			      .private_data = a->private_data };

	m.sidr_rep = (struct ibcm_sidr_rep){ .request_id = c->peer_id,
					     .status = a->status,
					     .qpn = a->qpn,
					     .service_id = c->service_id,
					     .q_key = a->q_key };
	cm_id_say(cm, c, &m);
}

struct ibcm_bytes request_data(const struct cm_id *c, struct ibcm_bytes private, uint8_t *room)
{
	uint32_t header = c->has_header ? IBCM_IP_BYTES : 0;

	if (c->has_header)
		ibcm_ip_encode(&c->ip, room);
	if (private.length > 0)
		memcpy(room + header, private.bytes, private.length);
	return (struct ibcm_bytes){ room, header + private.length };
}

/* The GIDs of RoCEv2 are IP addresses, those of IPv4 as ::ffff:a.b.c.d. */
void gid_of(const struct ibcm_ip *ip, const struct inet_end *end, uint8_t gid[IBCM_GID_BYTES])
{
	memset(gid, 0, IBCM_GID_BYTES);
	if (ip->is_ipv6) {
		memcpy(gid, end->address, IBCM_GID_BYTES);
	} else {
		gid[10] = 0xff;
		gid[11] = 0xff;
		memcpy(gid + 12, end->address, 4);
	}
}

/* ---- Of none -------------------------------------------------------------------------------- */

static void stray_add(struct ib_cm *cm, const struct ibcm_ip *ip, struct ibcm_msg *m,
		      const struct ibcm_msg *about)
{
	struct stray *s = &cm->strays[(cm->stray_first + cm->stray_count) % STRAYS_MAX];

	if (cm->stray_count == STRAYS_MAX)
		return;
	cm->stray_count++;
	s->kind = m->kind;
	s->ip = (struct ibcm_ip){ .is_ipv6 = ip->is_ipv6, .from = ip->to, .to = ip->from };
	m->tid = about->tid;
	m->local_id = about->remote_id;
	m->remote_id = about->local_id;
	ibcm_encode(m, s->message);
}

void stray_reject(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *about,
		  uint16_t code)
{
	struct ibcm_msg m = { .kind = IBCM_REJ,
			      .rej = { about->kind == IBCM_REQ ? IBCM_ABOUT_REQ : IBCM_ABOUT_REP,
				       code } };

	cm->counts.rejects_out++;
	stray_add(cm, ip, &m, about);
}

void stray_drep(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *dreq)
{
	struct ibcm_msg m = { .kind = IBCM_DREP };

	stray_add(cm, ip, &m, dreq);
}

void stray_apr(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *lap,
	       uint8_t status)
{
	struct ibcm_msg m = { .kind = IBCM_APR, .apr_status = status };

	stray_add(cm, ip, &m, lap);
}

void stray_sidr(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *request,
		uint8_t status)
{
	struct ibcm_msg m = { .kind = IBCM_SIDR_REP };

	m.sidr_rep = (struct ibcm_sidr_rep){ .request_id = request->sidr_req.request_id,
					     .status = status,
					     .service_id = request->sidr_req.service_id };
	stray_add(cm, ip, &m, request);
}

void stray_challenge(struct ib_cm *cm, const struct cm_id *c)
{
	const struct ibcm_ip ip = { .is_ipv6 = c->ip.is_ipv6, .from = c->ip.to, .to = c->ip.from };
	const struct ibcm_msg about = { .tid = cm->tid_next++,
					.local_id = c->peer_id,
					.remote_id = c->id };
	struct ibcm_msg m = { .kind = IBCM_DREQ };

	stray_add(cm, &ip, &m, &about);
}

/* ---- Out ------------------------------------------------------------------------------------ */

static void send_stray(struct ib_cm *cm, struct ib_cm_out *out)
{
	const struct stray *s = &cm->strays[cm->stray_first];

	cm->stray_first = (cm->stray_first + 1) % STRAYS_MAX;
	cm->stray_count--;
	out->ip = s->ip;
	out->kind = s->kind;
	memcpy(out->bytes, s->message, MAD_BYTES);
}

static void send_cm_id(struct ib_cm *cm, struct cm_id *c, struct ib_cm_out *out)
{
	bool is_mra = c->owes & OWES_MRA;

	out->ip = c->ip;
	out->id = c->id;
	out->traffic_class = c->traffic_class;
	out->hop_limit = c->hop_limit;
	if (is_mra) {
		out->kind = IBCM_MRA;
		out->attempt = c->mras++;
		mra_encode(cm, c, out->bytes);
	} else {
		out->kind = c->message_kind;
		out->attempt = c->sent++;
		memcpy(out->bytes, c->message, MAD_BYTES);
	}
	c->owes &= (uint32_t) ~(is_mra ? OWES_MRA : OWES_MESSAGE);
	list_remove(&c->to_send);
	if (c->owes)
		list_add_tail(&cm->to_send, &c->to_send);
}

bool ib_cm_send(struct ib_cm *cm, uint64_t now_ns, struct ib_cm_out *out)
{
	(void)now_ns;
	if (!ib_cm_has_output(cm))
		return false;
	memset(out, 0, sizeof(*out));
	if (!list_is_empty(&cm->to_send))
		send_cm_id(cm, CONTAINER_OF(cm->to_send.next, struct cm_id, to_send), out);
	else
		send_stray(cm, out);
	out->ip.from.port = 0;
	out->ip.to.port = 0;
	cm->counts.mads_out++;
	cm->counts.again += out->attempt > 0;
	return true;
}

bool ib_cm_has_output(const struct ib_cm *cm)
{
	return !list_is_empty(&cm->to_send) || cm->stray_count > 0;
}
