/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/switch.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- Life ----------------------------------------------------------------------------------- */

int fabric_switch_init(struct fabric_switch *s, const struct fabric_switch_cfg *cfg,
		       struct fabric_pool *pool)
{
	CHECK(cfg->ports > 0 && cfg->ports <= FABRIC_PORTS_MAX);
	*s = (struct fabric_switch){ .cfg = *cfg };
	s->ports = calloc(cfg->ports + 1, sizeof(*s->ports));
	s->linear = malloc((size_t)cfg->linear_max + 1);
	s->multicast = calloc((size_t)cfg->multicast_max + 1, sizeof(*s->multicast));
	if (!s->ports || !s->linear || !s->multicast) {
		fabric_switch_fini(s);
		return -1;
	}
	memset(s->linear, FABRIC_NO_PORT, cfg->linear_max);
	for (uint32_t port = 1; port <= cfg->ports; port++) {
		fabric_link_init(&s->ports[port].link, &cfg->link, pool);
		for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
			s->ports[port].link.in[lane].port = (uint16_t)port;
	}
	return 0;
}

void fabric_switch_fini(struct fabric_switch *s)
{
	free(s->ports);
	free(s->linear);
	free(s->multicast);
}

/* ---- Where to ------------------------------------------------------------------------------- */

/* The ports that a LID leads to, a bit for each. A frame does not go back where it came from. */
static uint64_t own_outputs(const struct fabric_switch *s, uint32_t from, uint16_t to)
{
	uint64_t all = ((UINT64_C(1) << s->cfg.ports) - 1) << 1; /* without port 0 */
	uint8_t port;

	all &= ~(UINT64_C(1) << from);
	if (to >= IBA_LID_MULTICAST_MIN) {
		uint32_t group = to - (uint32_t)IBA_LID_MULTICAST_MIN;

		return group < s->cfg.multicast_max ? s->multicast[group] & all : 0;
	}
	port = to < s->cfg.linear_max ? s->linear[to] : FABRIC_NO_PORT;
	return port <= s->cfg.ports ? UINT64_C(1) << port & all : 0;
}

/* The lane at the first of its outputs. False: the link has no such lane. */
static bool choose_lane(struct fabric_switch *s, struct fabric_frame *f, const struct iba_lrh *h)
{
	const struct fabric_port *out = &s->ports[__builtin_ctzll(f->pending)];

	f->out_lane = h->lane;
	if (h->lane == IBA_LANE_MANAGEMENT)
		return true;
	f->out_lane = out->lane_of[h->level];
	return f->out_lane != IBA_LANE_MANAGEMENT && out->link.lanes >> f->out_lane & 1;
}

static void route(struct fabric_switch *s, uint32_t port, struct fabric_frame *f)
{
	struct iba_lrh h;

	f->is_routed = true;
	f->pending = 0;
	if (f->is_broken)
		return;
	if (fabric_frame_lrh(f, &h))
		f->pending = own_outputs(s, port, h.to);
	if (f->pending && choose_lane(s, f, &h))
		return;
	f->pending = 0;
	s->ports[port].relay_errors++;
}

/* ---- The crossbar --------------------------------------------------------------------------- */

/* True: the frame waits for this output no more. */
static bool give_to(struct fabric_switch *s, uint32_t port, struct fabric_frame *f)
{
	struct fabric_port *out = &s->ports[port];

	if (!out->link.is_up) {
		out->discards++;
		return true;
	}
	if (!fabric_link_is_free(&out->link, f->out_lane))
		return false;
	fabric_link_give(&out->link, f->out_lane, f);
	return true;
}

/* Gives the frame to the outputs that are free. True: it has been given to all. */
static bool give(struct fabric_switch *s, struct fabric_frame *f)
{
	for (uint64_t left = f->pending; left; left &= left - 1) {
		uint32_t port = (uint32_t)__builtin_ctzll(left);

		if (give_to(s, port, f))
			f->pending &= ~(UINT64_C(1) << port);
	}
	return f->pending == 0;
}

static struct fabric_waiting *waiting_for(struct fabric_switch *s, const struct fabric_frame *f)
{
	return &s->ports[__builtin_ctzll(f->pending)].link.out[f->out_lane].waiting;
}

/* One that goes to several outputs waits for one after the other. */
void fabric_switch_arrived(struct fabric_switch *s, uint32_t port, uint32_t lane)
{
	struct fabric_lane *in = &s->ports[port].link.in[lane];
	struct fabric_frame *f;

	while (!in->is_waiting && (f = fabric_lane_head(in))) {
		if (!f->is_routed)
			route(s, port, f);
		if (give(s, f))
			fabric_lane_pass(in);
		else
			fabric_waiting_add(waiting_for(s, f), in);
	}
}

/* The ports' inputs that wait here go on in the order in which they came to wait. */
void fabric_switch_freed(struct fabric_switch *s, uint32_t port, uint32_t lane)
{
	struct fabric_port *out = &s->ports[port];
	struct fabric_waiting *w = &out->link.out[lane].waiting;

	while (w->first && (!out->link.is_up || fabric_link_is_free(&out->link, (uint8_t)lane))) {
		struct fabric_lane *in = fabric_waiting_pop(w);

		fabric_switch_arrived(s, in->port, in->number);
	}
}

void fabric_switch_forward(struct fabric_switch *s)
{
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		for (uint32_t port = 1; port <= s->cfg.ports; port++) {
			fabric_switch_freed(s, port, lane);
			fabric_switch_arrived(s, port, lane);
		}
}
