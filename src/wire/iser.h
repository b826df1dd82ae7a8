/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iSER headers (RFC 7145 section 9), which stand in front of every PDU of iSCSI that travels as a
 * Send, or alone as Hello and HelloReply; and the private data of connection set-up on InfiniBand
 * (IBA annex A12). RFC 5046 has a shorter header, without the offsets: the caller knows which of
 * the two its connection uses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/cursor.h"

enum {
	ISER_HEADER_BYTES = 28,
	ISER_HEADER_5046_BYTES = 12,
	ISER_PRIVATE_BYTES = 4,
	ISER_VERSION = 10 /* of RFC 7145 */
};

enum iser_form { ISER_RFC7145, ISER_RFC5046 };

enum iser_kind { ISER_CONTROL = 1, ISER_HELLO = 2, ISER_HELLO_REPLY = 3 };

/* Only fields of its kind are used; decoding sets the others to 0. */
struct iser_header {
	enum iser_kind kind;
	/* ISER_CONTROL: what the target may reach by RDMA; RFC 5046 has no offsets */
	bool has_write, has_read; /* WSV, RSV: the STag counts */
	uint32_t write_stag, read_stag;
	uint64_t write_to, read_to;
	/* ISER_HELLO, ISER_HELLO_REPLY */
	uint8_t version_max, version; /* four bits; the second: MinVer, CurVer */
	uint16_t depth;		      /* iSER-IRD of a Hello, iSER-ORD of a HelloReply */
	bool is_rejected;	      /* REJ: HelloReply */
};

static inline uint32_t iser_header_bytes(enum iser_form form)
{
	return form == ISER_RFC5046 ? ISER_HEADER_5046_BYTES : ISER_HEADER_BYTES;
}

/* On error neither *h nor *r has changed. */
enum weft_reason iser_decode(struct iser_header *h, enum iser_form form, struct rd *r);
void iser_encode(const struct iser_header *h, enum iser_form form, struct wr *w);

/* What an end cannot do. */
struct iser_private {
	bool lacks_zero_based; /* regions whose addresses begin at 0 */
	bool lacks_invalidate; /* Send with Invalidate */
};

/* Without private data an end can do neither. Bytes after the four are not looked at. */
enum weft_reason iser_private_decode(struct iser_private *p, const uint8_t *bytes, size_t length);
void iser_private_encode(const struct iser_private *p, uint8_t bytes[ISER_PRIVATE_BYTES]);
