/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups: their GIDs are addresses of IP multicast, or of a fabric's groups. A queue pair is in a
 * group from attach to detach, whatever its state; weft's is while it can receive. So what is
 * attached is kept here, and joined when the queue pair moves to RTR.
 */
#include "compat/ibverbs/group.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weft/roce.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/address.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/gid.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/say.h"

enum { LID_MULTICAST_MIN = 0xc000 };

struct member {
	struct list link; /* of the queue pair; attr_lock guards it */
	struct gid gid;
};

static struct member *find(struct qp *qp, const struct gid *gid)
{
	for (struct list *at = qp->groups.next; at != &qp->groups; at = at->next) {
		struct member *m = CONTAINER_OF(at, struct member, link);

		if (memcmp(m->gid.raw, gid->raw, sizeof(gid->raw)) == 0)
			return m;
	}
	return NULL;
}

static int tell(const struct qp *qp, enum weft_reason r)
{
	/* It receives nothing now: it will be in its groups when it does. */
	if (r == WEFT_R_QP_STATE)
		return 0;
	if (r != WEFT_OK)
		say("a group: QP %06x: %s: %s", qp->ibv.qp_num, weft_reason_name(r),
		    weft_reason_text(r));
	return weftv_errno(r);
}

static bool is_loopback(const struct weft_address *a)
{
	static const uint8_t one[GID_BYTES] = { [GID_BYTES - 1] = 1 };

	return memcmp(a->ip, one, sizeof(one)) == 0;
}

static int change(struct qp *qp, const struct gid *gid, bool is_joining)
{
	struct ibv_context *context = qp->ibv.context;
	struct weft_address group, local;
	int error;

	if (is_in_fabric(context)) {
		group = local = (struct weft_address){ .family = 6 };
		memcpy(group.ip, gid->raw, sizeof(gid->raw));
		return tell(qp, is_joining ? weft_qp_join(qp->weft, &group, &local)
					   : weft_qp_leave(qp->weft, &group, &local));
	}
	address_of_gid(context, gid, &group);
	error = address_of_port(context, gid_is_ipv4(gid), &local);
	if (error) {
		say("%s has no address of IPv%d to join a group with", context->device->name,
		    group.family);
		return error;
	}
	if (group.family == 6 && is_loopback(&local)) {
		say("%s: groups of IPv6 do not work on loopback: Linux delivers nothing there",
		    context->device->name);
		return EOPNOTSUPP;
	}
	return tell(qp, is_joining ? weft_qp_join(qp->weft, &group, &local)
				   : weft_qp_leave(qp->weft, &group, &local));
}

int groups_join(struct qp *qp)
{
	int error = 0;

	for (struct list *at = qp->groups.next; at != &qp->groups && !error; at = at->next)
		error = change(qp, &CONTAINER_OF(at, struct member, link)->gid, true);
	return error;
}

void groups_free(struct qp *qp)
{
	while (!list_is_empty(&qp->groups)) {
		struct member *m = CONTAINER_OF(qp->groups.next, struct member, link);

		list_remove(&m->link);
		free(m);
	}
}

/* Locked. As Linux has it, to be attached twice is no more than once. */
static int attach(struct qp *qp, const struct gid *gid)
{
	struct member *m;
	int error;

	if (find(qp, gid))
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	m->gid = *gid;
	error = change(qp, gid, true);
	if (error)
		free(m);
	else
		list_add_tail(&qp->groups, &m->link);
	return error;
}

static int detach(struct qp *qp, const struct gid *gid)
{
	struct member *m = find(qp, gid);
	int error;

	if (!m)
		return EINVAL;
	error = change(qp, gid, false);
	list_remove(&m->link);
	free(m);
	return error;
}

/* Ethernet has no LIDs. */
static int check(const struct ibv_qp *qp, const struct gid *gid, uint16_t lid)
{
	if (!is_ib(qp->context))
		return EOPNOTSUPP;
	if (is_in_fabric(qp->context) && (lid < LID_MULTICAST_MIN || lid == UINT16_MAX)) {
		say("a group: QP %06x: LID 0x%x is no group's", qp->qp_num, lid);
		return EINVAL;
	}
	if (qp->qp_type == IBV_QPT_UD && gid_is_multicast(gid))
		return 0;
	say("a group: QP %06x: %s", qp->qp_num,
	    qp->qp_type == IBV_QPT_UD ? "the GID is no group's" : "it is not of UD");
	return EINVAL;
}

static int locked(struct ibv_qp *ibv, const union ibv_gid *ibv_gid, uint16_t lid,
		  int (*call)(struct qp *qp, const struct gid *gid))
{
	struct qp *qp = qp_of(ibv);
	struct gid gid;
	int error;

	memcpy(gid.raw, ibv_gid->raw, sizeof(gid.raw));
	error = check(ibv, &gid, lid);
	if (error)
		return error;
	pthread_mutex_lock(&qp->attr_lock);
	error = call(qp, &gid);
	pthread_mutex_unlock(&qp->attr_lock);
	return error;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return locked(qp, gid, lid, attach);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return locked(qp, gid, lid, detach);
}
