/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/swarm.h"

enum {
	PPM = 1000000,
	STRENGTHS = 12, /* powers of two between strongest and weakest */
	US = 1000,
	MS = 1000 * US
};

static const uint64_t rate_min = 1000 * 1000;
static const uint64_t rate_max = UINT64_C(10) * 1000 * 1000 * 1000;

/* From 1 to max, every order of magnitude equally likely. */
static uint64_t draw_strength(struct prng *p, uint64_t max)
{
	uint64_t top = max >> prng_below(p, STRENGTHS);

	return sim_draw(p, 1, top > 0 ? top : 1);
}

static uint32_t draw_ppm(struct prng *p, uint32_t max_ppm)
{
	return (uint32_t)draw_strength(p, max_ppm);
}

void sim_faults_draw(struct prng *p, struct sim_faults *faults)
{
	struct sim_faults f = { 0 };
	uint32_t on_ppm = prng_below(
		p, PPM + 1); /* fair coins would enable half of the faults in every run */

	if (prng_chance(p, on_ppm)) {
		f.delay_max_ns = draw_strength(p, 10 * MS);
		f.delay_min_ns = sim_draw(p, 0, f.delay_max_ns);
	}
	if (prng_chance(p, on_ppm))
		f.rate_bytes_per_s = rate_min + draw_strength(p, rate_max - rate_min);
	if (prng_chance(p, on_ppm)) {
		f.clog_ppm = draw_ppm(p, 20000);
		f.clog_max_ns = draw_strength(p, 50 * MS);
	}
	if (prng_chance(p, on_ppm)) {
		f.cut_ppm = draw_ppm(p, 5000);
		f.cut_max_ns = draw_strength(p, 500 * MS);
	}
	if (prng_chance(p, on_ppm))
		f.loss_ppm = draw_ppm(p, 300000);
	if (prng_chance(p, on_ppm))
		f.duplicate_ppm = draw_ppm(p, 200000);
	if (prng_chance(p, on_ppm))
		f.corrupt_ppm = draw_ppm(p, 100000);
	if (prng_chance(p, on_ppm)) {
		f.reorder_ppm = draw_ppm(p, 300000);
		f.reorder_max_ns = draw_strength(p, 10 * MS);
	}
	if (prng_chance(p, on_ppm)) {
		f.reset_ppm = draw_ppm(p, 500000);
		f.reset_max_ns = draw_strength(p, 500 * MS);
	}
	if (prng_chance(p, on_ppm)) {
		f.chunk_max_bytes = (uint32_t)draw_strength(p, 8192);
		f.chunk_pause_max_ns = prng_chance(p, PPM / 2) ? draw_strength(p, 100 * US) : 0;
	}
	*faults = f;
}
