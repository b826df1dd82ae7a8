/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mark that a mirror writes to the last 8 KiB of each member: the identity of the mirror, which
 * members have all the data, and which regions have writes in flight.
 *
 *	0	magic		8	CRC32C of all that follows	12	version
 *	16	identity	32	generation	40	serial	48	size_bytes
 *	56	region_bytes	64	members		68	number
 *	72	current_at, of 16 members
 *	512	one bit for each region, the lowest bit of a byte first
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MARK_BYTES = 4096,
	MARK_REGIONS_MAX = 4096,
	MARK_REGION_BYTES_MIN = 4096,
	MARK_IDENTITY_BYTES = 16,
	MARK_MEMBERS_MAX = 16,
	MARK_WORDS = MARK_REGIONS_MAX / 64
};

struct mirror_mark {
	uint8_t identity[MARK_IDENTITY_BYTES];
	uint64_t generation; /* rises with every change of the members */
	uint64_t serial;     /* rises with every mark */
	uint64_t size_bytes, region_bytes;
	uint32_t members; /* bit n: member n has all the data of this generation */
	uint32_t number;  /* of the member with this mark */
	/*
	 * For each member the last generation in which it had all the data, as known when the mark
	 * was written; 0: never. All are 0 in marks from before this field existed.
	 */
	uint64_t current_at[MARK_MEMBERS_MAX];
	uint64_t dirty[MARK_WORDS];
};

/* The size of regions for so much data: a power of two. */
uint64_t mark_region_bytes(uint64_t size_bytes);

void mark_encode(const struct mirror_mark *m, uint8_t bytes[MARK_BYTES]);
bool mark_decode(struct mirror_mark *m, const uint8_t bytes[MARK_BYTES]);
