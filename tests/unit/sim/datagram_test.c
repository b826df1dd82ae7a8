/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbered datagrams are sent at a steady pace; the receiver notes what became of them. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "sim/world/datagram.h"
#include "sim/world/swarm.h"

enum { KIND_TICK, KIND_ARRIVED, KIND_CUT, KIND_HEAL };
enum { BYTES = 40, MANY = 100000, PPM = 1000000, US = 1000, MS = 1000 * US };

struct run {
	struct world world;
	struct sim_datagram pipe;
	uint64_t interval_ns;
	uint32_t to_send;
	uint32_t sent;
	/* what was received */
	uint32_t overtaken; /* a later one had come before */
	uint32_t damaged;
	uint32_t number_max;
	uint8_t *copies; /* by number, undamaged */
	uint64_t first_ns, last_ns;
};

static void run_open(struct run *r, uint64_t seed, const struct sim_faults *faults, uint32_t count)
{
	struct world_options world = { .seed = seed, .events_max = 16, .trace_max = 64 };
	struct sim_datagram_options pipe = {
		.id = 1,
		.arrived = { .node = 2, .kind = KIND_ARRIVED },
		.faults = *faults,
		.datagrams_max = 1024,
		.bytes_max = BYTES,
	};

	*r = (struct run){ .interval_ns = US, .to_send = count };
	r->copies = calloc(count, 1);
	REQUIRE(r->copies != NULL);
	REQUIRE(world_init(&r->world, &world) == 0);
	REQUIRE(sim_datagram_init(&r->pipe, &r->world, &pipe) == 0);
	world_schedule(&r->world, 0, (struct world_event){ .node = 1, .kind = KIND_TICK });
}

static void run_close(struct run *r)
{
	sim_datagram_fini(&r->pipe);
	world_fini(&r->world);
	free(r->copies);
}

/* The number, and bytes that follow from it. */
static void fill(uint8_t bytes[BYTES], uint32_t number)
{
	struct wr w = wr_of(bytes, BYTES);

	wr_u32(&w, number);
	while (w.at < w.end)
		wr_u32(&w, (uint32_t)prng_mix(number));
}

static void tick(struct run *r)
{
	uint8_t bytes[BYTES];

	fill(bytes, r->sent++);
	sim_datagram_send(&r->pipe, bytes, sizeof(bytes));
	if (r->sent < r->to_send)
		world_schedule(&r->world, r->interval_ns,
			       (struct world_event){ .node = 1, .kind = KIND_TICK });
}

static void note(struct run *r, const uint8_t bytes[BYTES])
{
	struct rd rd = rd_of(bytes, BYTES);
	uint32_t number = rd_u32(&rd);
	uint8_t expected[BYTES];

	fill(expected, number);
	if (memcmp(bytes, expected, BYTES) != 0) {
		r->damaged++;
		return;
	}
	REQUIRE(number < r->sent);
	r->copies[number]++;
	r->overtaken += number < r->number_max;
	if (number > r->number_max)
		r->number_max = number;
}

static void pull(struct run *r)
{
	uint8_t bytes[BYTES];
	size_t length;

	if (!sim_datagram_recv(&r->pipe, bytes, sizeof(bytes), &length))
		return;
	REQUIRE(length == BYTES);
	note(r, bytes);
	if (r->pipe.counts.delivered == 1)
		r->first_ns = r->world.now_ns;
	r->last_ns = r->world.now_ns;
}

static void run_on(struct run *r)
{
	struct world_event event;

	while (world_next(&r->world, &event)) {
		switch (event.kind) {
		case KIND_TICK:
			tick(r);
			break;
		case KIND_ARRIVED:
			pull(r);
			break;
		case KIND_CUT:
			sim_datagram_cut(&r->pipe);
			break;
		case KIND_HEAL:
			sim_datagram_heal(&r->pipe);
			break;
		}
	}
}

