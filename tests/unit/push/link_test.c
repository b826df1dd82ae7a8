/* SPDX-License-Identifier: BSD-2-Clause */
/* A link's modes, its configuration, and what it refuses. */
#include "test.h"

#include <string.h>

#include "unit/push/push_bed.h"

static struct bed *send_mode(void)
{
	struct bed *b = bed_create(PUSH_MODE_SEND);

	bed_make(b);
	bed_up(b);
	return b;
}

TEST(test_push_03_a_configuration_that_cannot_be_is_refused)
{
	static uint8_t messages[2 * PUSH_MSG_BYTES_MAX];
	struct push_config good, c;
	struct push_link *l;

	push_config_init(&good, PUSH_HOST, PUSH_MODE_RDMA);
	good.messages = messages;
	good.sends_max = 2;
	c = good;
	c.messages = NULL;
	EXPECT_EQ(push_link_create(&c, &l), WEFT_R_BAD_ARGUMENT);
	c = good;
	c.sends_max = 1;
	EXPECT_EQ(push_link_create(&c, &l), WEFT_R_BAD_ARGUMENT);
	c = good;
	c.hello.mtu = 9001;
	EXPECT_EQ(push_link_create(&c, &l), WEFT_R_BAD_ARGUMENT);
	c = good;
	c.inline_bytes = PUSH_INLINE_MAX + 1;
	EXPECT_EQ(push_link_create(&c, &l), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(push_link_create(&good, &l), WEFT_OK);
	EXPECT_STR(push_state_name(push_link_state(l)), "down");
	EXPECT_STR(push_state_name(PUSH_STATES), "unknown state");
	EXPECT_EQ(push_due(l), UINT64_MAX);
	push_link_destroy(l);
}

/* Either end is initiator and target at once. */
TEST(test_push_06_both_ends_push)
{
	struct bed *b = bed_both_pools();

	for (uint64_t i = 0; i < 100; i++) {
		MUST(bed_packet(b, BED_HOST, 60 + (uint32_t)i, i));
		MUST(bed_packet(b, BED_UNIT, 60 + (uint32_t)i, i));
		if (i % 4 == 3)
			bed_run(b);
	}
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 100);
	EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_PACKET), 100);
	EXPECT_EQ(bed_last(b, BED_UNIT, PUSH_EVENT_PACKET)->length, 159);
	EXPECT_EQ(b->ends[BED_HOST].refused + b->ends[BED_UNIT].refused, WEFT_OK);
	bed_destroy(b);
}

/* PUSH-S2, in both modes. */
TEST(test_push_s2_a_packet_of_the_host_reaches_the_unit)
{
	static const enum push_mode modes[] = { PUSH_MODE_SEND, PUSH_MODE_RDMA };

	for (int i = 0; i < 2; i++) {
		struct bed *b = bed_create(modes[i]);
		const struct push_event *e;

		bed_make(b);
		if (modes[i] == PUSH_MODE_RDMA)
			bed_pool(b, BED_UNIT, 8, 2048);
		bed_up(b);
		MUST(bed_packet(b, BED_HOST, 1518, 42));
		bed_run(b);
		e = bed_last(b, BED_UNIT, PUSH_EVENT_PACKET);
		EXPECT(e && e->length == 1518);
		EXPECT_EQ(e->is_returned, modes[i] == PUSH_MODE_RDMA);
		EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_SENT)->cookie, 42);
		EXPECT_EQ(b->ends[BED_HOST].writes, modes[i] == PUSH_MODE_RDMA);
		bed_destroy(b);
	}
}

/*
 * ---- Send mode --------------------------------------------------------------------------------
 */

TEST(test_push_07_send_mode_has_no_pools)
{
	struct bed *b = send_mode();
	struct push_pool_config c = { b->ends[0].memory, 1, 64, 0 };
	uint32_t index;

	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link, &c, &index), WEFT_R_PUSH_MODE);
	EXPECT_EQ(push_written(b->ends[BED_HOST].link, 0, 64, b->now_ns), WEFT_R_PUSH_MODE);
	EXPECT_EQ(bed_say(b, BED_HOST,
			  &(struct push_msg){ .function = PUSH_RECV_POOL_GET, .get = { 64, 1 } }),
		  WEFT_R_PUSH_MODE);
	bed_destroy(b);
	b = bed_both_pools();
	EXPECT_EQ(push_take_packet(b->ends[BED_HOST].link, b->ends[0].memory, 64, b->now_ns),
		  WEFT_R_PUSH_MODE);
	bed_destroy(b);
}

