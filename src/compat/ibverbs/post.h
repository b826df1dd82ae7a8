/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting of work requests: what lists (ibv_post_send) and builders (ibv_wr_*) share. */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include <weft/weft.h>

const struct weft_sge *segments_of(const struct ibv_sge *list);

/* A flag that is meaningless for an operation is dropped, as hardware does. */
uint32_t send_flags_of(unsigned int flags, enum weft_opcode opcode);

/* One request, with the destination of `to`: ee, dest_qp_number, remote_q_key. 0 or errno. */
int post_send_to(struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct weft_send_wr *to);

/* 0 or errno. */
int bind_of(struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
	    struct weft_bind *bind);

/* Functions in the table of a context. */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
