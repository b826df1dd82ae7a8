/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_alloc_parent_domain(3) with allocators: the memory of queues is the program's own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "unit/compat/roce_fixture.h"

enum { PIECES = 16 };

/* What the program has given and not got back. */
struct heap {
	struct ibv_pd *pd;
	void *pieces[PIECES];
	uint64_t types[PIECES];
	int given, back;
	bool is_empty, is_default;
};

static void *heap_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			uint64_t type)
{
	struct heap *h = context;
	void *p;

	h->pd = pd;
	if (h->is_empty)
		return NULL;
	if (h->is_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	REQUIRE(h->given < PIECES);
	REQUIRE(posix_memalign(&p, alignment < sizeof(p) ? sizeof(p) : alignment, size) == 0);
	memset(p, 0xa5, size);
	h->pieces[h->given] = p;
	h->types[h->given++] = type;
	return p;
}

static void heap_free(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	struct heap *h = context;

	REQUIRE(pd == h->pd);
	for (int i = 0; i < h->given; i++) {
		if (h->pieces[i] == p) {
			REQUIRE(h->types[i] == type);
			h->pieces[i] = NULL;
			h->back++;
			free(p);
			return;
		}
	}
	REQUIRE(!"it was not given");
}

static struct ibv_parent_domain_init_attr attr_of(struct ibv_pd *pd, struct heap *h)
{
	return (struct ibv_parent_domain_init_attr){
		.pd = pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = heap_alloc,
		.free = heap_free,
		.pd_context = h,
	};
}

/* A device, and a domain on it whose memory is of the heap. */
static struct ibv_pd *domain_make(struct roce *r, struct heap *h)
{
	struct ibv_parent_domain_init_attr attr;
	struct ibv_pd *pd;

	roce_make(r, IBV_QPT_RC);
	attr = attr_of(r->pd, h);
	pd = ibv_alloc_parent_domain(r->context, &attr);
	REQUIRE(pd);
	return pd;
}

static void domain_free(struct roce *r, struct ibv_pd *pd)
{
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	roce_free(r);
}

struct queues {
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
};

static void queues_make(struct queues *q, struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 4,
					  .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					  .parent_domain = pd };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex qp = {
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.pd = pd,
	};

	q->cq = ibv_create_cq_ex(context, &cq);
	q->srq = ibv_create_srq(pd, &srq);
	REQUIRE(q->cq && q->srq);
	qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(q->cq);
	qp.srq = q->srq;
	q->qp = ibv_create_qp_ex(context, &qp);
	REQUIRE(q->qp);
}

static void queues_free(struct queues *q)
{
	EXPECT_EQ(ibv_destroy_qp(q->qp), 0);
	EXPECT_EQ(ibv_destroy_srq(q->srq), 0);
	EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(q->cq)), 0);
}

TEST(test_parent_domain_gives_memory_to_its_queues_and_gets_it_back)
{
	struct heap h = { 0 };
	struct queues q;
	struct ibv_pd *pd;
	struct roce r;

	pd = domain_make(&r, &h);
	EXPECT_EQ(h.given, 0);
	queues_make(&q, r.context, pd);
	EXPECT(h.pd == pd);
	EXPECT_EQ(h.given, 4); /* the queues, and the requests that ibv_wr_ calls build */
	EXPECT(h.pieces[0] == q.cq && h.pieces[1] == q.srq && h.pieces[2] == q.qp);
	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < i; k++)
			EXPECT(h.types[i] != h.types[k]);
	}
	EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
	queues_free(&q);
	EXPECT_EQ(h.back, 4);
	domain_free(&r, pd);
}

TEST(test_parent_domain_may_leave_it_to_the_library)
{
	struct heap h = { .is_default = true };
	struct queues q;
	struct ibv_pd *pd;
	struct roce r;

	pd = domain_make(&r, &h);
	queues_make(&q, r.context, pd);
	queues_free(&q);
	EXPECT(h.pd == pd && h.given == 0 && h.back == 0);
	domain_free(&r, pd);
}

TEST(test_parent_domain_without_memory_makes_no_queue)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex cq = { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_qp_init_attr qp = { .cap = { .max_send_wr = 1 }, .qp_type = IBV_QPT_RC };
	struct heap h = { .is_empty = true };
	struct roce r;

	cq.parent_domain = domain_make(&r, &h);
	qp.send_cq = qp.recv_cq = r.near.cq;
	errno = 0;
	EXPECT(!ibv_create_srq(cq.parent_domain, &srq));
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT(!ibv_create_cq_ex(r.context, &cq));
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT(!ibv_create_qp(cq.parent_domain, &qp));
	EXPECT_EQ(errno, ENOMEM);
	domain_free(&r, cq.parent_domain);
}

/* What was taken goes back when the queue cannot be made after all. */
TEST(test_parent_domain_gets_memory_back_from_a_queue_that_is_refused)
{
	struct ibv_qp_init_attr_ex qp = {
		.cap = { .max_send_wr = 1 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ,
	};
	struct heap h = { 0 };
	struct roce r;

	qp.pd = domain_make(&r, &h);
	qp.send_cq = qp.recv_cq = r.near.cq;
	errno = 0;
	EXPECT(!ibv_create_qp_ex(r.context, &qp));
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(h.given, h.back);
	domain_free(&r, qp.pd);
}

TEST(test_parent_domain_refuses_half_an_allocator)
{
	struct ibv_parent_domain_init_attr attr;
	struct heap h = { 0 };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	attr = attr_of(r.pd, &h);
	attr.free = NULL;
	errno = 0;
	EXPECT(!ibv_alloc_parent_domain(r.context, &attr));
	EXPECT_EQ(errno, EINVAL);
	attr = attr_of(r.pd, &h);
	attr.comp_mask |= 1 << 2;
	errno = 0;
	EXPECT(!ibv_alloc_parent_domain(r.context, &attr));
	EXPECT_EQ(errno, EINVAL);
	roce_free(&r);
}
