/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of a session on a queue pair in iSCSI mode: the adapter moves the data of commands by
 * itself, straight between the connection and the memory of requests.
 */
#include <stdlib.h>
#include <string.h>

#include <weft/iscsi_qp.h>

#include "base/check.h"
#include "roles/iscsi_session_inside.h"

enum {
	RECEIVES = 128,
	RECEIVE_BYTES = WEFT_ISCSI_BHS_BYTES + WEFT_ISCSI_AHS_MAX + ISCSI_TEXT_MIN,
	CONTROLS = 16,
	/* Work requests by id: receives, controls, commands by slot. */
	ID_CONTROL = 1 << 16,
	ID_COMMAND = 1 << 17,
	COMMAND_INDEX_MASK = 0xffff
};

struct control_room {
	bool is_used;
	uint8_t data[ISCSI_TEXT_MIN];
};

struct port_qp {
	uint32_t depth;
	bool is_closing, is_drained;
	uint8_t (*receives)[RECEIVE_BYTES];
	struct control_room *controls;
	uint32_t *ids;	 /* Command ID, by slot; 0: not sent */
	uint32_t *slots; /* by the low bits of a Command ID */
};

static struct port_qp *port_of(struct weft_iscsi_session *s)
{
	return s->port_state;
}

/* ---- What the session asks for -------------------------------------------------------------- */

static struct control_room *room_find(struct port_qp *p)
{
	for (uint32_t i = 0; i < CONTROLS; i++) {
		if (!p->controls[i].is_used)
			return &p->controls[i];
	}
	return NULL;
}

static bool send_control(void *port, const uint8_t bhs[ISCSI_BHS_BYTES], const uint8_t *data,
			 uint32_t data_bytes)
{
	struct weft_iscsi_session *s = port;
	struct port_qp *p = port_of(s);
	struct control_room *room = room_find(p);
	struct weft_iscsi_pdu pdu = { 0 };
	struct weft_sge sge;
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_CONTROL,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = data_bytes > 0 };

	if (!room || data_bytes > sizeof(room->data))
		return false;
	memcpy(pdu.bhs, bhs, sizeof(pdu.bhs));
	if (data_bytes > 0)
		memcpy(room->data, data, data_bytes);
	sge = (struct weft_sge){ (uintptr_t)room->data, data_bytes, s->process_tag };
	wr.id = ID_CONTROL + (uint64_t)(room - p->controls);
	if (weft_qp_post_send(s->qp, &wr, 1, NULL) != WEFT_OK)
		return false;
	room->is_used = true;
	return true;
}

static bool send_command(void *port, const struct iscsi_port_command *c)
{
	struct weft_iscsi_session *s = port;
	struct port_qp *p = port_of(s);
	const struct session_memory *m = c->request->memory;
	struct weft_iscsi_pdu pdu = { 0 };
	struct weft_send_wr wr = { .id = ID_COMMAND + (uint64_t)c->slot,
				   .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = m->sges,
				   .sge_count = c->request->expected_bytes > 0 ? m->count : 0 };

	if (p->is_drained)
		return false;
	memcpy(pdu.bhs, c->bhs, sizeof(pdu.bhs));
	if (weft_qp_post_send(s->qp, &wr, 1, NULL) != WEFT_OK)
		return false;
	p->ids[c->slot] = pdu.command_id;
	p->slots[pdu.command_id & COMMAND_INDEX_MASK] = c->slot;
	return true;
}

static bool tag_of(void *port, uint32_t slot, uint32_t *itt)
{
	struct weft_iscsi_session *s = port;

	return weft_qp_command_tag(s->qp, port_of(s)->ids[slot], itt) == WEFT_OK;
}

static bool forget(void *port, uint32_t slot)
{
	struct weft_iscsi_session *s = port;
	enum weft_reason r = weft_qp_end_command(s->qp, port_of(s)->ids[slot]);

	/* Over already: its answer waits to be taken, and is of no command then. */
	port_of(s)->ids[slot] = 0;
	return r == WEFT_OK || r == WEFT_R_ISCSI_COMMAND;
}

