/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of RoCE devices, whose state the program modifies, as in InfiniBand. qp_moves.c has
 * the attributes of each transition.
 */
#pragma once

#include <infiniband/verbs.h>

struct qp;

/* 0 or errno. */
void qp_roce_init(struct qp *qp);
int qp_roce_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
void qp_roce_query(struct qp *qp, struct ibv_qp_attr *attr);
int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/*
 * Whether a state transition may have these attributes. 0 or EINVAL; then the log says which
 * attributes are missing, and which are not allowed.
 */
int qp_move_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask);
