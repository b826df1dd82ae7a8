/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of RoCE in a capture, as a person reads them: each by itself, and a run of the middle of
 * a message as one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/dump/packet.h"
#include "cmd/line.h"
#include "wire/iba.h"

enum { ROCE_FAULT_BYTES = 96 };

struct roce_item {
	struct packet_end from, to;
	struct iba_packet
		packet; /* nothing of it, if it cannot be decoded; it points to the bytes */
	bool is_decoded;
	uint32_t count;		      /* packets, the first of which this is */
	char fault[ROCE_FAULT_BYTES]; /* what is wrong with it; "": nothing */
};

/* Takes a PACKET_ROCE apart, and checks its ICRC. */
void roce_item_of(const struct packet *p, struct roce_item *item);

/* Whether others may join it: it is of the middle of a message, and its payload does not matter. */
bool roce_item_is_middle(const struct roce_item *item);

/* Whether `next` goes on where the run ends: then it is part of it. */
bool roce_item_join(struct roce_item *run, const struct roce_item *next);

/* Headers and management datagram of a packet; of `count` packets in a run, the first. */
void iba_packet_words(const struct iba_packet *p, uint32_t count, struct line *l);

/* Without its fault. */
void roce_item_words(const struct roce_item *item, char *text, size_t length);
