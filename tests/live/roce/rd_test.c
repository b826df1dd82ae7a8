/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams on UDP between two adapters of a process: what they do, and do not. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/roce/roce.h"
#include "driver/udp/udp_inside.h"
#include "ib/ee.h"
#include "live/roce/rd_fixture.h"
#include "own_network.h"

enum { A = 0, B = 1, HALF = RD_BYTES / 2, LONG = 20000 };

static struct rd_node nodes[2];

/* Two adapters, each with a context towards the other, and three queue pairs. */
static bool world_open(void)
{
	const char *why_not = own_network_enter();

	if (why_not) {
		harness_skip(why_not);
		return false;
	}
	for (int i = 0; i < 2; i++) {
		rd_node_open(&nodes[i], i);
		rd_ee_open(&nodes[i], !i, TIMEOUT_LONG);
		for (int k = 0; k < PROCESSES; k++)
			rd_qp_open(&nodes[i], RD_KEY, RD_DOMAIN);
	}
	for (int i = 0; i < 2; i++)
		rd_ee_join(&nodes[i], !i, &nodes[!i].card);
	return true;
}

static void world_close(void)
{
	for (int i = 0; i < 2; i++)
		rd_node_close(&nodes[i]);
}

static void fill(uint8_t *bytes, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static enum weft_reason post(uint32_t from, uint32_t to, struct rd_word word)
{
	word.dest = word.dest ? word.dest : nodes[B].card.qps[to];
	return rd_post(&nodes[A], from, B, &nodes[B].card, &word);
}

static void ends_well(uint64_t id)
{
	struct weft_completion c = rd_take(&nodes[A]);

	EXPECT_EQ(c.reason, WEFT_OK);
	EXPECT_EQ(c.id, id);
}

static enum weft_qp_state state_of(struct weft_qp *qp)
{
	struct weft_qp_attr attr;

	MUST(weft_qp_query(qp, &attr));
	return attr.state;
}

static struct weft_roce_counts counts_of(int node)
{
	struct weft_roce_counts counts;

	MUST(weft_roce_query(nodes[node].adapter, &counts));
	return counts;
}

/* What the core has of it, and what the driver has. */
TEST(test_rd_02_a_context_on_udp_costs_no_more_than_4_kib)
{
	EXPECT(sizeof(struct ib_ee) + sizeof(struct roce_ee) + sizeof(struct udp_flow) <= 4096);
}

/* ---- What they do --------------------------------------------------------------------------- */

/* RD-01, RD-04: any to any by one pair of contexts, and each receive says who sent it. */
static void send_one(uint32_t from, uint32_t to)
{
	uint32_t seed = from * PROCESSES + to + 1;
	struct weft_completion c;

	fill(nodes[A].memory, LONG, seed);
	rd_receive(&nodes[B], nodes[B].qps[to], seed, HALF, LONG);
	MUST(post(from, to, (struct rd_word){ .opcode = WEFT_OP_SEND, .id = 1, .length = LONG }));
	ends_well(1);
	c = rd_take(&nodes[B]);
	EXPECT_EQ(c.status, WEFT_SUCCESS);
	EXPECT_EQ(c.id, seed);
	EXPECT_EQ(c.qp_number, nodes[B].card.qps[to]);
	EXPECT_EQ(c.src_qp_number, nodes[A].card.qps[from]);
	EXPECT_EQ(c.src_ee_number, nodes[B].card.ees[A]);
	EXPECT_EQ(c.byte_count, LONG);
	EXPECT_MEM(nodes[B].memory + HALF, nodes[A].memory, LONG);
}

static void write_and_read_one(uint32_t from, uint32_t to)
{
	fill(nodes[A].memory, LONG, 100 + from * PROCESSES + to);
	MUST(post(from, to, (struct rd_word){ .opcode = WEFT_OP_WRITE, .id = 2, .length = LONG }));
	ends_well(2);
	rd_look(&nodes[B]);
	EXPECT_MEM(nodes[B].memory, nodes[A].memory, LONG);
	MUST(post(from, to,
		  (struct rd_word){ .opcode = WEFT_OP_READ, .id = 3, .at = HALF, .length = LONG }));
	ends_well(3);
	EXPECT_MEM(nodes[A].memory + HALF, nodes[B].memory, LONG);
}

static void add_one(uint32_t from, uint32_t to, uint64_t *sum)
{
	uint64_t was, now;

	MUST(post(from, to,
		  (struct rd_word){ .opcode = WEFT_OP_FETCH_ADD,
				    .id = 4,
				    .there = RD_BYTES - 8,
				    .length = 8,
				    .compare_add = 5 }));
	ends_well(4);
	memcpy(&was, nodes[A].memory, 8);
	EXPECT_EQ(was, *sum);
	MUST(post(from, to,
		  (struct rd_word){ .opcode = WEFT_OP_COMPARE_SWAP,
				    .id = 5,
				    .there = RD_BYTES - 8,
				    .length = 8,
				    .compare_add = *sum + 5,
				    .swap = *sum + 6 }));
	ends_well(5);
	rd_look(&nodes[B]);
	memcpy(&now, nodes[B].memory + RD_BYTES - 8, 8);
	EXPECT_EQ(now, *sum + 6);
	*sum += 6;
}

TEST(test_rd_01_rd_02_rd_04_three_to_three_by_one_context_on_udp)
{
	uint64_t sum = 0;
	struct weft_usage usage;

	if (!world_open())
		return;
	for (uint32_t from = 0; from < PROCESSES; from++) {
		for (uint32_t to = 0; to < PROCESSES; to++) {
			send_one(from, to);
			write_and_read_one(from, to);
			add_one(from, to, &sum);
		}
	}
	EXPECT_EQ(sum, 6 * PROCESSES * PROCESSES);
	MUST(weft_adapter_query(nodes[A].adapter, &usage));
	EXPECT_EQ(usage.qps, PROCESSES);
	EXPECT_EQ(usage.ees, 1);
	/* The contexts have flows: no process had to hand on another's packets. */
	EXPECT_EQ(counts_of(A).handed_in + counts_of(B).handed_in, 0);
	world_close();
}

/* A Send waits for its receive, and others of the context do not wait for it. */
TEST(test_rd_01_a_receiver_that_is_not_ready_holds_up_no_other_on_udp)
{
	const struct rd_word send = { .opcode = WEFT_OP_SEND, .id = 1, .length = 100 };
	const struct rd_word write = { .opcode = WEFT_OP_WRITE, .id = 2, .length = 100 };

	if (!world_open())
		return;
	MUST(post(0, 0, send));
	for (int i = 0; i < 10; i++) {
		MUST(post(1, 0, write));
		ends_well(2);
	}
	rd_receive(&nodes[B], nodes[B].qps[0], 7, HALF, 100);
	ends_well(1);
	EXPECT_EQ(rd_take(&nodes[B]).id, 7);
	EXPECT(counts_of(A).rnrs_in > 0);
	world_close();
}

/* ---- What they do not ----------------------------------------------------------------------- */

/* Refused by the other end: the queue pair stops, and goes on when told; the context goes on. */
static void is_refused(struct rd_word word, enum weft_reason why)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct weft_completion c;

	word.opcode = WEFT_OP_WRITE;
	word.length = 8;
	word.id = 6;
	MUST(post(0, 0, word));
	c = rd_take(&nodes[A]);
	EXPECT_EQ(c.id, 6);
	EXPECT_EQ(c.status, WEFT_ERR_PEER_GONE);
	EXPECT_EQ(c.reason, WEFT_R_PEER_UNKNOWN);
	EXPECT_EQ(counts_of(B).dropped_for, why);
	EXPECT_EQ(state_of(nodes[A].qps[0]), WEFT_QPS_SQE);
	write_and_read_one(1, 1);
	MUST(weft_qp_modify(nodes[A].qps[0], &rts, WEFT_QP_STATE));
	write_and_read_one(0, 0);
}

