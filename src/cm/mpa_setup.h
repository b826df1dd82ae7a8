/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA connection set-up (RFC 5044 section 7.1, RFC 6581): one exchange of start frames on a new TCP
 * connection, at one end. The result is struct iwarp_terms, from which the stream is created; no
 * byte of the stream is consumed here.
 *
 * Not here: opening the TCP connection, the fallback to revision 1 when a peer closes on revision
 * 2, and the ready-to-receive message, which is the first of the stream.
 *
 * The owner of the connection moves bytes by want and got, have and sent, reports other events of
 * the connection, and pulls the events of the set-up. After a final event only the queries at the
 * end of this header may be called.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/span.h"
#include "iwarp/terms.h"
#include "wire/mpa.h"

/* Bytes to read; bytes to write are a struct span. */
struct mpa_bytes {
	const uint8_t *bytes;
	size_t length;
};

/*
 * The parameters of this end. Depths are 0 to MPA_DEPTH_MAX; for a responder they are upper limits
 * of its answer. timeout_ns limits an initiator's whole set-up; a responder waits so long for the
 * request, and again for its reply to be sent. RFC 5042 requires a limit, so it is not 0.
 */
struct mpa_config {
	bool wants_crc;	      /* true, unless an administrator disabled it */
	bool wants_markers;   /* in the peer's direction */
	uint8_t revision;     /* initiator: 1 or 2; a responder uses that of the request */
	bool is_peer_to_peer; /* initiator, revision 2; a responder always supports it */
	uint16_t ird;	      /* Reads and atomics of the peer that this end serves at a time */
	uint16_t ord;	      /* Reads and atomics of its own that it wants in flight */
	uint64_t timeout_ns;
};

/* A responder's answer to a request. */
struct mpa_answer {
	struct mpa_bytes private_data;
	uint16_t ird, ord; /* at most as configured */
};

/* The peer's start frame. */
struct mpa_peer {
	struct mpa_bytes private_data; /* points into the set-up; responder: until it answers */
	uint16_t ird, ord;	       /* MPA_DEPTH_UNKNOWN: not sent */
	uint8_t revision;	       /* 0: no frame of the peer has come yet */
	bool wants_crc;
	bool wants_markers;
	bool is_peer_to_peer;
};

enum mpa_setup_event {
	MPA_SETUP_NONE = 0,
	MPA_SETUP_REQUEST,     /* responder: a request has come; accept or reject it */
	MPA_SETUP_ESTABLISHED, /* final: the stream begins, with mpa_setup_terms() */
	MPA_SETUP_REJECTED,    /* final: the peer rejected, or was sent a rejection */
	MPA_SETUP_FAILED       /* final: for mpa_setup_reason() */
};

enum mpa_setup_state {
	MPA_STATE_REQUESTING,	    /* initiator: the request is being sent */
	MPA_STATE_AWAITING_REPLY,   /* initiator */
	MPA_STATE_AWAITING_REQUEST, /* responder */
	MPA_STATE_DECIDING,	    /* responder: the program decides on the request */
	MPA_STATE_ACCEPTING,	    /* responder: the reply is being sent */
	MPA_STATE_REJECTING,	    /* responder: the reply is being sent */
	MPA_STATE_ESTABLISHED,
	MPA_STATE_REJECTED,
	MPA_STATE_FAILED,
	MPA_STATE_COUNT
};

/* The caller's memory, needed only during set-up. The fields belong to this module. */
struct mpa_setup {
	struct mpa_config config;
	struct iwarp_terms terms;
	struct mpa_start theirs; /* revision 0: not received yet */
	struct mpa_enhanced theirs_enhanced;
	uint64_t deadline_ns; /* applies in states that wait for the peer */
	enum mpa_setup_state state;
	enum mpa_setup_event event; /* not pulled yet */
	enum weft_reason reason;
	/* The frame being received or sent, and its bytes done. */
	uint16_t frame_bytes, frame_done;
	uint16_t private_at, private_bytes; /* of the peer, in the frame */
	uint8_t frame[MPA_START_BYTES + MPA_PRIVATE_MAX];
};

/*
 * WEFT_R_PRIVATE_DATA: longer than 512 bytes in revision 1, 508 in revision 2 (Linux accepts no
 * more than 256, of which revision 2 uses 4). WEFT_R_BAD_ARGUMENT: a parameter is out of range. The
 * private data is copied.
 */
enum weft_reason mpa_setup_init_initiator(struct mpa_setup *s, const struct mpa_config *config,
					  struct mpa_bytes private_data, uint64_t now_ns);
void mpa_setup_init_responder(struct mpa_setup *s, const struct mpa_config *config,
			      uint64_t now_ns);

/* Where to receive, never more than the rest of the frame; length 0: nothing is expected now. */
struct span mpa_setup_want(struct mpa_setup *s);
void mpa_setup_got(struct mpa_setup *s, size_t length);

/* What to send; length 0: nothing. */
struct mpa_bytes mpa_setup_have(const struct mpa_setup *s);
void mpa_setup_sent(struct mpa_setup *s, size_t length);

/* The peer closed, or the connection was lost. No effect after a final event. */
void mpa_setup_eof(struct mpa_setup *s);

/* The deadline; UINT64_MAX: none, for example while the program decides on a request. */
uint64_t mpa_setup_due(const struct mpa_setup *s);
void mpa_setup_expire(struct mpa_setup *s, uint64_t now_ns);

/* Takes the next event. */
enum mpa_setup_event mpa_setup_event(struct mpa_setup *s);

/* Changes these parameters of the config; a responder may, before it accepts. */
void mpa_setup_wish(struct mpa_setup *s, bool wants_crc, bool wants_markers);

/*
 * Answer MPA_SETUP_REQUEST. After WEFT_R_PRIVATE_DATA or WEFT_R_BAD_ARGUMENT the caller may try
 * again. If the set-up has failed meanwhile, its reason is returned. The private data is copied; it
 * may be the peer's own.
 */
enum weft_reason mpa_setup_accept(struct mpa_setup *s, const struct mpa_answer *answer,
				  uint64_t now_ns);
enum weft_reason mpa_setup_reject(struct mpa_setup *s, struct mpa_bytes private_data,
				  uint64_t now_ns);

/* ---- Queries -------------------------------------------------------------------------------- */

struct mpa_peer mpa_setup_peer(const struct mpa_setup *s);

/* WEFT_OK, until the set-up failed or the peer rejected. */
enum weft_reason mpa_setup_reason(const struct mpa_setup *s);

/*
 * RFC 6581 section 8: whether the peer believes that the stream is established, and must be sent a
 * Terminate on it: 2/0/06 for WEFT_R_MPA_DEPTH, 2/0/07 for WEFT_R_MPA_RTR. If not, just close TCP.
 */
bool mpa_setup_must_terminate(const struct mpa_setup *s);

/* After MPA_SETUP_ESTABLISHED, or if mpa_setup_must_terminate(). */
const struct iwarp_terms *mpa_setup_terms(const struct mpa_setup *s);

/* Never NULL. For debuggers, and for the test that every state has its name. */
const char *mpa_setup_state_name(enum mpa_setup_state state);
