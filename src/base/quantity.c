/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/quantity.h"

#include <string.h>

struct unit {
	const char *name;
	uint64_t size;
};

static const struct unit sizes[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "k", UINT64_C(1) << 10 },
	{ "K", UINT64_C(1) << 10 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ "TiB", UINT64_C(1) << 40 },
	{ "P", UINT64_C(1) << 50 },
	{ "PiB", UINT64_C(1) << 50 },
	{ NULL, 0 },
};

static const struct unit times[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { NULL, 0 },
};

bool word_is(struct word w, const char *text)
{
	return strlen(text) == w.length && memcmp(w.at, text, w.length) == 0;
}

bool word_take_number(struct word *w, uint64_t *number)
{
	uint32_t n = 0;

	for (*number = 0; n < w->length && w->at[n] >= '0' && w->at[n] <= '9'; n++) {
		uint64_t digit = (uint64_t)(w->at[n] - '0');

		if (*number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	if (n == 0)
		return false; /* there may be no text at all */
	w->at += n;
	w->length -= n;
	return true;
}

/* A whole number with a unit, of which "" may be one. */
static bool quantity_of(struct word w, const struct unit *units, uint64_t *value)
{
	if (!word_take_number(&w, value))
		return false;
	for (; units->name; units++) {
		if (!word_is(w, units->name))
			continue;
		if (*value > UINT64_MAX / units->size)
			return false;
		*value *= units->size;
		return true;
	}
	return false;
}

bool quantity_number(struct word w, uint64_t *number)
{
	return word_take_number(&w, number) && w.length == 0;
}

bool quantity_size(struct word w, uint64_t *bytes)
{
	return quantity_of(w, sizes, bytes);
}

bool quantity_time(struct word w, uint64_t *ns)
{
	return quantity_of(w, times, ns);
}
