/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests: translated on the stack, in batches, and given to the engine. */
#include "compat/ibverbs/post.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "compat/ibverbs/ah.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/memory.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/srq.h"

enum { BATCH = 16 };

_Static_assert(sizeof(struct ibv_sge) == sizeof(struct weft_sge) &&
		       offsetof(struct ibv_sge, addr) == offsetof(struct weft_sge, addr) &&
		       offsetof(struct ibv_sge, length) == offsetof(struct weft_sge, length) &&
		       offsetof(struct ibv_sge, lkey) == offsetof(struct weft_sge, tag),
	       "a scatter/gather element is a weft_sge");

const struct weft_sge *segments_of(const struct ibv_sge *list)
{
	return (const struct weft_sge *)(const void *)list;
}

/* Some programs keep their lists in packed structs (libiscsi does). Such a list is copied to
 * `room`; true: it was, so the room is taken. One that is too long is left for the engine to
 * refuse. */
static bool segments_set(const struct weft_sge **segments, uint32_t count,
			 const struct ibv_sge *list, struct weft_sge room[WEFT_SGES_MAX])
{
	bool is_aligned = (uintptr_t)list % _Alignof(struct weft_sge) == 0;

	if (is_aligned || count > WEFT_SGES_MAX) {
		*segments = segments_of(list);
		return false;
	}
	memcpy(room, (const void *)list, count * sizeof(*room));
	*segments = room;
	return true;
}

static uint32_t count_of(int num_sge)
{
	return num_sge < 0 ? UINT32_MAX : (uint32_t)num_sge;
}

uint32_t send_flags_of(unsigned int flags, enum weft_opcode opcode)
{
	uint32_t f = 0;
	bool is_solicitable = opcode == WEFT_OP_SEND || opcode == WEFT_OP_SEND_IMM ||
			      opcode == WEFT_OP_SEND_INVALIDATE || opcode == WEFT_OP_WRITE_IMM ||
			      opcode == WEFT_OP_REGISTER_SEND;

	if (flags & IBV_SEND_SIGNALED)
		f |= WEFT_SIGNALLED;
	if (flags & IBV_SEND_FENCE)
		f |= WEFT_FENCE;
	if ((flags & IBV_SEND_SOLICITED) && is_solicitable)
		f |= WEFT_SOLICITED;
	if (flags & IBV_SEND_INLINE)
		f |= WEFT_INLINE;
	return f;
}

int bind_of(struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
	    struct weft_bind *bind)
{
	uint32_t rights;
	int error = rights_of(info->mw_access_flags, &rights);

	if (error)
		return error;
	*bind = (struct weft_bind){
		.window_tag = mw->rkey,
		.region_tag = info->mr ? info->mr->lkey : 0,
		.addr = info->addr,
		.length = info->mr ? info->length : 0,
		.rights = rights & (WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC),
		.is_zero_based = info->mw_access_flags & IBV_ACCESS_ZERO_BASED,
		.is_qp_bound = mw->type == IBV_MW_TYPE_2,
		.tag = rkey,
	};
	return 0;
}

static void set_remote(struct weft_send_wr *w, uint64_t addr, uint32_t rkey)
{
	w->remote_addr = addr;
	w->remote_tag = rkey;
}

