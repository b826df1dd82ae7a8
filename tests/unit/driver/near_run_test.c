/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of packets, which are built in shared memory and sent as one record. */
#include <string.h>

#include "driver/near/ring.h"
#include "unit/driver/near_fixture.h"
#include "wire/iba.h"

enum { MTU = 4096, LARGE_RUN = 64 * 1024, RECEIVERS = 20, FIRST_SLOT = 20, PACKETS = 4 };

static struct ib_out out;

/* Builds a run of Write packets where near_begin() said, whose bytes tell their place. */
static void build(uint32_t packets)
{
	const struct iba_packet p = { .opcode = iba_opcode(IBA_RC, IBA_WRITE_MIDDLE) };
	uint32_t at = iba_encode(&p, out.room), bytes = packets * MTU;

	for (uint32_t i = 0; i < bytes; i++)
		out.room[at + i] = (uint8_t)(i * 7 + i / MTU);
	memset(out.room + at + bytes, 0, IBA_ICRC_BYTES);
	out.run = (uint16_t)(packets - 1);
	out.spans = (struct span_list){ .count = 1, .length = at + bytes + IBA_ICRC_BYTES };
	out.spans.spans[0] = (struct span){ out.room, out.spans.length };
}

/* The payload that a run to there may have. */
static uint32_t run_bytes_to(struct end *e, uint32_t number)
{
	out.near_number = number;
	REQUIRE(near_begin(e->near, 0, &out));
	return out.run_bytes;
}

TEST(test_near_run_comes_as_one_record_and_counts_as_its_packets)
{
	struct pair p;
	const struct ib_in *in;

	WORLD_OR_SKIP();
	end_open(&p.near, NEAR_SLOT);
	end_open_for_runs(&p.far, FAR_SLOT);
	p.path = path_to_far;
	p.path.near_number = connect_ends(&p.near, &p.far, FAR_SLOT);
	EXPECT_EQ(run_bytes_to(&p.near, p.path.near_number), LARGE_RUN);
	out.path = &p.path;
	build(PACKETS);
	REQUIRE(near_end(p.near.near, &out) == NEAR_SENT);
	near_flush(p.near.near);
	in = near_next(p.far.near);
	REQUIRE(in && in->run == PACKETS - 1 && in->length == out.spans.length);
	for (uint32_t i = 0; i < PACKETS * MTU; i++)
		REQUIRE(in->bytes[12 + i] == (uint8_t)(i * 7 + i / MTU));
	REQUIRE(!near_next(p.far.near));
	EXPECT_EQ(near_counts(p.near.near)->packets_out, PACKETS);
	EXPECT_EQ(near_counts(p.far.near)->packets_in, PACKETS);
	EXPECT_EQ(near_counts(p.far.near)->bytes_in, PACKETS * (12 + MTU + IBA_ICRC_BYTES));
	pair_close(&p);
}

/* Several have room at a time; a small ring is for packets alone. */
TEST(test_near_runs_are_shorter_in_smaller_rings)
{
	struct end near, far[RECEIVERS];
	uint32_t most[RECEIVERS];

	WORLD_OR_SKIP();
	end_open(&near, NEAR_SLOT);
	for (int i = 0; i < RECEIVERS; i++) {
		end_open_for_runs(&far[i], (uint8_t)(FIRST_SLOT + i));
		most[i] = run_bytes_to(&near,
				       connect_ends(&near, &far[i], (uint8_t)(FIRST_SLOT + i)));
	}
	EXPECT_EQ(most[0], LARGE_RUN);
	EXPECT(most[8] < RING_BYTES_MAX / 16 && most[8] >= LARGE_RUN / 4);
	EXPECT_EQ(most[RECEIVERS - 1], 0);
	end_close(&near);
	for (int i = 0; i < RECEIVERS; i++)
		end_close(&far[i]);
}

/* A run waits until there is room for the longest: else the last part of a ring is for packets. */
TEST(test_near_run_waits_for_room_for_the_longest)
{
	struct pair p;
	uint32_t n = 0;

	WORLD_OR_SKIP();
	end_open(&p.near, NEAR_SLOT);
	end_open_for_runs(&p.far, FAR_SLOT);
	p.path = path_to_far;
	p.path.near_number = connect_ends(&p.near, &p.far, FAR_SLOT);
	while (put(&p.near, &p.path, n, IBA_PACKET_MAX) == NEAR_SENT)
		n++;
	for (uint32_t i = 0; i < n / 8; i++)
		expect_packet(&p.far, i, IBA_PACKET_MAX);
	out.near_number = p.path.near_number;
	EXPECT(!near_begin(p.near.near, 0, &out));
	EXPECT(put(&p.near, &p.path, n, 100) == NEAR_SENT);
	for (uint32_t i = n / 8; i < n / 2; i++)
		expect_packet(&p.far, i, IBA_PACKET_MAX);
	EXPECT_EQ(run_bytes_to(&p.near, p.path.near_number), LARGE_RUN);
	pair_close(&p);
}

/* A receiver that injects faults wants packets one by one, and was sent a run all the same. */
TEST(test_near_run_to_a_receiver_of_packets_alone_breaks_the_ring)
{
	struct pair p;

	WORLD_OR_SKIP();
	pair_open(&p);
	EXPECT_EQ(run_bytes_to(&p.near, p.path.near_number), 0);
	/* As if it had said that it takes runs: the ring has room for one. */
	out.path = &p.path;
	build(2);
	REQUIRE(near_end(p.near.near, &out) == NEAR_SENT);
	near_flush(p.near.near);
	EXPECT(!near_next(p.far.near));
	EXPECT(!near_is_sent_to(p.far.near));
	EXPECT_EQ(near_counts(p.far.near)->refused, 1);
	pair_close(&p);
}

/* The same of one that is no longer than a packet: it comes as the packet that it looks like. */
TEST(test_near_run_to_a_receiver_of_packets_alone_is_none)
{
	const struct ib_in *in;
	struct pair p;

	WORLD_OR_SKIP();
	pair_open(&p);
	EXPECT_EQ(run_bytes_to(&p.near, p.path.near_number), 0);
	out.path = &p.path;
	build(1);
	out.run = 1;
	REQUIRE(near_end(p.near.near, &out) == NEAR_SENT);
	near_flush(p.near.near);
	in = near_next(p.far.near);
	REQUIRE(in);
	EXPECT_EQ(in->run, 0);
	EXPECT_EQ(near_counts(p.far.near)->packets_in, 1);
	pair_close(&p);
}