TEST(test_push_07_ends_of_different_modes_do_not_meet)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	b->ends[BED_UNIT].config.hello.mode = PUSH_MODE_SEND;
	bed_make(b);
	bed_up(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_BROKEN)->reason, WEFT_R_PUSH_MODE);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_ENDED)->reason, WEFT_R_PUSH_MODE);
	EXPECT_EQ(b->ends[BED_UNIT].refused, WEFT_R_PUSH_MODE);
	EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_OPEN), 0);
	bed_destroy(b);
}

TEST(test_push_07_a_unit_that_is_none_is_refused)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct push_cfg c = { .kind = PUSH_HELLO, .hello = b->ends[BED_HOST].config.hello };
	struct push_link *host;

	bed_make(b);
	host = b->ends[BED_HOST].link;
	push_up(host, b->now_ns);
	EXPECT(bed_act(b, BED_HOST));
	EXPECT_EQ(bed_say(b, BED_HOST,
			  &(struct push_msg){ .function = PUSH_CFG_REPLY, .context = 1, .cfg = c }),
		  WEFT_R_PUSH_MODE);
	EXPECT_EQ(push_link_state(host), PUSH_ENDING);
	bed_destroy(b);
}

/* AMB-29: a packet that is lost is lost, and the next PING tells. */
TEST(test_push_07_lost_packets_are_counted)
{
	struct bed *b = send_mode();
	struct push_statistics s;

	for (uint64_t i = 0; i < 5; i++) {
		b->is_lossy = i == 1 || i == 2;
		MUST(bed_packet(b, BED_HOST, 64, i));
		bed_run(b);
	}
	EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_PACKET), 3);
	b->now_ns = push_due(b->ends[BED_HOST].link);
	push_expire(b->ends[BED_HOST].link, b->now_ns);
	bed_run(b);
	push_statistics(b->ends[BED_UNIT].link, &s);
	EXPECT_EQ(s.lost, 2);
	EXPECT_EQ(s.packets_in, 3);
	push_statistics(b->ends[BED_HOST].link, &s);
	EXPECT_EQ(s.lost, 0);
	EXPECT_EQ(s.packets_out, 5);
	bed_destroy(b);
}

/* Without a PING: a program that looks at the statistics all the time sees losses too. */
TEST(test_push_07_statistics_tell_what_was_lost)
{
	struct bed *b = send_mode();
	struct push_statistics s;

	b->is_lossy = true;
	MUST(bed_packet(b, BED_UNIT, 64, 0));
	bed_run(b);
	b->is_lossy = false;
	MUST(push_ask(b->ends[BED_HOST].link, &(struct push_cfg){ .kind = PUSH_STATISTICS },
		      b->now_ns));
	bed_run(b);
	push_statistics(b->ends[BED_HOST].link, &s);
	EXPECT_EQ(s.lost, 1);
	bed_destroy(b);
}

TEST(test_push_07_frames_of_send_mode_have_limits)
{
	struct bed *b = send_mode();
	struct push_link *host = b->ends[BED_HOST].link;

	EXPECT_EQ(push_take_packet(host, b->ends[0].memory, 13, b->now_ns), WEFT_R_PUSH_FRAME);
	EXPECT_EQ(push_take_packet(host, b->ends[0].memory, 1519, b->now_ns), WEFT_R_PUSH_FRAME);
	EXPECT_EQ(push_take_packet(host, b->ends[0].memory, 1518, b->now_ns), WEFT_OK);
	bed_destroy(b);
}

