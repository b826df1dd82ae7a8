/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP taken apart: the bytes of the two directions of a TCP connection in, start frames and whole
 * RDMAP messages out, each with what was wrong with it. It is a reader of what others said, not an
 * end of the connection: it answers nothing and goes on where an end would have to stop, as long as
 * it still knows where the next FPDU begins.
 *
 * The bytes stay with the caller. He hands in all that he has from a side and not yet used, takes
 * items until there are no more, and comes again when there are more bytes from either side: FPDUs
 * cannot be read before both start frames are known.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

/* Of a Send so much is kept: the longest message of a split network card, with its seal. */
enum { MPA_DISSECT_TEXT = 160, MPA_KEY_BYTES = 16, MPA_DATA_MAX = 2304 };

enum mpa_item_kind {
	MPA_ITEM_START,	  /* an MPA Request or Reply Frame */
	MPA_ITEM_MESSAGE, /* an RDMAP message, or as much of it as came */
	MPA_ITEM_FAULT	  /* no message: only something wrong */
};

enum mpa_fault {
	MPA_FAULT_NONE = 0,
	MPA_FAULT_START,     /* a start frame that is wrong or missing */
	MPA_FAULT_CRC,	     /* the CRC of an FPDU */
	MPA_FAULT_MARKER,    /* a marker that is not one, or points elsewhere */
	MPA_FAULT_HEADER,    /* a DDP or RDMAP header */
	MPA_FAULT_BODY,	     /* a message without or with more than its body */
	MPA_FAULT_MSN,	     /* a message number that is not the next */
	MPA_FAULT_OFFSET,    /* a segment that does not follow the one before */
	MPA_FAULT_CUT,	     /* a message that another one ends */
	MPA_FAULT_RTR,	     /* the first message is not the one agreed on */
	MPA_FAULT_AFTER_END, /* more after a Terminate */
	MPA_FAULT_HALF,	     /* the stream ends inside an FPDU or message */
	MPA_FAULT_GAP	     /* bytes are missing from the capture */
};

struct mpa_item {
	enum mpa_item_kind kind;
	int from; /* the side that sent it, 0 or 1 */
	enum mpa_fault fault;
	char text[MPA_DISSECT_TEXT]; /* of the fault, in words */

	/* MPA_ITEM_START */
	struct mpa_start start;
	struct mpa_enhanced enhanced; /* with start.is_enhanced */
	uint8_t data[MPA_DATA_MAX];   /* private data without the enhanced part; or of a Send */
	uint32_t data_bytes;

	/* MPA_ITEM_MESSAGE */
	enum rdmap_opcode opcode;
	bool is_rtr; /* RFC 6581: opens the other direction, means nothing else */
	bool is_whole;
	uint32_t fpdus;	  /* it came in */
	uint64_t bytes;	  /* of payload; 0 for those that have a body instead */
	uint32_t stag;	  /* tagged: the first segment's; Send with Invalidate: the invalidated */
	uint64_t to;	  /* tagged: the first segment's */
	uint32_t qn, msn; /* untagged */
	union {
		struct rdmap_read_request read;
		struct rdmap_atomic_request atomic;
		struct rdmap_atomic_response atomic_response;
		struct rdmap_terminate terminate;
		uint64_t immediate;
	} body;
};

/* One direction. */
struct mpa_side {
	enum mpa_side_state {
		MPA_SIDE_START, /* its start frame is awaited */
		MPA_SIDE_FPDUS, /* it was read: FPDUs follow */
		MPA_SIDE_OVER,	/* a rejected connection: what follows is not MPA */
		MPA_SIDE_LOST	/* it is not known where an FPDU begins */
	} state;
	struct mpa_start start;
	struct mpa_enhanced enhanced;
	uint64_t at;   /* bytes since the start frame, markers too */
	bool has_sent; /* a message */
	bool has_terminated;
	bool is_open;		      /* a message began and has not ended: */
	struct mpa_item item;	      /* that message */
	uint64_t item_next;	      /* the offset that its next segment must have */
	uint32_t msn[RDMAP_QN_COUNT]; /* the next of each queue */
	uint64_t skipped_bytes;	      /* that could not be read */
	uint64_t fpdus, messages;
};

struct mpa_dissect {
	struct mpa_side sides[2];
};

/*
 * Do the bytes begin as a start frame does? Fewer than MPA_KEY_BYTES may be the beginning of one.
 */
bool mpa_dissect_is_start(struct rd bytes);

/* Before the first bytes of either side. */
void mpa_dissect_init(struct mpa_dissect *d);

/*
 * Takes what comes next from the front of the bytes, and bytes->at moves on. True: there is an
 * item, and perhaps another. False: more bytes are needed, from this side or the other.
 */
bool mpa_dissect_next(struct mpa_dissect *d, int from, struct rd *bytes, struct mpa_item *item);

/* Bytes are missing: nothing after them can be read. True: this was news, told by the item. */
bool mpa_dissect_gap(struct mpa_dissect *d, int from, uint32_t missing, struct mpa_item *item);

/*
 * The side sends nothing more; bytes are those that mpa_dissect_next() left. True: there is an
 * item, and perhaps another.
 */
bool mpa_dissect_end(struct mpa_dissect *d, int from, struct rd *bytes, struct mpa_item *item);
