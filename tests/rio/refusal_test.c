/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is refused, end to end: each with its reason, noted by the owner if it came so far, and
 * with device and memory as they were. And what is large, and is not refused.
 */
#include <stdio.h>
#include <string.h>

#include "rio/cluster.h"

enum { MIB = 1 << 20, KIB = 1 << 10, BLOCK = 512, SEGMENTS = 4000, DISK = 64 * KIB };

static struct cluster c;
static uint8_t memory[MIB], kept[MIB], disk[DISK];
static struct weft_rio_sge segments[4200];

/* ---- A cluster with rules ------------------------------------------------------------------- */

enum { DEVICE_DISK, DEVICE_READ_ONLY, DEVICE_CLOSED, DEVICE_OTHER, DEVICES };

static const char *const device_names[DEVICES] = { "disk", "fixed", "closed", "other" };

/*
 * Of 2.1 "disk", "fixed" (read-only) and "closed", of 3.1 "other". 7.1 may do everything with the
 * first, second and last, and only read the first 16 KiB of "closed"; 8.1 may only read "disk".
 */
static void open_ruled(void)
{
	static const struct weft_rio_store stores[] = {
		{ .number = 1, .name = "disk", .text = "mem:64k" },
		{ .number = 2, .name = "fixed", .text = "mem:64k,ro" },
		{ .number = 3, .name = "closed", .text = "mem:64k" }
	};
	static const struct weft_rio_store others[] = {
		{ .number = 1, .name = "other", .text = "mem:64k,block=4096" }
	};
	static const struct weft_rio_rule rules[] = {
		{ .requester = { 7, 1 }, .device = "disk", .operations = 0x3e },
		{ .requester = { 7, 1 }, .device = "fixed", .operations = 0x3e },
		{ .requester = { 7, 1 },
		  .device = "closed",
		  .operations = 1 << WEFT_RIO_READ,
		  .length = 16 * KIB },
		{ .requester = { 7, 1 }, .iounit = { 3, 1 }, .operations = 0x3e },
		{ .requester = { 8, 1 }, .device = "disk", .operations = 1 << WEFT_RIO_READ },
	};

	cluster_begin(&c);
	c.owner_options.rules = rules;
	c.owner_options.rule_count = sizeof(rules) / sizeof(rules[0]);
	cluster_add_iounit(&c, stores, 3);
	cluster_add_iounit(&c, others, 1);
	cluster_start_owner(&c);
}

/* ---- One wish after the other --------------------------------------------------------------- */

struct wish {
	const char *what;
	enum weft_rio_operation operation;
	int device; /* of the above; DEVICES: one that is not there */
	uint64_t offset, length;
	enum weft_reason reason;
};

#define WISHES(array) (sizeof(array) / sizeof((array)[0]))

static const struct wish wishes[] = {
	{ "past the end", WEFT_RIO_WRITE, DEVICE_DISK, DISK - BLOCK, 2 * BLOCK,
	  WEFT_R_STORE_RANGE },
	{ "beyond the end", WEFT_RIO_READ, DEVICE_DISK, DISK, BLOCK, WEFT_R_STORE_RANGE },
	{ "at the end of all", WEFT_RIO_READ, DEVICE_DISK, UINT64_MAX - BLOCK + 1, BLOCK,
	  WEFT_R_SGL_WRAP },
	{ "zeroes past the end", WEFT_RIO_WRITE_ZEROES, DEVICE_DISK, 0, DISK + BLOCK,
	  WEFT_R_STORE_RANGE },
	{ "an offset between blocks", WEFT_RIO_WRITE, DEVICE_DISK, 1, BLOCK, WEFT_R_STORE_ALIGN },
	{ "half a block", WEFT_RIO_WRITE, DEVICE_DISK, 0, BLOCK / 2, WEFT_R_STORE_ALIGN },
	{ "a small block of a large one", WEFT_RIO_WRITE, DEVICE_OTHER, BLOCK, 4096,
	  WEFT_R_STORE_ALIGN },
	{ "read-only", WEFT_RIO_WRITE, DEVICE_READ_ONLY, 0, BLOCK, WEFT_R_STORE_READONLY },
	{ "zeroes, read-only", WEFT_RIO_WRITE_ZEROES, DEVICE_READ_ONLY, 0, BLOCK,
	  WEFT_R_STORE_READONLY },
	{ "not allowed", WEFT_RIO_WRITE, DEVICE_CLOSED, 0, BLOCK, WEFT_R_RIO_DENIED },
	{ "not allowed there", WEFT_RIO_READ, DEVICE_CLOSED, 16 * KIB - BLOCK, 2 * BLOCK,
	  WEFT_R_RIO_DENIED },
	{ "no flush allowed", WEFT_RIO_FLUSH, DEVICE_CLOSED, 0, 0, WEFT_R_RIO_DENIED },
	{ "no such device", WEFT_RIO_READ, DEVICES, 0, BLOCK, WEFT_R_RIO_DEVICE },
	{ "of no length", WEFT_RIO_READ, DEVICE_DISK, 0, 0, WEFT_R_SGL_EMPTY },
	{ "a flush with a range", WEFT_RIO_FLUSH, DEVICE_DISK, 0, BLOCK, WEFT_R_SGL_FLUSH },
	{ "no such operation", (enum weft_rio_operation)9, DEVICE_DISK, 0, BLOCK,
	  WEFT_R_SGL_OPERATION },
};

