/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting (QP-02, 03, 05, 06): limits fixed at creation, descriptors, what becomes of bad ones. */
#include <string.h>

#include "conformance.h"

enum { LIST = 5, MIDDLE = 2, INLINE_DEFAULT = 64, SEGMENTS_DEFAULT = 4 };

/* The queue is held by a pause, filled to the brim, let go; as often as it takes to wrap around. */
static void fill_send_queue(uint32_t send_max)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	const struct weft_sge nothing = { 0 };

	pair_open(&p, &(struct pair_options){ .qp = { .send_max = send_max } });
	for (int round = 0; round < 3; round++) {
		struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE, 0, &nothing, 0);
		uint32_t posted = 9;

		end_modify(a, WEFT_QPS_SQD);
		for (uint64_t id = 0; id < send_max; id++) {
			wr.id = id;
			end_post(a, &wr);
		}
		MUST_EQ(weft_qp_post_send(a->qp, &wr, 1, &posted), WEFT_R_QUEUE_FULL);
		MUST_EQ(posted, 0);
		MUST_EQ(end_query(a).send_queued, send_max);
		end_modify(a, WEFT_QPS_RTS);
		for (uint64_t id = 0; id < send_max; id++)
			end_sent(a, id);
	}
	pair_close(&p);
}

TEST(test_qp_02_the_send_queue_is_as_long_as_asked)
{
	fill_send_queue(1);
	fill_send_queue(5);
	fill_send_queue(200);
}

TEST(test_qp_02_the_receive_queue_is_as_long_as_asked)
{
	static const uint32_t sizes[] = { 1, 5, 200 };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	for (int i = 0; i < 3; i++) {
		pair_open(&p, &(struct pair_options){ .qp = { .recv_max = sizes[i] } });
		for (int round = 0; round < 3; round++) {
			const struct weft_recv_wr recv = { .id = 1 };
			uint32_t posted = 9;

			for (uint64_t id = 0; id < sizes[i]; id++)
				end_post_recv(b, id, DST, 8);
			EXPECT_EQ(weft_qp_post_recv(b->qp, &recv, 1, &posted), WEFT_R_QUEUE_FULL);
			EXPECT_EQ(posted, 0);
			EXPECT_EQ(end_query(b).recv_queued, sizes[i]);
			for (uint64_t id = 0; id < sizes[i]; id++) {
				struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, id, NULL, 0);

				end_succeeds(a, &wr);
				end_received(b, id);
			}
		}
		pair_close(&p);
	}
}

/* A list that does not fit is taken as far as it fits, and *posted says how far. */
TEST(test_qp_02_qp_03_a_list_longer_than_the_queue)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	const struct weft_sge nothing = { 0 };
	struct weft_send_wr wrs[10];
	struct weft_recv_wr recvs[10];
	uint32_t posted = 0;

	pair_open(&p, &(struct pair_options){ .qp = { .send_max = 6, .recv_max = 7 } });
	for (uint64_t i = 0; i < 10; i++) {
		wrs[i] = end_wr(a, WEFT_OP_WRITE, i, &nothing, 0);
		recvs[i] = (struct weft_recv_wr){ .id = i };
	}
	end_modify(a, WEFT_QPS_SQD);
	EXPECT_EQ(weft_qp_post_send(a->qp, wrs, 10, &posted), WEFT_R_QUEUE_FULL);
	EXPECT_EQ(posted, 6);
	end_modify(a, WEFT_QPS_RTS);
	for (uint64_t id = 0; id < 6; id++)
		end_sent(a, id);
	EXPECT_EQ(weft_qp_post_recv(b->qp, recvs, 10, &posted), WEFT_R_QUEUE_FULL);
	EXPECT_EQ(posted, 7);
	EXPECT_EQ(end_query(b).recv_queued, 7);
	MUST(weft_qp_post_send(a->qp, wrs, 0, &posted));
	EXPECT_EQ(posted, 0);
	pair_close(&p);
}

/*
 * How many requests have begun while a Send waits for its receive, itself among them unless it has
 * ended: a pause lets those finish that have begun, and no other.
 */
