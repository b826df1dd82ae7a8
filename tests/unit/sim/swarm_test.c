/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "sim/world/swarm.h"

enum { FAULTS = 10, RUNS = 11000, PPM = 1000000 };

static uint32_t faults_on(const struct sim_faults *f, bool on[FAULTS])
{
	const bool is_on[FAULTS] = {
		f->delay_max_ns > 0,	f->rate_bytes_per_s > 0, f->clog_ppm > 0,
		f->cut_ppm > 0,		f->loss_ppm > 0,	 f->duplicate_ppm > 0,
		f->corrupt_ppm > 0,	f->reorder_ppm > 0,	 f->reset_ppm > 0,
		f->chunk_max_bytes > 0,
	};
	uint32_t count = 0;

	memcpy(on, is_on, sizeof(is_on));
	for (uint32_t i = 0; i < FAULTS; i++)
		count += on[i];
	return count;
}

TEST(test_swarm_runs_with_few_and_many_faults_are_equally_likely)
{
	struct prng p = { .state = 1 };
	uint32_t runs_with[FAULTS + 1] = { 0 }, runs_on[FAULTS] = { 0 };

	for (uint32_t i = 0; i < RUNS; i++) {
		struct sim_faults f;
		bool on[FAULTS];

		sim_faults_draw(&p, &f);
		runs_with[faults_on(&f, on)]++;
		for (uint32_t n = 0; n < FAULTS; n++)
			runs_on[n] += on[n];
	}
	for (uint32_t n = 0; n <= FAULTS; n++)
		EXPECT(runs_with[n] > 800 && runs_with[n] < 1200);
	for (uint32_t n = 0; n < FAULTS; n++)
		EXPECT(runs_on[n] > RUNS * 45 / 100 && runs_on[n] < RUNS * 55 / 100);
}

TEST(test_swarm_strengths_are_in_range)
{
	struct prng p = { .state = 2 };

	for (uint32_t i = 0; i < RUNS; i++) {
		struct sim_faults f;

		sim_faults_draw(&p, &f);
		EXPECT(f.delay_min_ns <= f.delay_max_ns);
		EXPECT(f.loss_ppm < PPM && f.duplicate_ppm < PPM && f.corrupt_ppm < PPM);
		EXPECT(f.clog_ppm < PPM && f.cut_ppm < PPM && f.reset_ppm < PPM);
		EXPECT((f.clog_ppm > 0) == (f.clog_max_ns > 0));
		EXPECT((f.cut_ppm > 0) == (f.cut_max_ns > 0));
		EXPECT((f.reorder_ppm > 0) == (f.reorder_max_ns > 0));
		EXPECT((f.reset_ppm > 0) == (f.reset_max_ns > 0));
	}
}

TEST(test_swarm_same_seed_same_faults)
{
	struct prng a = { .state = 3 }, b = { .state = 3 }, c = { .state = 4 };
	struct sim_faults from_a, from_b, from_c;
	uint32_t differing = 0;

	for (uint32_t i = 0; i < 100; i++) {
		sim_faults_draw(&a, &from_a);
		sim_faults_draw(&b, &from_b);
		sim_faults_draw(&c, &from_c);
		EXPECT_EQ(from_a.loss_ppm, from_b.loss_ppm);
		EXPECT_EQ(from_a.delay_max_ns, from_b.delay_max_ns);
		EXPECT_EQ(from_a.chunk_max_bytes, from_b.chunk_max_bytes);
		differing += from_a.loss_ppm != from_c.loss_ppm;
	}
	EXPECT_EQ(a.state, b.state);
	EXPECT(differing > 10);
}
