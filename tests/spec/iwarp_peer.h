/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One queue pair on a stream core, without sockets, against a peer that the test plays: the peer
 * builds FPDUs by the wire codecs, right or wrong, and reads what the core sends by a reader of its
 * own, which checks framing, markers and CRC.
 *
 * Every scenario runs in several ways, which differ in how many bytes the connection moves at a
 * time and in whether there are markers:
 *
 *	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
 *		...
 *	}
 *
 * bed_next() also sees that every request ended in exactly one completion and nothing is left.
 */
#pragma once

#include "iwarp/iwarp.h"
#include "test.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum {
	MEMORY_BYTES = 320 * 1024, /* the consumer's */
	CLOSE_WAIT_NS = 1000,
	RECEIVER_WAIT_NS = 500,
	ALL_RIGHTS = 0x3f
};

/* What a scenario asks for; NULL: an initiator with CRC, two Reads each way. */
struct setup {
	struct iwarp_terms terms;
	enum weft_policy policy;
	bool is_plain; /* no way with markers */
	bool is_whole; /* only with all bytes at once: for large messages */
	bool has_srq;
	uint32_t send_max;
	uint64_t again_wait_ns, first_wait_ns;
};

struct pipe {
	uint8_t *bytes;
	size_t length, at, size;
};

void pipe_put(struct pipe *p, const void *bytes, size_t length);

struct iwarp_bed {
	/* Given. */
	struct setup setup;
	size_t way;
	size_t in_max, out_max; /* bytes that the connection moves at a time */
	struct iwarp_terms terms;
	/* The core. */
	struct adapter adapter;
	struct weft_pd *pd, *other_pd;
	struct weft_cq *cq;
	struct weft_srq *srq;
	struct weft_qp *qp; /* NULL: destroyed */
	struct list attention;
	struct iwarp_stream *stream; /* NULL: closed */
	uint64_t now_ns;
	/* What it did with the connection. */
	bool is_shut, is_closed, is_aborted;
	/* The connection: bytes to the core and from it. */
	struct pipe in, out;
	size_t out_credit; /* bytes that it still takes */
	bool is_eof;
	/* The peer: what it sent, and the last FPDU of that. */
	uint32_t msn[RDMAP_QN_COUNT];
	uint64_t in_position;
	uint8_t header[DDP_HEADER_MAX];
	uint32_t header_bytes, ulpdu_bytes;
	struct rdmap_read_request read;
	bool is_crc_bad, is_marker_bad; /* of the next FPDU */
	/* The consumer. */
	uint8_t *memory, *shadow;
	uint32_t posted, completed;
	uint64_t guarded; /* bytes that were accessed under guard */
	bool is_gone;	  /* all memory of the program is missing */
};

struct iwarp_bed *bed_first(const struct setup *setup);
struct iwarp_bed *bed_next(struct iwarp_bed *b);

/* Lends large buffers to the stream, as a driver does while it is busy. */
struct iwarp_buffers *bed_lend(struct iwarp_bed *b);

/* Another queue pair of the same domain and queues, in RESET. */
struct weft_qp *bed_qp(struct iwarp_bed *b);

/* Lets everything move until it rests; and at a later time. */
void bed_move(struct iwarp_bed *b);
void bed_wait(struct iwarp_bed *b, uint64_t ns);

/* One receive, of so many bytes at most. False: nothing has come, or nothing is wanted. */
bool bed_move_in(struct iwarp_bed *b, size_t most);

/* The peer ends its direction; the connection breaks. */
void bed_eof(struct iwarp_bed *b);
void bed_lost(struct iwarp_bed *b);

/* ---- The consumer --------------------------------------------------------------------------- */

static inline uint64_t addr_of(const struct iwarp_bed *b, size_t offset)
{
	return (uintptr_t)b->memory + offset;
}

/* Registers part of the memory. */
uint32_t bed_region(struct iwarp_bed *b, size_t offset, size_t length, uint32_t rights);
uint32_t bed_region_on_demand(struct iwarp_bed *b, size_t offset, size_t length);

/* The same, but only a window is remotely usable; of the queue pair or, if 0, of the domain. */
uint32_t bed_window(struct iwarp_bed *b, const struct weft_bind *bind);

void bed_deregister(struct iwarp_bed *b, uint32_t tag);

/* Posts a request, signalled; ids count from 1 on. A receive of one segment, or of none. */
enum weft_reason bed_post(struct iwarp_bed *b, struct weft_send_wr *wr);
void bed_receive(struct iwarp_bed *b, uint32_t tag, size_t offset, uint32_t length);

