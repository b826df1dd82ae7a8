/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that work on one adapter at the same time, on shared objects and on their own. */
#include <sched.h>
#include <string.h>

#include "driver/loop/adapter_lock.h"
#include "live/verbs_fixture.h"

enum { THREADS = 4, EACH = 400, WORDS = 64 };

/* ---- Own queue pairs ------------------------------------------------------------------------ */

struct own {
	struct node a, b;
	uint8_t seed;
};

/* Write, read back into another place, send; each awaited and compared. */
static void *own_run(void *argument)
{
	struct own *o = argument;

	for (uint64_t i = 0; i < EACH; i++) {
		const struct weft_sge out = node_seg(&o->a, 0, 512);
		const struct weft_sge back = node_seg(&o->a, 1024, 512);
		const struct weft_sge in = node_seg(&o->b, 2048, 512);
		const struct weft_recv_wr recv = { .id = i, .sges = &in, .sge_count = 1 };
		struct weft_completion c;
		struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, i, &out, &o->b);

		memset(o->a.memory, (int)(o->seed + i), 512);
		HOLDS(node_post(&o->a, &wr));
		HOLDS(node_take(o->a.cq, &c) && c.id == i && c.opcode == WEFT_OP_WRITE);
		wr = node_wr(WEFT_OP_READ, i, &back, &o->b);
		HOLDS(node_post(&o->a, &wr));
		HOLDS(node_take(o->a.cq, &c) && c.id == i && c.byte_count == 512);
		HOLDS(memcmp(o->a.memory, o->a.memory + 1024, 512) == 0);
		HOLDS(weft_qp_post_recv(o->b.qp, &recv, 1, NULL) == WEFT_OK);
		wr = node_wr(WEFT_OP_SEND, i, &out, &o->b);
		HOLDS(node_post(&o->a, &wr));
		HOLDS(node_take(o->b.cq, &c) && c.id == i && c.opcode == WEFT_OP_RECV);
		HOLDS(memcmp(o->a.memory, o->b.memory + 2048, 512) == 0);
		HOLDS(node_take(o->a.cq, &c) && c.id == i && c.opcode == WEFT_OP_SEND);
	}
	return NULL;
}

TEST(test_qp_18_threads_with_queue_pairs_of_their_own)
{
	static struct own own[THREADS];
	void *arguments[THREADS];
	struct weft_adapter *adapter;

	MUST(weft_adapter_open(NULL, &adapter));
	for (int i = 0; i < THREADS; i++) {
		node_open(adapter, &own[i].a, NULL);
		node_open(adapter, &own[i].b, NULL);
		nodes_connect(&own[i].a, &own[i].b);
		own[i].seed = (uint8_t)(50 * i);
		arguments[i] = &own[i];
	}
	threads_run(own_run, arguments, THREADS);
	for (int i = 0; i < THREADS; i++) {
		node_close(&own[i].a, NULL);
		node_close(&own[i].b, NULL);
	}
	MUST(weft_adapter_close(adapter));
}

/* ---- One queue pair for all ----------------------------------------------------------------- */

/* Some threads post to one send queue, the others poll its completion queue. */
struct shared {
	struct weft_adapter *adapter;
	struct node a, b;
	atomic_uint done[THREADS * EACH]; /* how often each signalled request completed */
	atomic_uint completed;
};

struct worker {
	struct shared *shared;
	uint32_t number;
};

static bool is_signalled(uint64_t id)
{
	return id % 4 != 0;
}

enum { SIGNALLED = THREADS * EACH - THREADS * EACH / 4 };

static void *shared_post(struct worker *w)
{
	struct shared *s = w->shared;

	for (uint64_t i = 0; i < EACH; i++) {
		uint64_t id = w->number * EACH + i;
		const struct weft_sge source = node_seg(&s->a, id * 8, 8);
		struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, id, &source, &s->b);

		wr.remote_addr += id * 8;
		wr.flags = is_signalled(id) ? WEFT_SIGNALLED : 0;
		HOLDS(node_post(&s->a, &wr));
	}
	return NULL;
}

