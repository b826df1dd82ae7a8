/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters in a fabric, by the public calls. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/fabric/fabric_attach.h"
#include "fabric/verbs_end.h"
#include "no_calls.h"
#include "test.h"

/* UD-01: without a GID and with one; the completion says which way it came. */
TEST(test_ud_01_datagrams_by_lid_and_by_gid)
{
	datagrams_open();
	for (int has_gids = 0; has_gids < 2; has_gids++) {
		struct weft_path path = fabric_bed_path(0, 1, has_gids);
		struct weft_sge sge = { (uintptr_t)ends[0].memory, 100, ends[0].tag };
		struct weft_send_wr wr = { .id = 2,
					   .opcode = WEFT_OP_SEND,
					   .sges = &sge,
					   .sge_count = 1,
					   .dest_qp_number = weft_qp_number(ends[1].qp),
					   .remote_q_key = Q_KEY };
		struct weft_completion c;
		struct weft_ah *ah;
		uint32_t posted;

		path.from_lid = 1; /* only path bits */
		memset(ends[0].memory, 0x5a + has_gids, 100);
		MUST(weft_ah_create(ends[0].pd, &path, &ah));
		wr.ah = ah;
		recv_post(&ends[1]);
		MUST(weft_qp_post_send(ends[0].qp, &wr, 1, &posted));
		EXPECT_EQ(end_await(&ends[0]).status, WEFT_SUCCESS);
		c = end_await(&ends[1]);
		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.src_lid, fabric_bed_path(0, 1, false).from_lid);
		EXPECT_EQ(c.path_bits, 1);
		EXPECT_EQ(c.service_level, path.service_level);
		EXPECT_EQ(c.has_route, has_gids);
		EXPECT(!c.has_ipv4_route);
		EXPECT_EQ(memcmp(ends[1].memory + 40, ends[0].memory, 100), 0);
		if (has_gids)
			EXPECT_EQ(memcmp(ends[1].memory + 8, path.from.ip, 16), 0);
		MUST(weft_ah_destroy(ah));
	}
	datagrams_close();
}

static void connect_by(uint32_t mtu_bytes, uint8_t timeout_code, uint8_t retries)
{
	for (int i = 0; i < 2; i++) {
		struct weft_roce_attr how = {
			.path = fabric_bed_path(i, !i, false),
			.peer_number = weft_qp_number(ends[!i].qp),
			.timeout_code = timeout_code,
			.retries = retries,
			.rnr_retries = 7,
			.reads_in = 1,
			.reads_out = 1,
		};

		how.path.mtu_bytes = mtu_bytes;
		MUST(weft_qp_to_rtr(ends[i].qp, &how));
		MUST(weft_qp_to_rts(ends[i].qp, &how));
	}
}

static void connect_simply(void)
{
	connect_by(1024, 18, 7);
}

static void connected_open(uint8_t timeout_code)
{
	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_RC);
	for (int i = 0; i < 2; i++) {
		struct weft_path by_other = fabric_bed_path(i, !i, false);
		const struct weft_alternate other = { .path = by_other,
						      .timeout_code = timeout_code };
		struct weft_roce_attr how = {
			.path = fabric_bed_path(i, !i, false),
			.peer_number = weft_qp_number(ends[!i].qp),
			.timeout_code = timeout_code,
			.retries = 1,
			.rnr_retries = 7,
			.alternate = &other,
			.migration = WEFT_REARM,
		};

		how.path.from_lid--;
		how.path.to_lid--;
		MUST(weft_qp_to_rtr(ends[i].qp, &how));
		MUST(weft_qp_to_rts(ends[i].qp, &how));
		MUST(weft_qp_modify_roce(ends[i].qp, &how,
					 WEFT_ROCE_ALTERNATE | WEFT_ROCE_MIGRATION));
	}
}

static struct weft_qp_paths paths_of(const struct end *e)
{
	struct weft_qp_paths paths;

	MUST(weft_qp_query_paths(e->qp, &paths));
	return paths;
}

static void send_one(int from)
{
	struct weft_sge sge = { (uintptr_t)ends[from].memory, 64, ends[from].tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &sge, .sge_count = 1 };
	uint32_t posted;

	recv_post(&ends[!from]);
	MUST(weft_qp_post_send(ends[from].qp, &wr, 1, &posted));
	REQUIRE(end_await(&ends[from]).status == WEFT_SUCCESS);
	REQUIRE(end_await(&ends[!from]).status == WEFT_SUCCESS);
}

