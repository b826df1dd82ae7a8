/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/crc.h"

#include <isa-l/crc.h>

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t length)
{
	enum { PIECE_MAX = 1 << 30 }; /* the library counts in int */
	const unsigned char *at = bytes;

	while (length > 0) {
		int n = length < PIECE_MAX ? (int)length : PIECE_MAX;

		/* The library does not change what it reads, though it does not say so. */
		crc = crc32_iscsi((unsigned char *)(uintptr_t)at, n, crc);
		at += n;
		length -= (size_t)n;
	}
	return crc;
}
