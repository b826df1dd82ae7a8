/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices as ids use them: the contexts that all of them share, and a default domain of each. */
#include <errno.h>
#include <stdlib.h>

#include "compat/rdmacm/rdmacm.h"

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	struct list homes;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

/* fork(): the lock is taken before those of libibverbs, which are registered by now. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&all.lock);
}

static void fork_done(void)
{
	pthread_mutex_unlock(&all.lock);
}

static void register_fork(void)
{
	(void)pthread_atfork(fork_prepare, fork_done, fork_done);
}

static uint8_t depth_max(int depth)
{
	/* 255 has another meaning in struct rdma_conn_param. */
	return depth < 0 ? 0 : depth < UINT8_MAX ? (uint8_t)depth : UINT8_MAX - 1;
}

static int home_create(struct ibv_context *context, struct home **home)
{
	struct ibv_device_attr attr;
	struct home *h = calloc(1, sizeof(*h));
	int error;

	if (!h)
		return -ENOMEM;
	error = ibv_query_device(context, &attr);
	if (error) {
		free(h);
		return -error;
	}
	h->context = context;
	h->ird_max = depth_max(attr.max_qp_rd_atom);
	h->ord_max = depth_max(attr.max_qp_init_rd_atom);
	h->pd = ibv_alloc_pd(context);
	if (!h->pd) {
		error = -cm_errno();
		free(h);
		return -error;
	}
	list_add_tail(&all.homes, &h->link);
	*home = h;
	return 0;
}

static int home_get(struct ibv_context *context, struct home **home)
{
	int r = -ENODEV;

	pthread_mutex_lock(&all.lock);
	if (!all.homes.next)
		list_init(&all.homes);
	for (struct list *at = all.homes.next; at != &all.homes; at = at->next) {
		struct home *h = CONTAINER_OF(at, struct home, link);

		if (h->context == context) {
			*home = h;
			r = 0;
		}
	}
	if (r != 0)
		r = home_create(context, home);
	pthread_mutex_unlock(&all.lock);
	pthread_once(&all.once, register_fork);
	return r;
}

/* Where no device has loopback's addresses any of them does, as in the kernel: the first. */
static struct ibv_context *context_for_loopback(void)
{
	struct ibv_context **list = weftv_contexts(NULL);
	struct ibv_context *first = list ? list[0] : NULL;

	free(list);
	return first;
}

int device_bind(struct id *id, const struct sockaddr *address)
{
	struct ibv_context *context = weftv_context_at(address);
	struct home *home = NULL;
	int r;

	if (!context && address_is_loopback(address))
		context = context_for_loopback();
	if (!context)
		return cm_errno();
	r = home_get(context, &home);
	if (r != 0)
		return r;
	id->home = home;
	id->rdma.verbs = context;
	id->rdma.pd = home->pd;
	id->rdma.port_num = PORT;
	return 0;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	return weftv_contexts(num_devices);
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
