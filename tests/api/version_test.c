/* SPDX-License-Identifier: BSD-2-Clause */
/* The version that the headers say, meson.build says and the library says. */
#include <stdio.h>

#include <weft/version.h>

#include "test.h"

TEST(test_api_version_of_the_headers_is_the_librarys)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR,
		 WEFT_VERSION_PATCH);
	EXPECT_STR(weft_version(), text);
	EXPECT_EQ(weft_version_number(), WEFT_VERSION_NUMBER);
}

TEST(test_api_version_numbers_grow)
{
	EXPECT_EQ(WEFT_VERSION_NUMBER,
		  WEFT_VERSION_MAJOR * 65536 + WEFT_VERSION_MINOR * 256 + WEFT_VERSION_PATCH);
	EXPECT(WEFT_VERSION_MINOR < 256 && WEFT_VERSION_PATCH < 256);
}
