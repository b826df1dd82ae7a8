/* SPDX-License-Identifier: BSD-2-Clause */
/* How pools are flushed by either end, and how a link ends. */
#include "test.h"

#include "unit/push/push_bed.h"

static void flush_to(struct bed *b, int end, enum push_function function, uint32_t pool,
		     enum weft_reason wanted)
{
	uint8_t reference[PUSH_REFERENCE_BYTES];
	struct wr w = wr_of(reference, sizeof(reference));

	push_reference_put(pool, &w);
	MUST_EQ(bed_say(b, end,
			&(struct push_msg){ .function = function,
					    .context = 77,
					    .references = { 1, reference } }),
		wanted);
}

/*
 * ---- Flushes ----------------------------------------------------------------------------------
 */

TEST(test_push_17_a_target_flushes)
{
	struct bed *b = bed_both_pools();

	b->is_eager = false;
	MUST(bed_packet(b, BED_UNIT, 100, 1));
	bed_run(b);
	MUST(push_pool_close(b->ends[BED_HOST].link, 0));
	EXPECT_EQ(push_pool_close(b->ends[BED_HOST].link, 1), WEFT_R_PUSH_POOL);
	EXPECT(b->ends[BED_HOST].is_registered[0]);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_FLUSH_REQUEST], 1);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_FLUSH_REPLY], 1);
	EXPECT(!b->ends[BED_HOST].is_registered[0]);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_POOL_CLOSED)->pool, 0);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 0);
	/* Nothing is written any more. */
	MUST(bed_packet(b, BED_UNIT, 100, 2));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].writes, 1);
	EXPECT_EQ(push_written(b->ends[BED_HOST].link, 0x00010800, 100, b->now_ns),
		  WEFT_R_PUSH_POOL);
	bed_destroy(b);
}

/* The reply comes when no Write is under way, and what was written is told. */
TEST(test_push_17_the_reply_waits_for_writes_under_way)
{
	struct bed *b = bed_both_pools();

	b->is_held = true;
	MUST(bed_packet(b, BED_UNIT, 100, 1));
	EXPECT(bed_act(b, BED_UNIT));
	MUST(push_pool_close(b->ends[BED_HOST].link, 0));
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_FLUSH_REPLY], 0);
	EXPECT(b->ends[BED_HOST].is_registered[0]);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_PACKET), 1);
	bed_done(b, BED_UNIT);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_FLUSH_REPLY], 1);
	EXPECT(!b->ends[BED_HOST].is_registered[0]);
	bed_done(b, BED_UNIT);
	bed_done(b, BED_HOST);
	bed_destroy(b);
}

TEST(test_push_17_an_initiator_flushes)
{
	struct bed *b = bed_both_pools();

	b->is_held = true;
	MUST(bed_packet(b, BED_UNIT, 100, 1));
	EXPECT(bed_act(b, BED_UNIT));
	MUST(push_pool_release(b->ends[BED_UNIT].link, 0));
	EXPECT_EQ(push_pool_release(b->ends[BED_UNIT].link, 0), WEFT_R_PUSH_POOL);
	EXPECT_EQ(push_pool_release(b->ends[BED_UNIT].link, 99), WEFT_R_PUSH_POOL);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RELEASE_REQUEST], 0); /* not before that is done */
	bed_done(b, BED_UNIT);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RELEASE_REQUEST], 1);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_FLUSH_REPLY], 1);
	EXPECT(!b->ends[BED_HOST].is_registered[0]);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_POOL_CLOSED), 1);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 0);
	bed_done(b, BED_UNIT);
	bed_done(b, BED_HOST);
	bed_destroy(b);
}

/* Requests of both ends for one pool cross: each gets its reply, and the pool goes once. */
TEST(test_push_17_flushes_of_both_ends_cross)
{
	struct bed *b = bed_both_pools();

	MUST(push_pool_close(b->ends[BED_HOST].link, 0));
	MUST(push_pool_release(b->ends[BED_UNIT].link, 0));
	EXPECT(bed_act(b, BED_HOST) && bed_act(b, BED_UNIT));
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_FLUSH_REQUEST], 1);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_RELEASE_REQUEST], 1);
	bed_run(b);
	EXPECT_EQ(b->ends[BED_HOST].sent[PUSH_FLUSH_REPLY], 1);
	EXPECT_EQ(b->ends[BED_UNIT].sent[PUSH_FLUSH_REPLY], 1);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_POOL_CLOSED), 1);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 0);
	EXPECT_EQ(b->ends[BED_HOST].refused + b->ends[BED_UNIT].refused, WEFT_OK);
	/* The index serves again. */
	EXPECT_EQ(bed_pool(b, BED_HOST, 4, 256), 0);
	bed_run(b);
	EXPECT_EQ(bed_view(b, BED_UNIT).free, 4);
	bed_destroy(b);
}

