/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll() and rselect() are poll() and select(): there are no rsockets among the descriptors (see
 * rsocket.c).
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
