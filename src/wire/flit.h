/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flits: what a link of the fabric carries, and acknowledges (FAB-04, FAB-05). A frame is cut into
 * flits of 88 bytes; a flit is of one virtual lane, and tells the other end how much it may send
 * on a lane in the other direction. docs/wire/fabric.md has the layout, which is ours.
 *
 * 88 bytes of data: a frame of the least MTU, of 256 bytes, takes four flits whatever its headers
 * are, as in D3 fig 9B, and an acknowledgement of a message fits into one (FAB-06).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

enum {
	FLIT_DATA = 88, /* of each but the last of a frame */
	FLIT_LANES = 16,
	FLIT_HEADER_BYTES = 8,
	FLIT_CRC_BYTES = 4,
	FLIT_BYTES_MAX = FLIT_HEADER_BYTES + FLIT_DATA + FLIT_CRC_BYTES
};

enum flit_kind {
	FLIT_FRAME = 0, /* a piece of a frame; it has a number, and is acknowledged */
	FLIT_ACK = 1	/* acknowledges all before `sequence`, and has the limits of all lanes */
};

struct flit {
	enum flit_kind kind;
	uint8_t lane;		/* of a piece */
	bool is_first, is_last; /* piece of its frame */
	bool wants_resend;	/* acknowledgement: send again from `sequence` on */
	bool wants_ack;		/* acknowledgement: answer with one */
	uint16_t sequence;
	/* What the sender takes in on a lane, counted in flits since the link is up: no more. */
	uint8_t credit_lane;	     /* of a piece: one lane, in turn */
	uint16_t limits[FLIT_LANES]; /* of a piece: that of credit_lane; else of each */
	uint8_t data_bytes;
	const uint8_t *data; /* of a piece; after decoding it points to the bytes */
};

/*
 * One whole flit. On error *f has not changed. WEFT_R_FLIT_CRC: damaged; WEFT_R_FLIT_FORM: none
 * that a port sends.
 */
enum weft_reason flit_decode(struct flit *f, const uint8_t *bytes, size_t length);

/* Returns its length. */
size_t flit_encode(const struct flit *f, uint8_t bytes[FLIT_BYTES_MAX]);

static inline uint32_t flits_of(uint32_t frame_bytes)
{
	return (frame_bytes + FLIT_DATA - 1) / FLIT_DATA;
}
