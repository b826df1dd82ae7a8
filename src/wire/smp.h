/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subnet management packets (IBA 14.2.1): the MADs by which a subnet manager finds ports and sets
 * them. One goes by LIDs, or along a directed route: the port numbers by which it leaves each node.
 *
 * Not here: what a node does with one (fabric/), and the attributes in it (wire/sm_attr.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/mad.h"

enum {
	SMP_CLASS_VERSION = 1,
	SMP_DATA_BYTES = 64,
	SMP_PATH = 64, /* of which the first is no hop */
	SMP_HOPS_MAX = SMP_PATH - 1,
	SMP_STATUS_UNSUPPORTED_VERSION = 0x04,
	SMP_STATUS_UNSUPPORTED_METHOD = 0x08,
	SMP_STATUS_UNSUPPORTED_ATTRIBUTE = 0x0c,
	SMP_STATUS_INVALID_VALUE = 0x1c
};

struct smp {
	struct mad mad; /* status without the direction; no class_specific */
	uint64_t m_key;
	uint8_t data[SMP_DATA_BYTES];
	/* The rest only if it is directed. */
	bool is_directed;
	bool is_returning;
	uint8_t hop_pointer, hop_count;
	uint16_t from, to; /* LIDs before and behind the directed part, or IBA_LID_PERMISSIVE */
	uint8_t there[SMP_PATH], back[SMP_PATH]; /* the ports by which it leaves */
};

/* A complete MAD. On error *s has not changed. */
enum weft_reason smp_decode(struct smp *s, const uint8_t *bytes, size_t length);
void smp_encode(const struct smp *s, uint8_t bytes[MAD_BYTES]);
