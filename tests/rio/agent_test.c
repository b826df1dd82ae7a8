/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RIO-07 and SYS-09 over TCP: an I/O unit's devices reach memory of others by its agent only, and
 * two I/O units talk to each other as a host would.
 */
#include <string.h>

#include "rio/list.h"
#include "rio/raw.h"
#include "wire/sgl.h"

enum { DISK = 64 << 10, DEVICE = 5 };

static struct cluster c;
static struct raw raw;
static uint8_t memory[DISK], copy[DISK];

/* ---- An owner that is not one of ours ------------------------------------------------------- */

/* 512 bytes from 7.1's memory to the start of the device; how that went. */
static enum weft_reason command_write(uint64_t id, uint32_t handle)
{
	const struct sgl_attributes in = sgl_attributes_default();
	const struct sgl_element elements[] = {
		{ .kind = SGL_PLATFORM, .platform = { FIRST_REQUESTER, 1 } },
		{ .kind = SGL_TRANSACTION,
		  .transaction = { .operation = SGL_WRITE, .device = DEVICE, .length = 512 } },
		{ .kind = SGL_DETAIL,
		  .detail = { .role = SGL_SOURCE,
			      .ends_buffer = true,
			      .handle = handle,
			      .length = 512,
			      .address = (uintptr_t)memory } },
	};
	uint8_t list[128], *latest = list;
	struct wr w = wr_of(list, sizeof(list));
	struct rio_msg m;

	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
		latest = w.at;
		sgl_put(&elements[i], &in, &w);
	}
	sgl_set_last(latest);
	raw_say(&raw, &(struct rio_msg){ .type = RIO_COMMAND,
					 .id = id,
					 .request = { .requester = { FIRST_REQUESTER, 1 },
						      .asked = id,
						      .list = { list, (size_t)(w.at - list) } } });
	REQUIRE(raw_hear(&raw, RIO_STATUS, &m) && m.id == id);
	return (enum weft_reason)m.status.reason;
}

static void grant(const struct weft_address *at)
{
	struct rio_msg m = { .type = RIO_GRANT,
			     .grant = { .requester = { FIRST_REQUESTER, 1 },
					.address = { .family = 4, .port = at->port } } };

	memcpy(m.grant.address.ip, at->ip, 4);
	memset(m.grant.token, 0x77, sizeof(m.grant.token));
	raw_say(&raw, &m);
}

/*
 * The owner commands, and the memory is there: but without a connection that the agent may make,
 * and that the other side takes, no device reaches it.
 */
TEST(test_rio_07_memory_is_out_of_reach_without_a_connection_of_the_agent)
{
	static const struct weft_rio_store store = { .number = DEVICE,
						     .name = "disk",
						     .text = "mem:64k" };
	const struct weft_address nowhere = { .family = 4, .ip = { 127, 0, 0, 1 }, .port = 1 };
	struct weft_rio_traffic moved;
	struct weft_rio_requester *q;
	struct weft_address at;
	struct rio_msg m;
	uint32_t handle = 0, tag;

	cluster_begin(&c);
	cluster_add_iounit(&c, &store, 1);
	/* 7.1 accepts data connections of I/O units that its owner announces; there is no owner. */
	c.owner_at = nowhere;
	q = cluster_requester(&c, 0);
	cluster_requester_waits(&c, 0);
	weft_rio_requester_address(q, &at);
	memcpy(at.ip, nowhere.ip, sizeof(at.ip));
	tag = cluster_memory(q, memory, sizeof(memory));
	REQUIRE(weft_rio_memory_expose(q, &(struct weft_rio_sge){ memory, 512, tag, { 0, 0 } },
				       false, &handle) == WEFT_OK);
	raw_open(&raw, OWNER_UNIT, RIO_OWNER);
	raw_dial(&raw, &c.iounit_at[0], FIRST_IOUNIT, RIO_IOUNIT);
	REQUIRE(raw_hear(&raw, RIO_DEVICES, &m));
	EXPECT_EQ(command_write(1, handle), WEFT_R_RIO_PLATFORM);
	grant(&nowhere);
	EXPECT(command_write(2, handle) != WEFT_OK);
	grant(&at);
	EXPECT(command_write(3, handle) != WEFT_OK);
	weft_rio_iounit_traffic(c.iounits[0], &moved);
	EXPECT_EQ(moved.connections, 0);
	EXPECT_EQ(moved.payload_in + moved.payload_out, 0);
	weft_rio_requester_traffic(q, &moved);
	EXPECT_EQ(moved.connections, 0);
	raw_close(&raw);
	cluster_close(&c);
}

/* Both devices of the unit, and everything they move: one connection, which the agent made. */
TEST(test_rio_07_all_payload_of_all_devices_goes_over_the_agents_connection)
{
	static const struct weft_rio_store stores[] = {
		{ .number = DEVICE, .name = "disk", .text = "mem:64k" },
		{ .number = 6, .name = "other", .text = "delay:1ms(mem:64k)" }
	};
	static const char *const names[] = { "disk", "other" };
	struct cluster_move move = { .bytes = memory, .length = DISK };
	struct weft_rio_traffic at_unit, at_host;
	struct weft_rio_requester *q;

	cluster_begin(&c);
	cluster_add_iounit(&c, stores, 2);
	cluster_start_owner(&c);
	q = cluster_requester(&c, 0);
	move.tag = cluster_memory(q, memory, sizeof(memory));
	for (int i = 0; i < 2; i++) {
		move.device = cluster_device(q, names[i]).number;
		cluster_fill(memory, sizeof(memory), (uint8_t)(i + 1));
		memcpy(copy, memory, sizeof(copy));
		EXPECT_EQ(cluster_write(q, move), WEFT_OK);
		memset(memory, 0, sizeof(memory));
		EXPECT_EQ(cluster_read(q, move), WEFT_OK);
		EXPECT_MEM(memory, copy, sizeof(copy));
	}
	weft_rio_iounit_traffic(c.iounits[0], &at_unit);
	weft_rio_requester_traffic(q, &at_host);
	EXPECT_EQ(at_unit.connections, 1);
	EXPECT_EQ(at_host.connections, 1);
	EXPECT_EQ(at_unit.payload_in, 2 * DISK);
	EXPECT_EQ(at_unit.payload_in, at_host.payload_out);
	EXPECT(at_unit.payload_out >= 2 * DISK);
	EXPECT_EQ(at_unit.payload_out, at_host.payload_in);
	cluster_close(&c);
}
