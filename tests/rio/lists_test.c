/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose the owner's copies of long lists are. The I/O units are made by hand: they know each
 * other's handles, and use them.
 */
#include <string.h>

#include "rio/list.h"
#include "rio/raw.h"

enum { UNITS = 2, PIECES = 1024, LENGTH = 512 * PIECES, DEVICE_SHIFT = 16 };

static struct cluster c;
static struct raw units[UNITS];
static struct weft_rio_requester *q;
static uint8_t memory[LENGTH];
static uint32_t tag;

static const char *const names[UNITS] = { "disk", "tape" };

static void tell_device(struct raw *unit, const char *name)
{
	uint8_t entries[256];
	struct wr at = wr_of(entries, sizeof(entries));

	rio_device_put(&(struct rio_device){ .number = 1,
					     .block_bytes = 512,
					     .size_bytes = LENGTH,
					     .name = { (const uint8_t *)name, strlen(name) } },
		       &at);
	raw_say(unit,
		&(struct rio_msg){ .type = RIO_DEVICES,
				   .devices = { 1, { entries, (size_t)(at.at - entries) } } });
}

static void begin(void)
{
	struct weft_rio_peer peers[UNITS + 1];
	struct weft_rio_self self;

	cluster_begin(&c);
	for (uint32_t i = 0; i < UNITS; i++) {
		raw_open(&units[i], FIRST_IOUNIT + i, RIO_IOUNIT);
		raw_listen(&units[i]);
		peers[i] = cluster_peer(FIRST_IOUNIT + i, WEFT_RIO_IOUNIT, &units[i].at);
	}
	peers[UNITS] = cluster_peer(FIRST_REQUESTER, WEFT_RIO_REQUESTER, NULL);
	self = cluster_self(OWNER_UNIT, peers, UNITS + 1);
	cluster_own(&c, &self);
	for (int i = 0; i < UNITS; i++) {
		raw_await(&units[i], OWNER_UNIT, RIO_OWNER);
		tell_device(&units[i], names[i]);
	}
	q = cluster_requester(&c, 0);
	tag = cluster_memory(q, memory, sizeof(memory));
	for (int i = 0; i < UNITS; i++)
		(void)cluster_device(q, names[i]);
}

static void end(void)
{
	cluster_close(&c);
	for (int i = 0; i < UNITS; i++)
		raw_close(&units[i]);
}

/* A write whose list fits no message; what its unit is told of it. */
struct wish {
	uint64_t command;
	struct sgl_chain chain;
};

static struct wish ask(int nth)
{
	static struct weft_rio_sge segments[PIECES];
	const struct weft_rio_transaction t = {
		.operation = WEFT_RIO_WRITE,
		.device = ((uint32_t)nth + 1) << DEVICE_SHIFT | 1,
		.length = LENGTH,
		.sges = segments,
		.sge_count = PIECES,
	};
	struct sgl_attributes in = sgl_attributes_default();
	struct sgl_element e = { 0 };
	struct rio_msg m;
	struct rd at;

	for (uint32_t i = 0; i < PIECES; i++)
		segments[i] = (struct weft_rio_sge){ .memory = memory + (size_t)i * 512,
						     .length = 512,
						     .tag = tag };
	REQUIRE(weft_rio_request_submit(q, &(struct weft_rio_request){ .transactions = &t,
								       .transaction_count = 1 }) ==
		WEFT_OK);
	cluster_requester_waits(&c, 0);
	REQUIRE(raw_hear(&units[nth], RIO_COMMAND, &m));
	at = rd_of(m.request.list.bytes, m.request.list.length);
	while (e.kind != SGL_CHAIN)
		REQUIRE(sgl_next(&e, &at, &in) == SGL_OK);
	return (struct wish){ m.id, e.chain };
}

/* All of the list, and no byte more: the window is just so long. */
static bool reads(int nth, const struct wish *wish)
{
	return raw_read(&units[nth], wish->chain.handle, wish->chain.address, wish->chain.length);
}

/* MEM-13: by its own unit, as long as that is at it. */
TEST(test_mem_13_a_list_is_read_by_the_unit_that_it_is_for)
{
	struct wish wish;

	begin();
	wish = ask(0);
	EXPECT(wish.chain.length > PIECES * 16);
	EXPECT(reads(0, &wish));
	EXPECT(!reads(1, &wish)); /* the other one is sent away for that */
	EXPECT(reads(0, &wish));
	raw_say(&units[0], &(struct rio_msg){ .type = RIO_STATUS, .id = wish.command });
	cluster_wait_note(&c, "ended 7.1#");
	EXPECT(!reads(0, &wish));
	end();
}

TEST(test_mem_13_a_unit_reads_no_more_than_its_list)
{
	struct wish wish;

	begin();
	wish = ask(1);
	EXPECT(reads(1, &wish));
	EXPECT(!raw_read(&units[1], wish.chain.handle, wish.chain.address, wish.chain.length + 1));
	cluster_wait_note(&c, "left iounit 3.1");
	end();
}
