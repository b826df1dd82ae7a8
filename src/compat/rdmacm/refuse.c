/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is not here: multicast, for which iWARP has no service, and rsockets. Every name exists, so
 * that programs load, and refuses. Whoever polls descriptors by rpoll() or rselect() does get what
 * poll() and select() say, as those have no rsockets among them.
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

int rsocket(int domain, int type, int protocol)
{
	(void)domain;
	(void)type;
	(void)protocol;
	return cm_result(-ENOSYS);
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	(void)socket;
	(void)addr;
	(void)addrlen;
	return cm_result(-ENOSYS);
}

int rlisten(int socket, int backlog)
{
	(void)socket;
	(void)backlog;
	return cm_result(-ENOSYS);
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	(void)socket;
	(void)addr;
	(void)addrlen;
	return cm_result(-ENOSYS);
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	(void)socket;
	(void)addr;
	(void)addrlen;
	return cm_result(-ENOSYS);
}

int rshutdown(int socket, int how)
{
	(void)socket;
	(void)how;
	return cm_result(-ENOSYS);
}

int rclose(int socket)
{
	(void)socket;
	return cm_result(-ENOSYS);
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	(void)socket;
	(void)buf;
	(void)len;
	(void)flags;
	return cm_result(-ENOSYS);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	(void)socket;
	(void)buf;
	(void)len;
	(void)flags;
	(void)src_addr;
	(void)addrlen;
	return cm_result(-ENOSYS);
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	(void)socket;
	(void)msg;
	(void)flags;
	return cm_result(-ENOSYS);
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	(void)socket;
	(void)buf;
	(void)len;
	(void)flags;
	return cm_result(-ENOSYS);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	(void)socket;
	(void)buf;
	(void)len;
	(void)flags;
	(void)dest_addr;
	(void)addrlen;
	return cm_result(-ENOSYS);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	(void)socket;
	(void)msg;
	(void)flags;
	return cm_result(-ENOSYS);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	(void)socket;
	(void)buf;
	(void)count;
	return cm_result(-ENOSYS);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	(void)socket;
	(void)iov;
	(void)iovcnt;
	return cm_result(-ENOSYS);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	(void)socket;
	(void)buf;
	(void)count;
	return cm_result(-ENOSYS);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	(void)socket;
	(void)iov;
	(void)iovcnt;
	return cm_result(-ENOSYS);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	(void)socket;
	(void)addr;
	(void)addrlen;
	return cm_result(-ENOSYS);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	(void)socket;
	(void)addr;
	(void)addrlen;
	return cm_result(-ENOSYS);
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	(void)socket;
	(void)level;
	(void)optname;
	(void)optval;
	(void)optlen;
	return cm_result(-ENOSYS);
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	(void)socket;
	(void)level;
	(void)optname;
	(void)optval;
	(void)optlen;
	return cm_result(-ENOSYS);
}

int rfcntl(int socket, int cmd, ...)
{
	(void)socket;
	(void)cmd;
	return cm_result(-ENOSYS);
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	(void)socket;
	(void)buf;
	(void)len;
	(void)prot;
	(void)flags;
	(void)offset;
	return cm_result(-ENOSYS);
}

int riounmap(int socket, void *buf, size_t len)
{
	(void)socket;
	(void)buf;
	(void)len;
	return cm_result(-ENOSYS);
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	(void)socket;
	(void)buf;
	(void)count;
	(void)offset;
	(void)flags;
	return (size_t)cm_result(-ENOSYS);
}
