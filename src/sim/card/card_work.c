/* SPDX-License-Identifier: BSD-2-Clause */
/* The consumers of both ends: what they ask their links for, and what they do with what comes. */
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/card/card_world.h"

enum {
	NET_HEADER = PUSH_NET_HEADER_BYTES,
	LARGE_PERCENT = 10, /* of packets that may be longer than any MTU */
	REFUSE_PERCENT = 5, /* of requests of configuration */
	PLAIN_ELEMENTS = 32,
	MANY_POOLS = 257 /* more than 32 bits tell apart (PUSH-21) */
};

static bool is_rdma(const struct card_world *w)
{
	return w->limits.mode == PUSH_MODE_RDMA;
}

static bool is_percent(struct card_world *w, uint32_t percent)
{
	return cdw_draw(w, 100) < percent;
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static uint32_t slot_free(const struct cdw_end *e)
{
	for (uint32_t i = 0; i < e->world->limits.pools; i++) {
		if (!e->slot_used[i])
			return i;
	}
	return CDW_NONE;
}

static uint32_t draw_elements(struct card_world *w, uint32_t element_bytes)
{
	uint32_t most = w->limits.pool_bytes / element_bytes;
	uint32_t count = (uint32_t)ANY_OF(&w->world.prng, 1, 2, 3, 8, 16, 100, 256, 257);

	if (w->limits.is_plain)
		return PLAIN_ELEMENTS;
	if (w->limits.pools > MANY_POOLS && count > 2)
		count = 2;
	return count < most ? count : most;
}

/* False: there is no room, or the link takes no more. */
static bool pool_open(struct cdw_end *e, uint32_t element_bytes)
{
	struct card_world *w = e->world;
	uint32_t slot = slot_free(e), index = 0;
	struct push_pool_config c = { .element_bytes = element_bytes, .context = e->index };

	if (slot == CDW_NONE || element_bytes > w->limits.pool_bytes)
		return false;
	c.elements = draw_elements(w, element_bytes);
	c.memory = (uint8_t *)(uintptr_t)cdw_addr(e, CDW_AT_POOLS + slot * w->limits.pool_bytes);
	if (push_pool_open(e->link, &c, &index) != WEFT_OK)
		return false;
	e->slot_used[slot] = true;
	cdw_judge_opened(e, index, &c);
	return true;
}

static uint32_t draw_element_bytes(struct card_world *w)
{
	uint32_t bytes;

	/* An end that asks for packets does not know their length. */
	if (w->limits.model != CDW_PUSH_PUSH || w->limits.is_plain)
		return w->limits.packet_bytes;
	bytes = (uint32_t)ANY_OF(&w->world.prng, 64, 128, 256, 1024, 1536, 2048, 9216, 65536,
				 70000);
	return bytes < w->limits.pool_bytes ? bytes : w->limits.pool_bytes;
}

void cdw_pools_begin(struct cdw_end *e)
{
	struct card_world *w = e->world;
	uint32_t count = w->limits.pools > MANY_POOLS ? MANY_POOLS : 1 + cdw_draw(w, 3);

	if (w->limits.is_plain)
		count = 1;
	for (uint32_t i = 0; i < count && is_rdma(w); i++)
		(void)pool_open(e, draw_element_bytes(w));
}

static void pool_close(struct cdw_end *e, uint32_t pool)
{
	if (push_pool_close(e->link, pool) == WEFT_OK)
		cdw_trace(e->world, CDW_TRACE_CLOSING, e->index, pool, 0);
}

static void pools_change(struct cdw_end *e)
{
	struct card_world *w = e->world;
	uint32_t pool = cdw_draw(w, w->limits.pools);

	switch (w->limits.model == CDW_PUSH_PUSH ? cdw_draw(w, 3) : 0) {
	case 0:
		(void)pool_open(e, draw_element_bytes(w));
		break;
	case 1:
		pool_close(e, pool);
		break;
	default:
		if (push_pool_release(e->link, pool) == WEFT_OK)
			cdw_trace(w, CDW_TRACE_RELEASING, e->index, pool, 0);
		break;
	}
}

/* PUSH-16b: no answer is owed, but an end that wants packets gives elements they fit into. */
static void pools_asked(struct cdw_end *e, const struct push_get *get)
{
	struct card_world *w = e->world;

	if (w->phase == CDW_RUN && is_percent(w, w->limits.hold_percent))
		return;
	if (pool_open(e, get->packet_bytes))
		return;
	for (uint32_t i = 0; i < w->limits.pools; i++) {
		if (e->book.pools[i].is_used &&
		    e->book.pools[i].element_bytes < get->packet_bytes) {
			pool_close(e, i);
			return;
		}
	}
}

/* ---- Elements that a consumer has ------------------------------------------------------------ */

static void give_back(struct cdw_end *e, uint32_t which)
{
	const struct cdw_kept k = e->kept[which];

	e->kept[which] = e->kept[--e->kept_count];
	cdw_judge_returned(e, &k);
	push_return(e->link, k.pool, k.element);
}

static void give_some(struct cdw_end *e)
{
	struct card_world *w = e->world;
	uint32_t count = w->phase == CDW_RUN ? cdw_draw(w, 8) : e->kept_count;

	while (e->kept_count > 0 && count-- > 0)
		give_back(e, cdw_draw(w, e->kept_count));
}

/* ---- Packets --------------------------------------------------------------------------------- */

static uint32_t draw_length(struct cdw_end *e)
{
	struct card_world *w = e->world;
	bool has_header = push_agreed(e->link)->features & PUSH_FEATURE_NET_HEADER;
	uint32_t least = PUSH_FRAME_MIN + (has_header ? NET_HEADER : 0);
	uint32_t most = push_packet_max(e->link, true);

	if (is_rdma(w) && most > w->limits.packet_bytes)
		most = w->limits.packet_bytes;
	if (most > PUSH_MTU_MAX && !is_percent(w, LARGE_PERCENT))
		most = PUSH_MTU_MAX;
	if (cdw_draw(w, 4) == 0)
		most = most < 256 ? most : 256; /* a small one */
	return cdw_draw(w, 8) == 0 ? most : least + cdw_draw(w, most - least + 1);
}

static void packet_send(struct cdw_end *e)
{
	struct card_world *w = e->world;
	struct push_packet p;
	uint32_t slot = 0;

	if (e->busy == CDW_PACKETS)
		return;
	while (e->slots[slot] != 0)
		slot++;
	p = (struct push_packet){
		.bytes = cdw_at(e, CDW_AT_PACKETS + slot * CDW_PACKET_BYTES),
		.length = draw_length(e),
		.cookie = slot,
	};
	cdw_packet_fill(e, slot, e->book.sent, p.length);
	if (push_packet(e->link, &p, w->world.now_ns) != WEFT_OK) {
		cdw_fail(w, "end %u: its link does not take a packet of %u bytes", e->index,
			 p.length);
		return;
	}
	e->slots[slot] = ++e->book.sent;
	e->busy++;
}

static void packet_over(struct cdw_end *e, const struct push_event *event)
{
	if (event->cookie >= CDW_PACKETS || e->slots[event->cookie] == 0) {
		cdw_fail(e->world, "end %u: a packet is over twice", e->index);
		return;
	}
	e->book.well += event->reason == WEFT_OK;
	if (event->reason == WEFT_R_PUSH_FRAME) {
		e->book.packets[(e->slots[event->cookie] - 1) % CDW_LOG].is_void = true;
		e->book.voids++;
	}
	e->slots[event->cookie] = 0;
	e->busy--;
}

/* ---- Configuration --------------------------------------------------------------------------- */

static void ask(struct cdw_end *e)
{
	struct card_world *w = e->world;
	struct push_cfg cfg = { .kind = PUSH_STATISTICS };
	enum weft_reason r;

	if (cdw_is_unit(e) && cdw_draw(w, 2) == 0) {
		cfg.kind = PUSH_LINK;
		cfg.link.is_up = cdw_draw(w, 2);
	} else if (!cdw_is_unit(e)) {
		cfg.kind = (enum push_kind)ANY_OF(&w->world.prng, PUSH_SET_MAC, PUSH_SET_FILTER,
						  PUSH_SET_MTU, PUSH_STATISTICS);
	}
	if (cfg.kind == PUSH_SET_MTU)
		cfg.mtu = (uint16_t)ANY_OF(&w->world.prng, PUSH_MTU_MIN, 1500, PUSH_MTU_MAX);
	if (cfg.kind == PUSH_SET_MAC)
		memcpy(cfg.mac, e->config.hello.mac, PUSH_MAC_BYTES);
	r = push_ask(e->link, &cfg, w->world.now_ns);
	if (r != WEFT_OK && r != WEFT_R_BUSY)
		cdw_fail(w, "end %u may not ask for %s: %s", e->index, push_kind_name(cfg.kind),
			 weft_reason_name(r));
	e->is_asking |= r == WEFT_OK;
}

static void answer(struct cdw_end *e, const struct push_cfg *asked)
{
	struct push_cfg cfg = *asked;

	if (cfg.kind == PUSH_HELLO)
		cfg.hello = e->config.hello;
	else if (is_percent(e->world, REFUSE_PERCENT))
		cfg.reason = WEFT_R_PUSH_OFFER;
	push_answer(e->link, &cfg);
}

/* ---- What a link tells ----------------------------------------------------------------------- */

static void ended(struct cdw_end *e, const struct push_event *event)
{
	struct card_world *w = e->world;

	if (e->state == CDW_DYING)
		return;
	w->breaks += event->kind == PUSH_EVENT_BROKEN;
	w->orderly += event->kind == PUSH_EVENT_ENDED;
	e->is_ended_well = event->kind == PUSH_EVENT_ENDED && event->reason == WEFT_OK;
	if (w->limits.is_calm && !w->limits.is_hostile && !e->is_ended_well)
		cdw_fail(w, "end %u broke, and nothing was wrong: %s", e->index,
			 weft_reason_name(event->reason));
	cdw_end_over(e, event->reason);
}

void cdw_event(struct cdw_end *e, const struct push_event *event)
{
	switch (event->kind) {
	case PUSH_EVENT_OPEN:
		e->is_open = true;
		e->world->opens++;
		cdw_trace(e->world, CDW_TRACE_OPEN, e->index, e->serial, 0);
		break;
	case PUSH_EVENT_PACKET:
		cdw_packet_came(e, event);
		if (e->kept_count > 0 && !is_percent(e->world, e->world->limits.hold_percent))
			give_back(e, e->kept_count - 1);
		break;
	case PUSH_EVENT_SENT:
		packet_over(e, event);
		break;
	case PUSH_EVENT_ASKED_POOLS:
		if (e->state == CDW_UP)
			pools_asked(e, &event->get);
		break;
	case PUSH_EVENT_POOL_CLOSED:
		cdw_trace_reason(e, CDW_TRACE_CLOSED, event->pool, event->reason);
		cdw_judge_closed(e, event->pool);
		break;
	case PUSH_EVENT_ASKED_CFG:
		answer(e, event->cfg);
		break;
	case PUSH_EVENT_ANSWER:
		e->is_asking = false;
		break;
	case PUSH_EVENT_BROKEN:
	case PUSH_EVENT_ENDED:
		ended(e, event);
		break;
	}
}

/* ---- What a consumer does -------------------------------------------------------------------- */

static void act_once(struct cdw_end *e)
{
	struct card_world *w = e->world;

	if (push_link_state(e->link) != PUSH_OPEN || e->state != CDW_UP)
		return;
	if (is_rdma(w) && is_percent(w, w->limits.pool_weight))
		pools_change(e);
	else if (!w->limits.is_plain && is_percent(w, 5))
		ask(e);
	else
		packet_send(e);
}

void cdw_act(struct cdw_node *n)
{
	struct card_world *w = n->world;

	for (uint32_t i = 0; i < CDW_ENDS && n->is_up; i++) {
		struct cdw_end *e = &w->ends[i];
		uint32_t count = w->phase == CDW_RUN ? cdw_draw(w, w->limits.burst + 1) : 0;

		if (e->node != n->index || e->state == CDW_FREE)
			continue;
		while (count-- > 0 && !w->failure[0])
			act_once(e);
		if (w->phase != CDW_RUN || cdw_draw(w, 3) == 0)
			give_some(e);
	}
	cdw_node_turn(n);
}
