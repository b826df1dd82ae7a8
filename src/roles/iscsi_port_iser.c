/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of a session on RDMA (iSER), on RoCE or iWARP. Each command under way has a window of
 * this queue pair over just its memory, with the one right that its direction needs; the adapter
 * lets no peer reach anything else.
 */
#include <sodium/utils.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "iscsi/initiator/initiator_iser.h"
#include "roles/iscsi_session_inside.h"

enum {
	CONTROLS = ISER_PORT_CONTROLS_MAX,
	READS_IN = 16, /* Reads of the target at a time */
	ID_SEND = 1 << 16
};

/* A window of the commands with this slot. */
struct port_window {
	uint32_t tag; /* 0: not allocated */
	bool is_bound;
};

struct port_send {
	struct list link;
	uint8_t message[ISER_PORT_SEND_MAX];
};

struct port_iser {
	struct rdma_end end;
	struct iser_port *core;
	uint32_t depth, receive_count, send_count;
	bool is_roce_open;
	uint8_t (*receives)[ISER_PORT_MESSAGE_MAX];
	struct port_send *sends;
	struct list free_sends;
	struct port_window *windows;
};

static struct port_iser *port_of(struct weft_iscsi_session *s)
{
	return s->port_state;
}

static void *core_port(struct weft_iscsi_session *s)
{
	return port_of(s)->core;
}

/* ---- Windows -------------------------------------------------------------------------------- */

static enum weft_reason expose(struct weft_iscsi_session *s, struct port_window *w,
			       const struct iscsi_request *r)
{
	const struct session_memory *m = r->memory;
	struct weft_bind bind = {
		.window_tag = w->tag,
		.region_tag = m->sges[0].tag,
		.addr = m->sges[0].addr,
		.length = r->expected_bytes,
		.rights = r->direction == ISCSI_READ ? WEFT_REMOTE_WRITE : WEFT_REMOTE_READ,
		.is_zero_based = true, /* the target need not know addresses of this process */
	};
	enum weft_reason reason = weft_window_bind_to(s->qp, &bind);

	if (reason != WEFT_OK)
		return reason;
	w->tag = bind.tag;
	w->is_bound = true;
	return WEFT_OK;
}

static void conceal(struct weft_iscsi_session *s, struct port_window *w)
{
	enum weft_reason r;

	if (!w->is_bound)
		return;
	w->is_bound = false;
	r = weft_window_unbind(s->pd, w->tag);
	/* The target may have invalidated it; the queue pair may be gone. */
	CHECK(r == WEFT_OK || r == WEFT_R_WINDOW_UNBOUND);
}

/* Commands that are over: the target reaches their memory no more. */
static void port_settle(struct weft_iscsi_session *s)
{
	struct port_iser *p = port_of(s);
	uint32_t slot;

	while (iser_port_over(p->core, &slot))
		conceal(s, &p->windows[slot]);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason windows_open(struct weft_iscsi_session *s)
{
	struct port_iser *p = port_of(s);
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < p->depth && r == WEFT_OK; i++)
		r = weft_window_alloc(s->pd, &p->windows[i].tag);
	return r;
}

static enum weft_reason port_open(struct weft_iscsi_session *s)
{
	struct port_iser *p = calloc(1, sizeof(*p));

	s->port_state = p;
	if (!p)
		return WEFT_R_NO_MEMORY;
	p->depth = s->config.limits.depth;
	p->receive_count = p->depth + ISER_PORT_UNEXPECTED;
	p->send_count = p->depth + CONTROLS;
	p->core = iser_port_create(p->depth);
	p->receives = calloc(p->receive_count, sizeof(p->receives[0]));
	p->sends = calloc(p->send_count, sizeof(p->sends[0]));
	p->windows = calloc(p->depth, sizeof(p->windows[0]));
	if (!p->core || !p->receives || !p->sends || !p->windows)
		return WEFT_R_NO_MEMORY;
	return windows_open(s);
}

static void port_close(struct weft_iscsi_session *s)
{
	struct port_iser *p = port_of(s);

	if (!p)
		return;
	for (uint32_t i = 0; p->windows && i < p->depth; i++) {
		if (p->windows[i].tag != 0)
			(void)weft_window_discard(s->pd, p->windows[i].tag);
	}
	iser_port_destroy(p->core);
	free(p->receives);
	free(p->sends);
	free(p->windows);
	free(p);
}

static enum weft_reason receive_post(struct weft_iscsi_session *s, uint32_t i)
{
	struct weft_sge sge = { (uintptr_t)port_of(s)->receives[i], ISER_PORT_MESSAGE_MAX,
				s->process_tag };
	const struct weft_recv_wr wr = { .id = i, .sges = &sge, .sge_count = 1 };

	return weft_qp_post_recv(s->qp, &wr, 1, NULL);
}

static enum weft_reason port_dial(struct weft_iscsi_session *s, const struct session_way *way)
{
	/* The header of RFC 7145, with offsets, is for ends without zero-based addresses. */
	static const struct iser_private mine = { .lacks_zero_based = true };
	struct port_iser *p = port_of(s);
	uint8_t private_data[ISER_PRIVATE_BYTES];
	const struct rdma_terms terms = { .private_data = private_data,
					  .private_bytes = sizeof(private_data),
					  .reads_in = READS_IN,
					  .reads_out = 1,
					  .timeout_ns = s->config.limits.login_ns };
	struct weft_qp_options options = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.service = WEFT_RC,
		.send_max = p->send_count,
		.recv_max = p->receive_count,
		.context = &p->end.object,
	};
	enum weft_reason r = WEFT_OK;

	iser_private_encode(&mine, private_data);
	iser_port_reset(p->core);
	list_init(&p->free_sends);
	for (uint32_t i = 0; i < p->send_count; i++) {
		p->sends[i].link = (struct list){ 0 };
		list_add_tail(&p->free_sends, &p->sends[i].link);
	}
	if (way->wire == RDMA_ROCE && !p->is_roce_open) {
		r = weft_roce_open(s->adapter);
		p->is_roce_open = r == WEFT_OK;
	}
	rdma_end_init(&p->end, way->wire);
	if (r == WEFT_OK)
		r = weft_qp_create(s->pd, &options, &s->qp);
	return r == WEFT_OK ? rdma_end_dial(&p->end, s->adapter, s->qp, &way->to, &terms) : r;
}

