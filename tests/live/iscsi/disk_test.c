/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs in iSCSI mode and a disk of weft's own target, by TCP. */
#include <string.h>

#include "live/iscsi/live_iscsi.h"

static void fill(uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i + seed) * 7 + i / 256);
}

/* The Response of the command: it is over. Its status. */
static uint8_t response(struct consumer *c, uint32_t id)
{
	struct arrival a;

	do {
		a = consumer_next(c);
		REQUIRE(a.completion.status == WEFT_SUCCESS && a.completion.reason == WEFT_OK);
		REQUIRE(a.completion.command_id == id);
	} while (!a.completion.has_invalidated);
	REQUIRE(a.completion.invalidated_tag == a.pdu.itt);
	return a.pdu.status;
}

static void expect_response(struct consumer *c, uint32_t id)
{
	REQUIRE(response(c, id) == 0);
}

/* Connects, logs in, and takes the unit attention that a new session begins with. */
static void begin(struct consumer *c, const struct disk *d)
{
	struct iscsi_pdu ready = { .opcode = ISCSI_SCSI_COMMAND, .is_final = true, .cmd_sn = 1 };

	consumer_connect(c, &d->at);
	consumer_login(c, NULL, 0, NULL);
	(void)response(c, consumer_command(c, &ready, 0));
	expect_sent_well(c);
	c->cmd_sn++;
}

/* ISCSI-S1: what was written is read again, and the table is as before. */
TEST(test_iscsi_s1_live_disk_write_and_read)
{
	enum { BYTES = 128 * 1024 };
	struct consumer c;
	struct disk d;
	struct iscsi_pdu p;
	struct weft_iscsi_attr attr;
	uint32_t id;

	disk_open(&d, NULL);
	consumer_open(&c, NULL);
	begin(&c, &d);
	EXPECT_EQ(consumer_entries(&c), 0);
	fill(c.memory, BYTES, 3);
	p = write_pdu(&c, 100, BYTES / BLOCK_BYTES);
	id = consumer_command(&c, &p, 0);
	expect_response(&c, id);
	expect_sent_well(&c);
	EXPECT_EQ(consumer_entries(&c), 0);
	p = read_pdu(&c, 100, BYTES / BLOCK_BYTES);
	id = consumer_command(&c, &p, 2 * BYTES);
	expect_response(&c, id);
	expect_sent_well(&c);
	EXPECT(memcmp(c.memory, c.memory + 2 * BYTES, BYTES) == 0);
	attr = consumer_query(&c);
	EXPECT_EQ(attr.bytes_sent, BYTES);
	EXPECT_EQ(attr.bytes_placed, BYTES);
	EXPECT_EQ(attr.commands, 3);
	EXPECT_EQ(attr.responses, 3);
	EXPECT_EQ(attr.commands_open, 0);
	EXPECT(attr.r2ts > 0 && attr.data_ins > 0 && attr.data_outs > 0);
	consumer_close(&c);
	MUST(weft_adapter_close(c.adapter));
	disk_close(&d);
}
