/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of a fabric in a capture, as a person reads them, and the management datagrams in them. */
#pragma once

#include "cmd/dump/packet.h"

enum { FRAME_LINE_BYTES = 2048, FRAME_FAULT_BYTES = 96 };

struct frame_item {
	char text[FRAME_LINE_BYTES];
	char fault[FRAME_FAULT_BYTES]; /* what is wrong with it; "": nothing */
};

/* Takes a PACKET_FRAME apart, and checks its CRCs. */
void frame_item_of(const struct packet *p, struct frame_item *item);
