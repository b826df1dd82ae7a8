/* SPDX-License-Identifier: BSD-2-Clause */
/* Pools and elements: which end has which, and what each message may do to them. */
#include "test.h"

#include <string.h>

#include "unit/push/push_bed.h"

/* The host has a pool of 8 elements of 2048 bytes; both are up. */
static struct bed *one_pool(void)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, 8, 2048);
	bed_up(b);
	MUST_EQ(push_link_state(b->ends[BED_HOST].link), PUSH_OPEN);
	MUST_EQ(push_link_state(b->ends[BED_UNIT].link), PUSH_OPEN);
	return b;
}

TEST(test_push_16a_pools_are_advertised_in_one_message)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, 8, 256);
	bed_pool(b, BED_HOST, 4, 2048);
	bed_up(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL], 1);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RECV_POOL], 0);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 2);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 12);
	EXPECT_EQ(bed_view(b, BED_HOST).theirs, 12);
	bed_destroy(b);
}

/* PUSH-S1: pool 7, element 5, elements of 256 bytes; one rdata indicate, no request of the host. */
TEST(test_push_s1_push_23_a_packet_of_the_lan_arrives_in_element_5_of_pool_7)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	const struct push_event *e;

	bed_make(b);
	for (int i = 0; i < 7; i++)
		bed_pool(b, BED_HOST, 1, 64);
	EXPECT_EQ(bed_pool(b, BED_HOST, 8, 256), 7);
	bed_up(b);
	b->is_eager = false;
	for (uint64_t i = 0; i < 6; i++)
		MUST(bed_packet(b, BED_UNIT, 200, i));
	while (bed_act(b, BED_UNIT))
		continue;
	EXPECT_EQ(b->ends[BED_HOST].items[(b->ends[BED_HOST].item_first + 5) % BED_ITEMS].immediate,
		  0x07050100);
	bed_run(b);
	e = bed_last(b, BED_HOST, PUSH_EVENT_PACKET);
	EXPECT(e && e->pool == 7 && e->element == 5 && e->length == 200 && e->bytes[0] == 5);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 6);
	EXPECT_EQ(b->ends[BED_UNIT].immediates, 6);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RDMA_INDICATE], 0);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_GET] + b->ends[BED_HOST].sent[PUSH_PULL],
		  0);
	EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_SENT), 6);
	bed_destroy(b);
}

TEST(test_push_15_the_smallest_element_that_fits_is_used)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, 4, 2048);
	bed_pool(b, BED_HOST, 2, 128);
	bed_up(b);
	b->is_eager = false;
	MUST(bed_packet(b, BED_UNIT, 128, 1));
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_PACKET)->pool, 1);
	MUST(bed_packet(b, BED_UNIT, 129, 1));
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_PACKET)->pool, 0);
	/* When none of its size is free, a larger one serves. */
	MUST(bed_packet(b, BED_UNIT, 64, 1));
	MUST(bed_packet(b, BED_UNIT, 64, 1));
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_PACKET)->pool, 0);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 4);
	bed_destroy(b);
}

/* With none free the initiator waits; an element comes back only when the consumer returns it. */
TEST(test_push_24_no_element_is_written_again_before_it_is_returned)
{
	struct bed *b = one_pool();

	b->is_eager = false;
	for (uint64_t i = 0; i < 10; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 8);
	EXPECT_EQ(bed_view(b, BED_UNIT).waiting, 2);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 0);
	bed_return(b, BED_HOST, 0, 3);
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 9);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_PACKET)->element, 3);
	EXPECT_EQ(bed_view(b, BED_UNIT).waiting, 1);
	bed_destroy(b);
}

/* While the other end has enough, elements gather until they are a quarter of the pool. */
TEST(test_push_16c_elements_are_returned_in_groups)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct bed_end *host = &b->ends[BED_HOST];

	bed_make(b);
	bed_pool(b, BED_HOST, 64, 256);
	bed_up(b);
	for (uint64_t i = 0; i < 15; i++) {
		MUST(bed_packet(b, BED_UNIT, 100, i));
		bed_run(b);
	}
	EXPECT_EQ(host->sent[PUSH_RECV_POOL_UPDATE], 0);
	EXPECT_EQ(bed_view(b, BED_HOST).ready, 15);
	MUST(bed_packet(b, BED_UNIT, 100, 15));
	bed_run(b);
	EXPECT_EQ(host->sent[PUSH_RECV_POOL_UPDATE], 1);
	EXPECT_EQ(bed_view(b, BED_HOST).ready, 0);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 64);
	bed_destroy(b);
}