/* Of a request that is lost, and of a reply. */
TEST(test_push_07_requests_are_sent_again)
{
	const struct push_cfg c = { .kind = PUSH_SET_MTU, .mtu = 1400 };

	for (int lost = 0; lost < 2; lost++) {
		struct bed *b = send_mode();

		MUST(push_ask(b->ends[BED_HOST].link, &c, b->now_ns));
		b->is_lossy = lost == 0;
		EXPECT(bed_act(b, BED_HOST));
		if (lost == 1) {
			EXPECT(bed_deliver(b, BED_UNIT));
			b->is_lossy = true;
		}
		bed_run(b);
		EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_ANSWER), 0);
		b->now_ns = push_due(b->ends[BED_HOST].link);
		push_expire(b->ends[BED_HOST].link, b->now_ns);
		bed_run(b);
		EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_ANSWER), 1);
		EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_ASKED_CFG), 2); /* with the hello */
		EXPECT_EQ(push_agreed(b->ends[BED_HOST].link)->mtu, 1400);
		bed_destroy(b);
	}
}

TEST(test_push_16h_silence_breaks_the_link)
{
	struct bed *b = send_mode();

	for (int i = 0; i < 10; i++) {
		b->now_ns = push_due(b->ends[BED_HOST].link);
		if (b->now_ns == UINT64_MAX)
			break;
		push_expire(b->ends[BED_HOST].link, b->now_ns);
		b->is_lossy = true;
		while (bed_act(b, BED_HOST))
			b->is_lossy = true;
	}
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_CFG_REQUEST], 1 + 6);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_BROKEN)->reason, WEFT_R_PUSH_SILENT);
	EXPECT_EQ(push_link_state(b->ends[BED_HOST].link), PUSH_ENDED);
	bed_destroy(b);
}

TEST(test_push_16h_a_host_that_does_not_greet_is_dropped)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	push_up(b->ends[BED_UNIT].link, b->now_ns);
	EXPECT_EQ(push_due(b->ends[BED_UNIT].link), b->now_ns + 3000 * BED_MS);
	b->now_ns += 3000 * BED_MS;
	push_expire(b->ends[BED_UNIT].link, b->now_ns);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_UNIT, PUSH_EVENT_BROKEN)->reason, WEFT_R_PUSH_SILENT);
	bed_destroy(b);
}

/*
 * ---- Configuration ----------------------------------------------------------------------------
 */

TEST(test_push_09_the_greeting_agrees_on_what_both_can)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	const struct push_agreed *a;

	b->ends[BED_HOST].config.hello.mtu = 9000;
	b->ends[BED_HOST].config.hello.queues = 4;
	b->ends[BED_HOST].config.hello.features = PUSH_FEATURE_NET_HEADER | PUSH_FEATURE_CSUM |
						  PUSH_FEATURE_HOST_TSO4;
	b->ends[BED_UNIT].config.hello.mtu = 4000;
	b->ends[BED_UNIT].config.hello.queues = 2;
	b->ends[BED_UNIT].config.hello.features = PUSH_FEATURE_NET_HEADER | PUSH_FEATURE_HOST_TSO4 |
						  PUSH_FEATURE_GUEST_TSO4;
	bed_make(b);
	bed_up(b);
	for (int i = 0; i < 2; i++) {
		a = push_agreed(b->ends[i].link);
		EXPECT_EQ(a->features, (int64_t)(PUSH_FEATURE_NET_HEADER | PUSH_FEATURE_HOST_TSO4));
		EXPECT(a->mtu == 4000 && a->queues == 2 && a->is_link_up);
		EXPECT_EQ(a->mac[5], 8); /* the unit's word */
	}
	/* Segments are large towards the LAN, and not from it. */
	EXPECT_EQ(push_packet_max(b->ends[BED_HOST].link, true), PUSH_PACKET_MAX);
	EXPECT_EQ(push_packet_max(b->ends[BED_UNIT].link, false), PUSH_PACKET_MAX);
	EXPECT_EQ(push_packet_max(b->ends[BED_UNIT].link, true), 4000 + 18 + 12);
	EXPECT_EQ(push_packet_max(b->ends[BED_HOST].link, false), 4000 + 18 + 12);
	bed_destroy(b);
}

