/* SPDX-License-Identifier: BSD-2-Clause */
/* RIO-09: an I/O unit with several adapters has one connection to each requester. */
#include <string.h>

#include "rio/cluster.h"

enum { KIB = 1024, LENGTH = 64 * KIB, DEPTH = 16, ROUNDS = 8, ADAPTERS = 3 };

static struct cluster c;
static uint8_t memory[REQUESTERS_MAX][DEPTH * LENGTH];
static const struct weft_rio_store store = { .number = 1, .name = "disk", .text = "mem:16M" };

static void begin(void)
{
	cluster_begin(&c);
	c.iounit_options[0].adapters = ADAPTERS;
	cluster_add_iounit(&c, &store, 1);
	cluster_start_owner(&c);
}

/* DEPTH requests at once; each requester has its part of the device. */
static void move_all(struct weft_rio_requester *q, int nth, enum weft_rio_operation operation)
{
	uint32_t device = cluster_device(q, "disk").number;
	uint32_t tag = cluster_memory(q, memory[nth], sizeof(memory[nth])), left = DEPTH;

	for (uint32_t i = 0; i < DEPTH; i++) {
		const struct weft_rio_sge s = { .memory = memory[nth] + (size_t)i * LENGTH,
						.length = LENGTH,
						.tag = tag };
		const struct weft_rio_transaction t = {
			.operation = operation,
			.device = device,
			.offset = ((uint64_t)nth * DEPTH + i) * LENGTH,
			.length = LENGTH,
			.sges = &s,
			.sge_count = 1,
		};

		REQUIRE(weft_rio_request_submit(q, &(struct weft_rio_request){
							   .transactions = &t,
							   .transaction_count = 1 }) == WEFT_OK);
	}
	while (left > 0) {
		struct weft_rio_result ended[DEPTH];
		uint32_t count;

		REQUIRE(weft_rio_request_wait(q, PATIENCE, ended, DEPTH, &count) == WEFT_OK &&
			count > 0);
		for (uint32_t i = 0; i < count; i++)
			EXPECT_EQ(ended[i].reason, WEFT_OK);
		left -= count;
	}
	EXPECT_EQ(weft_rio_memory_remove(q, tag), WEFT_OK);
}

TEST(test_rio_09_a_unit_with_several_adapters_has_one_connection_to_each_requester)
{
	static uint8_t wanted[DEPTH * LENGTH];
	struct weft_rio_requester *q[REQUESTERS_MAX];
	struct weft_rio_traffic moved;

	begin();
	for (int i = 0; i < REQUESTERS_MAX; i++)
		q[i] = cluster_requester(&c, i);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < REQUESTERS_MAX; i++) {
			cluster_fill(wanted, sizeof(wanted), (uint8_t)(round * 8 + i));
			memcpy(memory[i], wanted, sizeof(wanted));
			move_all(q[i], i, WEFT_RIO_WRITE);
			memset(memory[i], 0, sizeof(wanted));
			move_all(q[i], i, WEFT_RIO_READ);
			EXPECT_MEM(memory[i], wanted, sizeof(wanted));
		}
	}
	for (int i = 0; i < REQUESTERS_MAX; i++) {
		weft_rio_requester_traffic(q[i], &moved);
		EXPECT_EQ(moved.connections, 1);
	}
	weft_rio_iounit_traffic(c.iounits[0], &moved);
	EXPECT_EQ(moved.connections, REQUESTERS_MAX);
	EXPECT_EQ(moved.payload_in, (uint64_t)ROUNDS * REQUESTERS_MAX * sizeof(wanted));
	cluster_close(&c);
}

/* It comes back over another adapter, and still there is one at a time. */
TEST(test_rio_09_a_requester_that_comes_again_has_one_connection)
{
	struct weft_rio_traffic moved;

	begin();
	for (uint64_t i = 1; i <= 2 * ADAPTERS; i++) {
		struct weft_rio_requester *q = cluster_requester(&c, 0);

		move_all(q, 0, WEFT_RIO_READ);
		weft_rio_requester_traffic(q, &moved);
		EXPECT_EQ(moved.connections, 1);
		weft_rio_iounit_traffic(c.iounits[0], &moved);
		EXPECT_EQ(moved.connections, i);
		cluster_close_requester(&c, 0);
	}
	cluster_close(&c);
}

TEST(test_rio_09_a_unit_has_eight_adapters_at_most)
{
	const struct weft_rio_peer owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, NULL);
	const struct weft_rio_self self = cluster_self(FIRST_IOUNIT, &owner, 1);
	const struct weft_rio_iounit_options options = { .stores = &store,
							 .store_count = 1,
							 .adapters = 9 };
	struct weft_rio_iounit *iounit;

	EXPECT_EQ(weft_rio_iounit_open(&self, &options, &iounit, NULL), WEFT_R_LIMIT);
}
