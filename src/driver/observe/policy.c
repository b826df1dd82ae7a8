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

const char profile_unknown[] = "This is not host or io, so no device opens";

bool profile_named(const char *name, enum weft_profile *profile)
{
	bool is_io = strcmp(name, "io") == 0;

	if (!is_io && strcmp(name, "host") != 0)
		return false;
	*profile = is_io ? WEFT_PROFILE_IO : WEFT_PROFILE_HOST;
	return true;
}

enum weft_reason profile_wished(enum weft_profile *profile)
{
	const char *name = observe_wish("WEFT_PROFILE");

	*profile = WEFT_PROFILE_NONE;
	if (!name || profile_named(name, profile))
		return WEFT_OK;
	observe_complain("WEFT_PROFILE", name, profile_unknown);
	return WEFT_R_BAD_ARGUMENT;
}

bool switch_named(const char *name, bool *is_on)
{
	bool is_named_on = strcmp(name, "on") == 0;

	if (!is_named_on && strcmp(name, "off") != 0)
		return false;
	*is_on = is_named_on;
	return true;
}

const char serve_unknown[] = "This is not on or off, and counts as off";

bool serve_wished(void)
{
	const char *name = observe_wish("WEFT_SERVE");
	bool is_served = false;

	if (name && !switch_named(name, &is_served))
		observe_complain("WEFT_SERVE", name, serve_unknown);
	return is_served;
}

bool stripe_wished(void)
{
	const char *name = observe_wish("WEFT_STRIPE");
	bool is_on = false;

	if (name && !switch_named(name, &is_on))
		observe_complain("WEFT_STRIPE", name, serve_unknown);
	return is_on;
}

const char crc_unknown[] = "This is not on or off, and counts as on";

bool crc_wished(void)
{
	const char *name = observe_wish("WEFT_CRC");
	bool is_on = true;

	if (name && !switch_named(name, &is_on))
		observe_complain("WEFT_CRC", name, crc_unknown);
	return is_on;
}

const char near_unknown[] = "This is not on, off or packets, and counts as on";

bool near_named(const char *name, enum near_wish *wish)
{
	static const char *const names[] = {
		[NEAR_WISH_ON] = "on", [NEAR_WISH_OFF] = "off", [NEAR_WISH_PACKETS] = "packets"
	};

	for (int i = NEAR_WISH_ON; i <= NEAR_WISH_PACKETS; i++) {
		if (strcmp(name, names[i]) == 0) {
			*wish = (enum near_wish)i;
			return true;
		}
	}
	return false;
}

enum near_wish near_wished(void)
{
	const char *name = observe_wish("WEFT_NEAR");
	enum near_wish wish = NEAR_WISH_ON;

	if (name && !near_named(name, &wish))
		observe_complain("WEFT_NEAR", name, near_unknown);
	return wish;
}