/* FAB-19: from left to right by one path, and back by the other. */
TEST(test_fab_19_requests_and_acknowledgements_go_by_different_paths)
{
	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_RC);
	for (int i = 0; i < 2; i++) {
		struct weft_roce_attr how = {
			.path = fabric_bed_path(i, !i, false),
			.peer_number = weft_qp_number(ends[!i].qp),
			.timeout_code = 14,
			.retries = 7,
			.rnr_retries = 7,
		};

		/* The left port by its first LID, the right one by its second. */
		if (i == 0)
			how.path.from_lid--;
		else
			how.path.to_lid--;
		MUST(weft_qp_to_rtr(ends[i].qp, &how));
		MUST(weft_qp_to_rts(ends[i].qp, &how));
	}
	for (int i = 0; i < 10; i++)
		send_one(0);
	EXPECT(fabric_bed_frames_by(1, 1) >= 10 && fabric_bed_frames_by(0, 0) >= 10);
	EXPECT_EQ(fabric_bed_frames_by(0, 1), 0);
	EXPECT_EQ(fabric_bed_frames_by(1, 0), 0);
	datagrams_close();
}

/* FAB-20, RC-04: the path that requests go by is lost, and no request is. */
TEST(test_fab_20_rc_04_connection_takes_its_second_path)
{
	connected_open(16); /* 0.3 s, twice: longer than a busy machine keeps a thread waiting */
	EXPECT_EQ(paths_of(&ends[0]).migration, WEFT_REARM);
	send_one(0);
	send_one(1);
	EXPECT_EQ(paths_of(&ends[0]).migration, WEFT_ARMED);
	EXPECT_EQ(paths_of(&ends[1]).migration, WEFT_ARMED);
	EXPECT_EQ(fabric_bed_frames_by(1, 0) + fabric_bed_frames_by(1, 1), 0);
	fabric_bed_cut(0, true);
	for (int i = 0; i < 4; i++)
		send_one(i % 2);
	for (int i = 0; i < 2; i++) {
		struct weft_qp_paths paths = paths_of(&ends[i]);

		EXPECT_EQ(paths.migration, WEFT_MIGRATED);
		EXPECT_EQ(paths.migrations, 1);
		EXPECT_EQ(paths.path.to_lid, fabric_bed_path(i, !i, false).to_lid);
		EXPECT_EQ(paths.alternate.to_lid, paths.path.to_lid - 1);
	}
	datagrams_close();
}

/* Of the whole memory of the left end. */
static void post_one(enum weft_opcode opcode, uint32_t bytes, uint32_t flags)
{
	const bool is_inline = flags & WEFT_INLINE;
	struct weft_sge sge = { (uintptr_t)ends[0].memory, bytes, is_inline ? 0 : ends[0].tag };
	struct weft_send_wr wr = { .opcode = opcode,
				   .flags = flags,
				   .sges = &sge,
				   .sge_count = 1,
				   .remote_addr = (uintptr_t)ends[1].memory,
				   .remote_tag = ends[1].tag };
	uint32_t posted;

	MUST(weft_qp_post_send(ends[0].qp, &wr, 1, &posted));
}

/* RC-04: as by a port that is down no answer comes, and the retries end. */
TEST(test_rc_04_a_connection_whose_fabric_is_gone_ends)
{
	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_RC);
	connect_by(1024, 12, 1); /* 17 ms, twice */
	send_one(0);
	fabric_bed_close();
	post_one(WEFT_OP_WRITE, BYTES, 0);
	EXPECT_EQ(end_await(&ends[0]).status, WEFT_ERR_PEER_GONE);
	for (int i = 0; i < 2; i++)
		end_close(&ends[i]);
}

/* FAB-21: of each message some frames come by either path, and its receiver sees nothing of it. */
TEST(test_fab_21_frames_of_a_message_come_by_both_paths)
{
	enum { MESSAGES = 50, FRAMES = BYTES / 1024 };

	REQUIRE(setenv("WEFT_STRIPE", "on", 1) == 0);
	connected_open(18);
	send_one(0);
	send_one(1);
	EXPECT_EQ(paths_of(&ends[0]).migration, WEFT_ARMED);
	for (uint32_t n = 0; n < MESSAGES; n++) {
		struct weft_sge sge = { (uintptr_t)ends[0].memory, BYTES, ends[0].tag };
		struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &sge, .sge_count = 1 };
		uint32_t posted;

		for (uint32_t i = 0; i < BYTES; i++)
			ends[0].memory[i] = (uint8_t)(i * 7 + i / 1024 + n);
		recv_post(&ends[1]);
		MUST(weft_qp_post_send(ends[0].qp, &wr, 1, &posted));
		REQUIRE(end_await(&ends[0]).status == WEFT_SUCCESS);
		REQUIRE(end_await(&ends[1]).status == WEFT_SUCCESS);
		EXPECT_MEM(ends[1].memory, ends[0].memory, BYTES);
	}
	EXPECT(fabric_bed_frames_by(0, 1) >= MESSAGES * FRAMES / 2);
	EXPECT(fabric_bed_frames_by(1, 1) >= MESSAGES * FRAMES / 2);
	datagrams_close();
	REQUIRE(unsetenv("WEFT_STRIPE") == 0);
}

