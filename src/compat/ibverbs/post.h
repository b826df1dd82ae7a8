/* SPDX-License-Identifier: BSD-2-Clause */
/* What lists of work requests and builders have in common. */
#pragma once

#include "compat/ibverbs/object.h"

const struct weft_segment *segments_of(const struct ibv_sge *list);

/* A flag that means nothing for an operation is left out, as adapters do. */
uint32_t send_flags_of(unsigned int flags, enum weft_opcode opcode);

/* One request, to where `to` says: ee, dest_qp_number, remote_q_key. 0 or errno. */
int post_send_to(struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct weft_send_wr *to);

/* 0 or errno. */
int bind_of(struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
	    struct weft_bind *bind);
