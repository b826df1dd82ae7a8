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
	h->is_roce = weftv_is_ib(context);
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

/* The first of a kind, or NULL and errno. */
static struct ibv_context *context_first(bool is_roce)
{
	struct ibv_context **list = weftv_contexts(NULL), *first = NULL;

	for (int i = 0; list && list[i] && !first; i++) {
		if (weftv_is_ib(list[i]) == is_roce)
			first = list[i];
	}
	if (!first && list && list[0])
		errno = ENODEV; /* there are others */
	free(list);
	return first;
}

/*
 * Where no device has loopback's addresses any of them does, as in the kernel: the first. RoCE's
 * cannot, as no GID of theirs is such an address.
 */
static struct ibv_context *context_at(const struct sockaddr *address, bool is_roce)
{
	struct ibv_context *context;

	if (fabric_is_ours()) {
		errno = ENODEV;
		return is_roce && fabric_is_own(address) ? context_first(true) : NULL;
	}
	context = weftv_context_at(address, is_roce);
	if (!context && !is_roce && address_is_loopback(address))
		context = context_first(false);
	return context;
}

static bool is_at(const struct sockaddr *address, bool is_roce)
{
	return (address_is_any(address) ? context_first(is_roce) : context_at(address, is_roce)) !=
	       NULL;
}

struct kinds device_kinds(const struct id *id, const struct sockaddr *address)
{
	struct kinds kinds = { .has_roce = is_at(address, true) };

	if (id->rdma.ps == RDMA_PS_TCP && (!kinds.has_roce || getenv("WEFT_DEVICES")))
		kinds.has_iwarp = is_at(address, false);
	return kinds;
}

static int bind_to(struct id *id, struct ibv_context *context)
{
	struct home *home = NULL;
	int r = context ? home_get(context, &home) : cm_errno();

	if (r != 0)
		return r;
	id->home = home;
	id->transport = !home->is_roce	     ? &iwarp_transport
			: id_is_datagram(id) ? &datagram_transport
					     : &roce_transport;
	id->rdma.verbs = context;
	id->rdma.pd = home->pd;
	if (id->rdma.port_num == 0)
		id->rdma.port_num = PORT;
	return 0;
}

int device_bind_to(struct id *id, const struct sockaddr *address, bool is_roce)
{
	return bind_to(id, context_at(address, is_roce));
}

int device_bind(struct id *id, const struct sockaddr *address)
{
	struct ibv_context *context = context_at(address, true);

	if (!context && id->rdma.ps == RDMA_PS_TCP)
		context = context_at(address, false);
	return bind_to(id, context);
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	return weftv_contexts(num_devices);
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