/* What the opcode needs beside its segments. 0 or errno. */
static int translate_operation(const struct ibv_send_wr *wr, struct weft_send_wr *w)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		w->imm = ntohl(wr->imm_data);
		w->opcode = WEFT_OP_WRITE_IMM;
		set_remote(w, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		return 0;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		w->opcode = wr->opcode == IBV_WR_RDMA_READ ? WEFT_OP_READ : WEFT_OP_WRITE;
		set_remote(w, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		return 0;
	case IBV_WR_SEND:
		w->opcode = WEFT_OP_SEND;
		return 0;
	case IBV_WR_SEND_WITH_IMM:
		w->opcode = WEFT_OP_SEND_IMM;
		w->imm = ntohl(wr->imm_data);
		return 0;
	case IBV_WR_SEND_WITH_INV:
		w->opcode = WEFT_OP_SEND_INVALIDATE;
		w->invalidate_tag = wr->invalidate_rkey;
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w->opcode = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? WEFT_OP_COMPARE_SWAP
								    : WEFT_OP_FETCH_ADD;
		set_remote(w, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
		return 0;
	case IBV_WR_LOCAL_INV:
		w->opcode = WEFT_OP_INVALIDATE;
		w->invalidate_tag = wr->invalidate_rkey;
		w->sge_count = 0;
		return 0;
	case IBV_WR_BIND_MW:
		w->opcode = WEFT_OP_BIND;
		w->sge_count = 0;
		if (wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		return bind_of(wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info, &w->bind);
	default:
		return EOPNOTSUPP;
	}
}

/* The destination of a datagram. */
static void set_destination(const struct ibv_send_wr *wr, struct weft_send_wr *w)
{
	w->ah = wr->wr.ud.ah ? ah_of(wr->wr.ud.ah)->weft : NULL;
	w->dest_qp_number = wr->wr.ud.remote_qpn;
	w->remote_q_key = wr->wr.ud.remote_qkey;
}

static int translate(const struct qp *qp, const struct ibv_send_wr *wr, struct weft_send_wr *w)
{
	int error;

	/* bind and reg are set by the opcodes that use them. */
	memset(w, 0, offsetof(struct weft_send_wr, bind));
	memset(w->reserved, 0, sizeof(w->reserved));
	w->id = wr->wr_id;
	w->sge_count = count_of(wr->num_sge);
	error = translate_operation(wr, w);
	w->ah = NULL;
	if (qp->ibv.qp_type == IBV_QPT_UD)
		set_destination(wr, w);
	else if (qp->ibv.qp_type == IBV_QPT_XRC_SEND)
		w->dest_qp_number = wr->qp_type.xrc.remote_srqn;
	w->flags = send_flags_of(wr->send_flags, w->opcode);
	return error;
}

int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct weft_sge room[WEFT_SGES_MAX];
	struct weft_send_wr batch[BATCH];
	struct qp *qp = qp_of(ibv);

	while (wr) {
		struct ibv_send_wr *first = wr;
		uint32_t count = 0, posted = 0;
		bool is_room_taken = false;
		int error = 0, refusal;

		for (; wr && count < BATCH && !is_room_taken; wr = wr->next) {
			struct weft_send_wr *w = &batch[count];

			error = translate(qp, wr, w);
			if (error)
				break;
			is_room_taken = segments_set(&w->sges, w->sge_count, wr->sg_list, room);
			count++;
		}
		refusal = weftv_errno(weft_qp_post_send(qp->weft, batch, count, &posted));
		if (refusal || error) {
			for (*bad = first; posted > 0; posted--)
				*bad = (*bad)->next;
			return refusal ? refusal : error;
		}
	}
	return 0;
}

int post_send_to(struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct weft_send_wr *to)
{
	struct weft_sge room[WEFT_SGES_MAX];
	struct weft_send_wr w;
	int error = translate(qp_of(qp), wr, &w);

	if (error)
		return error;
	(void)segments_set(&w.sges, w.sge_count, wr->sg_list, room);
	w.ee = to->ee;
	w.dest_qp_number = to->dest_qp_number;
	w.remote_q_key = to->remote_q_key;
	return weftv_errno(weft_qp_post_send(qp_of(qp)->weft, &w, 1, NULL));
}

/* Which of the two queues it is makes the difference. */
static int post_receives(struct qp *qp, struct srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	struct weft_sge room[WEFT_SGES_MAX];
	struct weft_recv_wr batch[BATCH];

	while (wr) {
		struct ibv_recv_wr *first = wr;
		uint32_t count = 0, posted = 0;
		bool is_room_taken = false;
		enum weft_reason r;

		for (; wr && count < BATCH && !is_room_taken; wr = wr->next) {
			struct weft_recv_wr *w = &batch[count++];

			*w = (struct weft_recv_wr){
				.id = wr->wr_id,
				.sge_count = count_of(wr->num_sge),
			};
			is_room_taken = segments_set(&w->sges, w->sge_count, wr->sg_list, room);
		}
		r = srq ? weft_srq_post_recv(srq->weft, batch, count, &posted)
			: weft_qp_post_recv(qp->weft, batch, count, &posted);
		if (r != WEFT_OK) {
			for (*bad = first; posted > 0; posted--)
				*bad = (*bad)->next;
			return weftv_errno(r);
		}
	}
	return 0;
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_receives(qp_of(qp), NULL, wr, bad);
}

int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_receives(NULL, srq_of(srq), wr, bad);
}

/* Windows of type 1: the key changes when the bind is posted. */
int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct weft_send_wr w = {
		.id = bind->wr_id,
		.opcode = WEFT_OP_BIND,
		.flags = send_flags_of(bind->send_flags, WEFT_OP_BIND),
	};
	int error;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	error = bind_of(mw, 0, &bind->bind_info, &w.bind);
	if (error)
		return error;
	error = weftv_errno(weft_qp_post_send(qp_of(qp)->weft, &w, 1, NULL));
	if (!error)
		mw->rkey = w.bind.tag;
	return error;
}
