/* SPDX-License-Identifier: BSD-2-Clause */
/* A sender pushes a known run of bytes, then closes; the receiver checks each byte by its place. */
#include <string.h>

#include "test.h"

#include "sim/world/stream.h"
#include "sim/world/swarm.h"

enum { KIND_READABLE, KIND_WRITABLE, KIND_CUT, KIND_HEAL, KIND_READ_AGAIN, KIND_RESET };
enum { PIPE_BYTES = 20000, BUFFER = 5000, PPM = 1000000, US = 1000, MS = 1000 * US };
enum { BYTES_MAX = 2000000 }; /* of a run */

struct run {
	struct world world;
	struct sim_stream pipe;
	struct prng prng; /* for the sizes of sends and receives */
	uint32_t to_send;
	uint32_t sent, received;
	uint32_t smallest, largest; /* received at once */
	bool is_ended, is_reset, sender_saw_reset;
	bool is_lazy; /* the receiver does not read when told */
	uint64_t last_ns;
};

static void run_open(struct run *r, uint64_t seed, const struct sim_faults *faults, uint32_t bytes)
{
	struct world_options world = { .seed = seed, .events_max = 16, .trace_max = 64 };
	struct sim_stream_options pipe = {
		.id = 1,
		.readable = { .node = 2, .kind = KIND_READABLE },
		.writable = { .node = 1, .kind = KIND_WRITABLE },
		.faults = *faults,
		.bytes_max = PIPE_BYTES,
	};

	REQUIRE(bytes <= BYTES_MAX);
	*r = (struct run){ .to_send = bytes, .smallest = UINT32_MAX, .prng = { .state = seed } };
	REQUIRE(world_init(&r->world, &world) == 0);
	REQUIRE(sim_stream_init(&r->pipe, &r->world, &pipe) == 0);
	world_schedule(&r->world, 0, pipe.writable);
}

static void run_close(struct run *r)
{
	sim_stream_fini(&r->pipe);
	world_fini(&r->world);
}

/* What a run sends, from a place on. */
static const uint8_t *bytes_from(uint32_t place)
{
	static uint8_t bytes[BYTES_MAX];
	static bool is_made;

	for (uint32_t i = 0; i < BYTES_MAX && !is_made; i++)
		bytes[i] = (uint8_t)(i * UINT32_C(2654435761) >> 24);
	is_made = true;
	return bytes + place;
}

/* Sends until the pipe takes no more, then waits for the event. */
static void push(struct run *r)
{
	enum sim_stream_status status = SIM_STREAM_OK;

	while (r->sent < r->to_send && status == SIM_STREAM_OK) {
		uint32_t n = 1 + prng_below(&r->prng, BUFFER);
		size_t taken;

		if (n > r->to_send - r->sent)
			n = r->to_send - r->sent;
		status = sim_stream_send(&r->pipe, bytes_from(r->sent), n, &taken);
		REQUIRE(taken <= n && (taken > 0) == (status == SIM_STREAM_OK));
		r->sent += (uint32_t)taken;
	}
	r->sender_saw_reset |= status == SIM_STREAM_RESET;
	if (r->sent == r->to_send)
		sim_stream_close(&r->pipe);
}

/* One receive for each event: the event must come again as long as something is left. */
static void pull(struct run *r)
{
	uint8_t bytes[BUFFER];
	size_t length;
	enum sim_stream_status status;

	status = sim_stream_recv(&r->pipe, bytes, 1 + prng_below(&r->prng, BUFFER), &length);
	r->is_ended = status == SIM_STREAM_EOF;
	r->is_reset = status == SIM_STREAM_RESET;
	if (status != SIM_STREAM_OK)
		return;
	REQUIRE(r->received + length <= r->to_send);
	REQUIRE(memcmp(bytes, bytes_from(r->received), length) == 0);
	r->received += (uint32_t)length;
	r->last_ns = r->world.now_ns;
	if (length < r->smallest)
		r->smallest = (uint32_t)length;
	if (length > r->largest)
		r->largest = (uint32_t)length;
}

