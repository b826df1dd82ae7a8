/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream cores: what the bytes of a connection mean once it is set up. A link moves the bytes, and
 * calls its core by this table. All calls but the first three are of a link that has a stream;
 * the list that they have in common is explained in iwarp/iwarp.h.
 *
 *	stream_iwarp.c  iWARP
 *	stream_iscsi.c  queue pairs in iSCSI mode
 */
#pragma once

#include <weft/reason.h>

#include "base/list.h"
#include "base/span.h"

struct link;
struct weft_traffic;

/* As enum iwarp_action. */
enum stream_action { STREAM_NOTHING = 0, STREAM_SHUT, STREAM_CLOSE, STREAM_ABORT };

struct stream_core {
	/* Whether MPA connects the ends (link_setup.c) before there is a stream. */
	bool has_setup;

	/* Receives in a row, before it is the program's or another link's turn. */
	int rounds_in;

	/* Makes the stream, of the link's queue pair. */
	enum weft_reason (*begin)(struct link *link);

	/* Of a list of this core's streams: takes the first off it; the last. NULL: it is empty. */
	struct link *(*attend)(struct list *attention);
	struct link *(*last)(const struct list *attention);

	/* Puts it back on the list. */
	void (*again)(struct link *link);

	/* Before a round of sending: lends it buffers if that helps. */
	void (*prepare)(struct link *link);

	/* Receives. */
	void (*want)(struct link *link, struct span_list *l);
	bool (*wants)(const struct link *link);
	void (*got)(struct link *link, const struct span_list *l, size_t n);
	void (*sink_gone)(struct link *link);
	void (*eof)(struct link *link);
	void (*lost)(struct link *link);

	/* Sends. */
	void (*have)(struct link *link, struct span_list *l);
	void (*sent)(struct link *link, size_t n);
	void (*source_gone)(struct link *link);

	/* Deadlines, and what to do with the connection. */
	uint64_t (*due)(const struct link *link);
	void (*expire)(struct link *link);
	enum stream_action (*action)(struct link *link);

	/* Adds what the stream counted. */
	void (*count)(const struct link *link, struct weft_traffic *t);
	void (*destroy)(struct link *link);
};

/* In the order of tcp->attention. */
enum stream_kind { STREAM_IWARP = 0, STREAM_ISCSI, STREAM_CORES };

extern const struct stream_core stream_iwarp, stream_iscsi;
