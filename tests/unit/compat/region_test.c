/* SPDX-License-Identifier: BSD-2-Clause */
/* What memory ibv_reg_mr takes, and what it refuses. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lone_pages.h"
#include "test.h"
#include "unit/compat/qp_fixture.h"

static void expect_refused(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	errno = 0;
	EXPECT(!ibv_reg_mr(pd, addr, length, access));
	EXPECT_EQ(errno, EFAULT);
}

/* What cannot be used like this would end the program when a peer does. */
TEST(test_ibv_reg_mr_refuses_memory_that_may_not_be_used_so)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *m = lone_pages(3 * page);
	struct qp_pair p;
	struct ibv_mr *mr;

	REQUIRE(mprotect(m + page, page, PROT_READ) == 0);
	REQUIRE(mprotect(m + 2 * page, page, PROT_NONE) == 0);
	if (madvise(m, 0, MADV_POPULATE_READ) < 0)
		SKIP("the kernel does not tell");
	qp_pair_make(&p, NULL);
	expect_refused(p.near.pd, m + page, page, IBV_ACCESS_LOCAL_WRITE);
	expect_refused(p.near.pd, m, page + 1, IBV_ACCESS_LOCAL_WRITE);
	expect_refused(p.near.pd, m + 2 * page, 1, 0);
	expect_refused(p.near.pd, m, 2 * page + 1, 0);
	mr = ibv_reg_mr(p.near.pd, m, 2 * page, 0);
	REQUIRE(mr);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(p.near.pd, m, page, IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(mr);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	REQUIRE(munmap(m, 3 * page) == 0);
	expect_refused(p.near.pd, m, page, 0);
	qp_pair_free(&p);
}
