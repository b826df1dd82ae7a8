/* SPDX-License-Identifier: BSD-2-Clause */
/* Logins: between PDUs and login.h, and the decisions of a target. */
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "iscsi/target/target_inside.h"
#include "iscsi/target/target_iser.h"

/* ---- PDUs ----------------------------------------------------------------------------------- */

static void isid_read(uint64_t isid, uint8_t bytes[ISCSI_ISID_BYTES])
{
	for (int i = ISCSI_ISID_BYTES - 1; i >= 0; i--, isid >>= 8)
		bytes[i] = (uint8_t)isid;
}

static uint64_t isid_write(const uint8_t bytes[ISCSI_ISID_BYTES])
{
	uint64_t isid = 0;

	for (int i = 0; i < ISCSI_ISID_BYTES; i++)
		isid = isid << 8 | bytes[i];
	return isid;
}

static void request_read(const struct iscsi_pdu *p, const uint8_t *text, struct iscsi_login_pdu *l)
{
	*l = (struct iscsi_login_pdu){
		.is_transit = p->is_final,
		.is_continued = p->is_continued,
		.stage = p->csg,
		.next_stage = p->nsg,
		.version_max = p->version_max,
		.version = p->version,
		.tsih = p->tsih,
		.cid = p->cid,
		.itt = p->itt,
		.cmd_sn = p->cmd_sn,
		.exp_stat_sn = p->exp_stat_sn,
		.text = text,
		.length = p->data_bytes,
	};
	isid_read(p->isid, l->isid);
}

static void response_send(struct iscsi_connection *c, const struct iscsi_login_pdu *l)
{
	struct iscsi_pdu p = {
		.opcode = ISCSI_LOGIN_RESPONSE,
		.is_final = l->is_transit,
		.is_continued = l->is_continued,
		.csg = l->stage,
		.nsg = l->next_stage,
		.version_max = l->version_max,
		.version = l->version,
		.isid = isid_write(l->isid),
		.tsih = l->tsih,
		.itt = l->itt,
		.stat_sn = l->stat_sn,
		.exp_cmd_sn = l->exp_cmd_sn,
		.max_cmd_sn = l->max_cmd_sn,
		.status_class = (uint8_t)(l->status >> 8),
		.status_detail = (uint8_t)l->status,
		.data_bytes = l->length,
	};

	c->stat_sn = l->stat_sn + 1;
	c->mover->send_control(c, &p, l->text);
}

/* ---- Decisions ------------------------------------------------------------------------------ */

static uint16_t target_find(const struct iscsi_node *node, const struct iscsi_name *name)
{
	for (uint32_t i = 0; i < node->target_count; i++) {
		const struct iscsi_name *n = &node->targets[i].name;

		if (n->length == name->length && memcmp(n->text, name->text, n->length) == 0)
			return (uint16_t)i;
	}
	return ISCSI_TARGET_NONE;
}

/* Section 6.3.1: what the login means for the sessions that are there. */
static uint16_t join(struct iscsi_connection *c, const struct iscsi_login_query *q,
		     struct iscsi_login_decision *d)
{
	struct iscsi_node *node = c->node;
	const struct target_session *s = target_session_find(node, c->target, q);
	struct iscsi_login_known known = { .connections = 1, .connections_max = 1 };
	uint16_t status = ISCSI_STATUS_SUCCESS;
	enum iscsi_login_join what;

	if (s) {
		known.has_session = true;
		known.tsih = s->tsih;
		known.has_cid = s->cid == q->cid;
	}
	what = iscsi_login_join(q, &known, &status);
	if (what == ISCSI_JOIN_REFUSED)
		return status;
	if (what == ISCSI_JOIN_REINSTATED_CONNECTION) {
		d->tsih = s->tsih;
		d->exp_cmd_sn = s->exp_cmd_sn;
		d->max_cmd_sn = target_session_max_cmd_sn(s);
		d->keys.session = s->params.session;
		return ISCSI_STATUS_SUCCESS;
	}
	d->tsih = target_session_tsih(node);
	if (what == ISCSI_JOIN_NEW_SESSION &&
	    (node->session_count + node->zombie_count >= node->config.sessions_max ||
	     node->unpromised == 0))
		return ISCSI_STATUS_OUT_OF_RESOURCES;
	return ISCSI_STATUS_SUCCESS;
}

