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

/* ---- Domains -------------------------------------------------------------------------------- */

/* A parent domain, and the thread domain that it was made with, or NULL. */
static struct ibv_pd *parent_domain(struct loop *l, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = { .pd = l->pd, .td = td };
	struct ibv_pd *pd = ibv_alloc_parent_domain(l->context, &attr);

	REQUIRE(pd);
	return pd;
}

/* man ibv_alloc_parent_domain: none of the three is freed before the objects made with it. */
TEST(test_domains_in_use_are_busy)
{
	struct ibv_td_init_attr attr = { 0 };
	struct ibv_pd *outer, *inner;
	struct ibv_td *td;
	struct loop l;

	loop_make(&l);
	td = ibv_alloc_td(l.context, &attr);
	REQUIRE(td);
	outer = parent_domain(&l, td);
	inner = parent_domain(&l, NULL);
	EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
	EXPECT_EQ(ibv_dealloc_pd(l.pd), EBUSY);
	EXPECT_EQ(ibv_dealloc_pd(inner), 0);
	EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
	EXPECT_EQ(ibv_dealloc_pd(outer), 0);
	EXPECT_EQ(ibv_dealloc_td(td), 0);
	loop_free(&l);
}

TEST(test_a_parent_domain_of_objects_is_busy)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct loop l, with_parent;
	static char memory[64];
	struct ibv_pd *parent;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;

	loop_make(&l);
	parent = parent_domain(&l, NULL);
	with_parent = l;
	with_parent.pd = parent;
	qp = loop_qp(&with_parent);
	EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	mr = ibv_reg_mr(parent, memory, sizeof(memory), 0);
	REQUIRE(mr);
	EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
	REQUIRE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, l.pd, NULL, 0, 0) == 0);
	mw = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
	REQUIRE(mw);
	EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	srq = ibv_create_srq(parent, &srq_attr);
	REQUIRE(srq);
	EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
	EXPECT_EQ(ibv_destroy_srq(srq), 0);
	cq_attr.parent_domain = parent;
	cq = ibv_create_cq_ex(l.context, &cq_attr);
	REQUIRE(cq);
	EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
	EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	EXPECT_EQ(ibv_dealloc_pd(parent), 0);
	EXPECT_EQ(ibv_dealloc_pd(l.pd), EBUSY);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	loop_free(&l);
}

/* ---- Events that were taken ----------------------------------------------------------------- */

static void *destroy_cq(void *cq)
{
	return ibv_destroy_cq(cq) == 0 ? cq : NULL;
}

/* man ibv_get_cq_event: destroying waits for the acknowledgement; so long the queue is there. */
TEST(test_a_cq_is_polled_until_its_events_are_acknowledged)
{
	struct ibv_cq *event_cq;
	struct ibv_wc wc;
	struct loop l;
	pthread_t thread;
	void *which;
	int64_t until;

	loop_make(&l);
	EXPECT_EQ(ibv_req_notify_cq(l.cq, 0), 0);
	REQUIRE(loop_write_nothing(&l) == 0);
	REQUIRE(ibv_get_cq_event(l.channel, &event_cq, &which) == 0);
	EXPECT(event_cq == l.cq);
	EXPECT_EQ(ibv_destroy_cq(l.cq), EBUSY); /* at once, events taken or not */
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

/* The peer of a healthy queue pair hears of its end at once, events acknowledged or not. */
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
