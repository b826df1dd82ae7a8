/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- Memory --------------------------------------------------------------------------------- */

enum { SLAB_BYTES = 1 << 16, SMALL_BYTES = 4 * FLIT_DATA };

/* What frames have room for. */
static const uint16_t sizes[FABRIC_SIZES] = { FLIT_DATA, SMALL_BYTES,
					      FABRIC_FRAME_FLITS *FLIT_DATA };

struct fabric_slab {
	_Alignas(FABRIC_LINE_BYTES) struct fabric_slab *next;
};

void fabric_pool_init(struct fabric_pool *p)
{
	*p = (struct fabric_pool){ .slabs = NULL };
}

void fabric_pool_fini(struct fabric_pool *p)
{
	while (p->slabs) {
		struct fabric_slab *s = p->slabs;

		p->slabs = s->next;
		free(s);
	}
	fabric_pool_init(p);
}

/* More memory, as `*count` pieces of a size; NULL: there is no more. */
static uint8_t *more(struct fabric_pool *p, size_t size, uint32_t *count)
{
	struct fabric_slab *s;

	s = p->store ? fabric_store_take(p->store, SLAB_BYTES)
		     : aligned_alloc(FABRIC_LINE_BYTES, SLAB_BYTES);
	if (!s)
		return NULL;
	*s = (struct fabric_slab){ .next = p->slabs };
	p->slabs = p->store ? NULL : s;
	*count = (uint32_t)((SLAB_BYTES - sizeof(*s)) / size);
	return (uint8_t *)(s + 1);
}

static bool more_frames(struct fabric_pool *p)
{
	struct fabric_frame *frames;
	uint32_t count;
	uint8_t *at = more(p, sizeof(*frames), &count);

	if (!at)
		return false;
	frames = (struct fabric_frame *)(void *)at;
	for (uint32_t i = count; i > 0; i--) {
		frames[i - 1].next = p->frames;
		p->frames = &frames[i - 1];
	}
	return true;
}

static bool more_bytes(struct fabric_pool *p, uint32_t size)
{
	size_t each = sizes[size] + FABRIC_LINE_BYTES - 1;
	struct fabric_bytes *all;
	uint32_t count;
	uint8_t *at;

	each -= each % FABRIC_LINE_BYTES;
	at = more(p, each + sizeof(*all), &count);
	if (!at)
		return false;
	all = (struct fabric_bytes *)(void *)(at + count * each);
	for (uint32_t i = count; i > 0; i--) {
		struct fabric_bytes *b = &all[i - 1];

		*b = (struct fabric_bytes){ .next = p->bytes[size],
					    .at = at + (i - 1) * each,
					    .size = size };
		p->bytes[size] = b;
	}
	return true;
}

static struct fabric_bytes *bytes_new(struct fabric_pool *p, uint32_t length)
{
	struct fabric_bytes *b;
	uint32_t size = 0;

	while (size + 1 < FABRIC_SIZES && length > sizes[size])
		size++;
	if (!p->bytes[size] && !more_bytes(p, size))
		return NULL;
	b = p->bytes[size];
	p->bytes[size] = b->next;
	__builtin_prefetch(b->next, 1);
	p->used++;
	b->references = 1;
	return b;
}

uint8_t *fabric_pool_room(struct fabric_pool *p)
{
	if (!p->room)
		p->room = bytes_new(p, IBA_FRAME_MAX);
	return p->room ? p->room->at : NULL;
}

/* Of a frame; a small one needs less than the room that it may be in. NULL: memory is short. */
static struct fabric_bytes *bytes_of(struct fabric_pool *p, const uint8_t *bytes, uint32_t length)
{
	struct fabric_bytes *b = p->room;

	if (b && bytes == b->at && length > SMALL_BYTES) {
		p->room = NULL;
		return b;
	}
	b = bytes_new(p, length);
	if (b)
		memcpy(b->at, bytes, length);
	return b;
}

static void bytes_put(struct fabric_pool *p, struct fabric_bytes *b)
{
	if (--b->references > 0)
		return;
	p->used--;
	b->next = p->bytes[b->size];
	p->bytes[b->size] = b;
}