/* FAB-23: in a fabric a path has a LID, in an IP network it has none. */
TEST(test_fab_23_path_of_the_other_kind_is_refused)
{
	const struct weft_address here = { .family = 4, .ip = { 127, 0, 0, 1 } };
	const struct weft_path by_ip = { .from = here, .to = here, .mtu_bytes = 1024 };
	struct weft_roce_attr how = { .path = by_ip, .peer_number = 5 };
	struct weft_path path;
	struct weft_ah *ah;

	end_open(&ends[0], 0, WEFT_RC);
	EXPECT_EQ(weft_ah_create(ends[0].pd, &by_ip, &ah), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_qp_to_rtr(ends[0].qp, &how), WEFT_R_ADDRESS);
	how.path = fabric_bed_path(0, 1, false);
	how.path.to_lid = 0x10000;
	EXPECT_EQ(weft_qp_to_rtr(ends[0].qp, &how), WEFT_R_ADDRESS);
	how.path = fabric_bed_path(0, 1, false);
	how.path.service_level = 16;
	EXPECT_EQ(weft_qp_to_rtr(ends[0].qp, &how), WEFT_R_ADDRESS);
	path = fabric_bed_path(0, 1, true);
	path.to.family = 4;
	EXPECT_EQ(weft_ah_create(ends[0].pd, &path, &ah), WEFT_R_BAD_ARGUMENT);
	how.path = fabric_bed_path(0, 1, false);
	MUST(weft_qp_to_rtr(ends[0].qp, &how));
	end_close(&ends[0]);
	fabric_bed_close();
}

/* UD-01: a group of a fabric has a GID; one of an IP network is none of it. */
TEST(test_ud_01_group_of_an_ip_network_is_refused)
{
	const struct weft_address group = { .family = 4, .ip = { 224, 0, 0, 9 } };
	const struct weft_address here = { .family = 4, .ip = { 127, 0, 0, 1 } };

	datagrams_open();
	EXPECT_EQ(weft_qp_join(ends[0].qp, &group, &here), WEFT_R_ADDRESS);
	datagrams_close();
}

/* ---- SYS-06: neither copies nor calls between registered memory and the link ----------------- */

static void carry(enum weft_opcode opcode, uint32_t bytes, uint32_t flags)
{
	if (opcode == WEFT_OP_SEND)
		recv_post(&ends[1]);
	post_one(opcode, bytes, flags);
	REQUIRE(end_await(&ends[0]).status == WEFT_SUCCESS);
	if (opcode == WEFT_OP_SEND)
		REQUIRE(end_await(&ends[1]).status == WEFT_SUCCESS);
}

static struct weft_traffic traffic_of(const struct end *e)
{
	struct weft_traffic t;

	MUST(weft_qp_traffic(e->qp, &t));
	return t;
}

/* Calls by which an adapter wakes the fabric. */
static uint64_t wakes_of(const struct end *e)
{
	struct weft_roce_counts counts;

	MUST(weft_roce_query(e->adapter, &counts));
	return counts.calls_out;
}

static void pair_open(void)
{
	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_RC);
	connect_simply();
}

TEST(test_sys_06_no_copy_between_registered_memory_and_the_link)
{
	pair_open();
	carry(WEFT_OP_SEND, BYTES, 0);
	carry(WEFT_OP_WRITE, BYTES, 0);
	carry(WEFT_OP_READ, BYTES, 0);
	EXPECT_EQ(traffic_of(&ends[0]).payload_out, 2 * BYTES);
	EXPECT_EQ(traffic_of(&ends[0]).payload_in, BYTES);
	EXPECT_EQ(traffic_of(&ends[1]).payload_in, 2 * BYTES);
	EXPECT_EQ(traffic_of(&ends[0]).payload_copied, 0);
	EXPECT_EQ(traffic_of(&ends[1]).payload_copied, 0);
	/* What is copied is counted: inline data, when it is posted. */
	carry(WEFT_OP_SEND, INLINE, WEFT_INLINE);
	EXPECT_EQ(traffic_of(&ends[0]).payload_copied, INLINE);
	EXPECT_EQ(traffic_of(&ends[1]).payload_copied, 0);
	datagrams_close();
}