struct asker {
	struct weft_rio_requester *q;
	uint32_t numbers[DEVICES + 1], tag;
};

static void asker_open(struct asker *a)
{
	a->q = cluster_requester(&c, 0);
	for (int i = 0; i < DEVICES; i++)
		a->numbers[i] = cluster_device(a->q, device_names[i]).number;
	a->numbers[DEVICES] = a->numbers[DEVICE_DISK] + 100;
	a->tag = cluster_memory(a->q, memory, sizeof(memory));
}

static enum weft_reason ask(const struct asker *a, const struct wish *w)
{
	const struct weft_rio_sge s = { .memory = memory,
					.length = (uint32_t)w->length,
					.tag = a->tag };
	bool is_of_data = w->operation == WEFT_RIO_READ || w->operation == WEFT_RIO_WRITE;

	return cluster_io(a->q, &(struct weft_rio_transaction){ .operation = w->operation,
								.device = a->numbers[w->device],
								.offset = w->offset,
								.length = w->length,
								.sges = &s,
								.sge_count = is_of_data });
}

static void disk_fill(const struct asker *a)
{
	cluster_fill(disk, sizeof(disk), 5);
	memcpy(memory, disk, sizeof(disk));
	for (int i = 0; i < DEVICES; i++) {
		if (i == DEVICE_DISK || i == DEVICE_OTHER)
			REQUIRE(cluster_write(a->q, (struct cluster_move){ .device = a->numbers[i],
									   .bytes = memory,
									   .length = DISK,
									   .tag = a->tag }) ==
				WEFT_OK);
	}
	cluster_fill(memory, sizeof(memory), 6);
	memcpy(kept, memory, sizeof(memory));
}

static void expect_disk_as_it_was(const struct asker *a)
{
	for (int i = 0; i < DEVICES; i++) {
		if (i != DEVICE_DISK && i != DEVICE_OTHER)
			continue;
		EXPECT_EQ(cluster_read(a->q, (struct cluster_move){ .device = a->numbers[i],
								    .bytes = memory,
								    .length = DISK,
								    .tag = a->tag }),
			  WEFT_OK);
		EXPECT_MEM(memory, disk, DISK);
	}
	cluster_fill(memory, sizeof(memory), 6);
}

/* Refused locally, before the owner is asked. */
static bool is_own(enum weft_reason reason)
{
	return reason >= WEFT_R_SGL_SHORT && reason <= WEFT_R_SGL_BYTES;
}

TEST(test_rio_02d_rio_16_every_refusal_has_its_reason_and_changes_nothing)
{
	struct asker a;

	open_ruled();
	asker_open(&a);
	disk_fill(&a);
	for (size_t i = 0; i < WISHES(wishes); i++) {
		const struct wish *w = &wishes[i];
		uint32_t noted;
		enum weft_reason r;

		(void)cluster_io(
			a.q, &(struct weft_rio_transaction){ .operation = WEFT_RIO_FLUSH,
							     .device = a.numbers[DEVICE_DISK] });
		noted = cluster_notes(&c);
		r = ask(&a, w);
		if (r != w->reason)
			printf("# %s: %s, not %s\n", w->what, weft_reason_name(r),
			       weft_reason_name(w->reason));
		EXPECT_EQ(r, w->reason);
		if (!is_own(w->reason)) {
			char line[64];

			snprintf(line, sizeof(line), ": %s: ", weft_reason_name(w->reason));
			cluster_wait_notes(&c, noted + 1);
			EXPECT(strstr(c.notes[noted], "refused 7.1#") ||
			       strstr(c.notes[noted], "ended 7.1#"));
			EXPECT(cluster_noted(&c, line));
		}
		EXPECT_MEM(memory, kept, sizeof(memory));
	}
	expect_disk_as_it_was(&a);
	cluster_close(&c);
}

