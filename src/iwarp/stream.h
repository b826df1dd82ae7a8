/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stream's own struct, for the files of this room:
 *
 *	stream.c     states, closing, deadlines, the transport's table for the verbs
 *	fpdu_rx.c    bytes -> FPDUs: framing, markers, CRC, destination of the next bytes
 *	rdmap_rx.c   FPDUs -> messages: every check, placement, delivery
 *	fpdu_tx.c    FPDUs -> bytes: framing, markers, CRC, order of output
 *	rdmap_tx.c   messages -> FPDUs: requests, responses, ready-to-receive, Terminate
 *	readq.c      Reads and atomics: queue of the peer's, matching of responses to ours
 *	terminate.c  reasons <-> Terminate codes
 *	buffers.c    memory lent to a busy stream
 */
#pragma once

#include "iwarp/iwarp.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum {
	RX_BYTES = 1024,		 /* of a stream's own receive buffer */
	RX_MARKED_BYTES = 2 * 66 * 1024, /* the same with markers: whole FPDUs, and room to move */
	RX_WHOLE_MAX = RX_BYTES / 2,	 /* an FPDU up to this is checked before it is placed */
	TX_BYTES = 512,			 /* for headers, trailers and markers to send */
	TX_FPDUS = 8,
	TX_PAYLOAD_MAX = 65504, /* of an FPDU: limited by its 16-bit length, in words */
	TX_MARKED_MAX = 1984,	/* the same with markers */
	TX_COPY_MAX = 128,	/* payload up to this is copied behind its header */
	TX_BATCH = 256 * 1024,	/* payload that is prepared ahead of the connection */
	/* In lent buffers. */
	LENT_RX_BYTES = 32 * 1024,
	LENT_TX_BYTES = TX_BATCH + 80 * 1024, /* with snapshots of payload: see needs_snapshot() */
	LENT_FPDUS = 128
};

enum stream_state {
	STREAM_OPEN = 0,
	STREAM_TERMINATING, /* our Terminate is being sent */
	STREAM_CLOSING,	    /* our direction is closed, the peer's is not */
	STREAM_CLOSED,
	STREAM_ABORTED, /* closed without a proper end */
	STREAM_STATES
};

/* ---- Receiving ------------------------------------------------------------------------------ */

enum rx_stage {
	RX_HEADER = 0, /* waits for the header of the next FPDU, or all of a small one */
	RX_PAYLOAD,    /* payload of a large one is placed as it comes */
	RX_TRAILER     /* waits for pad and CRC */
};

/* The header of a DDP segment, decoded. */
struct rx_segment {
	bool is_tagged, is_last;
	enum rdmap_opcode opcode;
	uint32_t stag, qn, msn, mo, ulp32;
	uint64_t to;
	uint32_t bytes;			/* of payload */
	uint32_t ulpdu_bytes;		/* of header and payload */
	uint32_t header_bytes;		/* of the DDP header */
	uint8_t header[DDP_HEADER_MAX]; /* as received, for a Terminate */
	bool has_read;			/* a Read Request: its body */
	struct rdmap_read_request read;
};

struct rx {
	uint8_t *bytes;		   /* the stream's own, or of lent buffers */
	uint32_t size, start, end; /* bytes[start] to bytes[end - 1] are not processed yet */
	enum rx_stage stage;
	uint64_t position; /* in the stream, of bytes[start] */
	uint64_t first;	   /* the same, of the current FPDU's first byte */
	uint32_t crc;	   /* so far */
	uint32_t placed;   /* payload of the current FPDU that is placed */
	struct rx_segment segment;
	uint32_t ahead;	      /* read at most so much into the buffer: payload read with the
			       * header of a large FPDU must be copied */
	bool is_bulk;	      /* the last FPDU was large: read the next header alone */
	uint32_t between;     /* bytes of small FPDUs between the last two large ones */
	uint32_t since_large; /* the same, since the last one */
	bool has_large;	      /* a large FPDU began in the latest bytes */
	bool is_blocked;      /* the message in the buffer waits for a receive, or for a page */
	bool is_absent;	      /* it waits for a page */
	bool is_checked;      /* CRC and markers of the waiting FPDU at start are checked */
	bool has_fpdu;	      /* a valid FPDU has come */
	uint64_t deadline_ns; /* of that wait; UINT64_MAX: none */
	/* Messages. */
	uint32_t msn[RDMAP_QN_COUNT]; /* expected next */
	uint32_t send_bytes;	      /* of the Send that is arriving */
	enum rdmap_opcode send_opcode;
	uint64_t write_bytes; /* of the present or last Write */
	bool is_write_whole;
};

/* ---- Sending -------------------------------------------------------------------------------- */

/* The source of an FPDU's payload. */
enum tx_source {
	TX_NOTHING = 0,
	TX_REQUEST,  /* memory of a send request */
	TX_RESPONSE, /* memory that the peer reads */
	TX_COPY	     /* in tx.bytes, after the header */
};

