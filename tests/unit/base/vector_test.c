/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/crc.h"

enum { AVX_STATE = 1 << 2, AVX512_STATE = 1 << 6 }; /* upper halves of 16 registers, each */

#if defined(__x86_64__)
#include <cpuid.h>

/* The parts of the registers' state that are in use now; -1: the processor does not tell. */
static int state_in_use(void)
{
	enum { STATE_LEAF = 0xd, HAS_IN_USE = 1 << 2 };
	uint32_t a = 0, b = 0, c = 0, d = 0;

	if (!__builtin_cpu_supports("avx") || !__get_cpuid_count(STATE_LEAF, 1, &a, &b, &c, &d) ||
	    !(a & HAS_IN_USE))
		return -1;
	__asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(1));
	return (int)(a & (AVX_STATE | AVX512_STATE));
}
#else
static int state_in_use(void)
{
	return -1;
}
#endif

/* Else the first instruction of SSE behind each CRC takes hundreds of cycles. */
TEST(test_vector_upper_halves_are_clear_behind_a_crc)
{
	static uint8_t bytes[4096];

	if (state_in_use() < 0)
		SKIP("this processor does not tell which registers are in use");
	for (size_t length = 1; length <= sizeof(bytes); length *= 2) {
		(void)crc32_add(CRC32_BEGIN, bytes, length);
		EXPECT_EQ(state_in_use(), 0);
		(void)crc32c_add(CRC32C_BEGIN, bytes, length);
		EXPECT_EQ(state_in_use(), 0);
	}
}
