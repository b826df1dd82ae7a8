/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of an id: its own, its destination's, and the device between them. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compat/rdmacm/rdmacm.h"

/* ---- Source --------------------------------------------------------------------------------- */

/*
 * What keeps the port until it is listened at or dialled from. An id whose device is known needs
 * that kind; one that is bound to any address needs those that it would listen on, or, where there
 * is no device yet, either.
 */
static struct kinds kinds_to_hold(const struct id *id, const struct sockaddr *address)
{
	struct kinds kinds = device_kinds(id, address);

	if (!kinds.has_roce && !kinds.has_iwarp)
		kinds = (struct kinds){ true, id->rdma.ps == RDMA_PS_TCP };
	return kinds;
}

/*
 * Where binding decides on no device. In Linux every address of loopback is as any address; here
 * loopback has devices, and a program that listens there at a port of its choice gets one of them.
 * One that has no port either may only look which devices there are (libfabric does).
 */
static bool is_undecided(const struct id *id, const struct sockaddr *address)
{
	const struct sockaddr_in anywhere = { .sin_family = AF_INET };
	struct kinds kinds;

	if (address_is_any(address))
		return true;
	if (id->rdma.ps != RDMA_PS_TCP || address_port(address) != 0 ||
	    !address_is_loopback(address))
		return false;
	kinds = device_kinds(id, (const struct sockaddr *)(const void *)&anywhere);
	return kinds.has_roce || kinds.has_iwarp;
}

int id_bind(struct id *id, const struct sockaddr *address)
{
	struct sockaddr_storage bound;
	socklen_t size = address_size(address);
	int r;

	if (size == 0)
		return -EINVAL;
	if (id_state(id) != ID_IDLE)
		return -EINVAL;
	memset(&bound, 0, sizeof(bound));
	memcpy(&bound, address, size);
	r = port_hold(id, &bound, kinds_to_hold(id, address));
	if (r == 0 && !is_undecided(id, address))
		r = device_bind(id, address);
	if (r != 0) {
		port_release(id);
		return r;
	}
	id->rdma.route.addr.src_storage = bound;
	(void)id_try(id, ID_BOUND);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct id *id = id_of(rdma);
	int r;

	if (!rdma || !addr)
		return cm_result(-EINVAL);
	id_lock(id);
	r = id_bind(id, addr);
	id_unlock(id);
	return cm_result(r);
}

/* ---- Destination ---------------------------------------------------------------------------- */

/* The address from which this host reaches another: what a UDP socket gets that is connected. */
static int source_towards(const struct sockaddr *dst, struct sockaddr_storage *src)
{
	socklen_t size = sizeof(*src);
	int s = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;

	if (s < 0)
		return cm_errno();
	memset(src, 0, sizeof(*src));
	if (connect(s, dst, address_size(dst)) < 0 ||
	    getsockname(s, (struct sockaddr *)src, &size) < 0)
		r = cm_errno();
	close(s);
	address_set_port((struct sockaddr *)src, 0);
	return r;
}

/* Finds the source address and the device. A failure is reported as an event. */
static int find_route(struct id *id)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	in_port_t src_port = address_port(&addr->src_addr);
	in_port_t dst_port = address_port(&addr->dst_addr);
	struct sockaddr_storage src = addr->src_storage;
	int r = 0;

	if (fabric_is_ours())
		return fabric_find_address(id);
	if (!id->home) {
		if (addr->src_addr.sa_family == AF_UNSPEC || address_is_any(&addr->src_addr))
			r = source_towards(&addr->dst_addr, &src);
		if (r == 0)
			r = device_bind(id, (struct sockaddr *)&src);
	}
	if (r != 0)
		return r;
	addr->src_storage = src;
	address_set_port(&addr->src_addr, src_port);
	if (address_is_any(&addr->dst_addr)) { /* the wildcard means this host */
		addr->dst_storage = src;
		address_set_port(&addr->dst_addr, dst_port);
	}
	return 0;
}

static int resolve_address(struct id *id, struct sockaddr *src, struct sockaddr *dst)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	socklen_t size = address_size(dst);
	enum id_state state;
	int r = 0;

	if (size == 0 || (src && src->sa_family != dst->sa_family))
		return -EINVAL;
	if (src && id_state(id) == ID_IDLE)
		r = id_bind(id, src);
	if (r != 0)
		return r;
	state = id_state(id);
	if ((state != ID_IDLE && state != ID_BOUND) ||
	    (state == ID_BOUND && addr->src_addr.sa_family != dst->sa_family))
		return -EINVAL;
	memset(&addr->dst_storage, 0, sizeof(addr->dst_storage));
	memcpy(&addr->dst_storage, dst, size);
	r = find_route(id);
	cm_lock();
	if (r == 0)
		(void)id_move(id, ID_ADDRESS);
	note_post(id, NOTE_ADDRESS, r == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
		  r);
	cm_unlock();
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *rdma, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	struct id *id = id_of(rdma);
	int r;

	(void)timeout_ms; /* what the system knows it says at once */
	if (!rdma || !dst_addr)
		return cm_result(-EINVAL);
	id_forget_event(id);
	id_lock(id);
	r = resolve_address(id, src_addr, dst_addr);
	return cm_result(id_unlock_await(id, r, true));
}

/* The system's routes are all there are; or, in a fabric, paths. */
int rdma_resolve_route(struct rdma_cm_id *rdma, int timeout_ms)
{
	struct id *id = id_of(rdma);
	bool has_moved;
	int r = 0;

	(void)timeout_ms;
	if (!rdma)
		return cm_result(-EINVAL);
	id_forget_event(id);
	id_lock(id);
	if (fabric_is_ours() && id_state(id) == ID_ADDRESS)
		r = fabric_find_path(id);
	cm_lock();
	/* One that is connecting comes back here too, but only if that was refused. */
	has_moved = id->state == ID_ADDRESS && (r != 0 || id_move(id, ID_ROUTE));
	if (has_moved)
		note_post(id, NOTE_ROUTE,
			  r == 0 ? RDMA_CM_EVENT_ROUTE_RESOLVED : RDMA_CM_EVENT_ROUTE_ERROR, r);
	cm_unlock();
	return cm_result(id_unlock_await(id, has_moved ? 0 : -EINVAL, true));
}
