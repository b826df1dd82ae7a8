/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/roce_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"

static const struct roce_scenario *const scenarios[ROCE_SCENARIOS] = {
	[ROCE_RC] = &roce_rc,
	[ROCE_UC] = &roce_uc,
	[ROCE_RD] = &roce_rd,
	[ROCE_CM] = &roce_cm,
	[ROCE_UD] = &roce_ud,
	[ROCE_XRC] = &roce_xrc,
	[ROCE_RUNS] = &roce_runs,
	[ROCE_NEAR] = &roce_near,
	[ROCE_NEAR_UC] = &roce_near_uc,
	[ROCE_NEAR_UD] = &roce_near_ud,
	[ROCE_NEAR_XRC] = &roce_near_xrc,
	[ROCE_NEAR_RD] = &roce_near_rd,
};

void roce_fail(struct roce_world *w, const char *format, ...)
{
	va_list args;

	if (roce_has_failed(w))
		return;
	va_start(args, format);
	vsnprintf(w->failure, sizeof(w->failure), format, args);
	va_end(args);
}

void roce_count_packets(struct roce_world *w, const struct sim_datagram *pipe)
{
	w->packets.sent += pipe->counts.sent;
	w->packets.delivered += pipe->counts.delivered;
	w->packets.lost += pipe->counts.lost;
	w->packets.duplicated += pipe->counts.duplicated;
	w->packets.reordered += pipe->counts.reordered;
	w->packets.corrupted += pipe->counts.corrupted;
	w->packets.dropped_full += pipe->counts.dropped_full;
	w->packets.dropped_cut += pipe->counts.dropped_cut;
}

/* Not the generator of the scenario: it draws from the seed itself. */
static enum roce_scenario_id scenario_of(uint64_t seed)
{
	return (enum roce_scenario_id)(prng_mix(~seed) % ROCE_DRAWN);
}

int roce_world_open(struct roce_world *w, uint64_t seed, enum roce_scenario_id scenario)
{
	*w = (struct roce_world){ .seed = seed };
	w->scenario = scenarios[scenario == ROCE_ANY ? scenario_of(seed) : scenario];
	w->state = calloc(1, w->scenario->state_bytes);
	return w->state ? w->scenario->open(w) : -1;
}

bool roce_world_step(struct roce_world *w)
{
	if (w->is_over || roce_has_failed(w))
		return false;
	w->is_over = !w->scenario->step(w);
	return !w->is_over && !roce_has_failed(w);
}

const char *roce_world_failure(const struct roce_world *w)
{
	return w->failure;
}

void roce_world_close(struct roce_world *w)
{
	w->scenario->close(w);
	free(w->state);
	w->state = NULL;
}

struct world *roce_world_clock(struct roce_world *w)
{
	return w->scenario->clock(w);
}
