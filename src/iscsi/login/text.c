/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/login/text.h"

#include <string.h>

#include "base/check.h"

enum { DIGITS_MAX = 20 }; /* of a 64-bit number */

static bool is_capital(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_letter(char c)
{
	return is_capital(c) || (c >= 'a' && c <= 'z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_one_of(char c, const char *set)
{
	for (; *set; set++) {
		if (c == *set)
			return true;
	}
	return false;
}

struct word iscsi_word(const char *text)
{
	return (struct word){ .at = text, .length = (uint32_t)strlen(text) };
}

/* ---- Reading and writing -------------------------------------------------------------------- */

enum weft_reason iscsi_text_next(struct rd *r, struct iscsi_pair *pair)
{
	size_t room = (size_t)(r->end - r->at);
	const uint8_t *zero = room > 0 ? memchr(r->at, 0, room) : NULL;
	const uint8_t *equals = zero ? memchr(r->at, '=', (size_t)(zero - r->at)) : NULL;
	struct iscsi_pair p;

	if (!equals)
		return WEFT_R_ISCSI_TEXT;
	p.key = (struct word){ (const char *)r->at, (uint32_t)(equals - r->at) };
	p.value = (struct word){ (const char *)equals + 1, (uint32_t)(zero - equals - 1) };
	if (!iscsi_is_label(p.key))
		return WEFT_R_ISCSI_KEY;
	*pair = p;
	r->at = zero + 1;
	return WEFT_OK;
}

bool iscsi_text_find(const uint8_t *bytes, size_t length, const char *key, struct word *value)
{
	struct rd r = rd_of(bytes, length);
	struct iscsi_pair pair;

	while (r.at < r.end && iscsi_text_next(&r, &pair) == WEFT_OK) {
		if (word_is(pair.key, key)) {
			*value = pair.value;
			return true;
		}
	}
	return false;
}

/* Appends "key=", the value's length of room after it, and the zero byte; where the value goes. */
static uint8_t *pair_open(struct wr *w, const char *key, size_t length)
{
	struct word name = iscsi_word(key);
	size_t room = (size_t)(w->end - w->at);
	uint8_t *at = w->at;

	CHECK(iscsi_is_label(name));
	if (w->is_short || room < name.length + 2 || room - name.length - 2 < length) {
		w->is_short = true;
		return NULL;
	}
	wr_bytes(w, key, name.length);
	wr_u8(w, '=');
	at = w->at;
	w->at += length;
	wr_u8(w, 0);
	return at;
}

void iscsi_text_put(struct wr *w, const char *key, struct word value)
{
	uint8_t *at = pair_open(w, key, value.length);

	if (at && value.length > 0)
		memcpy(at, value.at, value.length);
}

void iscsi_text_put_number(struct wr *w, const char *key, uint64_t number)
{
	char digits[DIGITS_MAX];
	uint32_t first = DIGITS_MAX;

	do {
		digits[--first] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	iscsi_text_put(w, key, (struct word){ digits + first, DIGITS_MAX - first });
}

void iscsi_text_put_binary(struct wr *w, const char *key, const uint8_t *bytes, size_t length)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t *at = pair_open(w, key, 2 + 2 * length);

	if (!at)
		return;
	*at++ = '0';
	*at++ = 'x';
	for (size_t i = 0; i < length; i++) {
		*at++ = (uint8_t)hex[bytes[i] >> 4];
		*at++ = (uint8_t)hex[bytes[i] & 15];
	}
}

enum weft_reason iscsi_text_gather(struct iscsi_text_in *t, const uint8_t *bytes, size_t length)
{
	if (t->room.length - t->length < length)
		return WEFT_R_ISCSI_TEXT_LONG;
	if (length > 0)
		memcpy(t->room.bytes + t->length, bytes, length);
	t->length += length;
	return WEFT_OK;
}

/* ---- Values --------------------------------------------------------------------------------- */

bool iscsi_is_label(struct word w)
{
	/* The # is in the names of public extensions: X#NodeArchitecture. */
	if (w.length == 0 || w.length > ISCSI_KEY_MAX || !is_letter(w.at[0]))
		return false;
	for (uint32_t i = 1; i < w.length; i++) {
		if (!is_letter(w.at[i]) && !is_digit(w.at[i]) && !is_one_of(w.at[i], ".-+@_#"))
			return false;
	}
	return true;
}

bool iscsi_is_text_value(struct word w)
{
	if (w.length > ISCSI_SIMPLE_MAX)
		return false;
	for (uint32_t i = 0; i < w.length; i++) {
		if (!is_letter(w.at[i]) && !is_digit(w.at[i]) && !is_one_of(w.at[i], ".-+@_/[]:"))
			return false;
	}
	return true;
}

/* The bytes of the UTF-8 character at the word's beginning; 0: it is none (RFC 3629). */
static uint32_t utf8_bytes(struct word w)
{
	uint8_t first = (uint8_t)w.at[0], second = w.length > 1 ? (uint8_t)w.at[1] : 0;
	uint32_t bytes = first < 0x80	? 1
			 : first < 0xc2 ? 0
			 : first < 0xe0 ? 2
			 : first < 0xf0 ? 3
					: 4;

	if (first > 0xf4 || bytes > w.length)
		return 0;
	for (uint32_t i = 1; i < bytes; i++) {
		if (((uint8_t)w.at[i] & 0xc0) != 0x80)
			return 0;
	}
	/* Overlong forms, surrogates, and what is beyond U+10FFFF. */
	if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
	    (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
		return 0;
	return bytes;
}

static void word_skip(struct word *w, uint32_t count)
{
	w->at += count;
	w->length -= count;
}

bool iscsi_is_local_name(struct word w)
{
	uint32_t bytes;

	if (w.length > ISCSI_SIMPLE_MAX)
		return false;
	for (; w.length > 0; word_skip(&w, bytes)) {
		bytes = utf8_bytes(w);
		if (bytes == 0)
			return false;
	}
	return true;
}

bool iscsi_boolean(struct word w, bool *value)
{
	bool is_yes = word_is(w, "Yes");

	if (!is_yes && !word_is(w, "No"))
		return false;
	*value = is_yes;
	return true;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* 'x' or 'b', in small letters, of a constant 0x.. or 0b..; 0: neither. */
static char radix(struct word w)
{
	if (w.length < 3 || w.at[0] != '0' || !is_one_of(w.at[1], "xXbB"))
		return 0;
	return is_one_of(w.at[1], "xX") ? 'x' : 'b';
}

static bool hex_number(struct word w, uint64_t *value)
{
	uint64_t v = 0;

	for (; w.length > 0; word_skip(&w, 1)) {
		int digit = hex_digit(w.at[0]);

		if (digit < 0 || v >> 60)
			return false;
		v = v << 4 | (uint64_t)digit;
	}
	*value = v;
	return true;
}

bool iscsi_number(struct word w, uint64_t *value)
{
	if (radix(w) == 'x') {
		word_skip(&w, 2);
		return hex_number(w, value);
	}
	/* A decimal-constant is 0, or begins with another digit. */
	if (w.length > 1 && w.at[0] == '0')
		return false;
	return quantity_number(w, value);
}

static int base64_digit(char c)
{
	if (is_capital(c))
		return c - 'A';
	if (is_letter(c))
		return c - 'a' + 26;
	if (is_digit(c))
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648 section 4: groups of four, the last filled up with '='. */
static size_t base64_decode(struct word w, uint8_t *bytes, size_t room)
{
	uint32_t bits = 0, count = 0, pad = 0;
	size_t length = 0;

	while (pad < 2 && pad < w.length && w.at[w.length - 1 - pad] == '=')
		pad++;
	if (w.length % 4 != 0 || w.length / 4 * 3 - pad > room)
		return 0;
	for (uint32_t i = 0; i < w.length - pad; i++) {
		int digit = base64_digit(w.at[i]);

		if (digit < 0)
			return 0;
		bits = bits << 6 | (uint32_t)digit;
		count += 6;
		if (count >= 8) {
			count -= 8;
			bytes[length++] = (uint8_t)(bits >> count);
			bits &= (1U << count) - 1;
		}
	}
	/* What is left over fills no byte, and must be 0: one value has one encoding. */
	return bits == 0 ? length : 0;
}

static size_t hex_decode(struct word w, uint8_t *bytes, size_t room)
{
	/* An odd digit belongs to no byte. */
	if (w.length % 2 != 0 || w.length / 2 > room)
		return 0;
	for (uint32_t i = 0; i < w.length; i += 2) {
		int high = hex_digit(w.at[i]), low = hex_digit(w.at[i + 1]);

		if (high < 0 || low < 0)
			return 0;
		bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	return w.length / 2;
}

size_t iscsi_binary(struct word w, uint8_t *bytes, size_t room)
{
	char kind = radix(w);
	uint64_t number;
	size_t length = 1;

	if (kind) {
		word_skip(&w, 2);
		return kind == 'x' ? hex_decode(w, bytes, room) : base64_decode(w, bytes, room);
	}
	if (!iscsi_number(w, &number))
		return 0;
	while (length < sizeof(number) && number >> 8 * length)
		length++;
	if (length > room)
		return 0;
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(number >> 8 * (length - 1 - i));
	return length;
}

bool iscsi_list_next(struct word *list, struct word *item)
{
	const char *comma = list->length > 0 ? memchr(list->at, ',', list->length) : NULL;

	if (list->length == 0)
		return false;
	*item = (struct word){ list->at, comma ? (uint32_t)(comma - list->at) : list->length };
	word_skip(list, item->length + (comma != NULL));
	return true;
}

/* ---- Names ---------------------------------------------------------------------------------- */

static bool has_prefix(const struct iscsi_name *n, const char *prefix)
{
	return strncmp(n->text, prefix, strlen(prefix)) == 0;
}

/* iqn.YYYY-MM.DOMAIN[:TEXT] (RFC 7143 section 4.2.7.5): at least a letter of the domain. */
static bool is_iqn(const struct iscsi_name *n)
{
	static const char form[] = "iqn.dddd-dd.";
	const char *month = n->text + 9;

	if (n->length < sizeof(form))
		return false;
	for (uint32_t i = 4; form[i]; i++) {
		if (form[i] == 'd' ? !is_digit(n->text[i]) : n->text[i] != form[i])
			return false;
	}
	if ((month[0] != '0' || month[1] == '0') && (month[0] != '1' || month[1] > '2'))
		return false;
	return !is_one_of(n->text[sizeof(form) - 1], ".:-");
}

static bool is_hex_name(const struct iscsi_name *n)
{
	for (uint32_t i = 4; i < n->length; i++) {
		if (hex_digit(n->text[i]) < 0)
			return false;
	}
	return true;
}

/* RFC 3454 tables C.1.2 to C.9: spaces, controls, what is private, is none, or turns the text. */
static bool is_prohibited(uint32_t point)
{
	static const uint32_t ranges[][2] = {
		{ 0x0080, 0x00a0 },    { 0x0340, 0x0341 },   { 0x06dd, 0x06dd },
		{ 0x070f, 0x070f },    { 0x1680, 0x1680 },   { 0x180e, 0x180e },
		{ 0x2000, 0x200f },    { 0x2028, 0x202f },   { 0x205f, 0x2063 },
		{ 0x206a, 0x206f },    { 0x2ff0, 0x2ffb },   { 0x3000, 0x3000 },
		{ 0xe000, 0xf8ff },    { 0xfdd0, 0xfdef },   { 0xfeff, 0xfeff },
		{ 0xfff9, 0xffff },    { 0x1d173, 0x1d17a }, { 0xe0001, 0xe007f },
		{ 0xf0000, 0x10ffff },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (point >= ranges[i][0] && point <= ranges[i][1])
			return true;
	}
	return (point & 0xfffe) == 0xfffe;
}

/* Of a character of two bytes or more, which utf8_bytes() found good. */
static uint32_t code_point(const char *at, uint32_t bytes)
{
	uint32_t point = (uint8_t)at[0] & (0xffU >> (bytes + 1));

	for (uint32_t i = 1; i < bytes; i++)
		point = point << 6 | ((uint8_t)at[i] & 0x3f);
	return point;
}

/* Copies a character in its small form. False: RFC 3722 prohibits it. */
static bool name_add(struct iscsi_name *n, struct word from, uint32_t bytes)
{
	char c = from.at[0];

	if (bytes == 1) {
		if (!is_letter(c) && !is_digit(c) && !is_one_of(c, "-.:"))
			return false;
		n->text[n->length++] = is_capital(c) ? (char)(c - 'A' + 'a') : c;
		return true;
	}
	if (is_prohibited(code_point(from.at, bytes)))
		return false;
	memcpy(n->text + n->length, from.at, bytes);
	n->length = (uint8_t)(n->length + bytes);
	return true;
}

enum weft_reason iscsi_name_normalise(struct word w, struct iscsi_name *name)
{
	struct iscsi_name n = { .length = 0 };
	uint32_t bytes;

	if (w.length > ISCSI_NAME_MAX)
		return WEFT_R_ISCSI_NAME;
	for (; w.length > 0; word_skip(&w, bytes)) {
		bytes = utf8_bytes(w);
		if (bytes == 0 || !name_add(&n, w, bytes))
			return WEFT_R_ISCSI_NAME;
	}
	if (!(has_prefix(&n, "iqn.") && is_iqn(&n)) &&
	    !(has_prefix(&n, "eui.") && n.length == 4 + 16 && is_hex_name(&n)) &&
	    !(has_prefix(&n, "naa.") && (n.length == 4 + 16 || n.length == 4 + 32) &&
	      is_hex_name(&n)))
		return WEFT_R_ISCSI_NAME;
	*name = n;
	return WEFT_OK;
}