TEST(test_push_09_the_host_sets_the_mac_address_of_the_card)
{
	struct bed *b = bed_both_pools();
	const struct push_cfg c = { .kind = PUSH_SET_MAC, .mac = { 2, 1, 1, 1, 1, 1 } };
	const struct push_event *e;

	MUST(push_ask(b->ends[BED_HOST].link, &c, b->now_ns));
	EXPECT_EQ(push_ask(b->ends[BED_HOST].link, &c, b->now_ns), WEFT_R_BUSY);
	bed_run(b);
	e = bed_last(b, BED_HOST, PUSH_EVENT_ANSWER);
	EXPECT(e && e->reason == WEFT_OK);
	EXPECT_MEM(push_agreed(b->ends[BED_HOST].link)->mac, c.mac, PUSH_MAC_BYTES);
	EXPECT_MEM(push_agreed(b->ends[BED_UNIT].link)->mac, c.mac, PUSH_MAC_BYTES);
	/* The unit may say no, and why. */
	b->answer = WEFT_R_PUSH_OFFER;
	MUST(push_ask(b->ends[BED_HOST].link,
		      &(struct push_cfg){ .kind = PUSH_SET_MAC, .mac = { 2, 2, 2, 2, 2, 2 } },
		      b->now_ns));
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_ANSWER)->reason, WEFT_R_PUSH_OFFER);
	EXPECT_MEM(push_agreed(b->ends[BED_UNIT].link)->mac, c.mac, PUSH_MAC_BYTES);
	bed_destroy(b);
}

TEST(test_push_09_each_role_asks_for_its_own)
{
	struct bed *b = bed_both_pools();
	struct push_link *host = b->ends[BED_HOST].link, *unit = b->ends[BED_UNIT].link;
	struct push_cfg c = { .kind = PUSH_LINK, .link = { false, 0 } };

	EXPECT_EQ(push_ask(host, &c, b->now_ns), WEFT_R_PUSH_UNEXPECTED);
	MUST(push_ask(unit, &c, b->now_ns));
	bed_run(b);
	EXPECT(!push_agreed(host)->is_link_up && !push_agreed(unit)->is_link_up);
	c = (struct push_cfg){ .kind = PUSH_SET_MTU, .mtu = 1000 };
	EXPECT_EQ(push_ask(unit, &c, b->now_ns), WEFT_R_PUSH_UNEXPECTED);
	c.kind = PUSH_PING;
	EXPECT_EQ(push_ask(unit, &c, b->now_ns), WEFT_R_PUSH_UNEXPECTED);
	/* A peer that asks all the same gets a reply with the reason. */
	c = (struct push_cfg){ .kind = PUSH_LINK };
	EXPECT_EQ(
		bed_say(b, BED_UNIT,
			&(struct push_msg){ .function = PUSH_CFG_REQUEST, .context = 9, .cfg = c }),
		WEFT_R_PUSH_UNEXPECTED);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_CFG_REPLY], 1);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_CFG_REPLY], 2);
	/* A second greeting is one too many. */
	c = (struct push_cfg){ .kind = PUSH_HELLO, .hello = b->ends[BED_HOST].config.hello };
	EXPECT_EQ(bed_say(b, BED_UNIT,
			  &(struct push_msg){
				  .function = PUSH_CFG_REQUEST, .context = 10, .cfg = c }),
		  WEFT_R_PUSH_UNEXPECTED);
	bed_destroy(b);
}

TEST(test_push_09_only_what_was_offered_can_be_turned_on)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct push_cfg c = { .kind = PUSH_SET_OFFERS };

	for (int i = 0; i < 2; i++)
		b->ends[i].config.hello.features = PUSH_FEATURE_NET_HEADER | PUSH_FEATURE_CSUM;
	bed_make(b);
	bed_up(b);
	c.offers = (struct push_offers){ PUSH_FEATURE_NET_HEADER | PUSH_FEATURE_HOST_TSO4, 1 };
	EXPECT_EQ(push_ask(b->ends[BED_HOST].link, &c, b->now_ns), WEFT_R_PUSH_OFFER);
	EXPECT_EQ(
		bed_say(b, BED_UNIT,
			&(struct push_msg){ .function = PUSH_CFG_REQUEST, .context = 9, .cfg = c }),
		WEFT_R_PUSH_OFFER);
	c.offers = (struct push_offers){ PUSH_FEATURE_NET_HEADER, 2 };
	EXPECT_EQ(push_ask(b->ends[BED_HOST].link, &c, b->now_ns), WEFT_R_PUSH_OFFER);
	c.offers = (struct push_offers){ 0, 1 };
	EXPECT_EQ(push_ask(b->ends[BED_HOST].link, &c, b->now_ns), WEFT_R_PUSH_OFFER);
	c.offers = (struct push_offers){ PUSH_FEATURE_NET_HEADER, 1 };
	MUST(push_ask(b->ends[BED_HOST].link, &c, b->now_ns));
	bed_run(b);
	EXPECT_EQ(push_agreed(b->ends[BED_UNIT].link)->features, (int64_t)PUSH_FEATURE_NET_HEADER);
	bed_destroy(b);
}

