/* SPDX-License-Identifier: BSD-2-Clause */
/* What is drawn by lot in a simulation. */
#pragma once

#include "base/prng.h"

/* One of these numbers. */
#define ANY_OF(prng, ...)                                                                          \
	(((const uint64_t[]){ __VA_ARGS__ })[prng_below(                                           \
		prng, sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))])
