/* SPDX-License-Identifier: BSD-2-Clause */
/* Two endnodes and the link between them. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "unit/fabric/fabric_bed.h"

enum { LID_A = 1, LID_B = 2, LARGE = 4096, SMALL = 8 };

struct pair {
	struct fabric_net *net;
	uint32_t a, b, cable;
	struct fabric_link *at_a, *at_b;
};

static struct pair pair_open(void)
{
	struct pair p = { .net = bed_open() };

	p.a = bed_end(p.net);
	p.b = bed_end(p.net);
	for (uint8_t level = 0; level < BED_LANES; level++)
		p.net->nodes[p.a].end.lane_of[level] = level;
	p.cable = bed_join(p.net, p.a, 1, p.b, 1);
	p.at_a = fabric_net_link(p.net, (struct fabric_net_port){ p.a, 1 });
	p.at_b = fabric_net_link(p.net, (struct fabric_net_port){ p.b, 1 });
	bed_rest(p.net);
	memset(&p.at_a->counts, 0, sizeof(p.at_a->counts));
	memset(&p.at_b->counts, 0, sizeof(p.at_b->counts));
	return p;
}

/* Posts up to `count` frames; returns how many there was room for. */
static uint32_t post(const struct pair *p, uint8_t level, uint32_t bytes, uint32_t count)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t posted = 0;

	while (posted < count &&
	       fabric_net_post(p->net, p->a, frame, bed_frame(frame, LID_A, LID_B, level, bytes)))
		posted++;
	return posted;
}

static uint32_t take_all(const struct pair *p)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t taken = 0;

	while (fabric_net_take(p->net, p->b, frame) > 0)
		taken++;
	return taken;
}

/* Posts and takes until `count` frames have passed. */
static void pass(const struct pair *p, uint32_t bytes, uint32_t count)
{
	uint32_t posted = 0, taken = 0, rounds = 0;

	while (taken < count) {
		posted += post(p, 0, bytes, count - posted);
		bed_run(p->net, 10000);
		taken += take_all(p);
		REQUIRE(++rounds < 100000);
	}
	bed_rest(p->net);
	REQUIRE(take_all(p) == 0);
}

TEST(test_fab_05_one_acknowledgement_covers_eight_flits)
{
	struct pair p = pair_open();

	EXPECT_EQ(post(&p, 0, SMALL, 16), 16);
	bed_rest(p.net);
	EXPECT(p.at_a->counts.flits_sent == 16 && p.at_b->counts.flits_taken == 16);
	EXPECT(p.at_b->counts.acks_sent == 2 && p.at_a->counts.acks_taken == 2);
	EXPECT_EQ(post(&p, 0, SMALL, 3), 3);
	bed_rest(p.net);
	EXPECT_EQ(p.at_b->counts.acks_sent, 3); /* after a while, fewer */
	EXPECT_EQ(p.at_a->acked, p.at_a->end);
	bed_close(p.net);
}

TEST(test_fab_07_damaged_and_lost_flits_are_sent_again_unseen_by_the_ends)
{
	for (int kind = 0; kind < 4; kind++) {
		struct pair p = pair_open();
		struct sim_faults *f = &p.net->ways[2 * p.cable + kind % 2].pipe.line.faults;

		harness_note("%s, of %s", kind < 2 ? "damage" : "loss", kind % 2 ? "ack" : "flit");
		f->corrupt_ppm = kind < 2 ? 100000 : 0;
		f->loss_ppm = kind < 2 ? 0 : 100000;
		pass(&p, LARGE, 40);
		EXPECT_EQ(p.at_b->counts.frames_taken, 40);
		EXPECT(p.at_a->counts.flits_resent > 0);
		EXPECT(kind != 0 || p.at_b->counts.damaged > 0);
		EXPECT(kind != 1 || p.at_a->counts.damaged > 0);
		EXPECT_EQ(p.net->nodes[p.b].end.refused, 0);
		bed_close(p.net);
	}
}

