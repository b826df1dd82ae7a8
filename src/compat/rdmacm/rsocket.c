/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets are not here. Every name exists, so that programs load, and is the same function, which
 * refuses whatever it is given: hence not as <rdma/rsocket.h> declares them.
 */
#include <errno.h>
#include <sys/types.h>

#include "compat/rdmacm/rdmacm.h"

static ssize_t refuse(void)
{
	return cm_result(-ENOSYS);
}

#define REFUSED __attribute__((alias("refuse")))

ssize_t rsocket(void) REFUSED;
ssize_t rbind(void) REFUSED;
ssize_t rlisten(void) REFUSED;
ssize_t raccept(void) REFUSED;
ssize_t rconnect(void) REFUSED;
ssize_t rshutdown(void) REFUSED;
ssize_t rclose(void) REFUSED;
ssize_t rrecv(void) REFUSED;
ssize_t rrecvfrom(void) REFUSED;
ssize_t rrecvmsg(void) REFUSED;
ssize_t rsend(void) REFUSED;
ssize_t rsendto(void) REFUSED;
ssize_t rsendmsg(void) REFUSED;
ssize_t rread(void) REFUSED;
ssize_t rreadv(void) REFUSED;
ssize_t rwrite(void) REFUSED;
ssize_t rwritev(void) REFUSED;
ssize_t rgetpeername(void) REFUSED;
ssize_t rgetsockname(void) REFUSED;
ssize_t rsetsockopt(void) REFUSED;
ssize_t rgetsockopt(void) REFUSED;
ssize_t rfcntl(void) REFUSED;
ssize_t riomap(void) REFUSED;
ssize_t riounmap(void) REFUSED;
ssize_t riowrite(void) REFUSED;
