/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one adapter behind all devices of the process. One, so that a listener at every address can
 * hand its requests to whichever device they came to.
 */
#pragma once

#include <weft/weft.h>

/* How many there can be: regions and windows, pages in lists, and of each other kind. */
enum { ENGINE_TAGS = 1 << 18, ENGINE_TRANSLATIONS = 1 << 12, ENGINE_OBJECTS = 1 << 14 };

/* Opens it for one more context; every success wants an engine_put(). */
enum weft_reason engine_get(void);
void engine_put(const struct weft_adapter *adapter);
