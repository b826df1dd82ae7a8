/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Message digests by name, for protocols that prescribe them. Nettle computes them: a small library
 * whose contexts lie on the caller's stack, and which has MD5 whatever the system's policy.
 * New protocols of weft's own use BLAKE2b of libsodium instead.
 */
#pragma once

#include <stdint.h>

#include "base/span.h"

enum digest_kind { DIGEST_MD5, DIGEST_SHA1, DIGEST_SHA256, DIGEST_SHA3_256, DIGEST_COUNT };

enum { DIGEST_BYTES_MAX = 32 };

uint32_t digest_bytes(enum digest_kind kind);

/* The digest of some parts, one after the other; digest_bytes() of it are written. */
void digest_of(enum digest_kind kind, const struct span *parts, uint32_t count, uint8_t *digest);
