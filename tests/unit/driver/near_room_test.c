/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings that are full, and receivers that are stopped. */
#include "driver/near/ring.h"
#include "unit/driver/near_fixture.h"

enum { STALL_NS = 10 * 1000 * 1000, STOP_NS = 100 * 1000 * 1000 };

TEST(test_near_full_ring_blocks_until_the_receiver_takes)
{
	struct pair p;
	uint32_t n;

	WORLD_OR_SKIP();
	pair_open(&p);
	near_room_used(p.near.near);
	n = fill(&p);
	EXPECT(!near_has_room(p.near.near));
	EXPECT_EQ(near_due(p.near.near), STALL_NS);
	EXPECT(near_rest(p.near.near));
	take_all(&p, n);
	/* It is told by a message, and sees it in the ring. */
	EXPECT_EQ(near_counts(p.far.near)->wakes, 1);
	EXPECT(near_has_room(p.near.near));
	EXPECT(end_look(&p.near, PATIENCE_MS));
	EXPECT_EQ(near_due(p.near.near), UINT64_MAX);
	EXPECT_EQ(put(&p.near, &p.path, n, 100), NEAR_SENT);
	expect_packet(&p.far, n, 100);
	pair_close(&p);
}

/* One that polls sees the room: a message for each full ring would cost both ends system calls. */
TEST(test_near_sender_is_told_of_room_only_if_it_rests)
{
	struct pair p;
	uint32_t n;

	WORLD_OR_SKIP();
	pair_open(&p);
	near_room_used(p.near.near);
	n = fill(&p);
	take_all(&p, n);
	EXPECT_EQ(near_counts(p.far.near)->wakes, 0);
	EXPECT(!near_rest(p.near.near)); /* there is room by now */
	EXPECT(near_has_room(p.near.near));
	/* A thread rests already when a packet of another one finds no room. */
	EXPECT(near_rest(p.near.near));
	n = fill(&p);
	take_all(&p, n);
	EXPECT_EQ(near_counts(p.far.near)->wakes, 1);
	pair_close(&p);
}

TEST(test_near_full_ring_holds_up_no_other_receiver)
{
	enum { THIRD_SLOT = 11 };
	struct pair p;
	struct end third;
	struct ib_path path = path_to_far;

	WORLD_OR_SKIP();
	pair_open(&p);
	end_open(&third, THIRD_SLOT);
	path.near_number = connect_ends(&p.near, &third, THIRD_SLOT);
	(void)fill(&p);
	REQUIRE(put(&p.near, &path, 1, 100) == NEAR_SENT);
	expect_packet(&third, 1, 100);
	end_close(&third);
	pair_close(&p);
}

TEST(test_near_receiver_that_takes_nothing_is_stalled)
{
	struct pair p;
	uint32_t n;

	WORLD_OR_SKIP();
	pair_open(&p);
	near_room_used(p.near.near);
	n = fill(&p);
	near_expire(p.near.near, STALL_NS - 1);
	EXPECT(!near_is_stalled(p.near.near, p.path.near_number));
	EXPECT(!near_has_room(p.near.near));
	near_expire(p.near.near, STALL_NS);
	EXPECT(near_is_stalled(p.near.near, p.path.near_number));
	EXPECT(near_has_room(p.near.near)); /* those that wait may look */
	EXPECT_EQ(put(&p.near, &p.path, n, IBA_PACKET_MAX), NEAR_FULL);
	EXPECT_EQ(near_due(p.near.near), STOP_NS);
	near_room_used(p.near.near);
	near_expire(p.near.near, STOP_NS - 1);
	EXPECT(!near_is_stopped(p.near.near, p.path.near_number));
	near_expire(p.near.near, STOP_NS);
	EXPECT(near_is_stopped(p.near.near, p.path.near_number));
	EXPECT(near_is_stalled(p.near.near, p.path.near_number));
	EXPECT(near_has_room(p.near.near));
	EXPECT_EQ(near_due(p.near.near), UINT64_MAX);
	/* No packet is lost: as soon as it takes again, packets reach it again. */
	take_all(&p, n);
	EXPECT_EQ(put(&p.near, &p.path, n, 100), NEAR_SENT);
	EXPECT(!near_is_stopped(p.near.near, p.path.near_number));
	expect_packet(&p.far, n, 100);
	EXPECT_EQ(near_counts(p.near.near)->lost, 0);
	pair_close(&p);
}

/* As put(), of a packet that may be lost, whose receiver is stopped. */
static enum near_sent put_lossy(struct end *e, const struct ib_path *path, uint32_t n,
				size_t length)
{
	static struct ib_out out;
	enum near_sent sent;

	out.near_number = path->near_number;
	near_begin_lossy(e->near, &out);
	REQUIRE(out.run_bytes == 0);
	for (size_t i = 0; i < length; i++)
		out.room[i] = (uint8_t)(n * 31 + i);
	out.path = path;
	out.ecn = IB_ECN_ECT0;
	out.has_icrc = n % 2;
	out.spans = (struct span_list){ .count = 1, .length = length };
	out.spans.spans[0] = (struct span){ out.room, length };
	sent = near_end(e->near, &out);
	near_flush(e->near);
	return sent;
}

/* It goes into the ring as long as there is room, which is not taken yet here. */
TEST(test_near_packet_that_may_be_lost_does_not_wait)
{
	struct pair p = { .path = path_to_far };
	uint32_t n = 0;

	WORLD_OR_SKIP();
	end_open(&p.near, NEAR_SLOT);
	end_open(&p.far, FAR_SLOT);
	p.path.near_number = near_reach(p.near.near, FAR_SLOT);
	while (put_lossy(&p.near, &p.path, n, IBA_PACKET_MAX) == NEAR_SENT)
		n++;
	EXPECT(n > RING_BYTES_MAX / IBA_PACKET_MAX - 3);
	EXPECT_EQ(put_lossy(&p.near, &p.path, n, 100), NEAR_LOST);
	near_lose(p.near.near);
	EXPECT_EQ(near_counts(p.near.near)->lost, 3);
	REQUIRE(end_look(&p.far, PATIENCE_MS) && end_look(&p.near, PATIENCE_MS));
	take_all(&p, n);
	EXPECT_EQ(put(&p.near, &p.path, n, 100), NEAR_SENT);
	expect_packet(&p.far, n, 100);
	end_close(&p.far);
	end_look_once(&p.near);
	EXPECT_EQ(put_lossy(&p.near, &p.path, n, 100), NEAR_LOST);
	end_close(&p.near);
}
