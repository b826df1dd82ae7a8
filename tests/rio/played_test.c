/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester whose owner and I/O unit are played by hand: they go to the limits of what they may,
 * and beyond, and it lives on.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "rio/list.h"
#include "rio/raw.h"
#include "roles/rio_store.h"

enum { BLOCK = 4096, DEVICE = 1 << 16 | 5 };

static const uint8_t token[RIO_TOKEN_BYTES] = { 1, 2, 3 };

static struct raw owner, iounit;
static struct weft_rio_requester *asker;
static uint8_t memory[2 * BLOCK];
static uint32_t tag;

/* ---- The owner ------------------------------------------------------------------------------ */

static void await_taken(void)
{
	struct rio_msg m;

	raw_say(&owner, &(struct rio_msg){ .type = RIO_PING, .id = 1 });
	REQUIRE(raw_hear(&owner, RIO_PONG, &m));
}

static struct rio_device named(uint32_t number, const char *name)
{
	return (struct rio_device){ .number = number,
				    .block_bytes = 512,
				    .size_bytes = 1 << 20,
				    .flags = RIO_DEVICE_FLUSH,
				    .name = { (const uint8_t *)name, strlen(name) } };
}

static void announce(uint32_t unit, const struct rio_device *devices, uint32_t count)
{
	uint8_t entries[RIO_MSG_BYTES_MAX];
	struct wr w = wr_of(entries, sizeof(entries));
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = { unit, 1 } } };

	for (uint32_t i = 0; i < count; i++)
		rio_device_put(&devices[i], &w);
	memcpy(m.announce.token, token, sizeof(token));
	m.announce.devices = (struct rio_devices){ count, { entries, (size_t)(w.at - entries) } };
	raw_say(&owner, &m);
}

/* The next request: its device, and the memory that it names first. */
static uint64_t hear_request(uint32_t *device, struct rio_segment *segment)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	struct rio_list *list = rio_list_create(&limits);
	struct sgl_transaction t;
	struct rio_walk walk;
	struct rio_msg m;

	REQUIRE(list && raw_hear(&owner, RIO_REQUEST, &m));
	REQUIRE(rio_list_take(list, m.request.list.bytes, m.request.list.length) == WEFT_OK);
	rio_walk_start(&walk, list);
	REQUIRE(rio_walk_transaction(&walk, &t) && rio_walk_segment(&walk, segment));
	rio_list_destroy(list);
	*device = t.device;
	return m.id;
}

/* ---- The I/O unit --------------------------------------------------------------------------- */

static void connect_iounit(uint64_t counter)
{
	const struct rio_data d = { .from = { FIRST_IOUNIT, 1 },
				    .to = { FIRST_REQUESTER, 1 },
				    .counter = counter,
				    .nonce = { 9 } };
	uint8_t bytes[RIO_DATA_BYTES];
	struct weft_address at;

	rio_data_encode(&d, bytes);
	rio_seal(token, bytes, RIO_DATA_SEALED_BYTES, bytes + RIO_DATA_SEALED_BYTES);
	weft_rio_requester_address(asker, &at);
	REQUIRE(raw_connect(&iounit, &at, &(struct rio_bytes){ bytes, sizeof(bytes) }));
	rio_session_of_data(&iounit.session, token, d.nonce);
}

static void say_and_invalidate(struct raw *r, const struct rio_msg *m, uint32_t handle)
{
	const struct weft_sge s = { .addr = (uintptr_t)r->sent,
				    .length = (uint32_t)raw_seal(r, m, r->sent),
				    .tag = r->tag };

	REQUIRE(weft_qp_post_send(r->qp,
				  &(struct weft_send_wr){ .opcode = WEFT_OP_SEND_INVALIDATE,
							  .invalidate_tag = handle,
							  .sges = &s,
							  .sge_count = 1 },
				  1, NULL) == WEFT_OK);
}

/* Says that it went well, and ends the tag with it. */
static void tell_and_invalidate(uint64_t id, uint32_t handle)
{
	const struct rio_msg m = { .type = RIO_STATUS,
				   .id = id,
				   .status = { .done_bytes = BLOCK } };

	say_and_invalidate(&iounit, &m, handle);
}

/* ---- The requester -------------------------------------------------------------------------- */