static void run_on(struct run *r)
{
	struct world_event event;

	while (world_next(&r->world, &event)) {
		if (event.kind == KIND_WRITABLE)
			push(r);
		else if (event.kind == KIND_READABLE && !r->is_lazy)
			pull(r);
		else if (event.kind == KIND_CUT)
			sim_stream_cut(&r->pipe);
		else if (event.kind == KIND_HEAL)
			sim_stream_heal(&r->pipe);
		else if (event.kind == KIND_RESET)
			sim_stream_reset(&r->pipe);
		else if (event.kind == KIND_READ_AGAIN) {
			r->is_lazy = false;
			pull(r);
		}
	}
}

static void at(struct run *r, uint64_t time_ns, uint32_t kind)
{
	world_schedule(&r->world, time_ns, (struct world_event){ .kind = kind });
}

static void expect_whole(struct run *r)
{
	REQUIRE(r->received == r->to_send);
	REQUIRE(r->is_ended);
	REQUIRE(r->pipe.state == SIM_STREAM_ENDED);
	REQUIRE(r->pipe.counts.bytes_sent == r->to_send);
	REQUIRE(r->pipe.counts.bytes_received == r->to_send);
}

TEST(test_stream_perfect_pipe_delivers_bytes_then_end)
{
	struct run r;

	run_open(&r, 1, &(struct sim_faults){ 0 }, 1000000);
	run_on(&r);
	expect_whole(&r);
	EXPECT_EQ(r.world.now_ns, 0);
	run_close(&r);
}

TEST(test_stream_of_no_bytes_ends)
{
	struct run r;

	run_open(&r, 2, &(struct sim_faults){ .delay_min_ns = 7, .delay_max_ns = 7 }, 0);
	run_on(&r);
	expect_whole(&r);
	EXPECT_EQ(r.world.now_ns, 7);
	run_close(&r);
}

TEST(test_stream_delay_holds_bytes_back)
{
	struct sim_faults faults = { .delay_min_ns = 50 * US, .delay_max_ns = 80 * US };
	struct run r;

	run_open(&r, 3, &faults, 100);
	run_on(&r);
	expect_whole(&r);
	EXPECT(r.last_ns >= 50 * US && r.last_ns <= 80 * US);
	run_close(&r);
}

TEST(test_stream_rate_paces_by_virtual_time)
{
	struct run r;

	run_open(&r, 4, &(struct sim_faults){ .rate_bytes_per_s = 1000000000 }, 1000000);
	run_on(&r);
	expect_whole(&r);
	/* Never faster; and hardly slower, though the sender now and then waits for room. */
	EXPECT(r.last_ns >= MS && r.last_ns < MS + MS / 10);
	run_close(&r);
}

TEST(test_stream_chunking_cuts_anywhere)
{
	struct run r;

	run_open(&r, 5, &(struct sim_faults){ .chunk_max_bytes = 3 }, 10000);
	run_on(&r);
	expect_whole(&r);
	EXPECT_EQ(r.smallest, 1);
	EXPECT_EQ(r.largest, 3);
	EXPECT(r.pipe.counts.sends_short > 0);
	run_close(&r);
}

TEST(test_stream_chunking_pauses_between_pieces)
{
	struct sim_faults faults = { .chunk_max_bytes = 1, .chunk_pause_max_ns = US };
	struct run r;

	run_open(&r, 6, &faults, 1000);
	run_on(&r);
	expect_whole(&r);
	EXPECT_EQ(r.largest, 1);
	EXPECT(r.last_ns > 400 * US && r.last_ns < 600 * US);
	run_close(&r);
}