TEST(test_rd_04_wrong_keys_domains_and_numbers_are_refused_on_udp)
{
	struct weft_qp *outside, *foreign;
	struct weft_ee_attr attr;

	if (!world_open())
		return;
	outside = rd_qp_open(&nodes[B], RD_KEY, RD_DOMAIN + 1);
	foreign = rd_qp_open(&nodes[A], RD_KEY, RD_DOMAIN + 1);
	is_refused((struct rd_word){ .q_key = RD_KEY + 1 }, WEFT_R_IB_QKEY);
	is_refused((struct rd_word){ .dest = weft_qp_number(outside) }, WEFT_R_IB_RDD);
	is_refused((struct rd_word){ .dest = nodes[B].card.qps[0] + 1000 }, WEFT_R_PEER_UNKNOWN);
	/* Of this end what is wrong is known at once. */
	EXPECT_EQ(post(PROCESSES, 0, (struct rd_word){ .opcode = WEFT_OP_SEND }), WEFT_R_IB_RDD);
	EXPECT_EQ(state_of(foreign), WEFT_QPS_RTS);
	MUST(weft_ee_query(nodes[A].ees[B], &attr));
	EXPECT_EQ(attr.reason, WEFT_OK);
	EXPECT_EQ(attr.number, nodes[A].card.ees[B]);
	EXPECT_EQ(attr.peer_number, nodes[B].card.ees[A]);
	EXPECT_EQ(attr.rdd, RD_DOMAIN);
	EXPECT_EQ(attr.to.family, 4);
	EXPECT_MEM(attr.to.ip, ((const uint8_t[]){ 127, 0, 0, 1 }), 4);
	world_close();
}

