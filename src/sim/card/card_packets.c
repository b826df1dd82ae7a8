/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of packets: which come, in which order, and which bytes of memory may change. */
#include <string.h>

#include "base/prng.h"
#include "sim/card/card_world.h"

/* Tells each packet of each connection from all others. */
static uint64_t key_of(const struct cdw_end *sender, uint64_t number)
{
	return prng_mix((uint64_t)sender->serial << 33 | (uint64_t)(sender->index % 2) << 32) +
	       number;
}

static uint64_t word_of(uint64_t key, uint32_t nth)
{
	return prng_mix(key * UINT64_C(0x9e3779b97f4a7c15) + nth);
}

static void pattern(uint64_t key, uint8_t *bytes, uint32_t length)
{
	for (uint32_t at = 0; at < length; at += 8) {
		uint64_t word = word_of(key, at);

		memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
	}
}

static bool is_pattern(uint64_t key, const uint8_t *bytes, uint32_t length)
{
	for (uint32_t at = 0; at < length; at += 8) {
		uint64_t word = word_of(key, at);

		if (memcmp(bytes + at, &word, length - at < 8 ? length - at : 8) != 0)
			return false;
	}
	return true;
}

void cdw_packet_fill(struct cdw_end *e, uint32_t slot, uint64_t number, uint32_t length)
{
	pattern(key_of(e, number), cdw_at(e, CDW_AT_PACKETS + slot * CDW_PACKET_BYTES), length);
	e->book.packets[number % CDW_LOG] = (struct cdw_packet){ .sent_ns = e->world->world.now_ns,
								 .length = length };
}

/* ---- What comes ------------------------------------------------------------------------------ */

static bool is_number(struct cdw_end *e, uint64_t n, const uint8_t *bytes, uint32_t length)
{
	struct cdw_end *sender = cdw_peer(e);
	const struct cdw_packet *p = &sender->book.packets[n % CDW_LOG];

	if (p->length != length || !is_pattern(key_of(sender, n), bytes, length))
		return false;
	e->world->latency_ns += e->world->world.now_ns - p->sent_ns;
	return true;
}

/* RDMA mode: the very next one that was sent. Send mode: any, as the wire brings them. */
static bool is_found(struct cdw_end *e, const uint8_t *bytes, uint32_t length)
{
	const struct cdw_book *sender = &cdw_peer(e)->book;
	uint64_t sent = sender->sent;

	while (e->book.came < sent && sender->packets[e->book.came % CDW_LOG].is_void)
		e->book.came++;
	e->book.got++;
	if (e->world->limits.mode == PUSH_MODE_RDMA)
		return e->book.came < sent && is_number(e, e->book.came++, bytes, length);
	for (uint64_t n = sent; n-- > 0 && sent - n < CDW_LOG;) {
		if (is_number(e, n, bytes, length))
			return true;
	}
	return false;
}

/* PUSH-23: it is in the element that was told. */
static void in_element(struct cdw_end *e, const struct push_event *event, const uint8_t *bytes)
{
	struct cdw_element *x = cdw_element_of(e, event->pool, event->element);
	const struct cdw_pool *p = &e->book.pools[event->pool % CDW_POOLS_MAX];
	uint32_t at = p->at + event->element * p->element_bytes;

	if (!x)
		return;
	if (bytes != cdw_at(e, at) || x->turn != CDW_WRITTEN || x->is_untold ||
	    x->bytes != event->length || x->number + 1 != e->book.came) {
		cdw_fail(e->world, "end %u is told of element %u of pool %u wrongly", e->index,
			 event->element, event->pool);
		return;
	}
	x->turn = CDW_CONSUMERS;
	memcpy(e->shadow + at - CDW_AT_POOLS, bytes, event->length);
	e->kept[e->kept_count++] = (struct cdw_kept){ event->pool, event->element, x->number,
						      event->length };
}

