/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: their GIDs are addresses of IP multicast. */
#include <errno.h>
#include <string.h>

#include "compat/ibverbs/address.h"

static int change(struct ibv_qp *qp, const union ibv_gid *gid, bool is_joining)
{
	struct weft_address group, local;
	enum weft_reason r;
	struct gid g;
	int error;

	memcpy(g.raw, gid->raw, sizeof(g.raw));
	if (!is_roce(qp->context))
		return EOPNOTSUPP;
	if (qp->qp_type != IBV_QPT_UD || !gid_is_multicast(&g))
		return EINVAL;
	address_of_gid(qp->context, &g, &group);
	error = address_of_port(qp->context, gid_is_ipv4(&g), &local);
	if (error) {
		say("%s has no address of IPv%d to join a group with", qp->context->device->name,
		    group.family);
		return error;
	}
	r = is_joining ? weft_qp_join(qp_of(qp)->weft, &group, &local)
		       : weft_qp_leave(qp_of(qp)->weft, &group, &local);
	if (r != WEFT_OK)
		say("a group: QP %06x: %s: %s", qp->qp_num, weft_reason_name(r),
		    weft_reason_text(r));
	return weftv_errno(r);
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid; /* Ethernet has none */
	return change(qp, gid, true);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return change(qp, gid, false);
}