/* Each of several transactions is looked at before any is carried out. */
TEST(test_rio_15_rio_16_a_request_is_refused_whole)
{
	struct weft_rio_sge s = { .memory = memory, .length = 4096 };
	struct weft_rio_transaction t[65];
	struct weft_rio_result ended;
	struct asker a;

	open_ruled();
	asker_open(&a);
	disk_fill(&a);
	s.tag = a.tag;
	for (int i = 0; i < 65; i++)
		t[i] = (struct weft_rio_transaction){ .operation = WEFT_RIO_WRITE,
						      .device = a.numbers[DEVICE_DISK],
						      .length = 4096,
						      .sges = &s,
						      .sge_count = 1 };
	t[3].device = a.numbers[DEVICE_OTHER];
	EXPECT_EQ(weft_rio_request_do(
			  a.q,
			  &(struct weft_rio_request){ .transactions = t, .transaction_count = 4 },
			  &ended),
		  WEFT_R_RIO_UNITS);
	EXPECT_EQ(ended.transaction, 3);
	EXPECT(cluster_noted(&c, "(4 of 4)"));
	t[3].device = a.numbers[DEVICE_CLOSED];
	EXPECT_EQ(weft_rio_request_do(
			  a.q,
			  &(struct weft_rio_request){ .transactions = t, .transaction_count = 5 },
			  &ended),
		  WEFT_R_RIO_DENIED);
	t[3].device = a.numbers[DEVICE_DISK];
	t[3].offset = DISK;
	EXPECT_EQ(weft_rio_request_do(
			  a.q,
			  &(struct weft_rio_request){ .transactions = t, .transaction_count = 5 },
			  &ended),
		  WEFT_R_STORE_RANGE);
	EXPECT_EQ(ended.transaction, 3);
	EXPECT_EQ(ended.done_bytes, 0);
	t[3].offset = 0;
	EXPECT_EQ(weft_rio_request_do(
			  a.q,
			  &(struct weft_rio_request){ .transactions = t, .transaction_count = 65 },
			  &ended),
		  WEFT_R_SGL_TRANSACTIONS);
	EXPECT_EQ(weft_rio_request_do(
			  a.q,
			  &(struct weft_rio_request){ .transactions = t, .transaction_count = 0 },
			  &ended),
		  WEFT_R_SGL_NO_TRANSACTION);
	expect_disk_as_it_was(&a);
	EXPECT_EQ(weft_rio_request_do(
			  a.q,
			  &(struct weft_rio_request){ .transactions = t, .transaction_count = 64 },
			  &ended),
		  WEFT_OK);
	EXPECT_EQ(ended.done_bytes, 64 * 4096);
	cluster_close(&c);
}

/* RIO-15: buffers are as long as what is to be moved. */
TEST(test_rio_15_rio_16_too_much_or_too_little_memory_is_refused)
{
	struct weft_rio_sge s[2] = { { .memory = memory, .length = BLOCK },
				     { .memory = memory + BLOCK, .length = BLOCK } };
	struct weft_rio_transaction t = { .operation = WEFT_RIO_READ,
					  .length = 2 * BLOCK,
					  .sges = s };
	struct asker a;

	open_ruled();
	asker_open(&a);
	disk_fill(&a);
	s[0].tag = s[1].tag = a.tag;
	t.device = a.numbers[DEVICE_DISK];
	t.sge_count = 1;
	EXPECT_EQ(cluster_io(a.q, &t), WEFT_R_SGL_SUM);
	t.sge_count = 2;
	t.length = BLOCK;
	EXPECT_EQ(cluster_io(a.q, &t), WEFT_R_SGL_SUM);
	t.length = 2 * BLOCK;
	s[1].length = 0;
	EXPECT_EQ(cluster_io(a.q, &t), WEFT_R_SGL_EMPTY);
	s[0].length = UINT32_MAX;
	s[1].length = 2 * BLOCK + 1;
	EXPECT(cluster_io(a.q, &t) != WEFT_OK);
	EXPECT_MEM(memory, kept, sizeof(memory));
	expect_disk_as_it_was(&a);
	cluster_close(&c);
}

