/* SPDX-License-Identifier: BSD-2-Clause */
#include "lan/vring.h"

#include <stddef.h>
#include <string.h>

enum {
	DESCRIPTOR_BYTES = 16,
	USED_BYTES = 8,
	INDEX_AT = 2,
	RING_AT = 4,
	ALIGN_DESCRIPTORS = 16,
	ALIGN_AVAILABLE = 2,
	ALIGN_USED = 4,
	FLAG_NEXT = 1,
	FLAG_WRITE = 2,
	FLAG_INDIRECT = 4,
	NO_INTERRUPT = 1,
};

/* One chain of buffers, looked up. */
struct chain {
	uint16_t head;
	uint32_t count;
	size_t length;
	struct span spans[LAN_CHAIN_MAX];
};

struct descriptor {
	uint64_t address;
	uint32_t length;
	uint16_t flags, next;
};

/* The table that a chain is in: the ring's, or one of its own. */
struct table {
	const uint8_t *at;
	uint32_t size;
};

/* Aligned in memory, as lan_vring_place() has checked; little endian, as weft's processors are. */
static uint16_t load16(const uint8_t *at)
{
	return __atomic_load_n((const uint16_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

static void store16(uint8_t *at, uint16_t value)
{
	__atomic_store_n((uint16_t *)(void *)at, value, __ATOMIC_RELEASE);
}

static bool is_within(uint64_t base, uint64_t bytes, uint64_t address, uint64_t length)
{
	return address >= base && address - base <= bytes && length <= bytes - (address - base);
}

static uint8_t *guest_at(const struct lan_guest *g, uint64_t address, uint64_t length)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct lan_guest_region *r = &g->regions[i];

		if (is_within(r->is.guest, r->is.length, address, length))
			return r->at + (address - r->is.guest);
	}
	return NULL;
}

static uint8_t *user_at(const struct lan_guest *g, uint64_t address, uint64_t length,
			uint32_t alignment)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct lan_guest_region *r = &g->regions[i];
		uint8_t *at = r->at + (address - r->is.user);

		if (is_within(r->is.user, r->is.length, address, length))
			return (uintptr_t)at % alignment == 0 ? at : NULL;
	}
	return NULL;
}

bool lan_guest_is_good(const struct lan_guest *g)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct vhost_region *a = &g->regions[i].is;

		if (a->length == 0 || a->guest + a->length < a->guest ||
		    a->user + a->length < a->user || a->offset + a->length < a->offset)
			return false;
		for (uint32_t k = 0; k < i; k++) {
			const struct vhost_region *b = &g->regions[k].is;

			if (a->guest < b->guest + b->length && b->guest < a->guest + a->length)
				return false;
		}
	}
	return true;
}

enum weft_reason lan_vring_size(struct lan_vring *v, uint32_t size)
{
	if (size == 0 || size > LAN_VRING_MAX || (size & (size - 1)) != 0)
		return WEFT_R_VHOST_RING;
	v->size = size;
	return WEFT_OK;
}

enum weft_reason lan_vring_place(struct lan_vring *v, const struct lan_guest *g,
				 const struct vhost_address *a)
{
	/* With the events behind the rings. */
	uint64_t available_bytes = RING_AT + (uint64_t)v->size * 2 + 2;
	uint64_t used_bytes = RING_AT + (uint64_t)v->size * USED_BYTES + 2;

	if (v->size == 0)
		return WEFT_R_VHOST_RING;
	v->descriptors = user_at(g, a->descriptors, (uint64_t)v->size * DESCRIPTOR_BYTES,
				 ALIGN_DESCRIPTORS);
	v->available = user_at(g, a->available, available_bytes, ALIGN_AVAILABLE);
	v->in_use = user_at(g, a->used, used_bytes, ALIGN_USED);
	if (!v->descriptors || !v->available || !v->in_use)
		return WEFT_R_VHOST_ADDRESS;
	v->used = v->told = load16(v->in_use + INDEX_AT);
	return WEFT_OK;
}

static struct descriptor descriptor_at(const struct table *t, uint32_t index)
{
	const uint8_t *at = t->at + (size_t)index * DESCRIPTOR_BYTES;
	struct descriptor d;

	memcpy(&d, at, sizeof(d));
	return d;
}

