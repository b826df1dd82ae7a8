/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbs that have no meaning on this transport, or none yet: each says so. */
#include <errno.h>
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stddef.h>
#include <string.h>

#include "compat/ibverbs/undeclared.h"

/* ---- What vendors add to connections -------------------------------------------------------- */

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	/* Nothing is what is agreed to: that may be set. */
	return ece->vendor_id || ece->options ? EOPNOTSUPP : 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){ 0 };
	return 0;
}

/* ---- fork() --------------------------------------------------------------------------------- */

/* Nothing is pinned and no device writes behind the kernel's back: there is nothing to prepare. */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

/* ---- Structs of kernel drivers: no program has any here ------------------------------------- */

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from)
{
	(void)from;
	memset(to, 0, sizeof(*to));
}

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from)
{
	(void)from;
	memset(to, 0, sizeof(*to));
}

void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from)
{
	(void)from;
	memset(to, 0, sizeof(*to));
}

void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from)
{
	(void)from;
	memset(to, 0, sizeof(*to));
}
