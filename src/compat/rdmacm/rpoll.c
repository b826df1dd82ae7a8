/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whoever polls descriptors by rpoll() or rselect() gets what poll() and select() say: there are no
 * rsockets among them (see rsocket.c).
 */
#include <rdma/rsocket.h>

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}
