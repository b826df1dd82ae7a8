/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups: on RoCE a group is an address of IP multicast, and to join it is to take what is sent
 * there. The program is told where to send to.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"
#include "driver/sys/address.h"

/* To all members of the group, not to one queue pair (IBA 10.5.2.2). */
enum { QPN_OF_GROUP = 0xffffff };

/* ---- Those of an id -------------------------------------------------------------------------- */

static bool is_same_group(const struct sockaddr_storage *a, const struct sockaddr *b)
{
	struct weft_address x, y;

	address_to_weft((const struct sockaddr *)a, &x);
	address_to_weft(b, &y);
	return address_is_same_ip(&x, &y);
}

static struct group *find(struct id *id, const struct sockaddr *address)
{
	for (struct list *at = id->groups.next; at != &id->groups; at = at->next) {
		struct group *g = CONTAINER_OF(at, struct group, link);

		if (is_same_group(&g->address, address))
			return g;
	}
	return NULL;
}

static void gid_of(const struct group *g, union ibv_gid *gid)
{
	struct weft_address a;

	address_to_weft((const struct sockaddr *)&g->address, &a);
	roce_gid(&a, gid);
}

static int attach(struct id *id, const struct group *g)
{
	union ibv_gid gid;

	gid_of(g, &gid);
	return g->is_member && id->rdma.qp ? -ibv_attach_mcast(id->rdma.qp, &gid, 0) : 0;
}

static void detach(struct id *id, const struct group *g)
{
	union ibv_gid gid;

	gid_of(g, &gid);
	if (g->is_member && id->rdma.qp)
		(void)ibv_detach_mcast(id->rdma.qp, &gid, 0);
}

static void leave(struct id *id, struct group *g)
{
	detach(id, g);
	list_remove(&g->link);
	free(g);
}

void groups_detach(struct id *id)
{
	for (struct list *at = id->groups.next; at != &id->groups; at = at->next)
		detach(id, CONTAINER_OF(at, struct group, link));
}

void groups_leave(struct id *id)
{
	while (!list_is_empty(&id->groups))
		leave(id, CONTAINER_OF(id->groups.next, struct group, link));
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* A note of its own: an id may join many groups before it hears of one. */
static int tell(struct id *id, const struct group *g, int status)
{
	struct note *note = calloc(1, sizeof(*note));
	bool is_reported;

	if (!note)
		return -ENOMEM;
	*note = (struct note){
		.id = id,
		.kind = NOTE_GROUP,
		.event = status == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR,
		.status = status,
		.group = *g,
	};
	list_init(&note->link);
	cm_lock();
	is_reported = note_add(note);
	cm_unlock();
	if (!is_reported)
		free(note);
	return 0;
}

void group_tell(struct id *id, const struct group *g, struct taken *taken)
{
	struct rdma_ud_param *ud = &taken->rdma.param.ud;
	struct weft_path path = { .traffic_class = id->tos };

	ud->private_data = g->context;
	if (taken->rdma.status != 0)
		return;
	address_to_weft(&id->rdma.route.addr.src_addr, &path.from);
	address_to_weft((const struct sockaddr *)&g->address, &path.to);
	(void)roce_av(id, &path, &ud->ah_attr);
	ud->qp_num = QPN_OF_GROUP;
	ud->qkey = RDMA_UDP_QKEY;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static bool is_multicast(const struct sockaddr *address)
{
	struct weft_address a;

	address_to_weft(address, &a);
	return a.family == 4 ? a.ip[0] >> 4 == 0xe : a.ip[0] == 0xff;
}

/* A send-only member just gets the address to send to. A failed join may be tried again. */
static int join(struct id *id, const struct sockaddr *address, bool is_member, void *context)
{
	struct group *g;
	int status, r;

	if (id_state(id) == ID_IDLE || address_size(address) == 0)
		return -EINVAL;
	if (!id_is_datagram(id))
		return -EOPNOTSUPP;
	if (!id->home)
		return -EINVAL;
	if (fabric_is_ours())
		return -EOPNOTSUPP; /* it would be the subnet's administration to be asked */
	if (!is_multicast(address) || find(id, address))
		return is_multicast(address) ? -EADDRINUSE : -EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	memcpy(&g->address, address, address_size(address));
	g->context = context;
	g->is_member = is_member;
	list_add_tail(&id->groups, &g->link);
	status = attach(id, g);
	r = tell(id, g, status);
	g->is_member = is_member && status == 0;
	if (status != 0 || r != 0)
		leave(id, g);
	return r;
}

static int join_locked(struct rdma_cm_id *rdma, const struct sockaddr *address, bool is_member,
		       void *context)
{
	struct id *id = id_of(rdma);
	int r;

	id_forget_event(id);
	id_lock(id);
	r = join(id, address, is_member, context);
	return cm_result(id_unlock_await(id, r, true));
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return id && addr ? join_locked(id, addr, true, context) : cm_result(-EINVAL);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	enum { WANTED = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS };

	if (!id || !attr || attr->comp_mask != WANTED || !attr->addr ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cm_result(-EINVAL);
	return join_locked(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER,
			   context);
}

int rdma_leave_multicast(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct id *id = id_of(rdma);
	struct group *g;

	if (!rdma || !addr)
		return cm_result(-EINVAL);
	id_lock(id);
	g = address_size(addr) ? find(id, addr) : NULL;
	if (g)
		leave(id, g);
	id_unlock(id);
	return cm_result(g ? 0 : -EADDRNOTAVAIL);
}
