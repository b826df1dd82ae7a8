/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes wrong on a pipe, and the line that both kinds of pipe (datagram.h, stream.h) are laid
 * on: when bytes sent now arrive, and when nothing passes at all. All faults can be on together.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/world/world.h"

/* All zero: a perfect line. Chances are in parts per million and are drawn once per send. */
struct sim_faults {
	/* any pipe: each datagram, or piece of a stream, takes this long to travel */
	uint64_t delay_min_ns, delay_max_ns;
	uint64_t rate_bytes_per_s; /* of the sending end; 0: no limit */

	/* any pipe: nothing passes for 1 to clog_max_ns, then all of it */
	uint32_t clog_ppm;
	uint64_t clog_max_ns;

	/* any pipe: it is cut for 1 to cut_max_ns. A scenario can also cut it until it heals it. */
	uint32_t cut_ppm;
	uint64_t cut_max_ns;

	/* datagrams, each by itself */
	uint32_t loss_ppm;
	uint32_t duplicate_ppm;
	uint32_t corrupt_ppm;
	uint32_t reorder_ppm; /* it arrives 1 to reorder_max_ns late, and others overtake it ... */
	uint64_t reorder_max_ns; /* ... which a varying delay alone never lets them */

	/* streams */
	uint32_t reset_ppm; /* a cut resets the stream 1 to reset_max_ns later, unless healed first
			     */
	uint64_t reset_max_ns;
	uint32_t chunk_max_bytes;    /* sends and receives are cut short at random; 0: never */
	uint64_t chunk_pause_max_ns; /* from one such piece received to the next */
};

/* A number from min to max, both included. */
uint64_t sim_draw(struct prng *p, uint64_t min, uint64_t max);

struct sim_line {
	/* written by the scenario, at any time: faults are for what is sent from then on */
	struct sim_faults faults;

	/* written by the line */
	struct world *world;
	struct prng prng; /* of its own, so that what happens here does not change other lines */
	uint32_t id;	  /* in the trace */
	uint64_t idle_ns; /* when the sending end has put out all it was given */
	uint64_t last_ns; /* when the latest arrives that keeps its order */
	uint64_t clogged_until_ns;
	uint64_t cut_until_ns; /* WORLD_NEVER: until healed */
	uint64_t clogs, cuts;  /* that happened */
};

void sim_line_init(struct sim_line *line, struct world *w, uint32_t id);

/* Something is sent: draws whether the line is clogged or cut by that. True if a cut has begun. */
bool sim_line_strain(struct sim_line *line);

/* When bytes that are sent now arrive; never before what was sent earlier. */
uint64_t sim_line_arrival(struct sim_line *line, uint32_t length);

void sim_line_cut(struct sim_line *line, uint64_t until_ns);
void sim_line_heal(struct sim_line *line);

static inline bool sim_line_is_cut(const struct sim_line *line)
{
	return line->world->now_ns < line->cut_until_ns;
}

static inline bool sim_line_is_clogged(const struct sim_line *line)
{
	return line->world->now_ns < line->clogged_until_ns;
}

void sim_line_trace(struct sim_line *line, uint16_t kind, uint64_t a, uint64_t b);
