/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loaded before a program by LD_PRELOAD, counts the bytes that it copies in memory by itself, in
 * pieces of so many that they can be payload. At its end it writes the number to the file that
 * WEFT_COPIES names. What the kernel copies is not counted.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE_BYTES_MIN = 512 };

static _Atomic uint64_t copied_bytes;

/* Their names are the C library's own; the compiler must not make calls of them again of these. */
void *memcpy(void *restrict to, const void *restrict from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *__memcpy_chk(void *restrict to, const void *restrict from, size_t length, size_t room);
void *__memmove_chk(void *to, const void *from, size_t length, size_t room);

static void count(size_t length)
{
	if (length >= PIECE_BYTES_MIN)
		atomic_fetch_add_explicit(&copied_bytes, length, memory_order_relaxed);
}

void *memmove(void *to, const void *from, size_t length)
{
	volatile uint8_t *t = to;
	const volatile uint8_t *f = from;

	count(length);
	if ((uintptr_t)to <= (uintptr_t)from) {
		for (size_t i = 0; i < length; i++)
			t[i] = f[i];
	} else {
		for (size_t i = length; i-- > 0;)
			t[i] = f[i];
	}
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t length)
{
	return memmove(to, from, length);
}

void *__memcpy_chk(void *restrict to, const void *restrict from, size_t length, size_t room)
{
	if (length > room)
		abort();
	return memmove(to, from, length);
}

void *__memmove_chk(void *to, const void *from, size_t length, size_t room)
{
	if (length > room)
		abort();
	return memmove(to, from, length);
}

__attribute__((destructor)) static void tell(void)
{
	const char *path = getenv("WEFT_COPIES");
	int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

	if (file < 0)
		return;
	(void)!dprintf(file, "%llu\n", (unsigned long long)atomic_load(&copied_bytes));
	close(file);
}