TEST(test_push_17_a_flush_of_no_pool_is_refused)
{
	struct bed *b = bed_both_pools();

	flush_to(b, BED_HOST, PUSH_FLUSH_REQUEST, 1, WEFT_R_PUSH_POOL);
	flush_to(b, BED_HOST, PUSH_FLUSH_REQUEST, 16, WEFT_R_PUSH_POOL);
	flush_to(b, BED_HOST, PUSH_RELEASE_REQUEST, 1, WEFT_R_PUSH_POOL);
	flush_to(b, BED_HOST, PUSH_RELEASE_REQUEST, 99, WEFT_R_PUSH_POOL);
	EXPECT_EQ(bed_view(b, BED_HOST).peer_pools, 1);
	flush_to(b, BED_HOST, PUSH_FLUSH_REQUEST, 0, WEFT_OK);
	flush_to(b, BED_HOST, PUSH_FLUSH_REQUEST, 0, WEFT_R_PUSH_POOL);
	bed_destroy(b);
}

/* A pool that is named twice changes nothing; the initiator's order is the same. */
TEST(test_push_17_a_flush_is_all_good_or_changes_nothing)
{
	static const uint8_t twice[8] = { 0 };
	struct bed *b = bed_both_pools();
	struct push_msg m = { .function = PUSH_FLUSH_REQUEST,
			      .context = 7,
			      .references = { 2, twice } };

	EXPECT_EQ(bed_say(b, BED_HOST, &m), WEFT_R_PUSH_POOL);
	m.function = PUSH_RELEASE_REQUEST;
	EXPECT_EQ(bed_say(b, BED_HOST, &m), WEFT_R_PUSH_POOL);
	flush_to(b, BED_HOST, PUSH_RELEASE_REQUEST, 0, WEFT_OK);
	flush_to(b, BED_HOST, PUSH_FLUSH_REQUEST, 0, WEFT_OK);
	bed_destroy(b);
}

/* Another end that advertises and flushes without taking a reply meets a bound. */
TEST(test_push_17_replies_owed_are_bounded)
{
	struct bed *b = bed_both_pools();
	uint8_t pool[PUSH_POOL_BYTES], reference[] = { 0, 0, 0, 5 };
	const struct push_pool is = { 5, 1, 4, 64, 0, 0 };
	struct wr w = wr_of(pool, sizeof(pool));
	struct push_msg m = { .function = PUSH_RECV_POOL, .pools = { 1, pool } };
	enum weft_reason reason = WEFT_OK;
	int flushes = 0;

	push_pool_put(&is, &w);
	for (; reason == WEFT_OK && flushes < 100; flushes++) {
		m = (struct push_msg){ .function = PUSH_RECV_POOL, .pools = { 1, pool } };
		MUST(bed_say(b, BED_HOST, &m));
		m = (struct push_msg){ .function = PUSH_FLUSH_REQUEST,
				       .references = { 1, reference } };
		reason = bed_say(b, BED_HOST, &m);
	}
	EXPECT_EQ(reason, WEFT_R_PUSH_UNEXPECTED);
	EXPECT_EQ(flushes, 16 + 16 + 1 + 1);
	m.function = PUSH_RELEASE_REQUEST;
	EXPECT_EQ(bed_say(b, BED_HOST, &m), WEFT_R_PUSH_UNEXPECTED);
	bed_destroy(b);
}

