/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer with a valid key that breaks every other rule is refused with a reason, or its connection
 * ends. Nothing has changed, and other peers are served.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rio/list.h"
#include "rio/raw.h"
#include "wire/sgl.h"

enum { DISK = 64 << 10, DEVICE = 1 << 16 | 5, BAD = FIRST_REQUESTER + 1 };

static struct cluster c;
static struct raw raw;
static uint8_t disk[DISK], memory[DISK];
static struct weft_rio_requester *good;
static struct cluster_move all;

/* 7.1 is as it should be, and has filled the disk; 8.1 is not. */
static void open_all(void)
{
	cluster_open(&c, "mem:64k");
	good = cluster_requester(&c, 0);
	cluster_fill(disk, sizeof(disk), 3);
	memcpy(memory, disk, sizeof(disk));
	all = (struct cluster_move){ .device = cluster_device(good, "disk").number,
				     .bytes = memory,
				     .length = DISK,
				     .tag = cluster_memory(good, memory, sizeof(memory)) };
	REQUIRE(all.device == DEVICE);
	REQUIRE(cluster_write(good, all) == WEFT_OK);
	raw_open(&raw, BAD, RIO_REQUESTER);
}

static void expect_all_well(void)
{
	memset(memory, 0, sizeof(memory));
	EXPECT_EQ(cluster_read(good, all), WEFT_OK);
	EXPECT_MEM(memory, disk, sizeof(disk));
}

/* Comes, as soon as the owner has seen that it is gone, and is told of the I/O unit. */
static void begin(void)
{
	struct rio_msg m;

	for (int i = 0; i < 1000; i++) {
		raw_dial(&raw, &c.owner_at, OWNER_UNIT, RIO_OWNER);
		if (raw_hear(&raw, RIO_ANNOUNCE, &m))
			return;
		raw_hang_up(&raw);
	}
	REQUIRE(!"never let in");
}

static void close_all(void)
{
	raw_close(&raw);
	cluster_close(&c);
}

/* ---- Lists ---------------------------------------------------------------------------------- */

struct page {
	uint8_t bytes[RIO_REQUEST_LIST_MAX];
	struct wr w;
	uint8_t *latest;
};

static const struct sgl_attributes wide = { 8, SGL_CONTEXT_BYTES, SGL_PAGE_SHIFT_MIN };

static void page_start(struct page *p)
{
	p->w = wr_of(p->bytes, sizeof(p->bytes));
	p->latest = p->bytes;
}

static void put(struct page *p, struct sgl_element e)
{
	p->latest = p->w.at;
	sgl_put(&e, &wide, &p->w);
	REQUIRE(!p->w.is_short);
}

static size_t page_bytes(const struct page *p)
{
	return (size_t)(p->w.at - p->bytes);
}

static void put_attributes(struct page *p)
{
	put(p, (struct sgl_element){ .kind = SGL_ATTRIBUTES, .attributes = wide });
}

static void put_platform(struct page *p, uint32_t unit)
{
	put(p, (struct sgl_element){ .kind = SGL_PLATFORM, .platform = { unit, 1 } });
}

static void put_write(struct page *p, uint64_t offset, uint64_t length)
{
	put(p, (struct sgl_element){ .kind = SGL_TRANSACTION,
				     .transaction = { .operation = SGL_WRITE,
						      .device = DEVICE,
						      .offset = offset,
						      .length = length } });
}

static void put_source(struct page *p, uint64_t address, uint32_t length)
{
	put(p, (struct sgl_element){ .kind = SGL_DETAIL,
				     .detail = { .role = SGL_SOURCE,
						 .ends_buffer = true,
						 .handle = raw.handle,
						 .length = length,
						 .address = address } });
}

static void put_chain(struct page *p, uint32_t unit, uint64_t at, uint32_t length)
{
	put(p, (struct sgl_element){ .kind = SGL_CHAIN,
				     .chain = { .platform = { unit, 1 },
						.handle = raw.handle,
						.length = length,
						.address = (uintptr_t)raw.memory + at } });
}

static void put_immediate(struct page *p, uint32_t length)
{
	static const uint8_t data[4096];

	put(p, (struct sgl_element){
		       .kind = SGL_IMMEDIATE,
		       .immediate = { .ends_buffer = true, .length = length, .data = data } });
}

/* A whole one, of zeroes for the first block, without a Last flag. */
static void put_good(struct page *p)
{
	put_write(p, 0, 512);
	put_immediate(p, 512);
}

