/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Batching of success notices that need no reaction: the sender holds them back until
 * RIO_NOTIFY_BATCH have gathered, RIO_NOTIFY_WAIT_NS have passed, or the receiver runs short of
 * slots that a notice would free.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { RIO_NOTIFY_BATCH = 16, RIO_NOTIFY_WAIT_NS = 4 * 1000 * 1000 };

static inline bool rio_is_short_of(uint32_t left, uint32_t all)
{
	return left <= all / 4 + 4;
}