static void agreed(void *port, const struct iscsi_params *params)
{
	struct weft_iscsi_session *s = port;
	const struct iscsi_connection_params *c = &params->connection;
	const struct weft_iscsi_terms terms = {
		.has_header_digest = c->header_digest == ISCSI_DIGEST_CRC32C,
		.has_data_digest = c->data_digest == ISCSI_DIGEST_CRC32C,
		.is_unsolicited_on = !params->session.needs_r2t,
		.is_immediate_off = !params->session.has_immediate_data,
		.recv_bytes_max = c->recv_bytes_max,
		.send_bytes_max = c->send_bytes_max,
		.first_burst_bytes = params->session.first_burst_bytes_max,
		.burst_bytes_max = params->session.burst_bytes_max,
	};

	/* Without a connection its end is an event already. */
	(void)weft_qp_modify_iscsi(s->qp, &terms);
}

static void close_port(void *port)
{
	struct weft_iscsi_session *s = port;

	port_of(s)->is_closing = true;
}

static const struct iscsi_port_calls *port_calls(void)
{
	static const struct iscsi_port_calls calls = {
		.tag_count = WEFT_ISCSI_TAGS_MAX,
		.shows_data = true,
		.send_control = send_control,
		.send_command = send_command,
		.tag = tag_of,
		.forget = forget,
		.agreed = agreed,
		.close = close_port,
	};

	return &calls;
}

static void *core_port(struct weft_iscsi_session *s)
{
	return s;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason port_open(struct weft_iscsi_session *s)
{
	struct port_qp *p = calloc(1, sizeof(*p));

	s->port_state = p;
	if (!p)
		return WEFT_R_NO_MEMORY;
	p->depth = s->config.limits.depth;
	p->receives = calloc(RECEIVES, sizeof(p->receives[0]));
	p->controls = calloc(CONTROLS, sizeof(p->controls[0]));
	p->ids = calloc(p->depth, sizeof(p->ids[0]));
	p->slots = calloc(p->depth, sizeof(p->slots[0]));
	return p->receives && p->controls && p->ids && p->slots ? WEFT_OK : WEFT_R_NO_MEMORY;
}

static void port_close(struct weft_iscsi_session *s)
{
	struct port_qp *p = port_of(s);

	if (!p)
		return;
	free(p->receives);
	free(p->controls);
	free(p->ids);
	free(p->slots);
	free(p);
}

static enum weft_reason receive_post(struct weft_iscsi_session *s, uint32_t i)
{
	struct weft_sge sge = { (uintptr_t)port_of(s)->receives[i], RECEIVE_BYTES, s->process_tag };
	const struct weft_recv_wr wr = { .id = i, .sges = &sge, .sge_count = 1 };

	return weft_qp_post_recv(s->qp, &wr, 1, NULL);
}

static enum weft_reason port_dial(struct weft_iscsi_session *s, const struct session_way *way)
{
	struct port_qp *p = port_of(s);
	const struct weft_qp_options options = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.service = WEFT_ISCSI,
		.send_max = p->depth + CONTROLS,
		.recv_max = RECEIVES,
		.sges_max = SESSION_PART_SGES,
		.outstanding_max = p->depth,
	};
	const struct weft_qp_attr attr = { .on_failure = WEFT_FAIL_DRAIN };
	const struct weft_connect_options how = {
		.timeout_ns = s->config.limits.login_ns,
		.alive_ns = s->alive_ns,
	};
	enum weft_reason r = weft_qp_create(s->pd, &options, &s->qp);

	p->is_closing = p->is_drained = false;
	memset(p->ids, 0, p->depth * sizeof(p->ids[0]));
	for (uint32_t i = 0; i < CONTROLS; i++)
		p->controls[i].is_used = false;
	if (r == WEFT_OK)
		r = weft_qp_modify(s->qp, &attr, WEFT_QP_ON_FAILURE);
	return r == WEFT_OK ? weft_qp_dial(s->qp, &way->to, &how) : r;
}

static enum weft_reason port_up(struct weft_iscsi_session *s)
{
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < RECEIVES && r == WEFT_OK; i++)
		r = receive_post(s, i);
	return r;
}

static void port_end(struct weft_iscsi_session *s)
{
	if (s->qp)
		(void)weft_qp_disconnect(s->qp);
}