static void *shared_poll(struct worker *w)
{
	struct shared *s = w->shared;

	while (atomic_load(&s->completed) < SIGNALLED) {
		struct weft_completion c;
		bool has_completion;

		HOLDS(node_poll(s->a.cq, &c, &has_completion));
		if (!has_completion) {
			sched_yield();
			continue;
		}
		HOLDS(c.status == WEFT_SUCCESS && c.id < THREADS * EACH);
		atomic_fetch_add(&s->done[c.id], 1);
		atomic_fetch_add(&s->completed, 1);
	}
	return NULL;
}

static void *shared_run(void *argument)
{
	struct worker *w = argument;

	return w->number < THREADS ? shared_post(w) : shared_poll(w);
}

TEST(test_qp_10_threads_share_one_queue_pair_and_one_completion_queue)
{
	enum { POLLERS = 2 };
	static struct shared s;
	struct worker workers[THREADS + POLLERS];
	void *arguments[THREADS + POLLERS];
	struct weft_completion c;
	bool has_completion;

	memset(&s, 0, sizeof(s));
	MUST(weft_adapter_open(NULL, &s.adapter));
	node_open(s.adapter, &s.a, NULL);
	node_open(s.adapter, &s.b, NULL);
	nodes_connect(&s.a, &s.b);
	for (uint64_t id = 0; id < THREADS * EACH; id++)
		memcpy(s.a.memory + id * 8, &id, 8);
	for (uint32_t i = 0; i < THREADS + POLLERS; i++) {
		workers[i] = (struct worker){ .shared = &s, .number = i };
		arguments[i] = &workers[i];
	}
	threads_run(shared_run, arguments, THREADS + POLLERS);
	for (uint64_t id = 0; id < THREADS * EACH; id++) {
		EXPECT_EQ(atomic_load(&s.done[id]), is_signalled(id) ? 1 : 0);
		EXPECT_MEM(s.b.memory + id * 8, &id, 8);
	}
	REQUIRE(node_poll(s.a.cq, &c, &has_completion));
	EXPECT(!has_completion);
	node_close(&s.a, NULL);
	node_close(&s.b, NULL);
	MUST(weft_adapter_close(s.adapter));
}

/* ---- Atomics -------------------------------------------------------------------------------- */

enum { ROUNDS = 50 };

/* Several queue pairs into one memory: word 0 counts, words 1 to ROUNDS are each taken once. */
struct contest {
	struct node target[THREADS], player[THREADS];
	atomic_uint winners[ROUNDS];
};

struct contestant {
	struct contest *contest;
	uint32_t number;
};

static void *contest_run(void *argument)
{
	struct contestant *me = argument;
	struct node *n = &me->contest->player[me->number], *t = &me->contest->target[me->number];
	const struct weft_sge s = node_seg(n, 0, 8);
	struct weft_completion c;
	uint64_t old, last = 0;

	for (uint64_t i = 0; i < EACH; i++) {
		struct weft_send_wr wr = node_wr(WEFT_OP_FETCH_ADD, i, &s, t);

		wr.compare_add = 1;
		HOLDS(node_post(n, &wr) && node_take(n->cq, &c) && c.id == i);
		memcpy(&old, n->memory, 8);
		HOLDS(i == 0 || old > last); /* every thread sees it grow */
		last = old;
	}
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct weft_send_wr wr = node_wr(WEFT_OP_COMPARE_SWAP, round, &s, t);

		wr.remote_addr += 8 * (1 + round);
		wr.swap = me->number + 1;
		HOLDS(node_post(n, &wr) && node_take(n->cq, &c) && c.id == round);
		memcpy(&old, n->memory, 8);
		HOLDS(old <= THREADS);
		if (old == 0)
			atomic_fetch_add(&me->contest->winners[round], 1);
	}
	return NULL;
}

TEST(test_qp_s3_threads_contend_for_one_word)
{
	static struct contest contest;
	struct contestant players[THREADS];
	void *arguments[THREADS];
	struct weft_adapter *adapter;
	uint64_t count;

	memset(&contest, 0, sizeof(contest));
	MUST(weft_adapter_open(NULL, &adapter));
	for (uint32_t i = 0; i < THREADS; i++) {
		node_open(adapter, &contest.target[i], i > 0 ? &contest.target[0] : NULL);
		node_open(adapter, &contest.player[i], NULL);
		nodes_connect(&contest.target[i], &contest.player[i]);
		players[i] = (struct contestant){ .contest = &contest, .number = i };
		arguments[i] = &players[i];
	}
	threads_run(contest_run, arguments, THREADS);
	memcpy(&count, contest.target[0].memory, 8);
	EXPECT_EQ(count, THREADS * EACH);
	for (int round = 0; round < ROUNDS; round++)
		EXPECT_EQ(atomic_load(&contest.winners[round]), 1);
	for (uint32_t i = THREADS; i-- > 0;) {
		node_close(&contest.player[i], NULL);
		node_close(&contest.target[i], i > 0 ? &contest.target[0] : NULL);
	}
	MUST(weft_adapter_close(adapter));
}

