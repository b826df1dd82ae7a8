/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "loopback/loopback.h"
#include "sim/iscsi/iscsi_iser.h"

enum {
	CQ_ENTRIES = 4096,
	/* Identifiers of work: a link, and the index of a receive, or of a slot behind them. */
	LINK_SHIFT = 16,
	INDEX_MASK = 0xffff,
	TURNS_MAX = 100000
};

/* All memory of the process, as weft's target has it. */
static const uint64_t process_first = 4096, process_bytes = (UINT64_C(1) << 56) - 4096;

static uint64_t now(const struct isw_link *l)
{
	return l->world->world.now_ns;
}

/* ---- What the core wants done --------------------------------------------------------------- */

static bool post(struct isw_link *l, uint32_t slot, const struct iser_work *work)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND, WEFT_OP_WRITE, WEFT_OP_READ };
	struct isw_iser_end *far = l->far;
	struct weft_sge sge = { (uintptr_t)far->slots[slot].message, work->length,
				l->world->iser_target->region };
	struct weft_send_wr wr = {
		.id = (uint64_t)l->id << LINK_SHIFT | (ISW_ISER_RECEIVES + slot),
		.opcode = opcodes[work->kind],
		.flags = WEFT_SIGNALLED,
		.sges = &sge,
		.sge_count = 1,
	};
	uint32_t posted;

	if (work->kind != ISER_SEND) {
		sge.addr = (uintptr_t)work->memory.bytes;
		sge.length = (uint32_t)work->memory.length;
		wr.remote_addr = work->remote_addr;
		wr.remote_tag = work->remote_tag;
	}
	return qp_post_send(far->qp, &wr, 1, &posted) == WEFT_OK;
}

static void slot_end(struct isw_link *l, uint32_t slot, enum weft_reason reason)
{
	struct isw_iser_end *far = l->far;

	far->slots[slot].is_used = false;
	far->posted--;
	far->reads -= far->slots[slot].is_read;
	iscsi_iser_done(l->connection, far->slots[slot].id, reason, now(l));
}

/* One piece of work. False: there is none, or no room for it. */
static bool work_post(struct isw_link *l)
{
	struct isw_iser_end *far = l->far;
	struct iser_room room = { .can_read = far->reads < far->qp->reads_max };
	struct iser_work work;
	uint32_t slot = 0;

	while (slot < ISW_ISER_POSTED && far->slots[slot].is_used)
		slot++;
	if (slot == ISW_ISER_POSTED)
		return false;
	room.message = far->slots[slot].message;
	if (!iscsi_iser_next(l->connection, &room, &work))
		return false;
	far->slots[slot].is_used = true;
	far->slots[slot].is_read = work.kind == ISER_READ;
	far->slots[slot].id = work.id;
	far->posted++;
	far->reads += work.kind == ISER_READ;
	if (!post(l, slot, &work))
		slot_end(l, slot, WEFT_R_PEER_GONE);
	return true;
}

/* ---- A queue pair --------------------------------------------------------------------------- */

static void receive_post(struct isw_link *l, uint32_t i)
{
	const struct weft_sge sge = { (uintptr_t)l->far->receives[i], ISER_MESSAGE_MAX,
				      l->world->iser_target->region };
	const struct weft_recv_wr wr = { .id = (uint64_t)l->id << LINK_SHIFT | i,
					 .sges = &sge,
					 .sge_count = 1 };
	uint32_t posted;

	(void)qp_post_recv(l->far->qp, &wr, 1, &posted);
}

static bool qp_open(struct isw_link *l)
{
	static const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	struct isw_iser_target *t = l->world->iser_target;
	const struct weft_qp_options o = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.service = WEFT_RC,
		.send_max = ISW_ISER_POSTED,
		.recv_max = ISW_ISER_RECEIVES,
		.outstanding_max = ISW_ISER_READS,
	};

	if (qp_create(t->pd, &o, &loopback_transport, &l->far->qp) != WEFT_OK ||
	    qp_modify(l->far->qp, &init, WEFT_QP_STATE) != WEFT_OK)
		return false;
	for (uint32_t i = 0; i < ISW_ISER_RECEIVES; i++)
		receive_post(l, i);
	return true;
}

bool isw_iser_end_open(struct isw_link *l)
{
	struct iscsi_world *w = l->world;
	char peer[32], local[32];
	struct iscsi_accept a = { .peer = peer, .local = local, .owner = l };

	snprintf(peer, sizeof(peer), "10.0.0.%u:5000", 10 + l->host);
	snprintf(local, sizeof(local), "10.0.0.%u:3260", 1 + l->portal);
	for (uint32_t i = 0; i < sizeof(a.random); i++)
		a.random[i] = (uint8_t)isw_draw(w, 256);
	if (iscsi_node_accept_iser(w->node, &a, w->world.now_ns, &l->connection) != WEFT_OK)
		return false;
	l->far = calloc(1, sizeof(*l->far));
	CHECK(l->far && qp_open(l));
	l->tcp.ends[ISCSI_TARGET].qp = l->far->qp;
	return true;
}

static void end_free(struct isw_link *l)
{
	struct isw_iser_end *far = l->far;

	CHECK(far->posted == 0);
	iscsi_connection_destroy(l->connection, now(l));
	l->connection = NULL;
	cq_forget(l->world->iser_target->cq, far->qp->number);
	qp_destroy(far->qp);
	tcp_end_abandon(&l->tcp.ends[ISCSI_TARGET]);
	free(far);
	l->far = NULL;
}

void isw_iser_end_serve(struct isw_link *l)
{
	while (work_post(l))
		;
	if (iscsi_connection_action(l->connection) == ISCSI_ACTION_NONE)
		return;
	(void)qp_disconnect(l->far->qp);
	if (l->far->posted == 0)
		end_free(l);
}

