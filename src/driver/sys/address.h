/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <string.h>

#include <weft/weft.h>

/* The same host; ports do not count. What lies behind the four bytes of IPv4 does not either. */
static inline bool address_is_same_ip(const struct weft_address *a, const struct weft_address *b)
{
	return a->family == b->family && memcmp(a->ip, b->ip, a->family == 6 ? 16 : 4) == 0;
}

static inline bool address_is_same_end(const struct weft_address *a, const struct weft_address *b)
{
	return a->port == b->port && address_is_same_ip(a, b);
}
