/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which weft: the headers that a program was compiled with, and the library that it runs with.
 * docs/api.md says what may differ between the two.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of these headers; meson.build has the same. */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

/* To compare: a later version is a larger number. */
#define WEFT_VERSION_NUMBER                                                                        \
	((WEFT_VERSION_MAJOR << 16) | (WEFT_VERSION_MINOR << 8) | WEFT_VERSION_PATCH)

/* Version of the library, e.g. "0.1.0"; the same as a number, as WEFT_VERSION_NUMBER. */
const char *weft_version(void);
uint32_t weft_version_number(void);

#ifdef __cplusplus
}
#endif