/* A flit that was damaged is asked for at once: no timer has to run out. */
TEST(test_fab_05_a_damaged_flit_is_asked_for)
{
	struct pair p = pair_open();
	uint64_t begin_ns = p.net->world.now_ns;
	struct sim_faults *f = &p.net->ways[2 * p.cable].pipe.line.faults;

	f->corrupt_ppm = 1000000;
	EXPECT_EQ(post(&p, 0, SMALL, 1), 1); /* its flit leaves at once */
	f->corrupt_ppm = 0;
	while (p.at_b->counts.frames_taken == 0)
		EXPECT(fabric_net_step(p.net));
	EXPECT(p.net->world.now_ns - begin_ns < bed_link.resend_ns / 10);
	EXPECT_EQ(p.at_a->counts.flits_resent, 1);
	bed_close(p.net);
}

/* Hands all flits of a run over, of which one is damaged. */
static void run_hand_on(struct fabric_link *to, const struct fabric_run *r, uint32_t damaged)
{
	for (uint32_t i = 0; i < r->flits; i++) {
		uint8_t bytes[FLIT_BYTES_MAX];
		size_t length = fabric_run_encode(r, i, bytes);

		bytes[FLIT_HEADER_BYTES] ^= i == damaged;
		fabric_link_recv(to, 0, bytes, length);
	}
}

/* Those behind it come out of order before the question for it has left. */
TEST(test_fab_05_a_damaged_flit_within_a_run_is_asked_for_at_once)
{
	enum { DAMAGED = 3 };
	struct fabric_link_cfg cfg = bed_link;
	static struct fabric_link a, b;
	struct fabric_pool pool;
	struct fabric_lane from;
	struct fabric_run r;
	uint8_t frame[IBA_FRAME_MAX];

	fabric_pool_init(&pool);
	fabric_lane_init(&from, &pool, BED_BLOCKS);
	cfg.run_flits = FABRIC_FRAME_FLITS;
	fabric_link_init(&a, &cfg, &pool);
	fabric_link_init(&b, &cfg, &pool);
	fabric_link_up(&a);
	fabric_link_up(&b);
	REQUIRE(fabric_link_send(&b, 0, &r)); /* its room */
	fabric_link_take(&a, 0, &r);
	REQUIRE(fabric_link_send(&a, 0, &r) && r.kind == FLIT_ACK);
	REQUIRE(fabric_lane_put(&from, frame, bed_frame(frame, 1, 2, 0, LARGE)));
	fabric_link_give(&a, 0, fabric_lane_head(&from));
	REQUIRE(fabric_link_send(&a, 0, &r) && r.flits > DAMAGED + 1);
	run_hand_on(&b, &r, DAMAGED);
	REQUIRE(fabric_link_send(&b, 0, &r));
	EXPECT(r.kind == FLIT_ACK && r.wants_resend && r.sequence == DAMAGED);
	fabric_link_take(&a, 0, &r);
	REQUIRE(fabric_link_send(&a, 0, &r));
	EXPECT(r.kind == FLIT_FRAME && r.index == DAMAGED);
	EXPECT_EQ(b.counts.recovers, 1);
	fabric_pool_fini(&pool);
}

TEST(test_fab_05_a_flit_whose_acknowledgement_was_lost_is_acknowledged_again)
{
	struct pair p = pair_open();
	struct sim_faults *back = &p.net->ways[2 * p.cable + 1].pipe.line.faults;

	back->loss_ppm = 1000000;
	EXPECT_EQ(post(&p, 0, SMALL, 1), 1);
	bed_run(p.net, bed_link.resend_ns / 2);
	EXPECT(p.at_b->counts.acks_sent == 1 && p.at_a->counts.acks_taken == 0);
	back->loss_ppm = 0;
	bed_run(p.net, 2 * bed_link.resend_ns);
	EXPECT(p.at_a->counts.flits_resent == 1 && p.at_a->acked == p.at_a->end);
	EXPECT_EQ(p.at_b->counts.frames_taken, 1);
	bed_close(p.net);
}