/* ---- Frames of a lane ----------------------------------------------------------------------- */

void fabric_lane_init(struct fabric_lane *l, struct fabric_pool *p, uint32_t blocks)
{
	CHECK(blocks >= FABRIC_FRAME_FLITS);
	*l = (struct fabric_lane){ .pool = p, .blocks_max = blocks };
}

/* At the lane's end, with what it refers to; NULL: memory is short. */
static struct fabric_frame *frame_new(struct fabric_lane *l, struct fabric_bytes *data)
{
	struct fabric_pool *p = l->pool;
	struct fabric_frame *f;

	if (!data)
		return NULL;
	if (!p->frames && !more_frames(p)) {
		bytes_put(p, data);
		return NULL;
	}
	f = p->frames;
	p->frames = f->next;
	__builtin_prefetch(p->frames, 1);
	*f = (struct fabric_frame){ .lane = l, .data = data };
	if (l->head)
		l->last->next = f;
	else
		l->head = f;
	l->last = f;
	return f;
}

static void frame_free(struct fabric_frame *f)
{
	struct fabric_lane *l = f->lane;

	bytes_put(l->pool, f->data);
	l->blocks_used -= f->flits;
	f->next = l->pool->frames;
	l->pool->frames = f;
	if (!l->is_watched || l->is_released)
		return;
	l->is_released = true;
	l->next_released = l->pool->released;
	l->pool->released = l;
}

struct fabric_lane *fabric_pool_released(struct fabric_pool *p)
{
	struct fabric_lane *l = p->released;

	if (!l)
		return NULL;
	p->released = l->next_released;
	l->is_released = false;
	return l;
}

/* The frame that is coming in; NULL: none. */
static struct fabric_frame *coming(const struct fabric_lane *l)
{
	return l->head && !l->last->is_whole ? l->last : NULL;
}

static void grow(struct fabric_frame *f, uint32_t flits, uint32_t bytes)
{
	f->flits = (uint8_t)(f->flits + flits);
	f->bytes = (uint16_t)(f->bytes + bytes);
	f->lane->blocks_used += flits;
}

enum fabric_added fabric_lane_add(struct fabric_lane *l, const struct flit *piece)
{
	struct fabric_frame *f = coming(l);

	if (piece->is_first == (f != NULL) || (f && f->flits == FABRIC_FRAME_FLITS))
		return FABRIC_NO_FRAME;
	if (!f)
		f = frame_new(l, bytes_new(l->pool, IBA_FRAME_MAX));
	if (!f)
		return FABRIC_NO_ROOM;
	memcpy(f->data->at + f->bytes, piece->data, piece->data_bytes);
	grow(f, 1, piece->data_bytes);
	f->is_whole = piece->is_last;
	return FABRIC_ADDED;
}

enum fabric_added fabric_lane_share(struct fabric_lane *l, const struct fabric_frame *of,
				    uint32_t index, uint32_t flits)
{
	bool is_last = of->is_whole && index + flits == of->flits;
	struct fabric_frame *f = coming(l);

	if ((index == 0) == (f != NULL) || (f && f->data != of->data))
		return FABRIC_NO_FRAME;
	if (!f) {
		of->data->references++;
		f = frame_new(l, of->data);
	}
	if (!f)
		return FABRIC_NO_ROOM;
	f->hops = of->hops < UINT8_MAX ? (uint8_t)(of->hops + 1) : UINT8_MAX;
	f->has_head = of->has_head;
	f->is_data = of->is_data;
	f->to = of->to;
	f->level = of->level;
	grow(f, flits, is_last ? (uint32_t)of->bytes - f->bytes : flits * FLIT_DATA);
	f->is_whole = is_last;
	return FABRIC_ADDED;
}

bool fabric_lane_put(struct fabric_lane *l, const uint8_t *bytes, uint32_t length)
{
	uint32_t flits = flits_of(length);
	struct fabric_frame *f;

	if (fabric_lane_room(l) < flits)
		return false;
	f = frame_new(l, bytes_of(l->pool, bytes, length));
	if (!f)
		return false;
	grow(f, flits, length);
	f->is_whole = true;
	return true;
}

