/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model of pools and elements. An element is at any time one party's:
 *
 *	initiator's -> written -> consumer's -> target's -> on its way -> initiator's
 *
 * and only what the parties do, and messages that arrive, move it. It belongs to the target's end;
 * the initiator is the other end of the connection.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/card/card_world.h"

int cdw_book_open(struct cdw_end *e)
{
	struct cdw_book *b = &e->book;

	b->pools = calloc(CDW_POOLS_MAX, sizeof(*b->pools));
	b->packets = calloc(CDW_LOG, sizeof(*b->packets));
	e->shadow = calloc(1, CDW_POOL_BYTES);
	return b->pools && b->packets && e->shadow ? 0 : -1;
}

void cdw_book_close(struct cdw_end *e)
{
	for (uint32_t i = 0; i < CDW_POOLS_MAX && e->book.pools; i++)
		free(e->book.pools[i].elements_of);
	free(e->book.pools);
	free(e->book.packets);
	free(e->shadow);
}

void cdw_book_begin(struct cdw_end *e)
{
	struct cdw_book *b = &e->book;

	for (uint32_t i = 0; i < CDW_POOLS_MAX; i++)
		CHECK(!b->pools[i].is_used);
	b->sent = b->came = b->well = b->voids = b->got = b->messages = b->untold = 0;
}

struct cdw_element *cdw_element_of(struct cdw_end *target, uint32_t pool, uint32_t element)
{
	const struct cdw_pool *p = &target->book.pools[pool];

	if (pool >= CDW_POOLS_MAX || !p->is_used || element >= p->elements) {
		cdw_fail(target->world, "end %u has no element %u of pool %u", target->index,
			 element, pool);
		return NULL;
	}
	return &p->elements_of[element];
}

/* ---- Pools: what the target's consumer and its link do --------------------------------------- */

void cdw_judge_opened(struct cdw_end *e, uint32_t pool, const struct push_pool_config *c)
{
	struct cdw_pool *p = &e->book.pools[pool];

	if (pool >= CDW_POOLS_MAX || p->is_used) {
		cdw_fail(e->world, "end %u opens pool %u twice", e->index, pool);
		return;
	}
	*p = (struct cdw_pool){
		.elements = c->elements,
		.element_bytes = c->element_bytes,
		.at = (uint32_t)((uintptr_t)c->memory - cdw_addr(e, 0)),
	};
	p->elements_of = calloc(c->elements, sizeof(*p->elements_of));
	CHECK(p->elements_of);
	p->is_used = true;
	cdw_trace(e->world, CDW_TRACE_POOL, e->index, pool,
		  (uint64_t)c->elements << 32 | c->element_bytes);
}

void cdw_judge_registered(struct cdw_end *e, uint32_t pool, uint32_t handle)
{
	e->book.pools[pool].is_registered = true;
	e->book.pools[pool].handle = handle;
}

/* PUSH-17: not before the initiator has stopped, if it knows of the pool and is there. */
void cdw_judge_deregister(struct cdw_end *e, uint32_t pool, uint32_t handle)
{
	struct cdw_pool *p = &e->book.pools[pool];

	if (!p->is_used || !p->is_registered || p->handle != handle)
		cdw_fail(e->world, "end %u deregisters pool %u, which is not", e->index, pool);
	else if (p->is_told && !p->is_end_known && e->state != CDW_DYING &&
		 push_link_state(e->link) != PUSH_ENDING)
		cdw_fail(e->world, "end %u deregisters pool %u before its peer has stopped",
			 e->index, pool);
	cdw_pool_accept(e, p);
	p->is_registered = false;
}

void cdw_judge_closed(struct cdw_end *e, uint32_t pool)
{
	struct cdw_pool *p = &e->book.pools[pool];
	uint32_t left = 0;

	if (!p->is_used || (e->link && p->is_registered && e->state == CDW_UP))
		cdw_fail(e->world, "end %u: pool %u is closed, and was not over", e->index, pool);
	for (uint32_t i = 0; i < e->kept_count; i++) {
		if (e->kept[i].pool != pool)
			e->kept[left++] = e->kept[i];
	}
	e->kept_count = left;
	cdw_pool_accept(e, p);
	if (p->at >= CDW_AT_POOLS)
		e->slot_used[(p->at - CDW_AT_POOLS) / e->world->limits.pool_bytes] = false;
	free(p->elements_of);
	*p = (struct cdw_pool){ 0 };
}

