/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/secret.h"

static uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static void siphash_rounds(uint64_t v[4], int count)
{
	for (int i = 0; i < count; i++) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

uint64_t siphash_u64(const uint64_t key[2], uint64_t message)
{
	const uint64_t length_block = UINT64_C(8) << 56;
	uint64_t v[4] = {
		key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d),
		key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573),
	};

	v[3] ^= message;
	siphash_rounds(v, 2);
	v[0] ^= message;
	v[3] ^= length_block;
	siphash_rounds(v, 2);
	v[0] ^= length_block;
	v[2] ^= 0xff;
	siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t secret_next(struct secret *s)
{
	return siphash_u64(s->key, s->counter++);
}
