/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ibv_wr_ calls: requests are built one after the other between wr_start and wr_complete, which
 * posts them all or none. The thread that called wr_start holds the batch; other threads wait.
 */
#include "compat/ibverbs/builders.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compat/ibverbs/ah.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/post.h"
#include "compat/ibverbs/qp.h"

struct wr_batch {
	pthread_mutex_t lock;	   /* from wr_start to wr_complete or wr_abort */
	const char *_Atomic owner; /* the thread that has it: its address of self; NULL: none */
	int error;		   /* the first one */
	uint32_t count, max;
	uint32_t sges_max, inline_max;
	struct pd_memory memory; /* of all this */
	struct weft_send_wr *wrs;
	struct weft_sge *sges; /* sges_max for each request */
	uint8_t *inline_data;  /* inline_max for each */
};

static _Thread_local const char self;

static struct wr_batch *batch_of(struct ibv_qp_ex *ex)
{
	return CONTAINER_OF(ex, struct qp, ex)->batch;
}

static void fail(struct wr_batch *b, int error)
{
	if (!b->error)
		b->error = error;
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* The next request. Overflow goes to a scratch slot, and fails the batch. */
static struct weft_send_wr *begin(struct ibv_qp_ex *ex, enum weft_opcode opcode)
{
	struct wr_batch *b = batch_of(ex);
	struct weft_send_wr *w = &b->wrs[b->count < b->max ? b->count : b->max];

	*w = (struct weft_send_wr){
		.id = ex->wr_id,
		.opcode = opcode,
		.flags = send_flags_of(ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE, opcode),
	};
	if (b->count < b->max)
		b->count++;
	else
		fail(b, ENOMEM);
	return w;
}

/* The request that was begun last, and its number; NULL: there is none. */
static struct weft_send_wr *last(struct wr_batch *b, uint32_t *number)
{
	if (b->count == 0 || b->error)
		return NULL;
	*number = b->count - 1;
	return &b->wrs[*number];
}

static struct weft_send_wr *begin_remote(struct ibv_qp_ex *ex, enum weft_opcode opcode,
					 uint32_t rkey, uint64_t addr)
{
	struct weft_send_wr *w = begin(ex, opcode);

	w->remote_tag = rkey;
	w->remote_addr = addr;
	return w;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, WEFT_OP_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, WEFT_OP_SEND_IMM)->imm = ntohl(imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, WEFT_OP_SEND_INVALIDATE)->invalidate_tag = rkey;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	uint32_t n;
	struct weft_send_wr *w = last(batch_of(ex), &n);

	if (!w)
		return;
	w->ah = ah_of(ah)->weft;
	w->dest_qp_number = qpn;
	w->remote_q_key = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srq_number)
{
	uint32_t n;
	struct weft_send_wr *w = last(batch_of(ex), &n);

	if (w)
		w->dest_qp_number = srq_number;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_remote(ex, WEFT_OP_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	begin_remote(ex, WEFT_OP_WRITE_IMM, rkey, addr)->imm = ntohl(imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_remote(ex, WEFT_OP_READ, rkey, addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct weft_send_wr *w = begin_remote(ex, WEFT_OP_COMPARE_SWAP, rkey, addr);

	w->compare_add = compare;
	w->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	begin_remote(ex, WEFT_OP_FETCH_ADD, rkey, addr)->compare_add = add;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, WEFT_OP_INVALIDATE)->invalidate_tag = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct weft_send_wr *w = begin(ex, WEFT_OP_BIND);
	int error = mw->type == IBV_MW_TYPE_2 ? bind_of(mw, rkey, info, &w->bind) : EINVAL;

	if (error)
		fail(batch_of(ex), error);
}

/* ---- Their data ----------------------------------------------------------------------------- */

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	struct wr_batch *b = batch_of(ex);
	uint32_t n;
	struct weft_send_wr *w = last(b, &n);
	struct weft_sge *s;

	if (!w)
		return;
	if (count > b->sges_max) {
		fail(b, ENOMEM);
		return;
	}
	s = &b->sges[(size_t)n * b->sges_max];
	memcpy(s, segments_of(list), count * sizeof(*s));
	w->sges = s;
	w->sge_count = (uint32_t)count;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	wr_set_sge_list(ex, 1, &(struct ibv_sge){ .addr = addr, .length = length, .lkey = lkey });
}

/* Copied now: the program may use its memory again before the batch is complete. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count,
				    const struct ibv_data_buf *list)
{
	struct wr_batch *b = batch_of(ex);
	uint32_t n;
	struct weft_send_wr *w = last(b, &n);
	struct weft_sge *s;
	uint8_t *to;
	size_t length = 0;

	if (!w)
		return;
	s = &b->sges[(size_t)n * b->sges_max];
	to = &b->inline_data[(size_t)n * b->inline_max];
	for (size_t i = 0; i < count; i++) {
		if (list[i].length > b->inline_max - length) {
			fail(b, EINVAL);
			return;
		}
		if (list[i].length > 0) /* its address may be NULL */
			memcpy(to + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	*s = (struct weft_sge){ .addr = (uintptr_t)to, .length = (uint32_t)length };
	w->sges = s;
	w->sge_count = 1;
	w->flags |= WEFT_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	wr_set_inline_data_list(ex, 1, &(struct ibv_data_buf){ .addr = addr, .length = length });
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* A thread that starts twice has lost count: the batch fails. */
static void wr_start(struct ibv_qp_ex *ex)
{
	struct wr_batch *b = batch_of(ex);

	if (atomic_load(&b->owner) == &self) {
		fail(b, EINVAL);
		return;
	}
	pthread_mutex_lock(&b->lock);
	atomic_store(&b->owner, &self);
	b->count = 0;
	b->error = 0;
}

static void batch_end(struct wr_batch *b)
{
	b->count = 0;
	atomic_store(&b->owner, NULL);
	pthread_mutex_unlock(&b->lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct wr_batch *b = batch_of(ex);
	int error = b->error;

	if (!atomic_load(&b->owner))
		return EINVAL; /* no thread has called wr_start */
	if (!error)
		error = weftv_errno(weft_qp_post_send_all(CONTAINER_OF(ex, struct qp, ex)->weft,
							  b->wrs, b->count));
	batch_end(b);
	return error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct wr_batch *b = batch_of(ex);

	if (atomic_load(&b->owner))
		batch_end(b);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void batch_free(struct wr_batch *b, struct ibv_pd *pd)
{
	struct pd_memory memory;

	if (!b)
		return;
	memory = b->memory;
	pthread_mutex_destroy(&b->lock);
	pd_memory_give(pd, PD_SEND_QUEUE, &memory);
}

/* All of it in one piece, the requests behind the struct. */
static struct wr_batch *batch_create(struct ibv_pd *pd, const struct ibv_qp_cap *cap)
{
	size_t wrs = ((size_t)cap->max_send_wr + 1) * sizeof(struct weft_send_wr);
	size_t segments = (size_t)cap->max_send_wr * cap->max_send_sge * sizeof(struct weft_sge);
	size_t inline_bytes = (size_t)cap->max_send_wr * cap->max_inline_data;
	struct pd_memory memory;
	struct wr_batch *b;

	if (!pd_memory_take(pd, sizeof(*b) + wrs + segments + inline_bytes, PD_SEND_QUEUE, &memory))
		return NULL;
	b = memory.bytes;
	b->memory = memory;
	b->wrs = (struct weft_send_wr *)(b + 1);
	b->sges = (struct weft_sge *)(void *)((uint8_t *)b->wrs + wrs);
	b->inline_data = (uint8_t *)b->sges + segments;
	b->max = cap->max_send_wr;
	b->sges_max = cap->max_send_sge;
	b->inline_max = cap->max_inline_data;
	pthread_mutex_init(&b->lock, NULL);
	return b;
}

/* What a service has. iWARP has no Send with immediate. */
static uint64_t ops_of(const struct qp *qp)
{
	enum {
		UD = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		UC = UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		     IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW,
		RC = UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV
	};

	if (!is_ib(qp->ibv.context))
		return RC & ~(unsigned int)IBV_QP_EX_WITH_SEND_WITH_IMM;
	if (qp->ibv.qp_type == IBV_QPT_XRC_RECV)
		return 0;
	return qp->ibv.qp_type == IBV_QPT_UD ? UD : qp->ibv.qp_type == IBV_QPT_UC ? UC : RC;
}

int builders_init(struct qp *qp, uint64_t send_ops)
{
	struct ibv_qp_ex *ex = &qp->ex;

	if (send_ops & ~ops_of(qp))
		return EOPNOTSUPP;
	qp->batch = batch_create(qp->ibv.pd, &qp->cap);
	if (!qp->batch)
		return ENOMEM;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	return 0;
}

void builders_fini(struct qp *qp)
{
	batch_free(qp->batch, qp->ibv.pd);
	qp->batch = NULL;
}