TEST(test_push_16h_statistics_are_told)
{
	struct bed *b = bed_both_pools();
	const struct push_cfg c = { .kind = PUSH_STATISTICS };
	const struct push_event *e;

	for (uint64_t i = 0; i < 3; i++)
		MUST(bed_packet(b, BED_HOST, 100, i));
	bed_run(b);
	MUST(push_ask(b->ends[BED_HOST].link, &c, b->now_ns));
	bed_run(b);
	e = bed_last(b, BED_HOST, PUSH_EVENT_ANSWER);
	EXPECT(e && e->cfg->kind == PUSH_STATISTICS);
	EXPECT_EQ(e->cfg->statistics.packets_in, 3);
	EXPECT_EQ(e->cfg->statistics.bytes_in, 300);
	EXPECT_EQ(e->cfg->statistics.packets_out, 0);
	bed_destroy(b);
}

TEST(test_push_16h_a_reply_to_no_request_is_refused)
{
	struct bed *b = bed_both_pools();
	struct push_msg m = { .function = PUSH_CFG_REPLY,
			      .context = 1234,
			      .cfg = { .kind = PUSH_SET_MTU, .mtu = 1500 } };

	EXPECT_EQ(bed_say(b, BED_HOST, &m), WEFT_R_PUSH_REPLY);
	EXPECT_EQ(bed_say(b, BED_HOST,
			  &(struct push_msg){ .function = PUSH_FLUSH_REPLY, .context = 5 }),
		  WEFT_R_PUSH_REPLY);
	/* Of another kind than the request. */
	b->is_silent = true;
	MUST(push_ask(b->ends[BED_HOST].link,
		      &(struct push_cfg){ .kind = PUSH_SET_MAC, .mac = { 2 } }, b->now_ns));
	bed_run(b);
	for (m.context = 1; m.context < 20; m.context++)
		EXPECT_EQ(bed_say(b, BED_HOST, &m), WEFT_R_PUSH_REPLY);
	bed_destroy(b);
}

/* One request at a time is owed an answer. */
TEST(test_push_16h_a_second_request_before_the_answer_is_refused)
{
	struct bed *b = bed_both_pools();
	struct push_msg m = { .function = PUSH_CFG_REQUEST,
			      .context = 50,
			      .cfg = { .kind = PUSH_SET_MTU, .mtu = 1500 } };

	b->is_silent = true;
	EXPECT_EQ(bed_say(b, BED_UNIT, &m), WEFT_OK);
	m.context++;
	EXPECT_EQ(bed_say(b, BED_UNIT, &m), WEFT_R_PUSH_UNEXPECTED);
	bed_destroy(b);
}

/*
 * ---- Refusals ---------------------------------------------------------------------------------
 */

TEST(test_push_18_refusals_change_nothing_until_they_are_too_many)
{
	static const uint8_t strange[12] = { 0, 99, 0, 1 }, later[12] = { 0, 1, 0, 2 };
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct push_statistics s;

	b->ends[BED_HOST].config.refusals_max = 5;
	bed_make(b);
	bed_up(b);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(push_take(b->ends[BED_HOST].link, strange, 12, b->now_ns),
			  WEFT_R_PUSH_FUNCTION);
		EXPECT_EQ(push_take(b->ends[BED_HOST].link, later, 12, b->now_ns),
			  WEFT_R_PUSH_VERSION);
	}
	EXPECT_EQ(push_link_state(b->ends[BED_HOST].link), PUSH_OPEN);
	push_statistics(b->ends[BED_HOST].link, &s);
	EXPECT_EQ(s.refused, 4);
	EXPECT_EQ(push_take(b->ends[BED_HOST].link, strange, 12, b->now_ns), WEFT_R_PUSH_FUNCTION);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_BROKEN)->reason, WEFT_R_PUSH_REFUSALS);
	EXPECT_EQ(push_take(b->ends[BED_HOST].link, strange, 12, b->now_ns), WEFT_R_PUSH_STATE);
	bed_destroy(b);
}