/* ---- Writes ---------------------------------------------------------------------------------- */

/* The pool of the target that has this address under this handle. */
static struct cdw_pool *pool_at(struct cdw_end *target, const struct push_act *act)
{
	uint64_t offset = act->address - cdw_addr(target, 0);

	for (uint32_t i = 0; i < CDW_POOLS_MAX; i++) {
		struct cdw_pool *p = &target->book.pools[i];

		if (p->is_used && p->is_known && p->handle == act->handle && offset >= p->at &&
		    offset < p->at + (uint64_t)p->elements * p->element_bytes)
			return p;
	}
	return NULL;
}

/* PUSH-21, and that a Write in this form does not overtake those before it. */
static void judge_form(struct cdw_end *e, const struct push_act *act, const struct cdw_pool *p,
		       uint32_t element)
{
	uint32_t pool = (uint32_t)(p - cdw_peer(e)->book.pools);
	const struct push_immediate i = { pool, element, p->element_bytes };
	struct cdw_element *x = cdw_element_of(cdw_peer(e), pool, element);

	e->world->immediates += act->has_immediate;
	x->is_untold = !act->has_immediate;
	if (!act->has_immediate) {
		e->book.untold++;
		return;
	}
	if (!e->config.has_immediate || pool >= 256 || p->elements > 256 ||
	    p->element_bytes > 65536 || act->immediate != push_immediate_encode(&i))
		cdw_fail(e->world, "end %u tells of element %u of pool %u by 0x%08x", e->index,
			 element, pool, act->immediate);
	if (e->book.untold > 0)
		cdw_fail(e->world, "end %u tells of a packet before earlier ones", e->index);
}

/* The end at the other side of this connection; NULL: its process has stopped. */
static struct cdw_end *target_of(struct cdw_end *e)
{
	struct cdw_end *peer = cdw_peer(e);

	return peer->serial == e->serial && peer->state != CDW_FREE ? peer : NULL;
}

void cdw_judge_write(struct cdw_end *e, const struct push_act *act)
{
	struct cdw_end *target = target_of(e);
	struct cdw_pool *p = target ? pool_at(target, act) : NULL;
	uint32_t offset, element, pool;
	struct cdw_element *x;

	e->world->writes++;
	if (!target)
		return; /* it goes nowhere */
	if (!p) {
		cdw_fail(e->world, "end %u writes where it has no pool", e->index);
		return;
	}
	pool = (uint32_t)(p - target->book.pools);
	offset = (uint32_t)(act->address - cdw_addr(target, p->at));
	element = offset / p->element_bytes;
	x = &p->elements_of[element];
	if (offset % p->element_bytes != 0 || act->length > p->element_bytes)
		cdw_fail(e->world, "end %u writes beyond an element", e->index);
	if (p->is_ended)
		cdw_fail(e->world, "end %u writes to pool %u after its flush", e->index, pool);
	if (x->turn != CDW_INITIATORS || x->is_under_way)
		cdw_fail(e->world, "end %u writes element %u of pool %u out of its turn", e->index,
			 element, pool);
	*x = (struct cdw_element){ .turn = CDW_WRITTEN,
				   .is_under_way = true,
				   .number = e->slots[act->cookie] - 1,
				   .bytes = (uint32_t)act->length };
	e->writes[(uint32_t)act->id] = pool << 16 | element;
	judge_form(e, act, p, element);
	cdw_trace(e->world, CDW_TRACE_WROTE, e->index, (uint64_t)pool << 32 | element, act->length);
}

void cdw_judge_write_done(struct cdw_end *e, uint32_t act)
{
	struct cdw_end *target = target_of(e);
	uint32_t at = e->writes[act];

	if (target && target->book.pools[at >> 16].is_used)
		target->book.pools[at >> 16].elements_of[at & 0xffff].is_under_way = false;
}

void cdw_judge_returned(struct cdw_end *e, const struct cdw_kept *k)
{
	struct cdw_element *x = cdw_element_of(e, k->pool, k->element);

	if (!x)
		return;
	cdw_packet_judge_kept(e, k);
	if (x->turn != CDW_CONSUMERS)
		cdw_fail(e->world, "end %u returns what its consumer has not", e->index);
	x->turn = CDW_TARGETS;
	cdw_trace(e->world, CDW_TRACE_RETURNED, e->index, k->pool, k->element);
}

