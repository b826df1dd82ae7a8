/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iSCSI taken apart: the bytes of the two directions of a TCP connection in, PDUs out, each with
 * what was wrong with it. Like mpa_dissect.h it is a reader of what others said: it goes on as long
 * as it knows where the next PDU begins. Digests are used as the login in the capture agreed;
 * without one in the capture, there are none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/iscsi.h"

enum { ISCSI_DISSECT_TEXT = 320 };

struct iscsi_item {
	int from;
	bool is_decoded;		/* there is a PDU: */
	struct iscsi_pdu pdu;		/* cdb_more points to nothing any more */
	char fault[ISCSI_DISSECT_TEXT]; /* what is wrong with it, in words; "": nothing */
};

/* One direction. */
struct iscsi_dissect_side {
	bool is_lost;	 /* it is not known where a PDU begins */
	bool is_waiting; /* for the answer to its last Login Request */
	bool offers_header_digest, offers_data_digest;
	uint64_t pdus, skipped_bytes;
};

struct iscsi_dissect {
	struct iscsi_dissect_side sides[2];
	int initiator;
	bool has_header_digest, has_data_digest; /* since the end of the login */
};

/* Before the first bytes of either side. */
void iscsi_dissect_init(struct iscsi_dissect *d, int initiator);

/*
 * Takes what comes next from the front of the bytes, and bytes->at moves on. True: there is an
 * item, and perhaps another. False: more bytes are needed, from this side or the other.
 */
bool iscsi_dissect_next(struct iscsi_dissect *d, int from, struct rd *bytes,
			struct iscsi_item *item);

/* Bytes are missing: nothing after them can be read. True: this was news, told by the item. */
bool iscsi_dissect_gap(struct iscsi_dissect *d, int from, uint32_t missing,
		       struct iscsi_item *item);

/* The side sends nothing more; bytes are those that were left. True: there is an item. */
bool iscsi_dissect_end(struct iscsi_dissect *d, int from, struct rd *bytes,
		       struct iscsi_item *item);

/* The PDU without its fault, in a line. */
void iscsi_item_words(const struct iscsi_item *item, char *text, size_t length);