static uint32_t begun_of_ten(uint32_t outstanding_max, enum weft_opcode opcode)
{
	enum { OTHERS = 10 };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_send_wr wr;
	uint64_t first;
	uint32_t left;

	pair_open(&p, &(struct pair_options){ .qp = { .outstanding_max = outstanding_max } });
	wr = end_wr(a, WEFT_OP_SEND, 0, NULL, 0);
	end_post(a, &wr);
	for (uint64_t id = 1; id <= OTHERS; id++) {
		const struct weft_sge s = end_seg(a, SRC + id * 8, 8);

		wr = end_wr(a, opcode, id, &s, DST + id * 8);
		end_post(a, &wr);
	}
	first = end_waiting(a, 0, 0);
	end_modify(a, WEFT_QPS_SQD);
	end_post_recv(b, 99, DST, 8);
	end_received(b, 99);
	end_event(a, WEFT_EVENT_QP_DRAINED, weft_qp_number(a->qp));
	left = end_query(a).send_queued;
	end_modify(a, WEFT_QPS_RTS);
	end_all_sent(a, first, OTHERS);
	pair_close(&p);
	return OTHERS + 1 - left - (uint32_t)first;
}

/* The limit counts requests of every kind; on a wire that does not acknowledge, the answered. */
TEST(test_qp_02_no_more_requests_are_outstanding_than_asked)
{
	for (uint32_t max = 1; max <= 5; max += 2) {
		uint32_t reads = begun_of_ten(max, WEFT_OP_READ);

		EXPECT(reads >= 1 && reads <= max); /* what the ends agreed may be less */
		if (pair_can(PAIR_ACKNOWLEDGES))
			EXPECT_EQ(begun_of_ten(max, WEFT_OP_WRITE),
				  pair_can(PAIR_PIPELINES) ? max : 1);
	}
}

TEST(test_qp_02_the_default_of_outstanding_requests_is_the_queue)
{
	struct pair p;

	pair_open(&p, &(struct pair_options){ .qp = { .send_max = 11 } });
	EXPECT_EQ(end_query(&p.ends[0]).outstanding_max, 11);
	pair_close(&p);
	pair_open(&p, &(struct pair_options){ .qp = { .outstanding_max = 3 } });
	EXPECT_EQ(end_query(&p.ends[0]).outstanding_max, 3);
	pair_close(&p);
	if (pair_can(PAIR_PIPELINES))
		EXPECT_EQ(begun_of_ten(0, WEFT_OP_WRITE), 11);
}

/* More requests than may be outstanding at a time: they take turns, none is lost. */
TEST(test_qp_02_outstanding_requests_take_turns)
{
	enum { READS = 40 };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, &(struct pair_options){ .qp = { .outstanding_max = 1 } });
	end_fill(b, SRC, READS * 8, 3);
	for (uint64_t id = 0; id < READS; id++) {
		const struct weft_sge s = end_seg(a, DST + id * 8, 8);
		struct weft_send_wr wr = end_wr(a, WEFT_OP_READ, id, &s, SRC + id * 8);

		end_post(a, &wr);
	}
	for (uint64_t id = 0; id < READS; id++)
		end_sent(a, id);
	end_holds(a, DST, READS * 8, 3);
	pair_close(&p);
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

enum { PIECES = 3, MESSAGE = 60, FAR = DST + 4096, BACK = DST + 8192 };

/* The caller uses the memory of its descriptors for other things, once they are posted. */
static void spoil(struct weft_send_wr *wrs, uint32_t count, struct weft_sge *sges)
{
	memset(wrs, 0xff, count * sizeof(*wrs));
	memset(sges, 0xff, PIECES * sizeof(*sges));
}

/*
 * Control says what is done, the address segment where to (and is not read where there is none),
 * the data segments with what, from none to many; the queue's own copy counts.
 */