/* When the other end has little left, what is ready goes at once, though not a quarter. */
TEST(test_push_24_a_lone_element_is_returned_when_others_lack)
{
	struct bed *b = one_pool();

	b->is_eager = false;
	for (uint64_t i = 0; i < 6; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(bed_view(b, BED_HOST).theirs, 2);
	bed_return(b, BED_HOST, 0, 0);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], 1);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 3);
	bed_destroy(b);
}

TEST(test_push_16b_who_waits_for_long_asks)
{
	struct bed *b = one_pool();
	const struct push_event *e;

	b->is_eager = false;
	for (uint64_t i = 0; i < 10; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RECV_POOL_GET], 0);
	b->now_ns = push_due(b->ends[BED_UNIT].link);
	push_expire(b->ends[BED_UNIT].link, b->now_ns);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RECV_POOL_GET], 1);
	e = bed_last(b, BED_HOST, PUSH_EVENT_ASKED_POOLS);
	EXPECT(e && e->get.packet_bytes == 100 && e->get.packets == 2);
	/* No reply is owed; a new pool serves it. */
	bed_pool(b, BED_HOST, 4, 256);
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 10);
	EXPECT_EQ(push_due(b->ends[BED_UNIT].link),
		  b->now_ns + b->ends[BED_UNIT].config.ping_after_ns);
	bed_destroy(b);
}

/* It learns of returned elements without that: a Get a millisecond would be for nothing. */
TEST(test_push_16b_who_returns_nothing_is_asked_less_and_less)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	uint64_t pause_ns = 0, first_ns;

	b->ends[BED_UNIT].config.ping_after_ns = 10000 * BED_MS;
	bed_make(b);
	bed_pool(b, BED_HOST, 8, 2048);
	bed_up(b);
	b->is_eager = false;
	for (uint64_t i = 0; i < 10; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	first_ns = b->now_ns;
	for (uint32_t n = 1; n <= 12; n++) {
		uint64_t due_ns = first_ns + pause_ns + BED_MS;

		EXPECT_EQ(push_due(b->ends[BED_UNIT].link), due_ns);
		pause_ns = n < 11 ? 2 * pause_ns + 2 * BED_MS : pause_ns + 1024 * BED_MS;
		b->now_ns = due_ns;
		bed_run(b);
		EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RECV_POOL_GET], n);
	}
	bed_destroy(b);
}

TEST(test_push_24_since_when_packets_wait_is_known)
{
	struct bed *b = one_pool();
	const struct push_link *unit = b->ends[BED_UNIT].link;

	b->is_eager = false;
	MUST(bed_packet(b, BED_UNIT, 100, 1));
	bed_run(b);
	EXPECT_EQ(push_waits_since(unit), UINT64_MAX);
	for (uint64_t i = 2; i <= 10; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(push_waits_since(unit), b->now_ns);
	b->now_ns += 7;
	bed_run(b);
	EXPECT_EQ(push_waits_since(unit), b->now_ns - 7);
	/* The next one waits from when it is the first. */
	bed_return(b, BED_HOST, 0, 0);
	bed_run(b);
	EXPECT_EQ(push_waits_since(unit), b->now_ns);
	bed_destroy(b);
}

TEST(test_push_16b_who_has_no_pool_that_fits_asks_at_once)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, 4, 128);
	bed_up(b);
	MUST(bed_packet(b, BED_UNIT, 129, 1));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RECV_POOL_GET], 1);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_ASKED_POOLS)->get.packet_bytes, 129);
	bed_destroy(b);
}

/* The other end may see an element returned before the Write into it is acknowledged. */
TEST(test_push_24_an_element_returned_early_is_free_when_its_write_is_done)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, 1, 256);
	bed_up(b);
	b->is_held = true;
	MUST(bed_packet(b, BED_UNIT, 100, 1));
	MUST(bed_packet(b, BED_UNIT, 100, 2));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], 1);
	EXPECT_EQ(b->ends[BED_UNIT].writes, 1);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 0);
	bed_done(b, BED_UNIT);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].writes, 2);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 2);
	bed_done(b, BED_UNIT);
	bed_done(b, BED_HOST);
	bed_destroy(b);
}

