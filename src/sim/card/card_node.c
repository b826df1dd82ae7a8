/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process: its adapter, an end for each connection, and what an owner of links does with them
 * (src/roles/card_end.c does the same over sockets).
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/card/card_world.h"

enum { TURNS_MAX = 100000 };

static bool is_send_mode(const struct cdw_end *e)
{
	return e->world->limits.mode == PUSH_MODE_SEND;
}

/* ---- Receives ------------------------------------------------------------------------------- */

/* In Send mode half of them are of each channel. */
static struct weft_qp *qp_of_receive(const struct cdw_end *e, uint32_t nth)
{
	return e->qps[is_send_mode(e) && nth >= CDW_RECEIVES / 2];
}

static bool receive_post(struct cdw_end *e, uint32_t nth)
{
	const struct weft_sge s = { .addr = cdw_addr(e, CDW_AT_RECEIVES + nth * CDW_PACKET_BYTES),
				    .length = CDW_PACKET_BYTES,
				    .tag = e->tag };
	const struct weft_recv_wr wr = { .id = (uint64_t)nth << CDW_WORK_BITS | CDW_WORK_RECEIVE,
					 .sges = &s,
					 .sge_count = 1 };
	uint32_t posted = 0;

	(void)qp_post_recv(qp_of_receive(e, nth), &wr, 1, &posted);
	e->receives += posted;
	return posted > 0;
}

/* ---- Life of an end ------------------------------------------------------------------------- */

static struct weft_pd *pd_of(const struct cdw_end *e)
{
	return cdw_node_of(e)->pds[cdw_is_unit(e) ? e->index / 2 : 0];
}

static enum weft_reason region(struct cdw_end *e, uint64_t addr, uint64_t bytes, uint32_t rights,
			       uint32_t *tag)
{
	const struct mem_owner owner = pd_owner(pd_of(e));
	const struct weft_region_options o = { .addr = addr, .length = bytes, .rights = rights };

	return mem_region_register(&cdw_node_of(e)->adapter.mem, &owner, &o, tag);
}

static void deregister(struct cdw_end *e, uint32_t tag)
{
	CHECK(mem_region_deregister(&cdw_node_of(e)->adapter.mem, pd_of(e)->number, tag) ==
	      WEFT_OK);
}

static void config_make(struct cdw_end *e)
{
	const struct cdw_limits *l = &e->world->limits;
	struct push_config *c = &e->config;

	push_config_init(c, cdw_is_unit(e) ? PUSH_UNIT : PUSH_HOST, l->mode);
	c->hello.mac[4] = (uint8_t)e->index;
	c->hello.mtu = l->mtu;
	c->hello.features = l->features;
	c->hello.is_pull = l->model == CDW_PULL_PULL ||
			   (l->model == CDW_PUSH_PULL && cdw_is_unit(e));
	c->hello.pools_max = l->pools;
	c->hello.elements_max = CDW_ELEMENTS_MAX;
	c->has_immediate = l->has_immediate;
	c->own_pools_max = l->pools;
	c->own_elements_max = CDW_ELEMENTS_MAX;
	c->packets_max = CDW_PACKETS;
	c->writes_max = l->writes;
	c->sends_max = CDW_SENDS;
	c->messages = cdw_at(e, CDW_AT_MESSAGES);
	c->inline_bytes = l->inline_bytes;
	c->pulls_max = l->pulls;
	c->ping_after_ns = l->ping_after_ns;
	c->refusals_max = l->is_hostile ? 0 : 1;
}

int cdw_end_begin(struct cdw_end *e)
{
	config_make(e);
	if (push_link_create(&e->config, &e->link) != WEFT_OK)
		return -1;
	CHECK(region(e, cdw_addr(e, 0), CDW_AT_POOLS, WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
		     &e->tag) == WEFT_OK);
	e->state = CDW_CONNECTING;
	e->is_begun = e->is_open = e->is_ended_well = e->is_asking = false;
	e->kept_count = 0;
	e->busy = 0;
	memset(e->slots, 0, sizeof(e->slots));
	memset(e->slot_used, 0, sizeof(e->slot_used));
	cdw_book_begin(e);
	for (uint32_t i = 0; i < CDW_RECEIVES; i++)
		CHECK(receive_post(e, i));
	cdw_pools_begin(e);
	cdw_trace(e->world, CDW_TRACE_DIALLED, e->index, e->serial, 0);
	return 0;
}