void cdw_packet_came(struct cdw_end *e, const struct push_event *event)
{
	const uint8_t *bytes = event->bytes;

	/* Elements are named by the addresses that the end's adapter knows. */
	if (event->is_returned)
		bytes = cdw_at(e, 0) + ((uintptr_t)event->bytes - cdw_addr(e, 0));
	if (!is_found(e, bytes, event->length)) {
		cdw_fail(e->world, "end %u: packet %llu of %u bytes is not the one that was sent",
			 e->index, (unsigned long long)e->book.came, event->length);
		return;
	}
	e->world->packets++;
	e->world->came[e->index % 2]++;
	e->world->bytes += event->length;
	cdw_trace(e->world, CDW_TRACE_CAME, e->index, e->book.got - 1, event->length);
	if (event->is_returned)
		in_element(e, event, bytes);
}

/* AMB-41: a corrupted frame may have been placed, and not where it belongs, before its CRC came. */
static bool is_tainted(const struct cdw_end *e)
{
	return e->world->limits.wire == CDW_IWARP &&
	       e->world->links[e->index / 2].ends[e->index % 2].is_corrupted;
}

/* What a consumer has, stays as it is. */
void cdw_packet_judge_kept(struct cdw_end *e, const struct cdw_kept *k)
{
	const struct cdw_pool *p = &e->book.pools[k->pool];

	if (!is_tainted(e) &&
	    !is_pattern(key_of(cdw_peer(e), k->number),
			cdw_at(e, p->at + k->element * p->element_bytes), k->bytes))
		cdw_fail(e->world, "end %u: element %u of pool %u changed at its consumer",
			 e->index, k->element, k->pool);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool is_same(const struct cdw_end *e, uint32_t at, uint32_t bytes)
{
	return memcmp(cdw_at(e, at), e->shadow + at - CDW_AT_POOLS, bytes) == 0;
}

/* What is being written has any bytes, as far as the Write goes. */
static void pool_judge(struct cdw_end *e, const struct cdw_pool *p)
{
	for (uint32_t i = 0; i < p->elements && !is_tainted(e); i++) {
		const struct cdw_element *x = &p->elements_of[i];
		uint32_t any = p->is_registered && x->turn == CDW_WRITTEN ? x->bytes : 0;
		uint32_t at = p->at + i * p->element_bytes;

		if (!is_same(e, at + any, p->element_bytes - any))
			cdw_fail(e->world, "end %u: element %u of pool %u changed, not written",
				 e->index, i, (uint32_t)(p - e->book.pools));
	}
	if (!is_same(e, p->at + p->elements * p->element_bytes,
		     e->world->limits.pool_bytes - p->elements * p->element_bytes))
		cdw_fail(e->world, "end %u: memory behind pool %u changed", e->index,
			 (uint32_t)(p - e->book.pools));
}

void cdw_pool_accept(struct cdw_end *e, const struct cdw_pool *p)
{
	uint32_t bytes = p->elements * p->element_bytes;

	pool_judge(e, p);
	memcpy(e->shadow + p->at - CDW_AT_POOLS, cdw_at(e, p->at), bytes);
}

/* Behind the last slot there is room, and no pool. */
static bool has_pool_at(const struct cdw_end *e, uint32_t at)
{
	uint32_t slot = (at - CDW_AT_POOLS) / e->world->limits.pool_bytes;

	return slot < CDW_POOLS_MAX && e->slot_used[slot];
}

void cdw_memory_judge(struct cdw_node *n)
{
	uint32_t slot_bytes = n->world->limits.pool_bytes;

	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		struct cdw_end *e = &n->world->ends[i];

		for (uint32_t p = 0; p < CDW_POOLS_MAX && e->node == n->index; p++) {
			if (e->book.pools[p].is_used)
				pool_judge(e, &e->book.pools[p]);
		}
		for (uint32_t at = CDW_AT_POOLS;
		     e->node == n->index && at + slot_bytes <= CDW_END_BYTES; at += slot_bytes) {
			if (!has_pool_at(e, at) && !is_same(e, at, slot_bytes))
				cdw_fail(n->world, "end %u: memory of no pool changed", e->index);
		}
	}
}