/*
 * ---- Refusals of the target -------------------------------------------------------------------
 */

static enum weft_reason indicated(struct bed *b, struct push_used u, uint32_t count)
{
	uint8_t entries[2 * PUSH_USED_BYTES];
	struct wr w = wr_of(entries, sizeof(entries));

	for (uint32_t i = 0; i < count; i++)
		push_used_put(&u, &w);
	return bed_say(
		b, BED_HOST,
		&(struct push_msg){ .function = PUSH_RDMA_INDICATE, .used = { count, entries } });
}

static enum weft_reason written(struct bed *b, uint32_t word, uint32_t bytes)
{
	return push_written(b->ends[BED_HOST].link, word, bytes, b->now_ns);
}

TEST(test_push_14_a_write_outside_pool_or_element_is_refused)
{
	struct bed *b = one_pool();

	EXPECT_EQ(written(b, 0x01000800, 100), WEFT_R_PUSH_POOL);
	EXPECT_EQ(written(b, 0xff000800, 100), WEFT_R_PUSH_POOL);
	EXPECT_EQ(written(b, 0x00080800, 100), WEFT_R_PUSH_ELEMENT);
	EXPECT_EQ(written(b, 0x00070100, 100), WEFT_R_PUSH_SIZE);
	EXPECT_EQ(written(b, 0x00070800, 2049), WEFT_R_PUSH_RANGE);
	EXPECT_EQ(bed_view(b, BED_HOST).theirs, 8);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 0);
	EXPECT_EQ(written(b, 0x00070800, 100), WEFT_OK);
	EXPECT_EQ(written(b, 0x00070800, 100), WEFT_R_PUSH_NOT_FREE);
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 1);
	bed_destroy(b);
}

TEST(test_push_16g_an_indication_is_all_good_or_changes_nothing)
{
	struct bed *b = one_pool();

	EXPECT_EQ(indicated(b, (struct push_used){ 0, 5, 2048, 100 }, 2), WEFT_R_PUSH_NOT_FREE);
	EXPECT_EQ(bed_view(b, BED_HOST).theirs, 8);
	EXPECT_EQ(indicated(b, (struct push_used){ 0, 5, 2048, 100 }, 1), WEFT_OK);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_PACKET)->element, 5);
	bed_destroy(b);
}

/* PUSH-21: such a pool has no immediate form. */
TEST(test_push_21_an_immediate_form_that_cannot_be_is_refused)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, 257, 64);
	bed_pool(b, BED_HOST, 2, 65537);
	bed_up(b);
	EXPECT_EQ(written(b, 0x00050040, 20), WEFT_R_PUSH_IMMEDIATE);
	EXPECT_EQ(written(b, 0x01000001, 20), WEFT_R_PUSH_IMMEDIATE);
	bed_destroy(b);
}

/* The element of a packet that is none is ready again. */
TEST(test_push_16f_packets_of_13_and_of_too_many_bytes_are_refused)
{
	struct bed *b = one_pool();

	EXPECT_EQ(written(b, 0x00000800, 13), WEFT_R_PUSH_FRAME);
	EXPECT_EQ(written(b, 0x00010800, 1519), WEFT_R_PUSH_FRAME);
	EXPECT_EQ(written(b, 0x00020800, 1518), WEFT_OK);
	EXPECT_EQ(written(b, 0x00030800, 14), WEFT_OK);
	EXPECT_EQ(indicated(b, (struct push_used){ 0, 4, 2048, 13 }, 1), WEFT_R_PUSH_FRAME);
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 2);
	EXPECT_EQ(bed_view(b, BED_HOST).full, 0);
	EXPECT_EQ(bed_packet(b, BED_UNIT, 13, 1), WEFT_R_PUSH_FRAME);
	EXPECT_EQ(bed_packet(b, BED_UNIT, 1519, 1), WEFT_R_PUSH_FRAME);
	EXPECT_EQ(bed_packet(b, BED_UNIT, 65536, 1), WEFT_R_PUSH_FRAME);
	bed_destroy(b);
}

