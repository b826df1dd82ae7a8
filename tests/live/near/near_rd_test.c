/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams between adapters of one host, by shared memory. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ib/ib.h"
#include "live/roce/rd_fixture.h"
#include "own_network.h"

enum { A = 0, B = 1, HALF = RD_BYTES / 2, LONG = 20000, TIMEOUT_NEVER = 0 };

static struct rd_node node, other;

#define NODES_OR_SKIP(wish)                                                                        \
	do {                                                                                       \
		const char *why = own_network_enter();                                             \
		if (why)                                                                           \
			SKIP(why);                                                                 \
		REQUIRE(setenv("WEFT_NEAR", wish, 1) == 0);                                        \
	} while (0)

static void node_open(struct rd_node *n, int self)
{
	memset(n, 0, sizeof(*n));
	rd_node_open(n, self);
	rd_ee_open(n, !self, TIMEOUT_NEVER);
	rd_qp_open(n, RD_KEY, RD_DOMAIN);
}

static struct weft_roce_counts counts_of(const struct rd_node *n)
{
	struct weft_roce_counts counts;

	MUST(weft_roce_query(n->adapter, &counts));
	return counts;
}

static void post(enum weft_opcode opcode, uint32_t length, const struct card *to)
{
	const struct rd_word word = { .dest = to->qps[0], .opcode = opcode, .length = length };

	MUST(rd_post(&node, 0, B, to, &word));
}

/* A Send and a Write of many packets, and their answers. */
static void expect_traffic(void)
{
	for (int i = 0; i < LONG; i++)
		node.memory[i] = (uint8_t)(i * 7 + i / 256);
	rd_receive(&other, other.qps[0], 9, HALF, LONG);
	post(WEFT_OP_SEND, LONG, &other.card);
	MUST_EQ(rd_take(&node).status, WEFT_SUCCESS);
	MUST_EQ(rd_take(&other).byte_count, LONG);
	EXPECT_MEM(other.memory + HALF, node.memory, LONG);
	post(WEFT_OP_WRITE, LONG, &other.card);
	MUST_EQ(rd_take(&node).status, WEFT_SUCCESS);
	rd_look(&other);
	EXPECT_MEM(other.memory, node.memory, LONG);
}

static void expect_traffic_between_two(void)
{
	node_open(&node, A);
	node_open(&other, B);
	rd_ee_join(&node, B, &other.card);
	rd_ee_join(&other, A, &node.card);
	expect_traffic();
}

TEST(test_near_contexts_go_by_shared_memory)
{
	struct weft_roce_counts n;

	NODES_OR_SKIP("on");
	expect_traffic_between_two();
	n = counts_of(&node);
	EXPECT(n.packets_out > 2 * LONG / 1024 && n.packets_in > 0);
	EXPECT_EQ(n.near_out, n.packets_out);
	EXPECT_EQ(n.near_in, n.packets_in);
	EXPECT_EQ(n.calls_out + n.near_lost + n.dropped, 0);
	EXPECT(ib_is_near(ib_conn_of(node.qps[0])) && ib_is_near(ib_conn_of(other.qps[0])));
	rd_node_close(&node);
	rd_node_close(&other);
}

TEST(test_near_contexts_go_by_udp_where_it_is_off)
{
	NODES_OR_SKIP("off");
	expect_traffic_between_two();
	EXPECT_EQ(counts_of(&node).near_out + counts_of(&node).near_in, 0);
	EXPECT(counts_of(&node).calls_out > 0);
	EXPECT(!ib_is_near(ib_conn_of(node.qps[0])) && !ib_is_near(ib_conn_of(other.qps[0])));
	rd_node_close(&node);
	rd_node_close(&other);
}

/* ---- Processes ------------------------------------------------------------------------------ */

struct process {
	pid_t pid;
	int to[2], from[2];
	struct card card;
};

/* Joins its peer, says so, and only serves. */
static _Noreturn void process_run(int in, int out)
{
	struct card peer;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test may have failed */
	node_open(&other, B);
	REQUIRE(write(out, &other.card, sizeof(other.card)) == sizeof(other.card));
	REQUIRE(read(in, &peer, sizeof(peer)) == sizeof(peer));
	rd_ee_join(&other, A, &peer);
	REQUIRE(write(out, &peer, 1) == 1);
	for (;;)
		pause();
}

/* A context towards it that waits for answers for ever; a Write has been answered. */
static void process_meet(struct process *p)
{
	char joined;

	REQUIRE(pipe(p->to) == 0 && pipe(p->from) == 0);
	p->pid = fork();
	REQUIRE(p->pid >= 0);
	if (p->pid == 0)
		process_run(p->to[0], p->from[1]);
	node_open(&node, A);
	REQUIRE(read(p->from[0], &p->card, sizeof(p->card)) == sizeof(p->card));
	REQUIRE(write(p->to[1], &node.card, sizeof(node.card)) == sizeof(node.card));
	REQUIRE(read(p->from[0], &joined, 1) == 1);
	rd_ee_join(&node, B, &p->card);
	post(WEFT_OP_WRITE, LONG, &p->card);
	MUST_EQ(rd_take(&node).status, WEFT_SUCCESS);
}

static void process_stop(const struct process *p)
{
	int status;

	REQUIRE(kill(p->pid, SIGSTOP) == 0);
	REQUIRE(waitpid(p->pid, &status, WUNTRACED) == p->pid && WIFSTOPPED(status));
}

static void process_kill(struct process *p)
{
	REQUIRE(kill(p->pid, SIGKILL) == 0 && waitpid(p->pid, NULL, 0) == p->pid);
	for (int i = 0; i < 2; i++) {
		close(p->to[i]);
		close(p->from[i]);
	}
}

/* Without a timeout only its end ends the request, which it never answers. */
TEST(test_near_killed_process_fails_its_context)
{
	struct process p;
	struct weft_ee_attr attr;

	NODES_OR_SKIP("on");
	process_meet(&p);
	process_stop(&p);
	post(WEFT_OP_WRITE, LONG, &p.card);
	process_kill(&p);
	MUST_EQ(rd_take(&node).status, WEFT_ERR_PEER_GONE);
	MUST(weft_ee_query(node.ees[B], &attr));
	EXPECT_EQ(attr.reason, WEFT_R_PEER_GONE);
	rd_node_close(&node);
}
