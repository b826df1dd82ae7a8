/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose the windows of a requester are. Owner and I/O units are made by hand: they know each
 * other's handles, and use them.
 */
#include <string.h>

#include "rio/list.h"
#include "rio/raw.h"

enum { UNITS = 2, LENGTH = 4096, DEVICE_SHIFT = 16 };

static struct raw owner, units[UNITS];
static uint64_t counters[UNITS];
static struct weft_rio_requester *asked;
static uint8_t memory[LENGTH];
static uint32_t tag;
static pthread_t waiter;
static atomic_bool is_over;
static atomic_uint ended_well, ended;

/* So that the requester looks what comes. */
static void *wait_for_all(void *context)
{
	struct weft_rio_result e;
	uint32_t count;

	(void)context;
	while (!atomic_load(&is_over)) {
		weft_rio_request_wait(asked, SECONDS / 50, &e, 1, &count);
		atomic_fetch_add(&ended_well, count == 1 && e.reason == WEFT_OK);
		atomic_fetch_add(&ended, count);
	}
	return NULL;
}

static struct platform name_of(int nth)
{
	return (struct platform){ FIRST_IOUNIT + (uint32_t)nth, 1 };
}

/* Each has a device: of the first it is 1 << 16 | 1, of the second 2 << 16 | 1. */
static uint32_t device_of(int nth)
{
	return ((uint32_t)nth + 1) << DEVICE_SHIFT | 1;
}

static void announce(int nth)
{
	uint8_t entries[256];
	struct wr at = wr_of(entries, sizeof(entries));
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = name_of(nth) } };

	rio_device_put(&(struct rio_device){ .number = device_of(nth),
					     .block_bytes = 512,
					     .size_bytes = 1 << 20,
					     .name = { (const uint8_t *)"disk", 4 } },
		       &at);
	memset(m.announce.token, nth + 1, RIO_TOKEN_BYTES);
	m.announce.devices = (struct rio_devices){ 1, { entries, (size_t)(at.at - entries) } };
	raw_say(&owner, &m);
}

/* Whatever was said before has been taken. */
static void settle(void)
{
	struct rio_msg m;

	raw_say(&owner, &(struct rio_msg){ .type = RIO_PING, .id = 1 });
	REQUIRE(raw_hear(&owner, RIO_PONG, &m));
}

static void begin(void)
{
	struct weft_rio_peer peer;
	struct weft_rio_self self;

	raw_open(&owner, OWNER_UNIT, RIO_OWNER);
	raw_listen(&owner);
	peer = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &owner.at);
	self = cluster_self(FIRST_REQUESTER, &peer, 1);
	REQUIRE(weft_rio_requester_open(&self, NULL, &asked) == WEFT_OK);
	tag = cluster_memory(asked, memory, sizeof(memory));
	cluster_fill(memory, sizeof(memory), 3);
	atomic_store(&is_over, false);
	REQUIRE(pthread_create(&waiter, NULL, wait_for_all, NULL) == 0);
	raw_await(&owner, FIRST_REQUESTER, RIO_REQUESTER);
	for (int i = 0; i < UNITS; i++) {
		raw_open(&units[i], FIRST_IOUNIT + (uint32_t)i, RIO_IOUNIT);
		announce(i);
	}
	settle();
}

static void end(void)
{
	atomic_store(&is_over, true);
	pthread_join(waiter, NULL);
	weft_rio_requester_close(asked);
	for (int i = 0; i < UNITS; i++)
		raw_close(&units[i]);
	raw_close(&owner);
}

/* A data connection, in place of the one that there may be. */
static void join(int nth)
{
	struct rio_data d = { .from = name_of(nth),
			      .to = { FIRST_REQUESTER, 1 },
			      .counter = ++counters[nth],
			      .nonce = { (uint8_t)counters[nth] } };
	uint8_t bytes[RIO_DATA_BYTES], token[RIO_TOKEN_BYTES];
	struct weft_address at;

	memset(token, nth + 1, sizeof(token));
	rio_data_encode(&d, bytes);
	rio_seal(token, bytes, RIO_DATA_SEALED_BYTES, bytes + RIO_DATA_SEALED_BYTES);
	weft_rio_requester_address(asked, &at);
	raw_hang_up(&units[nth]);
	REQUIRE(raw_connect(&units[nth], &at, &(struct rio_bytes){ bytes, sizeof(bytes) }));
}

/* A write of all of the memory: its id, and the window that the list names. */
struct wish {
	uint64_t id;
	uint32_t handle;
	uint64_t address;
};