static bool is_about(uint64_t n, uint64_t of, uint32_t ppm)
{
	return n > of * ppm / PPM * 95 / 100 && n < of * ppm / PPM * 105 / 100;
}

static bool is_conserved(const struct sim_datagram *d)
{
	const struct sim_datagram_counts *c = &d->counts;

	return c->sent + c->duplicated == c->delivered + c->lost + c->dropped_full + c->dropped_cut;
}

TEST(test_datagram_perfect_pipe_delivers_all_in_order)
{
	struct run r;

	run_open(&r, 1, &(struct sim_faults){ 0 }, MANY);
	run_on(&r);
	EXPECT_EQ(r.pipe.counts.sent, MANY);
	EXPECT_EQ(r.pipe.counts.delivered, MANY);
	EXPECT_EQ(r.overtaken, 0);
	EXPECT_EQ(r.damaged, 0);
	for (uint32_t i = 0; i < MANY; i++)
		EXPECT_EQ(r.copies[i], 1);
	EXPECT_EQ(r.last_ns, (uint64_t)(MANY - 1) * US);
	run_close(&r);
}

TEST(test_datagram_loses_about_as_many_as_asked)
{
	struct run r;

	run_open(&r, 2, &(struct sim_faults){ .loss_ppm = 300000 }, MANY);
	run_on(&r);
	EXPECT(is_about(r.pipe.counts.lost, MANY, 300000));
	EXPECT_EQ(r.pipe.counts.delivered, MANY - r.pipe.counts.lost);
	EXPECT_EQ(r.overtaken, 0);
	run_close(&r);
}

TEST(test_datagram_duplicates_arrive_twice)
{
	struct run r;
	uint32_t twice = 0;

	run_open(&r, 3, &(struct sim_faults){ .duplicate_ppm = 100000 }, MANY);
	run_on(&r);
	for (uint32_t i = 0; i < MANY; i++) {
		EXPECT(r.copies[i] == 1 || r.copies[i] == 2);
		twice += r.copies[i] == 2;
	}
	EXPECT(is_about(twice, MANY, 100000));
	EXPECT_EQ(r.pipe.counts.duplicated, twice);
	EXPECT_EQ(r.pipe.counts.delivered, MANY + twice);
	run_close(&r);
}

TEST(test_datagram_corruption_changes_bytes)
{
	struct run r;

	run_open(&r, 4, &(struct sim_faults){ .corrupt_ppm = 100000 }, MANY);
	run_on(&r);
	EXPECT(is_about(r.damaged, MANY, 100000));
	EXPECT_EQ(r.damaged, r.pipe.counts.corrupted);
	EXPECT_EQ(r.pipe.counts.delivered, MANY);
	run_close(&r);
}

/* Where several changes hit the same byte, they must not undo each other. */
TEST(test_datagram_corruption_of_one_byte_always_shows)
{
	struct run r;
	uint8_t byte = 0;
	size_t length;

	run_open(&r, 4, &(struct sim_faults){ .corrupt_ppm = PPM }, 1);
	for (uint32_t i = 0; i < MANY; i++) {
		sim_datagram_send(&r.pipe, (const uint8_t[]){ 42 }, 1);
		EXPECT(sim_datagram_recv(&r.pipe, &byte, 1, &length));
		EXPECT(byte != 42);
	}
	run_close(&r);
}

TEST(test_datagram_varying_delay_keeps_order)
{
	struct sim_faults faults = { .delay_min_ns = 10 * US, .delay_max_ns = 100 * US };
	struct run r;

	run_open(&r, 5, &faults, MANY);
	run_on(&r);
	EXPECT_EQ(r.overtaken, 0);
	EXPECT_EQ(r.pipe.counts.delivered, MANY);
	EXPECT(r.first_ns >= 10 * US && r.first_ns <= 100 * US);
	EXPECT(r.last_ns <= (uint64_t)MANY * US + 100 * US);
	run_close(&r);
}