/* ---- Messages as they leave ------------------------------------------------------------------ */

static void said_pools(struct cdw_end *e, const struct push_msg *m)
{
	struct rd r = rd_of(m->pools.bytes, (size_t)m->pools.count * PUSH_POOL_BYTES);

	for (uint32_t i = 0; i < m->pools.count; i++) {
		const struct push_pool is = push_pool_next(&r);
		struct cdw_pool *p = &e->book.pools[is.index % CDW_POOLS_MAX];

		if (is.index >= CDW_POOLS_MAX || !p->is_registered || p->is_told ||
		    is.handle != p->handle || is.elements != p->elements ||
		    is.element_bytes != p->element_bytes || is.address != cdw_addr(e, p->at)) {
			cdw_fail(e->world, "end %u advertises pool %u, which is not so", e->index,
				 is.index);
			return;
		}
		p->is_told = true;
		for (uint32_t k = 0; k < p->elements && !cdw_peer(e)->config.hello.is_pull; k++)
			p->elements_of[k].turn = CDW_INITIATORS;
	}
}

static void said_run(struct cdw_end *e, const struct push_run *run)
{
	for (uint32_t i = 0; i < run->count; i++) {
		struct cdw_element *x = cdw_element_of(e, run->pool, run->first + i);

		if (!x)
			return;
		if (x->turn != CDW_TARGETS)
			cdw_fail(e->world, "end %u grants element %u of pool %u, which it has not",
				 e->index, run->first + i, run->pool);
		x->turn = CDW_ON_ITS_WAY;
	}
}

/* Every packet that was told of by messages: once, and after it was written. */
static void said_used(struct cdw_end *e, const struct push_msg *m)
{
	struct rd r = rd_of(m->used.bytes, (size_t)m->used.count * PUSH_USED_BYTES);
	struct cdw_end *target = target_of(e);

	for (uint32_t i = 0; i < m->used.count && target; i++) {
		const struct push_used u = push_used_next(&r);
		struct cdw_element *x = cdw_element_of(target, u.pool, u.element);

		if (!x)
			return;
		if (x->turn != CDW_WRITTEN || !x->is_untold || x->bytes != u.bytes)
			cdw_fail(e->world, "end %u tells of element %u of pool %u, not written",
				 e->index, u.element, u.pool);
		x->is_untold = false;
		e->book.untold--;
	}
}

/* PUSH-17: it promises to write there no more, and nothing of it is under way. */
static void stops(struct cdw_end *e, struct cdw_pool *p)
{
	for (uint32_t i = 0; i < p->elements; i++) {
		if (p->elements_of[i].is_under_way || p->elements_of[i].is_untold)
			cdw_fail(e->world, "end %u ends a pool with element %u under way", e->index,
				 i);
	}
	p->is_ended = true;
}

static void said_release(struct cdw_end *e, const struct push_msg *m)
{
	struct rd r = rd_of(m->references.bytes,
			    (size_t)m->references.count * PUSH_REFERENCE_BYTES);
	struct cdw_end *target = target_of(e);

	for (uint32_t i = 0; i < m->references.count && target; i++) {
		struct cdw_pool *p = &target->book.pools[push_reference_next(&r) % CDW_POOLS_MAX];

		if (!p->is_known)
			cdw_fail(e->world, "end %u releases a pool that it has not", e->index);
		stops(e, p);
		p->release = m->context;
	}
}

static void said_flush(struct cdw_end *e, const struct push_msg *m)
{
	struct rd r = rd_of(m->references.bytes,
			    (size_t)m->references.count * PUSH_REFERENCE_BYTES);

	for (uint32_t i = 0; i < m->references.count; i++) {
		struct cdw_pool *p = &e->book.pools[push_reference_next(&r) % CDW_POOLS_MAX];

		if (!p->is_told)
			cdw_fail(e->world, "end %u flushes a pool that it has not told of",
				 e->index);
		p->flush = m->context;
	}
}

static void said_reply(struct cdw_end *e, uint64_t context)
{
	struct cdw_end *target = target_of(e);

	for (uint32_t i = 0; i < CDW_POOLS_MAX && target; i++) {
		struct cdw_pool *p = &target->book.pools[i];

		if (p->is_used && p->flush == context)
			stops(e, p);
	}
}