/* An FPDU to send. Its header, copy, trailer and markers are in tx.bytes, in this order. */
struct tx_fpdu {
	uint32_t payload_bytes;
	uint32_t offset; /* of the payload in its message */
	uint32_t slot;	 /* of the send queue, or of the read queue */
	uint32_t at;
	uint16_t phase; /* position in the stream, modulo the distance of markers */
	uint8_t header_bytes, trailer_bytes, marker_count;
	uint8_t source; /* enum tx_source */
	uint8_t ends;	/* enum tx_source: the request or response that ends with this FPDU */
};

/* A message that is being split into FPDUs. */
struct tx_message {
	enum tx_source source, ends;
	enum rdmap_opcode opcode;
	bool is_tagged, has_immediate; /* an Immediate message follows */
	uint32_t slot, length, offset;
	uint32_t stag, qn, msn, ulp32;
	uint64_t to;
	/* RDMAP body of a message, instead of payload. */
	uint8_t body[RDMAP_ATOMIC_REQUEST_BYTES];
	uint32_t body_bytes;
};

struct tx {
	uint8_t *bytes;	       /* the stream's own, or of lent buffers */
	struct tx_fpdu *fpdus; /* the same: a ring */
	uint32_t size, fpdus_max;
	uint32_t used; /* of bytes */
	uint32_t first, count;
	uint32_t taken;	   /* bytes of the first FPDU that were sent */
	uint32_t ready;	   /* payload bytes in the ring */
	uint32_t phase;	   /* of the next FPDU */
	bool is_held;	   /* a responder must not send before the initiator's first FPDU */
	bool is_absent;	   /* the next payload waits for a page */
	bool is_doubtful;  /* the kernel missed some payload: look at it before it is listed */
	bool has_message;  /* message is being split */
	bool was_response; /* the last message was a response: requests are next */
	struct tx_message message;
	uint32_t msn[RDMAP_QN_COUNT]; /* of the last message */
};

/* ---- Reads ---------------------------------------------------------------------------------- */

/* A Read or atomic request of the peer. */
struct inbound {
	bool is_here; /* it has come; earlier ones perhaps not */
	bool is_atomic;
	uint8_t header[DDP_UNTAGGED_BYTES]; /* as received, for a Terminate */
	union {
		struct rdmap_read_request read;
		struct rdmap_atomic_request atomic;
	};
};

struct readq {
	/* The peer's requests: a ring of terms.ird, by message sequence number. */
	struct inbound *inbound;
	uint32_t in_max, in_first;
	uint32_t in_msn;   /* of in_first */
	uint32_t in_count; /* from in_first on: received, without a gap */
	uint32_t in_begun; /* from in_first on: their responses have begun */
	/* Our requests: a ring of send queue slots, at most terms.ord. */
	uint32_t *outbound;
	uint32_t out_max, out_first, out_count;
	uint32_t out_bytes;		       /* received of the oldest one's response */
	uint32_t atomic_sent, atomic_answered; /* counts: identifiers of the next ones */
	bool is_rtr_pending; /* the response to a ready-to-receive Read has not come yet */
};

/* ---- The stream ----------------------------------------------------------------------------- */

struct iwarp_buffers {
	uint8_t rx[LENT_RX_BYTES];
	uint8_t tx[LENT_TX_BYTES];
	struct tx_fpdu fpdus[LENT_FPDUS];
};

struct iwarp_stream {
	struct weft_qp *qp; /* NULL: it has left */
	uint32_t number;    /* of that queue pair, for the trace */
	struct adapter *adapter;
	struct list attention_link;
	struct list *attention;
	void *owner;
	struct iwarp_terms terms;
	enum stream_state state;
	bool is_shut_due, is_peer_done;
	uint64_t close_wait_ns, close_ns; /* close_ns: deadline of TERMINATING and CLOSING */
	/* Until the first good FPDU of the peer: see struct iwarp_config. */
	uint64_t silence_ns, again_wait_ns;
	uint32_t again_left;
	const char *peer_words;
	struct iwarp_counts counts;
	struct rx rx;
	struct tx tx;
	struct readq reads;
	struct iwarp_buffers *buffers; /* or NULL */
	bool is_cramped;	       /* it could use buffers */
	/* Used without lent buffers. */
	uint8_t *own_rx;
	uint8_t own_tx[TX_BYTES];
	struct tx_fpdu own_fpdus[TX_FPDUS];
};

/* stream.c */
extern const struct transport iwarp_transport;

/* Puts the stream on its owner's list. */
void stream_attention(struct iwarp_stream *s);

/*
 * Ends the stream for an error: the queue pair fails for the reason, the peer is sent a Terminate
 * (terminate.c), and the connection is closed. segment: the offending one, or NULL.
 */
__attribute__((cold)) void stream_refuse(struct iwarp_stream *s, enum weft_reason reason,
					 const struct rx_segment *segment);

/* Starts the time for the peer to close its direction, if ours is closed. */
void stream_close_wait(struct iwarp_stream *s, uint64_t now_ns);

/* The peer's Terminate has come. */
void stream_terminated(struct iwarp_stream *s, const struct rdmap_terminate *t);

/* buffers.c */
int buffers_init(struct iwarp_stream *s);
void buffers_fini(struct iwarp_stream *s);

/* fpdu_rx.c */
void rx_init(struct iwarp_stream *s);

