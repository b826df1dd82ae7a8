/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

noreturn void check_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "weft: broken invariant at %s:%d: %s\n", file, line, what);
	abort();
}
