/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups that queue pairs are attached to. */
#pragma once

struct qp;

enum { GROUPS_MAX = 256 };

/* Joins its groups for a queue pair that becomes able to receive. attr_lock is held. */
int groups_join(struct qp *qp);
void groups_free(struct qp *qp);
