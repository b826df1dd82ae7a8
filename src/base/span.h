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

/* What a stream core wants received, or has to send: in this order, length bytes in all. */
struct span_list {
	struct span spans[SPANS_MAX];
	uint32_t count;
	_Bool may_go; /* some of it is memory that the program may take away at any moment */
	size_t length;
};

/* Adds a stretch, as one with the last if it continues that. False: there is no room. */
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
