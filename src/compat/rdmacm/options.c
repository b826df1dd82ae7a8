/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"

static int flag_of(const void *value, size_t length, bool *flag)
{
	int v;

	if (length != sizeof(v))
		return -EINVAL;
	memcpy(&v, value, sizeof(v));
	*flag = v != 0;
	return 0;
}

/* What decides about binding must be known by then. */
static int set_before_bind(struct id *id, const void *value, size_t length, bool *flag)
{
	return id_state(id) == ID_IDLE ? flag_of(value, length, flag) : -EINVAL;
}

static int set_id_option(struct id *id, int name, const void *value, size_t length)
{
	switch (name) {
	case RDMA_OPTION_ID_TOS: /* not passed on to TCP */
		if (length != sizeof(id->tos))
			return -EINVAL;
		memcpy(&id->tos, value, sizeof(id->tos));
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		return flag_of(value, length, &id->may_reuse);
	case RDMA_OPTION_ID_AFONLY:
		return set_before_bind(id, value, length, &id->is_family_only);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (length != sizeof(id->ack_timeout))
			return -EINVAL;
		memcpy(&id->ack_timeout, value, sizeof(id->ack_timeout));
		id->has_ack_timeout = true;
		return 0;
	default:
		return -ENOSYS;
	}
}

int rdma_set_option(struct rdma_cm_id *rdma, int level, int optname, void *optval, size_t optlen)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma || !optval)
		return cm_result(-EINVAL);
	if (level != RDMA_OPTION_ID)
		return cm_result(-ENOSYS); /* paths are InfiniBand's */
	id_lock(id);
	r = set_id_option(id, optname, optval, optlen);
	id_unlock(id);
	return cm_result(r);
}

/* ---- Enhanced connection establishment: nothing that weft's devices have ------------------- */

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return cm_result(id && ece ? -EOPNOTSUPP : -EINVAL);
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return cm_result(id && ece ? -EOPNOTSUPP : -EINVAL);
}
