/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one adapter behind all devices of the process. One, so that a listener at every address can
 * hand its requests to whichever device they came to.
 */
#pragma once

#include <weft/weft.h>

/* Opens it for one more context; every success wants an engine_put(). */
enum weft_reason engine_get(void);
void engine_put(void);
