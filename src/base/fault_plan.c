/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault_plan.h"

#include <string.h>

enum { CHANCE_ONE = 1000000000, CHANCE_DIGITS = 9 };

#define NS_PER_MS ((uint64_t)1000000)

static const char *const names[FAULT_COUNT] = {
	[FAULT_QP_ERROR] = "qp_error",
	[FAULT_POST_FULL] = "post_full",
	[FAULT_RNR] = "rnr",
	[FAULT_WC_DELAY] = "wc_delay",
	[FAULT_WC_DELAY_RECV] = "wc_delay",
	[FAULT_NO_MEMORY] = "no_memory",
	[FAULT_CONNECT_REFUSED] = "connect_refused",
	[FAULT_DISCONNECT_AFTER] = "disconnect_after",
	[FAULT_LOSS] = "loss",
	[FAULT_DUPLICATE] = "duplicate",
	[FAULT_CORRUPT] = "corrupt",
	[FAULT_REORDER] = "reorder",
	[FAULT_DELAY] = "delay",
};

const char *fault_name(enum fault fault)
{
	return names[fault];
}

/* ---- Words ---------------------------------------------------------------------------------- */

struct word {
	const char *at;
	uint32_t length;
};

static bool word_is(struct word w, const char *text)
{
	return strlen(text) == w.length && memcmp(w.at, text, w.length) == 0;
}

/* Takes what stands before the sign, or all; the sign itself goes. */
static struct word word_cut(struct word *rest, char sign)
{
	const char *end = rest->length ? memchr(rest->at, sign, rest->length) : NULL;
	struct word w = { rest->at, end ? (uint32_t)(end - rest->at) : rest->length };

	rest->at += w.length + (end != NULL);
	rest->length -= w.length + (end != NULL);
	return w;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The digits that it begins with; they go. */
static bool take_number(struct word *w, uint64_t *number)
{
	uint32_t n = 0;

	for (*number = 0; n < w->length && is_digit(w->at[n]); n++) {
		uint64_t digit = (uint64_t)(w->at[n] - '0');

		if (*number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	w->at += n;
	w->length -= n;
	return n > 0;
}

/* From 0 to 1, such as "0.001", without another library's idea of a decimal point. */
static bool chance_of(struct word w, uint32_t *chance)
{
	struct word whole = word_cut(&w, '.');
	uint64_t ones, parts = 0;
	uint32_t digits = w.length;

	if (!take_number(&whole, &ones) || whole.length > 0 || ones > 1 || digits > CHANCE_DIGITS)
		return false;
	if (digits > 0 && (!take_number(&w, &parts) || w.length > 0))
		return false;
	for (; digits < CHANCE_DIGITS; digits++)
		parts *= 10;
	if (ones > 0 && parts > 0)
		return false;
	*chance = (uint32_t)(ones * CHANCE_ONE + parts);
	return true;
}

struct unit {
	const char *name;
	uint64_t size;
};

/* A whole number with a unit, of which "" may be one. */
static bool quantity_of(struct word w, const struct unit *units, uint64_t *value)
{
	if (!take_number(&w, value))
		return false;
	for (; units->name; units++) {
		if (word_is(w, units->name)) {
			if (*value > UINT64_MAX / units->size)
				return false;
			*value *= units->size;
			return true;
		}
	}
	return false;
}

static const struct unit times[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", NS_PER_MS }, { "s", 1000 * NS_PER_MS }, { NULL, 0 },
};

static const struct unit sizes[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "KB", 1000 },
	{ "MB", 1000 * 1000 },
	{ "GB", 1000 * 1000 * 1000 },
	{ "KiB", 1 << 10 },
	{ "MiB", 1 << 20 },
	{ "GiB", 1 << 30 },
	{ NULL, 0 },
};

/* ---- The plan ------------------------------------------------------------------------------- */

static const char *read_chance(struct fault_plan *plan, enum fault fault, struct word value)
{
	struct word chance = word_cut(&value, ':');
	uint64_t *time_ns = NULL;

	if (fault == FAULT_RNR)
		time_ns = &plan->rnr_ns;
	else if (fault == FAULT_WC_DELAY)
		time_ns = &plan->wc_delay_ns;
	else if (fault == FAULT_DELAY)
		time_ns = &plan->delay_ns;
	if (!chance_of(chance, &plan->chances[fault]))
		return "a chance is a number from 0 to 1 with at most 9 decimals";
	if (fault == FAULT_WC_DELAY)
		plan->chances[FAULT_WC_DELAY_RECV] = plan->chances[fault];
	if (chance.at + chance.length == value.at)
		return NULL;
	if (!time_ns)
		return "this fault takes no time";
	if (!quantity_of(value, times, time_ns))
		return "a time is a whole number with ns, us, ms or s";
	return NULL;
}

static const char *read_item(struct fault_plan *plan, struct word item)
{
	struct word name = word_cut(&item, '=');

	if (name.at + name.length == item.at)
		return "each fault is NAME=VALUE";
	if (word_is(name, "seed"))
		return take_number(&item, &plan->seed) && item.length == 0
			       ? NULL
			       : "a seed is a whole number below 2^64";
	for (int i = 0; i < FAULT_COUNT; i++) {
		if (!word_is(name, names[i]))
			continue;
		if (i != FAULT_DISCONNECT_AFTER)
			return read_chance(plan, (enum fault)i, item);
		return quantity_of(item, sizes, &plan->disconnect_after)
			       ? NULL
			       : "a size is a whole number with B, KB, MB, GB, KiB, MiB or GiB";
	}
	return "there are seed, qp_error, post_full, rnr, wc_delay, no_memory, connect_refused, "
	       "disconnect_after, loss, duplicate, corrupt, reorder and delay";
}

bool fault_plan_read(struct fault_plan *plan, const char *text, struct fault_complaint *complaint)
{
	struct word rest = { text, (uint32_t)strlen(text) };

	*plan = (struct fault_plan){
		.seed = 1,
		.rnr_ns = NS_PER_MS,
		.wc_delay_ns = NS_PER_MS,
		.delay_ns = NS_PER_MS,
	};
	do {
		struct word item = word_cut(&rest, ',');

		complaint->at = item.at;
		complaint->length = item.length;
		complaint->why = read_item(plan, item);
	} while (!complaint->why && rest.length > 0);
	return !complaint->why;
}

bool fault_plan_has_packets(const struct fault_plan *plan)
{
	for (int i = FAULT_LOSS; i <= FAULT_DELAY; i++) {
		if (plan->chances[i] > 0)
			return true;
	}
	return false;
}

/* ---- Dice ----------------------------------------------------------------------------------- */

void fault_dice_init(struct fault_dice *dice, const struct fault_plan *plan, uint64_t n)
{
	struct prng all = { prng_mix(plan->seed) ^ prng_mix(~n) };

	for (int i = 0; i < FAULT_COUNT; i++)
		dice->of[i].state = prng_next(&all);
}

bool fault_falls(const struct fault_plan *plan, struct fault_dice *dice, enum fault fault)
{
	return plan->chances[fault] > 0 &&
	       prng_below(&dice->of[fault], CHANCE_ONE) < plan->chances[fault];
}