/* A region that is not one, or not the requester's, or is too small: nothing is exposed of it. */
TEST(test_rio_02a_mem_13_only_memory_that_was_added_is_named)
{
	struct cluster_move m = { .bytes = memory, .length = 4096 };
	struct asker a;

	open_ruled();
	asker_open(&a);
	disk_fill(&a);
	m.device = a.numbers[DEVICE_DISK];
	EXPECT(cluster_read(a.q, m) != WEFT_OK);
	m.tag = a.tag ^ 0x100;
	EXPECT(cluster_read(a.q, m) != WEFT_OK);
	m.tag = a.tag ^ 1;
	EXPECT(cluster_read(a.q, m) != WEFT_OK);
	m.tag = a.tag;
	m.bytes = memory + sizeof(memory) - 4095;
	EXPECT(cluster_read(a.q, m) != WEFT_OK);
	m.bytes = (void *)((uintptr_t)memory - 1);
	EXPECT(cluster_write(a.q, m) != WEFT_OK);
	EXPECT_MEM(memory, kept, sizeof(memory));
	EXPECT_EQ(weft_rio_memory_remove(a.q, a.tag), WEFT_OK);
	m.bytes = memory;
	EXPECT(cluster_read(a.q, m) != WEFT_OK);
	EXPECT_MEM(memory, kept, sizeof(memory));
	a.tag = cluster_memory(a.q, memory, sizeof(memory));
	expect_disk_as_it_was(&a);
	cluster_close(&c);
}

/* ---- Long lists ----------------------------------------------------------------------------- */

static uint64_t scatter(uint32_t count, uint32_t length, uint32_t tag)
{
	for (uint32_t i = 0; i < count; i++)
		segments[i] = (struct weft_rio_sge){
			/* Backwards, with gaps. */
			.memory = memory + (size_t)(count - 1 - i) * (length + 3),
			.length = length,
			.tag = tag,
		};
	return (uint64_t)count * length;
}

/* RIO-13b: lists that fit into no message are chained, from requester to owner to I/O unit. */
TEST(test_rio_13b_thousands_of_tiny_segments_are_carried_out)
{
	struct weft_rio_transaction t = { .sges = segments, .sge_count = SEGMENTS };
	struct asker a;

	cluster_begin(&c);
	c.store = (struct weft_rio_store){ .number = 1, .name = "disk", .text = "mem:1M" };
	cluster_add_iounit(&c, &c.store, 1);
	cluster_start_owner(&c);
	a.q = cluster_requester(&c, 0);
	t.device = cluster_device(a.q, "disk").number;
	a.tag = cluster_memory(a.q, memory, sizeof(memory));
	t.length = scatter(SEGMENTS, 128, a.tag);
	cluster_fill(memory, sizeof(memory), 1);
	memcpy(kept, memory, sizeof(memory));
	t.operation = WEFT_RIO_WRITE;
	EXPECT_EQ(cluster_io(a.q, &t), WEFT_OK);
	/* As it lies on the device. */
	EXPECT_EQ(cluster_read(a.q, (struct cluster_move){ .device = t.device,
							   .bytes = memory,
							   .length = (uint32_t)t.length,
							   .tag = a.tag }),
		  WEFT_OK);
	for (uint32_t i = 0; i < SEGMENTS; i++)
		EXPECT_MEM(memory + (size_t)i * 128, kept + (size_t)(SEGMENTS - 1 - i) * 131, 128);
	memset(memory, 0, sizeof(memory));
	t.operation = WEFT_RIO_READ;
	EXPECT_EQ(cluster_io(a.q, &t), WEFT_OK);
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		EXPECT_MEM(memory + (size_t)i * 131, kept + (size_t)i * 131, 128);
		EXPECT_EQ(memory[i * 131 + 128] | memory[i * 131 + 129] | memory[i * 131 + 130], 0);
	}
	cluster_close(&c);
}