void cdw_end_over(struct cdw_end *e, enum weft_reason reason)
{
	if (e->state == CDW_FREE || e->state == CDW_DYING)
		return;
	cdw_trace_reason(e, CDW_TRACE_LOST, e->serial, reason);
	e->state = CDW_DYING;
	cdw_hang_up(e);
	push_lost(e->link, reason);
}

/* By iWARP a message counts as sent when TCP has it: what is in one may be lost with the link. */
static bool has_arrived(const struct cdw_end *e)
{
	const struct cdw_end *peer = &e->world->ends[e->index ^ 1];
	const struct cdw_limits *l = &e->world->limits;

	return is_send_mode(e) || (l->wire == CDW_IWARP && l->inline_bytes > 0) ||
	       peer->serial != e->serial || !peer->is_ended_well || e->book.got >= peer->book.well;
}

/* The link has ended, and no request is posted: both go. */
static bool end_reap(struct cdw_end *e)
{
	if (push_link_state(e->link) != PUSH_ENDED || e->sends > 0 || e->receives > 0)
		return false;
	if (!has_arrived(e))
		cdw_fail(e->world, "end %u had %llu packets of %llu when its peer ended in order",
			 e->index, (unsigned long long)e->book.got,
			 (unsigned long long)cdw_peer(e)->book.well);
	cdw_qps_drop(e);
	deregister(e, e->tag);
	push_link_destroy(e->link);
	e->link = NULL;
	e->state = CDW_FREE;
	return true;
}

/* ---- What completes ------------------------------------------------------------------------- */

/*
 * Both ends obey: nothing may be refused, but what comes when the link has ended; in Send mode also
 * what overtakes a message that says how long packets may be.
 */
static void taken(struct cdw_end *e, const char *what, enum weft_reason r)
{
	struct card_world *w = e->world;

	if (r == WEFT_OK || r == WEFT_R_PUSH_STATE || (is_send_mode(e) && r == WEFT_R_PUSH_FRAME))
		return;
	w->refused++;
	w->refused_for = r;
	if (!w->limits.is_hostile)
		cdw_fail(w, "end %u refuses %s: %s", e->index, what, weft_reason_name(r));
}

static void came(struct cdw_end *e, const struct weft_completion *c)
{
	uint32_t nth = (uint32_t)(c->id >> CDW_WORK_BITS);
	const uint8_t *bytes = cdw_at(e, CDW_AT_RECEIVES + nth * CDW_PACKET_BYTES);
	uint64_t now_ns = e->world->world.now_ns;

	if (c->opcode == WEFT_OP_RECV_WRITE_IMM) {
		taken(e, "an indication", push_written(e->link, c->imm, c->byte_count, now_ns));
	} else if (is_send_mode(e) && c->qp_number == e->qps[1]->number) {
		taken(e, "a packet", push_take_packet(e->link, bytes, c->byte_count, now_ns));
	} else {
		cdw_judge_heard(e, bytes, c->byte_count);
		taken(e, "a message", push_take(e->link, bytes, c->byte_count, now_ns));
	}
}

/* What the link wants its consumer to know; after each message, as events point into it. */
static bool events_take(struct cdw_end *e)
{
	struct push_event event;
	bool has_any = false;

	while (!e->world->failure[0] && push_event(e->link, &event)) {
		has_any = true;
		cdw_event(e, &event);
	}
	return has_any;
}

static void receive_done(struct cdw_end *e, const struct weft_completion *c)
{
	e->receives--;
	if (e->state == CDW_DYING)
		return;
	if (c->status != WEFT_SUCCESS) {
		cdw_end_over(e, c->reason == WEFT_OK ? WEFT_R_PEER_GONE : c->reason);
		return;
	}
	came(e, c);
	(void)events_take(e);
	if (e->state != CDW_DYING && !receive_post(e, (uint32_t)(c->id >> CDW_WORK_BITS)))
		cdw_end_over(e, WEFT_R_PEER_GONE);
}

