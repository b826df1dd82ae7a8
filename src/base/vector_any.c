/* SPDX-License-Identifier: BSD-2-Clause */
/* For processors whose narrow instructions do not mind. */
#include "base/vector.h"

void vector_end(void)
{
}
