/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of one process that are connected by number, without librdmacm. */
#pragma once

#include <infiniband/verbs.h>

enum { LOOP_CQ = 16, LOOP_SENDS = 24 };

struct loop {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of all four queues, with LOOP_CQ entries */
	struct ibv_qp *near, *far;
};

/* The first device of iWARP that there is; of RoCE. */
struct ibv_context *loop_context(void);
struct ibv_context *loop_roce_context(void);

/* A queue pair that is no end of it yet; asks to be connected with another: what that returns. */
struct ibv_qp *loop_qp(struct loop *l);
int loop_name(struct ibv_qp *qp, uint32_t peer);

void loop_make(struct loop *l);
void loop_free(struct loop *l);

/* A Write of no bytes, signalled. What posting returns. */
int loop_write_nothing(struct loop *l);
