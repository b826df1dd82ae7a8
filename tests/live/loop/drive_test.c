/* SPDX-License-Identifier: BSD-2-Clause */
/* weft_adapter_drive(): while the program has promised to poll or wait, weft's own thread rests. */
#include "live/verbs_fixture.h"

enum { ROUNDS = 50 };

static const uint64_t moment_ns = UINT64_C(300) * 1000 * 1000;

static struct tcp_end near, far;

/* Reads of the far memory, which the far adapter must serve. */
static void read_begin(uint64_t id)
{
	struct weft_sge sink = node_seg(&near.node, 0, 8);
	struct weft_send_wr wr = node_wr(WEFT_OP_READ, id, &sink, &far.node);

	REQUIRE(node_post(&near.node, &wr));
}

/* Whether it ends within that time; the near adapter is polled, the far one is not. */
static bool has_ended(uint64_t id, uint64_t timeout_ns)
{
	uint64_t end_ns = thread_now_ns() + timeout_ns;
	struct weft_completion c = { 0 };
	bool has = false;

	while (!has && thread_now_ns() < end_ns)
		REQUIRE(node_poll(near.node.cq, &c, &has));
	REQUIRE(!has || (c.id == id && c.status == WEFT_SUCCESS));
	return has;
}

/* Sleeps as it has promised until it is told to end. */
static void *driver_run(void *argument)
{
	atomic_bool *is_over = argument;

	while (!atomic_load(is_over))
		HOLDS(weft_cq_wait(far.node.cq, -1, 1000 * 1000, NULL) == WEFT_OK);
	return NULL;
}

static void *reader_run(void *argument)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct weft_sge sink = node_seg(&near.node, 0, 8);
		struct weft_send_wr wr = node_wr(WEFT_OP_READ, i, &sink, &far.node);
		struct weft_completion c;

		HOLDS(node_post(&near.node, &wr) && node_take(near.node.cq, &c) && c.id == i);
	}
	atomic_store((atomic_bool *)argument, true);
	return NULL;
}

static void *either_run(void *argument)
{
	void **of = argument;

	return ((void *(*)(void *))of[0])(of[1]);
}

/* Until weft's thread rests, it may serve the far adapter. The last Read is not served. */
static uint64_t read_until_unserved(void)
{
	uint64_t id = 0, end_ns = thread_now_ns() + PATIENCE_NS;

	do {
		REQUIRE(thread_now_ns() < end_ns);
		read_begin(++id);
	} while (has_ended(id, moment_ns));
	return id;
}

TEST(test_qp_10_the_thread_rests_though_the_program_never_waited)
{
	uint64_t id;

	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
	MUST(weft_adapter_drive(far.adapter, true));
	id = read_until_unserved();
	MUST(weft_adapter_drive(far.adapter, false));
	EXPECT(has_ended(id, PATIENCE_NS));
	tcp_end_close(&near);
	tcp_end_close(&far);
}

TEST(test_qp_10_a_program_that_drives_its_adapter_serves_peers_alone)
{
	atomic_bool is_over = false;
	uint64_t id;
	void *drives[] = { (void *)driver_run, &is_over },
	     *reads[] = { (void *)reader_run, &is_over };

	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
	MUST(weft_adapter_drive(far.adapter, true));
	threads_run(either_run, (void *[]){ drives, reads }, 2);
	/* The promise is broken: nothing serves the peer. */
	id = read_until_unserved();
	/* It is kept again. */
	for (int i = 0; i < ROUNDS && !has_ended(id, moment_ns / ROUNDS); i++)
		MUST(weft_cq_wait(far.node.cq, -1, moment_ns / ROUNDS, NULL));
	/* It is taken back: weft's thread serves the peer. */
	MUST(weft_adapter_drive(far.adapter, false));
	read_begin(++id);
	EXPECT(has_ended(id, PATIENCE_NS));
	tcp_end_close(&near);
	tcp_end_close(&far);
}
