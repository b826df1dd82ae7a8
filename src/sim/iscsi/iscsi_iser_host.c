/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "loopback/loopback.h"
#include "sim/iscsi/iscsi_iser.h"

enum { READS_IN = ISW_ISER_READS };

static uint64_t now(const struct isw_host *h)
{
	return h->world->world.now_ns;
}

static uint64_t offset_of(const struct isw_host *h, const void *at)
{
	return (uint64_t)((const uint8_t *)at - (const uint8_t *)&h->iser->memory);
}

void isw_iser_wish(struct iscsi_params *p)
{
	iser_port_wish(p);
}

/* ---- Windows -------------------------------------------------------------------------------- */

static void expose(struct isw_host *h, uint32_t slot, const struct isw_ask *a)
{
	struct weft_bind bind = {
		.window_tag = h->iser->windows[slot].tag,
		.region_tag = h->region,
		.addr = a->sges[0].addr,
		.length = a->request.expected_bytes,
		.rights = a->request.direction == ISCSI_READ ? WEFT_REMOTE_WRITE : WEFT_REMOTE_READ,
		.is_zero_based = true,
	};
	struct mem_table *mem = &h->adapter.mem;

	if (mem_window_promise(mem, h->pd->number, &bind) != WEFT_OK ||
	    mem_window_bind(mem, h->pd->number, h->qp->number, &bind) != WEFT_OK)
		isw_fail(h->world, "host %u: a window cannot be bound", h->index);
	h->iser->windows[slot].tag = bind.tag;
	h->iser->windows[slot].is_bound = true;
}

static void conceal(struct isw_host *h, uint32_t slot)
{
	enum weft_reason r;

	if (!h->iser->windows[slot].is_bound)
		return;
	h->iser->windows[slot].is_bound = false;
	r = mem_window_unbind(&h->adapter.mem, h->pd->number, h->iser->windows[slot].tag);
	if (r != WEFT_OK && r != WEFT_R_WINDOW_UNBOUND)
		isw_fail(h->world, "host %u: a window cannot be unbound: %s", h->index,
			 weft_reason_name(r));
}

