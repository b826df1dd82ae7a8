/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library to preload: memory of the C library in which libiscsi 1.19 can use iSER, for several
 * connections in a process. It
 *
 *	takes memory that it never wrote for zeros (the list of its buffers);
 *	has a thread that writes to a connection, and its context, after they were freed;
 *	frees buffers of any length to a pool of 512 bytes each.
 */
#include <malloc.h>
#include <stddef.h>

enum { LEAST = 1024, CONTEXT_LEAST = 4096, CONTEXT_MOST = 16384 };

void *__libc_calloc(size_t count, size_t size);
void __libc_free(void *memory);

void *malloc(size_t size)
{
	return __libc_calloc(1, size < LEAST ? LEAST : size);
}

void free(void *memory)
{
	size_t size = memory ? malloc_usable_size(memory) : 0;

	if (size < CONTEXT_LEAST || size > CONTEXT_MOST)
		__libc_free(memory);
}
