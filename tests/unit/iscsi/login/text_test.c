/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of Login and Text PDUs, by the clauses of RFC 7143 section 6.1. */
#include "test.h"

#include <string.h>

#include "base/prng.h"
#include "iscsi/login/text.h"

static char many[300];

/* count times the character. */
static struct word run(char c, uint32_t count)
{
	REQUIRE(count <= sizeof(many));
	memset(many, c, count);
	return (struct word){ many, count };
}

static enum weft_reason read_one(const char *text, size_t length)
{
	struct rd r = rd_of((const uint8_t *)text, length), before = r;
	struct iscsi_pair pair;
	enum weft_reason reason = iscsi_text_next(&r, &pair);

	REQUIRE(reason == WEFT_OK || r.at == before.at);
	return reason;
}

TEST(test_rfc7143_6_1_pairs_are_read_in_order)
{
	static const char text[] = "A=1\0Bb=\0C-d=x=y";
	static const char *const keys[] = { "A", "Bb", "C-d" }, *const values[] = { "1", "",
										    "x=y" };
	struct rd r = rd_of((const uint8_t *)text, sizeof(text));
	struct iscsi_pair pair;
	struct word value;

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(iscsi_text_next(&r, &pair), WEFT_OK);
		EXPECT(word_is(pair.key, keys[i]) && word_is(pair.value, values[i]));
	}
	EXPECT(r.at == r.end);
	EXPECT(iscsi_text_find((const uint8_t *)text, sizeof(text), "C-d", &value));
	EXPECT(word_is(value, "x=y"));
	EXPECT(!iscsi_text_find((const uint8_t *)text, sizeof(text), "C", &value));
	EXPECT(!iscsi_text_find(NULL, 0, "C", &value));
}

TEST(test_rfc7143_6_1_text_that_is_no_pairs)
{
	EXPECT_EQ(read_one("A=1", 3), WEFT_R_ISCSI_TEXT);
	EXPECT_EQ(read_one("A", 2), WEFT_R_ISCSI_TEXT);
	EXPECT_EQ(read_one("", 1), WEFT_R_ISCSI_TEXT);
	EXPECT_EQ(read_one("", 0), WEFT_R_ISCSI_TEXT);
	EXPECT_EQ(read_one("A\0=1", 5), WEFT_R_ISCSI_TEXT);
	EXPECT_EQ(read_one("=1", 3), WEFT_R_ISCSI_KEY);
	EXPECT_EQ(read_one("A B=1", 6), WEFT_R_ISCSI_KEY);
	EXPECT_EQ(read_one("1A=1", 5), WEFT_R_ISCSI_KEY);
	EXPECT_EQ(read_one("A=", 3), WEFT_OK);
}

TEST(test_rfc7143_6_1_key_name_of_63_characters)
{
	char text[80];

	memset(text, 'K', sizeof(text));
	memcpy(text + 63, "=1", 3);
	EXPECT_EQ(read_one(text, 66), WEFT_OK);
	memset(text, 'K', sizeof(text));
	memcpy(text + 64, "=1", 3);
	EXPECT_EQ(read_one(text, 67), WEFT_R_ISCSI_KEY);
}

