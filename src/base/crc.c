/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/crc.h"

#include <isa-l/crc.h>

#include "base/vector.h"

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
	vector_end();
	return crc;
}

uint32_t crc32_add(uint32_t crc, const void *bytes, size_t length)
{
	crc = ~crc32_gzip_refl(~crc, bytes, length);
	vector_end();
	return crc;
}

/* Polynomials over bits modulo that of the CRC; the highest bit is the coefficient of x^0. */
uint32_t crc32_times(uint32_t a, uint32_t b)
{
	const uint32_t polynomial = 0xedb88320;
	uint32_t product = 0;

	for (int i = 0; i < 32; i++) {
		product ^= b & -(a >> 31);
		a <<= 1;
		b = b >> 1 ^ (polynomial & -(b & 1));
	}
	return product;
}

/* A byte of zeros is a factor of x^8. */
uint32_t crc32_back(size_t length)
{
	uint32_t power = 0x6567cb95; /* the inverse of x^8 */
	uint32_t factor = 0x80000000;

	for (; length > 0; length >>= 1) {
		if (length & 1)
			factor = crc32_times(factor, power);
		power = crc32_times(power, power);
	}
	return factor;
}
