/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connected queue pairs of the drop-in libraries, each with a domain, memory and the ibv_wr_
 * calls. Everything is done by the calls that programs have.
 */
#pragma once

#include "unit/compat/cm_fixture.h"

enum { QP_BYTES = 256 * 1024, QP_SENDS = 8, QP_SEGMENTS = 4 };

struct qp_end {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of memory, for every access */
	uint8_t *memory;   /* QP_BYTES, zero at first */
};

struct qp_pair {
	struct cm_pair cm;
	struct qp_end near, far;
};

/* NULL: ibv_alloc_pd() makes the domains. */
void qp_pair_make(struct qp_pair *p, struct ibv_pd *(*alloc_pd)(struct ibv_context *context));
void qp_pair_free(struct qp_pair *p);

/* The next completion, within some seconds. */
struct ibv_wc qp_wc(struct ibv_cq *cq);

/* The next send completion is of this request, and has this status. */
void qp_sent(struct qp_end *e, uint64_t id, enum ibv_wc_status status);

/* Neither queue of it has a completion. */
void qp_quiet(struct qp_end *e);

struct ibv_sge qp_sge(const struct qp_end *e, uint64_t offset, uint32_t length);

/* Memory of the other end. */
struct qp_remote {
	uint64_t addr;
	uint32_t rkey;
};

struct qp_remote qp_remote(const struct qp_end *e, uint64_t offset);

/* Posts a request of one segment, signalled. */
void qp_post(struct qp_end *e, enum ibv_wr_opcode opcode, uint64_t id, struct ibv_sge sge,
	     struct qp_remote to);
