/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory that two adapters share, without anything around it. */
#include "driver/near/ring.h"

#include <unistd.h>

#include "test.h"

/* The receiver says that it took what was never put. */
TEST(test_near_ring_of_a_false_receiver_is_given_up)
{
	struct ring sender, receiver;
	int fd;

	fd = ring_make(&sender, RING_BYTES_MIN);
	REQUIRE(fd >= 0 && ring_map(&receiver, fd) == 0);
	close(fd);
	ring_take(&receiver, 2 * receiver.bytes);
	while (!sender.is_broken && ring_room(&sender, 4096))
		ring_put(&sender, 4096);
	EXPECT(sender.is_broken);
	EXPECT(!ring_room(&sender, 1) && !ring_await_room(&sender, 1));
	ring_unmap(&sender);
	ring_unmap(&receiver);
}

/* The sender says that it put a part of a record: to take it passes what was put. */
TEST(test_near_ring_of_a_false_sender_is_given_up)
{
	struct ring sender, receiver;
	const uint8_t *bytes;
	int fd;

	fd = ring_make(&sender, RING_BYTES_MIN);
	REQUIRE(fd >= 0 && ring_map(&receiver, fd) == 0);
	close(fd);
	atomic_store(&sender.head->put, 17);
	EXPECT_EQ(ring_peek(&receiver, &bytes), 17);
	ring_take(&receiver, 17);
	EXPECT_EQ(ring_peek(&receiver, &bytes), 0);
	EXPECT(receiver.is_broken);
	ring_unmap(&sender);
	ring_unmap(&receiver);
}

/* What is put while the receiver marks its rest is seen by one of the two. */
TEST(test_near_ring_that_rests_sees_a_record)
{
	struct ring sender, receiver;
	int fd;

	fd = ring_make(&sender, RING_BYTES_MIN);
	REQUIRE(fd >= 0 && ring_map(&receiver, fd) == 0);
	close(fd);
	EXPECT(ring_rest(&receiver));
	REQUIRE(ring_room(&sender, 100));
	ring_put(&sender, 100);
	EXPECT(ring_wakes_receiver(&sender) && !ring_wakes_receiver(&sender));
	EXPECT(!ring_rest(&receiver));
	ring_unmap(&sender);
	ring_unmap(&receiver);
}

static void put(struct ring *sender, size_t bytes)
{
	REQUIRE(ring_room(sender, bytes));
	ring_put(sender, bytes);
}

static void take(struct ring *receiver, size_t bytes)
{
	const uint8_t *at;

	REQUIRE(ring_peek(receiver, &at) >= bytes);
	ring_take(receiver, bytes);
}

/* A receiver looks for the wait of a sender now and then, and never too late. */
TEST(test_near_ring_finds_that_the_sender_waits)
{
	enum { RECORD = 1024 };
	struct ring sender, receiver;
	int fd, left = 0;

	fd = ring_make(&sender, RING_BYTES_MIN);
	REQUIRE(fd >= 0 && ring_map(&receiver, fd) == 0);
	close(fd);
	/* At every place of the ring. */
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < round % 7; i++) {
			put(&sender, RECORD);
			take(&receiver, RECORD);
			EXPECT(!ring_wakes_sender(&receiver));
		}
		while (ring_room(&sender, RECORD)) {
			put(&sender, RECORD);
			left++;
		}
		REQUIRE(ring_await_room(&sender, RECORD));
		for (int woken = 0; left > 0; left--) {
			take(&receiver, RECORD);
			woken += ring_wakes_sender(&receiver);
			EXPECT_EQ(woken, left - 1 <= RING_BYTES_MIN / RECORD / 2);
		}
	}
	ring_unmap(&sender);
	ring_unmap(&receiver);
}