TEST(test_push_16a_limits_of_pools_are_kept)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct push_pool_config c = { b->ends[0].memory, 4, 256, 0 };
	uint32_t index;

	b->ends[BED_HOST].config.own_pools_max = 2;
	b->ends[BED_HOST].config.own_elements_max = 10;
	b->ends[BED_UNIT].config.hello.elements_max = 8;
	bed_make(b);
	bed_pool(b, BED_HOST, 4, 256);
	bed_up(b);
	c.elements = 7;
	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link, &c, &index), WEFT_R_LIMIT);
	c.elements = 5;
	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link, &c, &index), WEFT_R_PUSH_POOLS);
	c.elements = 4;
	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link, &c, &index), WEFT_OK);
	c.elements = 1;
	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link, &c, &index), WEFT_R_LIMIT);
	c.elements = 0;
	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link, &c, &index), WEFT_R_BAD_ARGUMENT);
	c = (struct push_pool_config){ NULL, 1, 1, 0 };
	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link, &c, &index), WEFT_R_BAD_ARGUMENT);
	bed_run(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 2);
	bed_destroy(b);
}

/* Pools that were opened before the other end said what it can keep in mind. */
TEST(test_push_16a_pools_beyond_what_the_hello_allows_are_closed)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	b->ends[BED_UNIT].config.hello.pools_max = 1;
	bed_make(b);
	bed_pool(b, BED_HOST, 4, 256);
	bed_pool(b, BED_HOST, 4, 256);
	bed_up(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 1);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_POOL_CLOSED)->reason, WEFT_R_PUSH_POOLS);
	EXPECT(!b->ends[BED_HOST].is_registered[1]);
	bed_destroy(b);
}

/*
 * ---- Refusals of the initiator ----------------------------------------------------------------
 */

static enum weft_reason advertised(struct bed *b, uint32_t first, uint32_t second,
				   uint32_t elements)
{
	const struct push_pool p[] = { { first, 1, elements, 64, 0, 0 },
				       { second, 1, elements, 64, 0, 0 } };
	uint8_t entries[2 * PUSH_POOL_BYTES];
	struct wr w = wr_of(entries, sizeof(entries));

	push_pool_put(&p[0], &w);
	push_pool_put(&p[1], &w);
	return bed_say(b, BED_UNIT,
		       &(struct push_msg){ .function = PUSH_RECV_POOL, .pools = { 2, entries } });
}

TEST(test_push_16a_an_advertisement_is_all_good_or_changes_nothing)
{
	struct bed *b = one_pool();

	EXPECT_EQ(advertised(b, 1, 0, 4), WEFT_R_PUSH_POOL_TWICE);
	EXPECT_EQ(advertised(b, 1, 1, 4), WEFT_R_PUSH_POOL_TWICE);
	EXPECT_EQ(advertised(b, 1, 16, 4), WEFT_R_PUSH_POOLS);
	EXPECT_EQ(advertised(b, 1, 2, 2045), WEFT_R_PUSH_POOLS);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 1);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 8);
	EXPECT_EQ(advertised(b, 1, 2, 2044), WEFT_OK);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 4096);
	bed_destroy(b);
}

static enum weft_reason updated(struct bed *b, struct push_run first, struct push_run second)
{
	uint8_t entries[2 * PUSH_RUN_BYTES];
	struct wr w = wr_of(entries, sizeof(entries));

	push_run_put(&first, &w);
	push_run_put(&second, &w);
	return bed_say(
		b, BED_UNIT,
		&(struct push_msg){ .function = PUSH_RECV_POOL_UPDATE, .runs = { 2, entries } });
}

