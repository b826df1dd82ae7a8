/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaces file_ring.c in builds without liburing. */
#include <errno.h>

#include "driver/file/file_inside.h"

int file_ring_create(struct file_ring **out)
{
	(void)out;
	return -ENOSYS;
}

void file_ring_destroy(struct file_ring *g)
{
	(void)g;
}

int file_ring_descriptor(const struct file_ring *g)
{
	(void)g;
	return -1;
}

void file_ring_put(struct file_store *f, struct store_request *r)
{
	file_pool_put(f, r);
}

void file_ring_take(struct file_store *f)
{
	(void)f;
}