TEST(test_rd_02_bad_contexts_are_refused)
{
	const struct weft_address six = { .family = 6, .ip = { [15] = 1 } };
	struct weft_ee_options o = rd_ee_options(TIMEOUT_LONG);
	struct weft_ee_attr attr;
	struct weft_ee *ee = NULL;
	struct rd_node *n = &nodes[A];

	if (!world_open())
		return;
	EXPECT_EQ(weft_ee_create(NULL, &o, &ee), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ee_create(n->adapter, NULL, &ee), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ee_create(n->adapter, &o, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ee_connect(NULL, 1, 0), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ee_query(NULL, &attr), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ee_query(n->ees[B], NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ee_destroy(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ee_number(NULL), 0);
	o.path.mtu_bytes = 0;
	EXPECT_EQ(weft_ee_create(n->adapter, &o, &ee), WEFT_R_BAD_ARGUMENT);
	o.path.mtu_bytes = 1024;
	o.path.to = six;
	EXPECT_EQ(weft_ee_create(n->adapter, &o, &ee), WEFT_R_ADDRESS);
	EXPECT(!ee);
	/* An address that this host has not: known when the way is looked for. */
	o = rd_ee_options(TIMEOUT_LONG);
	o.path.from.ip[0] = 192;
	MUST(weft_ee_create(n->adapter, &o, &ee));
	EXPECT_EQ(weft_ee_connect(ee, nodes[B].card.ees[A], 0), WEFT_R_ADDRESS);
	MUST(weft_ee_destroy(ee));
	EXPECT_EQ(weft_ee_connect(n->ees[B], nodes[B].card.ees[A], 0), WEFT_R_QP_CONNECTED);
	o = rd_ee_options(TIMEOUT_LONG);
	MUST(weft_ee_create(n->adapter, &o, &ee));
	EXPECT_EQ(weft_ee_connect(ee, 0, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_ee_connect(ee, 1, WEFT_PSN_MAX + 1), WEFT_R_BAD_ARGUMENT);
	MUST(weft_ee_query(ee, &attr));
	EXPECT_EQ(attr.peer_number, 0);
	MUST(weft_ee_destroy(ee));
	world_close();
}

/* ---- Life ----------------------------------------------------------------------------------- */

/* What waits for a context that goes ends; what names it later is refused likewise. */
TEST(test_rd_02_a_context_that_goes_ends_what_waits_for_it)
{
	struct rd_node *n = &nodes[A];
	struct weft_completion c;
	struct weft_usage usage;

	if (!world_open())
		return;
	/* No receive is there, so the first never ends; the second is behind it in its queue. */
	for (uint32_t i = 0; i < 2; i++)
		MUST(post(0, 0, (struct rd_word){ .opcode = WEFT_OP_SEND, .id = i, .length = 1 }));
	MUST(weft_ee_destroy(n->ees[B]));
	n->ees[B] = NULL;
	c = rd_take(n);
	EXPECT_EQ(c.id, 0);
	EXPECT_EQ(c.status, WEFT_ERR_PEER_GONE);
	c = rd_take(n);
	EXPECT_EQ(c.id, 1);
	EXPECT_EQ(c.status, WEFT_ERR_FLUSHED);
	EXPECT_EQ(state_of(n->qps[0]), WEFT_QPS_SQE);
	MUST(weft_adapter_query(n->adapter, &usage));
	EXPECT_EQ(usage.ees, 0);
	/* Another takes its place, and the queue pairs go on by it. */
	MUST(weft_qp_modify(n->qps[0], &(struct weft_qp_attr){ .state = WEFT_QPS_RTS },
			    WEFT_QP_STATE));
	MUST(weft_ee_destroy(nodes[B].ees[A]));
	rd_ee_open(&nodes[A], B, TIMEOUT_LONG);
	rd_ee_open(&nodes[B], A, TIMEOUT_LONG);
	rd_ee_join(&nodes[A], B, &nodes[B].card);
	rd_ee_join(&nodes[B], A, &nodes[A].card);
	write_and_read_one(0, 2);
	world_close();
}

/* Requests may be posted before the context is connected; they wait. */
TEST(test_rd_02_requests_wait_until_the_context_is_connected)
{
	if (!world_open())
		return;
	for (int i = 0; i < 2; i++) {
		MUST(weft_ee_destroy(nodes[i].ees[!i]));
		rd_ee_open(&nodes[i], !i, TIMEOUT_LONG);
	}
	fill(nodes[A].memory, LONG, 9);
	MUST(post(0, 0, (struct rd_word){ .opcode = WEFT_OP_WRITE, .id = 1, .length = LONG }));
	for (int i = 0; i < 2; i++)
		rd_ee_join(&nodes[!i], i, &nodes[i].card);
	ends_well(1);
	rd_look(&nodes[B]);
	EXPECT_MEM(nodes[B].memory, nodes[A].memory, LONG);
	world_close();
}

TEST(test_rd_02_an_adapter_with_contexts_is_busy)
{
	struct weft_adapter *a;
	const struct weft_ee_options o = rd_ee_options(TIMEOUT_LONG);
	struct weft_ee *ee;
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_ee_create(a, &o, &ee)); /* which opens the port */
	EXPECT_EQ(weft_adapter_close(a), WEFT_R_BUSY);
	MUST(weft_ee_destroy(ee));
	MUST(weft_adapter_close(a));
}

/* A child has the parent's contexts only to destroy them, and the parent's go on. */
TEST(test_rd_02_a_child_of_fork_only_destroys)
{
	const struct weft_ee_options o = rd_ee_options(TIMEOUT_LONG);
	struct weft_ee *ee, *other = NULL;
	int status;
	pid_t child;

	if (!world_open())
		return;
	MUST(weft_ee_create(nodes[A].adapter, &o, &ee));
	write_and_read_one(0, 0);
	child = fork();
	if (child == 0) {
		harness_in_child();
		REQUIRE(weft_ee_create(nodes[A].adapter, &o, &other) == WEFT_R_SYSTEM);
		REQUIRE(weft_ee_connect(ee, 1, 0) == WEFT_R_SYSTEM);
		MUST(weft_ee_destroy(ee));
		world_close();
		_exit(0);
	}
	REQUIRE(child > 0);
	EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
	write_and_read_one(0, 0);
	MUST(weft_ee_destroy(ee));
	world_close();
}
