/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that meet a lower MTU; in Send mode, messages that overtake each other. */
#include "test.h"

#include "unit/push/push_bed.h"

static const struct push_cfg lower = { .kind = PUSH_SET_MTU, .mtu = 576 };

TEST(test_push_09_a_lower_mtu_holds_from_the_request_on)
{
	struct bed *b = bed_both_pools();
	struct push_link *host = b->ends[BED_HOST].link;

	EXPECT_EQ(push_packet_max(host, true), 1518);
	MUST(push_ask(host, &lower, b->now_ns));
	EXPECT_EQ(push_packet_max(host, true), 576 + 18);
	EXPECT_EQ(push_packet_max(host, false), 1518); /* the unit does not know yet */
	EXPECT_EQ(bed_packet(b, BED_HOST, 1000, 1), WEFT_R_PUSH_FRAME);
	b->answer = WEFT_R_PUSH_OFFER;
	bed_run(b);
	EXPECT_EQ(push_packet_max(host, true), 1518);
	bed_destroy(b);
}

/* The same of offloads: frames longer than the MTU are none then. */
TEST(test_push_09_fewer_offers_hold_from_the_request_on)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	const struct push_cfg less = { .kind = PUSH_SET_OFFERS,
				       .offers = { PUSH_FEATURE_NET_HEADER, 1 } };

	for (int i = 0; i < 2; i++)
		b->ends[i].config.hello.features = PUSH_FEATURES;
	bed_make(b);
	bed_up(b);
	EXPECT_EQ(push_packet_max(b->ends[BED_HOST].link, true), PUSH_PACKET_MAX);
	MUST(push_ask(b->ends[BED_HOST].link, &less, b->now_ns));
	EXPECT_EQ(push_packet_max(b->ends[BED_HOST].link, true), 1518 + PUSH_NET_HEADER_BYTES);
	bed_destroy(b);
}

TEST(test_push_09_a_packet_that_waited_for_a_lower_mtu_is_not_sent)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	b->is_eager = false;
	bed_make(b);
	bed_pool(b, BED_HOST, 1, 2048);
	bed_up(b);
	MUST(bed_packet(b, BED_UNIT, 1500, 1));
	MUST(bed_packet(b, BED_UNIT, 1500, 2)); /* finds no element */
	MUST(bed_packet(b, BED_UNIT, 500, 3));
	bed_run(b);
	MUST(push_ask(b->ends[BED_HOST].link, &lower, b->now_ns));
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_UNIT, PUSH_EVENT_SENT)->cookie, 2);
	EXPECT_EQ(bed_last(b, BED_UNIT, PUSH_EVENT_SENT)->reason, WEFT_R_PUSH_FRAME);
	bed_return(b, BED_HOST, 0, 0);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_PACKET)->length, 500);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 2);
	EXPECT_EQ(b->ends[BED_HOST].refused, WEFT_OK);
	bed_destroy(b);
}

/* An indication that waits for one before it, and a request or reply that may not overtake it. */
TEST(test_push_09_what_was_written_is_told_before_a_lower_mtu)
{
	for (int end = 0; end < 2; end++) {
		struct bed *b = bed_create(PUSH_MODE_RDMA);

		b->ends[end].config.has_immediate = false;
		bed_make(b);
		bed_pool(b, 1 - end, 8, 2048);
		bed_up(b);
		b->is_held = true;
		MUST(bed_packet(b, end, 1500, 1));
		while (bed_act(b, end))
			continue;
		MUST(bed_packet(b, end, 1500, 2));
		while (bed_act(b, end))
			continue;
		MUST(push_ask(b->ends[BED_HOST].link, &lower, b->now_ns));
		bed_run(b);
		EXPECT_EQ(bed_count(b, 1 - end, PUSH_EVENT_PACKET), 1);
		EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_ANSWER), 0);
		bed_done(b, end);
		b->is_held = false;
		bed_run(b);
		EXPECT_EQ(bed_count(b, 1 - end, PUSH_EVENT_PACKET), 2);
		EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_ANSWER), 1);
		EXPECT_EQ(b->ends[1 - end].refused, WEFT_OK);
		bed_destroy(b);
	}
}

