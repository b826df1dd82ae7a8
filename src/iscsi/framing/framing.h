/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PDUs of iSCSI on one TCP connection, at either end (RFC 7143 section 11): bytes <-> headers, data
 * segments, padding and digests. Not here: what a PDU means, and whether it may come now.
 *
 *	iscsi_framing_want()   where to receive; iscsi_framing_got() says how much arrived there
 *	iscsi_framing_have()   what to send; iscsi_framing_sent() says how much was sent
 *
 * What arrives goes to the owner through a table of calls: the header when it is complete, so that
 * the owner says where the data segment belongs; then the PDU when it is whole. A data segment is
 * received straight where it belongs, as far as it was not read together with its header. It is
 * placed before its digest is known to be right; the owner learns of a wrong digest when the PDU is
 * whole.
 *
 * PDUs to be sent wait in a ring: an encoded header each, and data that was copied behind it or is
 * sent from where it is.
 *
 * Memory is asked for whenever it is used: spans are valid for one want() and got(), or one have()
 * and sent(), with no call in between.
 */
#pragma once

#include "base/span.h"
#include "mem/mem.h"
#include "wire/iscsi.h"

struct iscsi_framing;

/* A PDU that arrived. Pointers are valid until the call that has it returns. */
struct iscsi_arrival {
	/*
	 * WEFT_OK; or WEFT_R_ISCSI_DATA_DIGEST: the data segment is damaged; or why iscsi_decode()
	 * refused the header, and then pdu has data_bytes only.
	 */
	enum weft_reason reason;
	struct iscsi_pdu pdu;
	const uint8_t *header; /* BHS and AHS as they came */
	uint32_t header_bytes;
	const uint8_t *data; /* the data segment, after ISCSI_PLACE_BUFFER; else NULL */
};

enum iscsi_place {
	ISCSI_PLACE_MEMORY, /* where sink() says */
	ISCSI_PLACE_BUFFER, /* to the framing's buffer: iscsi_framing_buffer_bytes() at most */
	ISCSI_PLACE_SKIP,   /* nowhere; the digest is checked all the same */
	ISCSI_PLACE_WAIT,   /* not known yet: asked again after iscsi_framing_resume() */
	ISCSI_PLACE_END	    /* the owner ends the connection: nothing is received any more */
};

enum iscsi_take {
	ISCSI_TAKE_NEXT, /* the PDU is taken */
	ISCSI_TAKE_WAIT, /* it is not: offered again after iscsi_framing_resume() */
	ISCSI_TAKE_END
};

/* Calls must not call iscsi_framing_want(), got(), have() or sent(); send() and set() they may. */
struct iscsi_framing_calls {
	/*
	 * A header came whose PDU has a data segment: where does that belong? If the header was
	 * refused and this is not ISCSI_PLACE_END, it is skipped.
	 */
	enum iscsi_place (*place)(void *owner, const struct iscsi_arrival *a, uint64_t now_ns);
	/*
	 * Memory for the data segment of the PDU that place() had last, from this offset of the
	 * data segment on: *count spans at most, at least one; more than the rest is cut.
	 * WEFT_R_SPACE_UNMAPPED: not now, until iscsi_framing_resume(). Another reason ends it.
	 */
	enum weft_reason (*sink)(void *owner, uint32_t offset, struct mem_span *spans,
				 uint32_t *count);
	/* The PDU is whole, its data segment placed. */
	enum iscsi_take (*take)(void *owner, const struct iscsi_arrival *a, uint64_t now_ns);
	/*
	 * Memory of a data segment that was not copied, from this offset of the data segment on,
	 * as sink(). cookie and data_at: as given to iscsi_framing_send().
	 */
	enum weft_reason (*source)(void *owner, uint64_t cookie, uint64_t data_at,
				   struct mem_span *spans, uint32_t *count);
	/* A PDU with a cookie was sent completely. */
	void (*taken)(void *owner, uint64_t cookie);
};

struct iscsi_framing_config {
	enum iscsi_side side;		/* of this end */
	uint32_t rx_bytes;		/* of the receive buffer; 0: ISCSI_FRAMING_RX_BYTES */
	uint32_t tx_bytes, tx_pdus_max; /* of the ring; 0: ISCSI_FRAMING_TX_... */
	const struct iscsi_framing_calls *calls;
	void *owner;
};

enum {
	ISCSI_FRAMING_RX_BYTES = 2048,
	ISCSI_FRAMING_RX_MIN = ISCSI_HEADER_MAX + ISCSI_DIGEST_BYTES,
	ISCSI_FRAMING_TX_BYTES = 4096,
	ISCSI_FRAMING_TX_MIN = 2 * (ISCSI_HEADER_MAX + 128),
	ISCSI_FRAMING_TX_PDUS = 32,
	ISCSI_FRAMING_BULK_BYTES = 512 /* a data segment from this on is large */
};

