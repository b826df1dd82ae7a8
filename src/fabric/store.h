/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of a fabric: taken in pieces of any size, all of it given back at once. It comes in large
 * chunks, so that a system that is told of them may use large pages: a processor remembers where
 * few pages are, and frames touch memory everywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric_chunk;

struct fabric_store {
	void (*tell)(void *at, size_t bytes); /* of a chunk, before it is used; or NULL */
	struct fabric_chunk *chunks;
	uint8_t *at;
	size_t left;
};

void fabric_store_init(struct fabric_store *s, void (*tell)(void *at, size_t bytes));
void fabric_store_fini(struct fabric_store *s);

/* Begins with a cache line, and is not cleared. NULL: memory is short. */
void *fabric_store_take(struct fabric_store *s, size_t bytes);

/* The same, cleared. */
void *fabric_store_clear(struct fabric_store *s, size_t count, size_t bytes);