/*
 * A table of its own replaces the ring's, and ends the chain there; there is one level of them.
 * Whether the device may write the table is to be ignored (section 2.7.5.3.2).
 */
static enum weft_reason enter_indirect(struct table *t, const struct lan_guest *g,
				       const struct descriptor *d)
{
	if (d->length == 0 || d->length % DESCRIPTOR_BYTES || d->flags & FLAG_NEXT)
		return WEFT_R_VHOST_CHAIN;
	t->at = guest_at(g, d->address, d->length);
	t->size = d->length / DESCRIPTOR_BYTES;
	return t->at ? WEFT_OK : WEFT_R_VHOST_ADDRESS;
}

/* Looks up the buffers of a chain, all of one direction. */
static enum weft_reason chain_read(const struct lan_vring *v, const struct lan_guest *g,
				   bool is_writable, struct chain *c)
{
	struct table t = { v->descriptors, v->size };
	bool is_indirect = false;
	uint32_t index = c->head;

	c->count = 0;
	c->length = 0;
	/* Bound: a table is entered once, and LAN_CHAIN_MAX buffers are read. */
	for (;;) {
		struct descriptor d;
		uint8_t *at;

		if (index >= t.size)
			return WEFT_R_VHOST_CHAIN;
		d = descriptor_at(&t, index);
		if (d.flags & FLAG_INDIRECT) {
			enum weft_reason r = is_indirect ? WEFT_R_VHOST_CHAIN
							 : enter_indirect(&t, g, &d);

			if (r != WEFT_OK)
				return r;
			is_indirect = true;
			index = 0;
			continue;
		}
		if (!(d.flags & FLAG_WRITE) == is_writable || c->count == LAN_CHAIN_MAX)
			return WEFT_R_VHOST_CHAIN;
		at = guest_at(g, d.address, d.length);
		if (!at)
			return WEFT_R_VHOST_ADDRESS;
		c->spans[c->count++] = (struct span){ at, d.length };
		c->length += d.length;
		if (!(d.flags & FLAG_NEXT))
			return WEFT_OK;
		index = d.next;
	}
}

/* The head of the chain that is so many behind the last one taken. WEFT_OK, *got false: none. */
static enum weft_reason next_head(struct lan_vring *v, uint16_t behind, uint16_t *head, bool *got)
{
	uint32_t slot = (uint16_t)(v->seen + behind) & (v->size - 1);
	uint16_t waiting;

	v->made = load16(v->available + INDEX_AT);
	waiting = (uint16_t)(v->made - v->seen);
	*got = false;
	if (waiting > v->size)
		return WEFT_R_VHOST_RING;
	if (waiting <= behind)
		return WEFT_OK;
	*head = load16(v->available + RING_AT + (size_t)slot * 2);
	*got = true;
	return WEFT_OK;
}

static void put_used(struct lan_vring *v, uint16_t behind, uint16_t head, uint32_t bytes)
{
	uint32_t slot = (uint16_t)(v->used + behind) & (v->size - 1);
	const uint32_t element[2] = { head, bytes };

	memcpy(v->in_use + RING_AT + (size_t)slot * USED_BYTES, element, sizeof(element));
}

static void give_back(struct lan_vring *v, uint16_t count)
{
	v->seen = (uint16_t)(v->seen + count);
	v->used = (uint16_t)(v->used + count);
	store16(v->in_use + INDEX_AT, v->used);
}

/* Copies bytes of the chain from this offset on; they are there. */
static void chain_copy(const struct chain *c, size_t from, uint8_t *bytes, size_t length,
		       bool is_into)
{
	for (uint32_t i = 0; i < c->count && length > 0; i++) {
		size_t n = c->spans[i].length;

		if (from >= n) {
			from -= n;
			continue;
		}
		n = n - from < length ? n - from : length;
		if (is_into)
			memcpy(c->spans[i].bytes + from, bytes, n);
		else
			memcpy(bytes, c->spans[i].bytes + from, n);
		bytes += n;
		length -= n;
		from = 0;
	}
}