TEST(test_datagram_reorder_lets_later_ones_overtake)
{
	struct sim_faults faults = { .reorder_ppm = 100000, .reorder_max_ns = 100 * US };
	struct run r;

	run_open(&r, 6, &faults, MANY);
	run_on(&r);
	EXPECT(is_about(r.pipe.counts.reordered, MANY, 100000));
	EXPECT(r.overtaken > MANY / 20 && r.overtaken <= r.pipe.counts.reordered);
	EXPECT_EQ(r.pipe.counts.delivered, MANY);
	for (uint32_t i = 0; i < MANY; i++)
		EXPECT_EQ(r.copies[i], 1);
	run_close(&r);
}

/* 40 bytes each us at 20 MB/s take twice as long as the sending does. */
TEST(test_datagram_rate_paces_by_virtual_time)
{
	struct run r;

	run_open(&r, 7, &(struct sim_faults){ .rate_bytes_per_s = 20000000 }, 1000);
	run_on(&r);
	EXPECT_EQ(r.first_ns, 2 * US);
	EXPECT_EQ(r.last_ns, 1000 * 2 * US);
	EXPECT_EQ(r.pipe.counts.delivered, 1000);
	run_close(&r);
}

/* What does not fit must not weigh on the line either: it is idle soon after the last send. */
TEST(test_datagram_full_pipe_drops)
{
	struct run r;

	run_open(&r, 8, &(struct sim_faults){ .rate_bytes_per_s = 4000000 }, 20000);
	run_on(&r);
	EXPECT(r.pipe.counts.dropped_full > 10000);
	EXPECT(is_conserved(&r.pipe));
	EXPECT(r.last_ns < (20000 + 10 * 1024) * US);
	EXPECT_EQ(r.overtaken, 0);
	run_close(&r);
}

TEST(test_datagram_clog_stops_all_then_all_resumes)
{
	struct sim_faults faults = { .clog_ppm = PPM, .clog_max_ns = 100 * US };
	struct run r;

	run_open(&r, 9, &faults, 1);
	run_on(&r);
	EXPECT_EQ(r.pipe.line.clogs, 1);
	EXPECT(r.first_ns > 0 && r.first_ns <= 100 * US);
	EXPECT_EQ(r.first_ns, r.pipe.line.clogged_until_ns);
	run_close(&r);

	faults.clog_ppm = 1000;
	run_open(&r, 9, &faults, MANY);
	run_on(&r);
	EXPECT(r.pipe.line.clogs > 50);
	EXPECT_EQ(r.pipe.counts.delivered, MANY);
	EXPECT_EQ(r.overtaken, 0);
	run_close(&r);
}

TEST(test_datagram_partition_loses_until_healed)
{
	struct sim_faults faults = { .delay_min_ns = 10 * US, .delay_max_ns = 10 * US };
	struct run r;

	run_open(&r, 10, &faults, 1000);
	world_schedule(&r.world, 200 * US + 500, (struct world_event){ .kind = KIND_CUT });
	world_schedule(&r.world, 700 * US + 500, (struct world_event){ .kind = KIND_HEAL });
	run_on(&r);
	/* Number n is sent at n us and arrives 10 us later: 191 to 200 are on the way at the cut.
	 */
	for (uint32_t i = 0; i < 1000; i++)
		EXPECT_EQ(r.copies[i], i < 191 || i > 700);
	EXPECT_EQ(r.pipe.counts.dropped_cut, 510);
	EXPECT(is_conserved(&r.pipe));
	run_close(&r);
}

TEST(test_datagram_partition_drawn_heals_by_itself)
{
	struct sim_faults faults = { .cut_ppm = 100, .cut_max_ns = 100 * US };
	struct run r;

	run_open(&r, 11, &faults, MANY);
	run_on(&r);
	EXPECT(r.pipe.line.cuts > 2);
	EXPECT(r.pipe.counts.dropped_cut > 0);
	EXPECT(r.pipe.counts.delivered > MANY * 9 / 10);
	EXPECT(is_conserved(&r.pipe));
	run_close(&r);
}