TEST(test_stream_clog_stops_all_then_all_resumes)
{
	struct sim_faults faults = { .clog_ppm = PPM, .clog_max_ns = 100 * US };
	struct run r;

	run_open(&r, 7, &faults, 10);
	run_on(&r);
	expect_whole(&r);
	EXPECT_EQ(r.pipe.line.clogs, 1);
	EXPECT(r.last_ns > 0);
	EXPECT_EQ(r.last_ns, r.pipe.line.clogged_until_ns);
	run_close(&r);
}

TEST(test_stream_full_pipe_pushes_back)
{
	struct run r;

	run_open(&r, 8, &(struct sim_faults){ 0 }, 5 * PIPE_BYTES);
	r.is_lazy = true;
	run_on(&r);
	EXPECT_EQ(r.sent, PIPE_BYTES);
	EXPECT_EQ(r.received, 0);
	at(&r, MS, KIND_READ_AGAIN);
	run_on(&r);
	expect_whole(&r);
	run_close(&r);
}

TEST(test_stream_partition_stalls_and_heal_resumes)
{
	struct sim_faults faults = { .rate_bytes_per_s = 100000000 };
	struct run r;

	run_open(&r, 9, &faults, 100000); /* takes 1 ms */
	at(&r, 500 * US, KIND_CUT);
	run_on(&r);
	EXPECT(r.received > 40000 && r.received < 60000);
	EXPECT_EQ(r.pipe.state, SIM_STREAM_OPEN);
	at(&r, 10 * MS, KIND_HEAL);
	run_on(&r);
	expect_whole(&r);
	EXPECT(r.last_ns >= 10 * MS);
	run_close(&r);
}

TEST(test_stream_partition_resets_after_drawn_period)
{
	struct sim_faults faults = { .rate_bytes_per_s = 100000000,
				     .reset_ppm = PPM,
				     .reset_max_ns = MS };
	struct run r;

	run_open(&r, 10, &faults, 100000);
	at(&r, 500 * US, KIND_CUT);
	run_on(&r);
	EXPECT(r.is_reset && r.sender_saw_reset);
	EXPECT_EQ(r.pipe.state, SIM_STREAM_BROKEN);
	EXPECT(r.world.now_ns > 500 * US && r.world.now_ns <= 1500 * US);
	EXPECT(r.received < 60000);
	sim_stream_heal(&r.pipe);
	sim_stream_cut(&r.pipe);
	at(&r, 2 * MS, KIND_HEAL);
	run_on(&r);
	EXPECT_EQ(r.pipe.state, SIM_STREAM_BROKEN);
	run_close(&r);
}

TEST(test_stream_cut_after_its_end_resets_nothing)
{
	struct sim_faults faults = { .reset_ppm = PPM, .reset_max_ns = MS };
	struct run r;
	uint8_t byte;
	size_t n;

	run_open(&r, 10, &faults, 0);
	sim_stream_close(&r.pipe);
	sim_stream_cut(&r.pipe); /* its reset is drawn: within a millisecond */
	sim_line_heal(&r.pipe.line);
	EXPECT_EQ(sim_stream_recv(&r.pipe, &byte, 1, &n), SIM_STREAM_EOF);
	at(&r, 2 * MS, KIND_HEAL);
	run_on(&r);
	EXPECT_EQ(r.pipe.state, SIM_STREAM_ENDED);
	run_close(&r);
}

TEST(test_stream_healed_before_reset_goes_on)
{
	struct sim_faults faults = { .rate_bytes_per_s = 100000000,
				     .reset_ppm = PPM,
				     .reset_max_ns = 1000 * MS };
	struct run r;

	run_open(&r, 11, &faults, 100000);
	at(&r, 500 * US, KIND_CUT);
	at(&r, 501 * US, KIND_HEAL);
	run_on(&r);
	expect_whole(&r);
	sim_stream_cut(&r.pipe); /* after the end nothing can break */
	at(&r, 2000 * MS, KIND_HEAL);
	run_on(&r);
	EXPECT_EQ(r.pipe.state, SIM_STREAM_ENDED);
	run_close(&r);
}

