/* SPDX-License-Identifier: BSD-2-Clause */
/* Advertisements of memory, as messages carry them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An advertisement: what a peer needs to reach memory (RKEY-12). 32 bytes on the wire. */
struct weft_advert {
	uint64_t addr;
	uint64_t length;
	uint32_t tag;
	uint32_t rights;
};

enum { WEFT_ADVERT_BYTES = 32 };

/* Rights other than remote ones are left out. */
void weft_advert_encode(const struct weft_advert *advert, uint8_t bytes[WEFT_ADVERT_BYTES]);

/* False, and *advert unchanged, if the bytes are no advertisement. */
bool weft_advert_decode(const uint8_t *bytes, size_t length, struct weft_advert *advert);

#ifdef __cplusplus
}
#endif