TEST(test_qp_05_a_descriptor_is_control_address_and_data)
{
	enum { COUNT = 5 };
	static const enum weft_opcode done[COUNT] = { WEFT_OP_DELAY, WEFT_OP_SEND, WEFT_OP_WRITE,
						      WEFT_OP_READ, WEFT_OP_WRITE };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge pieces[PIECES], sink;
	struct weft_send_wr wrs[COUNT];

	pair_open(&p, NULL);
	end_cut(a, SRC, MESSAGE, PIECES, pieces);
	pieces_fill(a, pieces, PIECES, 5);
	sink = end_seg(a, BACK, MESSAGE);
	end_post_recv(b, 9, DST, 2 * MESSAGE);
	for (uint64_t i = 0; i < COUNT; i++) {
		wrs[i] = wr_make(done[i], i, pieces, i == 1 || i == 2 ? PIECES : 0);
		wrs[i].remote_addr = 1; /* nothing is there */
		wrs[i].remote_tag = 0xdeadbeef;
	}
	wrs[0].delay_ns = 10 * 1000 * 1000;
	wrs[2].remote_addr = b->addr + FAR;
	wrs[2].remote_tag = b->tag;
	wrs[3] = end_wr(a, WEFT_OP_READ, 3, &sink, FAR);
	MUST(weft_qp_post_send(a->qp, wrs, COUNT, NULL));
	spoil(wrs, COUNT, pieces);
	for (uint64_t i = 0; i < COUNT; i++)
		EXPECT_EQ(end_sent(a, i).opcode, done[i]);
	EXPECT_EQ(end_received(b, 9).byte_count, MESSAGE);
	end_holds(b, DST, MESSAGE, 5);
	end_is_blank(b, DST + MESSAGE, MESSAGE);
	end_holds(b, FAR, MESSAGE, 5);
	end_holds(a, BACK, MESSAGE, 5);
	pair_close(&p);
}

/* Each part of the address segment counts, and the status comes back for the descriptor. */
TEST(test_qp_05_the_address_segment_is_an_address_and_a_tag)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr good, wr;

	pair_open(&p, NULL);
	s = end_seg(a, SRC, MESSAGE);
	end_fill(a, SRC, MESSAGE, 6);
	good = end_wr(a, WEFT_OP_WRITE, 1, &s, FAR);
	end_succeeds(a, &good);
	end_holds(b, FAR, MESSAGE, 6);
	wr = good;
	wr.remote_addr += MESSAGE;
	end_succeeds(a, &wr);
	end_holds(b, FAR + MESSAGE, MESSAGE, 6);
	end_is_blank(b, FAR + 2 * MESSAGE, MESSAGE);
	wr = good;
	wr.remote_tag ^= 1;
	end_refused(a, &wr, WEFT_R_TAG_INSTANCE);
	pair_revive(&p);
	wr = good;
	wr.remote_addr = b->addr + END_BYTES - MESSAGE + 1;
	end_refused(a, &wr, WEFT_R_RANGE_BOUNDS);
	pair_revive(&p);
	end_succeeds(a, &good);
	pair_close(&p);
}

/* Or it is a destination: descriptors that differ in nothing else reach their queue pairs. */
TEST(test_qp_05_qp_12_the_address_segment_of_a_datagram)
{
	static const enum weft_qp_service services[] = { WEFT_RD, WEFT_UD };
	static struct pair p, q;

	for (int i = 0; i < 2; i++) {
		struct pair_end *a = &p.ends[0], *to[2] = { &p.ends[1], &q.ends[1] };
		struct weft_sge s;
		struct weft_send_wr wrs[2];

		if (!pair_has_service(services[i]))
			continue;
		pair_open(&p, &(struct pair_options){ .service = services[i] });
		pair_open(&q, &(struct pair_options){ .service = services[i], .beside = &p });
		s = end_seg(a, SRC, MESSAGE);
		for (int k = 0; k < 2; k++) {
			end_post_recv(to[k], 7, DST, MESSAGE);
			wrs[k] = wr_make(WEFT_OP_SEND, (uint64_t)k, &s, 1);
			end_aim(a, &wrs[k], to[!k], to[!k]->qp);
		}
		MUST(weft_qp_post_send(a->qp, wrs, 2, NULL));
		end_all_sent(a, 0, 1);
		for (int k = 0; k < 2; k++)
			EXPECT_EQ(end_take(to[0], to[0]->recv_cq).qp_number,
				  weft_qp_number(to[!k]->qp));
		pair_close(&q);
		pair_close(&p);
	}
}

/* ---- Bad requests --------------------------------------------------------------------------- */

struct bad {
	const char *what;
	struct weft_send_wr wr;
	enum weft_reason reason;
};

static const struct weft_sge wide[PAIR_SEGMENTS]; /* of no bytes */
static const struct weft_sge four = { .addr = 64, .length = 4 };
static const struct weft_sge sixteen = { .addr = 64, .length = 16 };
static const struct weft_sge huge[2] = { { .length = UINT32_MAX }, { .length = 2 } };
static const struct weft_sge over[2] = { { .length = 1U << 31 }, { .length = 1 } };
static const struct weft_sge no_bytes_there = { .length = 1 };
static const struct weft_sge long_inline[2] = { { .addr = 64, .length = INLINE_DEFAULT },
						{ .addr = 64, .length = 1 } };