/* ---- What happens --------------------------------------------------------------------------- */

static void take_completion(struct iscsi_world *w, const struct weft_completion *c)
{
	struct isw_link *l = &w->links[c->id >> LINK_SHIFT];
	uint32_t index = (uint32_t)c->id & INDEX_MASK;

	if (!l->far || l->far->qp->number != c->qp_number)
		return;
	if (index >= ISW_ISER_RECEIVES) {
		slot_end(l, index - ISW_ISER_RECEIVES,
			 c->status == WEFT_SUCCESS ? WEFT_OK : c->reason);
		isw_iser_end_serve(l);
	} else if (c->status == WEFT_SUCCESS) {
		iscsi_iser_received(l->connection, l->far->receives[index], c->byte_count, now(l));
		receive_post(l, index);
	}
}

static bool poll(struct iscsi_world *w)
{
	struct weft_completion c;
	bool has_polled = false;
	uint32_t count = 1;

	while (count > 0) {
		CHECK(cq_poll(w->iser_target->cq, &c, 1, &count) == WEFT_OK);
		if (count > 0)
			take_completion(w, &c);
		has_polled |= count > 0;
	}
	return has_polled;
}

/* Connections that are asked for, or are gone. */
static bool links_look(struct iscsi_world *w)
{
	bool has_any = false;

	for (uint32_t i = 0; i < ISW_LINKS; i++) {
		struct isw_link *l = &w->links[i];
		struct tcp_end *e = &l->tcp.ends[ISCSI_TARGET];

		if (e->has_request) {
			tcp_end_answer(e, isw_iser_end_open(l));
			has_any = true;
		}
		if (!l->far || (e->phase != TCP_ENDED && l->far->qp->state != WEFT_QPS_ERROR) ||
		    iscsi_connection_action(l->connection) != ISCSI_ACTION_NONE)
			continue;
		(void)poll(w); /* what had come before */
		if (l->far)
			iscsi_iser_lost(l->connection, l->far->qp->reason, now(l));
		if (l->far)
			isw_iser_end_serve(l);
		has_any = true;
	}
	return has_any;
}

bool isw_iser_target_run(struct iscsi_world *w)
{
	struct isw_iser_target *t = w->iser_target;
	struct iwarp_stream *s;
	bool has_run = false;

	for (uint32_t i = 0; adapter_progress(&t->adapter, w->world.now_ns); i++)
		CHECK(i < TURNS_MAX);
	while ((s = iwarp_attend(&t->attention)) != NULL) {
		tcp_end_service(iwarp_owner(s));
		has_run = true;
	}
	has_run |= poll(w);
	has_run |= links_look(w);
	return has_run || !list_is_empty(&t->attention) || !list_is_empty(&t->adapter.ready);
}

/* ---- Life ----------------------------------------------------------------------------------- */

void isw_iser_end_stop(struct isw_link *l)
{
	static const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };

	iscsi_connection_eof(l->connection, now(l));
	CHECK(qp_modify(l->far->qp, &error, WEFT_QP_STATE) == WEFT_OK);
	for (uint32_t i = 0; l->far && l->far->posted > 0; i++) {
		(void)adapter_progress(&l->world->iser_target->adapter, now(l));
		(void)poll(l->world);
		CHECK(i < TURNS_MAX);
	}
	if (l->far)
		end_free(l);
}

static enum weft_reason adapter_open(struct iscsi_world *w, struct isw_iser_target *t)
{
	struct adapter_config c = {
		.options = { .tags_max = 16,
			     .translations_max = 512,
			     .qps_max = ISW_LINKS,
			     .cqs_max = 1,
			     .srqs_max = 1,
			     .pds_max = 1 },
		.trace = &w->world.trace,
	};
	const struct weft_region_options all = {
		.addr = process_first,
		.length = process_bytes,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
	};
	struct mem_owner owner;
	enum weft_reason r;

	c.secret[0] = prng_next(&w->world.prng);
	c.secret[1] = prng_next(&w->world.prng);
	r = adapter_init(&t->adapter, &c);
	if (r == WEFT_OK)
		r = pd_create(&t->adapter, &(struct weft_pd_options){ 0 }, &t->pd);
	if (r == WEFT_OK)
		r = cq_create(&t->adapter, &(struct weft_cq_options){ .entries_max = CQ_ENTRIES },
			      &t->cq);
	if (r != WEFT_OK)
		return r;
	owner = pd_owner(t->pd);
	return mem_region_register(&t->adapter.mem, &owner, &all, &t->region);
}

int isw_iser_target_start(struct iscsi_world *w)
{
	struct isw_iser_target *t = calloc(1, sizeof(*t));

	if (!t)
		return -1;
	list_init(&t->attention);
	w->iser_target = t;
	return adapter_open(w, t) == WEFT_OK ? 0 : -1;
}

/* Streams of connections that have not closed yet go with the process. */
void isw_iser_target_stop(struct iscsi_world *w)
{
	struct isw_iser_target *t = w->iser_target;

	for (uint32_t i = 0; i < ISW_LINKS; i++)
		tcp_end_kill(&w->links[i].tcp.ends[ISCSI_TARGET], false);
	if (mem_region_deregister(&t->adapter.mem, t->pd->number, t->region) != WEFT_OK ||
	    cq_destroy(t->cq) != WEFT_OK || pd_destroy(t->pd) != WEFT_OK ||
	    adapter_fini(&t->adapter) != WEFT_OK)
		isw_fail(w, "the target's adapter is still in use");
	free(t);
	w->iser_target = NULL;
}
