/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of a pipe, and the line under both kinds of pipe (datagram.h, stream.h): when bytes sent
 * now arrive, and when nothing passes. All faults can be combined.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/world/world.h"

/* All zero: a perfect line. Chances are in parts per million and drawn once per send. */
struct sim_faults {
	/* any pipe: transit time of each datagram, or piece of a stream */
	uint64_t delay_min_ns, delay_max_ns;
	uint64_t rate_bytes_per_s; /* at the sender; 0: no limit */

	/* any pipe: held back for 1 to clog_max_ns, then everything passes */
	uint32_t clog_ppm;
	uint64_t clog_max_ns;

	/* any pipe: cut for 1 to cut_max_ns. A scenario can also cut and heal it. */
	uint32_t cut_ppm;
	uint64_t cut_max_ns;

	/* datagrams, each drawn separately */
	uint32_t loss_ppm;
	uint32_t duplicate_ppm;
	uint32_t corrupt_ppm;
	uint32_t reorder_ppm; /* arrives 1 to reorder_max_ns late, so that others overtake it ... */
	uint64_t reorder_max_ns; /* ... which delays alone never cause */

	/* streams */
	uint32_t reset_ppm; /* a cut resets the stream 1 to reset_max_ns later, unless healed */
	uint64_t reset_max_ns;
	uint32_t chunk_max_bytes;    /* sends and receives are shortened at random; 0: never */
	uint64_t chunk_pause_max_ns; /* between such pieces at the receiver */
};

/* A random number from min to max, both included. */
uint64_t sim_draw(struct prng *p, uint64_t min, uint64_t max);

struct sim_line {
	/* set by the scenario, at any time; applies to later sends */
	struct sim_faults faults;

	/* set by the line */
	struct world *world;
	struct prng prng; /* its own, so that events here do not change other lines */
	uint32_t id;	  /* in the trace */
	uint64_t idle_ns; /* when the sender has transmitted everything */
	uint64_t last_ns; /* arrival time of the last in-order piece */
	uint64_t clogged_until_ns;
	uint64_t cut_until_ns; /* WORLD_NEVER: until healed */
	uint64_t clogs, cuts;  /* so far */
};

void sim_line_init(struct sim_line *line, struct world *w, uint32_t id);

/* On a send: draws whether the line becomes clogged or cut. True: a cut has begun. */
bool sim_line_strain(struct sim_line *line);

/* When bytes sent now arrive; never before bytes sent earlier. */
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
