/* SPDX-License-Identifier: BSD-2-Clause */
/* The sending agent over real sockets (SEND): what has left is not held. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/roce/roce.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { BYTES = 64 * 1024, WRITES = 8, READS = 2000, ROUNDS = 2000, SCRIBBLED = 4096 };

struct scribbler {
	volatile uint8_t *memory;
	atomic_uint rounds;
	atomic_bool is_over;
};

/* A node whose memory is in a space of its own, where what is sent from is pinned. */
static void open_in_space(struct weft_adapter *a, struct node *n, struct weft_space **space,
			  bool has_pager)
{
	struct weft_space_options o = {
		.size_bytes = BYTES,
		.mappings_max = 4,
		.has_pager = has_pager,
	};
	struct weft_region_options region = { .length = BYTES, .rights = WEFT_LOCAL_READ };
	struct weft_qp_options qp = { 0 };

	n->memory = aligned_alloc(4096, BYTES);
	REQUIRE(n->memory);
	memset(n->memory, 5, BYTES);
	o.memory = n->memory;
	MUST(weft_space_create(a, &o, space));
	MUST(weft_space_map(*space, 0, BYTES / 2, 0));
	MUST(weft_space_map(*space, BYTES / 2, BYTES / 2, BYTES / 2));
	MUST(weft_pd_create(a, &(struct weft_pd_options){ .space = *space }, &n->pd));
	MUST(weft_cq_create(a, NULL, &n->cq));
	MUST(weft_region_register(n->pd, &region, &n->tag));
	qp.send_cq = n->cq;
	qp.recv_cq = n->cq;
	MUST(weft_qp_create(n->pd, &qp, &n->qp));
}

/* No packet is sent again while the receiver is locked, however long that takes. */
static void start_patient(struct weft_qp *a, struct weft_qp *b)
{
	struct weft_roce_attr to_a = roce_way(weft_qp_number(a)),
			      to_b = roce_way(weft_qp_number(b));

	to_a.timeout_code = to_b.timeout_code = 24; /* 68 s */
	roce_start(a, &to_b);
	roce_start(b, &to_a);
}

/* Shared memory is in use before its receiver is locked. */
static void write_nothing(struct node *from, struct node *to)
{
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 0, NULL, to);
	struct weft_completion c;

	wr.sge_count = 0;
	REQUIRE(node_post(from, &wr) && node_take(from->cq, &c));
}

TEST(test_send_06_roce_holds_nothing_that_has_left)
{
	const char *why_not = own_network_enter();
	struct weft_adapter *a, *b;
	struct weft_space *space;
	struct weft_completion c;
	struct node from, to;
	struct weft_pins pins;
	uint64_t since;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open();
	b = roce_adapter_open();
	open_in_space(a, &from, &space, false);
	node_open(b, &to, NULL);
	start_patient(from.qp, to.qp);
	write_nothing(&from, &to);
	/* No acknowledgement comes while the other adapter is locked. */
	adapter_enter(b);
	for (uint64_t i = 0; i < WRITES; i++) {
		const struct weft_sge s = { .addr = 0, .length = 4096, .tag = from.tag };
		struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, i, &s, &to);

		REQUIRE(node_post(&from, &wr));
	}
	since = thread_now_ns();
	do {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		MUST(weft_space_query(space, &pins));
	} while (pins.pinned < WRITES);
	adapter_leave(b);
	for (uint64_t i = 0; i < WRITES; i++)
		REQUIRE(node_take(from.cq, &c));
	node_close(&from, NULL);
	node_close(&to, NULL);
	MUST(weft_space_destroy(space));
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
	EXPECT_EQ(pins.count, 0);
	EXPECT_EQ(pins.bytes, 0);
}

/*
 * A program that is its own pager: what is sent from a page that is away waits, tells so, and goes
 * on from wherever the page has come to.
 */