TEST(test_stream_partition_drawn_heals_by_itself)
{
	struct run r;

	run_open(&r, 12, &(struct sim_faults){ .cut_ppm = 100000, .cut_max_ns = MS }, 1000000);
	run_on(&r);
	expect_whole(&r);
	EXPECT(r.pipe.line.cuts > 5);
	run_close(&r);
}

/* A reset is drawn for each cut, within the 10 s that all takes, but after the cut has healed. */
TEST(test_stream_partition_drawn_heals_before_reset)
{
	struct sim_faults faults = {
		.cut_ppm = 100000,
		.cut_max_ns = US,
		.rate_bytes_per_s = 100000,
		.reset_ppm = PPM,
		.reset_max_ns = 1000 * MS,
	};
	struct run r;

	run_open(&r, 12, &faults, 1000000);
	run_on(&r);
	expect_whole(&r);
	EXPECT(r.pipe.line.cuts > 5);
	run_close(&r);
}

TEST(test_stream_reset_is_seen_by_both_ends)
{
	struct run r;
	uint8_t byte = 0;
	size_t n;

	run_open(&r, 13, &(struct sim_faults){ .rate_bytes_per_s = 100000000 }, 100000);
	at(&r, 300 * US, KIND_RESET);
	run_on(&r);
	EXPECT(r.is_reset && r.sender_saw_reset);
	EXPECT_EQ(r.world.now_ns, 300 * US);
	EXPECT(r.received < 40000);
	EXPECT_EQ(sim_stream_send(&r.pipe, &byte, 1, &n), SIM_STREAM_RESET);
	EXPECT_EQ(sim_stream_recv(&r.pipe, &byte, 1, &n), SIM_STREAM_RESET);
	sim_stream_close(&r.pipe);
	sim_stream_reset(&r.pipe);
	EXPECT_EQ(r.pipe.state, SIM_STREAM_BROKEN);
	run_close(&r);
}

/* Without resets every byte arrives; with them, what arrives is a beginning of what was sent. */
static uint64_t swarm_hash(uint64_t seed, bool may_reset)
{
	struct prng p = { .state = seed };
	struct sim_faults faults;
	struct run r;
	uint64_t hash;

	sim_faults_draw(&p, &faults);
	if (!may_reset)
		faults.reset_ppm = 0;
	run_open(&r, seed, &faults, 1 + prng_below(&p, 40000));
	run_on(&r);
	if (may_reset && r.is_reset)
		REQUIRE(r.received <= r.sent);
	else
		expect_whole(&r);
	hash = r.world.trace.hash;
	run_close(&r);
	return hash;
}

TEST(test_stream_swarm_delivers_every_byte_and_repeats)
{
	for (uint64_t seed = 0; seed < HISTORIES(100); seed++) {
		uint64_t hash = swarm_hash(seed, false);

		EXPECT_EQ(hash, swarm_hash(seed, false));
		EXPECT(hash != swarm_hash(seed + 1000, false));
		(void)swarm_hash(seed, true);
	}
}

TEST(test_stream_all_faults_together)
{
	struct sim_faults faults = {
		.delay_max_ns = 50 * US,
		.rate_bytes_per_s = 100000000,
		.clog_ppm = 10000,
		.clog_max_ns = 100 * US,
		.cut_ppm = 5000,
		.cut_max_ns = MS,
		.chunk_max_bytes = 700,
		.chunk_pause_max_ns = 2 * US,
		/* those of datagrams are without effect */
		.loss_ppm = 300000,
		.duplicate_ppm = 300000,
		.corrupt_ppm = 300000,
		.reorder_ppm = 300000,
		.reorder_max_ns = MS,
	};
	struct run r;

	run_open(&r, 14, &faults, 2000000);
	run_on(&r);
	expect_whole(&r);
	EXPECT(r.pipe.line.clogs > 0 && r.pipe.line.cuts > 0 && r.pipe.counts.sends_short > 0);
	run_close(&r);
}