static void no_last(struct page *p)
{
	put_attributes(p);
	put_good(p);
}

static void nothing_after_last(struct page *p)
{
	put_good(p);
	sgl_set_last(p->latest);
	put_good(p);
}

static void attributes_second(struct page *p)
{
	put_write(p, 0, 512);
	put_attributes(p);
	put_immediate(p, 512);
	sgl_set_last(p->latest);
}

static void attributes_twice(struct page *p)
{
	put_attributes(p);
	put_attributes(p);
	put_good(p);
	sgl_set_last(p->latest);
}

static void chain_in_the_middle(struct page *p)
{
	put_attributes(p);
	put_good(p);
	put_chain(p, BAD, 0, 64);
}

/* A sequence in memory that begins with a pointer to itself. */
static void chain_loop(struct page *p)
{
	struct page there;

	page_start(&there);
	put_chain(&there, BAD, 0, 28);
	memcpy(raw.memory, there.bytes, page_bytes(&there));
	put_chain(p, BAD, 0, (uint32_t)page_bytes(&there));
}

/* Each of 40 sequences points to the next. */
static void chain_of_many(struct page *p)
{
	for (uint32_t i = 0; i < 40; i++) {
		struct page there;

		page_start(&there);
		put_chain(&there, BAD, (uint64_t)(i + 1) * 64, 28);
		memcpy(raw.memory + (size_t)i * 64, there.bytes, page_bytes(&there));
	}
	put_chain(p, BAD, 0, 28);
}

static void chain_of_another(struct page *p)
{
	put_chain(p, FIRST_REQUESTER, 0, 64);
}

static void chain_too_long(struct page *p)
{
	put_chain(p, BAD, 0, RIO_LIST_BYTES_MAX);
}

static void chain_of_no_words(struct page *p)
{
	put_chain(p, BAD, 0, 66);
}

/* Its sequence is no list. */
static void chain_of_garbage(struct page *p)
{
	memset(raw.memory, 0x5a, 4096);
	put_chain(p, BAD, 0, 4096);
}

/* More elements than a list may have. */
static void thousands(struct page *p)
{
	static uint8_t bytes[RAW_MEMORY];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct sgl_element e = { .kind = SGL_PLATFORM, .platform = { BAD, 1 } };

	for (int i = 0; i < 5000; i++)
		sgl_put(&e, &wide, &w);
	memcpy(raw.memory, bytes, (size_t)(w.at - bytes));
	put_chain(p, BAD, 0, (uint32_t)(w.at - bytes));
}

static void offset_wraps(struct page *p)
{
	put_write(p, UINT64_MAX - 511, 1024);
	put_immediate(p, 1024);
	sgl_set_last(p->latest);
}

static void address_wraps(struct page *p)
{
	put_platform(p, BAD);
	put_write(p, 0, 512);
	put_source(p, UINT64_MAX - 100, 512);
	sgl_set_last(p->latest);
}

static void lengths_wrap(struct page *p)
{
	put_platform(p, BAD);
	put_write(p, 0, 512);
	for (int i = 0; i < 3; i++)
		put_source(p, 4096, UINT32_MAX);
	sgl_set_last(p->latest);
}

static void unknown_platform(struct page *p)
{
	put_platform(p, 99);
	put_write(p, 0, 512);
	put_source(p, 4096, 512);
	sgl_set_last(p->latest);
}

static void platform_of_another(struct page *p)
{
	put_platform(p, FIRST_REQUESTER);
	put_write(p, 0, 512);
	put_source(p, (uintptr_t)memory, 512);
	sgl_set_last(p->latest);
}

/* RIO-14: without a platform it would be the I/O unit's own memory. */
static void no_platform(struct page *p)
{
	put_write(p, 0, 512);
	put_source(p, (uintptr_t)memory, 512);
	sgl_set_last(p->latest);
}

static void detail_without_transaction(struct page *p)
{
	put_platform(p, BAD);
	put_source(p, 4096, 512);
	sgl_set_last(p->latest);
}

static void no_transaction(struct page *p)
{
	put_platform(p, BAD);
	sgl_set_last(p->latest);
}

static void unknown_kind(struct page *p)
{
	put_good(p);
	sgl_set_last(p->latest);
	p->bytes[0] = 0x77;
}

static void odd_length(struct page *p)
{
	put_good(p);
	sgl_set_last(p->latest);
	p->bytes[3] += 4;
}

