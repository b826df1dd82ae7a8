/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is not here: multicast, for which iWARP has no service, and rsockets (see rsocket.c).
 * Whoever polls descriptors by rpoll() or rselect() gets what poll() and select() say, as there are
 * no rsockets among them.
 */
#include <errno.h>
#include <rdma/rsocket.h>

#include "compat/rdmacm/rdmacm.h"

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	(void)context;
	return cm_result(id && addr ? -EOPNOTSUPP : -EINVAL);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context)
{
	(void)context;
	return cm_result(id && mc_join_attr ? -EOPNOTSUPP : -EINVAL);
}

/* Nobody is in any group. */
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return cm_result(id && addr ? -EADDRNOTAVAIL : -EINVAL);
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}
