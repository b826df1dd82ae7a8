/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/vector.h"

__attribute__((target("avx"))) static void clear_upper_halves(void)
{
	__builtin_ia32_vzeroupper();
}

void vector_end(void)
{
	if (__builtin_cpu_supports("avx"))
		clear_upper_halves();
}