TEST(test_datagram_arrived_before_cut_can_still_be_pulled)
{
	struct run r;
	uint8_t bytes[BYTES];
	size_t length;

	run_open(&r, 12, &(struct sim_faults){ 0 }, 1);
	sim_datagram_send(&r.pipe, (const uint8_t[]){ 42 }, 1);
	sim_datagram_send(&r.pipe, NULL, 0);
	sim_datagram_cut(&r.pipe);
	EXPECT(sim_datagram_recv(&r.pipe, bytes, sizeof(bytes), &length));
	EXPECT_EQ(length, 1);
	EXPECT_EQ(bytes[0], 42);
	EXPECT(sim_datagram_recv(&r.pipe, bytes, sizeof(bytes), &length));
	EXPECT_EQ(length, 0);
	EXPECT(!sim_datagram_recv(&r.pipe, bytes, sizeof(bytes), &length));
	EXPECT(sim_datagram_is_empty(&r.pipe));
	run_close(&r);
}

/* A pipe that is gone leaves no event behind. */
TEST(test_datagram_fini_calls_off_its_event)
{
	const struct sim_faults faults = { .delay_min_ns = 5, .delay_max_ns = 5 };

	for (int is_gone = 0; is_gone < 2; is_gone++) {
		struct run r;
		struct world_event event;

		run_open(&r, 13, &faults, 1);
		EXPECT(world_next(&r.world, &event));
		tick(&r);
		if (is_gone)
			sim_datagram_fini(&r.pipe);
		EXPECT_EQ(world_next(&r.world, &event), !is_gone);
		EXPECT_EQ(r.world.now_ns, is_gone ? 0 : 5);
		if (!is_gone)
			sim_datagram_fini(&r.pipe);
		world_fini(&r.world);
		free(r.copies);
	}
}

static uint64_t swarm_hash(uint64_t seed)
{
	struct prng p = { .state = seed };
	struct sim_faults faults;
	struct run r;
	uint64_t hash;

	sim_faults_draw(&p, &faults);
	run_open(&r, seed, &faults, 3000);
	run_on(&r);
	REQUIRE(is_conserved(&r.pipe));
	REQUIRE(sim_datagram_is_empty(&r.pipe));
	REQUIRE(r.damaged == 0 || faults.corrupt_ppm > 0);
	REQUIRE(r.overtaken == 0 || faults.reorder_ppm > 0);
	hash = r.world.trace.hash;
	run_close(&r);
	return hash;
}

/* Two runs in which no fault is on are the same run, so not quite all seeds differ. */
TEST(test_datagram_swarm_conserves_and_repeats)
{
	uint32_t differing = 0;

	for (uint64_t seed = 0; seed < 100; seed++) {
		uint64_t hash = swarm_hash(seed);

		EXPECT_EQ(hash, swarm_hash(seed));
		differing += hash != swarm_hash(seed + 1000);
	}
	EXPECT(differing > 80);
}

TEST(test_datagram_all_faults_together)
{
	struct sim_faults faults = {
		.delay_max_ns = 50 * US,
		.rate_bytes_per_s = 100000000,
		.clog_ppm = 1000,
		.clog_max_ns = 100 * US,
		.cut_ppm = 100,
		.cut_max_ns = MS,
		.loss_ppm = 100000,
		.duplicate_ppm = 100000,
		.corrupt_ppm = 100000,
		.reorder_ppm = 100000,
		.reorder_max_ns = 100 * US,
	};
	struct run r;

	run_open(&r, 14, &faults, MANY);
	run_on(&r);
	EXPECT(is_conserved(&r.pipe));
	EXPECT(r.pipe.counts.lost > 0 && r.pipe.counts.duplicated > 0);
	EXPECT(r.pipe.counts.corrupted > 0 && r.overtaken > 0);
	EXPECT(r.pipe.counts.dropped_cut > 0 && r.pipe.line.clogs > 0);
	EXPECT(r.pipe.counts.delivered > MANY / 2);
	run_close(&r);
}
