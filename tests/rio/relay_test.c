/* SPDX-License-Identifier: BSD-2-Clause */
/* RIO-S5 and RIO-S7: an I/O unit as requester, by which data can also be relayed. */
#include <stdio.h>
#include <string.h>

#include "rio/raw.h"
#include "wire/sgl.h"

enum { MIB = 1 << 20, RELAY = 9 }; /* the third requester: it is an I/O unit's */

static struct cluster c;
static uint8_t out[4 * MIB], in[4 * MIB];
static char folder[CLUSTER_TEXT];

/*
 * The owner knows both I/O units; the second one's device is the first one's, handed on. So the
 * second begins when the owner is there, where the owner will look for it.
 */
static void open_all(const char *disk_text)
{
	static struct weft_rio_store disk = { .number = 1, .name = "disk", .text = NULL };
	static struct weft_rio_store relayed = { .number = 1, .name = "relayed", .text = NULL };
	static char text[CLUSTER_TEXT + 32];

	disk.text = disk_text;
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
	struct weft_rio_traffic m[3];

	weft_rio_iounit_traffic(c.iounits[0], &m[0]);
	weft_rio_iounit_traffic(c.iounits[1], &m[1]);
	weft_rio_owner_traffic(c.owner, &m[2]);
	REQUIRE(m[2].payload_in + m[2].payload_out == 0);
	return m[0].payload_in + m[0].payload_out + m[1].payload_in + m[1].payload_out;
}

static enum weft_reason io(struct weft_rio_requester *q, enum weft_rio_operation operation,
			   const char *device, void *bytes, uint32_t tag)
{
	const struct weft_rio_sge segment = { .memory = bytes, .length = 4 * MIB, .tag = tag };

	return cluster_io(
		q, &(struct weft_rio_transaction){ .operation = operation,
						   .device = cluster_device(q, device).number,
						   .offset = 8 * MIB,
						   .length = 4 * MIB,
						   .sges = &segment,
						   .sge_count = 1 });
}

TEST(test_rio_s5_rio_s7_an_io_unit_requests_and_what_is_relayed_moves_twice)
{
	struct weft_rio_requester *q;
	uint64_t before, straight, relayed;
	uint32_t out_tag, in_tag;

	open_all("mem:16M");
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

/* A request of a host that has no memory to be reached: what is to be written lies in the list. */
static void ask_to_write(struct raw *host, const uint8_t *bytes, uint32_t length)
{
	const struct sgl_attributes wide = sgl_attributes_default();
	const struct sgl_element what = { .kind = SGL_TRANSACTION,
					  .transaction = { .operation = SGL_WRITE,
							   .is_fua = true,
							   .device = 2 << 16 | 1,
							   .offset = 4096,
							   .length = length } };
	const struct sgl_element data = {
		.kind = SGL_IMMEDIATE,
		.immediate = { .ends_buffer = true, .length = length, .data = bytes }
	};
	uint8_t list[RIO_REQUEST_LIST_MAX], *latest;
	struct wr w = wr_of(list, sizeof(list));
	struct rio_msg m;

	sgl_put(&what, &wide, &w);
	latest = w.at;
	sgl_put(&data, &wide, &w);
	REQUIRE(!w.is_short);
	sgl_set_last(latest);
	raw_dial(host, &c.owner_at, OWNER_UNIT, RIO_OWNER);
	do /* until it may be asked for */
		REQUIRE(raw_hear(host, RIO_ANNOUNCE, &m));
	while (m.announce.iounit.unit != FIRST_IOUNIT + 1);
	raw_say(host, &(struct rio_msg){ .type = RIO_REQUEST,
					 .id = 1,
					 .request = { .list = { list, (size_t)(w.at - list) } } });
	REQUIRE(raw_hear(host, RIO_STATUS, &m));
	EXPECT_EQ(m.status.reason, WEFT_OK);
}

/*
 * The second I/O unit is the requester, and its memory is what the first one reads: by Read, over a
 * connection of those two. No host has memory in this, or a connection to an I/O unit.
 */
TEST(test_sys_09_rio_05_rio_s5_two_io_units_move_data_without_a_host)
{
	static struct raw host;
	enum { LENGTH = 1024 };
	struct weft_rio_traffic first, second;
	char text[CLUSTER_TEXT];

	cluster_file(text, 16 * MIB);
	open_all(text);
	cluster_fill(out, LENGTH, 9);
	raw_open(&host, FIRST_REQUESTER, RIO_REQUESTER);
	weft_rio_iounit_traffic(c.iounits[0], &first);
	EXPECT_EQ(first.connections, 0);
	ask_to_write(&host, out, LENGTH);
	cluster_file_read(text, 4096, in, LENGTH);
	EXPECT_MEM(in, out, LENGTH);
	weft_rio_iounit_traffic(c.iounits[0], &first);
	weft_rio_iounit_traffic(c.iounits[1], &second);
	EXPECT_EQ(first.connections, 1);
	EXPECT_EQ(first.payload_in, LENGTH);
	/* For the host the second unit moved nothing. */
	EXPECT_EQ(second.connections, 0);
	EXPECT_EQ(second.payload_in + second.payload_out, 0);
	EXPECT(cluster_noted(&c, "allowed 9.1#"));
	raw_close(&host);
	cluster_stop_iounit(&c, 1);
	cluster_close(&c);
	cluster_role_files_remove(folder);
	cluster_file_remove(text);
}
