/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32C (Castagnoli), the check of MPA and iSCSI. Begin with CRC32C_BEGIN, go on over any number
 * of pieces, and end with crc32c_end().
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