/* The one before it is the last again: it is found by walking, as links go down seldom. */
void fabric_lane_cut(struct fabric_lane *l)
{
	struct fabric_frame *f = coming(l), *before = l->head;

	if (!f)
		return;
	if (before == f) {
		l->head = l->last = NULL;
	} else {
		while (before->next != f)
			before = before->next;
		before->next = NULL;
		l->last = before;
	}
	frame_free(f);
}

void fabric_lane_pass(struct fabric_lane *l)
{
	struct fabric_frame *f = fabric_lane_head(l);

	CHECK(f);
	l->head = f->next;
	f->next = NULL;
	f->is_passed = true;
	if (f->references == 0)
		frame_free(f);
}

void fabric_frame_put(struct fabric_frame *f)
{
	CHECK(f->references > 0);
	if (--f->references == 0 && f->is_passed)
		frame_free(f);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static uint16_t vcrc_on(const struct fabric_frame *f, uint8_t lane)
{
	uint8_t bytes[FABRIC_FRAME_FLITS * FLIT_DATA];

	memcpy(bytes, f->data->at, f->bytes);
	iba_lane_put(bytes, lane);
	return iba_vcrc(bytes, f->bytes - IBA_VCRC_BYTES);
}

/* The VCRC may lie in two flits. */
uint32_t fabric_frame_flit(struct fabric_frame *f, uint32_t index, uint8_t lane,
			   uint8_t bytes[FLIT_DATA])
{
	uint32_t at = index * FLIT_DATA, length = FLIT_DATA;

	CHECK(index < f->flits);
	if (index + 1 == f->flits && f->is_whole)
		length = f->bytes - at;
	memcpy(bytes, f->data->at + at, length);
	if (index == 0)
		iba_lane_put(bytes, lane);
	for (uint32_t i = f->bytes - IBA_VCRC_BYTES; f->is_whole && i < f->bytes; i++) {
		if (i < at || i >= at + length)
			continue;
		if (!f->has_vcrc)
			f->vcrc = vcrc_on(f, lane);
		f->has_vcrc = true;
		bytes[i - at] = (uint8_t)(f->vcrc >> (i + IBA_VCRC_BYTES - f->bytes) * 8);
	}
	return length;
}

/* Bytes that several frames refer to have the lane, and the VCRC, of the one asked for last. */
const uint8_t *fabric_frame_bytes(struct fabric_frame *f, bool has_vcrc)
{
	uint8_t *bytes = f->data->at;

	if (f->lane->number < FLIT_LANES)
		iba_lane_put(bytes, f->lane->number);
	if (has_vcrc)
		iba_vcrc_put(bytes, f->bytes);
	else
		memset(bytes + f->bytes - IBA_VCRC_BYTES, 0, IBA_VCRC_BYTES);
	return bytes;
}

void fabric_frame_copy(struct fabric_frame *f, bool has_vcrc, uint8_t *to)
{
	memcpy(to, fabric_frame_bytes(f, has_vcrc), f->bytes);
}

void fabric_frame_copy_on(const struct fabric_frame *f, uint8_t lane, uint8_t *to)
{
	memcpy(to, f->data->at, f->bytes);
	iba_lane_put(to, lane);
	iba_vcrc_put(to, f->bytes);
}

bool fabric_frame_lrh(const struct fabric_frame *f, struct iba_lrh *h)
{
	if (iba_lrh_decode(h, f->data->at, f->bytes) != WEFT_OK)
		return false;
	if (f->lane->number < FLIT_LANES)
		h->lane = f->lane->number;
	return true;
}

void fabric_waiting_add(struct fabric_waiting *w, struct fabric_lane *l)
{
	l->is_waiting = true;
	l->next_waiting = NULL;
	if (w->first)
		w->last->next_waiting = l;
	else
		w->first = l;
	w->last = l;
}

struct fabric_lane *fabric_waiting_pop(struct fabric_waiting *w)
{
	struct fabric_lane *l = w->first;

	w->first = l->next_waiting;
	l->is_waiting = false;
	return l;
}