static struct wish ask(uint32_t device)
{
	const struct weft_rio_sge s = { .memory = memory, .length = LENGTH, .tag = tag };
	const struct weft_rio_transaction t = { .operation = WEFT_RIO_WRITE,
						.device = device,
						.length = LENGTH,
						.sges = &s,
						.sge_count = 1 };
	struct sgl_attributes in = sgl_attributes_default();
	struct wish wish = { 0 };
	struct sgl_element e;
	struct rio_msg m;
	struct rd at;

	REQUIRE(weft_rio_request_submit(
			asked, &(struct weft_rio_request){ .transactions = &t,
							   .transaction_count = 1 }) == WEFT_OK);
	REQUIRE(raw_hear(&owner, RIO_REQUEST, &m));
	wish.id = m.id;
	at = rd_of(m.request.list.bytes, m.request.list.length);
	while (wish.handle == 0 && sgl_next(&e, &at, &in) == SGL_OK) {
		if (e.kind == SGL_DETAIL) {
			wish.handle = e.detail.handle;
			wish.address = e.detail.address;
		}
	}
	REQUIRE(wish.handle != 0 && wish.address == (uintptr_t)memory);
	return wish;
}

static bool reads(int nth, const struct wish *wish)
{
	bool is_good = raw_read(&units[nth], wish->handle, wish->address, LENGTH);

	REQUIRE(!is_good || memcmp(units[nth].memory, memory, LENGTH) == 0);
	return is_good;
}

/* It tries, and comes again. */
static void expect_kept_out(int nth, const struct wish *wish)
{
	EXPECT(!reads(nth, wish));
	join(nth);
}

static void answer(const struct wish *wish)
{
	unsigned int before = atomic_load(&ended);

	raw_say(&owner, &(struct rio_msg){ .type = RIO_STATUS, .id = wish->id });
	for (int i = 0; i < 20000 && atomic_load(&ended) == before; i++)
		settle();
	REQUIRE(atomic_load(&ended) == before + 1 && atomic_load(&ended_well) == before + 1);
}

/* MEM-13: no other I/O unit may, whether the device's unit is connected yet or not. */
TEST(test_rio_02a_mem_13_a_window_is_for_one_connection_only)
{
	struct wish first, second;

	begin();
	join(1);
	first = ask(device_of(0));
	expect_kept_out(1, &first); /* the other is not connected */
	join(0);
	EXPECT(reads(0, &first));
	expect_kept_out(1, &first);
	EXPECT(reads(0, &first));
	/* With both connected; and each has its own. */
	second = ask(device_of(1));
	EXPECT(first.handle != second.handle);
	EXPECT(reads(1, &second));
	expect_kept_out(0, &second);
	expect_kept_out(1, &first);
	EXPECT(reads(0, &first) && reads(1, &second));
	answer(&second);
	expect_kept_out(1, &second);
	EXPECT(reads(0, &first));
	answer(&first);
	expect_kept_out(0, &first);
	end();
}

/* The request does not know of it: what it named is there for the new connection. */
TEST(test_rio_02f_windows_go_with_a_connection_that_is_made_again)
{
	struct wish wish;

	begin();
	join(0);
	join(1);
	wish = ask(device_of(0));
	EXPECT(reads(0, &wish));
	for (int i = 0; i < 3; i++) {
		/* In place of one that is here, and of one that is gone. */
		join(0);
		EXPECT(reads(0, &wish));
		expect_kept_out(1, &wish);
		EXPECT(!raw_read(&units[0], wish.handle, wish.address + 1, LENGTH));
		expect_kept_out(1, &wish); /* no I/O unit may use it now */
		join(0);
		EXPECT(reads(0, &wish));
	}
	answer(&wish);
	expect_kept_out(0, &wish);
	end();
}

/* Shared windows, and windows for a device without an I/O unit, are open to all announced units. */
TEST(test_rio_06_what_is_shared_is_for_all_who_are_let_in)
{
	const struct weft_rio_sge s = { .memory = memory, .length = LENGTH, .tag = 0 };
	struct weft_rio_sge part = s;
	struct wish shared = { .address = (uintptr_t)memory }, unknown;

	begin();
	join(0);
	join(1);
	part.tag = tag;
	REQUIRE(weft_rio_memory_expose(asked, &part, false, &shared.handle) == WEFT_OK);
	unknown = ask(7 << DEVICE_SHIFT | 1);
	for (int i = 0; i < UNITS; i++) {
		EXPECT(reads(i, &shared));
		EXPECT(reads(i, &unknown));
	}
	answer(&unknown);
	expect_kept_out(0, &unknown);
	EXPECT_EQ(weft_rio_memory_conceal(asked, shared.handle), WEFT_OK);
	expect_kept_out(1, &shared);
	end();
}
