/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/store.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 64, SMALL_CHUNK = 1 << 20, LARGE_CHUNK = 1 << 21 };

struct fabric_chunk {
	_Alignas(LINE_BYTES) struct fabric_chunk *next;
};

void fabric_store_init(struct fabric_store *s, void (*tell)(void *at, size_t bytes))
{
	*s = (struct fabric_store){ .tell = tell };
}

void fabric_store_fini(struct fabric_store *s)
{
	while (s->chunks) {
		struct fabric_chunk *c = s->chunks;

		s->chunks = c->next;
		free(c);
	}
	fabric_store_init(s, NULL);
}

/* False: memory is short. What is left of the last chunk is too little, and not used. */
static bool more(struct fabric_store *s, size_t bytes)
{
	size_t unit = s->tell ? LARGE_CHUNK : SMALL_CHUNK;
	size_t size = (bytes + sizeof(struct fabric_chunk) + unit - 1) / unit * unit;
	struct fabric_chunk *c = aligned_alloc(s->tell ? LARGE_CHUNK : LINE_BYTES, size);

	if (!c)
		return false;
	if (s->tell)
		s->tell(c, size);
	c->next = s->chunks;
	s->chunks = c;
	s->at = (uint8_t *)(c + 1);
	s->left = size - sizeof(*c);
	return true;
}

void *fabric_store_take(struct fabric_store *s, size_t bytes)
{
	void *at;

	bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	if (s->left < bytes && !more(s, bytes))
		return NULL;
	at = s->at;
	s->at += bytes;
	s->left -= bytes;
	return at;
}

void *fabric_store_clear(struct fabric_store *s, size_t count, size_t bytes)
{
	void *at = fabric_store_take(s, count * bytes);

	return at ? memset(at, 0, count * bytes) : NULL;
}