TEST(test_rfc7143_6_1_labels)
{
	static const char *const good[] = { "HeaderDigest",    "iSCSIProtocolLevel",
					    "X-com.example.a", "X#NodeArchitecture",
					    "A+b@c_d.1",       "CHAP_A" };
	static const char *const bad[] = { "", "-A", "A b", "A/b", "A:b", "A\x80", "A,b", "#X" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		EXPECT(iscsi_is_label(iscsi_word(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT(!iscsi_is_label(iscsi_word(bad[i])));
}

TEST(test_rfc7143_6_1_text_values_of_255_bytes)
{
	EXPECT(iscsi_is_text_value(iscsi_word("[fe80::1]:3260/a.b-c+d@e_f")));
	EXPECT(iscsi_is_text_value(iscsi_word("")));
	EXPECT(!iscsi_is_text_value(iscsi_word("a b")));
	EXPECT(!iscsi_is_text_value(iscsi_word("a,b")));
	EXPECT(iscsi_is_text_value(run('a', 255)));
	EXPECT(!iscsi_is_text_value(run('a', 256)));
	EXPECT(iscsi_is_local_name(run('a', 255)));
	EXPECT(!iscsi_is_local_name(run('a', 256)));
}

TEST(test_rfc7143_6_1_local_names_are_utf8)
{
	static const char *const good[] = { "",
					    "a disk, mine",
					    "\xc3\xa9",
					    "\xe2\x82\xac",
					    "\xf0\x9f\x92\xbe",
					    "\xf4\x8f\xbf\xbf" };
	static const char *const bad[] = { "\x80",
					   "\xc0\x80",
					   "\xc3",
					   "\xe2\x82",
					   "\xe0\x80\x80",
					   "\xed\xa0\x80",
					   "\xf0\x80\x80\x80",
					   "\xf4\x90\x80\x80",
					   "\xf5\x80\x80\x80",
					   "\xc3\x28" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		EXPECT(iscsi_is_local_name(iscsi_word(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT(!iscsi_is_local_name(iscsi_word(bad[i])));
}

TEST(test_rfc7143_6_1_booleans)
{
	bool value = false;

	EXPECT(iscsi_boolean(iscsi_word("Yes"), &value) && value);
	EXPECT(iscsi_boolean(iscsi_word("No"), &value) && !value);
	EXPECT(!iscsi_boolean(iscsi_word("yes"), &value));
	EXPECT(!iscsi_boolean(iscsi_word(""), &value));
}

TEST(test_rfc7143_6_1_numbers)
{
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = { { "0", 0 },
		     { "8192", 8192 },
		     { "0x10", 16 },
		     { "0XfF", 255 },
		     { "18446744073709551615", UINT64_MAX },
		     { "0xffffffffffffffff", UINT64_MAX },
		     { "0x0000000000000000001", 1 } };
	static const char *const bad[] = { "",
					   "-1",
					   "+1",
					   "01",
					   "0x",
					   "0xg",
					   "1 ",
					   "0b1",
					   "1k",
					   " 1",
					   "0x1 ",
					   "18446744073709551616",
					   "0x10000000000000000" };
	uint64_t value;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		EXPECT(iscsi_number(iscsi_word(good[i].text), &value));
		EXPECT(value == good[i].value);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT(!iscsi_number(iscsi_word(bad[i]), &value));
}

static void expect_binary(const char *text, const char *bytes, size_t length)
{
	uint8_t out[16];

	EXPECT_EQ(iscsi_binary(iscsi_word(text), out, sizeof(out)), length);
	EXPECT_MEM(out, bytes, length);
}

TEST(test_rfc7143_6_1_binary_values)
{
	static const char *const bad[] = { "",
					   "0x",
					   "0x1",
					   "0x1g",
					   "0b",
					   "0bQ",
					   "0bQQ",
					   "0bQR==",
					   "0bQUI",
					   "0bQUJ=",
					   "0b====",
					   "0bQ===",
					   "0bQUJ*",
					   "abc",
					   "0bQ=Q=",
					   "0x00112233445566778899aabbccddeeff00",
					   "0bQUJDREVGR0hJSktMTU5PUFE=" };
	uint8_t out[16];

	expect_binary("0x00fF10", "\x00\xff\x10", 3);
	expect_binary("0X41", "A", 1);
	expect_binary("0bQQ==", "A", 1);
	expect_binary("0bQUI=", "AB", 2);
	expect_binary("0BQUJD", "ABC", 3);
	expect_binary("0b+/+/", "\xfb\xff\xbf", 3);
	expect_binary("0", "\0", 1);
	expect_binary("258", "\x01\x02", 2);
	expect_binary("18446744073709551615", "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_EQ(iscsi_binary(iscsi_word(bad[i]), out, sizeof(out)), 0);
	/* The digit after the word is not its. */
	EXPECT_EQ(iscsi_binary((struct word){ "0x1234", 5 }, out, sizeof(out)), 0);
	EXPECT_EQ(iscsi_binary(iscsi_word("65536"), out, 2), 0);
	EXPECT_EQ(iscsi_binary(iscsi_word("0xffffff"), out, 2), 0);
	EXPECT_EQ(iscsi_binary(iscsi_word("0bQUJD"), out, 2), 0);
}

TEST(test_rfc7143_6_1_binary_values_survive)
{
	struct prng prng = { 7 };

	for (int n = 0; n < 200; n++) {
		uint8_t bytes[64], back[64], text[200];
		size_t length = 1 + prng_below(&prng, sizeof(bytes));
		struct wr w = wr_of(text, sizeof(text));
		struct word value;

		for (size_t i = 0; i < length; i++)
			bytes[i] = (uint8_t)prng_next(&prng);
		iscsi_text_put_binary(&w, "CHAP_C", bytes, length);
		EXPECT(!w.is_short);
		EXPECT(iscsi_text_find(text, (size_t)(w.at - text), "CHAP_C", &value));
		EXPECT_EQ(iscsi_binary(value, back, sizeof(back)), length);
		EXPECT_MEM(back, bytes, length);
	}
}

TEST(test_rfc7143_6_1_lists)
{
	static const char *const items[] = { "CRC32C", "", "None" };
	struct word list = iscsi_word("CRC32C,,None"), item;

	for (int i = 0; i < 3; i++) {
		EXPECT(iscsi_list_next(&list, &item));
		EXPECT(word_is(item, items[i]));
	}
	EXPECT(!iscsi_list_next(&list, &item));
}

TEST(test_rfc7143_6_1_writer_writes_whole_pairs)
{
	uint8_t text[16];
	struct wr w = wr_of(text, 6);

	iscsi_text_put(&w, "A", iscsi_word("bc"));
	EXPECT(!w.is_short && w.at == text + 5);
	EXPECT_MEM(text, "A=bc", 5);
	/* One byte is left: nothing of the next is written, whatever its size. */
	iscsi_text_put(&w, "A", iscsi_word(""));
	EXPECT(w.is_short && w.at == text + 5);
	w = wr_of(text, 4);
	iscsi_text_put(&w, "A", iscsi_word("bc"));
	EXPECT(w.is_short && w.at == text);
	w = wr_of(text, sizeof(text));
	iscsi_text_put_number(&w, "N", 0);
	iscsi_text_put_number(&w, "M", 16777215);
	EXPECT_MEM(text, "N=0\0M=16777215", 15);
	w = wr_of(text, 6);
	iscsi_text_put_binary(&w, "B", (const uint8_t *)"x", 1);
	EXPECT(w.is_short && w.at == text);
}

TEST(test_rfc7143_6_2_text_is_gathered_up_to_its_limit)
{
	uint8_t room[8];
	struct iscsi_text_in t = { .room = { room, sizeof(room) } };

	EXPECT_EQ(iscsi_text_gather(&t, NULL, 0), WEFT_OK);
	EXPECT_EQ(iscsi_text_gather(&t, (const uint8_t *)"A=12", 4), WEFT_OK);
	EXPECT_EQ(iscsi_text_gather(&t, (const uint8_t *)"34567", 5), WEFT_R_ISCSI_TEXT_LONG);
	EXPECT_EQ(iscsi_text_gather(&t, (const uint8_t *)"345", 4), WEFT_OK);
	EXPECT_MEM(room, "A=12345", 8);
	EXPECT_EQ(iscsi_text_gather(&t, (const uint8_t *)"", 1), WEFT_R_ISCSI_TEXT_LONG);
}

TEST(test_rfc7143_4_2_7_names)
{
	static const char *const good[][2] = {
		{ "iqn.2001-04.com.example:disk.1", "iqn.2001-04.com.example:disk.1" },
		{ "IQN.1993-08.Org.Debian:01:ABC", "iqn.1993-08.org.debian:01:abc" },
		{ "iqn.2010-12.a", "iqn.2010-12.a" },
		{ "eui.02004567A425678D", "eui.02004567a425678d" },
		{ "naa.52004567BA64678D", "naa.52004567ba64678d" },
		{ "naa.62004567BA64678D0123456789ABCDEF", "naa.62004567ba64678d0123456789abcdef" },
		{ "iqn.2001-04.com.example:\xc3\xa9", "iqn.2001-04.com.example:\xc3\xa9" },
		{ "iqn.2001-04.com.example:\xe7\x9b\xa4", "iqn.2001-04.com.example:\xe7\x9b\xa4" },
	};
	static const char *const bad[] = {
		"",
		"iqn",
		"iqn.",
		"iqn.2001-04.",
		"iqn.2001-04.:x",
		"iqn.2001-4.com.example",
		"iqn.2001-00.com.example",
		"iqn.2001-13.com.example",
		"iqn.200x-01.com.example",
		"iqn.2001-04.com.example:my_disk",
		"iqn.2001-04.com.example:my disk",
		"iqn.2001-04.com.example:a/b",
		"iqn.2001-04.com.example:\xff",
		/* U+009B: what terminals begin a control sequence with. */
		"iqn.2001-04.com.example:\302\2332j",
		"iqn.2001-04.com.example:\xc2\xa0",
		"iqn.2001-04.com.example:\xe2\x80\x8b",
		"iqn.2001-04.com.example:\xe2\x80\xa8", /* a line of its own */
		"iqn.2001-04.com.example:\xe2\x80\xae", /* what follows from right to left */
		"iqn.2001-04.com.example:\xe3\x80\x80",
		"iqn.2001-04.com.example:\xee\x80\x80",
		"iqn.2001-04.com.example:\xef\xbb\xbf",
		"iqn.2001-04.com.example:\xf3\xa0\x81\x81",
		"eui.02004567A425678",
		"eui.02004567A425678DD",
		"eui.02004567A425678G",
		"naa.52004567BA64678",
		"naa.62004567BA64678D0123456789ABCDE",
		"naa.6200-567BA64678D",
		"foo.2001-04.com.example",
	};
	struct iscsi_name name;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		EXPECT_EQ(iscsi_name_normalise(iscsi_word(good[i][0]), &name), WEFT_OK);
		EXPECT_STR(name.text, good[i][1]);
		EXPECT_EQ(name.length, strlen(good[i][1]));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_EQ(iscsi_name_normalise(iscsi_word(bad[i]), &name), WEFT_R_ISCSI_NAME);
}

TEST(test_rfc7143_4_2_7_1_name_of_223_bytes)
{
	struct iscsi_name name;
	struct word w = run('a', 223);

	memcpy(many, "iqn.2001-04.com.example:", 24);
	EXPECT_EQ(iscsi_name_normalise(w, &name), WEFT_OK);
	EXPECT_EQ(name.length, 223);
	w = run('a', 224);
	memcpy(many, "iqn.2001-04.com.example:", 24);
	EXPECT_EQ(iscsi_name_normalise(w, &name), WEFT_R_ISCSI_NAME);
}