/* A request that cannot be read gets its reply. */
TEST(test_push_16h_a_request_of_unknown_kind_is_answered_with_the_reason)
{
	static const uint8_t request[20] = { 0, PUSH_CFG_REQUEST, 0, 1, [11] = 9, [13] = 99 };
	struct bed *b = bed_both_pools();
	struct push_msg m;

	EXPECT_EQ(push_take(b->ends[BED_UNIT].link, request, sizeof(request), b->now_ns),
		  WEFT_R_PUSH_FORM);
	EXPECT(bed_act(b, BED_UNIT));
	MUST(push_msg_decode(&m, b->ends[BED_HOST].items[b->ends[BED_HOST].item_first].bytes, 24));
	EXPECT(m.function == PUSH_CFG_REPLY && m.context == 9);
	EXPECT_EQ(m.cfg.reason, WEFT_R_PUSH_FORM);
	bed_destroy(b);
}

TEST(test_push_03_nothing_goes_before_the_greeting)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	bed_make(b);
	EXPECT_EQ(bed_packet(b, BED_HOST, 64, 1), WEFT_R_PUSH_STATE);
	EXPECT_EQ(push_ask(b->ends[BED_HOST].link, &(struct push_cfg){ .kind = PUSH_STATISTICS },
			   b->now_ns),
		  WEFT_R_PUSH_STATE);
	EXPECT_EQ(bed_say(b, BED_UNIT, &(struct push_msg){ .function = PUSH_FLUSH_REPLY }),
		  WEFT_R_PUSH_STATE);
	push_up(b->ends[BED_UNIT].link, b->now_ns);
	EXPECT_EQ(bed_say(b, BED_UNIT, &(struct push_msg){ .function = PUSH_FLUSH_REPLY }),
		  WEFT_R_PUSH_UNEXPECTED);
	EXPECT_EQ(bed_say(b, BED_UNIT,
			  &(struct push_msg){ .function = PUSH_CFG_REQUEST,
					      .cfg = { .kind = PUSH_STATISTICS } }),
		  WEFT_R_PUSH_UNEXPECTED);
	EXPECT_EQ(push_written(b->ends[BED_UNIT].link, 0, 64, b->now_ns), WEFT_R_PUSH_STATE);
	EXPECT_EQ(push_take_packet(b->ends[BED_UNIT].link, b->ends[0].memory, 64, b->now_ns),
		  WEFT_R_PUSH_STATE);
	bed_destroy(b);
}

/* A flood: packets beyond the limit are dropped and counted; control still answers. */
TEST(test_push_24_a_flood_is_dropped_and_control_answers)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct push_statistics s;

	b->ends[BED_UNIT].config.packets_max = 16;
	bed_make(b);
	bed_pool(b, BED_HOST, 8, 2048);
	bed_up(b);
	b->is_eager = false;
	for (uint64_t i = 0; i < 24; i++)
		EXPECT_EQ(bed_packet(b, BED_UNIT, 100, i), i < 16 ? WEFT_OK : WEFT_R_PUSH_CROWDED);
	bed_run(b);
	push_statistics(b->ends[BED_UNIT].link, &s);
	EXPECT_EQ(s.dropped, 8);
	EXPECT_EQ(s.waits, 1);
	MUST(push_ask(b->ends[BED_HOST].link, &(struct push_cfg){ .kind = PUSH_STATISTICS },
		      b->now_ns));
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_ANSWER)->cfg->statistics.dropped, 8);
	bed_destroy(b);
}

/*
 * ---- SendData, and other models ---------------------------------------------------------------
 */

