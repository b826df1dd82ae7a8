/* SPDX-License-Identifier: BSD-2-Clause */
/* Known answers of RFC 1321, RFC 3174, FIPS 180-4 and FIPS 202. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"

static void expect_digest(enum digest_kind kind, const char *a, const char *b, const char *hex)
{
	const struct span parts[] = { { (uint8_t *)(uintptr_t)a, strlen(a) },
				      { NULL, 0 },
				      { (uint8_t *)(uintptr_t)b, strlen(b) } };
	uint8_t digest[DIGEST_BYTES_MAX];
	char text[2 * DIGEST_BYTES_MAX + 1] = "";

	digest_of(kind, parts, 3, digest);
	for (uint32_t i = 0; i < digest_bytes(kind); i++)
		(void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
	EXPECT_STR(text, hex);
}

TEST(test_digest_known_answers)
{
	expect_digest(DIGEST_MD5, "a", "bc", "900150983cd24fb0d6963f7d28e17f72");
	expect_digest(DIGEST_SHA1, "ab", "c", "a9993e364706816aba3e25717850c26c9cd0d89d");
	expect_digest(DIGEST_SHA256, "abc", "",
		      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	expect_digest(DIGEST_SHA3_256, "", "abc",
		      "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532");
}
