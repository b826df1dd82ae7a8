/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the frames of an MPA connection end, for a bystander who only sees its bytes pass: first a
 * start frame, then FPDUs, with markers if the other direction's start frame asked for them. Not a
 * receiver: it checks nothing, and what is not MPA is one frame without end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/mpa.h"

enum {
	MPA_SCAN_HEAD_MAX = MPA_START_BYTES, /* so many bytes always tell a frame's length */
	MPA_SCAN_FPDU_HEAD = 8		     /* so many are asked for of an FPDU */
};

#define MPA_SCAN_ENDLESS UINT32_MAX

enum mpa_scan_phase {
	MPA_SCAN_START = 0, /* the start frame comes next */
	MPA_SCAN_FPDU,	    /* an FPDU comes next */
	MPA_SCAN_LOST	    /* this is not MPA */
};

/* One direction of a connection. Begin with zero. */
struct mpa_scan {
	uint8_t phase;	    /* enum mpa_scan_phase */
	bool wants_markers; /* in the other direction */
	uint16_t position;  /* of the next FPDU, in bytes since a marker was due */
};

/*
 * The length of the frame that begins with head, its markers included, and steps over it; 0 if
 * head is too short to tell, then nothing has changed. has_markers: wants_markers of the other
 * direction.
 */
uint32_t mpa_scan_frame(struct mpa_scan *s, bool has_markers, struct rd head);