TEST(test_rio_16_lists_that_are_too_long_are_refused)
{
	struct weft_rio_transaction t = { .operation = WEFT_RIO_READ, .sges = segments };
	struct asker a;

	cluster_open(&c, "mem:1M");
	a.q = cluster_requester(&c, 0);
	t.device = cluster_device(a.q, "disk").number;
	a.tag = cluster_memory(a.q, memory, sizeof(memory));
	cluster_fill(memory, sizeof(memory), 1);
	memcpy(kept, memory, sizeof(memory));
	/* More than there are windows; more elements than a list may have. */
	t.length = scatter(4200, 128, a.tag);
	t.sge_count = 4200;
	EXPECT_EQ(cluster_io(a.q, &t), WEFT_R_LIMIT);
	t.length = scatter(4096, 128, a.tag);
	t.sge_count = 4096;
	EXPECT_EQ(cluster_io(a.q, &t), WEFT_R_SGL_ELEMENTS);
	EXPECT_MEM(memory, kept, sizeof(memory));
	cluster_close(&c);
}

/* ---- Who comes ------------------------------------------------------------------------------ */

/* How long a test waits to see that a peer is not let in. */
static const uint64_t in_vain_ns = SECONDS / 4;

static enum weft_reason knock(const struct weft_rio_self *self)
{
	struct weft_rio_requester *q;
	struct weft_rio_device d;
	enum weft_reason r;

	REQUIRE(weft_rio_requester_open(self, NULL, &q) == WEFT_OK);
	r = weft_rio_device_find(q, "", in_vain_ns, &d);
	weft_rio_requester_close(q);
	return r;
}

TEST(test_rio_03_unknown_peers_are_not_let_in)
{
	struct weft_rio_peer owner;
	struct weft_rio_self self;

	cluster_open(&c, "mem:1M");
	owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &c.owner_at);
	/* An unknown key; another peer's key; another peer's platform. */
	self = cluster_self(FIRST_REQUESTER, &owner, 1);
	self.seed[7] ^= 1;
	EXPECT(knock(&self) != WEFT_OK);
	self = cluster_self(FIRST_REQUESTER + 1, &owner, 1);
	self.platform.unit = FIRST_REQUESTER;
	EXPECT(knock(&self) != WEFT_OK);
	self = cluster_self(FIRST_REQUESTER, &owner, 1);
	self.platform.process = 2;
	EXPECT(knock(&self) != WEFT_OK);
	/* A requester with the key of an I/O unit; and with an unknown key. */
	self = cluster_self(FIRST_IOUNIT, &owner, 1);
	EXPECT(knock(&self) != WEFT_OK);
	self = cluster_self(40, &owner, 1);
	EXPECT(knock(&self) != WEFT_OK);
	EXPECT(cluster_noted(&c, "no connection from 127.0.0.1:"));
	EXPECT(!cluster_noted(&c, "came requester"));
	/* A requester that expects another owner's key is not connected. */
	owner.key[3] ^= 1;
	self = cluster_self(FIRST_REQUESTER, &owner, 1);
	EXPECT(knock(&self) != WEFT_OK);
	EXPECT(!cluster_noted(&c, "came requester"));
	/* And the right one is let in. */
	(void)cluster_device(cluster_requester(&c, 0), "disk");
	EXPECT(cluster_noted(&c, "came requester 7.1"));
	cluster_close(&c);
}

/* An I/O unit accepts only its owner: neither a requester, nor another owner. */
TEST(test_rio_03_an_iounit_takes_commands_of_its_owner_only)
{
	struct weft_rio_owner_options options = { .rules = NULL };
	struct weft_rio_peer iounit;
	struct weft_rio_self self;
	struct cluster_move m = { .bytes = memory, .length = 512 };
	struct weft_rio_requester *q;
	struct weft_rio_owner *other;
	pthread_t thread;

	cluster_open(&c, "mem:1M");
	/* As if it were the owner. */
	iounit = cluster_peer(FIRST_IOUNIT, WEFT_RIO_OWNER, &c.iounit_at[0]);
	self = cluster_self(FIRST_REQUESTER, &iounit, 1);
	EXPECT(knock(&self) != WEFT_OK);
	/* Another owner, who knows where it is and who it is. */
	iounit.role = WEFT_RIO_IOUNIT;
	self = cluster_self(50, &iounit, 1);
	REQUIRE(weft_rio_owner_open(&self, &options, &other) == WEFT_OK);
	REQUIRE(pthread_create(&thread, NULL, cluster_owner_run, other) == 0);
	q = cluster_requester(&c, 0);
	m.device = cluster_device(q, "disk").number;
	m.tag = cluster_memory(q, memory, sizeof(memory));
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	weft_rio_owner_stop(other);
	pthread_join(thread, NULL);
	weft_rio_owner_close(other);
	EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	EXPECT(!cluster_noted(&c, "left iounit"));
	cluster_close(&c);
}

