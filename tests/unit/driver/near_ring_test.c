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
