/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters in a fabric, by the public calls. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/roce/roce_line.h"
#include "fabric/fabric_bed.h"
#include "no_calls.h"
#include "test.h"

enum { BYTES = 4096, Q_KEY = 7, INLINE = 64, SENDS_MAX = 512 };

struct end {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint32_t tag;
	uint8_t memory[BYTES];
};

static struct end ends[2];

static void end_open(struct end *e, int node, enum weft_qp_service service)
{
	const struct weft_adapter_options ao = { 0 };
	const struct weft_cq_options co = { .entries_max = 2 * SENDS_MAX };
	struct weft_qp_options qo = { .service = service,
				      .send_max = SENDS_MAX,
				      .is_every_send_signalled = true };
	const struct weft_region_options ro = { .addr = (uintptr_t)e->memory,
						.length = BYTES,
						.rights = WEFT_LOCAL_WRITE | WEFT_LOCAL_READ |
							  WEFT_REMOTE_WRITE | WEFT_REMOTE_READ };

	fabric_bed_open();
	fabric_bed_enter(node);
	MUST(weft_adapter_open(&ao, &e->adapter));
	MUST(weft_roce_open(e->adapter));
	MUST(weft_pd_create(e->adapter, NULL, &e->pd));
	MUST(weft_cq_create(e->adapter, &co, &e->cq));
	qo.send_cq = qo.recv_cq = e->cq;
	MUST(weft_qp_create(e->pd, &qo, &e->qp));
	MUST(weft_region_register(e->pd, &ro, &e->tag));
}

static void end_close(struct end *e)
{
	MUST(weft_qp_destroy(e->qp));
	MUST(weft_region_deregister(e->pd, e->tag));
	MUST(weft_cq_destroy(e->cq));
	MUST(weft_pd_destroy(e->pd));
	MUST(weft_adapter_close(e->adapter));
}

static struct weft_completion end_await(struct end *e)
{
	struct weft_completion c;
	uint32_t count = 0;

	while (count == 0)
		MUST(weft_cq_poll(e->cq, &c, 1, &count));
	return c;
}

static void datagrams_open(void)
{
	const struct weft_roce_attr how = { .path.mtu_bytes = 1024, .q_key = Q_KEY };

	for (int i = 0; i < 2; i++) {
		end_open(&ends[i], i, WEFT_UD);
		MUST(weft_qp_to_rtr(ends[i].qp, &how));
		MUST(weft_qp_to_rts(ends[i].qp, &how));
	}
}

static void datagrams_close(void)
{
	for (int i = 0; i < 2; i++)
		end_close(&ends[i]);
	fabric_bed_close();
}

static void recv_post(struct end *e)
{
	const struct weft_sge sge = { (uintptr_t)e->memory, BYTES, e->tag };
	const struct weft_recv_wr wr = { .id = 1, .sges = &sge, .sge_count = 1 };
	uint32_t posted;

	MUST(weft_qp_post_recv(e->qp, &wr, 1, &posted));
}

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

/* ---- RAW: IPv6 packets of other protocols ------------------------------------------------- */

enum { HEADER = 40, TEXT = 33, PACKET = HEADER + TEXT, FIRST = 200, SECOND = 201 };

/* An IPv6 header, and text. */
static void packet_write(uint8_t *to, uint8_t next_header, uint8_t host)
{
	static const uint8_t net[] = { 0x20, 0x01, 0x0d, 0xb8 };

	memset(to, 0, HEADER);
	to[0] = 6 << 4;
	to[5] = TEXT;
	to[6] = next_header;
	to[7] = 64;
	memcpy(to + 8, net, sizeof(net));
	memcpy(to + 24, net, sizeof(net));
	to[23] = 1;
	to[39] = host;
	memset(to + HEADER, host + next_header, TEXT);
}

static void to_raw(struct weft_qp *qp, uint8_t next_header, uint8_t host)
{
	const struct weft_roce_attr how = { .path.mtu_bytes = 1024, .q_key = Q_KEY };
	struct weft_raw_options raw = { .next_header = next_header };

	if (host != 0)
		raw.to = (struct weft_address){ .family = 6,
						.ip = { 0x20, 0x01, 0x0d, 0xb8, [15] = host } };
	MUST(weft_qp_to_rtr(qp, &how));
	MUST(weft_qp_to_rts(qp, &how));
	MUST(weft_qp_to_raw(qp, &raw));
}

static void packet_send(uint8_t next_header, uint8_t host, struct weft_ah *ah)
{
	struct weft_sge sge = { (uintptr_t)ends[0].memory, PACKET, ends[0].tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &sge, .sge_count = 1, .ah = ah };
	uint32_t posted;

	packet_write(ends[0].memory, next_header, host);
	MUST(weft_qp_post_send(ends[0].qp, &wr, 1, &posted));
	EXPECT_EQ(end_await(&ends[0]).status, WEFT_SUCCESS);
}