/* PUSH-S3: advertise, exhaust, get, update, flush by each side; no Write after a flush reply. */
TEST(test_push_s3_a_pool_from_its_advertisement_to_its_flush)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct bed_end *host = &b->ends[BED_HOST], *unit = &b->ends[BED_UNIT];

	bed_make(b);
	bed_pool(b, BED_HOST, 4, 2048);
	bed_up(b);
	b->is_eager = false;
	for (uint64_t i = 0; i < 6; i++)
		MUST(bed_packet(b, BED_UNIT, 100, i));
	bed_run(b);
	EXPECT_EQ(unit->writes, 4);
	b->now_ns = push_due(unit->link);
	push_expire(unit->link, b->now_ns);
	bed_run(b);
	EXPECT_EQ(unit->sent[PUSH_RECV_POOL_GET], 1);
	for (uint32_t i = 0; i < 4; i++)
		bed_return(b, BED_HOST, 0, i);
	bed_run(b);
	EXPECT_EQ(host->sent[PUSH_RECV_POOL_UPDATE], 1);
	EXPECT_EQ(unit->writes, 6);
	MUST(push_pool_close(host->link, 0));
	bed_run(b);
	EXPECT_EQ(bed_pool(b, BED_HOST, 4, 2048), 0);
	bed_run(b);
	MUST(push_pool_release(unit->link, 0));
	bed_run(b);
	EXPECT_EQ(unit->sent[PUSH_FLUSH_REPLY] + host->sent[PUSH_FLUSH_REPLY], 2);
	MUST(bed_packet(b, BED_UNIT, 100, 7));
	bed_run(b);
	EXPECT_EQ(unit->writes, 6);
	EXPECT_EQ(host->refused + unit->refused, WEFT_OK);
	bed_destroy(b);
}

/*
 * ---- Ends -------------------------------------------------------------------------------------
 */

TEST(test_push_17_an_orderly_end_flushes_all_pools)
{
	struct bed *b = bed_both_pools();
	uint32_t index;

	b->is_eager = false;
	for (uint64_t i = 0; i < 10; i++)
		MUST(bed_packet(b, BED_HOST, 100, i));
	bed_run(b);
	push_end(b->ends[BED_HOST].link, b->now_ns);
	EXPECT_EQ(bed_packet(b, BED_HOST, 100, 10), WEFT_R_PUSH_STATE);
	EXPECT_EQ(push_pool_open(b->ends[BED_HOST].link,
				 &(struct push_pool_config){ b->ends[0].memory, 1, 64, 0 }, &index),
		  WEFT_R_PUSH_STATE);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_ENDED)->reason, WEFT_OK);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_SENT)->reason, WEFT_R_PUSH_FLUSHED);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_SENT), 10);
	EXPECT(!b->ends[BED_HOST].is_registered[0] && !b->ends[BED_UNIT].is_registered[0]);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools + bed_view(b, BED_UNIT).own_pools, 0);
	bed_destroy(b);
}

/* A request that was under way is not waited for any more. */
/* A peer that died after it had acknowledged the request is missed. */
TEST(test_push_17_an_orderly_end_does_not_wait_for_a_silent_peer)
{
	struct bed *b = bed_both_pools();
	struct push_link *host = b->ends[BED_HOST].link;

	push_end(host, b->now_ns);
	while (bed_act(b, BED_HOST))
		continue;
	EXPECT_EQ(push_link_state(host), PUSH_ENDING);
	for (int i = 0; i < 10 && push_due(host) != UINT64_MAX; i++) {
		b->now_ns = push_due(host);
		push_expire(host, b->now_ns);
		while (bed_act(b, BED_HOST))
			continue;
	}
	b->ends[BED_UNIT].item_count = 0; /* it takes nothing of this */
	bed_run(b);
	EXPECT_EQ(push_link_state(host), PUSH_ENDED);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_BROKEN)->reason, WEFT_R_PUSH_SILENT);
	bed_destroy(b);
}

TEST(test_push_17_nothing_is_due_after_the_end)
{
	struct bed *b = bed_both_pools();
	struct push_link *host = b->ends[BED_HOST].link;

	b->is_silent = true;
	MUST(push_ask(host, &(struct push_cfg){ .kind = PUSH_SET_MTU, .mtu = 1400 }, b->now_ns));
	bed_run(b);
	push_end(host, b->now_ns);
	bed_run(b);
	EXPECT_EQ(push_link_state(host), PUSH_ENDED);
	EXPECT_EQ(push_due(host), UINT64_MAX);
	push_expire(host, UINT64_MAX);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_BROKEN), 0);
	bed_destroy(b);
}

/* Every act is done once, every packet over once, every pool deregistered. */
TEST(test_push_03_a_lost_connection_ends_everything_once)
{
	struct bed *b = bed_both_pools();

	b->is_held = true;
	for (uint64_t i = 0; i < 10; i++)
		MUST(bed_packet(b, BED_HOST, 100, i));
	while (bed_act(b, BED_HOST))
		continue;
	push_lost(b->ends[BED_HOST].link, WEFT_R_PEER_GONE);
	push_lost(b->ends[BED_HOST].link, WEFT_R_TAG_PD);
	bed_run(b);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_ENDED), 0);
	EXPECT(!b->ends[BED_HOST].is_registered[0]);
	bed_done(b, BED_HOST);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_ENDED)->reason, WEFT_R_PEER_GONE);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_ENDED), 1);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_BROKEN), 0);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_SENT), 10);
	EXPECT_EQ(bed_count(b, BED_HOST, PUSH_EVENT_POOL_CLOSED), 1);
	EXPECT_EQ(push_due(b->ends[BED_HOST].link), UINT64_MAX);
	bed_done(b, BED_UNIT);
	bed_destroy(b);
}

