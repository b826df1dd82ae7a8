/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP-S3: processes, each with an adapter of its own, contend for words of another process's memory
 * over a network.
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { CONTENDERS = 4, EACH = 200, ALL = CONTENDERS * EACH, ROUNDS = 50 };

/* What the target tells a contender. */
struct target {
	struct weft_address at;
	uint32_t qp_number;
	struct node memory; /* of it only tag and address mean something elsewhere */
};

/* Shared by all processes. */
struct contest {
	atomic_uint arrived;	     /* at the rounds, by all contenders together */
	atomic_uint old[ALL];	     /* times that a fetch-and-add got this value */
	atomic_uint winners[ROUNDS]; /* of a compare-and-swap, and who it was */
	atomic_uint winner[ROUNDS];
};

struct contender {
	pid_t pid;
	int to[2], from[2];
	uint32_t number;
};

/* ---- A contender: a process of its own ------------------------------------------------------- */

/* In the child, whose failure must not look like the test's. */
static void child_must(bool is_so)
{
	if (!is_so)
		_exit(1);
}

static void wait_for_all(struct contest *contest, uint32_t round)
{
	uint64_t start = thread_now_ns();

	atomic_fetch_add(&contest->arrived, 1);
	while (atomic_load(&contest->arrived) < CONTENDERS * (round + 1)) {
		child_must(thread_now_ns() - start < PATIENCE_NS);
		sched_yield();
	}
}

/* The old value. */
static uint64_t fetch(struct node *n, const struct node *from, struct weft_send_wr wr)
{
	const struct weft_sge s = node_seg(n, 0, 8);
	struct weft_completion c;
	uint64_t old;

	wr.flags = WEFT_SIGNALLED;
	wr.sges = &s;
	wr.sge_count = 1;
	wr.remote_tag = from->tag;
	wr.remote_addr += (uintptr_t)from->memory;
	child_must(node_post(n, &wr) && node_take(n->cq, &c));
	memcpy(&old, n->memory, sizeof(old));
	return old;
}

/* Word 0 counts, words 1 to ROUNDS are each taken once. */
static void contend(struct node *n, const struct node *target, uint32_t number,
		    struct contest *contest)
{
	wait_for_all(contest, 0);
	for (int i = 0; i < EACH; i++) {
		uint64_t old = fetch(
			n, target,
			(struct weft_send_wr){ .opcode = WEFT_OP_FETCH_ADD, .compare_add = 1 });

		child_must(old < ALL);
		atomic_fetch_add(&contest->old[old], 1);
	}
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint64_t old;

		wait_for_all(contest, 1 + round);
		old = fetch(n, target,
			    (struct weft_send_wr){ .opcode = WEFT_OP_COMPARE_SWAP,
						   .remote_addr = 8 * (1 + (uint64_t)round),
						   .swap = number });
		if (old == 0) {
			atomic_fetch_add(&contest->winners[round], 1);
			atomic_store(&contest->winner[round], number);
		} else {
			child_must(old <= CONTENDERS && old != number);
		}
	}
}

static void child_run(const struct contender *me, bool is_roce, struct contest *contest)
{
	struct target target;
	struct tcp_end end;
	uint32_t qp_number;

	tcp_end_open(&end);
	if (is_roce)
		tcp_end_open_roce(&end);
	qp_number = weft_qp_number(end.node.qp);
	child_must(write(me->from[1], &qp_number, sizeof(qp_number)) == sizeof(qp_number));
	child_must(read(me->to[0], &target, sizeof(target)) == sizeof(target));
	if (is_roce) {
		const struct weft_roce_attr way = roce_way(target.qp_number);

		roce_start(end.node.qp, &way);
	} else {
		child_must(weft_qp_dial(end.node.qp, &target.at, NULL) == WEFT_OK);
		child_must(tcp_end_await(&end, WEFT_EVENT_CONNECTED) == WEFT_OK);
	}
	contend(&end.node, &target.memory, me->number, contest);
	_exit(0);
}

/* ---- The target ----------------------------------------------------------------------------- */

static void contender_start(struct contender *c, bool is_roce, struct contest *contest)
{
	REQUIRE(pipe(c->to) == 0 && pipe(c->from) == 0);
	c->pid = fork();
	if (c->pid == 0)
		child_run(c, is_roce, contest);
	REQUIRE(c->pid > 0);
}

/* Gives the contender a queue pair of the target to talk to. */
static void admit(struct tcp_end *end, struct node *n, const struct contender *c, bool is_roce)
{
	struct target target = {
		.at = end->at,
		.qp_number = weft_qp_number(n->qp),
		.memory = *n,
	};
	uint32_t peer;

	REQUIRE(read(c->from[0], &peer, sizeof(peer)) == sizeof(peer));
	if (is_roce) {
		const struct weft_roce_attr way = roce_way(peer);

		roce_start(n->qp, &way);
	}
	REQUIRE(write(c->to[1], &target, sizeof(target)) == sizeof(target));
	if (!is_roce) {
		tcp_end_await(end, WEFT_EVENT_REQUEST);
		MUST(weft_request_accept(tcp_end_request(end), n->qp, NULL));
		MUST(tcp_end_await(end, WEFT_EVENT_CONNECTED));
	}
}

static void contender_end(struct contender *c)
{
	int status;

	REQUIRE(waitpid(c->pid, &status, 0) == c->pid);
	REQUIRE(WIFEXITED(status));
	MUST_EQ(WEXITSTATUS(status), 0);
	for (int i = 0; i < 2; i++) {
		close(c->to[i]);
		close(c->from[i]);
	}
}

static void judge(const struct contest *contest, const struct node *memory)
{
	uint64_t words[1 + ROUNDS];

	memcpy(words, memory->memory, sizeof(words));
	EXPECT_EQ(words[0], ALL);
	for (int i = 0; i < ALL; i++)
		EXPECT_EQ(atomic_load(&contest->old[i]), 1);
	for (int round = 0; round < ROUNDS; round++) {
		EXPECT_EQ(atomic_load(&contest->winners[round]), 1);
		EXPECT_EQ(words[1 + round], atomic_load(&contest->winner[round]));
	}
}

static void contest_run(bool is_roce)
{
	struct contest *contest = mmap(NULL, sizeof(*contest), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct contender contenders[CONTENDERS];
	struct node nodes[CONTENDERS];
	struct weft_usage usage;
	struct tcp_end end;

	REQUIRE(contest != MAP_FAILED);
	/* Before there is an adapter: a child has none of its parent's. */
	for (uint32_t i = 0; i < CONTENDERS; i++) {
		contenders[i].number = 1 + i;
		contender_start(&contenders[i], is_roce, contest);
	}
	tcp_end_open(&end);
	if (is_roce)
		tcp_end_open_roce(&end);
	for (int i = 0; i < CONTENDERS; i++) {
		node_open(end.adapter, &nodes[i], &end.node);
		admit(&end, &nodes[i], &contenders[i], is_roce);
	}
	for (int i = 0; i < CONTENDERS; i++)
		contender_end(&contenders[i]);
	/* Behind the adapter's thread, which has written to the memory. */
	MUST(weft_adapter_query(end.adapter, &usage));
	judge(contest, &end.node);
	for (int i = 0; i < CONTENDERS; i++)
		node_close(&nodes[i], &end.node);
	tcp_end_close(&end);
	munmap(contest, sizeof(*contest));
}

TEST(test_qp_07d_qp_s3_processes_contend_for_words_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	contest_run(true);
}

TEST(test_qp_07d_qp_s3_processes_contend_for_words_over_tcp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	contest_run(false);
}