TEST(test_send_09_roce_waits_for_a_page_that_comes_back_elsewhere)
{
	const char *why_not = own_network_enter();
	const struct weft_sge s = { .addr = BYTES / 2, .length = 4096 };
	struct weft_sge far = s;
	struct weft_event event = { .kind = WEFT_EVENT_COUNT };
	struct weft_adapter *a, *b;
	struct weft_space *space;
	struct weft_completion c;
	struct weft_send_wr wr;
	struct node from, to;
	uint64_t since = thread_now_ns();
	bool has_event;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open();
	b = roce_adapter_open();
	open_in_space(a, &from, &space, true);
	node_open(b, &to, NULL);
	roce_start_both(from.qp, to.qp);
	MUST(weft_space_move(space, BYTES / 2, WEFT_REAL_NONE));
	memset(from.memory + BYTES / 2, 0xdd, BYTES / 2);
	far.tag = from.tag;
	wr = node_wr(WEFT_OP_WRITE, 1, &far, &to);
	REQUIRE(node_post(&from, &wr));
	while (event.kind != WEFT_EVENT_FAULT) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		MUST(weft_event_next(a, PATIENCE_NS, &event, &has_event));
		REQUIRE(has_event);
	}
	EXPECT_EQ(event.number, weft_qp_number(from.qp));
	EXPECT_EQ(event.addr, BYTES / 2);
	EXPECT_EQ(weft_space_move(space, 1, 0), WEFT_R_SPACE_MAPPING);
	MUST(weft_space_move(space, BYTES / 2, 0)); /* where it has been read in */
	REQUIRE(node_take(from.cq, &c));
	EXPECT_MEM(to.memory, from.memory, 4096);
	EXPECT_EQ(to.memory[0], 5);
	node_close(&from, NULL);
	node_close(&to, NULL);
	MUST(weft_space_destroy(space));
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}

/* The event of the first page waits when that page is there again: it must not hide the second. */
TEST(test_send_09_roce_an_event_that_waits_tells_of_the_latest_page)
{
	const char *why_not = own_network_enter();
	struct weft_event event = { .kind = WEFT_EVENT_COUNT };
	struct weft_sge all = { .addr = 0, .length = BYTES };
	struct weft_pins pins = { 0 };
	struct weft_adapter *a, *b;
	struct weft_space *space;
	struct weft_completion c;
	struct weft_send_wr wr;
	struct node from, to;
	bool has_event = true;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open();
	b = roce_adapter_open();
	open_in_space(a, &from, &space, true);
	node_open(b, &to, NULL);
	roce_start_both(from.qp, to.qp);
	MUST(weft_space_move(space, 0, WEFT_REAL_NONE));
	MUST(weft_space_move(space, BYTES / 2, WEFT_REAL_NONE));
	all.tag = from.tag;
	wr = node_wr(WEFT_OP_WRITE, 1, &all, &to);
	REQUIRE(node_post(&from, &wr));
	/* It has met the first page before it is posted, or as soon as the adapter works. */
	MUST(weft_space_move(space, 0, 0));
	for (uint64_t since = thread_now_ns(); pins.pinned < BYTES / 2 / 4096;) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		MUST(weft_space_query(space, &pins));
	}
	while (has_event && (event.kind != WEFT_EVENT_FAULT || event.addr != BYTES / 2))
		MUST(weft_event_next(a, PATIENCE_NS, &event, &has_event));
	EXPECT(has_event);
	MUST(weft_space_move(space, BYTES / 2, BYTES / 2));
	REQUIRE(node_take(from.cq, &c));
	EXPECT_EQ(c.status, WEFT_SUCCESS);
	node_close(&from, NULL);
	node_close(&to, NULL);
	MUST(weft_space_destroy(space));
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}

