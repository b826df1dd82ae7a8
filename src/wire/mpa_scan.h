/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the ends of MPA frames, for an observer of a connection's bytes: first a start frame, then
 * FPDUs, with markers if the start frame of the other direction asked for them. It checks nothing;
 * bytes that are not MPA count as one endless frame.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/mpa.h"

enum {
	MPA_SCAN_HEAD_MAX = MPA_START_BYTES, /* always enough to tell a frame's length */
	MPA_SCAN_FPDU_HEAD = 8		     /* required of an FPDU */
};

#define MPA_SCAN_ENDLESS UINT32_MAX

enum mpa_scan_phase {
	MPA_SCAN_START = 0, /* the start frame comes next */
	MPA_SCAN_FPDU,	    /* an FPDU comes next */
	MPA_SCAN_LOST	    /* this is not MPA */
};

/* One direction of a connection. Initialize with zero. */
struct mpa_scan {
	uint8_t phase;	    /* enum mpa_scan_phase */
	bool wants_markers; /* in the other direction */
	uint16_t position;  /* of the next FPDU, in bytes since a marker was due */
};

/*
 * Returns the length of the frame that begins with head, including markers, and steps over it; 0 if
 * head is too short to tell, and then nothing has changed. has_markers: wants_markers of the other
 * direction.
 */
uint32_t mpa_scan_frame(struct mpa_scan *s, bool has_markers, struct rd head);
