/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdint.h>

/* wait_ns after from_ns; UINT64_MAX, which is never, where the sum is larger. */
static inline uint64_t deadline_after(uint64_t from_ns, uint64_t wait_ns)
{
	return wait_ns < UINT64_MAX - from_ns ? from_ns + wait_ns : UINT64_MAX;
}
