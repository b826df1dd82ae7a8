/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/arbiter.h"

#include <string.h>

#include "wire/iba_frame.h"

void fabric_arbiter_init(struct fabric_arbiter *a)
{
	*a = (struct fabric_arbiter){ .high_limit = FABRIC_LIMIT_NONE };
	for (uint32_t lane = 0; lane < IBA_LANE_MANAGEMENT; lane++) {
		a->low.lanes[lane] = (uint8_t)lane;
		a->low.weights[lane] = 1;
	}
	fabric_arbiter_settle(a);
}

static uint32_t lanes_of(const struct fabric_turns *t)
{
	uint32_t lanes = 0;

	for (uint32_t i = 0; i < FABRIC_ARBITER_ENTRIES; i++)
		if (t->weights[i] > 0)
			lanes |= UINT32_C(1) << t->lanes[i];
	return lanes;
}

void fabric_arbiter_settle(struct fabric_arbiter *a)
{
	a->high_lanes = lanes_of(&a->high);
	a->low_lanes = lanes_of(&a->low);
}

static void table_copy(struct fabric_turns *t, const struct fabric_turns *from)
{
	memcpy(t->lanes, from->lanes, sizeof(t->lanes));
	memcpy(t->weights, from->weights, sizeof(t->weights));
}

void fabric_arbiter_copy(struct fabric_arbiter *a, const struct fabric_arbiter *from)
{
	table_copy(&a->high, &from->high);
	table_copy(&a->low, &from->low);
	a->high_limit = from->high_limit;
	fabric_arbiter_settle(a);
}

/* The entry whose turn it is keeps it while its weight lasts and its lane is ready. */
static int turns_pick(struct fabric_turns *t, uint32_t ready)
{
	for (uint32_t i = 0; i <= FABRIC_ARBITER_ENTRIES; i++) {
		uint8_t lane = t->lanes[t->at];

		if (t->used < t->weights[t->at] && ready >> lane & 1) {
			t->used++;
			return lane;
		}
		t->at = (t->at + 1) % FABRIC_ARBITER_ENTRIES;
		t->used = 0;
	}
	return -1;
}

/* A limit of 0 is a frame (IBA 7.6.9.2), or as much of it as may leave at a time. */
static uint32_t high_left(const struct fabric_arbiter *a)
{
	uint32_t limit = (uint32_t)a->high_limit * FABRIC_LIMIT_UNIT + (a->high_limit == 0);

	if (a->high_limit == FABRIC_LIMIT_NONE)
		return UINT32_MAX;
	return a->high_used < limit ? limit - a->high_used : 0;
}

/* Nothing else wants the link: there are no turns to be counted. */
static bool is_alone(uint32_t ready)
{
	return (ready & (ready - 1)) == 0;
}

int fabric_arbiter_pick(struct fabric_arbiter *a, uint32_t ready)
{
	bool is_low_ready;
	int lane;

	if (ready >> IBA_LANE_MANAGEMENT & 1)
		return IBA_LANE_MANAGEMENT;
	ready &= a->high_lanes | a->low_lanes;
	if (ready == 0)
		return -1;
	is_low_ready = ready & a->low_lanes;
	if (is_alone(ready)) {
		a->high_used = is_low_ready ? 0 : a->high_used;
		return __builtin_ctz(ready);
	}
	lane = is_low_ready && high_left(a) == 0 ? -1 : turns_pick(&a->high, ready);
	a->is_high = lane >= 0;
	if (a->is_high) {
		a->high_used += is_low_ready;
		return lane;
	}
	a->high_used = 0;
	return turns_pick(&a->low, ready);
}

/* What is left of the weight of its entry, and of the limit while low priority waits. */
uint32_t fabric_arbiter_more(struct fabric_arbiter *a, uint32_t ready, int lane, uint32_t flits)
{
	struct fabric_turns *t = a->is_high ? &a->high : &a->low;
	bool is_limited = a->is_high && a->high_limit > 0 && (ready & a->low_lanes);
	uint32_t left;

	if (lane == IBA_LANE_MANAGEMENT || is_alone(ready & (a->high_lanes | a->low_lanes)))
		return flits;
	left = t->weights[t->at] - t->used;
	if (is_limited && left > high_left(a))
		left = high_left(a);
	if (left > flits)
		left = flits;
	t->used += left;
	a->high_used += is_limited ? left : 0;
	return left;
}
