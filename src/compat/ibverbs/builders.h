/* SPDX-License-Identifier: BSD-2-Clause */
/* The ibv_wr_ calls of a queue pair created with send_ops. */
#pragma once

#include <stdint.h>

struct qp;

/* 0 or errno. */
int builders_init(struct qp *qp, uint64_t send_ops);
void builders_fini(struct qp *qp);
