/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "compat/ibverbs/object.h"

int bell_init(struct bell *b)
{
	list_init(&b->waiting);
	b->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (b->fd < 0)
		return errno;
	pthread_mutex_init(&b->lock, NULL);
	return 0;
}

void bell_fini(struct bell *b)
{
	close(b->fd);
	pthread_mutex_destroy(&b->lock);
}

void bell_ring(struct bell *b)
{
	const uint64_t one = 1;

	/* It counts to 2^64: it cannot be full. */
	(void)!write(b->fd, &one, sizeof(one));
}

int bell_await(struct bell *b)
{
	uint64_t one;

	return read(b->fd, &one, sizeof(one)) == sizeof(one) ? 0 : errno;
}