static struct cdw_end *end_of(struct cdw_node *n, uint32_t number)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		struct cdw_end *e = &n->world->ends[i];

		for (uint32_t k = 0; k < CDW_QPS && e->node == n->index; k++) {
			if (e->state != CDW_FREE && e->qps[k] && e->qps[k]->number == number)
				return e;
		}
	}
	return NULL;
}

static void act_done(struct cdw_end *e, uint64_t id, enum weft_reason reason)
{
	if ((enum push_act_kind)(id >> 32) == PUSH_ACT_WRITE)
		cdw_judge_write_done(e, (uint32_t)id);
	push_done(e->link, id, reason, e->world->world.now_ns);
}

static bool completions_take(struct cdw_node *n)
{
	struct weft_completion c;
	uint32_t count = 0;
	bool has_any = false;

	while (!n->world->failure[0] && cq_poll(n->cq, &c, 1, &count) == WEFT_OK && count > 0) {
		struct cdw_end *e = end_of(n, c.qp_number);

		has_any = true;
		if (!e)
			continue;
		if ((c.id & ((1 << CDW_WORK_BITS) - 1)) == CDW_WORK_RECEIVE) {
			receive_done(e, &c);
			continue;
		}
		e->sends--;
		if ((c.id & ((1 << CDW_WORK_BITS) - 1)) == CDW_WORK_HOSTILE)
			continue;
		act_done(e, c.id >> CDW_WORK_BITS,
			 c.status == WEFT_SUCCESS ? WEFT_OK
			 : c.reason != WEFT_OK	  ? c.reason
						  : WEFT_R_PEER_GONE);
	}
	return has_any;
}

/* ---- Acts ----------------------------------------------------------------------------------- */

static void post(struct cdw_end *e, const struct push_act *act, uint32_t channel)
{
	const struct cdw_node *n = cdw_node_of(e);
	struct weft_sge s = { .addr = ((uint64_t)(n->index + 1) << 40) +
				      (uint64_t)(act->bytes - n->memory),
			      .length = (uint32_t)act->length,
			      .tag = e->tag };
	struct weft_send_wr wr = { .id = act->id << CDW_WORK_BITS | CDW_WORK_ACT,
				   .opcode = WEFT_OP_SEND,
				   .flags = WEFT_SIGNALLED,
				   .sges = &s,
				   .sge_count = 1 };
	uint32_t posted = 0;

	if (act->kind == PUSH_ACT_WRITE) {
		wr.opcode = act->has_immediate ? WEFT_OP_WRITE_IMM : WEFT_OP_WRITE;
		wr.imm = act->immediate;
		wr.remote_addr = act->address;
		wr.remote_tag = act->handle;
	}
	if (qp_post_send(e->qps[channel], &wr, 1, &posted) == WEFT_OK) {
		e->sends++;
		return;
	}
	act_done(e, act->id, WEFT_R_PEER_GONE);
	cdw_end_over(e, WEFT_R_PEER_GONE);
}

static void pool_register(struct cdw_end *e, const struct push_act *act)
{
	uint32_t tag = 0, pool = (uint32_t)act->id;
	enum weft_reason r = region(e, (uint64_t)(uintptr_t)act->bytes, act->length,
				    WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE, &tag);

	if (r == WEFT_OK)
		cdw_judge_registered(e, pool, tag);
	push_registered(e->link, act->id, r, tag);
}

static void act_do(struct cdw_end *e, const struct push_act *act)
{
	bool is_over = e->state == CDW_DYING;

	switch (act->kind) {
	case PUSH_ACT_REGISTER:
		pool_register(e, act);
		return;
	case PUSH_ACT_DEREGISTER:
		cdw_judge_deregister(e, (uint32_t)act->id, act->handle);
		deregister(e, act->handle);
		push_done(e->link, act->id, WEFT_OK, e->world->world.now_ns);
		return;
	case PUSH_ACT_SEND:
		cdw_judge_said(e, act->bytes, act->length);
		break;
	case PUSH_ACT_WRITE:
		cdw_judge_write(e, act);
		break;
	case PUSH_ACT_SEND_PACKET:
		break;
	}
	if (is_over)
		cdw_fail(e->world, "end %u wants to send when its connection is lost", e->index);
	else
		post(e, act, act->kind == PUSH_ACT_SEND_PACKET);
}