/* The next completion. False: there is none. */
bool bed_poll(struct iwarp_bed *b, struct weft_completion *c);

/* The next completion is the one of this id and status, for this reason. */
void expect_completion(struct iwarp_bed *b, uint64_t id, enum weft_status status,
		       enum weft_reason reason);
void expect_no_completion(struct iwarp_bed *b);

/* Whether memory is as it was when last noted. */
bool is_unchanged(const struct iwarp_bed *b);
void bed_note(struct iwarp_bed *b);

/* Takes events until one of this kind: its reason, or WEFT_REASON_COUNT. */
enum weft_reason bed_event(struct iwarp_bed *b, enum weft_event_kind kind);

void bed_modify(struct iwarp_bed *b, enum weft_qp_state state);

/* ---- The peer's bytes ----------------------------------------------------------------------- */

void peer_bytes(struct iwarp_bed *b, const void *bytes, size_t length);

/* A ULPDU, framed. */
void peer_ulpdu(struct iwarp_bed *b, const uint8_t *ulpdu, uint32_t length);

/* A segment with its payload. */
void peer_tagged(struct iwarp_bed *b, const struct ddp_tagged *h, const void *payload,
		 uint32_t length);
void peer_untagged(struct iwarp_bed *b, const struct ddp_untagged *h, const void *payload,
		   uint32_t length);

/* Whole messages of one segment, numbered right. */
void peer_send(struct iwarp_bed *b, enum rdmap_opcode opcode, uint32_t ulp32, const void *payload,
	       uint32_t length);
void peer_write(struct iwarp_bed *b, uint32_t tag, uint64_t to, const void *payload,
		uint32_t length);
void peer_response(struct iwarp_bed *b, uint32_t tag, uint64_t to, const void *payload,
		   uint32_t length);
void peer_read(struct iwarp_bed *b, uint32_t tag, uint64_t from, uint32_t length);
void peer_atomic(struct iwarp_bed *b, const struct rdmap_atomic_request *request);
void peer_atomic_response(struct iwarp_bed *b, uint32_t id, uint64_t original);
void peer_terminate(struct iwarp_bed *b, const struct rdmap_terminate *t);

static inline struct ddp_untagged untagged(enum rdmap_opcode opcode, uint32_t qn, uint32_t msn)
{
	return (struct ddp_untagged){
		.is_last = true,
		.ulp = rdmap_control_encode(opcode),
		.qn = qn,
		.msn = msn,
	};
}

static inline struct ddp_tagged tagged(enum rdmap_opcode opcode, uint32_t tag, uint64_t to)
{
	return (struct ddp_tagged){
		.is_last = true,
		.ulp = rdmap_control_encode(opcode),
		.stag = tag,
		.to = to,
	};
}

/* ---- What the core sent --------------------------------------------------------------------- */

struct frame {
	bool is_tagged;
	enum rdmap_opcode opcode;
	struct ddp_tagged t;
	struct ddp_untagged u;
	const uint8_t *payload;
	uint32_t bytes;
	uint8_t ulpdu[65536];
};

/* The next FPDU, which must be right in itself. NULL: there is no whole one. */
const struct frame *peer_next(struct iwarp_bed *b);

/* The next FPDU must be this message; returns it. */
const struct frame *expect_frame(struct iwarp_bed *b, enum rdmap_opcode opcode);

/* Bytes that were not read yet. */
size_t peer_left(const struct iwarp_bed *b);

/* ---- Ends ----------------------------------------------------------------------------------- */

/* Headers of a Terminate: none, length and DDP header, these and the Read Request's body. */
enum headers { HEADERS_NONE, HEADERS_DDP, HEADERS_READ };

struct stream_end {
	enum weft_reason reason;
	uint8_t cause[3]; /* layer, type, code */
	enum headers headers;
};

/*
 * The last FPDU of the peer was refused: the queue pair is in Error for the reason, memory
 * unchanged, one Terminate with the cause and headers has gone out and nothing after it, the
 * stream was shut, and closes when the peer does.
 */
void expect_refused(struct iwarp_bed *b, const struct stream_end *end);

/* The queue pair failed and a Terminate without headers went out; then as above. */
void expect_terminated(struct iwarp_bed *b, enum weft_reason reason);

/* Our direction was shut in good order, nothing more was sent, and the stream closes. */
void expect_shut(struct iwarp_bed *b);