static enum weft_reason port_up(struct weft_iscsi_session *s)
{
	struct port_iser *p = port_of(s);
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < p->receive_count && r == WEFT_OK; i++)
		r = receive_post(s, i);
	return r;
}

static void port_end(struct weft_iscsi_session *s)
{
	struct port_iser *p = port_of(s);

	rdma_end_close(&p->end);
	for (uint32_t i = 0; i < p->depth; i++)
		conceal(s, &p->windows[i]);
}

static bool is_closing(struct weft_iscsi_session *s)
{
	return iser_port_is_closing(port_of(s)->core);
}

/* ---- What happens --------------------------------------------------------------------------- */

static void completed(struct weft_iscsi_session *s, const struct weft_completion *c)
{
	struct port_iser *p = port_of(s);
	struct iscsi_received r;

	if (c->id >= ID_SEND) {
		list_push(&p->free_sends, &p->sends[c->id - ID_SEND].link);
		return;
	}
	if (c->status != WEFT_SUCCESS || s->link != LINK_UP)
		return;
	iser_port_take(p->core, p->receives[c->id], c->byte_count,
		       c->has_invalidated ? c->invalidated_tag : 0, &r);
	session_take(s, &r);
	if (s->link == LINK_UP)
		(void)receive_post(s, (uint32_t)c->id);
}

static bool port_event(struct weft_iscsi_session *s, const struct weft_event *e)
{
	struct port_iser *p = port_of(s);

	if (e->context != &p->end.object || !rdma_end_event(&p->end, e))
		return false;
	s->link_reason = p->end.state == RDMA_UP ? WEFT_OK : p->end.reason;
	if (p->end.state == RDMA_DOWN && s->link_reason == WEFT_OK)
		s->link_reason = WEFT_R_PEER_GONE;
	return p->end.state == RDMA_UP || p->end.state == RDMA_DOWN;
}

/* ---- What is to be sent --------------------------------------------------------------------- */

/* Memory of one command, into the message: the adapter may have to send that again later. */
static void copy_immediate(const struct iscsi_request *r, uint8_t *to)
{
	const struct session_memory *m = r->memory;

	for (uint32_t i = 0; i < m->count; i++) {
		memcpy(to, (const void *)(uintptr_t)m->sges[i].addr, m->sges[i].length);
		to += m->sges[i].length;
	}
}

/* The command cannot be sent: it ends, and those behind it are sent again. */
static void refuse(struct weft_iscsi_session *s, uint32_t slot, enum weft_reason reason)
{
	struct port_iser *p = port_of(s);
	uint32_t unsent;

	iser_port_refuse(p->core);
	while (iser_port_unsent(p->core, &unsent))
		iscsi_initiator_refused(s->core, unsent, unsent == slot ? reason : WEFT_OK,
					s->now_ns);
	iscsi_initiator_ready(s->core, s->now_ns);
	session_settle(s);
}

static bool send_next(struct weft_iscsi_session *s)
{
	struct port_iser *p = port_of(s);
	struct port_window *w = NULL;
	struct port_send *send;
	struct iser_message m;
	struct weft_sge sge = { .tag = s->process_tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND,
				   .flags = WEFT_SIGNALLED | WEFT_SOLICITED,
				   .sges = &sge,
				   .sge_count = 1 };
	enum weft_reason r;

	if (list_is_empty(&p->free_sends) || !iser_port_next(p->core, &m))
		return false;
	if (m.needs_tag) {
		w = &p->windows[m.slot];
		r = expose(s, w, m.request);
		if (r != WEFT_OK) {
			refuse(s, m.slot, r);
			return true;
		}
	}
	send = CONTAINER_OF(list_pop(&p->free_sends), struct port_send, link);
	sge.addr = (uintptr_t)send->message;
	sge.length = iser_port_encode(p->core, w ? w->tag : 0, 0, send->message);
	if (m.immediate_bytes > 0)
		copy_immediate(m.request, send->message + sge.length);
	sge.length += m.immediate_bytes;
	wr.id = ID_SEND + (uint64_t)(send - p->sends);
	/* A refusal: the queue pair is in Error, and its event comes. */
	if (weft_qp_post_send(s->qp, &wr, 1, NULL) != WEFT_OK)
		list_push(&p->free_sends, &send->link);
	return true;
}

static bool port_work(struct weft_iscsi_session *s)
{
	bool has_any = false;

	/* Bound: what the session has queued. */
	while (s->link == LINK_UP && send_next(s))
		has_any = true;
	/* Control PDUs may have found no room. */
	if (has_any && s->link == LINK_UP)
		iscsi_initiator_ready(s->core, s->now_ns);
	return has_any;
}

const struct session_port session_port_iser = {
	.calls = iser_port_calls,
	.sges_max = 1,
	.bytes_max = 16 << 20,
	.is_strict = true,
	.region_rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_BIND,
	.open = port_open,
	.close = port_close,
	.dial = port_dial,
	.core_port = core_port,
	.up = port_up,
	.completed = completed,
	.event = port_event,
	.settle = port_settle,
	.work = port_work,
	.is_closing = is_closing,
	.end = port_end,
};