static void cut_short(struct page *p)
{
	put_good(p);
	sgl_set_last(p->latest);
	p->w.at -= 8;
}

static void reserved_bit(struct page *p)
{
	put_attributes(p);
	p->bytes[7] = 1;
	put_good(p);
	sgl_set_last(p->latest);
}

struct bad_list {
	const char *what;
	void (*write)(struct page *p);
	enum weft_reason reason;
};

static const struct bad_list bad_lists[] = {
	{ "no Last flag", no_last, WEFT_R_SGL_LAST_MISSING },
	{ "more after the last", nothing_after_last, WEFT_R_SGL_LAST_EARLY },
	{ "attributes not first", attributes_second, WEFT_R_SGL_ATTRIBUTES_PLACE },
	{ "attributes twice", attributes_twice, WEFT_R_SGL_ATTRIBUTES_TWICE },
	{ "a chain pointer in the middle", chain_in_the_middle, WEFT_R_SGL_CHAIN_PLACE },
	{ "a chain that is a loop", chain_loop, WEFT_R_SGL_CHAIN_LOOP },
	{ "a chain of many", chain_of_many, WEFT_R_SGL_CHAINED },
	{ "another requester's chain", chain_of_another, WEFT_R_RIO_CHAIN },
	{ "a list larger than allowed", chain_too_long, WEFT_R_SGL_BYTES },
	{ "a chain of no whole words", chain_of_no_words, WEFT_R_SGL_CHAIN_LENGTH },
	{ "a chain of garbage", chain_of_garbage, WEFT_R_SGL_KIND },
	{ "thousands of elements", thousands, WEFT_R_SGL_ELEMENTS },
	{ "a range that wraps", offset_wraps, WEFT_R_SGL_WRAP },
	{ "memory that wraps", address_wraps, WEFT_R_SGL_WRAP },
	{ "lengths that overflow", lengths_wrap, WEFT_R_SGL_SUM },
	{ "an unknown platform", unknown_platform, WEFT_R_RIO_FOREIGN },
	{ "another requester's platform", platform_of_another, WEFT_R_RIO_FOREIGN },
	{ "the unit's own memory", no_platform, WEFT_R_RIO_FOREIGN },
	{ "memory of no transaction", detail_without_transaction, WEFT_R_SGL_OUTSIDE },
	{ "no transaction", no_transaction, WEFT_R_SGL_NO_TRANSACTION },
	{ "an unknown kind", unknown_kind, WEFT_R_SGL_KIND },
	{ "an element of odd length", odd_length, WEFT_R_SGL_ELEMENT_LENGTH },
	{ "a list that is cut short", cut_short, WEFT_R_SGL_SHORT },
	{ "a reserved bit", reserved_bit, WEFT_R_SGL_RESERVED },
};

static struct rio_msg request_of(uint64_t id, const struct page *p)
{
	return (struct rio_msg){ .type = RIO_REQUEST,
				 .id = id,
				 .request = { .list = { p->bytes, page_bytes(p) } } };
}

TEST(test_rio_16_malformed_lists_of_every_kind_are_refused_and_move_nothing)
{
	struct page p;
	struct rio_msg m;

	open_all();
	for (size_t i = 0; i < sizeof(bad_lists) / sizeof(bad_lists[0]); i++) {
		const struct bad_list *b = &bad_lists[i];

		begin();
		page_start(&p);
		b->write(&p);
		m = request_of(i + 1, &p);
		raw_say(&raw, &m);
		REQUIRE(raw_hear(&raw, RIO_STATUS, &m));
		if (m.status.reason != (uint32_t)b->reason)
			printf("# %s: %s, not %s\n", b->what,
			       weft_reason_name((enum weft_reason)m.status.reason),
			       weft_reason_name(b->reason));
		EXPECT_EQ(m.status.reason, b->reason);
		EXPECT_EQ(m.id, i + 1);
		EXPECT_EQ(m.status.done_bytes, 0);
		raw_hang_up(&raw); /* the next case gets a new connection */
	}
	expect_all_well();
	/* The I/O unit was never told of any of it. */
	EXPECT(!cluster_noted(&c, "allowed 8.1#"));
	EXPECT(cluster_noted(&c, "refused 8.1#1: sgl_last_missing"));
	close_all();
}

/* ---- Messages ------------------------------------------------------------------------------- */

/* Its connection has ended; it may come again. */
static void end(void)
{
	raw_expect_end(&raw);
	raw_hang_up(&raw);
	expect_all_well();
}

