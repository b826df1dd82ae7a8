/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that destroy things in another order than they should, or while others look at them. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "test.h"
#include "unit/compat/qp_fixture.h"

enum { LOOK_MS = 50 };

static struct ibv_context *open_again(struct ibv_context *context)
{
	struct ibv_context *other = ibv_open_device(context->device);

	REQUIRE(other);
	return other;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- Contexts ------------------------------------------------------------------------------- */

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	REQUIRE(qp);
	return qp;
}

/* Two queue pairs of one context, the way of InfiniBand. */
static void join(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_qp_attr to = { .qp_state = IBV_QPS_RTR, .dest_qp_num = b->qp_num };

	REQUIRE(ibv_modify_qp(a, &to, IBV_QP_STATE | IBV_QP_DEST_QPN) == 0);
	to.dest_qp_num = a->qp_num;
	REQUIRE(ibv_modify_qp(b, &to, IBV_QP_STATE | IBV_QP_DEST_QPN) == 0);
}

/* man ibv_close_device: it does not release what was made with it. Events of that come later. */
TEST(test_a_closed_context_leaves_its_queues_alone)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct qp_pair p;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_qp *a, *b;

	qp_pair_make(&p, NULL);
	context = open_again(p.near.qp->context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 8, NULL, channel, 0);
	pd = ibv_alloc_pd(context);
	REQUIRE(channel && cq && pd);
	a = make_qp(pd, cq);
	b = make_qp(pd, cq);
	join(a, b);
	EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
	EXPECT_EQ(ibv_close_device(context), 0);
	EXPECT_EQ(ibv_modify_qp(a, &error, IBV_QP_STATE), 0);
	EXPECT_EQ(ibv_destroy_qp(a), 0);
	EXPECT_EQ(ibv_destroy_qp(b), 0);
	EXPECT_EQ(ibv_destroy_cq(cq), 0);
	EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	qp_pair_free(&p);
}

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
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *told;
	struct ibv_pd *pd;
	struct ibv_qp *a, *b;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad_recv, recv = { 0 };
	struct qp_pair p;
	struct ibv_wc wc;
	pthread_t thread;
	void *which;
	int64_t until;

	qp_pair_make(&p, NULL);
	context = open_again(p.near.qp->context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 8, NULL, channel, 0);
	pd = ibv_alloc_pd(context);
	REQUIRE(channel && cq && pd);
	a = make_qp(pd, cq);
	b = make_qp(pd, cq);
	join(a, b);
	EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
	REQUIRE(ibv_post_recv(b, &recv, &bad_recv) == 0);
	REQUIRE(ibv_post_send(a, &wr, &bad) == 0);
	REQUIRE(ibv_get_cq_event(channel, &told, &which) == 0);
	EXPECT(told == cq);
	EXPECT_EQ(ibv_destroy_cq(cq), EBUSY); /* at once, whoever took an event */
	EXPECT_EQ(ibv_destroy_qp(a), 0);
	EXPECT_EQ(ibv_destroy_qp(b), 0);
	REQUIRE(pthread_create(&thread, NULL, destroy_cq, cq) == 0);
	for (until = now_ms() + LOOK_MS; now_ms() < until;) {
		EXPECT(ibv_poll_cq(cq, 1, &wc) >= 0);
		EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
	}
	ibv_ack_cq_events(cq, 1);
	REQUIRE(pthread_join(thread, &which) == 0);
	EXPECT(which == cq);
	EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	EXPECT_EQ(ibv_close_device(context), 0);
	qp_pair_free(&p);
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
