/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pins (SEND-05): stretches of a space's memory that somebody sends from, and that must stay where
 * they are until they have left. Between a send and its being repeated nothing is pinned. Only
 * spaces of their own have pins: the memory of a process is not ours to move.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

enum { MEM_PINS_MAX = 64 };

struct mem_pin {
	uint64_t real, length;
};

/*
 * Copies within the process, where either end may go at any moment. False: it was not there, and
 * some of it may have been copied. The owner of the adapter can.
 */
typedef bool mem_mover(void *to, const void *from, uint64_t length);

struct mem_paging {
	/* Fixed. */
	bool has_pager;	 /* a page that is away will come back: who sends from it waits */
	bool is_handing; /* data is copied out (SEND-04), never pinned */
	mem_mover *move; /* of on-demand memory: bytes are touched by this only; or NULL */
	/* Pins; counts.count of them. */
	struct weft_pins counts;
	uint64_t counted_ns; /* counts.byte_ns is of then */
	struct mem_pin pins[MEM_PINS_MAX];
};

/* False: there are too many, or data is handed over here: copy it instead. */
bool mem_pin(struct mem_paging *p, uint64_t real, uint64_t length, uint64_t now_ns);

/* The way back, of one that is pinned. */
void mem_unpin(struct mem_paging *p, uint64_t real, uint64_t length, uint64_t now_ns);

/* Whether any byte of the stretch is pinned. */
bool mem_is_pinned(const struct mem_paging *p, uint64_t real, uint64_t length);

void mem_pins_query(const struct mem_paging *p, uint64_t now_ns, struct weft_pins *pins);
