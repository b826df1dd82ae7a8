/* SPDX-License-Identifier: BSD-2-Clause */
/* RIO-14: lists that name no platform name the I/O unit's own memory. */
#include <string.h>

#include "rio/cluster.h"

enum { KIB = 1024, MIB = 1 << 20, LENGTH = 64 * KIB, OWN_BYTES = 256 * KIB };

static struct cluster c;
static uint8_t out[LENGTH], in[LENGTH];
static struct weft_rio_requester *q;
static uint32_t tag, disk, tape;

static const struct weft_rio_store stores[2] = {
	{ .number = 1, .name = "disk", .text = "mem:1M" },
	{ .number = 2, .name = "tape", .text = "mem:1M" },
};

/* The second requester may not name the unit's memory. */
static void begin(uint64_t memory_bytes)
{
	static const struct weft_rio_share share = { { FIRST_REQUESTER, 1 }, { FIRST_IOUNIT, 1 } };

	cluster_begin(&c);
	c.iounit_options[0].memory_bytes = memory_bytes;
	c.owner_options.shares = &share;
	c.owner_options.share_count = 1;
	cluster_add_iounit(&c, stores, 2);
	cluster_start_owner(&c);
	q = cluster_requester(&c, 0);
	disk = cluster_device(q, "disk").number;
	tape = cluster_device(q, "tape").number;
	cluster_fill(out, sizeof(out), 4);
	tag = cluster_memory(q, out, sizeof(out));
	EXPECT_EQ(cluster_write(q, (struct cluster_move){ disk, 0, out, LENGTH, tag }), WEFT_OK);
}

/* LENGTH bytes of the unit's memory, from a byte on. */
static struct weft_rio_sge own(uint64_t at)
{
	return (struct weft_rio_sge){ .memory = (void *)(uintptr_t)at,
				      .length = LENGTH,
				      .platform = { FIRST_IOUNIT, 1 } };
}

static struct weft_rio_transaction of(enum weft_rio_operation operation, uint32_t device,
				      const struct weft_rio_sge *sge)
{
	return (struct weft_rio_transaction){ .operation = operation,
					      .device = device,
					      .length = LENGTH,
					      .sges = sge,
					      .sge_count = 1 };
}

static enum weft_reason both(const struct weft_rio_transaction t[2])
{
	return weft_rio_request_do(
		q, &(struct weft_rio_request){ .transactions = t, .transaction_count = 2 }, NULL);
}

static void tape_has(const uint8_t *bytes)
{
	uint32_t into = cluster_memory(q, in, sizeof(in));

	memset(in, 0, sizeof(in));
	EXPECT_EQ(cluster_read(q, (struct cluster_move){ tape, 0, in, LENGTH, into }), WEFT_OK);
	EXPECT_EQ(weft_rio_memory_remove(q, into), WEFT_OK);
	EXPECT_MEM(in, bytes, LENGTH);
}

TEST(test_rio_14_devices_are_copied_through_the_units_own_memory)
{
	const struct weft_rio_sge there = own(OWN_BYTES - LENGTH);
	struct weft_rio_traffic before, after;
	struct weft_rio_transaction t[2];

	begin(OWN_BYTES);
	t[0] = of(WEFT_RIO_READ, disk, &there);
	t[1] = of(WEFT_RIO_WRITE, tape, &there);
	weft_rio_requester_traffic(q, &before);
	EXPECT_EQ(both(t), WEFT_OK);
	weft_rio_requester_traffic(q, &after);
	/* But for the word that it is done. */
	EXPECT(after.payload_in + after.payload_out - before.payload_in - before.payload_out < 320);
	tape_has(out);
	cluster_close(&c);
}

/* In one list with memory of the requester, behind which the unit has to be named. */
TEST(test_rio_14_a_list_names_the_requesters_memory_and_the_units_own)
{
	const struct weft_rio_sge there = own(0);
	struct weft_rio_sge here = { .memory = out, .length = LENGTH };
	struct weft_rio_transaction t[2];

	begin(OWN_BYTES);
	here.tag = tag;
	t[0] = of(WEFT_RIO_READ, disk, &there);
	t[1] = of(WEFT_RIO_READ, tape, &here);
	EXPECT_EQ(both(t), WEFT_OK);
	cluster_fill(out, sizeof(out), 4); /* what the unit's memory has */
	t[0] = of(WEFT_RIO_WRITE, disk, &here);
	t[1] = of(WEFT_RIO_WRITE, tape, &there);
	EXPECT_EQ(both(t), WEFT_OK);
	tape_has(out);
	cluster_close(&c);
}

static enum weft_reason read_into(struct weft_rio_requester *asking, struct weft_rio_sge sge)
{
	const struct weft_rio_transaction t = of(WEFT_RIO_READ, disk, &sge);

	return cluster_io(asking, &t);
}

TEST(test_rio_14_memory_that_the_unit_does_not_have_is_refused)
{
	struct weft_rio_sge handle = own(0);

	handle.tag = 1;
	begin(OWN_BYTES);
	EXPECT_EQ(read_into(q, own(OWN_BYTES - LENGTH + 1)), WEFT_R_RIO_PLATFORM);
	EXPECT_EQ(read_into(q, own(UINT64_MAX - LENGTH + 1)), WEFT_R_RIO_PLATFORM);
	EXPECT_EQ(read_into(q, handle), WEFT_R_RIO_PLATFORM);
	EXPECT_EQ(read_into(q, own(OWN_BYTES - LENGTH)), WEFT_OK);
	cluster_close(&c);
	begin(0);
	EXPECT_EQ(read_into(q, own(0)), WEFT_R_RIO_PLATFORM);
	cluster_close(&c);
}

TEST(test_rio_14_mem_13_the_owner_says_who_names_the_units_memory)
{
	struct weft_rio_requester *other;

	begin(OWN_BYTES);
	other = cluster_requester(&c, 1);
	(void)cluster_device(other, "disk");
	EXPECT_EQ(read_into(other, own(0)), WEFT_R_RIO_FOREIGN);
	EXPECT(cluster_noted(&c, "refused 8.1#"));
	cluster_close(&c);
}