/* What does not fit waits at the sender, and other lanes go on. */
TEST(test_fab_10_fab_13_a_lane_that_is_full_stops_no_other)
{
	struct pair p = pair_open();
	uint32_t posted = post(&p, 0, LARGE, 100), held;

	bed_run(p.net, 1000000);
	posted += post(&p, 0, LARGE, 100);
	bed_run(p.net, 1000000);
	held = (uint32_t)p.at_b->counts.frames_taken;
	EXPECT(posted < 100 && held == BED_BLOCKS / 48);
	EXPECT(p.at_a->counts.waits > 0);
	EXPECT(fabric_lane_room(&p.at_b->in[0]) < FABRIC_FRAME_FLITS);
	EXPECT_EQ(p.at_b->in[0].blocks_used, held * flits_of(LARGE + 34)); /* no part of one */
	EXPECT_EQ(post(&p, 1, SMALL, 5), 5);
	bed_run(p.net, 100000);
	EXPECT_EQ(p.at_b->counts.frames_taken, held + 5);
	for (uint32_t taken = 0, rounds = 0; taken < posted + 5; rounds++) {
		taken += take_all(&p);
		bed_run(p.net, 100000);
		EXPECT(rounds < 100);
	}
	EXPECT_EQ(p.at_b->counts.overruns, 0);
	bed_close(p.net);
}

/* What tells of room may be lost: the sender asks. */
TEST(test_fab_05_credit_that_was_lost_comes_again)
{
	struct pair p = pair_open();
	struct sim_faults *back = &p.net->ways[2 * p.cable + 1].pipe.line.faults;
	uint32_t posted = post(&p, 0, LARGE, 100);

	bed_run(p.net, 1000000);
	posted += post(&p, 0, LARGE, 100);
	bed_run(p.net, 1000000);
	back->loss_ppm = 1000000;
	EXPECT(take_all(&p) > 0);
	back->loss_ppm = 0;
	for (uint32_t rounds = 0; p.at_b->counts.frames_taken < posted; rounds++) {
		(void)take_all(&p);
		bed_run(p.net, 100000);
		EXPECT(rounds < 100);
	}
	bed_close(p.net);
}

TEST(test_fab_09_a_link_carries_both_directions_at_once)
{
	uint64_t took_ns[2];

	for (int both = 0; both < 2; both++) {
		struct pair p = pair_open();
		uint64_t begin_ns = p.net->world.now_ns;
		uint8_t frame[IBA_FRAME_MAX];

		EXPECT_EQ(post(&p, 0, LARGE, 2), 2);
		for (int i = 0; both && i < 2; i++)
			EXPECT(fabric_net_post(p.net, p.b, frame,
					       bed_frame(frame, LID_B, LID_A, 0, LARGE)));
		while (p.at_b->counts.frames_taken < 2 ||
		       p.at_a->counts.frames_taken < 2 * (uint64_t)both)
			EXPECT(fabric_net_step(p.net));
		took_ns[both] = p.net->world.now_ns - begin_ns;
		bed_close(p.net);
	}
	EXPECT(took_ns[1] < took_ns[0] + took_ns[0] / 10); /* acknowledgements take some */
}

TEST(test_fab_20_a_cable_that_is_pulled_loses_what_was_on_it_and_no_more)
{
	struct pair p = pair_open();

	EXPECT_EQ(post(&p, 0, LARGE, 2), 2);
	bed_run(p.net, 2000);
	fabric_net_pull(p.net, p.cable);
	bed_rest(p.net);
	EXPECT(p.at_a->counts.frames_lost == 1 && p.at_b->counts.frames_taken == 0);
	EXPECT_EQ(fabric_lane_room(&p.at_b->in[0]), BED_BLOCKS);
	fabric_net_plug(p.net, p.cable);
	bed_rest(p.net);
	EXPECT_EQ(take_all(&p), 1); /* it had not begun to leave */
	pass(&p, LARGE, 10);
	bed_close(p.net);
}

