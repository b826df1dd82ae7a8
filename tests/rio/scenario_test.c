/* SPDX-License-Identifier: BSD-2-Clause */
/* RIO-S1 to RIO-S4, end to end over TCP. */
#include <stdlib.h>
#include <string.h>

#include "rio/cluster.h"

enum { MIB = 1 << 20, KIB = 1 << 10 };

static struct cluster c;
static uint8_t a[MIB], b[MIB], big[4 * MIB];

static void fill(uint8_t *bytes, size_t length, uint8_t seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static uint32_t memory(struct weft_rio_requester *q, void *bytes, uint64_t length)
{
	uint32_t tag = 0;

	REQUIRE(weft_rio_memory_add(q, bytes, length, &tag) == WEFT_OK);
	return tag;
}

/* Written from A and B, read back into B and A: the right bytes, and none of them at the owner. */
TEST(test_rio_s1_s2_fragments_go_to_the_device_and_back_past_the_owner)
{
	struct weft_rio_requester *q;
	struct weft_rio_moved at_owner, at_requester, at_iounit;
	struct weft_rio_device d;
	struct weft_rio_segment segments[2];

	cluster_open(&c, "mem:16M");
	q = cluster_requester(&c, 0);
	d = cluster_device(q, "disk");
	EXPECT_EQ(d.size_bytes, 16 * MIB);
	fill(a, sizeof(a), 1);
	fill(b, sizeof(b), 2);
	segments[0] = (struct weft_rio_segment){ a + 100, 600 * KIB, memory(q, a, sizeof(a)) };
	segments[1] = (struct weft_rio_segment){ b, 424 * KIB, memory(q, b, sizeof(b)) };
	EXPECT_EQ(cluster_io(q, &(struct weft_rio_transaction){ .operation = WEFT_RIO_WRITE,
								.device = d.number,
								.offset = 3 * MIB,
								.length = MIB,
								.segments = segments,
								.segment_count = 2 }),
		  WEFT_OK);
	segments[0] = (struct weft_rio_segment){ big, MIB, memory(q, big, sizeof(big)) };
	EXPECT_EQ(cluster_io(q, &(struct weft_rio_transaction){ .operation = WEFT_RIO_READ,
								.device = d.number,
								.offset = 3 * MIB,
								.length = MIB,
								.segments = segments,
								.segment_count = 1 }),
		  WEFT_OK);
	EXPECT_MEM(big, a + 100, 600 * KIB);
	EXPECT_MEM(big + 600 * KIB, b, 424 * KIB);
	weft_rio_requester_moved(q, &at_requester);
	weft_rio_owner_moved(c.owner, &at_owner);
	weft_rio_iounit_moved(c.iounits[0], &at_iounit);
	EXPECT_EQ(at_owner.payload_in + at_owner.payload_out, 0);
	EXPECT(at_owner.control_in + at_owner.control_out < 16 * KIB);
	EXPECT(at_requester.payload_in >= MIB && at_requester.payload_out >= MIB);
	EXPECT_EQ(at_iounit.payload_out, at_requester.payload_in);
	EXPECT_EQ(at_requester.connections, 1);
	cluster_close(&c);
}
