/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA (RFC 5044, RFC 6581): the start frames of connection set-up, the header of an FPDU, and the
 * values and positions of markers. Not here: what the CRC covers (the iwarp room).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

enum {
	MPA_START_BYTES = 20, /* before the private data */
	MPA_PRIVATE_MAX = 512,
	MPA_ENHANCED_BYTES = 4, /* of the private data, when the frame says so */
	MPA_DEPTH_MAX = 0x3ffe,
	MPA_DEPTH_UNKNOWN = 0x3fff, /* left to the upper protocol */
	MPA_HEADER_BYTES = 2,	    /* ULPDU_Length */
	MPA_CRC_BYTES = 4,
	MPA_MARKER_BYTES = 4,
	MPA_MARKER_EVERY = 512
};

enum mpa_err {
	MPA_OK = 0,
	MPA_ERR_SHORT,	  /* not all of the frame is here */
	MPA_ERR_KEY,	  /* RFC 5044 section 7.1: not an MPA start frame of the kind awaited */
	MPA_ERR_LENGTH,	  /* PD_Length over 512, or too short for what it must hold */
	MPA_ERR_REVISION, /* neither 1 nor 2 */
	MPA_ERR_MARKER	  /* a marker that points between words */
};

/* RFC 5044 section 7.1.1: MPA Request and Reply Frame, without its private data. */
struct mpa_start {
	bool is_reply;
	bool wants_markers; /* in the other end's direction */
	bool wants_crc;
	bool is_rejected; /* replies only */
	bool is_enhanced; /* the private data begins with struct mpa_enhanced; revision 2 */
	uint8_t reserved; /* four bits: sent as 0, kept as they came, never acted upon */
	uint8_t revision;
	uint16_t private_bytes; /* the enhanced part included */
};

/* On error neither *s nor *r has changed. The private data, private_bytes of it, follows. */
enum mpa_err mpa_start_decode(struct mpa_start *s, struct rd *r);
void mpa_start_encode(const struct mpa_start *s, struct wr *w);

/* RFC 6581 section 9: what enhanced connection set-up adds. */
struct mpa_enhanced {
	bool is_peer_to_peer;			     /* A */
	bool rtr_by_send, rtr_by_write, rtr_by_read; /* B, C, D */
	uint16_t ird, ord;			     /* at most MPA_DEPTH_UNKNOWN */
};

enum mpa_err mpa_enhanced_decode(struct mpa_enhanced *e, struct rd *r);
void mpa_enhanced_encode(const struct mpa_enhanced *e, struct wr *w);

/* RFC 5044 section 4.2: bytes of padding after a ULPDU of this length. */
static inline uint32_t mpa_pad(uint32_t ulpdu_bytes)
{
	return (4 - (MPA_HEADER_BYTES + ulpdu_bytes) % 4) % 4;
}

/* A complete FPDU, without markers. */
static inline uint32_t mpa_fpdu_bytes(uint32_t ulpdu_bytes)
{
	return MPA_HEADER_BYTES + ulpdu_bytes + mpa_pad(ulpdu_bytes) + MPA_CRC_BYTES;
}

/*
 * RFC 5044 section 4.3: positions of markers. There is one at every position of the stream that is
 * a multiple of 512, so 508 bytes of FPDUs are between two. A marker between two FPDUs belongs to
 * the second. A position may be given modulo 512.
 */

/* Bytes from this position to the next marker; 0: it is here. */
static inline uint32_t mpa_marker_distance(uint64_t position)
{
	return (uint32_t)(-position % MPA_MARKER_EVERY);
}

/* Bytes of the marker in front of an FPDU that starts at this position, if there is one. */
static inline uint32_t mpa_marker_front(uint64_t position)
{
	return mpa_marker_distance(position) == 0 ? MPA_MARKER_BYTES : 0;
}

/* Markers of an FPDU of fpdu_bytes at this position, including the one in front of it. */
static inline uint32_t mpa_marker_count(uint64_t position, uint32_t fpdu_bytes)
{
	const uint32_t between = MPA_MARKER_EVERY - MPA_MARKER_BYTES;
	uint32_t before = mpa_marker_distance(position);

	return fpdu_bytes > before ? 1 + (fpdu_bytes - before - 1) / between : 0;
}

/* The bytes of the FPDU in the stream, including markers. */
static inline uint32_t mpa_marked_bytes(uint64_t position, uint32_t fpdu_bytes)
{
	return fpdu_bytes + mpa_marker_count(position, fpdu_bytes) * MPA_MARKER_BYTES;
}

/*
 * The value of the marker `at` bytes after `position`: the distance back to the FPDU's length
 * field. The marker in front of that field is 0, and the others do not count it.
 */
static inline uint32_t mpa_marker_back(uint64_t position, uint32_t at)
{
	return at == 0 ? 0 : at - mpa_marker_front(position);
}

/* RFC 5044 section 4.3: back is the distance to the start of the FPDU that the marker is in. */
enum mpa_err mpa_marker_decode(uint16_t *back, struct rd *r);
void mpa_marker_encode(uint16_t back, struct wr *w);

/* RFC 5044 section 4.4: the CRC is sent with its least significant byte first. */
uint32_t mpa_crc_decode(const uint8_t bytes[MPA_CRC_BYTES]);
void mpa_crc_encode(uint32_t crc, uint8_t bytes[MPA_CRC_BYTES]);
