/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/switch.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- Life ----------------------------------------------------------------------------------- */

int fabric_switch_init(struct fabric_switch *s, const struct fabric_switch_cfg *cfg)
{
	CHECK(cfg->ports > 0 && cfg->ports <= FABRIC_PORTS_MAX);
	*s = (struct fabric_switch){ .cfg = *cfg };
	s->ports = calloc(cfg->ports + 1, sizeof(*s->ports));
	s->linear = malloc((size_t)cfg->linear_max + 1);
	s->multicast = calloc((size_t)cfg->multicast_max + 1, sizeof(*s->multicast));
	if (!s->ports || !s->linear || !s->multicast)
		goto fail;
	memset(s->linear, FABRIC_NO_PORT, cfg->linear_max);
	for (uint32_t port = 1; port <= cfg->ports; port++)
		if (fabric_link_init(&s->ports[port].link, &cfg->link) < 0)
			goto fail;
	return 0;
fail:
	fabric_switch_fini(s);
	return -1;
}

void fabric_switch_fini(struct fabric_switch *s)
{
	for (uint32_t port = 1; s->ports && port <= s->cfg.ports; port++)
		fabric_link_fini(&s->ports[port].link);
	free(s->ports);
	free(s->linear);
	free(s->multicast);
}

/* ---- Forwarding ----------------------------------------------------------------------------- */

/* The ports that a LID leads to, a bit for each. */
static uint64_t ports_of(const struct fabric_switch *s, uint16_t to)
{
	uint64_t all = ((UINT64_C(1) << s->cfg.ports) - 1) << 1; /* without port 0 */
	uint8_t port;

	if (to >= IBA_LID_MULTICAST_MIN) {
		uint32_t group = to - (uint32_t)IBA_LID_MULTICAST_MIN;

		return group < s->cfg.multicast_max ? s->multicast[group] & all : 0;
	}
	port = to < s->cfg.linear_max ? s->linear[to] : FABRIC_NO_PORT;
	return port <= s->cfg.ports ? UINT64_C(1) << port & all : 0;
}

/* The lane at the first of its outputs. False: the link has no such lane. */
static bool choose_lane(struct fabric_switch *s, uint32_t lane, struct fabric_frame *f,
			const struct iba_lrh *h)
{
	const struct fabric_port *out = &s->ports[__builtin_ctzll(f->pending)];

	f->out_lane = (uint8_t)lane;
	if (lane == IBA_LANE_MANAGEMENT)
		return true;
	f->out_lane = out->lane_of[h->level];
	if (f->out_lane >= out->link.cfg.lanes)
		return false;
	if (f->out_lane != h->lane)
		fabric_frame_set_lane(f, f->out_lane);
	return true;
}

/* A frame does not go back where it came from. */
static void route(struct fabric_switch *s, uint32_t port, uint32_t lane, struct fabric_frame *f)
{
	struct iba_lrh h;

	f->is_routed = true;
	f->pending = 0;
	if (fabric_frame_lrh(f, &h))
		f->pending = ports_of(s, h.to) & ~(UINT64_C(1) << port);
	if (f->pending && choose_lane(s, lane, f, &h))
		return;
	f->pending = 0;
	s->ports[port].relay_errors++;
}

/* Gives the frame to the outputs that are free. True: it has moved. */
static bool give(struct fabric_switch *s, struct fabric_frame *f)
{
	uint64_t before = f->pending;

	for (uint64_t left = before; left; left &= left - 1) {
		uint32_t port = (uint32_t)__builtin_ctzll(left);
		struct fabric_port *out = &s->ports[port];

		if (!out->link.is_up)
			out->discards++;
		else if (fabric_link_is_free(&out->link, f->out_lane))
			fabric_link_give(&out->link, f->out_lane, f);
		else
			continue;
		f->pending &= ~(UINT64_C(1) << port);
	}
	return f->pending != before;
}

/* The frame that is next on a lane of an input. True: something has moved. */
static bool forward_head(struct fabric_switch *s, uint32_t port, uint32_t lane)
{
	struct fabric_lane *in = &s->ports[port].link.in[lane];
	struct fabric_frame *f = in->blocks_max > 0 ? fabric_lane_head(in) : NULL;
	bool has_moved;

	if (!f)
		return false;
	if (!f->is_routed)
		route(s, port, lane, f);
	has_moved = give(s, f);
	if (f->pending)
		return has_moved;
	fabric_lane_pass(in);
	return true;
}

/* Of the inputs with frames for one output each gets its turn. */
static bool forward_lane(struct fabric_switch *s, uint32_t lane)
{
	uint32_t begin = s->turns[lane];
	bool has_moved = false;

	for (uint32_t i = 0; i < s->cfg.ports; i++) {
		uint32_t port = (begin + i) % s->cfg.ports + 1;

		if (!forward_head(s, port, lane))
			continue;
		s->turns[lane] = port % s->cfg.ports;
		has_moved = true;
	}
	return has_moved;
}

/* At most as often as there are frames: each time one has moved. */
void fabric_switch_forward(struct fabric_switch *s)
{
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		while (forward_lane(s, lane))
			continue;
}
