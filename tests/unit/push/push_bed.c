/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/push/push_bed.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static void *must_calloc(size_t count, size_t bytes)
{
	void *p = calloc(count, bytes);

	REQUIRE(p);
	return p;
}

struct bed *bed_create(enum push_mode mode)
{
	struct bed *b = must_calloc(1, sizeof(*b));

	b->now_ns = 1000 * BED_MS;
	b->is_eager = true;
	for (int i = 0; i < 2; i++) {
		struct bed_end *e = &b->ends[i];

		push_config_init(&e->config, i == BED_HOST ? PUSH_HOST : PUSH_UNIT, mode);
		e->config.messages = e->messages;
		e->config.sends_max = BED_SENDS;
		e->config.hello.mac[5] = (uint8_t)(7 + i);
		e->memory = must_calloc(1, BED_MEMORY);
		e->is_occupied = must_calloc(BED_MEMORY / BED_GRAIN, sizeof(bool));
		e->items = must_calloc(BED_ITEMS, sizeof(*e->items));
		e->dones = must_calloc(BED_ITEMS, sizeof(*e->dones));
		e->events = must_calloc(BED_EVENTS, sizeof(*e->events));
	}
	return b;
}

void bed_make(struct bed *b)
{
	for (int i = 0; i < 2; i++)
		MUST(push_link_create(&b->ends[i].config, &b->ends[i].link));
}

struct bed *bed_both_pools(void)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, 8, 2048);
	bed_pool(b, BED_UNIT, 8, 2048);
	bed_up(b);
	return b;
}

void bed_destroy(struct bed *b)
{
	for (int i = 0; i < 2; i++) {
		push_link_destroy(b->ends[i].link);
		free(b->ends[i].memory);
		free(b->ends[i].is_occupied);
		free(b->ends[i].items);
		free(b->ends[i].dones);
		free(b->ends[i].events);
	}
	free(b);
}

uint32_t bed_pool(struct bed *b, int end, uint32_t elements, uint32_t element_bytes)
{
	struct bed_end *e = &b->ends[end];
	struct push_pool_config c = { e->memory + e->memory_used, elements, element_bytes, 9 };
	uint32_t index = 0;

	REQUIRE((size_t)elements * element_bytes <= BED_MEMORY - e->memory_used);
	MUST(push_pool_open(e->link, &c, &index));
	e->memory_used += (size_t)elements * element_bytes;
	e->pools[index] = c;
	return index;
}

void bed_up(struct bed *b)
{
	push_up(b->ends[BED_UNIT].link, b->now_ns);
	push_up(b->ends[BED_HOST].link, b->now_ns);
	bed_run(b);
}

/* ---- Acts ------------------------------------------------------------------------------------ */

static struct bed_item *item_to(struct bed *b, int end)
{
	struct bed_end *e = &b->ends[end];

	REQUIRE(e->item_count < BED_ITEMS);
	return &e->items[(e->item_first + e->item_count++) % BED_ITEMS];
}

static void send(struct bed *b, int end, const struct push_act *act, int kind)
{
	struct bed_item *item;
	struct push_msg m;

	if (kind == BED_MESSAGE) {
		MUST(push_msg_decode(&m, act->bytes, act->length));
		b->ends[end].sent[m.function]++;
	}
	if (b->is_lossy) {
		b->is_lossy = false;
		return;
	}
	item = item_to(b, 1 - end);
	item->kind = kind;
	item->length = act->length;
	memcpy(item->bytes, act->bytes, act->length);
}

/* As an adapter does: into memory that is registered under this handle, and nowhere else. */
static void write_into(struct bed *b, int end, const struct push_act *act)
{
	struct bed_end *to = &b->ends[1 - end];
	uint64_t offset = act->address - (uint64_t)(uintptr_t)to->memory;
	struct bed_item *item;

	REQUIRE(act->handle >> 16 == 1);
	REQUIRE(to->is_registered[act->handle & 0xffff]);
	REQUIRE(offset <= BED_MEMORY && act->length <= BED_MEMORY - offset);
	/* PUSH-24: what the consumer has not returned is not written again. */
	REQUIRE(!to->is_occupied[offset / BED_GRAIN]);
	to->is_occupied[offset / BED_GRAIN] = true;
	memcpy(to->memory + offset, act->bytes, act->length);
	b->ends[end].writes++;
	if (!act->has_immediate)
		return;
	b->ends[end].immediates++;
	item = item_to(b, 1 - end);
	item->kind = BED_WRITTEN;
	item->immediate = act->immediate;
	item->length = act->length;
}

static void later(struct bed *b, int end, uint64_t id)
{
	struct bed_end *e = &b->ends[end];

	if (!b->is_held) {
		push_done(e->link, id, WEFT_OK, b->now_ns);
		return;
	}
	REQUIRE(e->done_count < BED_ITEMS);
	e->dones[e->done_count++] = id;
}

