/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/erf.h"

#include "base/cursor.h"

enum { TYPE_INFINIBAND = 21, FLAG_VARIABLE = 4, TIME_BYTES = 8, NS_PER_S = 1000000000 };

void erf_infiniband_encode(uint64_t time_ns, uint32_t frame_bytes, uint64_t lost,
			   uint8_t bytes[ERF_BYTES])
{
	struct wr w = wr_of(bytes, ERF_BYTES);
	uint64_t time = time_ns / NS_PER_S << 32 | ((time_ns % NS_PER_S) << 32) / NS_PER_S;

	for (int i = 0; i < TIME_BYTES; i++, time >>= 8) /* it alone begins with its low byte */
		wr_u8(&w, (uint8_t)time);
	wr_u8(&w, TYPE_INFINIBAND);
	wr_u8(&w, FLAG_VARIABLE);
	wr_u16(&w, (uint16_t)(ERF_BYTES + frame_bytes));
	wr_u16(&w, lost > UINT16_MAX ? UINT16_MAX : (uint16_t)lost);
	wr_u16(&w, (uint16_t)frame_bytes);
}
