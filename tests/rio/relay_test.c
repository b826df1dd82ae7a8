/* SPDX-License-Identifier: BSD-2-Clause */
/* RIO-S5 and RIO-S7: an I/O unit as requester, by which data can also be relayed. */
#include <stdio.h>
#include <string.h>

#include "rio/cluster.h"

enum { MIB = 1 << 20, RELAY = 9 }; /* the third requester: it is an I/O unit's */

static struct cluster c;
static uint8_t out[4 * MIB], in[4 * MIB];
static char folder[CLUSTER_TEXT];

/*
 * The owner knows both I/O units; the second one's device is the first one's, handed on. So the
 * second begins when the owner is there, where the owner will look for it.
 */
static void open_all(void)
{
	static const struct weft_rio_store disk = { 1, "disk", "mem:16M" };
	static struct weft_rio_store relayed = { 1, "relayed", NULL };
	static char text[CLUSTER_TEXT + 32];

	cluster_begin(&c);
	cluster_add_iounit(&c, &disk, 1);
	cluster_reserve_iounit(&c);
	cluster_start_owner(&c);
	/* By these the second I/O unit is a requester too. */
	cluster_role_files(folder, RELAY, &c.owner_at);
	snprintf(text, sizeof(text), "rio:%s/conf,device=disk", folder);
	relayed.text = text;
	c.iounit_options[1].stores = &relayed;
	c.iounit_options[1].store_count = 1;
	cluster_start_iounit(&c, 1);
}

static uint64_t payload(void)
{
	struct weft_rio_moved m[3];

	weft_rio_iounit_moved(c.iounits[0], &m[0]);
	weft_rio_iounit_moved(c.iounits[1], &m[1]);
	weft_rio_owner_moved(c.owner, &m[2]);
	REQUIRE(m[2].payload_in + m[2].payload_out == 0);
	return m[0].payload_in + m[0].payload_out + m[1].payload_in + m[1].payload_out;
}

static enum weft_reason io(struct weft_rio_requester *q, enum weft_rio_operation operation,
			   const char *device, void *bytes, uint32_t tag)
{
	const struct weft_rio_segment segment = { .memory = bytes, .length = 4 * MIB, .tag = tag };

	return cluster_io(
		q, &(struct weft_rio_transaction){ .operation = operation,
						   .device = cluster_device(q, device).number,
						   .offset = 8 * MIB,
						   .length = 4 * MIB,
						   .segments = &segment,
						   .segment_count = 1 });
}

TEST(test_rio_s5_rio_s7_an_io_unit_requests_and_what_is_relayed_moves_twice)
{
	struct weft_rio_requester *q;
	uint64_t before, straight, relayed;
	uint32_t out_tag, in_tag;

	open_all();
	q = cluster_requester(&c, 0);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 11 + i / 4099);
	EXPECT_EQ(weft_rio_memory_add(q, out, sizeof(out), &out_tag), WEFT_OK);
	EXPECT_EQ(weft_rio_memory_add(q, in, sizeof(in), &in_tag), WEFT_OK);
	/* Through the second unit to the first one's device; straight from there. */
	before = payload();
	EXPECT_EQ(io(q, WEFT_RIO_WRITE, "relayed", out, out_tag), WEFT_OK);
	relayed = payload() - before;
	before = payload();
	EXPECT_EQ(io(q, WEFT_RIO_READ, "disk", in, in_tag), WEFT_OK);
	straight = payload() - before;
	EXPECT_MEM(in, out, sizeof(in));
	/* Each unit counts what it moved for others: once straight, twice if relayed. */
	EXPECT(straight >= 4 * MIB && straight < 4 * MIB + 4096);
	EXPECT(relayed >= 8 * MIB && relayed < 8 * MIB + 8192);
	memset(in, 0, sizeof(in));
	EXPECT_EQ(io(q, WEFT_RIO_READ, "relayed", in, in_tag), WEFT_OK);
	EXPECT_MEM(in, out, sizeof(in));
	cluster_close_requester(&c, 0);
	cluster_stop_iounit(&c, 1);
	cluster_close(&c);
	cluster_role_files_remove(folder);
}
