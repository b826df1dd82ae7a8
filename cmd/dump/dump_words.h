/* SPDX-License-Identifier: BSD-2-Clause */
/* What was found in a capture, as a person reads it. */
#pragma once

#include <stddef.h>

#include "cmd/dump/mpa_dissect.h"
#include "cmd/dump/packet.h"

enum { DUMP_END_BYTES = 64, DUMP_LINE_BYTES = 640 };

/* 10.0.0.1:7471 or [fd77::1]:7471 */
void dump_end_words(const struct packet_end *end, char text[DUMP_END_BYTES]);

/* The item without its fault. d is the connection's, after the item. */
void dump_item_words(const struct mpa_dissect *d, const struct mpa_item *item, char *text,
		     size_t length);