/* RAW-02, RAW-03: two clients at a port have what is for them, as it stood at the other one. */
TEST(test_raw_01_raw_02_raw_03_ipv6_packets_cross_a_fabric_to_their_clients)
{
	const struct weft_path path = fabric_bed_path(0, 1, false);
	const struct weft_qp_options qo = { .service = WEFT_UD };
	struct weft_qp_options two = qo;
	struct weft_recv_wr recv = { .id = 2, .sge_count = 1 };
	struct weft_qp *second;
	struct weft_sge sge;
	struct weft_ah *ah;
	uint32_t posted;

	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_UD);
	two.send_cq = two.recv_cq = ends[1].cq;
	MUST(weft_qp_create(ends[1].pd, &two, &second));
	to_raw(ends[0].qp, FIRST, 1);
	to_raw(ends[1].qp, FIRST, 0);
	to_raw(second, SECOND, 9);
	MUST(weft_ah_create(ends[0].pd, &path, &ah));
	recv_post(&ends[1]);
	sge = (struct weft_sge){ (uintptr_t)ends[1].memory + BYTES / 2, PACKET, ends[1].tag };
	recv.sges = &sge;
	MUST(weft_qp_post_recv(second, &recv, 1, &posted));
	packet_send(SECOND, 8, ah);   /* for no client: to another address */
	packet_send(SECOND, 9, NULL); /* for no port */
	packet_send(SECOND, 9, ah);
	packet_send(FIRST, 7, ah);
	for (int i = 0; i < 2; i++) {
		struct weft_completion c = end_await(&ends[1]);
		bool is_second = c.id == 2;
		uint8_t wanted[PACKET];

		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.byte_count, PACKET);
		EXPECT_EQ(c.qp_number, weft_qp_number(is_second ? second : ends[1].qp));
		packet_write(wanted, is_second ? SECOND : FIRST, is_second ? 9 : 7);
		EXPECT_MEM(ends[1].memory + (is_second ? BYTES / 2 : 0), wanted, PACKET);
	}
	EXPECT_EQ(fabric_bed_counts().refused, 0); /* without a handle it did not leave */
	MUST(weft_ah_destroy(ah));
	MUST(weft_qp_destroy(second));
	datagrams_close();
}

/* Raw packets in one post, by this handle; the first one may have none. */
static void burst_post(struct weft_ah *first, struct weft_ah *ah, uint32_t bytes, uint32_t count)
{
	static struct weft_send_wr wrs[SENDS_MAX];
	struct weft_sge sge = { (uintptr_t)ends[0].memory, bytes, ends[0].tag };
	uint32_t posted;

	for (uint32_t i = 0; i < count; i++)
		wrs[i] = (struct weft_send_wr){ .id = i,
						.opcode = WEFT_OP_SEND,
						.sges = &sge,
						.sge_count = 1,
						.ah = i == 0 ? first : ah };
	MUST(weft_qp_post_send(ends[0].qp, wrs, count, &posted));
}

static void burst_await(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct weft_completion c = end_await(&ends[0]);

		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.id, i);
	}
}

static struct weft_ah *bursts_open(void)
{
	const struct weft_path path = fabric_bed_path(0, 1, false);
	struct weft_ah *ah;

	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_UD);
	to_raw(ends[0].qp, FIRST, 0);
	MUST(weft_ah_create(ends[0].pd, &path, &ah));
	packet_write(ends[0].memory, FIRST, 7);
	return ah;
}

/* RAW-02: one that has no way holds none up that follows it. */
TEST(test_raw_02_packet_without_a_handle_delays_none_behind_it)
{
	struct weft_ah *ah = bursts_open();

	burst_post(NULL, ah, PACKET, 3);
	burst_await(3);
	MUST(weft_ah_destroy(ah));
	datagrams_close();
}

/* RAW-02: more than take a turn, and than the ring to the fabric has room for. */
TEST(test_raw_02_packets_that_wait_for_their_turn_or_for_room_are_all_sent)
{
	enum { BURSTS = 300, LONG = 1024 };
	struct weft_ah *ah = bursts_open();

	fabric_bed_stay_awake();
	for (int i = 0; i < BURSTS; i++) {
		fabric_bed_hold();
		burst_post(ah, ah, LONG, SENDS_MAX);
		fabric_bed_release();
		burst_await(SENDS_MAX);
	}
	MUST(weft_ah_destroy(ah));
	datagrams_close();
}

/* RAW-03: an interface that cannot be opened leaves the raw packets of the port to others. */
TEST(test_raw_03_failed_bridge_claims_no_raw_packets)
{
	struct weft_adapter *bridge;

	end_open(&ends[0], 0, WEFT_UD);
	MUST(weft_adapter_open(NULL, &bridge));
	EXPECT_EQ(weft_raw_open(bridge, ""), WEFT_R_TUN_NAME);
	to_raw(ends[0].qp, FIRST, 1);
	MUST(weft_adapter_close(bridge));
	end_close(&ends[0]);
	fabric_bed_close();
}

/* ---- RAW-02: a bridge ------------------------------------------------------------------------ */

/* The host's packet to an address; why it did not go. */
static enum weft_reason host_sends(const uint8_t to[16])
{
	struct weft_roce_counts before, after;
	uint8_t packet[PACKET];
	struct roce *roce;

