/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP: one TCP stream after its set-up, as a core: MPA framing (RFC 5044), DDP (RFC 5041), RDMAP
 * (RFC 5040, RFC 7306). It carries the requests of one queue pair and serves those of the peer.
 *
 * The owner (driver or simulator) moves the bytes:
 *
 *	iwarp_want()   where to receive; iwarp_got() says how much arrived there
 *	iwarp_have()   what to send; iwarp_sent() says how much was taken
 *	iwarp_due(), iwarp_expire()   the next deadline
 *	iwarp_action() what is to be done with the connection below: pulled, never called back
 *
 * Whenever a stream may have something new for its owner it puts itself on the owner's list
 * `attention`, once; iwarp_attend() takes it from there.
 *
 * Memory is named by tags until the moment it is used: spans are good for one want() and got(), or
 * one have() and sent(), with nothing in between. So memory that its owner takes back in the
 * meantime is not touched any more; the stream ends instead (RFC 5042 section 6.2.3).
 *
 * Payload is received where it belongs, before its CRC is known: RFC 5044 section 3 wants it placed
 * only afterwards, which would cost a copy of every byte. What holds: nothing of a frame that
 * fails its CRC reaches a completion, and the stream ends there. A frame that is small enough to
 * be in our buffer whole is checked first.
 */
#pragma once

#include "base/span.h"
#include "iwarp/terms.h"
#include "verbs/verbs.h"

struct iwarp_stream;

struct iwarp_config {
	struct iwarp_terms terms;
	uint64_t close_wait_ns; /* for the peer's end of the stream, when ours has ended */
	/*
	 * What is done about a peer that says nothing at all, from begin_ns on; 0: nothing. After
	 * again_wait_ns, and some more times, each after twice as long, an initiator repeats the
	 * Write by which it has opened the stream. After first_wait_ns a responder may send, if no
	 * ready-to-receive message was agreed (where one was, it waits).
	 */
	uint64_t begin_ns, again_wait_ns, first_wait_ns;
	struct list *attention; /* of the owner; must outlive the stream */
	void *owner;		/* given back by iwarp_owner() */
};

/*
 * Makes the queue pair, which is in RESET or INIT and of service RC, operational on a new stream.
 * The stream outlives the queue pair's use of it until the connection is closed.
 */
enum weft_reason iwarp_create(struct weft_qp *qp, const struct iwarp_config *config,
			      struct iwarp_stream **stream);

/*
 * Frees it, and buffers that it still has; a queue pair that still uses it fails
 * (WEFT_R_STREAM_LOST).
 */
void iwarp_destroy(struct iwarp_stream *s);

/*
 * A stream makes do with little memory of its own. While it is busy its owner may lend it buffers,
 * so that more messages go through at once.
 */
struct iwarp_buffers;

struct iwarp_buffers *iwarp_buffers_create(void);
void iwarp_buffers_destroy(struct iwarp_buffers *buffers);

/* Whether buffers would help. */
bool iwarp_is_cramped(const struct iwarp_stream *s);
void iwarp_lend(struct iwarp_stream *s, struct iwarp_buffers *own_buffers);

/* NULL: there is none, or something lies on it. */
struct iwarp_buffers *iwarp_take_back(struct iwarp_stream *s);

void *iwarp_owner(const struct iwarp_stream *s);

/* The stream cannot be used after all, for this reason: the peer is told. */
void iwarp_refuse(struct iwarp_stream *s, enum weft_reason reason);

/* Takes the next stream off the list; NULL when it is empty. And the one that would come last. */
struct iwarp_stream *iwarp_attend(struct list *attention);
struct iwarp_stream *iwarp_last(const struct list *attention);

/* Puts it on the list: its owner left something undone. */
void iwarp_again(struct iwarp_stream *s);

/* An empty list: nothing is wanted now. */
void iwarp_want(struct iwarp_stream *s, uint64_t now_ns, struct span_list *l);

/* Whether anything would be wanted. */
bool iwarp_wants(const struct iwarp_stream *s);

/* n bytes, at most what was wanted, are there. */
void iwarp_got(struct iwarp_stream *s, uint64_t now_ns, const struct span_list *l, size_t n);

/* The peer has no more; the connection was reset or lost. */
void iwarp_eof(struct iwarp_stream *s, uint64_t now_ns);
void iwarp_lost(struct iwarp_stream *s);

/* An empty list: nothing to send now. After iwarp_sent() there may be more: ask again. */
void iwarp_have(struct iwarp_stream *s, uint64_t now_ns, struct span_list *l);
void iwarp_sent(struct iwarp_stream *s, uint64_t now_ns, size_t n);

/* UINT64_MAX: no deadline. */
uint64_t iwarp_due(const struct iwarp_stream *s);
void iwarp_expire(struct iwarp_stream *s, uint64_t now_ns);

enum iwarp_action {
	IWARP_NOTHING = 0,
	IWARP_SHUT,  /* send the end of our direction, once; bytes may still come */
	IWARP_CLOSE, /* it is over: close the connection and destroy the stream */
	IWARP_ABORT  /* the same, but the peer must not take the end for a good one: reset */
};

enum iwarp_action iwarp_action(struct iwarp_stream *s);

/* Whether it is still in use, and not ending. */
bool iwarp_is_open(const struct iwarp_stream *s);

/* Whether both ends have shown that they are in full operation: a good FPDU has arrived. */
bool iwarp_is_ready(const struct iwarp_stream *s);

/* Of TRACE_STREAM_STATE. Never NULL. */
const char *iwarp_state_name(uint64_t state);

/* Why it ended: the reason, and what the peer said in its Terminate, or NULL. */
const char *iwarp_peer_words(const struct iwarp_stream *s);

struct iwarp_counts {
	uint64_t messages_in, messages_out;
	uint64_t requests_in; /* segments of the peer's, not of its answers */
	uint64_t fpdus_in, fpdus_out;
	uint64_t bytes_in, bytes_out;	  /* of the stream */
	uint64_t payload_in, payload_out; /* of those: the consumers' own */
	uint64_t payload_copied;	  /* of those: by way of our buffer, or inline */
};

const struct iwarp_counts *iwarp_counts(const struct iwarp_stream *s);