/* What the line of that kind says of it. */
static uint64_t told(const char *report, const char *line, const char *key)
{
	char wanted[64];
	const char *at, *end;

	snprintf(wanted, sizeof(wanted), "\n%s ", line);
	at = strstr(report, wanted);
	REQUIRE(at);
	end = strchr(at + 1, '\n');
	snprintf(wanted, sizeof(wanted), " %s=", key);
	at = strstr(at, wanted);
	REQUIRE(at && at < end);
	return strtoull(at + strlen(wanted), NULL, 10);
}

static void write_4k(struct node *from, struct node *to, uint64_t id, uint64_t addr)
{
	const struct weft_sge s = { .addr = addr, .length = 4096, .tag = from->tag };
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, id, &s, to);

	REQUIRE(node_post(from, &wr));
}

/* Data has left and is not acknowledged: all of it would be pinned elsewhere, and none is here. */
static void expect_kept_and_not_pinned(struct weft_adapter *a, uint64_t writes)
{
	uint64_t since = thread_now_ns();
	char *report = report_of(a);

	/* The adapter's thread may send them, a few at a time. */
	while (told(report, "roce", "kept_bytes") < writes * 4096) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		free(report);
		report = report_of(a);
	}
	EXPECT_EQ(told(report, "roce", "kept_bytes"), writes * 4096);
	EXPECT_EQ(told(report, "roce", "kept_bytes_max"), writes * 4096);
	EXPECT_EQ(told(report, "space", "pins"), 0);
	EXPECT_EQ(told(report, "space", "pinned_bytes"), 0);
	EXPECT(told(report, "space", "pinned_bytes_max") >= 4096);
	EXPECT_EQ(told(report, "space", "faults"), 0);
	free(report);
}

/* Once by a page that is away and comes back. */
static void write_by_a_fault(struct weft_adapter *a, struct weft_space *space, struct node *from,
			     struct node *to)
{
	struct weft_event event = { .kind = WEFT_EVENT_COUNT };
	struct weft_completion c;
	bool has_event;

	MUST(weft_space_move(space, BYTES / 2, WEFT_REAL_NONE));
	write_4k(from, to, WRITES, BYTES / 2);
	while (event.kind != WEFT_EVENT_FAULT) {
		MUST(weft_event_next(a, PATIENCE_NS, &event, &has_event));
		REQUIRE(has_event);
	}
	MUST(weft_space_move(space, BYTES / 2, BYTES / 2));
	REQUIRE(node_take(from->cq, &c));
}

TEST(test_send_s4_the_report_tells_what_is_pinned_and_what_would_be)
{
	const char *why_not = own_network_enter();
	struct weft_adapter *a, *b;
	struct weft_space *space;
	struct weft_completion c;
	struct node from, to;
	char *report;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open();
	b = roce_adapter_open();
	open_in_space(a, &from, &space, true);
	node_open(b, &to, NULL);
	start_patient(from.qp, to.qp);
	write_nothing(&from, &to);
	adapter_enter(b);
	for (uint64_t i = 0; i < WRITES; i++)
		write_4k(&from, &to, i, 0);
	expect_kept_and_not_pinned(a, WRITES);
	adapter_leave(b);
	for (uint64_t i = 0; i < WRITES; i++)
		REQUIRE(node_take(from.cq, &c));
	write_by_a_fault(a, space, &from, &to);
	report = report_of(a);
	EXPECT_EQ(told(report, "roce", "kept_bytes"), 0);
	EXPECT(told(report, "roce", "kept_byte_ns") > told(report, "space", "pinned_byte_ns"));
	EXPECT(told(report, "space", "pinned_byte_ns") > 0);
	EXPECT_EQ(told(report, "space", "mappings"), 2);
	EXPECT_EQ(told(report, "space", "has_pager"), 1);
	EXPECT(told(report, "space", "faults") > 0);
	EXPECT_EQ(told(report, "space", "brought"), 1);
	free(report);
	node_close(&from, NULL);
	node_close(&to, NULL);
	MUST(weft_space_destroy(space));
	report = report_of(a);
	EXPECT(!strstr(report, "\nspace ")); /* those that are gone are not told */
	free(report);
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}