static void begin(void)
{
	struct weft_rio_peer peer;
	struct weft_rio_self self;

	raw_open(&owner, OWNER_UNIT, RIO_OWNER);
	raw_open(&iounit, FIRST_IOUNIT, RIO_IOUNIT);
	raw_listen(&owner);
	peer = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &owner.at);
	self = cluster_self(FIRST_REQUESTER, &peer, 1);
	REQUIRE(weft_rio_requester_open(&self, NULL, &asker) == WEFT_OK);
	tag = cluster_memory(asker, memory, sizeof(memory));
	raw_await(&owner, FIRST_REQUESTER, RIO_REQUESTER);
}

static void end(void)
{
	weft_rio_requester_close(asker);
	raw_close(&iounit);
	raw_close(&owner);
}

static void ask(void)
{
	const struct weft_rio_sge s = { .memory = memory, .length = BLOCK, .tag = tag };
	const struct weft_rio_transaction t = { .operation = WEFT_RIO_READ,
						.device = DEVICE,
						.length = BLOCK,
						.sges = &s,
						.sge_count = 1 };

	REQUIRE(weft_rio_request_submit(
			asker, &(struct weft_rio_request){ .transactions = &t,
							   .transaction_count = 1 }) == WEFT_OK);
}

static enum weft_reason outcome(void)
{
	struct weft_rio_result ended;
	uint32_t count = 0;

	REQUIRE(weft_rio_request_wait(asker, 20 * SECONDS, &ended, 1, &count) == WEFT_OK &&
		count == 1);
	return ended.reason;
}

/* RIO-02a: a window that the other side has closed is closed. */
TEST(test_rio_02a_an_iounit_that_invalidates_a_window_does_no_harm)
{
	const struct rio_device disk = named(DEVICE, "disk");
	struct rio_segment first, second;
	uint32_t device;
	uint64_t id;

	begin();
	announce(FIRST_IOUNIT, &disk, 1);
	await_taken();
	for (uint64_t i = 1; i <= 3; i++) {
		ask();
		id = hear_request(&device, &first);
		connect_iounit(i);
		tell_and_invalidate(id, first.handle);
		EXPECT_EQ(outcome(), WEFT_OK);
		raw_hang_up(&iounit);
	}
	/* The memory is exposed anew. */
	ask();
	(void)hear_request(&device, &second);
	EXPECT(second.handle != first.handle);
	end();
}

/* Nor does one that goes then, while another request of its device waits for it. */
TEST(test_rio_02a_windows_that_are_invalid_pass_to_no_other_connection)
{
	const struct rio_device disk = named(DEVICE, "disk");
	struct rio_segment first, second;
	uint32_t device;
	uint64_t ids[2];

	begin();
	announce(FIRST_IOUNIT, &disk, 1);
	await_taken();
	ask();
	ids[0] = hear_request(&device, &first);
	ask();
	ids[1] = hear_request(&device, &second);
	connect_iounit(1);
	tell_and_invalidate(ids[0], second.handle);
	EXPECT_EQ(outcome(), WEFT_OK);
	raw_hang_up(&iounit);
	connect_iounit(2);
	raw_say(&iounit, &(struct rio_msg){ .type = RIO_STATUS, .id = ids[1] });
	EXPECT_EQ(outcome(), WEFT_OK);
	end();
}