static bool is_closing(struct weft_iscsi_session *s)
{
	return port_of(s)->is_closing;
}

/* ---- What happens --------------------------------------------------------------------------- */

static void take_pdu(struct weft_iscsi_session *s, const struct weft_completion *c)
{
	struct port_qp *p = port_of(s);
	const uint8_t *bytes = p->receives[c->id];
	struct iscsi_received r = { .header = bytes, .reason = c->reason };
	uint32_t index = c->command_id & COMMAND_INDEX_MASK;

	if (c->byte_count < ISCSI_BHS_BYTES) {
		r.reason = r.reason != WEFT_OK ? r.reason : WEFT_R_ISCSI_SHORT;
	} else {
		r.header_bytes = iscsi_header_bytes(bytes);
		if (r.header_bytes > c->byte_count)
			r.header_bytes = c->byte_count;
		r.data = bytes + r.header_bytes;
		r.data_bytes = c->byte_count - r.header_bytes;
	}
	if (c->command_id != 0 && index < p->depth && p->ids[p->slots[index]] == c->command_id) {
		r.has_slot = true;
		r.slot = p->slots[index];
		if (c->has_invalidated)
			p->ids[r.slot] = 0;
	}
	session_take(s, &r);
	if (s->link == LINK_UP)
		(void)receive_post(s, (uint32_t)c->id);
}

/* ISCSI-01e: those behind it were flushed, and are sent again once the queue pair is ready. */
static void command_failed(struct weft_iscsi_session *s, const struct weft_completion *c)
{
	struct port_qp *p = port_of(s);
	uint32_t slot = (uint32_t)(c->id - ID_COMMAND);

	p->ids[slot] = 0;
	p->is_drained = true;
	iscsi_initiator_refused(s->core, slot, c->status == WEFT_ERR_FLUSHED ? WEFT_OK : c->reason,
				s->now_ns);
}

static void completed(struct weft_iscsi_session *s, const struct weft_completion *c)
{
	struct port_qp *p = port_of(s);

	if (c->id >= ID_COMMAND) {
		if (c->status != WEFT_SUCCESS && s->link == LINK_UP && !p->is_closing)
			command_failed(s, c);
	} else if (c->id >= ID_CONTROL) {
		struct control_room *room = &p->controls[c->id - ID_CONTROL];

		memset(room->data, 0, sizeof(room->data)); /* it may have been of CHAP */
		room->is_used = false;
	} else if (c->status == WEFT_SUCCESS && s->link == LINK_UP) {
		take_pdu(s, c);
	}
}

static bool port_event(struct weft_iscsi_session *s, const struct weft_event *e)
{
	switch (e->kind) {
	case WEFT_EVENT_CONNECTED:
		s->link_reason = WEFT_OK;
		return true;
	case WEFT_EVENT_CONNECT_FAILED:
		s->link_reason = e->reason;
		return true;
	case WEFT_EVENT_QP_ERROR:
		if (e->state == WEFT_QPS_SQE)
			return false;
		s->link_reason = e->reason != WEFT_OK ? e->reason : WEFT_R_PEER_GONE;
		return true;
	default:
		return false;
	}
}

/* The send queue was drained after a failure: it goes on. */
static bool port_work(struct weft_iscsi_session *s)
{
	struct port_qp *p = port_of(s);
	struct weft_qp_attr attr = { .state = WEFT_QPS_RTS };

	if (!p->is_drained || s->link != LINK_UP ||
	    weft_qp_modify(s->qp, &attr, WEFT_QP_STATE) != WEFT_OK)
		return false;
	p->is_drained = false;
	iscsi_initiator_ready(s->core, s->now_ns);
	session_settle(s);
	return true;
}

const struct session_port session_port_qp = {
	.calls = port_calls,
	.sges_max = SESSION_PART_SGES,
	.bytes_max = 16 << 20,
	.open = port_open,
	.close = port_close,
	.dial = port_dial,
	.core_port = core_port,
	.up = port_up,
	.completed = completed,
	.event = port_event,
	.work = port_work,
	.is_closing = is_closing,
	.end = port_end,
};
