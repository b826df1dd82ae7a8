/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "driver/observe/observe.h"

const char policy_unknown[] = "This is not open or strict, so no device opens";

bool policy_named(const char *name, enum weft_policy *policy)
{
	static const char *const names[] = {
		[WEFT_POLICY_OPEN] = "open", [WEFT_POLICY_STRICT] = "strict"
	};

	for (int i = WEFT_POLICY_OPEN; i <= WEFT_POLICY_STRICT; i++) {
		if (strcmp(name, names[i]) == 0) {
			*policy = (enum weft_policy)i;
			return true;
		}
	}
	return false;
}

enum weft_reason policy_wished(enum weft_policy *policy)
{
	const char *name = observe_wish("WEFT_POLICY");

	*policy = WEFT_POLICY_OPEN;
	if (!name || policy_named(name, policy))
		return WEFT_OK;
	observe_complain("WEFT_POLICY", name, policy_unknown);
	return WEFT_R_BAD_ARGUMENT;
}

const char serve_unknown[] = "This is not on or off, and counts as off";

bool serve_named(const char *name, bool *is_served)
{
	*is_served = strcmp(name, "on") == 0;
	return *is_served || strcmp(name, "off") == 0;
}

bool serve_wished(void)
{
	const char *name = observe_wish("WEFT_SERVE");
	bool is_served = false;

	if (name && !serve_named(name, &is_served))
		observe_complain("WEFT_SERVE", name, serve_unknown);
	return is_served;
}