/* Processes the bytes in the buffer. */
void rx_process(struct iwarp_stream *s, uint64_t now_ns);

/* rdmap_rx.c */
enum rx_result { RX_OK = 0, RX_BLOCKED, RX_REFUSED };

/* Decodes a segment's headers from the first bytes of a ULPDU, which must contain them. */
enum rx_result rdmap_rx_header(struct iwarp_stream *s, const uint8_t *ulpdu, uint32_t ulpdu_bytes);

/* Whether the segment's payload is placed in consumer memory; else it is an RDMAP body. */
bool rdmap_rx_is_placed(const struct rx_segment *seg);

/* The checks of a segment whose payload is placed, before any byte is placed. */
enum rx_result rdmap_rx_open(struct iwarp_stream *s, uint64_t now_ns);

/* The memory of the segment's destination is gone since the check, for that reason. */
enum rx_result rdmap_rx_gone(struct iwarp_stream *s, enum weft_reason r);

/* The destination of the current segment's payload, from `placed` on. */
enum rx_result rdmap_rx_spans(struct iwarp_stream *s, struct mem_span *spans, uint32_t max,
			      uint32_t *count);

/* The segment is complete and its CRC is valid. body: the RDMAP body, if not placed. */
enum rx_result rdmap_rx_deliver(struct iwarp_stream *s, uint64_t now_ns, const uint8_t *body);

/* fpdu_tx.c */
/* VMM-09: output goes on when memory has changed. */
void tx_await_page(struct iwarp_stream *s);
bool tx_has_room(const struct iwarp_stream *s);

/*
 * Makes the next FPDU of tx.message. False: none was made. Its memory is invalid, and the stream
 * has failed; or a page is awaited; or earlier responses go first.
 */
bool tx_cut(struct iwarp_stream *s);

/* Drops FPDUs that are not sent yet. False: an FPDU is half sent, and cannot be completed. */
bool tx_prune(struct iwarp_stream *s);

/* rdmap_tx.c */

/* Makes FPDUs while there is room; wakes the send queue if it waits for room. */
void tx_fill(struct iwarp_stream *s);
enum issue rdmap_tx_issue(struct weft_qp *qp, struct send_wqe *wqe);

/* Sends the ready-to-receive message of an initiator, if one was negotiated. */
void rdmap_tx_rtr(struct iwarp_stream *s);
void rdmap_tx_terminate(struct iwarp_stream *s, const struct rdmap_terminate *t);

/*
 * Takes spans of a list, as qp_segments_spans(). WEFT_R_SPACE_UNMAPPED, also of the next call: a
 * pager brings what is missing.
 */
enum weft_reason stream_spans(struct iwarp_stream *s, const struct stretch *list,
			      struct mem_span *spans, uint32_t max, uint32_t *count);

/* The spans of an FPDU's payload from offset on, at most *count. */
enum weft_reason rdmap_tx_spans(struct iwarp_stream *s, const struct tx_fpdu *f, uint32_t offset,
				struct mem_span *spans, uint32_t *count);

/* A request or response was sent completely. */
void rdmap_tx_taken(struct iwarp_stream *s, const struct tx_fpdu *f);

/* readq.c */
int readq_init(struct iwarp_stream *s);
void readq_fini(struct iwarp_stream *s);

/* A Read or atomic request of the peer has arrived. */
enum rx_result readq_request(struct iwarp_stream *s, const uint8_t *body);

/* Whether there is a request whose response can begin. */
bool readq_has_next(const struct iwarp_stream *s);

/*
 * Begins the response to the oldest request without one, in tx.message. False: the request is
 * refused, or will be when all responses before it are sent.
 */
bool readq_answer(struct iwarp_stream *s);

/* Refuses a request whose response has begun, as its memory has gone since. */
void readq_refuse(struct iwarp_stream *s, uint32_t slot, enum weft_reason reason);

/*
 * The memory of a response: of a part (offset, length), whose pages must be in memory, or (NULL) of
 * all; the oldest response was sent completely.
 */
enum weft_reason readq_access(struct iwarp_stream *s, uint32_t slot, const struct stretch *part,
			      struct mem_grant *grant);
void readq_taken(struct iwarp_stream *s);

/* Our oldest Read or atomic in flight, whose response comes next; or NULL. */
struct send_wqe *readq_oldest(struct iwarp_stream *s);
void readq_sent(struct iwarp_stream *s, const struct send_wqe *wqe);
void readq_answered(struct iwarp_stream *s, const struct outcome *out);

/* The peer refused the request with this MSN, and ends the stream. */
void readq_refused(struct iwarp_stream *s, uint32_t msn, const struct outcome *out);

/* terminate.c */
void terminate_of(enum weft_reason reason, const struct rx_segment *segment,
		  struct rdmap_terminate *t);
enum weft_reason terminate_reason(const struct rdmap_terminate *t);

/*
 * Whether the peer refused a Read or atomic, and its MSN; the completion status of a request that
 * the peer refused.
 */
bool terminate_is_of_request(const struct rdmap_terminate *t, uint32_t *msn);
enum weft_status terminate_status(enum weft_reason reason);
