/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whoever is to hear that something went well, and need not act on it, hears of several at once:
 * of so many, or after so long, or as soon as somebody is short of room until it has heard.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { RIO_NOTIFY_BATCH = 16, RIO_NOTIFY_WAIT_NS = 4 * 1000 * 1000 };

static inline bool rio_is_short_of(uint32_t left, uint32_t all)
{
	return left <= all / 4 + 4;
}
