/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_seeds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t seed;

static char how_to_repeat[64];

const char *harness_round(uint64_t round)
{
	const char *text = getenv("WEFT_SEEDS");
	uint64_t first = 1, count = seeds_count;

	if (text && sscanf(text, "%" SCNu64 ":%" SCNu64, &first, &count) == 1)
		count = 1;
	if (round >= count + (text ? 0 : failed_once_count))
		return NULL;
	seed = round < count ? first + round : failed_once[round - count];
	snprintf(how_to_repeat, sizeof(how_to_repeat), "repeat with WEFT_SEEDS=%" PRIu64 ":1",
		 seed);
	return how_to_repeat;
}
