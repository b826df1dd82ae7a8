/* SPDX-License-Identifier: BSD-2-Clause */
/* A stretch of memory to receive into or to send from. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct span {
	uint8_t *bytes;
	size_t length;
};

enum { SPANS_MAX = 64 };

/* Memory that a stream core receives into or sends from: in this order, length bytes in all. */
struct span_list {
	struct span spans[SPANS_MAX];
	uint32_t count;
	_Bool may_go; /* some of it is memory of the program, which may unmap it at any time */
	size_t length;
};

/* Adds a span, merged with the last one if it continues it. False: there is no room. */
static inline _Bool span_list_add(struct span_list *l, uint8_t *bytes, size_t length)
{
	struct span *last = &l->spans[l->count - (l->count > 0)];

	if (length == 0)
		return 1;
	if (l->count > 0 && last->bytes + last->length == bytes) {
		last->length += length;
	} else {
		if (l->count == SPANS_MAX)
			return 0;
		l->spans[l->count++] = (struct span){ bytes, length };
	}
	l->length += length;
	return 1;
}