/* ---- The other end is no port of ours -------------------------------------------------------- */

/* A link whose other end is the test. */
static struct fabric_end *lone_open(void)
{
	struct fabric_pool *pool = malloc(sizeof(*pool));
	struct fabric_end *e = malloc(sizeof(*e));
	struct fabric_run run;

	REQUIRE(e && pool);
	fabric_pool_init(pool);
	fabric_end_init(e, &bed_link, pool);
	fabric_link_up(&e->link);
	REQUIRE(fabric_link_send(&e->link, 0, &run));
	return e;
}

static void lone_close(struct fabric_end *own_e)
{
	struct fabric_pool *pool = own_e->link.in[0].pool;

	fabric_pool_fini(pool);
	free(pool);
	free(own_e);
}

static void hear(struct fabric_end *e, const struct flit *f)
{
	uint8_t bytes[FLIT_BYTES_MAX];

	fabric_link_recv(&e->link, 0, bytes, flit_encode(f, bytes));
}

static struct flit piece_of(uint16_t sequence, bool is_first, bool is_last)
{
	static const uint8_t zeros[FLIT_DATA];
	struct flit f = { .kind = FLIT_FRAME, .sequence = sequence };

	f.is_first = is_first;
	f.is_last = is_last;
	f.data = zeros;
	f.data_bytes = FLIT_DATA;
	return f;
}

TEST(test_fab_05_flits_beyond_the_credit_are_not_taken)
{
	struct fabric_end *e = lone_open();

	for (uint16_t i = 0; i < BED_BLOCKS + 5; i++) {
		struct flit f = piece_of(i < BED_BLOCKS ? i : BED_BLOCKS, true, true);

		hear(e, &f);
	}
	EXPECT(e->link.counts.flits_taken == BED_BLOCKS && e->link.counts.overruns == 5);
	EXPECT_EQ(e->link.expected, BED_BLOCKS);
	lone_close(e);
}

TEST(test_fab_05_a_lane_that_the_port_has_not_takes_nothing)
{
	struct fabric_end *e = lone_open();
	struct flit f = piece_of(0, true, true);

	f.lane = BED_LANES;
	hear(e, &f);
	EXPECT(e->link.counts.flits_taken == 0 && e->link.counts.overruns == 1);
	lone_close(e);
}

TEST(test_fab_14_pieces_that_make_no_frame_are_not_taken)
{
	struct fabric_end *e = lone_open();
	struct flit f = piece_of(0, false, false);

	hear(e, &f); /* the middle of none */
	EXPECT(e->link.counts.malformed == 1 && e->link.expected == 0);
	for (uint16_t i = 0; i < FABRIC_FRAME_FLITS; i++) {
		f = piece_of(i, i == 0, false);
		hear(e, &f);
	}
	EXPECT(e->link.counts.malformed == 1 && e->link.expected == FABRIC_FRAME_FLITS);
	f = piece_of(FABRIC_FRAME_FLITS, false, true);
	hear(e, &f); /* longer than any */
	f = piece_of(FABRIC_FRAME_FLITS, true, true);
	hear(e, &f); /* another one begins before its end */
	EXPECT(e->link.counts.malformed == 3 && e->link.expected == FABRIC_FRAME_FLITS);
	lone_close(e);
}