/* ---- A thread that stays in the adapter ----------------------------------------------------- */

enum { POLLS_FEW = 8 };

struct poller {
	struct weft_cq *cq;
	uint32_t polls, found;
	atomic_bool has_ended;
};

static void *poll_few(void *argument)
{
	struct poller *p = argument;

	for (uint32_t i = 0; i < p->polls; i++) {
		struct weft_completion c;
		uint32_t count;

		HOLDS(weft_cq_poll(p->cq, &c, 1, &count) == WEFT_OK);
		p->found += count;
	}
	atomic_store(&p->has_ended, true);
	return NULL;
}

/* Another thread polls while this one is in the adapter, so long at most. True: it ended there. */
static bool poll_outside(struct weft_adapter *adapter, struct poller *p, uint64_t ns)
{
	uint64_t end = thread_now_ns() + ns;
	pthread_t thread;
	bool has_ended;

	adapter_enter(adapter);
	if (pthread_create(&thread, NULL, poll_few, p) != 0) {
		adapter_leave(adapter);
		return false;
	}
	while (!atomic_load(&p->has_ended) && thread_now_ns() < end)
		sched_yield();
	has_ended = atomic_load(&p->has_ended);
	adapter_leave(adapter);
	pthread_join(thread, NULL);
	return has_ended;
}

TEST(test_qp_18_an_empty_poll_does_not_wait_for_a_thread_in_the_adapter)
{
	struct weft_adapter *adapter;
	struct poller p = { .polls = POLLS_FEW };
	struct node n;

	MUST(weft_adapter_open(NULL, &adapter));
	node_open(adapter, &n, NULL);
	p.cq = n.cq;
	EXPECT(poll_outside(adapter, &p, PATIENCE_NS));
	EXPECT_EQ(p.found, 0);
	/* The adapter's thread hears of them with the next one. */
	EXPECT_EQ(adapter->polls, 0);
	poll_few(&(struct poller){ .cq = n.cq, .polls = 1 });
	EXPECT_EQ(adapter->polls, POLLS_FEW + 1);
	node_close(&n, NULL);
	MUST(weft_adapter_close(adapter));
}

/* That thread may not be running, and wait for the processor of one that polls without end. */
TEST(test_qp_18_polls_without_end_wait_for_a_thread_in_the_adapter)
{
	struct weft_adapter *adapter;
	struct poller p = { .polls = 1000 };
	struct node n;

	MUST(weft_adapter_open(NULL, &adapter));
	node_open(adapter, &n, NULL);
	p.cq = n.cq;
	EXPECT(!poll_outside(adapter, &p, 100 * 1000 * 1000));
	EXPECT(atomic_load(&p.has_ended));
	node_close(&n, NULL);
	MUST(weft_adapter_close(adapter));
}

TEST(test_qp_18_a_poll_waits_for_what_is_there)
{
	struct weft_adapter *adapter;
	struct poller p = { .polls = 1 };
	struct weft_send_wr wr;
	struct weft_sge s;
	struct node a, b;

	MUST(weft_adapter_open(NULL, &adapter));
	node_open(adapter, &a, NULL);
	node_open(adapter, &b, NULL);
	nodes_connect(&a, &b);
	s = node_seg(&a, 0, 8);
	wr = node_wr(WEFT_OP_WRITE, 1, &s, &b);
	REQUIRE(node_post(&a, &wr));
	p.cq = a.cq;
	EXPECT(!poll_outside(adapter, &p, 100 * 1000 * 1000));
	EXPECT_EQ(p.found, 1);
	node_close(&a, NULL);
	node_close(&b, NULL);
	MUST(weft_adapter_close(adapter));
}