static size_t sealed_write(uint64_t id, uint8_t bytes[RIO_MSG_BYTES_MAX])
{
	struct page p;
	struct rio_msg m;

	page_start(&p);
	put_good(&p);
	sgl_set_last(p.latest);
	m = request_of(id, &p);
	return raw_seal(&raw, &m, bytes);
}

TEST(test_rio_03_replayed_reordered_forged_and_stale_messages_end_the_connection)
{
	static uint8_t one[RIO_MSG_BYTES_MAX], two[RIO_MSG_BYTES_MAX];
	size_t one_bytes, two_bytes;
	struct rio_msg m;

	open_all();
	/* One that is left out; two in the wrong order. */
	begin();
	(void)sealed_write(1, one);
	two_bytes = sealed_write(2, two);
	raw_send(&raw, two, two_bytes);
	end();
	/* One bit of its id, of its list, of its seal. */
	for (size_t at = 8; at < 100; at += 31) {
		begin();
		one_bytes = sealed_write(1, one);
		one[at] ^= 4;
		raw_send(&raw, one, one_bytes);
		end();
	}
	begin();
	one_bytes = sealed_write(1, one);
	one[one_bytes - 1] ^= 1;
	raw_send(&raw, one, one_bytes);
	end();
	/* Of the session before. */
	begin();
	one_bytes = sealed_write(1, one);
	raw_hang_up(&raw);
	begin();
	raw_send(&raw, one, one_bytes);
	end();
	EXPECT(!cluster_noted(&c, "allowed 8.1#"));
	/* Said twice: done once. A ping tells that the first was taken. */
	begin();
	one_bytes = raw_seal(&raw, &(struct rio_msg){ .type = RIO_PING, .id = 7 }, one);
	raw_send(&raw, one, one_bytes);
	REQUIRE(raw_hear(&raw, RIO_PONG, &m));
	EXPECT_EQ(m.id, 7);
	raw_send(&raw, one, one_bytes);
	end();
	close_all();
}

TEST(test_rio_03_messages_that_are_not_a_requesters_end_the_connection)
{
	static uint8_t bytes[RIO_MSG_BYTES_MAX];
	struct page p;
	struct rio_msg wrong[6];

	open_all();
	page_start(&p);
	put_good(&p);
	sgl_set_last(p.latest);
	wrong[0] = request_of(1, &p);
	wrong[0].type = RIO_COMMAND;
	wrong[0].request.requester = (struct platform){ BAD, 1 };
	wrong[1] = (struct rio_msg){ .type = RIO_STATUS, .id = 1 };
	wrong[2] = (struct rio_msg){ .type = RIO_GRANT,
				     .grant = { .requester = { BAD, 1 },
						.address = { .family = 4, .port = 9 } } };
	wrong[3] = (struct rio_msg){ .type = RIO_REVOKE, .revoked = { FIRST_REQUESTER, 1 } };
	wrong[4] = (struct rio_msg){ .type = RIO_ANNOUNCE, .announce = { .iounit = { 2, 1 } } };
	wrong[5] = (struct rio_msg){ .type = RIO_DEVICES };
	for (int i = 0; i < 6; i++) {
		begin();
		raw_say(&raw, &wrong[i]);
		end();
	}
	/* No message at all: empty, short, long, of zeroes and ones. */
	for (size_t length = 0; length <= RIO_MSG_BYTES_MAX; length = 3 * length + 8) {
		begin();
		memset(bytes, length % 2 ? 0xff : 0, sizeof(bytes));
		raw_send(&raw, bytes, length);
		end();
	}
	/* More than it may have under way. */
	begin();
	for (uint64_t id = 1; id <= 300 && !raw.is_over; id++) {
		page_start(&p);
		put_chain(&p, BAD, 0, 64); /* which is not there for a while */
		wrong[0] = request_of(1, &p);
		raw_say(&raw, &wrong[0]); /* and always the same id */
	}
	end();
	EXPECT(!cluster_noted(&c, "allowed 8.1#"));
	close_all();
}