TEST(test_push_10_small_packets_go_in_messages)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	b->ends[BED_HOST].config.inline_bytes = 128;
	bed_make(b);
	bed_pool(b, BED_UNIT, 8, 2048);
	bed_up(b);
	MUST(bed_packet(b, BED_HOST, 129, 1));
	MUST(bed_packet(b, BED_HOST, 128, 2));
	MUST(bed_packet(b, BED_HOST, 129, 3));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_SEND_DATA], 1);
	EXPECT_EQ(b->ends[BED_HOST].writes, 2);
	EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_PACKET), 3);
	EXPECT_EQ(bed_last(b, BED_UNIT, PUSH_EVENT_PACKET)->bytes[0], 3); /* in order */
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_SENT), 3);
	EXPECT_EQ(bed_say(b, BED_UNIT,
			  &(struct push_msg){ .function = PUSH_SEND_DATA,
					      .data = { b->ends[0].memory, 13 } }),
		  WEFT_R_PUSH_FRAME);
	bed_destroy(b);
}

/* Indications that gather are not overtaken, by a message or by immediate data. */
TEST(test_push_19_packets_are_told_in_the_order_in_which_they_were_sent)
{
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		struct bed *b = bed_create(PUSH_MODE_RDMA);

		b->ends[BED_HOST].config.inline_bytes = is_inline ? 64 : 0;
		bed_make(b);
		bed_pool(b, BED_UNIT, 8, 64);
		bed_pool(b, BED_UNIT, 300, 256);
		bed_up(b);
		b->is_held = true;
		MUST(bed_packet(b, BED_HOST, 200, 1));
		MUST(bed_packet(b, BED_HOST, 200, 2));
		MUST(bed_packet(b, BED_HOST, 60, 3));
		bed_run(b);
		EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_PACKET), 1);
		for (int i = 0; i < 3; i++) {
			bed_done(b, BED_HOST);
			bed_run(b);
		}
		EXPECT_EQ(bed_count(b, BED_UNIT, PUSH_EVENT_PACKET), 3);
		EXPECT_EQ(bed_last(b, BED_UNIT, PUSH_EVENT_PACKET)->bytes[0], 3);
		bed_done(b, BED_HOST);
		bed_done(b, BED_UNIT);
		bed_destroy(b);
	}
}

/* Messages of both ends until the host has had so many packets; turns as a measure of latency. */
static uint32_t model(bool is_pull, uint32_t *turns)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	uint32_t count = 0;

	b->ends[BED_UNIT].config.hello.is_pull = is_pull;
	bed_make(b);
	bed_pool(b, BED_HOST, 64, 2048);
	bed_up(b);
	for (int f = 0; f < PUSH_FUNCTION_COUNT; f++)
		b->ends[BED_HOST].sent[f] = b->ends[BED_UNIT].sent[f] = 0;
	b->ends[BED_HOST].sent[PUSH_PULL] = is_pull; /* the first was sent at the beginning */
	for (uint64_t i = 0; i < 32; i++)
		MUST(bed_packet(b, BED_UNIT, 1000, i));
	/* In a turn what is on its way arrives, and what can be sent then is. */
	for (*turns = 0; bed_count(b, BED_HOST, PUSH_EVENT_PACKET) < 32; ++*turns) {
		while (bed_act(b, BED_UNIT) || bed_act(b, BED_HOST))
			continue;
		for (int end = 0; end < 2; end++) {
			for (uint32_t n = b->ends[end].item_count; n > 0; n--)
				bed_deliver(b, end);
		}
		MUST_EQ(*turns < 1000, true);
	}
	bed_run(b);
	for (int f = 0; f < PUSH_FUNCTION_COUNT; f++)
		count += b->ends[BED_HOST].sent[f] + b->ends[BED_UNIT].sent[f];
	MUST_EQ(b->ends[BED_UNIT].sent[PUSH_RECV_POOL_GET], 0);
	count += b->ends[BED_UNIT].writes;
	bed_destroy(b);
	return count;
}

/* PUSH-S5: 32 packets by push-push and by push-pull. */
TEST(test_push_s5_push_push_has_fewer_messages_and_less_latency)
{
	uint32_t push_turns, pull_turns;
	uint32_t push = model(false, &push_turns), pull = model(true, &pull_turns);

	EXPECT_EQ(push_turns, 1);
	EXPECT_EQ(pull_turns, 63);
	EXPECT_EQ(push, 32 + 1);  /* Writes, and elements returned in one message */
	EXPECT_EQ(pull, 32 + 33); /* a request for each, and one that waits */
}

