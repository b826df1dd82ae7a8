/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMAP (RFC 5040, RFC 7306): the control byte, which tells the message that a DDP segment belongs
 * to, and the bodies of messages that have one. Decoding checks that the message may come on this
 * queue, tagged or untagged; it does not check rights.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

enum rdmap_opcode {
	RDMAP_WRITE = 0,
	RDMAP_READ_REQUEST,
	RDMAP_READ_RESPONSE,
	RDMAP_SEND,
	RDMAP_SEND_INVALIDATE,
	RDMAP_SEND_SE,
	RDMAP_SEND_SE_INVALIDATE,
	RDMAP_TERMINATE,
	RDMAP_IMMEDIATE,
	RDMAP_IMMEDIATE_SE,
	RDMAP_ATOMIC_REQUEST,
	RDMAP_ATOMIC_RESPONSE,
	RDMAP_OPCODE_COUNT
};

/* RFC 5040 section 5.1 and RFC 7306: the untagged queues. */
enum rdmap_queue {
	RDMAP_QN_SEND = 0,
	RDMAP_QN_REQUEST = 1, /* AMB-11 */
	RDMAP_QN_TERMINATE = 2,
	RDMAP_QN_ATOMIC_RESPONSE = 3,
	RDMAP_QN_COUNT
};

enum rdmap_err {
	RDMAP_OK = 0,
	RDMAP_ERR_SHORT,
	RDMAP_ERR_VERSION, /* 0/2/05 */
	RDMAP_ERR_OPCODE,  /* 0/2/06: unknown, or not on this queue or kind of segment */
	RDMAP_ERR_QUEUE,   /* DDP 1/2/01: no such queue */
	RDMAP_ERR_BODY	   /* a field has an illegal value */
};

enum {
	RDMAP_READ_REQUEST_BYTES = 28,
	RDMAP_ATOMIC_REQUEST_BYTES = 52,
	RDMAP_ATOMIC_RESPONSE_BYTES = 12,
	RDMAP_IMMEDIATE_BYTES = 8,
	RDMAP_TERMINATE_BYTES = 4 /* the control word; headers may follow */
};

const char *rdmap_opcode_name(enum rdmap_opcode opcode);

/* The control byte of a segment. qn is used for untagged segments only. */
enum rdmap_err rdmap_control_decode(uint8_t ulp, bool is_tagged, uint32_t qn,
				    enum rdmap_opcode *opcode);
uint8_t rdmap_control_encode(enum rdmap_opcode opcode);

/* RFC 5040 section 4.4. */
struct rdmap_read_request {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t size;
	uint32_t source_stag;
	uint64_t source_to;
};

enum rdmap_err rdmap_read_request_decode(struct rdmap_read_request *q, struct rd *r);
void rdmap_read_request_encode(const struct rdmap_read_request *q, struct wr *w);

enum rdmap_atomic { RDMAP_FETCH_ADD = 0, RDMAP_COMPARE_SWAP = 2 };

/* RFC 7306 section 8.2. */
struct rdmap_atomic_request {
	enum rdmap_atomic opcode;
	uint32_t id;
	uint32_t stag;
	uint64_t to;
	uint64_t add_swap, add_swap_mask;
	uint64_t compare, compare_mask;
};

enum rdmap_err rdmap_atomic_request_decode(struct rdmap_atomic_request *q, struct rd *r);
void rdmap_atomic_request_encode(const struct rdmap_atomic_request *q, struct wr *w);

struct rdmap_atomic_response {
	uint32_t id;
	uint64_t original;
};

enum rdmap_err rdmap_atomic_response_decode(struct rdmap_atomic_response *p, struct rd *r);
void rdmap_atomic_response_encode(const struct rdmap_atomic_response *p, struct wr *w);

/*
 * RFC 5040 section 4.8. layer, type and code tell the error (rdmap_terminate_text()); the headers
 * of the offending message follow, as far as known.
 */
struct rdmap_terminate {
	uint8_t layer, type, code;
	uint16_t reserved;		/* 13 bits: sent as 0, kept as they came */
	bool has_length;		/* M */
	bool has_ddp;			/* D */
	bool has_rdma;			/* R: a Read Request's body */
	uint16_t segment_bytes;		/* with has_ddp */
	uint8_t ddp[18];		/* the header as it came */
	uint32_t ddp_bytes;		/* 14 or 18 */
	struct rdmap_read_request read; /* with has_rdma */
	bool is_siw_order;		/* the control word is in the bit order of Linux siw */
	bool is_ambiguous;		/* the other order gives another valid meaning */
};

/* Decodes in the order of the RFC alone: tests hold what weft sends, and the other call, to it. */
enum rdmap_err rdmap_terminate_decode(struct rdmap_terminate *t, struct rd *r);

/*
 * Decodes a Terminate of an RFC peer or of Linux siw. On little-endian machines siw writes the
 * control word with reversed bit fields: layer and type are exchanged, and M, D, R are the low bits
 * of the third byte. The cursor must end where the message ends. The word is read in the order
 * whose headers take up all bytes that follow; if both do, in the order whose cause is known; if
 * both are, in that of the RFC. So a word followed by headers is certain. Without headers 0/2
 * (remote operation) and 2/0 (MPA) with code 5, 6 or 7, and 0/1/00 (invalid STag) and 1/0/00 (DDP
 * catastrophic), can be mistaken for each other: then is_ambiguous is set, and the other meaning
 * has layer and type exchanged.
 *
 * R with a DDP header and nothing after it is ignored: siw sets it for a failed Send too. The
 * fields that siw sends for a Read Request (segment length 0, the read's size as MSN) are returned
 * unchanged.
 *
 * Too short in both orders is an error; t and r are then unchanged. Excess bytes are left in r.
 */
enum rdmap_err rdmap_terminate_decode_any(struct rdmap_terminate *t, struct rd *r);

/* Always in the order of the RFC. */
void rdmap_terminate_encode(const struct rdmap_terminate *t, struct wr *w);

/* The text of an error; never NULL. */
const char *rdmap_terminate_text(uint8_t layer, uint8_t type, uint8_t code);