TEST(test_fab_07_a_frame_that_is_damaged_in_a_node_is_never_delivered)
{
	struct fabric_end *e = lone_open();
	struct flit f = piece_of(0, true, true); /* zeros: no frame */
	uint8_t bytes[IBA_FRAME_MAX], frame[IBA_FRAME_MAX];
	uint32_t length = bed_frame(frame, LID_A, LID_B, 0, SMALL);

	hear(e, &f);
	EXPECT_EQ(e->link.counts.broken, 1);
	EXPECT_EQ(fabric_end_take(e, bytes), 0);
	EXPECT_EQ(e->refused, 1);
	/* A node that damages a frame and makes its VCRC anew: the ICRC tells. */
	frame[length - IBA_VCRC_BYTES - IBA_ICRC_BYTES - 1] ^= 1;
	iba_vcrc_put(frame, length);
	f = (struct flit){ .kind = FLIT_FRAME, .sequence = 1, .data = frame };
	f.is_first = f.is_last = true;
	f.data_bytes = (uint8_t)length;
	hear(e, &f);
	EXPECT_EQ(e->link.counts.broken, 1);
	EXPECT_EQ(fabric_end_take(e, bytes), 0);
	EXPECT_EQ(e->refused, 2);
	EXPECT_EQ(fabric_lane_room(&e->link.in[0]), BED_BLOCKS);
	lone_close(e);
}

TEST(test_fab_05_a_limit_that_comes_late_takes_nothing_back)
{
	struct fabric_end *e = lone_open();
	struct flit ack = { .kind = FLIT_ACK, .limits = { 50 } };

	hear(e, &ack);
	EXPECT_EQ(e->link.limits[0], 50);
	ack.limits[0] = 49;
	hear(e, &ack);
	EXPECT_EQ(e->link.limits[0], 50);
	ack.limits[0] = 51;
	hear(e, &ack);
	EXPECT_EQ(e->link.limits[0], 51);
	lone_close(e);
}

TEST(test_fab_05_an_acknowledgement_of_what_was_not_sent_is_ignored)
{
	struct fabric_end *e = lone_open();
	uint8_t frame[IBA_FRAME_MAX];
	struct fabric_run run;
	struct flit ack = { .kind = FLIT_ACK };

	for (int lane = 0; lane < FLIT_LANES; lane++)
		ack.limits[lane] = BED_BLOCKS;
	hear(e, &ack);
	EXPECT(fabric_end_post(e, frame, bed_frame(frame, LID_A, LID_B, 0, SMALL)));
	EXPECT(fabric_link_send(&e->link, 0, &run));
	EXPECT(e->link.end == 1 && e->link.acked == 0);
	ack.sequence = 2;
	hear(e, &ack);
	EXPECT_EQ(e->link.acked, 0);
	ack.sequence = 1;
	hear(e, &ack);
	EXPECT_EQ(e->link.acked, 1);
	EXPECT_EQ(fabric_lane_room(&e->out[0]), BED_BLOCKS);
	lone_close(e);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Two ends in one process, with runs as long as frames; the first has credit. */
struct near {
	struct fabric_pool pool;
	struct fabric_end a, b;
};

static struct near *near_open(void)
{
	struct fabric_link_cfg cfg = bed_link;
	struct near *n = malloc(sizeof(*n));
	struct fabric_run run;

	REQUIRE(n);
	cfg.run_flits = 0;
	fabric_pool_init(&n->pool);
	fabric_end_init(&n->a, &cfg, &n->pool);
	fabric_end_init(&n->b, &cfg, &n->pool);
	fabric_link_up(&n->a.link);
	fabric_link_up(&n->b.link);
	REQUIRE(fabric_link_send(&n->b.link, 0, &run) && run.kind == FLIT_ACK);
	fabric_link_take(&n->a.link, 0, &run);
	REQUIRE(fabric_link_send(&n->a.link, 0, &run) && run.kind == FLIT_ACK);
	fabric_link_take(&n->b.link, 0, &run);
	return n;
}

static void near_close(struct near *own_n)
{
	fabric_pool_fini(&own_n->pool);
	free(own_n);
}

static uint32_t near_post(struct near *n, uint8_t frame[IBA_FRAME_MAX])
{
	uint32_t length = bed_frame(frame, LID_A, LID_B, 0, LARGE);

	REQUIRE(fabric_end_post(&n->a, frame, length));
	return length;
}

/* One copy of the bytes, one run, one acknowledgement. */
TEST(test_fab_05_a_run_of_flits_passes_whole_and_is_acknowledged_by_one)
{
	struct near *n = near_open();
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX];
	uint32_t length = near_post(n, sent), flits = flits_of(length);
	struct fabric_run run;

	EXPECT(fabric_link_send(&n->a.link, 0, &run));
	EXPECT(run.kind == FLIT_FRAME && run.index == 0 && run.flits == flits);
	fabric_link_take(&n->b.link, 0, &run);
	EXPECT(n->b.link.counts.flits_taken == flits && n->b.link.counts.frames_taken == 1);
	EXPECT(n->b.link.in[0].head->data == run.frame->data);
	EXPECT(!fabric_link_send(&n->a.link, 0, &run));
	EXPECT(fabric_link_send(&n->b.link, 0, &run) && run.kind == FLIT_ACK);
	fabric_link_take(&n->a.link, 0, &run);
	EXPECT_EQ(fabric_lane_room(&n->a.out[0]), BED_BLOCKS);
	EXPECT_EQ(fabric_end_take(&n->b, came), length);
	EXPECT_MEM(came, sent, length);
	EXPECT_EQ(fabric_lane_room(&n->b.link.in[0]), BED_BLOCKS);
	near_close(n);
}

