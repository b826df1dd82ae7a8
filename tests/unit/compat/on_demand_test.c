/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is paged on demand: IBV_ACCESS_ON_DEMAND, and ibv_advise_mr(3). */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lone_pages.h"
#include "test.h"
#include "unit/compat/loop_fixture.h"
#include "unit/compat/restless.h"
#include "unit/compat/roce_fixture.h"

enum {
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_ON_DEMAND
};

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Three pages; the middle one cannot be used. */
static uint8_t *pages_make(void)
{
	uint8_t *m = lone_pages(3 * page_bytes());

	REQUIRE(munmap(m + page_bytes(), page_bytes()) == 0);
	return m;
}

static void page_back(uint8_t *m, int protection)
{
	REQUIRE(mmap(m, page_bytes(), protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		m);
}

/* Such pages, registered at the far end. */
struct paged {
	struct roce r;
	uint8_t *m;
	struct ibv_mr *mr;
};

static void paged_make(struct paged *p, int access)
{
	p->m = pages_make();
	roce_make(&p->r, IBV_QPT_RC);
	p->mr = ibv_reg_mr(p->r.pd, p->m, 3 * page_bytes(), access);
	REQUIRE(p->mr);
}

static void paged_free(struct paged *p)
{
	EXPECT_EQ(ibv_dereg_mr(p->mr), 0);
	roce_free(&p->r);
	REQUIRE(munmap(p->m, 3 * page_bytes()) == 0);
}

static enum ibv_wc_status remote(struct roce *r, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
				 const void *at)
{
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = opcode,
				  .wr.rdma = { (uintptr_t)at, mr->rkey } };

	REQUIRE(roce_post(&r->near, &wr, 0, 100) == 0);
	return roce_wc(&r->near).status;
}

