/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers that cannot be guessed from earlier ones: SipHash-2-4 of a counter under a 128-bit key
 * that the caller hands in. Used where a peer must not foresee a value, as with tags.
 */
#pragma once

#include <stdint.h>

struct secret {
	uint64_t key[2];
	uint64_t counter;
};

uint64_t secret_next(struct secret *s);

/* SipHash-2-4 of one 8-byte message. */
uint64_t siphash_u64(const uint64_t key[2], uint64_t message);