TEST(test_push_08_an_act_that_fails_breaks_the_link)
{
	struct bed *b = bed_both_pools();
	struct push_act act;

	MUST(bed_packet(b, BED_HOST, 100, 1));
	EXPECT(push_act(b->ends[BED_HOST].link, b->now_ns, &act));
	EXPECT_EQ(act.kind, PUSH_ACT_WRITE);
	push_done(b->ends[BED_HOST].link, act.id, WEFT_R_PEER_RIGHTS, b->now_ns);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_BROKEN)->reason, WEFT_R_PEER_RIGHTS);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_SENT)->reason, WEFT_R_PEER_RIGHTS);
	bed_destroy(b);
}

TEST(test_push_16a_a_pool_that_cannot_be_registered_is_closed)
{
	struct bed *b = bed_both_pools();
	struct push_act act;

	bed_pool(b, BED_HOST, 4, 256);
	EXPECT(push_act(b->ends[BED_HOST].link, b->now_ns, &act));
	EXPECT_EQ(act.kind, PUSH_ACT_REGISTER);
	EXPECT_EQ(act.length, 1024);
	push_registered(b->ends[BED_HOST].link, act.id, WEFT_R_TABLE_FULL, 0);
	bed_run(b);
	EXPECT_EQ(bed_last(b, BED_HOST, PUSH_EVENT_POOL_CLOSED)->reason, WEFT_R_TABLE_FULL);
	EXPECT_EQ(bed_view(b, BED_UNIT).peer_pools, 1);
	bed_destroy(b);
}

/* A pool of the host, whose advertisement meets a unit that has just begun to end. */
TEST(test_push_17_a_pool_that_comes_during_the_end_is_flushed_too)
{
	struct bed *b = bed_both_pools();
	struct bed_end *host = &b->ends[BED_HOST];

	bed_pool(b, BED_HOST, 4, 256);
	while (bed_act(b, BED_HOST))
		continue;
	push_end(b->ends[BED_UNIT].link, b->now_ns);
	bed_run(b);
	EXPECT_EQ(push_link_state(b->ends[BED_UNIT].link), PUSH_ENDED);
	EXPECT(!host->is_registered[0] && !host->is_registered[1]);
	bed_destroy(b);
}

/* An end that has no pools of its own waits until those of the other one are flushed. */
TEST(test_push_17_an_end_is_over_when_the_pools_of_its_peer_are)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct bed_end *host = &b->ends[BED_HOST], *unit = &b->ends[BED_UNIT];
	struct push_event e;

	bed_make(b);
	bed_pool(b, BED_HOST, 8, 256);
	bed_up(b);
	push_end(unit->link, b->now_ns);
	EXPECT(!push_event(unit->link, &e));
	bed_run(b);
	EXPECT_EQ(unit->sent[PUSH_RELEASE_REQUEST], 1);
	EXPECT_EQ(push_link_state(unit->link), PUSH_ENDED);
	EXPECT(!host->is_registered[0]);
	bed_destroy(b);
}

/* The host flushes its pool while the unit begins to end: the reply that is owed still goes. */
TEST(test_push_17_an_end_is_over_when_its_reply_is_sent)
{
	struct bed *b = bed_create(PUSH_MODE_RDMA);
	struct bed_end *host = &b->ends[BED_HOST], *unit = &b->ends[BED_UNIT];
	struct push_event e;

	bed_make(b);
	bed_pool(b, BED_HOST, 8, 256);
	bed_up(b);
	MUST(push_pool_close(host->link, 0));
	EXPECT(bed_act(b, BED_HOST));
	push_end(unit->link, b->now_ns);
	EXPECT(bed_deliver(b, BED_UNIT));
	EXPECT(!push_event(unit->link, &e));
	bed_run(b);
	EXPECT_EQ(unit->sent[PUSH_FLUSH_REPLY], 1);
	EXPECT_EQ(push_link_state(unit->link), PUSH_ENDED);
	EXPECT(!host->is_registered[0]);
	bed_destroy(b);
}