/* What was negotiated. It begins without digests, and with 8192 bytes. */
struct iscsi_framing_terms {
	bool has_header_digest, has_data_digest;
	uint32_t recv_bytes_max; /* MaxRecvDataSegmentLength of this end */
};

/* WEFT_R_NO_MEMORY, WEFT_R_BAD_ARGUMENT: buffers too small. */
enum weft_reason iscsi_framing_create(const struct iscsi_framing_config *c,
				      struct iscsi_framing **out);

/* PDUs not sent are dropped without taken(). */
void iscsi_framing_destroy(struct iscsi_framing *f);

/* Holds from the next PDU on that is received, and that is given to iscsi_framing_send(). */
void iscsi_framing_set(struct iscsi_framing *f, const struct iscsi_framing_terms *t);

/* Data segments up to this length may be ISCSI_PLACE_BUFFER. */
uint32_t iscsi_framing_buffer_bytes(const struct iscsi_framing *f);

/* ---- Receiving ------------------------------------------------------------------------------ */

/* As iwarp_want() and so on. */
void iscsi_framing_want(struct iscsi_framing *f, uint64_t now_ns, struct span_list *l);
bool iscsi_framing_wants(const struct iscsi_framing *f);
void iscsi_framing_got(struct iscsi_framing *f, uint64_t now_ns, const struct span_list *l,
		       size_t n);

/*
 * A large data segment is expected, as after another: headers are read by themselves for some PDUs,
 * so that it is received in place from its first byte on.
 */
void iscsi_framing_expect_data(struct iscsi_framing *f);

/* Memory that want() listed is not mapped any more: the stream ends, WEFT_R_MEMORY_GONE. */
void iscsi_framing_sink_gone(struct iscsi_framing *f);

/* What a call waited for may be there. Bytes that were received are handled. */
void iscsi_framing_resume(struct iscsi_framing *f, uint64_t now_ns);

/* Whether a PDU has begun to arrive and is not whole: a close now is no orderly end. */
bool iscsi_framing_is_amid(const struct iscsi_framing *f);

/*
 * WEFT_OK, or why the framing ended by itself: WEFT_R_ISCSI_HEADER_DIGEST, or what sink() or
 * source() said. It then receives nothing any more, as after ISCSI_PLACE_END and ISCSI_TAKE_END.
 */
enum weft_reason iscsi_framing_reason(const struct iscsi_framing *f);

/* ---- Sending -------------------------------------------------------------------------------- */

struct iscsi_framing_pdu {
	const struct iscsi_pdu *pdu; /* with data_bytes */
	const uint8_t *copy;	     /* the data segment, copied; NULL: source() has it */
	uint64_t cookie;	     /* for source() and taken(); 0: no call of taken() */
	uint64_t data_at;	     /* for source(): where the data segment begins */
};

/* Whether there is room for a PDU with so many bytes of AHS and copied data. */
bool iscsi_framing_has_room(const struct iscsi_framing *f, uint32_t bytes);

/*
 * Encodes the PDU into the ring, which has room. With a data digest, the data is read now, and
 * must stay as it is until it is sent. An error is source()'s, and nothing is sent.
 */
enum weft_reason iscsi_framing_send(struct iscsi_framing *f, const struct iscsi_framing_pdu *p);

/*
 * The memory of PDUs that wait, of which the cookie has these low 32 bits, is about to be taken
 * back. What was not sent of their data is sent as zeroes; digests fit that. An error is that of
 * source().
 */
enum weft_reason iscsi_framing_void(struct iscsi_framing *f, uint32_t cookie);

/* As iwarp_have() and so on. */
void iscsi_framing_have(struct iscsi_framing *f, uint64_t now_ns, struct span_list *l);
void iscsi_framing_sent(struct iscsi_framing *f, uint64_t now_ns, size_t n);
void iscsi_framing_source_gone(struct iscsi_framing *f);

/* Whether all that was given to iscsi_framing_send() is sent. */
bool iscsi_framing_is_sent(const struct iscsi_framing *f);

struct iscsi_framing_counts {
	uint64_t pdus_in, pdus_out;
	uint64_t bytes_in, bytes_out; /* of the connection */
	uint64_t data_in, data_out;   /* of these: data segments */
	uint64_t data_copied;	      /* of the data: through the buffer or the ring */
};

const struct iscsi_framing_counts *iscsi_framing_counts(const struct iscsi_framing *f);