TEST(test_on_demand_caps_are_reported)
{
	struct ibv_device_attr_ex attr;
	struct ibv_context *c = roce_context();

	EXPECT_EQ(ibv_query_device_ex(c, NULL, &attr), 0);
	EXPECT_EQ(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	EXPECT(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC);
	EXPECT(!(attr.odp_caps.per_transport_caps.uc_odp_caps & IBV_ODP_SUPPORT_READ));
	EXPECT(!(attr.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_WRITE));
	EXPECT_EQ(ibv_close_device(c), 0);
}

/* The program may unmap memory and map it again: a peer meets what is there at the time. */
TEST(test_on_demand_memory_comes_and_goes)
{
	struct paged p;
	struct roce *r = &p.r;
	uint8_t *middle;

	paged_make(&p, ACCESS);
	middle = p.m + page_bytes();
	roce_connect(r);
	memset(r->near.memory, 7, 100);
	EXPECT_EQ(remote(r, IBV_WR_RDMA_WRITE, p.mr, p.m), IBV_WC_SUCCESS);
	EXPECT_MEM(p.m, r->near.memory, 100);
	page_back(middle, PROT_READ | PROT_WRITE);
	EXPECT_EQ(remote(r, IBV_WR_RDMA_WRITE, p.mr, middle), IBV_WC_SUCCESS);
	EXPECT_MEM(middle, r->near.memory, 100);
	page_back(middle, PROT_READ);
	EXPECT_EQ(remote(r, IBV_WR_RDMA_READ, p.mr, middle), IBV_WC_SUCCESS);
	EXPECT_EQ(r->near.memory[0], 0);
	EXPECT_EQ(remote(r, IBV_WR_RDMA_WRITE, p.mr, middle), IBV_WC_REM_ACCESS_ERR);
	paged_free(&p);
}

TEST(test_on_demand_memory_that_is_away_is_refused_to_peers)
{
	struct paged p;

	paged_make(&p, ACCESS);
	roce_connect(&p.r);
	EXPECT_EQ(remote(&p.r, IBV_WR_RDMA_READ, p.mr, p.m + page_bytes() - 1),
		  IBV_WC_REM_ACCESS_ERR);
	paged_free(&p);
}

/* man ibv_reg_mr: NULL and SIZE_MAX stand for all that the program has, and will have. */
TEST(test_on_demand_implicit_region_is_all_of_the_program)
{
	uint8_t from[64], *later;
	struct ibv_send_wr *bad,
		wr = { .opcode = IBV_WR_SEND, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge = { (uintptr_t)from, sizeof(from), 0 };
	struct ibv_mr *mr;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	errno = 0;
	EXPECT(!ibv_reg_mr(r.pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_EQ(errno, EINVAL);
	/* A peer would meet memory that the program does not know of, such as what is free()d. */
	EXPECT(!ibv_reg_mr(r.pd, NULL, SIZE_MAX, ACCESS));
	EXPECT_EQ(errno, EOPNOTSUPP);
	mr = ibv_reg_mr(r.pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	REQUIRE(mr);
	EXPECT(!mr->addr && mr->length == SIZE_MAX);
	roce_connect(&r);
	memset(from, 3, sizeof(from));
	roce_recv(&r.far, 2, 0, 64);
	sge.lkey = mr->lkey;
	wr.sg_list = &sge;
	REQUIRE(ibv_post_send(r.near.qp, &wr, &bad) == 0);
	EXPECT_EQ(roce_wc(&r.near).status, IBV_WC_SUCCESS);
	EXPECT_EQ(roce_wc(&r.far).status, IBV_WC_SUCCESS);
	EXPECT_MEM(r.far.memory, from, sizeof(from));
	later = pages_make();
	sge.addr = (uintptr_t)later + page_bytes();
	REQUIRE(ibv_post_send(r.near.qp, &wr, &bad) == 0);
	EXPECT_EQ(roce_wc(&r.near).status, IBV_WC_LOC_PROT_ERR);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	roce_free(&r);
	REQUIRE(munmap(later, 3 * page_bytes()) == 0);
}

TEST(test_on_demand_page_zero_is_refused)
{
	struct ibv_mr *mr;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	mr = ibv_reg_mr(r.pd, NULL, 2 * page_bytes(), ACCESS);
	REQUIRE(mr);
	roce_connect(&r);
	EXPECT_EQ(remote(&r, IBV_WR_RDMA_WRITE, mr, NULL), IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	roce_free(&r);
}

/* ---- While it is used ------------------------------------------------------------------------ */

/* Memory that is unmapped between check and use is refused, and the process survives. */
TEST(test_on_demand_memory_goes_while_it_is_used)
{
	for (int way = 0; way < RESTLESS_WAYS; way++) {
		struct restless restless;

		restless_begin(&restless);
		while (!restless_is_enough(&restless)) {
			struct roce r;

			roce_make(&r, IBV_QPT_RC);
			roce_connect(&r);
			restless_meet(&restless, r.near.qp, way);
			roce_free(&r);
		}
		restless_end(&restless);
	}
}

/* The same between queue pairs that are connected inside the process. */
TEST(test_on_demand_memory_goes_while_it_is_used_by_neighbours)
{
	for (int way = 0; way < RESTLESS_WAYS; way++) {
		struct restless restless;

		restless_begin(&restless);
		while (!restless_is_enough(&restless)) {
			struct loop l;

			loop_make(&l);
			restless_meet(&restless, l.near, way);
			loop_free(&l);
		}
		restless_end(&restless);
	}
}

/* ---- ibv_advise_mr(3) ------------------------------------------------------------------------ */

static bool is_in_core(uint8_t *page)
{
	unsigned char is;

	REQUIRE(mincore(page, page_bytes(), &is) == 0);
	return is & 1;
}

enum { MANY_PAGES = 64 };

static uint32_t pages_in_core(uint8_t *m)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < MANY_PAGES; i++)
		count += is_in_core(m + i * page_bytes());
	return count;
}

/* What comes is for one page: no other is brought, of a large region or of a large receive. */
TEST(test_on_demand_only_pages_that_packets_are_for_come)
{
	uint8_t *m = mmap(NULL, MANY_PAGES * page_bytes(), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_recv_wr *bad, recv = { .wr_id = 2, .num_sge = 1 };
	struct ibv_send_wr send = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct roce r;

	REQUIRE(m != MAP_FAILED);
	if (madvise(m, 0, MADV_POPULATE_READ) < 0)
		SKIP("the kernel does not bring them");
	(void)madvise(m, MANY_PAGES * page_bytes(), MADV_NOHUGEPAGE);
	roce_make(&r, IBV_QPT_RC);
	mr = ibv_reg_mr(r.pd, m, MANY_PAGES * page_bytes(), ACCESS);
	REQUIRE(mr);
	roce_connect(&r);
	EXPECT_EQ(pages_in_core(m), 0);
	EXPECT_EQ(remote(&r, IBV_WR_RDMA_WRITE, mr, m + 3 * page_bytes()), IBV_WC_SUCCESS);
	EXPECT(pages_in_core(m) == 1 && is_in_core(m + 3 * page_bytes()));
	EXPECT_EQ(remote(&r, IBV_WR_RDMA_READ, mr, m + 6 * page_bytes() - 1), IBV_WC_SUCCESS);
	EXPECT_EQ(pages_in_core(m), 3);
	sge = (struct ibv_sge){ (uintptr_t)m, (uint32_t)(MANY_PAGES * page_bytes()), mr->lkey };
	recv.sg_list = &sge;
	REQUIRE(ibv_post_recv(r.far.qp, &recv, &bad) == 0);
	REQUIRE(roce_post(&r.near, &send, 0, 100) == 0);
	EXPECT_EQ(roce_wc(&r.near).status, IBV_WC_SUCCESS);
	EXPECT_EQ(roce_wc(&r.far).status, IBV_WC_SUCCESS);
	EXPECT(pages_in_core(m) == 4 && is_in_core(m));
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	roce_free(&r);
	REQUIRE(munmap(m, MANY_PAGES * page_bytes()) == 0);
}

TEST(test_ibv_advise_mr_brings_pages)
{
	struct paged p;
	struct ibv_sge s;

	if (madvise(NULL, 0, MADV_POPULATE_READ) < 0)
		SKIP("the kernel does not bring them");
	paged_make(&p, ACCESS);
	s = (struct ibv_sge){ (uintptr_t)p.m, 1, p.mr->lkey };
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &s, 1), 0);
	EXPECT(!is_in_core(p.m));
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				IBV_ADVISE_MR_FLAG_FLUSH, &s, 1),
		  0);
	EXPECT(is_in_core(p.m));
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 1), 0);
	paged_free(&p);
}

TEST(test_ibv_advise_mr_refuses)
{
	struct paged p;
	struct ibv_pd *other;
	struct ibv_sge s;

	paged_make(&p, IBV_ACCESS_ON_DEMAND);
	other = ibv_alloc_pd(p.r.context);
	REQUIRE(other);
	s = (struct ibv_sge){ (uintptr_t)p.m, 1, p.mr->lkey };
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 1), 0);
	/* It may not be written. */
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &s, 1), EFAULT);
	EXPECT_EQ(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 1), EFAULT);
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 0), EINVAL);
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &s, 1), EINVAL);
	EXPECT_EQ(ibv_advise_mr(p.r.pd, (enum ibv_advise_mr_advice)3, 0, &s, 1), EOPNOTSUPP);
	s.addr += page_bytes(); /* nothing is there */
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 1), EFAULT);
	s.addr = (uintptr_t)p.m - 1;
	EXPECT_EQ(ibv_advise_mr(p.r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &s, 1), EFAULT);
	EXPECT_EQ(ibv_dealloc_pd(other), 0);
	paged_free(&p);
}
