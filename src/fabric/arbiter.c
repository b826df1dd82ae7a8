/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/arbiter.h"

#include "wire/iba_frame.h"

void fabric_arbiter_init(struct fabric_arbiter *a)
{
	*a = (struct fabric_arbiter){ .high_limit = FABRIC_LIMIT_NONE };
	for (uint8_t lane = 0; lane < IBA_LANE_MANAGEMENT; lane++) {
		a->low.lanes[lane] = lane;
		a->low.weights[lane] = 1;
	}
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

static uint32_t lanes_of(const struct fabric_turns *t)
{
	uint32_t lanes = 0;

	for (uint32_t i = 0; i < FABRIC_ARBITER_ENTRIES; i++)
		if (t->weights[i] > 0)
			lanes |= UINT32_C(1) << t->lanes[i];
	return lanes;
}

/* A limit of 0 is one flit. */
static bool is_high_spent(const struct fabric_arbiter *a)
{
	return a->high_limit != FABRIC_LIMIT_NONE &&
	       a->high_used >= (uint32_t)a->high_limit * FABRIC_LIMIT_UNIT + (a->high_limit == 0);
}

int fabric_arbiter_pick(struct fabric_arbiter *a, uint32_t ready)
{
	bool is_low_ready;
	int lane;

	if (ready == 0)
		return -1;
	if (ready >> IBA_LANE_MANAGEMENT & 1)
		return IBA_LANE_MANAGEMENT;
	is_low_ready = ready & lanes_of(&a->low);
	lane = is_low_ready && is_high_spent(a) ? -1 : turns_pick(&a->high, ready);
	if (lane >= 0) {
		a->high_used += is_low_ready;
		return lane;
	}
	a->high_used = 0;
	return turns_pick(&a->low, ready);
}
