/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32C (Castagnoli), the check of MPA and iSCSI, and CRC-32 (IEEE 802.3), the check of the
 * InfiniBand transport. Start with ..._BEGIN, add any number of pieces, and finish with ..._end().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CRC32C_BEGIN UINT32_MAX

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t length);

static inline uint32_t crc32c_end(uint32_t crc)
{
	return ~crc;
}

#define CRC32_BEGIN UINT32_MAX

uint32_t crc32_add(uint32_t crc, const void *bytes, size_t length);

static inline uint32_t crc32_end(uint32_t crc)
{
	return ~crc;
}

/*
 * Undoes zeros: crc32_times(crc, crc32_back(length)) is the register that length zero bytes turned
 * into crc. As CRCs are linear, the same holds for the difference (XOR) of two registers after the
 * same bytes.
 */
uint32_t crc32_back(size_t length);
uint32_t crc32_times(uint32_t a, uint32_t b);
