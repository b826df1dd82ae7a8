/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of one process that are connected by number, by several threads. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"

enum { PAIRS = 64, ROUNDS = 40 };

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

/* One thread's ends, and those that they are to name; both threads come to each pair together. */
struct connecting_thread {
	struct ibv_qp *qps[PAIRS];
	uint32_t peers[PAIRS];
	int results[PAIRS];
	bool is_destroyer;
	atomic_int *arrived;
};

static void *side_run(void *arg)
{
	struct connecting_thread *side = arg;

	for (int i = 0; i < PAIRS; i++) {
		atomic_fetch_add(side->arrived, 1);
		while (atomic_load(side->arrived) < 2 * (i + 1))
			continue;
		side->results[i] = side->is_destroyer ? ibv_destroy_qp(side->qps[i])
						      : loop_name(side->qps[i], side->peers[i]);
	}
	return NULL;
}

static void sides_make(struct loop *l, struct connecting_thread *a, struct connecting_thread *b)
{
	for (int i = 0; i < PAIRS; i++) {
		a->qps[i] = loop_qp(l);
		b->qps[i] = loop_qp(l);
		a->peers[i] = b->qps[i]->qp_num;
		b->peers[i] = a->qps[i]->qp_num;
	}
}

static void sides_run(struct connecting_thread *a, struct connecting_thread *b)
{
	atomic_int arrived = 0;
	pthread_t thread;

	a->arrived = b->arrived = &arrived;
	REQUIRE(pthread_create(&thread, NULL, side_run, b) == 0);
	side_run(a);
	REQUIRE(pthread_join(thread, NULL) == 0);
}

TEST(test_two_threads_that_name_each_others_queue_pair_connect_both)
{
	struct connecting_thread a = { 0 }, b = { 0 };
	struct loop l;

	loop_make(&l);
	for (int round = 0; round < ROUNDS; round++) {
		sides_make(&l, &a, &b);
		sides_run(&a, &b);
		for (int i = 0; i < PAIRS; i++) {
			REQUIRE(a.results[i] == 0 && b.results[i] == 0);
			REQUIRE(state_of(a.qps[i]) == IBV_QPS_RTS);
			REQUIRE(state_of(b.qps[i]) == IBV_QPS_RTS);
			REQUIRE(ibv_destroy_qp(a.qps[i]) == 0 && ibv_destroy_qp(b.qps[i]) == 0);
		}
	}
	loop_free(&l);
}

/* It was there, or it was not. */
TEST(test_a_queue_pair_is_named_while_another_thread_destroys_it)
{
	struct connecting_thread a = { 0 }, b = { .is_destroyer = true };
	struct loop l;

	loop_make(&l);
	for (int round = 0; round < ROUNDS; round++) {
		sides_make(&l, &a, &b);
		for (int i = 0; i < PAIRS; i++)
			REQUIRE(loop_name(b.qps[i], b.peers[i]) == 0);
		sides_run(&a, &b);
		for (int i = 0; i < PAIRS; i++) {
			REQUIRE(a.results[i] == 0 || a.results[i] == EINVAL);
			REQUIRE(b.results[i] == 0);
			REQUIRE(ibv_destroy_qp(a.qps[i]) == 0);
		}
	}
	loop_free(&l);
}