void isw_iser_host_settle(struct isw_host *h)
{
	uint32_t slot;

	while (iser_port_over(h->iser->port, &slot))
		conceal(h, slot);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static void receive_post(struct isw_host *h, uint32_t i)
{
	const struct weft_sge sge = { offset_of(h, h->iser->memory.receives[i]),
				      ISER_PORT_MESSAGE_MAX, h->iser->region };
	const struct weft_recv_wr wr = { .id = i, .sges = &sge, .sge_count = 1 };
	uint32_t posted;

	(void)qp_post_recv(h->qp, &wr, 1, &posted);
}

static void send_post(struct isw_host *h, uint32_t i, uint32_t length)
{
	const struct weft_sge sge = { offset_of(h, h->iser->memory.sends[i]), length,
				      h->iser->region };
	struct weft_send_wr wr = { .id = ISW_ISER_HOST_RECEIVES + i,
				   .opcode = WEFT_OP_SEND,
				   .flags = WEFT_SIGNALLED,
				   .sges = &sge,
				   .sge_count = 1 };
	uint32_t posted;

	/* A refusal: the queue pair is in Error. */
	h->iser->is_sending[i] = qp_post_send(h->qp, &wr, 1, &posted) == WEFT_OK;
}

static bool send_next(struct isw_host *h)
{
	struct isw_iser_host *p = h->iser;
	struct isw_ask *a = NULL;
	struct iser_message m;
	uint32_t i = 0, length;

	while (i < ISW_ISER_HOST_SENDS && p->is_sending[i])
		i++;
	if (i == ISW_ISER_HOST_SENDS || !iser_port_next(p->port, &m))
		return false;
	if (m.is_command) {
		a = CONTAINER_OF(m.request, struct isw_ask, request);
		a->sent++;
	}
	if (m.needs_tag)
		expose(h, m.slot, a);
	length = iser_port_encode(p->port, m.needs_tag ? p->windows[m.slot].tag : 0, 0,
				  p->memory.sends[i]);
	if (m.immediate_bytes > 0)
		memcpy(p->memory.sends[i] + length, h->arena + a->sges[0].addr, m.immediate_bytes);
	send_post(h, i, length + m.immediate_bytes);
	return true;
}

void isw_iser_host_completed(struct isw_host *h, const struct weft_completion *c)
{
	struct isw_iser_host *p = h->iser;
	uint32_t index = (uint32_t)c->id;
	struct iscsi_received r;

	if (index >= ISW_ISER_HOST_RECEIVES) {
		p->is_sending[index - ISW_ISER_HOST_RECEIVES] = false;
		return;
	}
	if (c->status != WEFT_SUCCESS || !h->qp || !h->is_begun)
		return;
	iser_port_take(p->port, p->memory.receives[index], c->byte_count,
		       c->has_invalidated ? c->invalidated_tag : 0, &r);
	iscsi_initiator_take(h->session, &r, now(h));
	isw_iser_host_settle(h);
	receive_post(h, index);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static bool qp_open(struct isw_host *h)
{
	const struct weft_qp_options o = {
		.send_cq = h->cq,
		.recv_cq = h->cq,
		.service = WEFT_RC,
		.send_max = ISW_ISER_HOST_SENDS,
		.recv_max = ISW_ISER_HOST_RECEIVES,
		.outstanding_max = READS_IN,
	};

	return qp_create(h->pd, &o, &loopback_transport, &h->qp) == WEFT_OK;
}

static void hung_up(struct isw_host *h, enum weft_reason reason)
{
	struct isw_link *l = h->link;

	h->link = NULL;
	h->is_begun = h->is_closing = false;
	if (h->qp) {
		(void)qp_disconnect(h->qp);
		cq_forget(h->cq, h->qp->number);
		qp_destroy(h->qp);
	}
	h->qp = NULL;
	if (l)
		tcp_end_abandon(&l->tcp.ends[ISCSI_INITIATOR]);
	memset(h->iser->is_sending, 0, sizeof(h->iser->is_sending));
	for (uint32_t i = 0; i < ISW_ASKS; i++)
		conceal(h, i);
	isw_asks_judge_memory(h);
	iscsi_initiator_lost(h->session, reason, now(h));
	isw_iser_host_settle(h);
}

void isw_iser_host_dialled(struct isw_host *h, uint32_t portal)
{
	CHECK(!h->qp && qp_open(h));
	iser_port_reset(h->iser->port);
	h->link = isw_link_dial(h->world, h->index, portal);
	if (!h->link)
		hung_up(h, WEFT_R_CONNECT_REFUSED);
}

static void begin(struct isw_host *h)
{
	uint8_t random[CHAP_RANDOM_BYTES];

	for (uint32_t i = 0; i < ISW_ISER_HOST_RECEIVES; i++)
		receive_post(h, i);
	for (uint32_t i = 0; i < sizeof(random); i++)
		random[i] = (uint8_t)isw_draw(h->world, 256);
	h->is_begun = true;
	iscsi_initiator_begin(h->session, iser_port_calls(), h->iser->port, random, now(h));
}

static bool link_look(struct isw_host *h)
{
	const struct tcp_end *e = &h->link->tcp.ends[ISCSI_INITIATOR];

	if (e->phase == TCP_ENDED || h->qp->state == WEFT_QPS_ERROR) {
		enum weft_reason reason = h->qp->reason;

		hung_up(h, reason == WEFT_OK ? WEFT_R_CONNECT_CLOSED : reason);
		return true;
	}
	if (h->is_begun && iser_port_is_closing(h->iser->port)) {
		hung_up(h, WEFT_R_ISCSI_ENDED);
		return true;
	}
	if (h->is_begun || e->phase != TCP_STREAM)
		return false;
	begin(h);
	return true;
}

bool isw_iser_host_run(struct isw_host *h)
{
	bool has_sent = false;

	if (!h->link)
		return false;
	if (link_look(h))
		return true;
	while (h->is_begun && send_next(h))
		has_sent = true;
	if (has_sent)
		iscsi_initiator_ready(h->session, now(h));
	return has_sent;
}

/* ---- Life ----------------------------------------------------------------------------------- */

int isw_iser_host_open(struct isw_host *h)
{
	struct isw_iser_host *p = calloc(1, sizeof(*p));
	struct mem_owner owner = pd_owner(h->pd);
	struct weft_region_options o = { .length = sizeof(p->memory),
					 .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
					 .is_zero_based = true };

	h->iser = p;
	if (!p)
		return -1;
	o.addr = (uintptr_t)&p->memory;
	p->port = iser_port_create(h->world->limits.depth);
	if (!p->port || mem_region_register(&h->adapter.mem, &owner, &o, &p->region) != WEFT_OK)
		return -1;
	for (uint32_t i = 0; i < ISW_ASKS; i++)
		if (mem_window_alloc(&h->adapter.mem, h->pd->number, &p->windows[i].tag) != WEFT_OK)
			return -1;
	return 0;
}

void isw_iser_host_close(struct isw_host *h)
{
	struct mem_table *mem = &h->adapter.mem;

	for (uint32_t i = 0; i < ISW_ASKS; i++)
		if (mem_window_discard(mem, h->pd->number, h->iser->windows[i].tag) != WEFT_OK)
			isw_fail(h->world, "host %u: a window is still in use", h->index);
	if (mem_region_deregister(mem, h->pd->number, h->iser->region) != WEFT_OK)
		isw_fail(h->world, "host %u: memory of messages is still in use", h->index);
	iser_port_destroy(h->iser->port);
	free(h->iser);
	h->iser = NULL;
}
