/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last 8 KiB of each member of a mirror: two copies of a mark (wire/mirror_mark.h), written in
 * turn, so that one survives a write that was cut short.
 */
#pragma once

#include "wire/mirror_mark.h"

enum { MARK_AREA_BYTES = 2 * MARK_BYTES };

/* What is found in the area of a member. */
enum mark_area {
	MARK_AREA_BLANK, /* zeroes: the member is new */
	MARK_AREA_OTHER, /* something that is no mark */
	MARK_AREA_MARK
};

/* Of the two copies the later one that is whole, and which of them that is. */
enum mark_area mark_area_read(struct mirror_mark *m, const uint8_t bytes[MARK_AREA_BYTES],
			      uint32_t *copy);