/* A process that is to stop does so between any two acts. */
static bool acts_take(struct cdw_end *e)
{
	struct cdw_node *n = cdw_node_of(e);
	struct push_act act;
	bool has_any = false;

	while (!e->world->failure[0] && !n->is_stopping &&
	       push_act(e->link, e->world->world.now_ns, &act)) {
		has_any = true;
		act_do(e, &act);
		if (n->acts_left > 0 && --n->acts_left == 0)
			n->is_stopping = true;
	}
	return has_any;
}

static bool end_work(struct cdw_end *e)
{
	bool has_any = false;
	uint64_t now_ns = e->world->world.now_ns;

	if (e->state == CDW_CONNECTING && cdw_is_connected(e)) {
		e->state = CDW_UP;
		push_up(e->link, now_ns);
		has_any = true;
	}
	if (push_due(e->link) <= now_ns)
		push_expire(e->link, now_ns);
	has_any |= events_take(e);
	has_any |= acts_take(e);
	if (e->state == CDW_DYING && !cdw_node_of(e)->is_stopping)
		has_any |= end_reap(e);
	return has_any;
}

/* ---- Processes ------------------------------------------------------------------------------ */

static void wake(struct cdw_node *n)
{
	struct card_world *w = n->world;
	uint64_t due = cdw_net_due(n);

	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		const struct cdw_end *e = &w->ends[i];

		if (e->node == n->index && e->state != CDW_FREE && push_due(e->link) < due)
			due = push_due(e->link);
	}
	world_alarm_set(&w->world, &n->turn, due);
}

void cdw_node_turn(struct cdw_node *n)
{
	struct card_world *w = n->world;
	uint32_t turns = 0;
	bool has_any = n->is_up;

	while (has_any && !w->failure[0] && !n->is_stopping) {
		has_any = cdw_net_move(n);
		/* A stream may be in full operation, and its first message be there, at once. */
		for (uint32_t i = 0; i < CDW_ENDS; i++) {
			if (w->ends[i].node == n->index && w->ends[i].state == CDW_CONNECTING)
				has_any |= end_work(&w->ends[i]);
		}
		has_any |= completions_take(n);
		for (uint32_t i = 0; i < CDW_ENDS; i++) {
			if (w->ends[i].node == n->index && w->ends[i].state != CDW_FREE)
				has_any |= end_work(&w->ends[i]);
		}
		if (turns++ > TURNS_MAX)
			cdw_fail(w, "node %u does not come to rest", n->index);
	}
	if (n->is_up && n->is_stopping && !w->failure[0])
		cdw_node_stop(n);
	if (n->is_up && !w->failure[0])
		wake(n);
}

int cdw_node_start(struct cdw_node *n)
{
	if (cdw_adapter_open(n) < 0)
		return -1;
	n->is_up = true;
	n->incarnation++;
	cdw_trace(n->world, CDW_TRACE_STARTED, n->index, n->incarnation, 0);
	return 0;
}

/* As by kill -9: nothing is said to any peer but what its kernel says. */
void cdw_node_stop(struct cdw_node *n)
{
	struct card_world *w = n->world;
	bool is_reset = cdw_draw(w, 2) == 0;

	cdw_trace(w, CDW_TRACE_STOPPED, n->index, n->incarnation, 0);
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		struct cdw_end *e = &w->ends[i];

		if (e->node != n->index || e->state == CDW_FREE)
			continue;
		cdw_cut_off(e, is_reset);
		push_link_destroy(e->link);
		e->link = NULL;
		deregister(e, e->tag);
		for (uint32_t p = 0; p < w->limits.pools; p++) {
			if (e->book.pools[p].is_registered)
				deregister(e, e->book.pools[p].handle);
			if (e->book.pools[p].is_used)
				cdw_judge_closed(e, p);
		}
		e->state = CDW_FREE;
		e->sends = e->receives = 0;
	}
	cdw_memory_judge(n);
	n->is_up = n->is_stopping = false;
	n->acts_left = 0;
	world_alarm_cancel(&w->world, &n->turn);
	if (!w->failure[0])
		cdw_adapter_close(n);
}
