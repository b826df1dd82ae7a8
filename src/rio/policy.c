/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/policy.h"

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

static bool is_for(const struct rio_rule *rule, const struct rio_wish *w)
{
	if (rule->requester.unit != 0 && rule->requester.unit != w->requester.unit)
		return false;
	if (rule->requester.unit != 0 && rule->requester.process != 0 &&
	    rule->requester.process != w->requester.process)
		return false;
	return (rule->device == RIO_ANY_DEVICE || rule->device == w->device) &&
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