TEST(test_push_04_an_end_that_is_pulled_sends_only_what_is_asked_for)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	for (int i = 0; i < 2; i++) /* pull-pull */
		b->ends[i].config.hello.is_pull = true;
	bed_make(b);
	bed_pool(b, BED_HOST, 8, 2048);
	bed_pool(b, BED_UNIT, 8, 2048);
	bed_up(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 1);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_PULL], 1);
	MUST(bed_packet(b, BED_UNIT, 100, 1));
	MUST(bed_packet(b, BED_UNIT, 100, 2));
	EXPECT(bed_act(b, BED_UNIT));
	EXPECT(!bed_act(b, BED_UNIT));
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 2);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_RECV_POOL_UPDATE], 0);
	/* Elements are granted one way, or the other. */
	EXPECT_EQ(bed_say(b, BED_UNIT,
			  &(struct push_msg){ .function = PUSH_RECV_POOL_UPDATE,
					      .runs = { 1, (const uint8_t[12]){ [11] = 1 } } }),
		  WEFT_R_PUSH_UNEXPECTED);
	EXPECT_EQ(bed_say(b, BED_UNIT,
			  &(struct push_msg){ .function = PUSH_PULL, .pull = { 0, 0, 9 } }),
		  WEFT_R_PUSH_ELEMENT);
	bed_destroy(b);
	b = bed_both_pools();
	EXPECT_EQ(bed_say(b, BED_UNIT,
			  &(struct push_msg){ .function = PUSH_PULL, .pull = { 0, 0, 1 } }),
		  WEFT_R_PUSH_UNEXPECTED);
	bed_destroy(b);
}

/* ---- Greetings and counts, from the other side ----------------------------------------------- */

TEST(test_push_09_the_lower_mtu_and_number_of_queues_may_be_the_hosts)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);

	b->ends[BED_HOST].config.hello.mtu = 1300;
	b->ends[BED_HOST].config.hello.queues = 2;
	b->ends[BED_UNIT].config.hello.mtu = 9000;
	b->ends[BED_UNIT].config.hello.queues = 4;
	bed_make(b);
	bed_up(b);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(push_agreed(b->ends[i].link)->mtu, 1300);
		EXPECT_EQ(push_agreed(b->ends[i].link)->queues, 2);
	}
	bed_destroy(b);
}

/* Each end counts what it does itself; a packet in a message counts as one. */
TEST(test_push_16h_each_end_counts_packets_bytes_messages_and_writes)
{
	struct bed *b = bed_both_pools();
	const struct push_msg data = { .function = PUSH_SEND_DATA,
				       .data = { (const uint8_t[64]){ 0 }, 64 } };
	struct push_statistics before, host, unit;
	uint64_t messages = 0;

	push_statistics(b->ends[BED_UNIT].link, &before);
	for (int i = 0; i < PUSH_FUNCTION_COUNT; i++)
		messages += b->ends[BED_HOST].sent[i];
	EXPECT_EQ(before.messages_in, messages);
	for (uint64_t i = 0; i < 3; i++)
		MUST(bed_packet(b, BED_HOST, 100, i));
	bed_run(b);
	MUST(bed_say(b, BED_UNIT, &data));
	push_statistics(b->ends[BED_HOST].link, &host);
	push_statistics(b->ends[BED_UNIT].link, &unit);
	EXPECT(host.packets_out == 3 && host.bytes_out == 300 && host.writes == 3);
	EXPECT(unit.packets_in == 4 && unit.bytes_in == 364 && unit.writes == 0);
	messages = 0;
	for (int i = 0; i < PUSH_FUNCTION_COUNT; i++)
		messages += b->ends[BED_HOST].sent[i];
	EXPECT_EQ(unit.messages_in, messages + 1);
	EXPECT_EQ(host.messages_out, messages);
	bed_destroy(b);
}

/* A peer of another version would not understand the answer either. */
TEST(test_push_18_a_request_of_another_version_is_not_answered)
{
	static const uint8_t request[20] = { 0, PUSH_CFG_REQUEST, 0, 2, [11] = 9, [13] = 1 };
	struct bed *b = bed_both_pools();

	EXPECT_EQ(push_take(b->ends[BED_UNIT].link, request, sizeof(request), b->now_ns),
		  WEFT_R_PUSH_VERSION);
	EXPECT(!bed_act(b, BED_UNIT));
	bed_destroy(b);
}