bool bed_act(struct bed *b, int end)
{
	struct bed_end *e = &b->ends[end];
	struct push_act act;

	if (!push_act(e->link, b->now_ns, &act))
		return false;
	switch (act.kind) {
	case PUSH_ACT_SEND:
		send(b, end, &act, BED_MESSAGE);
		break;
	case PUSH_ACT_SEND_PACKET:
		send(b, end, &act, BED_PACKET);
		break;
	case PUSH_ACT_WRITE:
		write_into(b, end, &act);
		break;
	case PUSH_ACT_REGISTER:
		e->is_registered[(uint32_t)act.id] = true;
		push_registered(e->link, act.id, WEFT_OK, 0x10000 | (uint32_t)act.id);
		return true;
	case PUSH_ACT_DEREGISTER:
		REQUIRE(act.handle == (0x10000 | (uint32_t)act.id));
		e->is_registered[(uint32_t)act.id] = false;
		push_done(e->link, act.id, WEFT_OK, b->now_ns);
		return true;
	}
	later(b, end, act.id);
	return true;
}

void bed_done(struct bed *b, int end)
{
	struct bed_end *e = &b->ends[end];

	for (uint32_t i = 0; i < e->done_count; i++)
		push_done(e->link, e->dones[i], WEFT_OK, b->now_ns);
	e->done_count = 0;
}

/*
 * ---- What comes -------------------------------------------------------------------------------
 */

void bed_return(struct bed *b, int end, uint32_t pool, uint32_t element)
{
	struct bed_end *e = &b->ends[end];
	size_t at = (size_t)(e->pools[pool].memory - e->memory) +
		    (size_t)element * e->pools[pool].element_bytes;

	e->is_occupied[at / BED_GRAIN] = false;
	push_return(e->link, pool, element);
}

static void answer(struct bed *b, int end, const struct push_event *event)
{
	struct push_cfg c = *event->cfg;

	if (b->is_silent)
		return;
	c.reason = b->answer;
	if (c.kind == PUSH_HELLO)
		c.hello = b->ends[end].config.hello;
	push_answer(b->ends[end].link, &c);
}

static bool take_events(struct bed *b, int end)
{
	struct bed_end *e = &b->ends[end];
	struct push_event *event = &e->events[e->event_count];

	REQUIRE(e->event_count < BED_EVENTS);
	if (!push_event(e->link, event))
		return false;
	e->event_count++;
	if (event->kind == PUSH_EVENT_ASKED_CFG)
		answer(b, end, event);
	if (event->kind != PUSH_EVENT_PACKET)
		return true;
	for (uint32_t i = 1; i < event->length; i++)
		REQUIRE(event->bytes[i] == event->bytes[0]);
	if (event->is_returned && b->is_eager)
		bed_return(b, end, event->pool, event->element);
	return true;
}

bool bed_deliver(struct bed *b, int end)
{
	struct bed_end *e = &b->ends[end];
	struct bed_item *item = &e->items[e->item_first];
	enum weft_reason reason = WEFT_OK;

	if (e->item_count == 0)
		return false;
	e->item_first = (e->item_first + 1) % BED_ITEMS;
	e->item_count--;
	if (push_link_state(e->link) == PUSH_ENDED) /* its owner has closed the connection */
		return true;
	switch (item->kind) {
	case BED_MESSAGE:
		reason = push_take(e->link, item->bytes, item->length, b->now_ns);
		break;
	case BED_WRITTEN:
		reason = push_written(e->link, item->immediate, (uint32_t)item->length, b->now_ns);
		break;
	case BED_PACKET:
		reason = push_take_packet(e->link, item->bytes, item->length, b->now_ns);
		break;
	}
	if (reason != WEFT_OK)
		e->refused = reason;
	while (take_events(b, end))
		continue;
	return true;
}

void bed_run(struct bed *b)
{
	uint32_t bound = 100000;
	bool is_busy = true;

	while (is_busy) {
		is_busy = false;
		for (int i = 0; i < 2; i++) {
			while (bed_act(b, i) || take_events(b, i) || bed_deliver(b, i)) {
				is_busy = true;
				REQUIRE(--bound > 0);
			}
		}
	}
}

enum weft_reason bed_say(struct bed *b, int to, const struct push_msg *m)
{
	static uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));

	push_msg_encode(m, &w);
	REQUIRE(!w.is_short);
	return push_take(b->ends[to].link, bytes, (size_t)(w.at - bytes), b->now_ns);
}

enum weft_reason bed_packet(struct bed *b, int end, uint32_t length, uint64_t cookie)
{
	static uint8_t bytes[256][PUSH_PACKET_MAX + 2];
	struct push_packet p = { bytes[cookie % 256], length, cookie };

	memset(bytes[cookie % 256], (int)(cookie % 256), length);
	return push_packet(b->ends[end].link, &p, b->now_ns);
}

/*
 * ---- Looking ----------------------------------------------------------------------------------
 */

uint32_t bed_count(const struct bed *b, int end, enum push_event_kind kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < b->ends[end].event_count; i++)
		count += b->ends[end].events[i].kind == kind;
	return count;
}

const struct push_event *bed_last(const struct bed *b, int end, enum push_event_kind kind)
{
	for (uint32_t i = b->ends[end].event_count; i-- > 0;) {
		if (b->ends[end].events[i].kind == kind)
			return &b->ends[end].events[i];
	}
	return NULL;
}

struct push_view bed_view(const struct bed *b, int end)
{
	struct push_view v;

	push_view(b->ends[end].link, &v);
	return v;
}