	packet_write(packet, FIRST, 0);
	memcpy(packet + 24, to, 16);
	MUST(weft_roce_query(ends[0].adapter, &before));
	adapter_enter(ends[0].adapter);
	MUST(roce_get(ends[0].adapter, &roce));
	roce_line_bridge(roce, packet, sizeof(packet));
	roce_line_flush(roce);
	adapter_leave(ends[0].adapter);
	MUST(weft_roce_query(ends[0].adapter, &after));
	return after.refused > before.refused ? after.refused_for : WEFT_OK;
}

/* Asks again while the bridge may not ask the fabric. */
static enum weft_reason host_sends_in_time(const uint8_t to[16])
{
	enum weft_reason r = host_sends(to);

	while (r == WEFT_R_BUSY)
		r = host_sends(to);
	return r;
}

TEST(test_raw_02_bridge_knows_ports_of_its_subnet_and_asks_seldom)
{
	const struct weft_path path = fabric_bed_path(0, 1, true);
	uint8_t group[16] = { 0xff, 2, [15] = 1 }, far[16], none[16];
	bool was_busy = false;

	datagrams_open();
	memcpy(far, path.to.ip, sizeof(far));
	memcpy(none, path.to.ip, sizeof(none));
	far[7] ^= 1;
	none[14] ^= 0x40;
	EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
	EXPECT_EQ(host_sends_in_time(none), WEFT_R_PEER_UNKNOWN);
	EXPECT_EQ(host_sends_in_time(path.from.ip), WEFT_R_PEER_UNKNOWN);
	/* The first is asked for; those that follow at once are not. */
	for (int i = 0; i < 1000 && !was_busy; i++) {
		EXPECT_EQ(host_sends(group), WEFT_R_PEER_UNKNOWN);
		EXPECT_EQ(host_sends(far), WEFT_R_PEER_UNKNOWN);
		none[8] = (uint8_t)i;
		none[9] = (uint8_t)(i >> 8 | 0x80);
		was_busy = host_sends(none) == WEFT_R_BUSY;
	}
	EXPECT(was_busy);
	datagrams_close();
}

/* Bound: the ring has room for fewer. Late, when the bridge would have to ask: tried anew. */
TEST(test_raw_02_bridge_says_when_there_is_no_room)
{
	enum { TRIES = 20, PACKETS_MAX = 1 << 15 };
	const struct weft_path path = fabric_bed_path(0, 1, true);
	enum weft_reason r = WEFT_OK;

	datagrams_open();
	for (int i = 0; i < TRIES && r != WEFT_R_QUEUE_FULL; i++) {
		EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
		fabric_bed_hold();
		r = WEFT_OK;
		for (int n = 0; n < PACKETS_MAX && r == WEFT_OK; n++)
			r = host_sends(path.to.ip);
		fabric_bed_release();
	}
	EXPECT_EQ(r, WEFT_R_QUEUE_FULL);
	datagrams_close();
}

/* FAB-13: the ring of a fabric that does not read is full, so the last words have no room. */
TEST(test_fab_13_adapter_closes_though_the_fabric_does_not_read)
{
	enum { PACKETS_MAX = 1 << 15 };
	const struct weft_path path = fabric_bed_path(0, 1, true);
	enum weft_reason r = WEFT_R_BUSY;

	datagrams_open();
	EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
	fabric_bed_hold();
	for (int n = 0; n < PACKETS_MAX && r != WEFT_R_QUEUE_FULL; n++)
		r = host_sends(path.to.ip);
	EXPECT_EQ(r, WEFT_R_QUEUE_FULL);
	end_close(&ends[0]);
	fabric_bed_release();
	end_close(&ends[1]);
	fabric_bed_close();
}

/* What the connection manager knows of a peer stays, whatever the bridge looks for. */
TEST(test_raw_02_bridge_leaves_routes_of_the_connection_manager)
{
	const struct weft_path path = fabric_bed_path(0, 1, true);
	struct weft_path told = { .to = path.to };
	struct ib_path known;
	struct roce *roce;

	datagrams_open();
	MUST(roce_path_of(&path, &known));
	adapter_enter(ends[0].adapter);
	MUST(roce_get(ends[0].adapter, &roce));
	roce_line_learn(roce, &known);
	adapter_leave(ends[0].adapter);
	EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
	roce_line_tell(roce, &told);
	EXPECT_EQ(told.to_lid, path.to_lid);
	EXPECT_EQ(told.service_level, path.service_level);
	datagrams_close();
}

TEST(test_raw_03_number_of_raw_packets_is_no_service)
{
	struct roce *roce;

	end_open(&ends[0], 0, WEFT_UD);
	adapter_enter(ends[0].adapter);
	MUST(roce_get(ends[0].adapter, &roce));
	EXPECT_EQ(roce_line_claim(roce, UINT64_MAX), WEFT_R_BAD_ARGUMENT);
	adapter_leave(ends[0].adapter);
	end_close(&ends[0]);
	fabric_bed_close();
}
