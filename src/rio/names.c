/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/names.h"

#include <string.h>

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_' || c == '.';
}

bool rio_name_is_good(const char *text)
{
	size_t n = 0;

	while (is_name_char(text[n]))
		n++;
	return n > 0 && n <= RIO_NAME_MAX && text[n] == '\0' && strcmp(text, "any") != 0;
}

/* Process 0 is refused: in rules it stands for any process of the unit (rio/policy.h). */
bool rio_platform_read(const char *text, struct platform *platform)
{
	struct platform p;

	if (!platform_parse(text, &p) || p.process == 0)
		return false;
	*platform = p;
	return true;
}

static char *write_number(uint32_t number, char *at)
{
	char digits[10];
	int n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (n > 0)
		*at++ = digits[--n];
	return at;
}

void rio_platform_write(struct platform platform, char text[RIO_PLATFORM_TEXT])
{
	text = write_number(platform.unit, text);
	*text++ = '.';
	*write_number(platform.process, text) = '\0';
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool rio_key_read(const char *text, uint8_t key[RIO_KEY_BYTES])
{
	if (strlen(text) != RIO_KEY_DIGITS)
		return false;
	for (size_t i = 0; i < RIO_KEY_BYTES; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		key[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

void rio_key_write(const uint8_t key[RIO_KEY_BYTES], char text[RIO_KEY_DIGITS + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < RIO_KEY_BYTES; i++) {
		text[2 * i] = digits[key[i] >> 4];
		text[2 * i + 1] = digits[key[i] & 15];
	}
	text[RIO_KEY_DIGITS] = '\0';
}

const char *rio_role_name(enum rio_role role)
{
	switch (role) {
	case RIO_OWNER:
		return "owner";
	case RIO_IOUNIT:
		return "iounit";
	case RIO_REQUESTER:
		return "requester";
	case RIO_CARD_UNIT:
		return "card-unit";
	case RIO_CARD_HOST:
		return "card-host";
	case RIO_FABRIC_PART:
		return "fabric-part";
	}
	return "unknown";
}
