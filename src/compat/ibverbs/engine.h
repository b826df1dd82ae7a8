/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one adapter behind all devices of the process. A single one, so that a wildcard listener can
 * pass each request to the device that it came to.
 */
#pragma once

#include <weft/weft.h>

/* Limits: regions and windows; pages in page lists; objects of each other kind. */
enum { ENGINE_TAGS = 1 << 18, ENGINE_TRANSLATIONS = 1 << 12, ENGINE_OBJECTS = 1 << 14 };

/*
 * Opens the adapter for one more context, under this policy or a stricter one, which the user may
 * want (WEFT_POLICY). WEFT_R_BUSY: it is open, under a laxer one. Every success needs an
 * engine_put().
 */
enum weft_reason engine_get(enum weft_policy policy);
void engine_put(const struct weft_adapter *adapter);

/* Of its profile, which the user may want (WEFT_PROFILE): queue pairs; ports of a node. */
uint32_t engine_qps_max(void);
uint32_t engine_ports_max(void);

/* Keeps the adapter from being opened or closed, and the process from forking. */
void engine_lock(void);
void engine_unlock(void);
