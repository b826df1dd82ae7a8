/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that destroy things in another order than they should, or while others look at them. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"
#include "unit/compat/qp_fixture.h"

enum { LOOK_MS = 50 };

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- Contexts ------------------------------------------------------------------------------- */

/* It is every id's: the next one needs it. */
TEST(test_the_context_of_an_id_stays_open)
{
	struct cm_pair first, next;
	struct ibv_device_attr attr;

	cm_pair_make(&first);
	EXPECT_EQ(ibv_close_device(first.near->verbs), 0);
	EXPECT_EQ(ibv_query_device(first.near->verbs, &attr), 0);
	cm_pair_make(&next);
	EXPECT(next.near->verbs == first.near->verbs);
	cm_pair_free(&next);
	cm_pair_free(&first);
}

/* ---- Events that were taken ----------------------------------------------------------------- */

static void *destroy_cq(void *cq)
{
	return ibv_destroy_cq(cq) == 0 ? cq : NULL;
}

/* man ibv_get_cq_event: destroying waits for the acknowledgement; so long the queue is there. */
TEST(test_a_cq_is_polled_until_its_events_are_acknowledged)
{
	struct ibv_cq *told;
	struct ibv_wc wc;
	struct loop l;
	pthread_t thread;
	void *which;
	int64_t until;

	loop_make(&l);
	EXPECT_EQ(ibv_req_notify_cq(l.cq, 0), 0);
	REQUIRE(loop_write_nothing(&l) == 0);
	REQUIRE(ibv_get_cq_event(l.channel, &told, &which) == 0);
	EXPECT(told == l.cq);
	EXPECT_EQ(ibv_destroy_cq(l.cq), EBUSY); /* at once, whoever took an event */
	EXPECT_EQ(ibv_destroy_qp(l.near), 0);
	EXPECT_EQ(ibv_destroy_qp(l.far), 0);
	REQUIRE(pthread_create(&thread, NULL, destroy_cq, l.cq) == 0);
	for (until = now_ms() + LOOK_MS; now_ms() < until;) {
		EXPECT(ibv_poll_cq(l.cq, 1, &wc) >= 0);
		EXPECT_EQ(ibv_req_notify_cq(l.cq, 0), 0);
	}
	ibv_ack_cq_events(l.cq, 1);
	REQUIRE(pthread_join(thread, &which) == 0);
	EXPECT(which == l.cq);
	EXPECT_EQ(ibv_destroy_comp_channel(l.channel), 0);
	EXPECT_EQ(ibv_dealloc_pd(l.pd), 0);
	EXPECT_EQ(ibv_close_device(l.context), 0);
}

static void *destroy_qp(void *qp)
{
	return ibv_destroy_qp(qp) == 0 ? qp : NULL;
}

/* The same of asynchronous events; the peer hears of the end meanwhile. */
TEST(test_a_qp_is_asked_until_its_events_are_acknowledged)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_async_event event;
	struct ibv_sge sge;
	struct qp_pair p;
	pthread_t thread;
	void *gone;
	int64_t until;

	qp_pair_make(&p, NULL);
	sge = qp_sge(&p.near, 0, 8);
	sge.lkey++;
	qp_post(&p.near, IBV_WR_SEND, 1, sge, qp_remote(&p.far, 0));
	REQUIRE(ibv_get_async_event(p.near.qp->context, &event) == 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
	EXPECT(event.element.qp == p.near.qp);
	REQUIRE(pthread_create(&thread, NULL, destroy_qp, p.near.qp) == 0);
	for (until = now_ms() + LOOK_MS; now_ms() < until;) {
		EXPECT_EQ(ibv_query_qp(event.element.qp, &attr, IBV_QP_STATE, &init), 0);
		EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
	}
	cm_expect(p.cm.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	ibv_ack_async_event(&event);
	REQUIRE(pthread_join(thread, &gone) == 0);
	EXPECT(gone == p.near.qp);
	p.near.id->qp = NULL; /* librdmacm must not destroy it again */
	qp_pair_free(&p);
}

/* The peer of a queue pair that is well hears of the end at once, whoever took an event. */
TEST(test_the_peer_need_not_wait_until_events_are_acknowledged)
{
	struct ibv_qp_attr drain = { .qp_state = IBV_QPS_SQD };
	struct ibv_async_event event;
	struct qp_pair p;
	pthread_t thread;
	void *gone;

	qp_pair_make(&p, NULL);
	REQUIRE(ibv_modify_qp(p.near.qp, &drain, IBV_QP_STATE) == 0);
	REQUIRE(ibv_get_async_event(p.near.qp->context, &event) == 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
	REQUIRE(pthread_create(&thread, NULL, destroy_qp, p.near.qp) == 0);
	cm_expect(p.cm.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	ibv_ack_async_event(&event);
	REQUIRE(pthread_join(thread, &gone) == 0);
	EXPECT(gone == p.near.qp);
	p.near.id->qp = NULL; /* librdmacm must not destroy it again */
	qp_pair_free(&p);
}