TEST(test_push_16c_an_update_is_all_good_or_changes_nothing)
{
	const struct push_run good = { 0, 0, 2 };
	struct bed *b = one_pool();

	b->is_eager = false;
	for (uint64_t i = 0; i < 4; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).used, 4);
	EXPECT_EQ(updated(b, good, (struct push_run){ 1, 0, 1 }), WEFT_R_PUSH_POOL);
	EXPECT_EQ(updated(b, good, (struct push_run){ 99, 0, 1 }), WEFT_R_PUSH_POOL);
	EXPECT_EQ(updated(b, good, (struct push_run){ 0, 7, 2 }), WEFT_R_PUSH_ELEMENT);
	EXPECT_EQ(updated(b, good, (struct push_run){ 0, 3, 2 }), WEFT_R_PUSH_NOT_USED);
	EXPECT_EQ(updated(b, good, good), WEFT_R_PUSH_NOT_USED);
	EXPECT_EQ(bed_view(b, BED_UNIT).used, 4);
	EXPECT_EQ(updated(b, good, (struct push_run){ 0, 2, 2 }), WEFT_OK);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 8);
	bed_destroy(b);
}

/*
 * ---- PUSH-S4 ----------------------------------------------------------------------------------
 */

/* How many of `count` packets were told by immediate data. */
static uint32_t immediates(uint32_t pools, uint32_t elements, uint32_t bytes, uint32_t count)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	uint32_t result;

	for (int i = 0; i < 2; i++) {
		b->ends[i].config.hello.pools_max = 300;
		b->ends[i].config.own_pools_max = 300;
		b->ends[i].config.hello.features = PUSH_FEATURE_NET_HEADER |
						   PUSH_FEATURE_GUEST_TSO4;
	}
	bed_make(b);
	for (uint32_t i = 0; i < pools; i++)
		bed_pool(b, BED_HOST, elements, bytes);
	bed_up(b);
	for (uint32_t i = 0; i < count; i++) {
		MUST(bed_packet(b, BED_UNIT, 60, i));
		bed_run(b);
	}
	MUST_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), count);
	MUST_EQ(b->ends[BED_UNIT].writes, count);
	result = b->ends[BED_UNIT].immediates;
	MUST_EQ(b->ends[BED_UNIT].sent[PUSH_RDMA_INDICATE], count - result);
	bed_destroy(b);
	return result;
}

TEST(test_push_s4_257_pools_257_elements_or_more_than_64k_use_a_message)
{
	EXPECT_EQ(immediates(1, 256, 256, 5), 5);
	EXPECT_EQ(immediates(1, 257, 256, 5), 0);
	EXPECT_EQ(immediates(256, 2, 256, 5), 5);
	EXPECT_EQ(immediates(257, 2, 256, 5), 0);
	EXPECT_EQ(immediates(1, 4, 65536, 5), 5);
	EXPECT_EQ(immediates(1, 4, 65537, 5), 0);
}

/*
 * PUSH-19: without immediate data on the wire; PUSH-16g: indications gather while one is under
 * way.
 */
TEST(test_push_19_indications_gather_under_load)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	b->ends[BED_UNIT].config.has_immediate = false;
	bed_make(b);
	bed_pool(b, BED_HOST, 8, 256);
	bed_up(b);
	b->is_held = true;
	for (uint64_t i = 0; i < 5; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RDMA_INDICATE], 1);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 1);
	bed_done(b, BED_UNIT);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RDMA_INDICATE], 2);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 5);
	bed_done(b, BED_UNIT);
	bed_done(b, BED_HOST);
	bed_destroy(b);
}

/* ---- What goes in an update, and when -------------------------------------------------------- */

/* The message that is on its way to an end, behind so many others. */
static struct push_msg on_its_way(struct bed *b, int to, uint32_t nth)
{
	struct bed_end *e = &b->ends[to];
	struct bed_item *item = &e->items[(e->item_first + nth) % BED_ITEMS];
	struct push_msg m = { 0 };

	MUST_EQ(item->kind, BED_MESSAGE);
	MUST(push_msg_decode(&m, item->bytes, item->length));
	return m;
}

/* Three of 64 are no group; who asks for elements gets them nevertheless. */
TEST(test_push_16b_who_is_asked_returns_what_is_ready)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	const struct push_msg get = { .function = PUSH_RECV_POOL_GET, .get = { 100, 1 } };

	bed_make(b);
	bed_pool(b, BED_HOST, 64, 256);
	bed_up(b);
	for (uint64_t i = 0; i < 3; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 61);
	MUST(bed_say(b, BED_HOST, &get));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], 1);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 64);
	bed_destroy(b);
}