/* An owner that hears the question and does not answer. */
TEST(test_rio_02i_who_watches_does_not_wait_for_ever)
{
	struct weft_rio_member seen;
	uint32_t count = 7;

	begin();
	EXPECT_EQ(weft_rio_requester_inquire(asker, SECONDS / 5, &seen, 1, &count),
		  WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(count, 0U);
	end();
}

/* A list that is too long for its message: where the rest of it is. */
static struct sgl_chain ask_long(void)
{
	enum { SEGMENTS = 512, LENGTH = 2 * BLOCK / SEGMENTS };
	struct weft_rio_sge segments[SEGMENTS];
	const struct weft_rio_transaction t = { .operation = WEFT_RIO_READ,
						.device = DEVICE,
						.length = sizeof(memory),
						.sges = segments,
						.sge_count = SEGMENTS };
	const struct rio_list_limits limits = rio_list_limits_default();
	struct rio_list *list = rio_list_create(&limits);
	struct sgl_chain chain;
	struct rio_msg m;

	for (size_t i = 0; i < SEGMENTS; i++)
		segments[i] = (struct weft_rio_sge){ .memory = memory + i * LENGTH,
						     .length = LENGTH,
						     .tag = tag };
	REQUIRE(weft_rio_request_submit(
			asker, &(struct weft_rio_request){ .transactions = &t,
							   .transaction_count = 1 }) == WEFT_OK);
	REQUIRE(list && raw_hear(&owner, RIO_REQUEST, &m));
	REQUIRE(rio_list_take(list, m.request.list.bytes, m.request.list.length) == WEFT_OK);
	REQUIRE(rio_list_wants(list, &chain));
	rio_list_destroy(list);
	return chain;
}

/* What one owner has ended is there for the next. */
TEST(test_rio_13b_lists_are_there_for_each_owner_anew)
{
	struct sgl_chain chain, next;
	struct rio_msg m;

	begin();
	chain = ask_long();
	EXPECT(raw_read(&owner, chain.handle, chain.address, chain.length));
	say_and_invalidate(&owner, &(struct rio_msg){ .type = RIO_PING, .id = 1 }, chain.handle);
	REQUIRE(raw_hear(&owner, RIO_PONG, &m));
	EXPECT(!raw_read(&owner, chain.handle, chain.address, chain.length));
	EXPECT_EQ(outcome(), WEFT_R_RIO_OWNER_LEFT);
	raw_hang_up(&owner);
	raw_await(&owner, FIRST_REQUESTER, RIO_REQUESTER);
	next = ask_long();
	EXPECT(next.handle != chain.handle);
	EXPECT(raw_read(&owner, next.handle, next.address, next.length));
	end();
}

/* As many as an owner can have, with as many devices as each of them can: docs/rio.md. */
TEST(test_rio_04_all_that_an_owner_can_have_is_offered)
{
	enum { UNITS = 32, DEVICES = 64 };
	struct rio_device devices[DEVICES];
	struct weft_rio_device d;

	begin();
	for (uint32_t i = 0; i < UNITS; i++) {
		for (uint32_t k = 0; k < DEVICES; k++)
			devices[k] = named((i + 1) << 16 | (k + 1), "disk");
		announce(100 + i, devices, DEVICES);
	}
	await_taken();
	EXPECT_EQ(weft_rio_device_get(asker, UNITS * DEVICES - 1, &d), WEFT_OK);
	EXPECT_EQ(d.number, UNITS << 16 | DEVICES);
	end();
}

/* ---- A requester that is a store ------------------------------------------------------------ */

static char folder[CLUSTER_TEXT];

static void *store_open(void *context)
{
	struct store **store = context;
	char path[CLUSTER_TEXT + 8], why[RIO_STORE_WHY];

	snprintf(path, sizeof(path), "%s/conf", folder);
	if (rio_store_open(&(struct rio_store_config){ path, "disk" }, store, why) != WEFT_OK)
		*store = NULL;
	return NULL;
}

static struct store *store_begin(const struct rio_device *disk)
{
	struct store *store = NULL;
	pthread_t thread;

	raw_open(&owner, OWNER_UNIT, RIO_OWNER);
	raw_listen(&owner);
	cluster_role_files(folder, FIRST_REQUESTER, &owner.at);
	REQUIRE(pthread_create(&thread, NULL, store_open, &store) == 0);
	raw_await(&owner, FIRST_REQUESTER, RIO_REQUESTER);
	announce(FIRST_IOUNIT, disk, 1);
	pthread_join(thread, NULL);
	REQUIRE(store);
	return store;
}

static enum weft_reason store_outcome(struct store *store)
{
	struct pollfd p = { .fd = rio_store_descriptor(store), .events = POLLIN };
	const struct store_request *r;

	REQUIRE(poll(&p, 1, 20000) == 1);
	r = store_next_done(store, 0);
	REQUIRE(r);
	return r->reason;
}

/* Another owner may have another number for it, and give the one it had to another device. */
TEST(test_rio_05_a_store_is_the_device_of_its_name_whatever_its_number)
{
	const struct rio_device first = named(DEVICE, "disk");
	const struct rio_device then[] = { named(DEVICE, "other"), named(DEVICE + 1, "disk") };
	struct store *store = store_begin(&first);
	struct store_request r = { .op = STORE_WRITE,
				   .length = BLOCK,
				   .spans = &(struct span){ memory, BLOCK },
				   .span_count = 1 };
	struct rio_device larger = named(DEVICE, "disk");
	struct rio_msg m = { .type = RIO_STATUS };
	struct rio_segment segment;
	uint32_t device;

	REQUIRE(store_submit(store, &r, 0) == WEFT_OK);
	m.id = hear_request(&device, &segment);
	EXPECT_EQ(device, DEVICE);
	raw_say(&owner, &m);
	EXPECT_EQ(store_outcome(store), WEFT_OK);
	announce(FIRST_IOUNIT, then, 2);
	await_taken();
	REQUIRE(store_submit(store, &r, 0) == WEFT_OK);
	m.id = hear_request(&device, &segment);
	EXPECT_EQ(device, DEVICE + 1);
	raw_say(&owner, &m);
	EXPECT_EQ(store_outcome(store), WEFT_OK);
	/* One that looks different is not the same. */
	larger.size_bytes *= 2;
	announce(FIRST_IOUNIT, &larger, 1);
	await_taken();
	REQUIRE(store_submit(store, &r, 0) == WEFT_OK);
	EXPECT_EQ(store_outcome(store), WEFT_R_RIO_DEVICE);
	store_destroy(store);
	raw_close(&owner);
	cluster_role_files_remove(folder);
}

/* Of a mirror's two members one would else have what the other has lost: rule 1 of docs/rio.md. */
/* A segment is 1 GiB at most, and a request has 64. */
TEST(test_rio_05_a_store_refuses_more_segments_than_a_request_has)
{
	struct rio_device disk = named(DEVICE, "disk");
	struct span all = { memory, UINT64_C(65) << 30 };
	struct store_request r = { .op = STORE_READ, .spans = &all, .span_count = 1 };
	struct store *store;
	struct rio_msg m;

	disk.size_bytes = UINT64_C(1) << 40;
	store = store_begin(&disk);
	r.length = all.length;
	REQUIRE(store_submit(store, &r, 0) == WEFT_OK);
	EXPECT_EQ(store_outcome(store), WEFT_R_STORE_SPANS);
	r.length = all.length = BLOCK;
	REQUIRE(store_submit(store, &r, 0) == WEFT_OK);
	REQUIRE(raw_hear(&owner, RIO_REQUEST, &m));
	raw_say(&owner, &(struct rio_msg){ .type = RIO_STATUS, .id = m.id });
	EXPECT_EQ(store_outcome(store), WEFT_OK);
	store_destroy(store);
	raw_close(&owner);
	cluster_role_files_remove(folder);
}

TEST(test_rio_05_a_store_without_a_configuration_is_not_opened)
{
	const struct rio_store_config config = { "/no/such/conf", "disk" };
	struct store *store = NULL;
	char why[RIO_STORE_WHY] = "";

	EXPECT_EQ(rio_store_open(&config, &store, why), WEFT_R_STORE_OPEN);
	EXPECT(!store);
	EXPECT(strstr(why, "/no/such/conf"));
}

TEST(test_rio_05_a_store_whose_device_may_have_lost_writes_serves_no_more)
{
	struct rio_device disk = named(DEVICE, "disk");
	struct store *store = store_begin(&disk);
	struct store_request r[3] = { { .op = STORE_WRITE,
					.length = BLOCK,
					.spans = &(struct span){ memory, BLOCK },
					.span_count = 1 },
				      { .op = STORE_FLUSH },
				      { .op = STORE_READ,
					.length = BLOCK,
					.spans = &(struct span){ memory, BLOCK },
					.span_count = 1 } };
	struct rio_msg m = { .type = RIO_STATUS };
	struct rio_segment segment;
	uint32_t device;

	/* The unit comes back as it was: a flush is good. */
	REQUIRE(store_submit(store, &r[0], 0) == WEFT_OK);
	m.id = hear_request(&device, &segment);
	raw_say(&owner, &m);
	EXPECT_EQ(store_outcome(store), WEFT_OK);
	announce(FIRST_IOUNIT, &disk, 1);
	await_taken();
	REQUIRE(store_submit(store, &r[1], 0) == WEFT_OK);
	REQUIRE(raw_hear(&owner, RIO_REQUEST, &m));
	raw_say(&owner, &(struct rio_msg){ .type = RIO_STATUS, .id = m.id });
	EXPECT_EQ(store_outcome(store), WEFT_OK);
	/* It comes back as another instance: also what was flushed may be gone, as of memory. */
	disk.instance++;
	announce(FIRST_IOUNIT, &disk, 1);
	await_taken();
	for (int i = 0; i < 3; i++) {
		REQUIRE(store_submit(store, &r[i], 0) == WEFT_OK);
		EXPECT_EQ(store_outcome(store), WEFT_R_STORE_LOST);
	}
	store_destroy(store);
	raw_close(&owner);
	cluster_role_files_remove(folder);
}
