/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pins (SEND-05): ranges of a space's memory that a transport is sending from, and that must stay
 * in place until the bytes have been sent. Between a send and its retransmission nothing is pinned.
 * Only spaces created by the program have pins: weft never moves memory of the process space.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "mem/guard.h"
#include "mem/watch.h"

enum { MEM_PINS_MAX = 64 };

struct mem_pin {
	uint64_t real, length;
};

struct mem_paging {
	/* Fixed. */
	bool has_pager;		       /* a missing page will come back: a send from it waits */
	bool is_handing;	       /* data is copied out (SEND-04), never pinned */
	bool is_flat;		       /* of the process: nothing is pinned */
	const struct mem_guard *guard; /* NULL: the memory stays mapped */
	struct mem_watch *watch;       /* NULL: what is there now counts */
	/* Pins; counts.count of them. */
	struct weft_pins counts;
	uint64_t counted_ns; /* the time up to which counts.byte_ns is summed */
	uint64_t
		events_raised; /* accesses that met a mapping without a page: the program is told */
	uint64_t brought;      /* mappings that have got a page again */
	struct mem_pin pins[MEM_PINS_MAX];
};

/* False: there are too many pins, or is_handing: the caller must copy the data instead. */
bool mem_pin(struct mem_paging *p, uint64_t real, uint64_t length, uint64_t now_ns);

/* Removes a pin. */
void mem_unpin(struct mem_paging *p, uint64_t real, uint64_t length, uint64_t now_ns);

/* Whether any byte of the range is pinned. */
bool mem_is_pinned(const struct mem_paging *p, uint64_t real, uint64_t length);

void mem_pins_query(const struct mem_paging *p, uint64_t now_ns, struct weft_pins *pins);