/* It was returned while the other end had enough: when that lacks some, it goes. */
TEST(test_push_24_a_ready_element_goes_when_others_are_used_up)
{
	struct bed *b = one_pool();

	b->is_eager = false;
	for (uint64_t i = 0; i < 4; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	bed_return(b, BED_HOST, 0, 0);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], 0);
	for (uint64_t i = 4; i < 6; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], 1);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 3);
	bed_destroy(b);
}

TEST(test_push_16c_elements_that_follow_each_other_are_one_run)
{
	struct bed *b = one_pool();
	struct push_msg m;
	struct push_run run;
	struct rd r;

	b->is_eager = false;
	for (uint64_t i = 0; i < 8; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	for (uint32_t i = 2; i < 7; i++)
		bed_return(b, BED_HOST, 0, i);
	EXPECT(bed_act(b, BED_HOST));
	m = on_its_way(b, BED_UNIT, 0);
	EXPECT_EQ(m.function, PUSH_RECV_POOL_UPDATE);
	EXPECT_EQ(m.runs.count, 1);
	r = rd_of(m.runs.bytes, PUSH_RUN_BYTES);
	run = push_run_next(&r);
	EXPECT(run.pool == 0 && run.first == 2 && run.count == 5);
	bed_run(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 5);
	bed_destroy(b);
}

/* Every other element of many is a run of its own: more than a message holds. */
TEST(test_push_16c_updates_go_one_at_a_time_until_all_are_told)
{
	enum { ELEMENTS = 800, MESSAGES = 1 + ELEMENTS / 2 / PUSH_UPDATE_RUNS_MAX };
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	bed_pool(b, BED_HOST, ELEMENTS, 64);
	bed_up(b);
	b->is_eager = false;
	for (uint32_t i = 0; i < ELEMENTS; i++) {
		MUST(bed_packet(b, BED_UNIT, 60, i));
		bed_run(b);
	}
	for (uint32_t i = 0; i < ELEMENTS; i += 2)
		bed_return(b, BED_HOST, 0, i);
	b->is_held = true;
	for (uint32_t told = 1; told <= MESSAGES; told++) {
		EXPECT(bed_act(b, BED_HOST));
		EXPECT(!bed_act(b, BED_HOST)); /* one is under way */
		EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], told);
		bed_done(b, BED_HOST);
	}
	b->is_held = false;
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], MESSAGES);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, ELEMENTS / 2);
	bed_destroy(b);
}

TEST(test_push_16a_the_context_of_a_pool_is_told)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct push_pool_config c = { .elements = 1, .element_bytes = 64, .context = 0x0807 };
	struct push_pool p;
	struct push_msg m;
	uint32_t index;
	struct rd r;

	bed_make(b);
	bed_up(b);
	c.memory = b->ends[BED_HOST].memory;
	MUST(push_pool_open(b->ends[BED_HOST].link, &c, &index));
	while (bed_act(b, BED_HOST))
		continue;
	m = on_its_way(b, BED_UNIT, 0);
	EXPECT_EQ(m.function, PUSH_RECV_POOL);
	r = rd_of(m.pools.bytes, PUSH_POOL_BYTES);
	p = push_pool_next(&r);
	EXPECT_EQ(p.context, 0x0807);
	bed_destroy(b);
}

/* There are no more than 256, but the index of one does not fit 8 bits. */
TEST(test_push_21_a_pool_beyond_index_255_uses_a_message)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	for (int i = 0; i < 2; i++) {
		b->ends[i].config.hello.pools_max = 300;
		b->ends[i].config.own_pools_max = 300;
	}
	bed_make(b);
	for (uint32_t i = 0; i < 256; i++)
		bed_pool(b, BED_HOST, 1, 64);
	EXPECT_EQ(bed_pool(b, BED_HOST, 1, 256), 256);
	bed_up(b);
	MUST(push_pool_close(b->ends[BED_HOST].link, 0));
	bed_run(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 256);
	MUST(bed_packet(b, BED_UNIT, 60, 1));
	MUST(bed_packet(b, BED_UNIT, 200, 2));
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 2);
	EXPECT_EQ(b->ends[BED_UNIT].immediates, 1);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RDMA_INDICATE], 1);
	bed_destroy(b);
}