static const struct bad bads[] = {
	{ "opcode", { .opcode = WEFT_OP_SEND_COUNT }, WEFT_R_WR_OPCODE },
	{ "receive opcode", { .opcode = WEFT_OP_RECV }, WEFT_R_WR_OPCODE },
	{ "negative opcode", { .opcode = (enum weft_opcode) - 1 }, WEFT_R_WR_OPCODE },
	{ "unknown flag", { .opcode = WEFT_OP_SEND, .flags = 1U << 31 }, WEFT_R_WR_FLAGS },
	{ "next flag", { .opcode = WEFT_OP_SEND, .flags = 1 << 5 }, WEFT_R_WR_FLAGS },
	{ "inline Read", { .opcode = WEFT_OP_READ, .flags = WEFT_INLINE }, WEFT_R_WR_FLAGS },
	{ "solicited Write",
	  { .opcode = WEFT_OP_WRITE, .flags = WEFT_SOLICITED },
	  WEFT_R_WR_FLAGS },
	{ "inline Bind", { .opcode = WEFT_OP_BIND, .flags = WEFT_INLINE }, WEFT_R_WR_FLAGS },
	{ "segments",
	  { .opcode = WEFT_OP_SEND, .sges = wide, .sge_count = SEGMENTS_DEFAULT + 1 },
	  WEFT_R_WR_SGES },
	{ "many segments",
	  { .opcode = WEFT_OP_WRITE, .sges = wide, .sge_count = UINT32_MAX },
	  WEFT_R_WR_SGES },
	{ "Bind with segment",
	  { .opcode = WEFT_OP_BIND, .sges = wide, .sge_count = 1 },
	  WEFT_R_WR_SGES },
	{ "Delay with segment",
	  { .opcode = WEFT_OP_DELAY, .sges = wide, .sge_count = 1 },
	  WEFT_R_WR_SGES },
	{ "no segments", { .opcode = WEFT_OP_SEND, .sge_count = 1 }, WEFT_R_NULL_ARGUMENT },
	{ "4 GiB", { .opcode = WEFT_OP_WRITE, .sges = huge, .sge_count = 2 }, WEFT_R_WR_LENGTH },
	{ "2 GiB and a byte",
	  { .opcode = WEFT_OP_READ, .sges = over, .sge_count = 2 },
	  WEFT_R_WR_LENGTH },
	{ "atomic of 4",
	  { .opcode = WEFT_OP_FETCH_ADD, .sges = &four, .sge_count = 1 },
	  WEFT_R_WR_LENGTH },
	{ "atomic of 16",
	  { .opcode = WEFT_OP_COMPARE_SWAP, .sges = &sixteen, .sge_count = 1 },
	  WEFT_R_WR_LENGTH },
	{ "atomic of nothing", { .opcode = WEFT_OP_FETCH_ADD }, WEFT_R_WR_LENGTH },
	{ "inline",
	  { .opcode = WEFT_OP_SEND, .flags = WEFT_INLINE, .sges = long_inline, .sge_count = 2 },
	  WEFT_R_WR_INLINE },
	{ "inline from nowhere",
	  { .opcode = WEFT_OP_SEND, .flags = WEFT_INLINE, .sges = &no_bytes_there, .sge_count = 1 },
	  WEFT_R_NULL_ARGUMENT },
	{ "window outside the table",
	  { .opcode = WEFT_OP_BIND, .bind = { .window_tag = 0xffffff00 } },
	  WEFT_R_TAG_INDEX },
	{ "no window", { .opcode = WEFT_OP_BIND }, WEFT_R_TAG_INVALID },
};
enum { BADS = sizeof(bads) / sizeof(*bads) };

