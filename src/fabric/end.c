/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/end.h"

#include <string.h>

#include "base/check.h"

int fabric_end_init(struct fabric_end *e, const struct fabric_link_cfg *cfg)
{
	memset(e, 0, sizeof(*e));
	if (fabric_link_init(&e->link, cfg) < 0)
		return -1;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (e->link.in[lane].blocks_max == 0 ||
		    fabric_lane_init(&e->out[lane], cfg->lane_blocks) == 0)
			continue;
		fabric_end_fini(e);
		return -1;
	}
	return 0;
}

void fabric_end_fini(struct fabric_end *e)
{
	fabric_link_fini(&e->link);
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		fabric_lane_fini(&e->out[lane]);
}

static void add(struct fabric_lane *l, const uint8_t *bytes, uint32_t length)
{
	uint32_t count = flits_of(length);

	for (uint32_t i = 0; i < count; i++) {
		struct flit f = { .is_first = i == 0, .is_last = i + 1 == count };
		uint32_t rest = length - i * FLIT_DATA;

		f.data = bytes + (size_t)i * FLIT_DATA;
		f.data_bytes = (uint8_t)(rest < FLIT_DATA ? rest : FLIT_DATA);
		CHECK(fabric_lane_add(l, &f));
	}
}

bool fabric_end_post(struct fabric_end *e, uint8_t *bytes, uint32_t length)
{
	struct iba_lrh h;

	CHECK(iba_lrh_decode(&h, bytes, length) == WEFT_OK);
	if (h.lane != IBA_LANE_MANAGEMENT)
		h.lane = e->lane_of[h.level];
	CHECK(e->out[h.lane].blocks_max > 0);
	if (fabric_lane_room(&e->out[h.lane]) < flits_of(length))
		return false;
	iba_lrh_encode(&h, bytes);
	iba_vcrc_put(bytes, length);
	add(&e->out[h.lane], bytes, length);
	fabric_end_forward(e);
	return true;
}

void fabric_end_forward(struct fabric_end *e)
{
	for (uint8_t lane = 0; lane < FLIT_LANES; lane++) {
		struct fabric_frame *f;

		if (e->out[lane].blocks_max == 0 || !fabric_link_is_free(&e->link, lane))
			continue;
		f = fabric_lane_head(&e->out[lane]);
		if (!f)
			continue;
		fabric_link_give(&e->link, lane, f);
		fabric_lane_pass(&e->out[lane]);
	}
}

uint32_t fabric_end_take(struct fabric_end *e, uint8_t bytes[IBA_FRAME_MAX])
{
	for (int lane = FLIT_LANES - 1; lane >= 0; lane--) {
		struct fabric_lane *in = &e->link.in[lane];
		struct fabric_frame *f;

		while (in->blocks_max > 0 && (f = fabric_lane_head(in))) {
			uint32_t length = f->bytes;
			struct iba_frame decoded;

			fabric_frame_copy(f, bytes);
			fabric_lane_pass(in);
			if (iba_frame_decode(&decoded, bytes, length) == WEFT_OK)
				return length;
			e->refused++;
		}
	}
	return 0;
}
