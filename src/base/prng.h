/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pseudo-random numbers from a seed: splitmix64. The same seed gives the same sequence on every
 * machine and compiler. Not cryptographic: see secret.h for numbers that are hard to guess.
 */
#pragma once

#include <stdint.h>

struct prng {
	uint64_t state;
};

static inline uint64_t prng_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint64_t prng_next(struct prng *p)
{
	p->state += UINT64_C(0x9e3779b97f4a7c15);
	return prng_mix(p->state);
}

/* A number below bound, which is not 0. The bias is below 2^-32 for the bounds used here. */
static inline uint32_t prng_below(struct prng *p, uint32_t bound)
{
	return (uint32_t)(((prng_next(p) >> 32) * bound) >> 32);
}

/* True with the given chance in a million. */
static inline int prng_chance(struct prng *p, uint32_t per_million)
{
	return prng_below(p, 1000000) < per_million;
}