/* In the middle of a list: those before it are done, it and those after it are not. */
TEST(test_qp_03_qp_06_a_bad_request_stops_the_list_at_its_place)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];

	pair_open(&p, NULL);
	for (unsigned int i = 0; i < BADS; i++) {
		struct weft_send_wr wrs[LIST];
		uint32_t posted = 99;
		enum weft_reason r;

		for (uint64_t k = 0; k < LIST; k++)
			wrs[k] = end_wr(a, WEFT_OP_WRITE, k, wide, 0);
		wrs[MIDDLE] = bads[i].wr;
		wrs[MIDDLE].id = MIDDLE;
		r = weft_qp_post_send(a->qp, wrs, LIST, &posted);
		if (r != bads[i].reason || posted != MIDDLE)
			EXPECT_STR(bads[i].what, weft_reason_name(r));
		for (uint64_t id = 0; id < MIDDLE; id++)
			end_sent(a, id);
		pair_quiet(&p);
		EXPECT_EQ(end_query(a).send_queued, 0);
		EXPECT_EQ(end_query(a).state, WEFT_QPS_RTS);
	}
	pair_close(&p);
}

TEST(test_qp_03_qp_08_a_bad_receive_stops_the_list_at_its_place)
{
	static const struct {
		struct weft_recv_wr wr;
		enum weft_reason reason;
	} recvs[] = {
		{ { .sges = wide, .sge_count = SEGMENTS_DEFAULT + 1 }, WEFT_R_WR_SGES },
		{ { .sges = wide, .sge_count = UINT32_MAX }, WEFT_R_WR_SGES },
		{ { .sge_count = 1 }, WEFT_R_NULL_ARGUMENT },
		{ { .sges = huge, .sge_count = 2 }, WEFT_R_WR_LENGTH },
	};
	struct pair p;
	struct pair_end *b = &p.ends[1];
	uint32_t queued = 0;

	pair_open(&p, NULL);
	for (unsigned int i = 0; i < sizeof(recvs) / sizeof(*recvs); i++) {
		struct weft_recv_wr wrs[LIST] = { { .id = i } };
		uint32_t posted = 99;

		wrs[MIDDLE] = recvs[i].wr;
		EXPECT_EQ(weft_qp_post_recv(b->qp, wrs, LIST, &posted), recvs[i].reason);
		EXPECT_EQ(posted, MIDDLE);
		queued += MIDDLE;
		EXPECT_EQ(end_query(b).recv_queued, queued);
	}
	pair_close(&p);
}

/* QP-02: limits given at creation are used whole. */
TEST(test_qp_02_qp_06_the_largest_and_smallest_requests)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_send_wr wr;
	struct weft_recv_wr recv = { .id = 3, .sges = wide };

	pair_open(&p, &(struct pair_options){
			      .qp = { .sges_max = PAIR_SEGMENTS, .inline_max_bytes = 1 } });
	wr = end_wr(a, WEFT_OP_SEND, 1, wide, 0);
	wr.sge_count = PAIR_SEGMENTS;
	recv.sge_count = PAIR_SEGMENTS;
	MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
	end_succeeds(a, &wr);
	end_received(b, 3);
	wr.sge_count = PAIR_SEGMENTS + 1;
	EXPECT_EQ(weft_qp_post_send(a->qp, &wr, 1, NULL), WEFT_R_WR_SGES);
	recv.sge_count = PAIR_SEGMENTS + 1;
	EXPECT_EQ(weft_qp_post_recv(b->qp, &recv, 1, NULL), WEFT_R_WR_SGES);
	wr = end_wr(a, WEFT_OP_WRITE, 1, &four, 0);
	wr.flags |= WEFT_INLINE;
	EXPECT_EQ(weft_qp_post_send(a->qp, &wr, 1, NULL), WEFT_R_WR_INLINE);
	pair_close(&p);
}

/* QP-03: the call returns at once, also when the request will take its time. */
TEST(test_qp_03_posting_does_not_wait)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint64_t waiting;

	pair_open(&p, NULL);
	for (uint64_t id = 1; id <= 20; id++) {
		wr = end_wr(a, WEFT_OP_SEND, id, NULL, 0); /* the peer has no receive */
		end_post(a, &wr);
	}
	s = end_seg(a, DST, 8);
	for (uint64_t id = 21; id <= 40; id++) {
		wr = end_wr(a, WEFT_OP_READ, id, &s, SRC); /* waits behind them */
		end_post(a, &wr);
	}
	waiting = end_waiting(a, 1, 20);
	pair_quiet(&p);
	EXPECT_EQ(end_query(a).send_queued, 41 - waiting);
	end_modify(a, WEFT_QPS_ERROR);
	end_sends_flushed(a, waiting, 40);
	pair_close(&p);
}

/* ---- All or none ---------------------------------------------------------------------------- */

