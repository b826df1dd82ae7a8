/* SPDX-License-Identifier: BSD-2-Clause */
/* RIO-02d: a request is allowed as a whole, or none of it reaches an I/O unit. */
#include "rio/owner_parts.h"

/* MEM-13: own memory or memory that a share covers; and the unit must be able to reach it. */
static enum weft_reason platform_check(struct rio_owner *o, const struct owner_requester *q,
				       const struct owner_unit *u, struct platform platform)
{
	if (!rio_policy_may_name(o->policy, q->peer.is.platform, platform))
		return WEFT_R_RIO_FOREIGN;
	/* A unit always reaches its own memory (RIO-14). */
	if (platform_is_same(platform, u->peer.is.platform))
		return WEFT_OK;
	return owner_have_met(o, u, platform) ? WEFT_OK : WEFT_R_RIO_PLATFORM;
}

static enum weft_reason segments_check(struct rio_owner *o, const struct owner_requester *q,
				       const struct owner_unit *u, struct rio_walk *walk)
{
	struct platform known = { 0 };
	struct rio_segment s;

	while (rio_walk_segment(walk, &s)) {
		struct platform p = s.where == RIO_OWN ? u->peer.is.platform : s.platform;
		enum weft_reason r;

		if (s.where == RIO_IMMEDIATE || platform_is_same(p, known))
			continue;
		r = platform_check(o, q, u, p);
		if (r != WEFT_OK)
			return r;
		known = p;
	}
	return WEFT_OK;
}

/*
 * Policy first: a requester that no rule allows anything on a device must not learn that the device
 * exists. The log has the true reason.
 */
static enum weft_reason transaction_check(struct rio_owner *o, const struct owner_requester *q,
					  struct owner_verdict *v, uint32_t *rule)
{
	struct rio_wish wish = {
		.requester = q->peer.is.platform,
		.operation = v->is.operation,
		.offset = v->is.offset,
		.length = v->is.length,
	};
	struct owner_unit *unit;
	const struct rio_device *d = owner_device_find(o, v->is.device, &unit);
	enum weft_reason r;

	if (!d)
		return WEFT_R_RIO_DEVICE;
	wish.device = owner_target(unit, d);
	v->is_hidden = !rio_policy_may_touch(o->policy, wish.requester, &wish.device);
	r = rio_policy_judge(o->policy, &wish, rule);
	if (r != WEFT_OK)
		return r;
	if (v->unit && v->unit != unit)
		return WEFT_R_RIO_UNITS;
	v->unit = unit;
	return rio_device_check(d, &v->is);
}

/* A list that must be chained needs a chain pointer with addresses of the list's width. */
static enum weft_reason chain_check(const struct rio_owner *o, const struct owner_unit *u,
				    const struct rio_list *list)
{
	struct sgl_attributes a;
	uint64_t end = o->config.lists_address + (uint64_t)o->config.lists_max * RIO_LIST_BYTES_MAX;

	(void)rio_list_attributes(list, &a);
	if (rio_list_flat_bytes(list) <= u->list_max || a.address_bytes == 8 || end <= UINT32_MAX)
		return WEFT_OK;
	return WEFT_R_RIO_CHAIN;
}

void owner_judge(struct rio_owner *o, const struct owner_requester *q, const struct rio_list *list,
		 struct owner_verdict *v, uint32_t rules[RIO_LIST_TRANSACTIONS_MAX])
{
	struct rio_walk walk;

	*v = (struct owner_verdict){ .reason = WEFT_OK };
	CHECK(rio_list_transactions(list) <= RIO_LIST_TRANSACTIONS_MAX);
	rio_walk_start(&walk, list);
	while (rio_walk_transaction(&walk, &v->is)) {
		v->reason = transaction_check(o, q, v, &rules[v->transaction]);
		if (v->reason == WEFT_OK)
			v->reason = segments_check(o, q, v->unit, &walk);
		if (v->reason != WEFT_OK)
			return;
		v->transaction++;
	}
	v->transaction = 0;
	v->is = (struct sgl_transaction){ 0 };
	v->reason = chain_check(o, v->unit, list);
}