enum weft_reason lan_vring_receive(struct lan_vring *v, const struct lan_guest *g,
				   uint32_t header_bytes, struct lan_frame *f, bool *got)
{
	uint8_t header[VIRTIO_NET_BUFFERS_BYTES];
	struct chain c;
	enum weft_reason r = next_head(v, 0, &c.head, got);

	if (r != WEFT_OK || !*got)
		return r;
	r = chain_read(v, g, false, &c);
	if (r != WEFT_OK)
		return r;
	if (c.length < header_bytes)
		return WEFT_R_VHOST_CHAIN;
	f->net = (struct virtio_net){ 0 };
	if (c.length - header_bytes > f->room || c.length - header_bytes > LAN_FRAME_MAX) {
		r = WEFT_R_LAN_LONG;
	} else {
		chain_copy(&c, 0, header, header_bytes, false);
		virtio_net_decode(&f->net, header, header_bytes);
		/* A driver says nothing else, and is not believed it (section 5.1.6.2.1). */
		f->net.flags &= VIRTIO_NET_NEEDS_CSUM;
		f->length = (uint32_t)(c.length - header_bytes);
		chain_copy(&c, header_bytes, f->bytes, f->length, false);
	}
	put_used(v, 0, c.head, 0);
	give_back(v, 1);
	return r;
}

/* Buffers of the guest for one frame. */
struct gathering {
	uint32_t count;
	uint16_t heads[LAN_CHAINS_MAX];
	uint32_t written[LAN_CHAINS_MAX];
};

/* Fills the next chain with bytes of header and frame, from this offset on. */
static uint32_t chain_fill(const struct chain *c, const struct lan_frame *f, size_t header_bytes,
			   size_t from)
{
	size_t total = header_bytes + f->length - from, n = c->length < total ? c->length : total;
	size_t skip = from == 0 ? header_bytes : 0;

	/* The header is written last, when it is known how many chains there are. */
	chain_copy(c, skip, f->bytes + (from == 0 ? 0 : from - header_bytes), n - skip, true);
	return (uint32_t)n;
}

enum weft_reason lan_vring_send(struct lan_vring *v, const struct lan_guest *g,
				const struct lan_vring_form *form, const struct lan_frame *f,
				bool *done)
{
	size_t total = form->header_bytes + f->length, at = 0;
	uint8_t header[VIRTIO_NET_BUFFERS_BYTES];
	struct virtio_net net = f->net;
	struct gathering all = { 0 };
	struct chain first, more;
	bool got;

	first.count = 0;
	*done = false;
	/* Bound: each round takes a chain, at most LAN_CHAINS_MAX. */
	for (; at < total; all.count++) {
		struct chain *c = all.count == 0 ? &first : &more;
		enum weft_reason r = next_head(v, (uint16_t)all.count, &c->head, &got);

		if (r != WEFT_OK || !got)
			return r;
		r = chain_read(v, g, true, c);
		if (r != WEFT_OK)
			return r;
		if (c->length <= form->header_bytes)
			return WEFT_R_VHOST_CHAIN;
		if ((c->length < total && !form->may_merge) || all.count == LAN_CHAINS_MAX)
			return WEFT_R_LAN_LONG;
		all.heads[all.count] = c->head;
		all.written[all.count] = chain_fill(c, f, form->header_bytes, at);
		at += all.written[all.count];
	}
	net.buffers = (uint16_t)all.count;
	virtio_net_encode(&net, header);
	chain_copy(&first, 0, header, form->header_bytes, true);
	for (uint32_t i = 0; i < all.count; i++)
		put_used(v, (uint16_t)i, all.heads[i], all.written[i]);
	give_back(v, (uint16_t)all.count);
	*done = true;
	return WEFT_OK;
}

bool lan_vring_wants_call(struct lan_vring *v)
{
	uint16_t was = v->told, event;

	if (v->used == was)
		return false;
	v->told = v->used;
	/* What was given back is seen before the guest's wish is. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!v->has_event_idx)
		return !(load16(v->available) & NO_INTERRUPT);
	event = load16(v->available + RING_AT + (size_t)v->size * 2);
	/* Section 2.7.10: whether used passed the event since. */
	return (uint16_t)(v->used - event - 1) < (uint16_t)(v->used - was);
}

bool lan_vring_ask_kick(struct lan_vring *v)
{
	if (v->has_event_idx)
		store16(v->in_use + RING_AT + (size_t)v->size * USED_BYTES, v->made);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return load16(v->available + INDEX_AT) != v->made;
}