static void decide(struct iscsi_connection *c)
{
	struct iscsi_node *node = c->node;
	const struct iscsi_login_query *q = iscsi_login_query(&c->text->login);
	struct iscsi_login_decision d = { .status = ISCSI_STATUS_SUCCESS };
	struct iscsi_admission a = { .status = ISCSI_STATUS_SUCCESS };
	struct iscsi_peer peer;

	c->initiator = q->initiator_name;
	peer = target_peer(c);
	c->is_discovery = q->is_discovery;
	c->target = q->is_discovery ? ISCSI_TARGET_NONE : target_find(node, &q->target_name);
	if (node->is_ending)
		d.status = ISCSI_STATUS_UNAVAILABLE;
	else if (!q->is_discovery && c->target == ISCSI_TARGET_NONE)
		d.status = ISCSI_STATUS_NOT_FOUND;
	else
		node->config.calls->admit(node->config.owner, &peer, c->target, &a);
	if (d.status == ISCSI_STATUS_SUCCESS)
		d.status = a.status;
	iscsi_target_wish_init(&d.keys.wish);
	if (c->target != ISCSI_TARGET_NONE) {
		const struct target_entry *t = &node->targets[c->target];

		d.portal_group_tag = t->portal_group_tag;
		d.target_alias = iscsi_word(t->alias);
		d.keys.wish = t->wish;
	}
	if (c->iser) {
		d.keys.needs_rdma = true;
		d.keys.wish.session.has_rdma = true;
		d.keys.wish.connection.target_recv_bytes_max = ISER_TARGET_RECV_BYTES;
		/*
		 * Behind unsolicited data, RFC 7145 has the Write Base Offset count from the whole
		 * buffer; Linux's initiator has it count from the rest, and says nothing of
		 * TaggedBufferForSolicitedDataOnly. libiscsi 1.19 announces such data and does not
		 * send it. Without any they all agree.
		 */
		d.keys.wish.session.has_immediate_data = false;
		d.keys.wish.session.needs_r2t = true;
	}
	d.address = a.address;
	d.chap = a.chap;
	d.allows_none = a.allows_none;
	if (d.status == ISCSI_STATUS_SUCCESS)
		d.status = join(c, q, &d);
	iscsi_login_decide(&c->text->login, &d);
}

/* ---- The course of a login ------------------------------------------------------------------ */

void target_login_begin(struct iscsi_connection *c)
{
	struct iscsi_login_limits limits = {
		.piece_bytes_max = TEXT_PIECE_BYTES,
		.timeout_ns = c->node->config.login_wait_ns,
	};

	target_text_get(c);
	limits.in = (struct span){ c->text->in_bytes, TEXT_IN_BYTES };
	limits.out = (struct span){ c->text->out, TEXT_OUT_BYTES };
	memcpy(limits.random, c->random, sizeof(limits.random));
	iscsi_login_init_target(&c->text->login, &limits, c->begin_ns);
}

/* The login is over: the session begins with the last response. */
static bool established(struct iscsi_connection *c, struct iscsi_login_pdu *last)
{
	enum weft_reason reason = target_session_begin(c);

	if (reason != WEFT_OK) {
		c->reason = reason;
		last->status = reason == WEFT_R_ISCSI_SESSION ? ISCSI_STATUS_NO_SESSION
							      : ISCSI_STATUS_OUT_OF_RESOURCES;
		last->is_transit = false;
		last->next_stage = 0;
		last->tsih = 0;
		return false;
	}
	last->exp_cmd_sn = c->session->exp_cmd_sn;
	last->max_cmd_sn = target_session_max_cmd_sn(c->session);
	return true;
}

static void open_connection(struct iscsi_connection *c)
{
	struct iscsi_node *node = c->node;

	c->state = CONN_OPEN;
	c->is_logged_in = true;
	c->params = *iscsi_login_params(&c->text->login);
	c->params.session = c->session->params.session;
	list_remove(&c->half_open);
	target_text_put(c);
	c->mover->notice_keys(c, &c->params);
	target_conn_arm(c, deadline_after(node->now_ns, node->config.ping_after_ns));
	target_note(c, ISCSI_NOTE_LOGIN, ISCSI_STATUS_SUCCESS);
}

/* Sends what is due, and does what came of it. */
static void go_on(struct iscsi_connection *c)
{
	struct iscsi_login *l = &c->text->login;
	struct iscsi_login_pdu response;
	enum iscsi_login_event event = iscsi_login_event(l);

	if (event == ISCSI_LOGIN_DECIDE)
		decide(c);
	if (!iscsi_login_say(l, &response))
		return;
	event = iscsi_login_event(l);
	if (event == ISCSI_LOGIN_ESTABLISHED && !established(c, &response))
		event = ISCSI_LOGIN_FAILED;
	else if (event == ISCSI_LOGIN_FAILED || event == ISCSI_LOGIN_MOVED)
		c->reason = iscsi_login_reason(l);
	response_send(c, &response);
	if (event == ISCSI_LOGIN_ESTABLISHED)
		open_connection(c);
	else if (event != ISCSI_LOGIN_NONE)
		target_conn_leave(c, c->reason);
}

void target_login_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct iscsi_login_pdu request;

	if (!c->text)
		target_login_begin(c);
	if (a->pdu.opcode == ISCSI_LOGIN_REQUEST) {
		request_read(&a->pdu, c->text->stage, &request);
		iscsi_login_take(&c->text->login, &request);
	} else {
		iscsi_login_take_other(&c->text->login);
	}
	go_on(c);
}

void target_login_expire(struct iscsi_connection *c)
{
	target_conn_end(c, WEFT_R_CONNECT_TIMEOUT);
}
