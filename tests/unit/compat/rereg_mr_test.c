/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_rereg_mr(3): what is not to change stays as it was. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lone_pages.h"
#include "test.h"
#include "unit/compat/loop_fixture.h"

enum { BYTES = 64, IOVA = 0x10000 };

static const char text[] = "as it was named";

/* Writes from one region to the other, by the addresses that name them. */
static enum ibv_wc_status write_to(struct loop *l, const struct ibv_mr *from, uint64_t from_addr,
				   const struct ibv_mr *to, uint64_t to_addr)
{
	struct ibv_sge sge = { .addr = from_addr, .length = sizeof(text), .lkey = from->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = to_addr, .rkey = to->rkey },
	};
	struct ibv_wc wc;

	REQUIRE(ibv_post_send(l->near, &wr, &bad) == 0);
	REQUIRE(ibv_poll_cq(l->cq, 1, &wc) == 1);
	return wc.status;
}

static void expect_written(struct loop *l, const struct ibv_mr *from, uint64_t from_addr,
			   const struct ibv_mr *to, uint64_t to_addr)
{
	EXPECT_STR(ibv_wc_status_str(write_to(l, from, from_addr, to, to_addr)),
		   ibv_wc_status_str(IBV_WC_SUCCESS));
}

TEST(test_ibv_rereg_mr_of_access_keeps_the_address_that_names_it)
{
	static char near[BYTES], far[BYTES];
	struct ibv_mr *from, *to;
	struct loop l;

	loop_make(&l);
	strcpy(near, text);
	from = ibv_reg_mr(l.pd, near, BYTES, 0);
	to = ibv_reg_mr_iova(l.pd, far, BYTES, IOVA, 0);
	REQUIRE(from && to);
	EXPECT_EQ(ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
		  0);
	EXPECT(to->addr == far && to->length == BYTES);
	expect_written(&l, from, (uintptr_t)near, to, IOVA);
	EXPECT_STR(far, text);
	EXPECT_EQ(ibv_dereg_mr(from), 0);
	EXPECT_EQ(ibv_dereg_mr(to), 0);
	loop_free(&l);
}

TEST(test_ibv_rereg_mr_of_device_memory_keeps_the_memory)
{
	struct ibv_alloc_dm_attr attr = { .length = BYTES };
	static char near[BYTES], back[BYTES];
	struct ibv_mr *from, *to;
	struct ibv_dm *dm;
	struct loop l;

	loop_make(&l);
	strcpy(near, text);
	dm = ibv_alloc_dm(l.context, &attr);
	REQUIRE(dm);
	from = ibv_reg_mr(l.pd, near, BYTES, 0);
	to = ibv_reg_dm_mr(l.pd, dm, 0, BYTES, IBV_ACCESS_ZERO_BASED);
	REQUIRE(from && to);
	EXPECT_EQ(ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			       IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_REMOTE_WRITE),
		  0);
	EXPECT(!to->addr && to->length == BYTES);
	expect_written(&l, from, (uintptr_t)near, to, 0);
	EXPECT_EQ(ibv_memcpy_from_dm(back, dm, 0, BYTES), 0);
	EXPECT_STR(back, text);
	EXPECT_EQ(ibv_dereg_mr(from), 0);
	EXPECT_EQ(ibv_dereg_mr(to), 0);
	EXPECT_EQ(ibv_free_dm(dm), 0);
	loop_free(&l);
}

/* Queue pairs for those that failed. */
static void connect_anew(struct loop *l)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(l->cq, 1, &wc) == 1)
		continue;
	REQUIRE(ibv_destroy_qp(l->near) == 0 && ibv_destroy_qp(l->far) == 0);
	l->near = loop_qp(l);
	l->far = loop_qp(l);
	REQUIRE(loop_name(l->near, l->far->qp_num) == 0);
	REQUIRE(loop_name(l->far, l->near->qp_num) == 0);
}

/* False: the kernel does not tell of memory that went. */
static bool rereg_replaced(struct loop *l, struct ibv_mr *from, struct ibv_mr *to)
{
	enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	const uint64_t near = (uintptr_t)from->addr, far = (uintptr_t)to->addr;
	struct ibv_pd *pd = ibv_alloc_pd(l->context);

	REQUIRE(pd);
	if (write_to(l, from, near, to, far) == IBV_WC_SUCCESS) {
		REQUIRE(ibv_dealloc_pd(pd) == 0);
		return false;
	}
	connect_anew(l);
	REQUIRE(ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS) == 0);
	REQUIRE(write_to(l, from, near, to, far) == IBV_WC_REM_ACCESS_ERR);
	connect_anew(l);
	REQUIRE(ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) == 0);
	REQUIRE(ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_PD, l->pd, NULL, 0, 0) == 0);
	REQUIRE(write_to(l, from, near, to, far) == IBV_WC_REM_ACCESS_ERR);
	REQUIRE(*(char *)to->addr == 0);
	connect_anew(l);
	/* The memory that is there now is named. */
	REQUIRE(ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, to->addr, to->length, 0) ==
		0);
	expect_written(l, from, near, to, far);
	REQUIRE(ibv_dealloc_pd(pd) == 0);
	return true;
}

TEST(test_ibv_rereg_mr_of_access_or_domain_adopts_no_new_memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *far = lone_pages(page);
	static char near[BYTES];
	struct ibv_mr *from, *to;
	struct loop l;
	bool is_told;

	loop_make(&l);
	strcpy(near, text);
	from = ibv_reg_mr(l.pd, near, BYTES, 0);
	to = ibv_reg_mr(l.pd, far, page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	REQUIRE(from && to);
	REQUIRE(munmap(far, page) == 0);
	REQUIRE(mmap(far, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		     0) == far);
	is_told = rereg_replaced(&l, from, to);
	EXPECT_EQ(ibv_dereg_mr(from), 0);
	EXPECT_EQ(ibv_dereg_mr(to), 0);
	loop_free(&l);
	munmap(far, page);
	if (!is_told)
		SKIP("this kernel does not tell this process of unmapped memory");
}