void cdw_judge_said(struct cdw_end *e, const uint8_t *bytes, size_t length)
{
	struct push_msg m = { 0 };
	struct rd r;

	if (push_msg_decode(&m, bytes, length) != WEFT_OK) {
		cdw_fail(e->world, "end %u says what is no message", e->index);
		return;
	}
	e->world->messages[m.function]++;
	if ((m.function != PUSH_CFG_REQUEST && m.function != PUSH_CFG_REPLY) ||
	    m.cfg.kind != PUSH_PING)
		e->book.messages++;
	cdw_trace(e->world, CDW_TRACE_SENT, e->index, m.function, length);
	if (m.function == PUSH_RECV_POOL)
		said_pools(e, &m);
	else if (m.function == PUSH_RECV_POOL_UPDATE)
		for (r = rd_of(m.runs.bytes, (size_t)m.runs.count * PUSH_RUN_BYTES);
		     m.runs.count > 0; m.runs.count--) {
			const struct push_run run = push_run_next(&r);

			said_run(e, &run);
		}
	else if (m.function == PUSH_PULL)
		said_run(e, &m.pull);
	else if (m.function == PUSH_RDMA_INDICATE)
		said_used(e, &m);
	else if (m.function == PUSH_RELEASE_REQUEST)
		said_release(e, &m);
	else if (m.function == PUSH_FLUSH_REQUEST)
		said_flush(e, &m);
	else if (m.function == PUSH_FLUSH_REPLY)
		said_reply(e, m.context);
}

/* ---- Messages as they arrive ----------------------------------------------------------------- */

/* Not of a pool that has gone meanwhile, whose index another has. */
static void heard_run(struct cdw_end *e, const struct push_run *run)
{
	struct cdw_pool *p = &cdw_peer(e)->book.pools[run->pool % CDW_POOLS_MAX];

	for (uint32_t i = run->first; i < run->first + run->count; i++) {
		if (p->is_used && p->is_known && i < p->elements &&
		    p->elements_of[i].turn == CDW_ON_ITS_WAY)
			p->elements_of[i].turn = CDW_INITIATORS;
	}
}

static void heard_pools(struct cdw_end *e, const struct push_msg *m)
{
	struct rd r = rd_of(m->pools.bytes, (size_t)m->pools.count * PUSH_POOL_BYTES);

	for (uint32_t i = 0; i < m->pools.count; i++) {
		const struct push_pool is = push_pool_next(&r);

		cdw_peer(e)->book.pools[is.index % CDW_POOLS_MAX].is_known = true;
	}
}

static void heard_release(struct cdw_end *e, const struct push_msg *m)
{
	struct rd r = rd_of(m->references.bytes,
			    (size_t)m->references.count * PUSH_REFERENCE_BYTES);

	for (uint32_t i = 0; i < m->references.count; i++)
		e->book.pools[push_reference_next(&r) % CDW_POOLS_MAX].is_end_known = true;
}

static void heard_reply(struct cdw_end *e, uint64_t context)
{
	for (uint32_t i = 0; i < CDW_POOLS_MAX; i++) {
		struct cdw_pool *p = &e->book.pools[i];

		if (p->is_used && p->flush == context)
			p->is_end_known = true;
	}
}

void cdw_judge_heard(struct cdw_end *e, const uint8_t *bytes, size_t length)
{
	struct push_msg m = { 0 };
	struct rd r;

	if (push_msg_decode(&m, bytes, length) != WEFT_OK)
		return; /* the link says why */
	if (m.function == PUSH_RELEASE_REQUEST)
		heard_release(e, &m);
	else if (m.function == PUSH_FLUSH_REPLY)
		heard_reply(e, m.context);
	if (!target_of(e))
		return;
	if (m.function == PUSH_RECV_POOL)
		heard_pools(e, &m);
	else if (m.function == PUSH_RECV_POOL_UPDATE)
		for (r = rd_of(m.runs.bytes, (size_t)m.runs.count * PUSH_RUN_BYTES);
		     m.runs.count > 0; m.runs.count--) {
			const struct push_run run = push_run_next(&r);

			heard_run(e, &run);
		}
	else if (m.function == PUSH_PULL)
		heard_run(e, &m.pull);
}