/* Writes without pause and without synchronisation. */
__attribute__((no_sanitize("thread"))) static void *scribble(void *context)
{
	struct scribbler *s = context;

	while (!atomic_load(&s->is_over)) {
		uint8_t round = (uint8_t)atomic_fetch_add(&s->rounds, 1);

		for (uint32_t i = 0; i < SCRIBBLED; i++)
			s->memory[i] = round;
	}
	return NULL;
}

/*
 * A peer may read memory while its owner writes it. It is undefined which bytes are old and which
 * are new, but each packet has the ICRC of the bytes that it carries.
 */
TEST(test_iba_9_7_5_roce_what_is_read_while_it_is_written_arrives)
{
	const char *why_not = own_network_enter();
	struct scribbler s = { 0 };
	struct weft_adapter *a, *b;
	struct weft_completion c;
	struct node near, far;
	uint64_t dropped = 1;
	pthread_t thread;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open();
	b = roce_adapter_open();
	node_open(a, &near, NULL);
	node_open(b, &far, NULL);
	roce_start_both(near.qp, far.qp);
	s.memory = far.memory;
	REQUIRE(pthread_create(&thread, NULL, scribble, &s) == 0);
	for (uint64_t i = 0; i < READS || atomic_load(&s.rounds) < ROUNDS; i++) {
		const struct weft_sge to = node_seg(&near, 0, SCRIBBLED);
		struct weft_send_wr wr = node_wr(WEFT_OP_READ, i, &to, &far);

		REQUIRE(node_post(&near, &wr) && node_take(near.cq, &c));
		REQUIRE(c.status == WEFT_SUCCESS);
	}
	atomic_store(&s.is_over, true);
	pthread_join(thread, NULL);
	MUST(weft_roce_dropped(a, WEFT_R_IB_ICRC, &dropped));
	EXPECT_EQ(dropped, 0);
	node_close(&near, NULL);
	node_close(&far, NULL);
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}

static struct weft_roce_counts counts_of(struct weft_adapter *a)
{
	struct weft_roce_counts counts;

	adapter_enter(a);
	roce_tell(roce_of(a->net), &counts);
	adapter_leave(a);
	return counts;
}

/* Its first packet is longer than the others, and no batch may part what the kernel could join. */
TEST(test_roce_a_large_write_leaves_in_one_call)
{
	const char *why_not = own_network_enter();
	struct weft_roce_counts before, after;
	struct weft_adapter *a, *b;
	struct weft_completion c;
	struct weft_roce_attr way;
	struct node from, to;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open_udp();
	b = roce_adapter_open_udp();
	node_open(a, &from, NULL);
	node_open(b, &to, NULL);
	way = roce_way(weft_qp_number(to.qp));
	way.path.mtu_bytes = 4096;
	roce_start(from.qp, &way);
	way.peer_number = weft_qp_number(from.qp);
	roce_start(to.qp, &way);
	before = counts_of(a);
	for (uint32_t i = 0; i < WRITES; i++) {
		struct weft_sge s = node_seg(&from, 0, NODE_BYTES);
		struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, i, &s, &to);

		memset(from.memory, (int)i + 1, NODE_BYTES);
		REQUIRE(node_post(&from, &wr));
		REQUIRE(node_take(from.cq, &c));
		REQUIRE(c.status == WEFT_SUCCESS);
		REQUIRE(memcmp(from.memory, to.memory, NODE_BYTES) == 0);
	}
	after = counts_of(a);
	node_close(&from, NULL);
	node_close(&to, NULL);
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
	/* Unless one was late, and asked for again. */
	if (after.resent == 0) {
		EXPECT_EQ(after.packets_out - before.packets_out, WRITES * NODE_BYTES / 4096);
		EXPECT_EQ(after.calls_out - before.calls_out, WRITES);
	}
}