/* Two processes with the same platform: the connected one stays. */
TEST(test_rio_09_a_platform_connects_only_once)
{
	struct weft_rio_peer owner;
	struct weft_rio_self self;
	struct cluster_move m = { .bytes = memory, .length = 512 };
	struct weft_rio_requester *q;

	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	m.device = cluster_device(q, "disk").number;
	m.tag = cluster_memory(q, memory, sizeof(memory));
	owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &c.owner_at);
	self = cluster_self(FIRST_REQUESTER, &owner, 1);
	EXPECT(knock(&self) != WEFT_OK);
	EXPECT(cluster_noted(&c, "rio_twice"));
	EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	EXPECT(!cluster_noted(&c, "left requester"));
	cluster_close(&c);
}

/* An empty device name is ambiguous: it must not stand for all devices. */
TEST(test_rio_03_a_rule_for_a_device_without_a_name_is_refused)
{
	const struct weft_rio_self self = cluster_self(OWNER_UNIT, NULL, 0);
	const struct weft_rio_rule rule = { .device = "", .operations = 1 << WEFT_RIO_READ };
	struct weft_rio_owner *owner;

	EXPECT_EQ(weft_rio_owner_open(
			  &self,
			  &(struct weft_rio_owner_options){ .rules = &rule, .rule_count = 1 },
			  &owner),
		  WEFT_R_BAD_ARGUMENT);
}

/* An I/O unit could not know them all. */
TEST(test_rio_04_an_owner_has_no_more_requesters_than_an_iounit_can_know)
{
	const struct weft_rio_self self = cluster_self(OWNER_UNIT, NULL, 0);
	struct weft_rio_owner_options options = { .requesters_max = 33 };
	struct weft_rio_owner *owner;

	EXPECT_EQ(weft_rio_owner_open(&self, &options, &owner), WEFT_R_LIMIT);
	options.requesters_max = 32;
	REQUIRE(weft_rio_owner_open(&self, &options, &owner) == WEFT_OK);
	weft_rio_owner_close(owner);
}

/* A long list would fit into none of them. */
TEST(test_rio_13b_an_iounit_has_no_buffers_that_are_too_small_for_a_list)
{
	const struct weft_rio_self self = cluster_self(FIRST_IOUNIT, NULL, 0);
	struct weft_rio_iounit_options o = { .piece_bytes = (256 << 10) - 4096 };
	struct weft_rio_iounit *iounit;

	EXPECT_EQ(weft_rio_iounit_open(&self, &o, &iounit, NULL), WEFT_R_BAD_ARGUMENT);
	o.piece_bytes = 256 << 10;
	REQUIRE(weft_rio_iounit_open(&self, &o, &iounit, NULL) == WEFT_OK);
	weft_rio_iounit_close(iounit);
}

/* Its owner would send it away, each time it came. */
TEST(test_rio_04_an_iounit_has_no_device_whose_name_is_no_text)
{
	static const char *const names[] = { "", "a\nb", "\xff", "\x1b[2J" };
	const struct weft_rio_self self = cluster_self(FIRST_IOUNIT, NULL, 0);

	for (int i = 0; i < 4; i++) {
		const struct weft_rio_store store = { .number = 1,
						      .name = names[i],
						      .text = "mem:1M" };
		const struct weft_rio_iounit_options o = { .stores = &store, .store_count = 1 };
		struct weft_rio_iounit *iounit;

		EXPECT_EQ(weft_rio_iounit_open(&self, &o, &iounit, NULL), WEFT_R_BAD_ARGUMENT);
	}
}
