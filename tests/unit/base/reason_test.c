/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/reason.h>

/* GRP-nn, GRP-nnx or GRP-Sn; or "-". */
static bool is_requirement(const char *id)
{
	size_t at = 0, digits = 0;

	if (strcmp(id, "-") == 0)
		return true;
	while (isupper((unsigned char)id[at]))
		at++;
	if (at < 2 || id[at++] != '-')
		return false;
	if (id[at] == 'S')
		return isdigit((unsigned char)id[at + 1]) && id[at + 2] == '\0';
	while (isdigit((unsigned char)id[at + digits]))
		digits++;
	at += digits;
	return digits == 2 && (id[at] == '\0' || (islower((unsigned char)id[at]) && !id[at + 1]));
}

/* Lower case and underscores, as `weft explain` takes it. */
static bool is_name(const char *name)
{
	if (*name == '\0')
		return false;
	for (; *name; name++) {
		if (!islower((unsigned char)*name) && *name != '_')
			return false;
	}
	return true;
}

TEST(test_reason_every_one_has_name_text_requirement_and_errno)
{
	for (int i = 1; i < WEFT_REASON_COUNT; i++) {
		enum weft_reason r = (enum weft_reason)i, found = WEFT_OK;
		const char *text = weft_reason_text(r);

		EXPECT(weft_reason_name(r) && is_name(weft_reason_name(r)));
		EXPECT(text && strlen(text) > 10 && text[strlen(text) - 1] == '.');
		EXPECT(is_requirement(weft_reason_requirement(r)));
		EXPECT(weft_reason_errno(r) > 0);
		EXPECT(weft_reason_find(weft_reason_name(r), &found));
		EXPECT_EQ(found, r);
	}
}

TEST(test_reason_names_and_texts_are_unique)
{
	for (int i = 0; i < WEFT_REASON_COUNT; i++) {
		for (int n = 0; n < i; n++) {
			enum weft_reason a = (enum weft_reason)i, b = (enum weft_reason)n;

			EXPECT(strcmp(weft_reason_name(a), weft_reason_name(b)) != 0);
			EXPECT(strcmp(weft_reason_text(a), weft_reason_text(b)) != 0);
		}
	}
}

/* Goes on to the line that begins the enum. */
static void find_enum(FILE *header)
{
	char line[200];

	do
		REQUIRE(fgets(line, sizeof(line), header));
	while (strcmp(line, "enum weft_reason {\n") != 0);
}

/* By the header itself: a constant's number is its place there. */
TEST(test_reason_names_are_those_of_the_constants)
{
	FILE *header = fopen(INCLUDE_DIR "/weft/reason.h", "r");
	char line[200], constant[100];
	int number = 0;

	REQUIRE(header);
	find_enum(header);
	while (fgets(line, sizeof(line), header) && line[0] != '}') {
		if (sscanf(line, " WEFT_%99[A-Z0-9_]", constant) != 1)
			continue;
		if (strcmp(constant, "REASON_COUNT") == 0)
			break;
		for (char *at = constant; *at; at++)
			*at = (char)tolower((unsigned char)*at);
		EXPECT_STR(weft_reason_name((enum weft_reason)number),
			   strncmp(constant, "r_", 2) == 0 ? constant + 2 : constant);
		number++;
	}
	(void)fclose(header);
	EXPECT_EQ(number, WEFT_REASON_COUNT);
}

TEST(test_reason_ok_is_0_and_no_error)
{
	enum weft_reason found = WEFT_R_BUSY;

	EXPECT_EQ(WEFT_OK, 0);
	EXPECT_EQ(weft_reason_errno(WEFT_OK), 0);
	EXPECT_STR(weft_reason_requirement(WEFT_OK), "-");
	EXPECT(weft_reason_find("ok", &found));
	EXPECT_EQ(found, WEFT_OK);
}

TEST(test_reason_out_of_range_is_unknown)
{
	static const int values[] = { -1, WEFT_REASON_COUNT, WEFT_REASON_COUNT + 1, INT32_MAX,
				      INT32_MIN };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		enum weft_reason r = (enum weft_reason)values[i];

		EXPECT_STR(weft_reason_name(r), "unknown");
		EXPECT(*weft_reason_text(r));
		EXPECT_STR(weft_reason_requirement(r), "-");
		EXPECT(weft_reason_errno(r) > 0);
	}
}

TEST(test_reason_find_knows_no_others)
{
	enum weft_reason found = WEFT_R_BUSY;

	EXPECT(!weft_reason_find("", &found));
	EXPECT(!weft_reason_find(NULL, &found));
	EXPECT(!weft_reason_find("unknown", &found));
	EXPECT(!weft_reason_find("tag_instanc", &found));
	EXPECT(!weft_reason_find("tag_instance ", &found));
	EXPECT_EQ(found, WEFT_R_BUSY);
}

/* D3 calls these "invalid parameter". */
TEST(test_reason_of_refused_binds_is_invalid_parameter)
{
	EXPECT_EQ(weft_reason_errno(WEFT_R_REG_SPACE), EINVAL);
	EXPECT_EQ(weft_reason_errno(WEFT_R_REG_VIRTUAL), EINVAL);
	EXPECT_EQ(weft_reason_errno(WEFT_R_RANGE_BOUNDS), EINVAL);
}
