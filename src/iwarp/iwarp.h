/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP: one TCP stream after its set-up, as a core: MPA framing (RFC 5044), DDP (RFC 5041), RDMAP
 * (RFC 5040, RFC 7306). It sends the requests of one queue pair and serves those of the peer.
 *
 * The owner (driver or simulator) moves the bytes:
 *
 *	iwarp_want()   where to receive; iwarp_got() says how much arrived there
 *	iwarp_have()   what to send; iwarp_sent() says how much was sent
 *	iwarp_due(), iwarp_expire()   the next deadline
 *	iwarp_action() what to do with the TCP connection: pulled, never called back
 *
 * A stream that may have something new for its owner puts itself on the owner's list `attention`,
 * once; iwarp_attend() takes it from there.
 *
 * Memory is named by tags until the moment it is used: spans are valid for one want() and got(), or
 * one have() and sent(), with no call in between. So memory that is deregistered in the meantime is
 * not touched; the stream ends instead (RFC 5042 section 6.2.3), unless a copy was taken before.
 *
 * Payload is placed as it comes, before its CRC is checked. RFC 5044 section 3 wants it placed only
 * afterwards. Guaranteed is: no byte of a frame that fails its CRC reaches a completion, and the
 * stream ends there (AMB-41). A frame that fits into our buffer is checked first, and so is every
 * frame of a stream with markers. Without a CRC, payload is received directly into its destination.
 */
#pragma once

#include "base/span.h"
#include "iwarp/terms.h"
#include "verbs/verbs.h"

struct iwarp_stream;

struct iwarp_config {
	struct iwarp_terms terms;
	uint64_t close_wait_ns; /* for the peer to close its direction, after ours is closed */
	/*
	 * For a peer that has sent nothing since begin_ns; 0: do nothing. An initiator repeats the
	 * Write that opened the stream after again_wait_ns, and some more times, each after twice
	 * as long. A responder may send after first_wait_ns, if no ready-to-receive message was
	 * negotiated (if one was, it keeps waiting).
	 */
	uint64_t begin_ns, again_wait_ns, first_wait_ns;
	struct list *attention; /* of the owner; must outlive the stream */
	void *owner;		/* returned by iwarp_owner() */
};

/*
 * Makes an RC queue pair in RESET or INIT operational on a new stream. The stream outlives the
 * queue pair's use of it, until the connection is closed.
 */
enum weft_reason iwarp_create(struct weft_qp *qp, const struct iwarp_config *config,
			      struct iwarp_stream **stream);

/*
 * Frees the stream, and buffers that it still has; a queue pair that still uses it fails
 * (WEFT_R_STREAM_LOST).
 */
void iwarp_destroy(struct iwarp_stream *s);

/*
 * A stream has little memory of its own. While it is busy its owner may lend it buffers, so that it
 * handles more messages per call, and sends answers to Reads with a CRC in large frames.
 */
struct iwarp_buffers;

struct iwarp_buffers *iwarp_buffers_create(void);
void iwarp_buffers_destroy(struct iwarp_buffers *buffers);

/* Whether lent buffers would help. */
bool iwarp_is_cramped(const struct iwarp_stream *s);
void iwarp_lend(struct iwarp_stream *s, struct iwarp_buffers *own_buffers);

/* NULL: it has none, or they hold data. */
struct iwarp_buffers *iwarp_take_back(struct iwarp_stream *s);

void *iwarp_owner(const struct iwarp_stream *s);

/* Ends the stream for this reason before its use: the peer is sent a Terminate. */
void iwarp_refuse(struct iwarp_stream *s, enum weft_reason reason);

/* Takes the first stream off the list; the last stream of the list. NULL: it is empty. */
struct iwarp_stream *iwarp_attend(struct list *attention);
struct iwarp_stream *iwarp_last(const struct list *attention);

/* Puts it back on the list: its owner has not finished with it. */
void iwarp_again(struct iwarp_stream *s);

/* Where to receive. An empty list: nowhere now. */
void iwarp_want(struct iwarp_stream *s, uint64_t now_ns, struct span_list *l);

/* Whether iwarp_want() would return a non-empty list. */
bool iwarp_wants(const struct iwarp_stream *s);

/* n bytes, at most l->length, were received into the list. */
void iwarp_got(struct iwarp_stream *s, uint64_t now_ns, const struct span_list *l, size_t n);

/* Memory that iwarp_want() or iwarp_have() listed is not mapped any more. */
void iwarp_sink_gone(struct iwarp_stream *s);
void iwarp_source_gone(struct iwarp_stream *s);

/* The peer closed its direction; the connection was reset or lost. */
void iwarp_eof(struct iwarp_stream *s, uint64_t now_ns);
void iwarp_lost(struct iwarp_stream *s);

/* What to send. An empty list: nothing now. After iwarp_sent() there may be more. */
void iwarp_have(struct iwarp_stream *s, uint64_t now_ns, struct span_list *l);
void iwarp_sent(struct iwarp_stream *s, uint64_t now_ns, size_t n);

/* UINT64_MAX: no deadline. */
uint64_t iwarp_due(const struct iwarp_stream *s);
void iwarp_expire(struct iwarp_stream *s, uint64_t now_ns);

enum iwarp_action {
	IWARP_NOTHING = 0,
	IWARP_SHUT,  /* close our direction (FIN), once; bytes may still come */
	IWARP_CLOSE, /* close the connection and destroy the stream */
	IWARP_ABORT  /* the same with a reset: the peer must see an abnormal end */
};

enum iwarp_action iwarp_action(struct iwarp_stream *s);

/* Whether the stream is in use, and not ending. */
bool iwarp_is_open(const struct iwarp_stream *s);

/* Whether both ends are in full operation: a valid FPDU has arrived. */
bool iwarp_is_ready(const struct iwarp_stream *s);

/* The name of a state of TRACE_STREAM_STATE. Never NULL. */
const char *iwarp_state_name(uint64_t state);

/* What the peer's Terminate says, or NULL. */
const char *iwarp_peer_words(const struct iwarp_stream *s);

struct iwarp_counts {
	uint64_t messages_in, messages_out;
	uint64_t requests_in; /* segments of the peer's requests, not of its responses */
	uint64_t fpdus_in, fpdus_out;
	uint64_t bytes_in, bytes_out;	  /* of the stream */
	uint64_t payload_in, payload_out; /* of these: the consumers' payload */
	uint64_t payload_copied;	  /* of the payload: through our buffer, or inline */
};

const struct iwarp_counts *iwarp_counts(const struct iwarp_stream *s);
