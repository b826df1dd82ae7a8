/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last 8 KiB of each member of a mirror: two copies of a mark (wire/mirror_mark.h), written
 * alternately, so that a good copy survives an interrupted write.
 */
#pragma once

#include "wire/mirror_mark.h"

enum { MARK_AREA_BYTES = 2 * MARK_BYTES };

/* What the area of a member holds. */
enum mark_area {
	MARK_AREA_BLANK, /* all zeroes: the member is new */
	MARK_AREA_OTHER, /* anything but a mark */
	MARK_AREA_MARK
};

/* Decodes the later valid copy, and tells which of the two it is. */
enum mark_area mark_area_read(struct mirror_mark *m, const uint8_t bytes[MARK_AREA_BYTES],
			      uint32_t *copy);