/* Any message but a greeting ends a connection that has not greeted. */
TEST(test_rio_03_who_does_not_greet_is_not_heard)
{
	static uint8_t bytes[RIO_MSG_BYTES_MAX];
	struct raw other;
	size_t length;

	open_all();
	begin();
	length = sealed_write(1, bytes);
	raw_hang_up(&raw);
	/* A request without a greeting, to the owner and to the I/O unit. */
	REQUIRE(raw_connect(&raw, &c.owner_at, NULL));
	raw_send(&raw, bytes, length);
	end();
	REQUIRE(raw_connect(&raw, &c.iounit_at[0], NULL));
	raw_send(&raw, bytes, length);
	end();
	/* Hello twice. */
	raw_open(&other, BAD, RIO_REQUESTER);
	raw_dial(&other, &c.owner_at, OWNER_UNIT, RIO_OWNER);
	REQUIRE(raw_connect(&raw, &c.owner_at, NULL));
	raw_send(&raw, other.handshake.greet.hello, other.handshake.greet.hello_bytes);
	raw_send(&raw, other.handshake.greet.hello, other.handshake.greet.hello_bytes);
	end();
	raw_close(&other);
	EXPECT(!cluster_noted(&c, "allowed 8.1#"));
	close_all();
}

/* An I/O unit is dialled by its owner; one that comes by itself is no requester. */
TEST(test_rio_03_an_iounit_that_comes_to_the_owner_is_sent_away)
{
	static struct raw unit;

	open_all();
	raw_open(&unit, FIRST_IOUNIT, RIO_IOUNIT);
	raw_dial(&unit, &c.owner_at, OWNER_UNIT, RIO_OWNER);
	raw_expect_end(&unit);
	expect_all_well();
	EXPECT(!cluster_noted(&c, "came requester 2.1"));
	raw_close(&unit);
	close_all();
}

/* ---- Floods --------------------------------------------------------------------------------- */

/* Connections that say nothing: neither who is here nor who comes is kept out by them. */
TEST(test_rio_04_half_open_connections_do_not_block_others)
{
	enum { FLOOD = 200 }; /* more than a listener has room for */
	static int sockets[2 * FLOOD];
	const struct weft_address *const doors[] = { &c.owner_at, &c.iounit_at[0] };
	struct weft_rio_device device;

	open_all();
	for (int i = 0; i < 2 * FLOOD; i++) {
		const struct weft_address *to = doors[i % 2];
		struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(to->port) };

		memcpy(&sin.sin_addr, to->ip, 4);
		sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		REQUIRE(sockets[i] >= 0);
		REQUIRE(connect(sockets[i], (struct sockaddr *)&sin, sizeof(sin)) == 0);
		if (i % 3 == 0)
			REQUIRE(write(sockets[i], "MPA ID Req Frame", 16) == 16);
		if (i % 40 == 0)
			expect_all_well();
	}
	expect_all_well();
	/* Before a connection's usual time is over. */
	EXPECT_EQ(weft_rio_device_find(cluster_requester(&c, 2), "disk", 8 * SECONDS, &device),
		  WEFT_OK);
	/* Even a new owner finds its unit. */
	cluster_stop_owner(&c);
	cluster_start_owner(&c);
	for (int i = 0; i < 1000 && cluster_read(good, all) != WEFT_OK; i++)
		(void)cluster_device(good, "disk");
	expect_all_well();
	for (int i = 0; i < 2 * FLOOD; i++)
		close(sockets[i]);
	close_all();
}

/* Whole connections, of whom none greets. */
TEST(test_rio_04_silent_connections_do_not_block_others)
{
	enum { FLOOD = 24 };
	static struct raw flood[FLOOD];

	open_all();
	for (int i = 0; i < FLOOD; i++) {
		raw_open(&flood[i], BAD, RIO_REQUESTER);
		REQUIRE(raw_connect(&flood[i], i % 2 ? &c.owner_at : &c.iounit_at[0], NULL));
	}
	expect_all_well();
	begin();
	raw_hang_up(&raw);
	expect_all_well();
	for (int i = 0; i < FLOOD; i++)
		raw_close(&flood[i]);
	close_all();
}

/* ---- A requester's data port ---------------------------------------------------------------- */

static struct raw owner, iounit;
static struct weft_rio_requester *asked;
static atomic_bool is_over;

static void *wait_for_nothing(void *context)
{
	struct weft_rio_result ended;
	uint32_t count;

	(void)context;
	while (!atomic_load(&is_over))
		weft_rio_request_wait(asked, SECONDS / 50, &ended, 1, &count);
	return NULL;
}

/* What an I/O unit with this token would ask. */
static struct rio_data question_of(uint64_t counter)
{
	return (struct rio_data){ .from = { FIRST_IOUNIT, 1 },
				  .to = { FIRST_REQUESTER, 1 },
				  .counter = counter,
				  .nonce = { (uint8_t)counter } };
}

