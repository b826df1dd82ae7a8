/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/policy.h"

#include <string.h>

static const uint32_t operations_all = 1U << SGL_READ | 1U << SGL_WRITE | 1U << SGL_FLUSH |
				       1U << SGL_WRITE_ZEROES | 1U << SGL_DISCARD;

enum weft_reason rio_policy_add(struct rio_policy *p, const struct rio_rule *rule)
{
	if (rule->operations == 0 || (rule->operations & ~operations_all) != 0 ||
	    rule->first + rule->length < rule->first)
		return WEFT_R_BAD_ARGUMENT;
	if (p->count == RIO_POLICY_RULES_MAX)
		return WEFT_R_LIMIT;
	p->rules[p->count++] = *rule;
	return WEFT_OK;
}

enum weft_reason rio_policy_add_share(struct rio_policy *p, const struct rio_share *share)
{
	if (platform_is_none(share->platform))
		return WEFT_R_BAD_ARGUMENT;
	if (p->share_count == RIO_POLICY_SHARES_MAX)
		return WEFT_R_LIMIT;
	p->shares[p->share_count++] = *share;
	return WEFT_OK;
}

enum weft_reason rio_policy_add_watcher(struct rio_policy *p, struct platform requester)
{
	if (p->watcher_count == RIO_POLICY_WATCHERS_MAX)
		return WEFT_R_LIMIT;
	p->watchers[p->watcher_count++] = requester;
	return WEFT_OK;
}

/* Unit 0 stands for all platforms, process 0 for all processes of its unit. */
static bool covers(struct platform pattern, struct platform p)
{
	return pattern.unit == 0 ||
	       (pattern.unit == p.unit && (pattern.process == 0 || pattern.process == p.process));
}

/* Is there a platform that both patterns cover? */
static bool overlap(struct platform a, struct platform b)
{
	return covers(a, b) || covers(b, a);
}

static bool is_of_device(const struct rio_rule *rule, const struct rio_target *device)
{
	return covers(rule->iounit, device->iounit) &&
	       (rule->name_bytes == 0 ||
		(rule->name_bytes == device->name.length &&
		 memcmp(rule->name, device->name.bytes, rule->name_bytes) == 0));
}

static bool is_for(const struct rio_rule *rule, const struct rio_wish *w)
{
	return covers(rule->requester, w->requester) && is_of_device(rule, &w->device) &&
	       (rule->operations & 1U << w->operation) != 0;
}

static bool has_range(const struct rio_rule *rule, const struct rio_wish *w)
{
	uint64_t end = rule->length == 0 ? UINT64_MAX : rule->first + rule->length;

	if (w->operation == SGL_FLUSH)
		return true;
	return w->offset >= rule->first && w->offset <= end && w->length <= end - w->offset;
}

enum weft_reason rio_policy_judge(const struct rio_policy *p, const struct rio_wish *w,
				  uint32_t *rule)
{
	for (uint32_t i = 0; i < p->count; i++) {
		if (is_for(&p->rules[i], w) && has_range(&p->rules[i], w)) {
			*rule = i;
			return WEFT_OK;
		}
	}
	return WEFT_R_RIO_DENIED;
}

bool rio_policy_may_name(const struct rio_policy *p, struct platform requester,
			 struct platform platform)
{
	if (platform_is_same(requester, platform))
		return true;
	for (uint32_t i = 0; i < p->share_count; i++) {
		if (covers(p->shares[i].requester, requester) &&
		    covers(p->shares[i].platform, platform))
			return true;
	}
	return false;
}

bool rio_policy_may_watch(const struct rio_policy *p, struct platform requester)
{
	for (uint32_t i = 0; i < p->watcher_count; i++) {
		if (covers(p->watchers[i], requester))
			return true;
	}
	return false;
}

bool rio_policy_may_touch(const struct rio_policy *p, struct platform requester,
			  const struct rio_target *device)
{
	for (uint32_t i = 0; i < p->count; i++) {
		if (covers(p->rules[i].requester, requester) && is_of_device(&p->rules[i], device))
			return true;
	}
	return false;
}

static bool any_may_touch(const struct rio_policy *p, struct platform pattern,
			  const struct rio_target *device)
{
	for (uint32_t i = 0; i < p->count; i++) {
		if (overlap(p->rules[i].requester, pattern) && is_of_device(&p->rules[i], device))
			return true;
	}
	return false;
}

bool rio_policy_may_meet(const struct rio_policy *p, struct platform platform,
			 const struct rio_target *device)
{
	if (rio_policy_may_touch(p, platform, device))
		return true;
	for (uint32_t i = 0; i < p->share_count; i++) {
		if (covers(p->shares[i].platform, platform) &&
		    any_may_touch(p, p->shares[i].requester, device))
			return true;
	}
	return false;
}
