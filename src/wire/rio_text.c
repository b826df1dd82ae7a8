/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rio_text.h"

/* RFC 3629 section 3: what a character of so many bytes begins with, and the least it may be. */
static const struct {
	uint8_t mask, is;
	uint32_t least;
} forms[] = {
	{ 0x80, 0x00, 0 },
	{ 0xe0, 0xc0, 0x80 },
	{ 0xf0, 0xe0, 0x800 },
	{ 0xf8, 0xf0, 0x10000 },
};

enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

/* No control character (C0, DEL, C1), no half of a pair, no more than there are. */
static bool is_character(uint32_t c)
{
	return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && !(c >= 0xd800 && c < 0xe000) &&
	       c < 0x110000;
}

bool rio_text_is_good(const uint8_t *bytes, size_t length)
{
	size_t at = 0;

	while (at < length) {
		size_t more = 0;
		uint32_t c;

		while (more < FORMS && (bytes[at] & forms[more].mask) != forms[more].is)
			more++;
		if (more == FORMS || more >= length - at)
			return false;
		c = bytes[at] & (uint8_t)~forms[more].mask;
		for (size_t i = 1; i <= more; i++) {
			if ((bytes[at + i] & 0xc0) != 0x80)
				return false;
			c = c << 6 | (bytes[at + i] & 0x3f);
		}
		if (c < forms[more].least || !is_character(c))
			return false;
		at += more + 1;
	}
	return true;
}
