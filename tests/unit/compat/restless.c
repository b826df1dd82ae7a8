/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/compat/restless.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

enum { REQUESTS = 100, PATIENCE_S = 60, PLAIN_BYTES = 1 << 16 };

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * Its address stays taken, so that nothing else is mapped there. Past the thread sanitizer, which
 * would see a race, as there is one.
 */
static void map(uint8_t *page, int protection)
{
	REQUIRE((uint8_t *)syscall(SYS_mmap, page, page_bytes(), protection,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
}

static void *take_and_give(void *at)
{
	struct restless *r = at;

	while (!atomic_load(&r->is_over)) {
		map(r->page, PROT_NONE);
		map(r->page, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

void restless_begin(struct restless *r)
{
	r->page = mmap(NULL, page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(r->page != MAP_FAILED);
	atomic_init(&r->is_over, false);
	r->done = r->refused = 0;
	REQUIRE(pthread_create(&r->thread, NULL, take_and_give, r) == 0);
}

void restless_end(struct restless *r)
{
	atomic_store(&r->is_over, true);
	REQUIRE(pthread_join(r->thread, NULL) == 0);
	REQUIRE(munmap(r->page, page_bytes()) == 0);
}

bool restless_is_enough(const struct restless *r)
{
	return r->done >= RESTLESS_ENOUGH && r->refused >= RESTLESS_ENOUGH;
}

static enum ibv_wc_status ask(struct ibv_qp *qp, const struct ibv_mr *own,
			      const struct ibv_mr *peers, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)own->addr, (uint32_t)page_bytes(), own->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)peers->addr, peers->rkey },
	};
	time_t until = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;

	REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
	while (ibv_poll_cq(qp->send_cq, 1, &wc) == 0)
		REQUIRE(time(NULL) < until);
	return wc.status;
}

void restless_meet(struct restless *r, struct ibv_qp *qp, int way)
{
	static uint8_t memory[PLAIN_BYTES];
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *page = ibv_reg_mr(qp->pd, r->page, page_bytes(),
					 access | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *plain = ibv_reg_mr(qp->pd, memory, page_bytes(), access);
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	REQUIRE(page && plain && page_bytes() <= PLAIN_BYTES);
	for (int i = 0; i < REQUESTS && status == IBV_WC_SUCCESS; i++) {
		status = ask(qp, way % 2 ? page : plain, way % 2 ? plain : page,
			     way < 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ);
		r->done += status == IBV_WC_SUCCESS;
	}
	r->refused += status != IBV_WC_SUCCESS;
	REQUIRE(ibv_dereg_mr(page) == 0 && ibv_dereg_mr(plain) == 0);
}
