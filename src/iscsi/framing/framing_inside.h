/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the framing share: framing.c receives, framing_tx.c sends. */
#pragma once

#include "iscsi/framing/framing.h"

enum { FRAMING_SPANS = 16 };

enum rx_stage {
	RX_HEADER = 0, /* waits for a header and its digest */
	RX_PLACE,      /* the owner is asked where the data segment belongs */
	RX_DATA,       /* the data segment comes */
	RX_TRAILER,    /* waits for padding and data digest */
	RX_TAKE	       /* the PDU is whole, and offered to the owner */
};

struct framing_rx {
	uint8_t *bytes;
	uint32_t size, start, end; /* bytes[start] to bytes[end - 1] are not handled yet */
	enum rx_stage stage;
	enum iscsi_place place;
	bool is_blocked;      /* until iscsi_framing_resume() */
	bool has_data_digest; /* of the PDU at hand */
	uint32_t placed, crc; /* of its data segment */
	uint32_t since_bulk;  /* PDUs since the last whose data segment was large */
	struct iscsi_arrival pdu;
	uint8_t header[ISCSI_HEADER_MAX];
	/* Of the last want(), for got(). */
	struct mem_span spans[FRAMING_SPANS];
	uint32_t span_count;
};

/* A PDU to send: in tx.bytes from `at` on are header, copied data and trailer, in this order. */
struct tx_pdu {
	uint64_t cookie, data_at;
	uint32_t at;
	uint32_t front_bytes; /* header, its digest, copied data */
	uint32_t data_bytes;  /* that source() has */
	uint32_t trailer_bytes;
	bool is_void; /* its data is zeroes: see iscsi_framing_void() */
};

struct framing_tx {
	uint8_t *bytes; /* a ring, of which each PDU has one stretch */
	struct tx_pdu *pdus;
	uint32_t size, pdus_max;
	uint32_t first, count;
	uint32_t end;	  /* of the last PDU's stretch */
	uint32_t taken;	  /* bytes of the first PDU that were sent */
	bool is_doubtful; /* the kernel missed some data: look at it before it is listed */
};

struct iscsi_framing {
	enum iscsi_side side;
	const struct iscsi_framing_calls *calls;
	void *owner;
	struct iscsi_framing_terms terms;
	bool is_ended;
	enum weft_reason reason;
	struct framing_rx rx;
	struct framing_tx tx;
	struct iscsi_framing_counts counts;
};

/* Ends it, for the first reason. */
void framing_end(struct iscsi_framing *f, enum weft_reason reason);

/* Cuts spans to length bytes in all. */
void framing_cut(struct mem_span *spans, uint32_t *count, uint64_t length);
