/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that the owner pulls. Each object keeps its pending events as bits and is at most once in
 * the adapter's list, so events need no memory and cannot be lost. A repeated event that was not
 * fetched yet merges with the first, whose reason is kept.
 */
#pragma once

#include <stdint.h>

#include <weft/weft.h>

#include "base/list.h"

struct event_source {
	struct list link;
	uint32_t pending; /* 1 << enum weft_event_kind */
	uint16_t reasons[WEFT_EVENT_COUNT];
	uint32_t number;
	/* Of a queue pair that failed: the last one that it went to. Of a port: all its news. */
	uint32_t state;
	uint64_t addr;
	void *context;
};

void event_source_init(struct event_source *s, uint32_t number, void *context);
void event_raise(struct list *events, struct event_source *s, enum weft_event_kind kind,
		 enum weft_reason reason);

/* Discards the events that were not fetched yet. */
void event_clear(struct event_source *s);

/* Takes the lowest pending event of the oldest source. False: there is none. */
bool event_pop(struct list *events, struct weft_event *event);
