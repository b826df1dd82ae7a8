/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The frames of a stream socket, as QEMU and passt speak: before each its length, 4 bytes, big
 * endian. This is the receiver; it never looks beyond what has arrived.
 */
#pragma once

#include <stddef.h>

#include <weft/reason.h>

#include "base/span.h"

enum {
	LAN_FRAMING_BYTES = 4,
	/*
	 * The longest that QEMU sends. What is longer than a frame, up to this, is handed out to be
	 * refused; beyond it the stream has lost its way.
	 */
	LAN_FRAMING_MAX = 4096 + 65536,
	LAN_FRAMING_ROOM = 2 * (LAN_FRAMING_BYTES + LAN_FRAMING_MAX),
};

struct lan_framing {
	uint8_t *bytes; /* LAN_FRAMING_ROOM of the owner's */
	size_t begin, end;
};

/* Forgets what has arrived: a new stream begins. */
void lan_framing_reset(struct lan_framing *f);

/* Where to receive the next bytes: always some. The frames handed out before are gone then. */
struct span lan_framing_want(struct lan_framing *f);
void lan_framing_got(struct lan_framing *f, size_t length);

/*
 * WEFT_OK: *frame is the next; without bytes: none has arrived whole. WEFT_R_LAN_FRAMING: the
 * stream must end. A frame may have any length up to LAN_FRAMING_MAX, but 0: those are left out,
 * counted in *empty.
 */
enum weft_reason lan_framing_next(struct lan_framing *f, struct span *frame, uint64_t *empty);

/* The length before a frame that leaves. */
void lan_framing_head(uint8_t head[LAN_FRAMING_BYTES], uint32_t length);
