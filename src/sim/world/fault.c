/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/fault.h"

#include "base/check.h"
#include "sim/world/sim_trace.h"

enum { NS_PER_S = 1000000000 };

uint64_t sim_draw(struct prng *p, uint64_t min, uint64_t max)
{
	CHECK(min <= max && max - min < UINT64_MAX);
	return min + prng_next(p) % (max - min + 1);
}

void sim_line_init(struct sim_line *line, struct world *w, uint32_t id)
{
	*line = (struct sim_line){ .world = w, .id = id };
	line->prng.state = prng_next(&w->prng);
}

void sim_line_trace(struct sim_line *line, uint16_t kind, uint64_t a, uint64_t b)
{
	trace_add(&line->world->trace,
		  (struct trace_event){ .kind = kind, .who = line->id, .a = a, .b = b });
}

bool sim_line_strain(struct sim_line *line)
{
	const struct sim_faults *f = &line->faults;
	uint64_t now_ns = line->world->now_ns;
	bool clogs = prng_chance(&line->prng, f->clog_ppm) && f->clog_max_ns > 0;
	bool cuts = prng_chance(&line->prng, f->cut_ppm) && f->cut_max_ns > 0;

	if (clogs && !sim_line_is_clogged(line)) {
		line->clogged_until_ns = now_ns + sim_draw(&line->prng, 1, f->clog_max_ns);
		line->clogs++;
		sim_line_trace(line, SIM_TRACE_CLOGGED, line->clogged_until_ns, 0);
	}
	if (!cuts || sim_line_is_cut(line))
		return false;
	sim_line_cut(line, now_ns + sim_draw(&line->prng, 1, f->cut_max_ns));
	return true;
}

uint64_t sim_line_arrival(struct sim_line *line, uint32_t length)
{
	const struct sim_faults *f = &line->faults;
	uint64_t arrival_ns;

	if (line->idle_ns < line->world->now_ns)
		line->idle_ns = line->world->now_ns;
	if (f->rate_bytes_per_s > 0)
		line->idle_ns += ((uint64_t)length * NS_PER_S + f->rate_bytes_per_s - 1) /
				 f->rate_bytes_per_s;
	arrival_ns = line->idle_ns + sim_draw(&line->prng, f->delay_min_ns, f->delay_max_ns);
	if (line->last_ns < arrival_ns)
		line->last_ns = arrival_ns;
	return line->last_ns;
}

void sim_line_cut(struct sim_line *line, uint64_t until_ns)
{
	line->cut_until_ns = until_ns;
	line->cuts++;
	sim_line_trace(line, SIM_TRACE_CUT, until_ns, 0);
}

void sim_line_heal(struct sim_line *line)
{
	if (!sim_line_is_cut(line))
		return;
	line->cut_until_ns = line->world->now_ns;
	sim_line_trace(line, SIM_TRACE_HEALED, 0, 0);
}
