/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/digest.h"

#include <nettle/md5.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <nettle/sha3.h>
#include <sodium/utils.h>

#include "base/check.h"

union context {
	struct md5_ctx md5;
	struct sha1_ctx sha1;
	struct sha256_ctx sha256;
	struct sha3_256_ctx sha3_256;
};

uint32_t digest_bytes(enum digest_kind kind)
{
	static const uint8_t bytes[DIGEST_COUNT] = {
		[DIGEST_MD5] = MD5_DIGEST_SIZE,
		[DIGEST_SHA1] = SHA1_DIGEST_SIZE,
		[DIGEST_SHA256] = SHA256_DIGEST_SIZE,
		[DIGEST_SHA3_256] = SHA3_256_DIGEST_SIZE,
	};

	CHECK((unsigned int)kind < DIGEST_COUNT);
	return bytes[kind];
}

static void begin(enum digest_kind kind, union context *c)
{
	switch (kind) {
	case DIGEST_MD5:
		md5_init(&c->md5);
		break;
	case DIGEST_SHA1:
		sha1_init(&c->sha1);
		break;
	case DIGEST_SHA256:
		sha256_init(&c->sha256);
		break;
	default:
		sha3_256_init(&c->sha3_256);
	}
}

static void add(enum digest_kind kind, union context *c, const struct span *part)
{
	switch (kind) {
	case DIGEST_MD5:
		md5_update(&c->md5, part->length, part->bytes);
		break;
	case DIGEST_SHA1:
		sha1_update(&c->sha1, part->length, part->bytes);
		break;
	case DIGEST_SHA256:
		sha256_update(&c->sha256, part->length, part->bytes);
		break;
	default:
		sha3_256_update(&c->sha3_256, part->length, part->bytes);
	}
}

void digest_of(enum digest_kind kind, const struct span *parts, uint32_t count, uint8_t *digest)
{
	uint32_t bytes = digest_bytes(kind);
	union context c;

	begin(kind, &c);
	for (uint32_t i = 0; i < count; i++) {
		if (parts[i].length > 0)
			add(kind, &c, &parts[i]);
	}
	switch (kind) {
	case DIGEST_MD5:
		md5_digest(&c.md5, bytes, digest);
		break;
	case DIGEST_SHA1:
		sha1_digest(&c.sha1, bytes, digest);
		break;
	case DIGEST_SHA256:
		sha256_digest(&c.sha256, bytes, digest);
		break;
	default:
		sha3_256_digest(&c.sha3_256, bytes, digest);
	}
	/* A part may be a secret. */
	sodium_memzero(&c, sizeof(c));
}