static bool is_let_in(const struct rio_data *d, const uint8_t token[RIO_TOKEN_BYTES], int spoil)
{
	uint8_t bytes[RIO_DATA_BYTES];
	struct weft_address at;
	bool is_in;

	rio_data_encode(d, bytes);
	rio_seal(token, bytes, RIO_DATA_SEALED_BYTES, bytes + RIO_DATA_SEALED_BYTES);
	if (spoil >= 0)
		bytes[spoil] ^= 1;
	weft_rio_requester_address(asked, &at);
	is_in = raw_connect(&iounit, &at, &(struct rio_bytes){ bytes, sizeof(bytes) });
	raw_hang_up(&iounit);
	return is_in;
}

static void announce(const uint8_t token[RIO_TOKEN_BYTES])
{
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = { FIRST_IOUNIT, 1 } } };

	memcpy(m.announce.token, token, RIO_TOKEN_BYTES);
	raw_say(&owner, &m);
	/* It has been taken when this is answered. */
	raw_say(&owner, &(struct rio_msg){ .type = RIO_PING, .id = 1 });
	REQUIRE(raw_hear(&owner, RIO_PONG, &m));
}

static void expect_kept_out(void)
{
	static const uint8_t token[RIO_TOKEN_BYTES] = { 1, 2, 3 }, other[RIO_TOKEN_BYTES] = { 4 };
	struct rio_data d = question_of(1), e;
	struct weft_address at;

	weft_rio_requester_address(asked, &at);
	/* Before an I/O unit was announced, and after. */
	EXPECT(!is_let_in(&d, token, -1));
	announce(token);
	EXPECT(!raw_connect(&iounit, &at, NULL));
	raw_hang_up(&iounit);
	EXPECT(!raw_connect(&iounit, &at, &(struct rio_bytes){ token, sizeof(token) }));
	raw_hang_up(&iounit);
	EXPECT(!is_let_in(&d, other, -1));
	for (int i = 0; i < RIO_DATA_BYTES; i += 7)
		EXPECT(!is_let_in(&d, token, i));
	e = d;
	e.from.unit = FIRST_IOUNIT + 1;
	EXPECT(!is_let_in(&e, token, -1));
	e = d;
	e.to.unit = FIRST_REQUESTER + 1;
	EXPECT(!is_let_in(&e, token, -1));
	e = d;
	e.is_answer = true;
	EXPECT(!is_let_in(&e, token, -1));
	/* The true one, once. */
	EXPECT(is_let_in(&d, token, -1));
	EXPECT(!is_let_in(&d, token, -1));
	d = question_of(5);
	EXPECT(is_let_in(&d, token, -1));
	d = question_of(4);
	EXPECT(!is_let_in(&d, token, -1));
	/* A new token: the old one is stale. */
	announce(other);
	d = question_of(6);
	EXPECT(!is_let_in(&d, token, -1));
	EXPECT(is_let_in(&d, other, -1));
	/* A peer that the owner has revoked is not let in. */
	raw_say(&owner, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = { FIRST_IOUNIT, 1 } });
	raw_say(&owner, &(struct rio_msg){ .type = RIO_PING, .id = 1 });
	REQUIRE(raw_hear(&owner, RIO_PONG, &(struct rio_msg){ 0 }));
	d = question_of(7);
	EXPECT(!is_let_in(&d, other, -1));
}

/* AMB-26, RIO-11: only who was announced, with the token, and each question once. */
TEST(test_rio_11_data_connections_that_are_forged_replayed_or_stale_are_rejected)
{
	struct weft_rio_peer peer;
	struct weft_rio_self self;
	pthread_t thread;

	raw_open(&owner, OWNER_UNIT, RIO_OWNER);
	raw_open(&iounit, FIRST_IOUNIT, RIO_IOUNIT);
	raw_listen(&owner);
	peer = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &owner.at);
	self = cluster_self(FIRST_REQUESTER, &peer, 1);
	REQUIRE(weft_rio_requester_open(&self, NULL, &asked) == WEFT_OK);
	atomic_store(&is_over, false);
	REQUIRE(pthread_create(&thread, NULL, wait_for_nothing, NULL) == 0);
	raw_await(&owner, FIRST_REQUESTER, RIO_REQUESTER);
	expect_kept_out();
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	weft_rio_requester_close(asked);
	raw_close(&iounit);
	raw_close(&owner);
}
