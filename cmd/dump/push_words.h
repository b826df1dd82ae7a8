/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What RoCE and iWARP say to the split network card (docs/wire/push.md). Its messages have no magic
 * number: a Send that is one by function, version and length, with the seal behind it, makes its
 * destination an end of a card. The immediate data of Writes to such an end tell of an element.
 */
#pragma once

#include "cmd/dump/conversation.h"
#include "cmd/dump/roce_words.h"

enum { PUSH_ENDS_MAX = 64 };

struct push_dest {
	struct packet_end at;
	uint32_t number; /* of the queue pair, or of the stream */
};

struct push_ends {
	struct push_dest all[PUSH_ENDS_MAX];
	uint32_t count;
};

/* "": the packet, or message, says nothing to a card, as far as is known. */
void push_item_words(struct push_ends *ends, const struct roce_item *item, char *text,
		     size_t length);
void push_stream_words(struct push_ends *ends, const struct conversation *c,
		       const struct mpa_item *item, char *text, size_t length);