/* Wherever the bad one stands, those before it are not posted either, and nothing remains. */
TEST(test_qp_03_all_requests_are_posted_or_none)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];

	pair_open(&p, NULL);
	for (unsigned int i = 0; i < BADS; i++) {
		struct weft_send_wr wrs[LIST];
		enum weft_reason r;

		for (uint64_t k = 0; k < LIST; k++)
			wrs[k] = end_wr(a, WEFT_OP_WRITE, k, wide, 0);
		wrs[i % LIST] = bads[i].wr;
		r = weft_qp_post_send_all(a->qp, wrs, LIST);
		if (r != bads[i].reason)
			EXPECT_STR(bads[i].what, weft_reason_name(r));
		EXPECT_EQ(end_query(a).send_queued, 0);
		pair_quiet(&p);
	}
	EXPECT_EQ(weft_qp_post_send_all(NULL, NULL, 0), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_post_send_all(a->qp, NULL, 1), WEFT_R_NULL_ARGUMENT);
	MUST(weft_qp_post_send_all(a->qp, NULL, 0));
	pair_close(&p);
}

/* What was queued before stays in its place, also where the queue wraps around. */
TEST(test_qp_02_qp_03_all_that_fit_or_none)
{
	enum { MAX = 6 };
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_send_wr wrs[MAX + 1];

	pair_open(&p, &(struct pair_options){ .qp = { .send_max = MAX } });
	for (uint64_t before = 0; before <= MAX; before++) {
		end_modify(a, WEFT_QPS_SQD);
		for (uint64_t k = 0; k <= MAX; k++)
			wrs[k] = end_wr(a, WEFT_OP_WRITE, k, wide, 0);
		MUST(weft_qp_post_send_all(a->qp, wrs, (uint32_t)before));
		EXPECT_EQ(weft_qp_post_send_all(a->qp, wrs + before, (uint32_t)(MAX + 1 - before)),
			  WEFT_R_QUEUE_FULL);
		EXPECT_EQ(end_query(a).send_queued, before);
		MUST(weft_qp_post_send_all(a->qp, wrs + before, (uint32_t)(MAX - before)));
		end_modify(a, WEFT_QPS_RTS);
		end_all_sent(a, 0, MAX - 1);
		pair_quiet(&p);
	}
	pair_close(&p);
}

/*
 * A bind that was taken back holds its window no longer, a tag that was reserved for a region is
 * free again, and the requests are as they came; so is one that brought tags of its own.
 */
TEST(test_qp_03_rkey_02d_sqr_02_what_was_promised_is_taken_back)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_send_wr wrs[5];
	uint32_t window, reserved, chosen;

	pair_open(&p, &(struct pair_options){ .is_privileged = true });
	MUST(weft_window_alloc(a->pd, &window));
	MUST(weft_tag_reserve(a->pd, &reserved));
	chosen = window ^ 0x55;
	wrs[0] = wr_make(WEFT_OP_BIND, 0, NULL, 0);
	wrs[0].bind = (struct weft_bind){
		.window_tag = window,
		.region_tag = a->tag,
		.addr = a->addr,
		.length = 64,
		.rights = WEFT_REMOTE_READ,
	};
	wrs[1] = wrs[0];
	wrs[1].bind.tag = chosen;
	wrs[2] = wr_make(WEFT_OP_REGISTER, 1, NULL, 0);
	wrs[2].reg.region = (struct weft_region_options){
		.addr = a->addr,
		.length = 64,
		.rights = WEFT_LOCAL_READ,
	};
	wrs[3] = wrs[2];
	wrs[3].reg.tag = reserved;
	wrs[4] = wr_make(WEFT_OP_SEND_COUNT, 2, NULL, 0);
	EXPECT_EQ(weft_qp_post_send_all(a->qp, wrs, 5), WEFT_R_WR_OPCODE);
	EXPECT_EQ(end_query(a).send_queued, 0);
	EXPECT_EQ(wrs[0].bind.tag, 0);
	EXPECT_EQ(wrs[1].bind.tag, chosen);
	EXPECT_EQ(wrs[2].reg.tag, 0);
	EXPECT_EQ(wrs[3].reg.tag, reserved);
	MUST(weft_tag_release(a->pd, reserved)); /* still ours */
	MUST(weft_window_free(a->pd, window));
	pair_close(&p); /* nothing is left of the other */
}
