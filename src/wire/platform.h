/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The platform identifier (RIO-14): a unit of the cluster, and a process in it; as text 7.1. Unit 0
 * does not exist, and decoders reject it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

enum { PLATFORM_BYTES = 8 };

struct platform {
	uint32_t unit, process;
};

static inline bool platform_is_same(struct platform a, struct platform b)
{
	return a.unit == b.unit && a.process == b.process;
}

static inline bool platform_is_none(struct platform p)
{
	return p.unit == 0;
}

static inline struct platform platform_decode(struct rd *r)
{
	struct platform p;

	p.unit = rd_u32(r);
	p.process = rd_u32(r);
	return p;
}

static inline void platform_encode(struct platform p, struct wr *w)
{
	wr_u32(w, p.unit);
	wr_u32(w, p.process);
}

/*
 * Parses two decimal numbers with a point between them: no signs, blanks or leading zeros. False:
 * the text is something else, or names unit 0; then *platform has not changed.
 */
bool platform_parse(const char *text, struct platform *platform);
