/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

int fabric_lane_init(struct fabric_lane *l, uint32_t blocks)
{
	CHECK(blocks >= FABRIC_FRAME_FLITS);
	*l = (struct fabric_lane){ .blocks_max = blocks };
	l->blocks = malloc((size_t)blocks * FLIT_DATA);
	l->frames = calloc(blocks, sizeof(*l->frames));
	if (l->blocks && l->frames)
		return 0;
	fabric_lane_fini(l);
	return -1;
}

void fabric_lane_fini(struct fabric_lane *l)
{
	free(l->blocks);
	free(l->frames);
	*l = (struct fabric_lane){ .blocks_max = 0 };
}

static struct fabric_frame *frame_at(const struct fabric_lane *l, uint32_t number)
{
	return &l->frames[number % l->blocks_max];
}

static uint8_t *block_at(const struct fabric_lane *l, uint32_t number)
{
	return l->blocks + (size_t)(number % l->blocks_max) * FLIT_DATA;
}

/* The frame that is coming in; NULL: none. */
static struct fabric_frame *coming(const struct fabric_lane *l)
{
	struct fabric_frame *f = frame_at(l, l->frame_end - 1);

	return l->frame_end != l->frame_begin && !f->is_whole ? f : NULL;
}

bool fabric_lane_add(struct fabric_lane *l, const struct flit *piece)
{
	struct fabric_frame *f = coming(l);

	CHECK(fabric_lane_room(l) > 0);
	if (piece->is_first == (f != NULL) || (f && f->flits == FABRIC_FRAME_FLITS))
		return false;
	if (!f) {
		f = frame_at(l, l->frame_end++);
		*f = (struct fabric_frame){ .lane = l, .first = l->block_end };
	}
	memcpy(block_at(l, l->block_end++), piece->data, piece->data_bytes);
	f->flits++;
	f->bytes += piece->data_bytes;
	f->is_whole = piece->is_last;
	return true;
}

void fabric_lane_cut(struct fabric_lane *l)
{
	struct fabric_frame *f = coming(l);

	if (!f)
		return;
	l->block_end -= f->flits;
	l->frame_end--;
}

struct fabric_frame *fabric_lane_head(struct fabric_lane *l)
{
	struct fabric_frame *f = frame_at(l, l->frame_head);

	return l->frame_head != l->frame_end && f->is_whole ? f : NULL;
}

/* In the order in which they came: an older one that is still held keeps the blocks of younger. */
static void release(struct fabric_lane *l)
{
	while (l->frame_begin != l->frame_head) {
		struct fabric_frame *f = frame_at(l, l->frame_begin);

		if (!f->is_passed || f->references > 0)
			return;
		l->block_begin += f->flits;
		l->frame_begin++;
	}
}

void fabric_lane_pass(struct fabric_lane *l)
{
	struct fabric_frame *f = fabric_lane_head(l);

	CHECK(f);
	f->is_passed = true;
	l->frame_head++;
	release(l);
}

void fabric_frame_put(struct fabric_frame *f)
{
	CHECK(f->references > 0);
	f->references--;
	release(f->lane);
}

uint32_t fabric_frame_flit(const struct fabric_frame *f, uint32_t index, const uint8_t **data)
{
	CHECK(index < f->flits);
	*data = block_at(f->lane, f->first + index);
	return index + 1 < f->flits ? FLIT_DATA : f->bytes - index * FLIT_DATA;
}

void fabric_frame_copy(const struct fabric_frame *f, uint8_t *to)
{
	for (uint32_t i = 0; i < f->flits; i++) {
		const uint8_t *data;
		uint32_t bytes = fabric_frame_flit(f, i, &data);

		memcpy(to + (size_t)i * FLIT_DATA, data, bytes);
	}
}

bool fabric_frame_lrh(const struct fabric_frame *f, struct iba_lrh *h)
{
	return iba_lrh_decode(h, block_at(f->lane, f->first), f->bytes) == WEFT_OK;
}

void fabric_frame_set_lane(struct fabric_frame *f, uint8_t lane)
{
	uint8_t bytes[IBA_FRAME_MAX];
	struct iba_lrh h;

	CHECK(f->bytes <= sizeof(bytes) && fabric_frame_lrh(f, &h));
	fabric_frame_copy(f, bytes);
	h.lane = lane;
	iba_lrh_encode(&h, bytes);
	iba_vcrc_put(bytes, f->bytes);
	for (uint32_t i = 0; i < f->flits; i++) {
		const uint8_t *data;
		uint32_t length = fabric_frame_flit(f, i, &data);

		memcpy(block_at(f->lane, f->first + i), bytes + (size_t)i * FLIT_DATA, length);
	}
}