/* Packets, each counted once: a slow machine may send some again. */
static uint64_t sent_once(const struct end *e)
{
	struct weft_roce_counts counts;

	MUST(weft_roce_query(e->adapter, &counts));
	return counts.packets_out - counts.resent;
}

/* So the fabric need not keep what an adapter does not take at once. */
TEST(test_fab_13_a_connection_has_no_more_under_way_than_the_ring_of_an_adapter_holds)
{
	enum { WRITES = 2 * SENDS_MAX / 3, POLLS = 1000 };
	struct weft_completion c;
	uint32_t count, window;
	uint64_t sent = 0;

	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_RC);
	connect_by(BED_MTU, 18, 7);
	window = fabric_attach_window(IBA_HEADERS_MAX + BED_MTU + IBA_TRAILER_MAX);
	EXPECT(window < 256 && window * BED_MTU > ATTACH_RING_BYTES / 2);
	fabric_bed_hold();
	for (int i = 0; i < WRITES; i++)
		post_one(WEFT_OP_WRITE, BYTES, 0);
	for (int i = 0; i < POLLS || sent < window; i++) {
		MUST(weft_cq_poll(ends[0].cq, &c, 1, &count));
		sent = sent_once(&ends[0]);
	}
	fabric_bed_release();
	EXPECT_EQ(sent, window);
	for (int i = 0; i < WRITES; i++)
		EXPECT_EQ(end_await(&ends[0]).status, WEFT_SUCCESS);
	datagrams_close();
}

TEST(test_sys_06_calls_that_wake_the_fabric_are_counted_and_none_when_it_is_awake)
{
	enum { ROUNDS = 50, PATIENCE_S = 60 };
	const time_t until = time(NULL) + PATIENCE_S;
	uint64_t before;

	pair_open();
	before = wakes_of(&ends[0]);
	while (wakes_of(&ends[0]) == before && time(NULL) < until)
		carry(WEFT_OP_WRITE, BYTES, 0);
	EXPECT(wakes_of(&ends[0]) > before);
	fabric_bed_stay_awake();
	carry(WEFT_OP_SEND, BYTES, 0); /* they wake it for the last time, both of them */
	before = wakes_of(&ends[0]) + wakes_of(&ends[1]);
	for (int i = 0; i < ROUNDS; i++)
		carry(i % 2 ? WEFT_OP_SEND : WEFT_OP_WRITE, BYTES, 0);
	EXPECT_EQ(wakes_of(&ends[0]) + wakes_of(&ends[1]), before);
	datagrams_close();
}

/* The thread sanitizer makes calls of its own in every thread. */
#if defined(__has_feature)
enum { IS_WATCHER_CALLING = __has_feature(thread_sanitizer) };
#else
enum { IS_WATCHER_CALLING = 0 };
#endif

/* From registered memory to that of the other end, which weft's thread there places. */
static void *watched_run(void *unused)
{
	enum { PATIENCE_S = 60 };
	const volatile uint8_t *there = ends[1].memory;
	const time_t until = time(NULL) + PATIENCE_S;
	uint8_t last;

	(void)unused;
	/* Before: the fabric is woken, the pages are there, the thread knows its signals. */
	carry(WEFT_OP_WRITE, BYTES, 0);
	carry(WEFT_OP_WRITE, BYTES, 0);
	last = (uint8_t)(there[BYTES - 1] + 1);
	if (!forbid_calls())
		leave(NO_CALLS_NONE);
	memset(ends[0].memory, last, BYTES);
	post_one(WEFT_OP_WRITE, BYTES, 0);
	while (there[BYTES - 1] != last && time(NULL) < until)
		;
	leave(there[BYTES - 1] == last ? NO_CALLS_GOOD : NO_CALLS_FAILED);
	return NULL;
}

static void run_watched(void *unused)
{
	pthread_t thread;

	(void)unused;
	harness_in_child();
	pair_open();
	/* No thread of weft's competes for the lock of the left end. */
	MUST(weft_adapter_drive(ends[0].adapter, true));
	fabric_bed_stay_awake();
	REQUIRE(pthread_create(&thread, NULL, watched_run, NULL) == 0);
	pthread_join(thread, NULL); /* the thread ends the process */
	leave(NO_CALLS_FAILED);
}

TEST(test_sys_06_no_call_between_registered_memory_and_the_link)
{
	const char *why_not = IS_WATCHER_CALLING ? "the sanitizer makes calls" : no_calls_why_not();
	int status;

	if (why_not)
		SKIP(why_not);
	status = child_status(run_watched, NULL);
	REQUIRE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), NO_CALLS_GOOD);
}
