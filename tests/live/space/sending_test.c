/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending agent (SEND) on live memory: packets are lost, the pages that they were sent from are
 * swapped out before they are sent again, and the kernel brings them back elsewhere. Nothing is
 * pinned between a packet and its being repeated.
 */
#include <stdlib.h>

#include "driver/roce/roce.h"
#include "live/space/live_space.h"
#include "own_network.h"

enum { PIECE = 4096, PIECES = 4, BLOCKS = 48, BYTES = PIECE * PIECES * BLOCKS };

/* The offset of a request's piece: neighbours are sent from places far apart. */
static uint32_t piece_at(uint32_t block, uint32_t piece)
{
	return (block * PIECES + piece) * 89 % (BLOCKS * PIECES) * PIECE;
}

static uint8_t byte_at(uint32_t offset)
{
	return (uint8_t)(offset * 3 + offset / PIECE * 57);
}

static void post_block(struct live_pair *p, uint32_t block)
{
	struct node *near = &p->near.end.node;
	struct weft_sge pieces[PIECES];
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, block, pieces, &p->far.end.node);

	for (uint32_t i = 0; i < PIECES; i++)
		pieces[i] = node_seg(near, piece_at(block, i), PIECE);
	wr.sge_count = PIECES;
	wr.remote_addr += (uint64_t)block * PIECES * PIECE;
	REQUIRE(node_post(near, &wr));
}

/* What the program can see of pins, whenever it looks. */
static struct weft_pins pins_of(const struct side *s)
{
	struct weft_pins pins;

	MUST(weft_space_query(s->space, &pins));
	MUST_EQ(pins.count, 0);
	MUST_EQ(pins.bytes, 0);
	return pins;
}

static void expect_arrived(const struct live_pair *p)
{
	const uint8_t *far = p->far.end.node.memory;

	for (uint32_t i = 0; i < BYTES; i++) {
		uint32_t piece = i / PIECE;

		REQUIRE(far[i] == byte_at(piece_at(piece / PIECES, piece % PIECES) + i % PIECE));
	}
}

/* All blocks, in order, while the pages go and come. */
static void send_all(struct live_pair *p)
{
	struct weft_cq *cq = p->near.end.node.cq;
	uint64_t end_ns = thread_now_ns() + 2 * PATIENCE_NS;
	uint32_t done = 0, polls = 0;
	struct weft_completion c;
	bool has;

	for (uint32_t i = 0; i < BLOCKS; i++)
		post_block(p, i);
	while (done < BLOCKS) {
		REQUIRE(thread_now_ns() < end_ns);
		if (polls++ % 64 == 0)
			swap_press(p->near.end.node.memory, BYTES);
		(void)pins_of(&p->near);
		REQUIRE(node_poll(cq, &c, &has));
		if (!has)
			continue;
		REQUIRE(c.status == WEFT_SUCCESS);
		MUST_EQ(c.id, done++);
	}
}

/* What a sender that pins until the acknowledgement would have pinned, in the same run. */
static struct ib_counts port_counts(struct weft_adapter *a)
{
	struct ib_counts counts;

	adapter_enter(a);
	counts = *ib_port_counts(roce_of(a->net)->port);
	adapter_leave(a);
	return counts;
}

static void run(bool is_handing)
{
	const char *why_not = own_network_enter();
	struct live_pair p = { .near.is_handing = is_handing };
	struct ib_counts counts;
	struct weft_pins pins;

	why_not = why_not ? why_not : swap_open();
	if (why_not)
		SKIP(why_not);
	setenv("WEFT_FAULTS", "seed=7,loss=0.02", 1);
	live_pair_open(&p, OVER_UDP, BYTES);
	unsetenv("WEFT_FAULTS");
	swap_enter();
	for (uint32_t i = 0; i < BYTES; i++)
		p.near.end.node.memory[i] = byte_at(i);
	swap_leave();
	if (!swap_out(p.near.end.node.memory, BYTES)) {
		live_pair_close(&p);
		swap_close();
		SKIP("the kernel swaps nothing out");
	}
	MUST_EQ(pages_in_memory(p.near.end.node.memory, BYTES), 0);
	send_all(&p);
	expect_arrived(&p);
	pins = pins_of(&p.near);
	counts = port_counts(p.near.end.adapter);
	REQUIRE(pins.faults > 0);
	REQUIRE(counts.again > 0);
	if (is_handing) {
		MUST_EQ(pins.pinned, 0);
		REQUIRE(pins.bytes_handed >= BYTES);
	} else {
		REQUIRE(pins.pinned > 0);
		MUST_EQ(pins.bytes_handed, 0);
		/* A few packets at a time, not all that was sent and not acknowledged. */
		REQUIRE(pins.bytes_max > 0 && pins.bytes_max < counts.kept_bytes_max);
		REQUIRE(pins.byte_ns < counts.kept_byte_ns);
	}
	MUST_EQ(counts.kept_bytes, 0);
	live_pair_close(&p);
	swap_close();
}

TEST(test_send_s1_send_s2_send_s3_send_s4_real_addresses_of_pages_that_are_swapped)
{
	run(false);
}

TEST(test_send_s1_send_s2_send_04_bytes_handed_over_of_pages_that_are_swapped)
{
	run(true);
}
