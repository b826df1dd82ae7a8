/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/end.h"

#include <string.h>

#include "base/check.h"

void fabric_end_init(struct fabric_end *e, const struct fabric_link_cfg *cfg,
		     struct fabric_pool *pool)
{
	memset(e, 0, sizeof(*e));
	fabric_link_init(&e->link, cfg, pool);
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (e->link.lanes >> lane & 1)
			fabric_lane_init(&e->out[lane], pool, cfg->lane_blocks);
		e->out[lane].number = (uint8_t)lane;
	}
}

bool fabric_end_put(struct fabric_end *e, uint8_t lane, const uint8_t *bytes, uint32_t length)
{
	CHECK(e->link.lanes >> lane & 1);
	if (!fabric_lane_put(&e->out[lane], bytes, length))
		return false;
	fabric_end_freed(e, lane);
	return true;
}

bool fabric_end_post(struct fabric_end *e, uint8_t *bytes, uint32_t length)
{
	struct iba_lrh h;

	CHECK(iba_lrh_decode(&h, bytes, length) == WEFT_OK);
	if (h.lane != IBA_LANE_MANAGEMENT)
		h.lane = e->lane_of[h.level];
	iba_lrh_encode(&h, bytes);
	iba_vcrc_put(bytes, length);
	return fabric_end_put(e, h.lane, bytes, length);
}

void fabric_end_freed(struct fabric_end *e, uint8_t lane)
{
	struct fabric_frame *f = fabric_lane_head(&e->out[lane]);

	if (!f || !fabric_link_is_free(&e->link, lane))
		return;
	fabric_link_give(&e->link, lane, f);
	fabric_lane_pass(&e->out[lane]);
}

void fabric_end_forward(struct fabric_end *e)
{
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		fabric_end_freed(e, (uint8_t)lane);
}

struct fabric_frame *fabric_end_next(struct fabric_end *e)
{
	for (int lane = FLIT_LANES - 1; lane >= 0; lane--) {
		struct fabric_lane *in = &e->link.in[lane];
		struct fabric_frame *f;

		while ((f = fabric_lane_head(in)) && (f->is_kept || f->is_broken)) {
			e->refused += f->is_broken;
			fabric_lane_pass(in);
		}
		if (f)
			return f;
	}
	return NULL;
}

uint32_t fabric_end_take(struct fabric_end *e, uint8_t bytes[IBA_FRAME_MAX])
{
	struct fabric_frame *f;

	while ((f = fabric_end_next(e))) {
		uint32_t length = f->bytes;
		struct iba_frame decoded;

		fabric_frame_copy(f, true, bytes);
		fabric_lane_pass(f->lane);
		if (iba_frame_decode(&decoded, bytes, length) == WEFT_OK)
			return length;
		e->refused++;
	}
	return 0;
}
