/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet sequence numbers (IBA 9.7.1 and on): 24 bits that wrap. Order is defined for numbers less
 * than half of the number space apart. Message sequence numbers work the same way.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { IBA_PSN_MASK = 0xffffff, IBA_PSN_HALF = 0x800000 };

static inline uint32_t iba_psn_add(uint32_t psn, uint32_t count)
{
	return (psn + count) & IBA_PSN_MASK;
}

/* a - b: negative if a is earlier. Exactly half of the number space counts as earlier. */
static inline int32_t iba_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* to - from, modulo 2^24: for `to` that is not earlier. */
static inline uint32_t iba_psn_distance(uint32_t from, uint32_t to)
{
	return (to - from) & IBA_PSN_MASK;
}

static inline bool iba_psn_is_before(uint32_t a, uint32_t b)
{
	return iba_psn_diff(a, b) < 0;
}

/* Whether it is one of `count` numbers from `first` on. */
static inline bool iba_psn_is_within(uint32_t psn, uint32_t first, uint32_t count)
{
	return iba_psn_distance(first, psn) < count;
}

/* Packets of a message or Read response of so many bytes; an empty one has one. */
static inline uint32_t iba_psn_count(uint32_t bytes, uint32_t mtu_bytes)
{
	if (bytes <= mtu_bytes) /* most are: no division */
		return 1;
	return (uint32_t)(((uint64_t)bytes + mtu_bytes - 1) / mtu_bytes);
}
