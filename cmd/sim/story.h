/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Simulated worlds told to a person: what happened first in the first of them, what was done in
 * all, and what was refused why.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/trace.h"

enum { STORY_KINDS = 160 };

struct story {
	bool is_over;			     /* the timeline is over */
	uint32_t line_count;		     /* lines of the timeline so far */
	uint8_t seen[WEFT_REASON_COUNT];     /* reasons that the timeline has shown */
	uint8_t seen_kind[STORY_KINDS];	     /* the same of a world's own kinds of events */
	uint8_t seen_op[WEFT_OP_SEND_COUNT]; /* operations that it has shown to succeed */
	uint64_t good[WEFT_OP_SEND_COUNT], bad[WEFT_OP_SEND_COUNT], flushed[WEFT_OP_SEND_COUNT];
	uint64_t dropped
		[WEFT_OP_SEND_COUNT]; /* by unreliable services: done here, lost on the way */
	bool is_drop;		      /* the request that ends next was dropped */
	uint64_t refused[WEFT_REASON_COUNT];
};

/* Takes the next event; prints it if it is the first of its kind. */
void story_take(struct story *s, const struct trace_event *event);

/* Prints the tables at the end. */
void story_end(const struct story *s);