/* The reply waits for an indication, and longer packets for the reply. */
TEST(test_push_09_longer_packets_go_after_the_reply_that_allows_them)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	const struct push_cfg higher = { .kind = PUSH_SET_MTU, .mtu = 9000 };

	b->ends[BED_UNIT].config.has_immediate = false;
	bed_make(b);
	bed_pool(b, BED_HOST, 8, 9216);
	bed_up(b);
	b->is_held = true;
	for (uint64_t i = 0; i < 2; i++) {
		MUST(bed_packet(b, BED_UNIT, 1500, i));
		while (bed_act(b, BED_UNIT))
			continue;
	}
	MUST(push_ask(b->ends[BED_HOST].link, &higher, b->now_ns));
	bed_run(b);
	MUST(bed_packet(b, BED_UNIT, 9000, 2));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].writes, 2);
	bed_done(b, BED_UNIT);
	b->is_held = false;
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 3);
	EXPECT_EQ(b->ends[BED_HOST].refused, WEFT_OK);
	bed_destroy(b);
}

/* ---- Send mode: unacknowledged connections repeat and reorder (AMB-29) ----------------------- */

static struct bed *send_mode(bool is_up)
{
	struct bed *b = bed_create(PUSH_MODE_SEND);

	b->ends[BED_HOST].config.refusals_max = 2;
	bed_make(b);
	if (is_up)
		bed_up(b);
	else
		push_up(b->ends[BED_HOST].link, b->now_ns);
	return b;
}

TEST(test_push_07_a_late_request_is_passed_over)
{
	struct bed *b = send_mode(true);
	struct push_msg again = { .function = PUSH_CFG_REQUEST,
				  .context = 2, /* after the greeting */
				  .cfg = { .kind = PUSH_SET_MTU, .mtu = 1400 } };

	MUST(push_ask(b->ends[BED_HOST].link, &again.cfg, b->now_ns));
	bed_run(b);
	MUST(push_ask(b->ends[BED_HOST].link, &lower, b->now_ns));
	bed_run(b);
	EXPECT_EQ(bed_say(b, BED_UNIT, &again), WEFT_OK);
	bed_run(b);
	EXPECT_EQ(push_agreed(b->ends[BED_HOST].link)->mtu, 576);
	EXPECT_EQ(push_agreed(b->ends[BED_UNIT].link)->mtu, 576);
	bed_destroy(b);
}

TEST(test_push_07_a_request_that_overtakes_the_greeting_comes_again)
{
	struct bed *b = send_mode(false);
	const struct push_msg early = { .function = PUSH_CFG_REQUEST,
					.context = 1,
					.cfg = { .kind = PUSH_LINK, .link = { true, 1000 } } };

	EXPECT_EQ(bed_say(b, BED_HOST, &early), WEFT_OK);
	EXPECT(bed_act(b, BED_HOST)); /* the greeting, and no reply */
	EXPECT(!bed_act(b, BED_HOST));
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_CFG_REPLY], 0);
	push_up(b->ends[BED_UNIT].link, b->now_ns);
	bed_run(b);
	EXPECT_EQ(bed_say(b, BED_HOST, &early), WEFT_OK);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_CFG_REPLY], 1);
	EXPECT(push_agreed(b->ends[BED_HOST].link)->is_link_up);
	bed_destroy(b);
}

/* The reply to the greeting is lost, and a flood comes; then the MTU is lowered. */
TEST(test_push_07_packets_that_overtake_messages_do_not_end_the_link)
{
	struct bed *b = send_mode(false);
	struct push_link *host = b->ends[BED_HOST].link;
	struct push_statistics s;

	for (int i = 0; i < 5; i++)
		EXPECT_EQ(push_take_packet(host, b->ends[0].memory, PUSH_FRAME_MIN, b->now_ns),
			  WEFT_R_PUSH_STATE);
	push_up(b->ends[BED_UNIT].link, b->now_ns);
	bed_run(b);
	EXPECT_EQ(push_link_state(host), PUSH_OPEN);
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(push_take_packet(host, b->ends[0].memory, 1519, b->now_ns),
			  WEFT_R_PUSH_FRAME);
	EXPECT_EQ(push_link_state(host), PUSH_OPEN);
	push_statistics(host, &s);
	EXPECT_EQ(s.refused, 10);
	bed_destroy(b);
}
