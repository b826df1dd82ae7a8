/* SPDX-License-Identifier: BSD-2-Clause */
/* What goes to the other end, in which order: control before data, data in order. */
#include "push/link_inside.h"

enum {
	BATCH = 16,	  /* indications that go although others are under way */
	GETS_DOUBLED = 10 /* times that the pause between two BufferRecvPoolGet doubles */
};

/* Act ids: which sort, which slot of it. */
static uint64_t act_id(enum push_act_kind kind, uint32_t slot)
{
	return (uint64_t)kind << 32 | slot;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static bool registration_act(struct push_link *l, struct push_act *act)
{
	for (uint32_t i = 0; i < l->config.own_pools_max && l->own_due > 0; i++) {
		struct own_pool *p = &l->own[i];
		bool is_new = p->state == OWN_POOL_NEW;

		if (!is_new && p->state != OWN_POOL_OVER)
			continue;
		own_pool_move(l, p, is_new ? OWN_POOL_REGISTERING : OWN_POOL_LEAVING);
		*act = (struct push_act){
			.kind = is_new ? PUSH_ACT_REGISTER : PUSH_ACT_DEREGISTER,
			.id = act_id(is_new ? PUSH_ACT_REGISTER : PUSH_ACT_DEREGISTER, i),
			.bytes = p->config.memory,
			.length = (uint64_t)p->config.elements * p->config.element_bytes,
			.handle = p->handle,
		};
		return true;
	}
	return false;
}

/*
 * ---- Messages: each writes its entries behind the header, if there are any --------------------
 */

/* BufferRDMAIndicate (PUSH-16g). One at a time unless many wait, so that they gather under load. */
static uint32_t indicate_entries(struct push_link *l, struct wr *w)
{
	uint32_t count = 0, max = l->config.hello.elements_max;

	if (l->untolds.count == 0 ||
	    (l->uses_under_way[PUSH_USE_INDICATE] > 0 && l->untolds.count < BATCH))
		return 0;
	while (l->untolds.count > 0 && count < PUSH_INDICATE_MAX) {
		const struct push_used u = l->untold[queue_take(&l->untolds, max)];

		push_used_put(&u, w);
		peer_told(l, &u);
		count++;
	}
	return count;
}

/* Ready elements that follow each other are one run. */
static uint32_t pool_runs(struct push_link *l, struct own_pool *p, uint32_t room, struct wr *w)
{
	struct push_run run = { .pool = (uint32_t)(p - l->own) };
	uint32_t count = 0;

	while (p->ready.count > 0) {
		uint32_t next = l->own_elements.queue[p->base + p->ready.head];

		if (run.count > 0 && next != run.first + run.count) {
			push_run_put(&run, w);
			run.count = 0;
		}
		if (run.count == 0) {
			if (count == room)
				return count;
			run.first = next;
			count++;
		}
		(void)own_element_give(l, p);
		run.count++;
	}
	if (run.count > 0)
		push_run_put(&run, w);
	return count;
}

/* BufferRecvPoolUpdate (PUSH-16c): of all pools, one at a time. */
static uint32_t update_entries(struct push_link *l, struct wr *w)
{
	uint32_t count = 0;

	if (!l->is_update_due || l->uses_under_way[PUSH_USE_UPDATE] > 0 || l->peer.is_pull)
		return 0;
	for (uint32_t i = 0; i < l->config.own_pools_max && count < PUSH_UPDATE_RUNS_MAX; i++) {
		struct own_pool *p = &l->own[i];

		if (p->state == OWN_POOL_OPEN)
			count += pool_runs(l, p, PUSH_UPDATE_RUNS_MAX - count, w);
	}
	l->is_update_due = count == PUSH_UPDATE_RUNS_MAX;
	return count;
}

/* BufferRecvPool (PUSH-16a). */
static uint32_t pool_entries(struct push_link *l, struct wr *w)
{
	uint32_t count = 0;

	for (uint32_t i = 0;
	     i < l->config.own_pools_max && l->own_due > 0 && count < PUSH_ADVERT_POOLS_MAX; i++) {
		struct own_pool *p = &l->own[i];
		const struct push_pool is = { .index = i,
					      .handle = p->handle,
					      .elements = p->config.elements,
					      .element_bytes = p->config.element_bytes,
					      .address = (uint64_t)(uintptr_t)p->config.memory,
					      .context = p->config.context };

		if (p->state != OWN_POOL_REGISTERED)
			continue;
		own_pool_advertised(l, p);
		push_pool_put(&is, w);
		count++;
	}
	return count;
}

/* BufferPoolFlushRequest of the target (PUSH-16d). */
static uint32_t flush_entries(struct push_link *l, uint64_t context, struct wr *w)
{
	uint32_t count = 0;

	for (uint32_t i = 0;
	     i < l->config.own_pools_max && l->own_due > 0 && count < PUSH_FLUSH_POOLS_MAX; i++) {
		if (l->own[i].state != OWN_POOL_FLUSHING)
			continue;
		own_pool_move(l, &l->own[i], OWN_POOL_ASKED);
		l->own[i].flush = context;
		push_reference_put(i, w);
		count++;
	}
	return count;
}

/* The same of the initiator: of pools that no Write of this end is under way to. */
static uint32_t release_entries(struct push_link *l, uint64_t context, struct wr *w)
{
	uint32_t count = 0;

	for (uint32_t i = 0;
	     i < l->config.hello.pools_max && l->peer_due > 0 && count < PUSH_FLUSH_POOLS_MAX;
	     i++) {
		struct peer_pool *p = &l->peers[i];

		if (p->state != PEER_POOL_RELEASING || p->writing > 0 || p->untold > 0)
			continue;
		peer_pool_move(l, p, PEER_POOL_ASKED);
		p->release = context;
		push_reference_put(i, w);
		count++;
	}
	return count;
}

/* The functions whose body is a list, in the order in which they go. */
static bool list_next(struct push_link *l, struct push_msg *m, struct wr *w)
{
	/* They go before a BufferRecvPool that uses an index anew. */
	if (l->replies_due.count > 0) {
		m->function = PUSH_FLUSH_REPLY;
		m->context = l->replies[queue_take(&l->replies_due, l->replies_max)];
		return true;
	}
	m->context = l->contexts + 1;
	m->function = PUSH_RDMA_INDICATE;
	m->pools.count = indicate_entries(l, w);
	if (m->pools.count == 0) {
		m->function = PUSH_RECV_POOL_UPDATE;
		m->pools.count = update_entries(l, w);
	}
	if (m->pools.count == 0) {
		m->function = PUSH_FLUSH_REQUEST;
		m->pools.count = flush_entries(l, m->context, w);
	}
	if (m->pools.count == 0) {
		m->function = PUSH_RELEASE_REQUEST;
		m->pools.count = release_entries(l, m->context, w);
	}
	if (m->pools.count == 0 && l->state == PUSH_OPEN) {
		m->function = PUSH_RECV_POOL;
		m->pools.count = pool_entries(l, w);
	}
	l->contexts += m->pools.count > 0;
	return m->pools.count > 0;
}

/*
 * BufferRecvPoolGet (PUSH-16b): the first packet that waits, and how many wait. An end that returns
 * nothing is asked less and less often: what it returns it says of itself.
 */
static bool get_next(struct push_link *l, uint64_t now_ns, struct push_msg *m)
{
	const struct push_out *o;

	if (now_ns < l->get_at_ns || list_is_empty(&l->waiting))
		return false;
	o = CONTAINER_OF(l->waiting.next, struct push_out, link);
	l->gets += l->gets < GETS_DOUBLED;
	l->get_at_ns = now_ns + (l->config.get_again_ns << l->gets);
	*m = (struct push_msg){ .function = PUSH_RECV_POOL_GET,
				.context = ++l->contexts,
				.get = { o->is.length, l->waiting_count } };
	return true;
}

/* Of an end that is asked for packets: one element (PUSH-04). */
static bool pull_next(struct push_link *l, struct push_msg *m)
{
	struct own_pool *p = l->peer.is_pull && l->state == PUSH_OPEN ? own_pull_pool(l) : NULL;

	if (!p)
		return false;
	*m = (struct push_msg){ .function = PUSH_PULL,
				.context = ++l->contexts,
				.pull = { (uint32_t)(p - l->own), own_element_give(l, p), 1 } };
	return true;
}

static struct push_out *waiting_take(struct push_link *l)
{
	l->waiting_count--;
	l->get_at_ns = UINT64_MAX;
	l->gets = 0;
	return CONTAINER_OF(list_pop(&l->waiting), struct push_out, link);
}

/* Packets that waited until both ends agreed on shorter ones are not sent. */
static void waiting_check(struct push_link *l)
{
	while (!list_is_empty(&l->waiting)) {
		struct push_out *o = CONTAINER_OF(l->waiting.next, struct push_out, link);

		if (link_length_is_good(l, o->is.length, true))
			return;
		(void)waiting_take(l);
		o->reason = WEFT_R_PUSH_FRAME;
		list_add_tail(&l->over, &o->link);
	}
}

/* Small packets go in messages, unless this end sends only what is asked for. */
static bool is_inline(const struct push_link *l, const struct push_out *o)
{
	return o->is.length <= l->config.inline_bytes && !l->config.hello.is_pull;
}

/* SendData (PUSH-16f): of small packets, or where no pool is. It leaves a buffer to control. */
static bool data_next(struct push_link *l, struct push_msg *m)
{
	struct push_out *o;

	if (list_is_empty(&l->waiting) || l->sends + 2 > l->config.sends_max || !link_is_rdma(l))
		return false;
	o = CONTAINER_OF(l->waiting.next, struct push_out, link);
	if (!is_inline(l, o) || l->untolds.count > 0 /* those were written before it */ ||
	    cfg_holds_packets(l))
		return false;
	(void)waiting_take(l);
	*m = (struct push_msg){ .function = PUSH_SEND_DATA,
				.context = ++l->contexts,
				.data = { o->is.bytes, o->is.length } };
	/* Its bytes are copied now. */
	list_add_tail(&l->over, &o->link);
	l->counts.packets_out++;
	l->counts.bytes_out += o->is.length;
	return true;
}

static uint32_t buffer_free(const struct push_link *l)
{
	uint32_t i = 0;

	while (l->uses[i] != PUSH_USE_NONE)
		i++;
	return i;
}

static enum push_use use_of(enum push_function function)
{
	return function == PUSH_RDMA_INDICATE	   ? PUSH_USE_INDICATE
	       : function == PUSH_RECV_POOL_UPDATE ? PUSH_USE_UPDATE
						   : PUSH_USE_OTHER;
}

static bool message_act(struct push_link *l, uint64_t now_ns, struct push_act *act)
{
	struct push_msg m = { 0 };
	uint8_t entries[PUSH_BODY_BYTES_MAX];
	struct wr into = wr_of(entries, sizeof(entries)), w;
	uint32_t slot;

	if (l->sends == l->config.sends_max)
		return false;
	if (!cfg_next(l, now_ns, &m) &&
	    (!link_is_live(l) || !link_is_rdma(l) || !list_next(l, &m, &into)) &&
	    !pull_next(l, &m) && !get_next(l, now_ns, &m) && !data_next(l, &m))
		return false;
	if (into.at > entries)
		m.pools.bytes = entries;
	slot = buffer_free(l);
	act->bytes = l->config.messages + (size_t)slot * PUSH_MSG_BYTES_MAX;
	w = wr_of(l->config.messages + (size_t)slot * PUSH_MSG_BYTES_MAX, PUSH_MSG_BYTES_MAX);
	push_msg_encode(&m, &w);
	CHECK(!w.is_short);
	*act = (struct push_act){ .kind = PUSH_ACT_SEND,
				  .id = act_id(PUSH_ACT_SEND, slot),
				  .bytes = act->bytes,
				  .length = (uint64_t)(w.at - act->bytes),
				  .is_urgent = m.function != PUSH_RECV_POOL_UPDATE };
	l->uses[slot] = use_of(m.function);
	l->uses_under_way[l->uses[slot]]++;
	l->sends++;
	l->counts.messages_out++;
	return true;
}

/* ---- Packets --------------------------------------------------------------------------------- */

/* The first packet that waits finds no element: it waits on, and asks in time (PUSH-24). */
static void waits(struct push_link *l, struct push_out *o, uint64_t now_ns)
{
	if (!o->has_waited) {
		l->counts.waits++;
		l->waits_ns = now_ns;
	}
	o->has_waited = true;
	if (l->get_at_ns == UINT64_MAX && !l->config.hello.is_pull)
		l->get_at_ns = peer_pools_fit(l, o->is.length) ? now_ns + l->config.get_again_ns
							       : now_ns;
}

static void write_into(struct push_link *l, struct push_out *o, struct peer_pool *p,
		       struct push_act *act)
{
	const struct push_used used = { p->is.index, peer_element_take(l, p), p->is.element_bytes,
					o->is.length };
	const struct push_immediate i = { used.pool, used.element, used.element_bytes };

	o->pool = used.pool;
	o->element = used.element;
	act->kind = PUSH_ACT_WRITE;
	act->address = p->is.address + (uint64_t)used.element * p->is.element_bytes;
	act->handle = p->is.handle;
	/* Not before what was written before it. */
	act->has_immediate = l->untolds.count == 0 && peer_is_immediate(l, p);
	if (act->has_immediate) {
		act->immediate = push_immediate_encode(&i);
		return;
	}
	l->untold[queue_add(&l->untolds, l->config.hello.elements_max)] = used;
	p->untold++;
}

static bool packet_act(struct push_link *l, uint64_t now_ns, struct push_act *act)
{
	struct peer_pool *p = NULL;
	struct push_out *o;

	if (list_is_empty(&l->waiting) || l->writes == l->config.writes_max || cfg_holds_packets(l))
		return false;
	o = CONTAINER_OF(l->waiting.next, struct push_out, link);
	if (link_is_rdma(l) && is_inline(l, o))
		return false; /* in order, when a buffer is free */
	if (link_is_rdma(l)) {
		p = peer_pool_for(l, o->is.length);
		if (!p) {
			waits(l, o, now_ns);
			return false;
		}
	}
	(void)waiting_take(l);
	*act = (struct push_act){ .kind = PUSH_ACT_SEND_PACKET,
				  .bytes = o->is.bytes,
				  .length = o->is.length,
				  .cookie = o->is.cookie };
	if (p)
		write_into(l, o, p, act);
	act->id = act_id(act->kind, (uint32_t)(o - l->packets));
	l->writes++;
	l->counts.writes += p != NULL;
	l->counts.packets_out++;
	l->counts.bytes_out += o->is.length;
	return true;
}

bool push_act(struct push_link *l, uint64_t now_ns, struct push_act *act)
{
	if (registration_act(l, act))
		return true;
	if (l->is_lost || l->state == PUSH_DOWN || l->state == PUSH_ENDED)
		return false;
	waiting_check(l);
	/* A packet that finds no pool may ask for one at once. */
	return message_act(l, now_ns, act) || packet_act(l, now_ns, act) ||
	       (now_ns >= l->get_at_ns && message_act(l, now_ns, act));
}
