/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdint.h>

/* Saturating add: from_ns + wait_ns, at most UINT64_MAX, which means never. */
static inline uint64_t deadline_after(uint64_t from_ns, uint64_t wait_ns)
{
	return wait_ns < UINT64_MAX - from_ns ? from_ns + wait_ns : UINT64_MAX;
}