/* A flit in the middle is damaged: those before it have come, and are not taken twice. */
TEST(test_fab_05_of_a_run_that_is_sent_again_the_rest_is_taken)
{
	struct near *n = near_open();
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX], bytes[FLIT_BYTES_MAX];
	uint32_t length = near_post(n, sent), flits = flits_of(length), before = 20;
	struct fabric_run run, whole;

	EXPECT(fabric_link_send(&n->a.link, 0, &whole));
	run = whole;
	run.flits = before;
	fabric_link_take(&n->b.link, 0, &run);
	EXPECT_EQ(n->b.link.counts.frames_taken, 0);
	(void)fabric_run_encode(&whole, before, bytes);
	bytes[10] ^= 1;
	fabric_link_recv(&n->b.link, 0, bytes, sizeof(bytes));
	EXPECT_EQ(n->b.link.counts.damaged, 1);
	fabric_link_take(&n->b.link, 0, &whole); /* its sender knows of none */
	EXPECT(n->b.link.counts.flits_taken == flits && n->b.link.counts.frames_taken == 1);
	EXPECT(fabric_link_send(&n->b.link, 0, &run) && run.wants_resend);
	fabric_link_take(&n->a.link, 0, &run);
	EXPECT(!fabric_link_send(&n->a.link, 0, &run)); /* all has come */
	EXPECT_EQ(fabric_end_take(&n->b, came), length);
	EXPECT_MEM(came, sent, length);
	near_close(n);
}

/* An acknowledgement of a part: the rest of the run is sent again, and no more. */
TEST(test_fab_05_a_part_of_a_run_is_acknowledged_and_the_rest_sent_again)
{
	struct near *n = near_open();
	uint8_t sent[IBA_FRAME_MAX];
	uint32_t flits = flits_of(near_post(n, sent)), before = 20;
	struct fabric_run run, rest;

	EXPECT(fabric_link_send(&n->a.link, 0, &run));
	run.flits = before;
	fabric_link_take(&n->b.link, 0, &run);
	EXPECT(fabric_link_send(&n->b.link, 0, &run) && run.kind == FLIT_ACK);
	run.wants_resend = true;
	fabric_link_take(&n->a.link, 0, &run);
	EXPECT(fabric_link_send(&n->a.link, 0, &rest) && rest.index == before);
	EXPECT(rest.flits == flits - before && rest.sequence == before);
	EXPECT_EQ(n->a.link.counts.flits_resent, flits - before);
	fabric_link_take(&n->b.link, 0, &rest);
	EXPECT_EQ(n->b.link.counts.frames_taken, 1);
	near_close(n);
}
