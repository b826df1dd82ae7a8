/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA connection set-up (RFC 5044 section 7.1, RFC 6581): one exchange of start frames on a new TCP
 * connection, seen from one end. The result is struct iwarp_terms, from which the stream itself is
 * made; the first byte of the stream is never taken here.
 *
 * Not here: opening the TCP connection, trying again with revision 1 when a peer closes at the
 * sight of revision 2, and the ready-to-receive message, which is the stream's first.
 *
 * Whoever holds the connection moves bytes by want and got, have and sent, tells what else
 * happened, and pulls events. After a final event only the questions at the end of this page are
 * left.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/span.h"
#include "iwarp/terms.h"
#include "wire/mpa.h"

/* Bytes that are only read; where some are to be written is a struct span. */
struct mpa_bytes {
	const uint8_t *bytes;
	size_t length;
};

/*
 * What this end wishes. Depths are 0 to MPA_DEPTH_MAX; a responder's are the most that it may
 * answer. The time is that of an initiator's whole set-up; a responder waits so long for the
 * request, and again for its reply to go. RFC 5042 asks for a limit, so it is not 0.
 */
struct mpa_config {
	bool wants_crc;	      /* true, but by an administrator's choice */
	bool wants_markers;   /* in what the peer sends */
	uint8_t revision;     /* initiator: 1, or 2; a responder answers in kind */
	bool is_peer_to_peer; /* initiator, revision 2; a responder always can */
	uint16_t ird;	      /* Reads and atomics of the peer that this end serves at a time */
	uint16_t ord;	      /* its own that it wants in flight */
	uint64_t timeout_ns;
};

/* What a responder says to a request. */
struct mpa_answer {
	struct mpa_bytes private_data;
	uint16_t ird, ord; /* at most as configured */
};

/* What the peer said. */
struct mpa_peer {
	struct mpa_bytes private_data; /* in the set-up; a responder's until it answers */
	uint16_t ird, ord;	       /* MPA_DEPTH_UNKNOWN: not told */
	uint8_t revision;	       /* 0: no frame of the peer has come yet */
	bool wants_crc;
	bool wants_markers;
	bool is_peer_to_peer;
};

enum mpa_setup_event {
	MPA_SETUP_NONE = 0,
	MPA_SETUP_REQUEST,     /* responder: a request is here; accept or reject it */
	MPA_SETUP_ESTABLISHED, /* final: the stream begins, by mpa_setup_terms() */
	MPA_SETUP_REJECTED,    /* final: the peer said no, or has been told no */
	MPA_SETUP_FAILED       /* final: mpa_setup_reason() says why */
};

enum mpa_setup_state {
	MPA_STATE_REQUESTING,	    /* initiator: the request is going out */
	MPA_STATE_AWAITING_REPLY,   /* initiator */
	MPA_STATE_AWAITING_REQUEST, /* responder */
	MPA_STATE_DECIDING,	    /* responder: the program has the request */
	MPA_STATE_ACCEPTING,	    /* responder: the reply is going out */
	MPA_STATE_REJECTING,	    /* responder: the reply is going out */
	MPA_STATE_ESTABLISHED,
	MPA_STATE_REJECTED,
	MPA_STATE_FAILED,
	MPA_STATE_COUNT
};

/* In the caller's memory, which it needs only during set-up. Fields are this module's. */
struct mpa_setup {
	struct mpa_config config;
	struct iwarp_terms terms;
	struct mpa_start theirs; /* revision 0: not here yet */
	struct mpa_enhanced theirs_enhanced;
	uint64_t deadline_ns; /* counts in states that wait for the peer */
	enum mpa_setup_state state;
	enum mpa_setup_event event; /* not pulled yet */
	enum weft_reason reason;
	/* The frame that is coming in or going out, and how far it is. */
	uint16_t frame_bytes, frame_done;
	uint16_t private_at, private_bytes; /* of the peer, in the frame */
	uint8_t frame[MPA_START_BYTES + MPA_PRIVATE_MAX];
};

/*
 * WEFT_R_PRIVATE_DATA when it is too long: 512 bytes in revision 1, 508 in revision 2 (Linux takes
 * no more than 256, of which revision 2 uses 4). WEFT_R_BAD_ARGUMENT for wishes out of range. The
 * private data is copied.
 */
enum weft_reason mpa_setup_init_initiator(struct mpa_setup *s, const struct mpa_config *config,
					  struct mpa_bytes private_data, uint64_t now_ns);
void mpa_setup_init_responder(struct mpa_setup *s, const struct mpa_config *config,
			      uint64_t now_ns);

/* Where the next bytes belong, never more than the frame has left; none are due at length 0. */
struct span mpa_setup_want(struct mpa_setup *s);
void mpa_setup_got(struct mpa_setup *s, size_t length);

/* What to send; nothing at length 0. */
struct mpa_bytes mpa_setup_have(const struct mpa_setup *s);
void mpa_setup_sent(struct mpa_setup *s, size_t length);

/* The peer closed, or the connection was lost. After a final event it means nothing here. */
void mpa_setup_eof(struct mpa_setup *s);

/* The deadline; UINT64_MAX: there is none, as while the program thinks about a request. */
uint64_t mpa_setup_due(const struct mpa_setup *s);
void mpa_setup_expire(struct mpa_setup *s, uint64_t now_ns);

/* The next event, once. */
enum mpa_setup_event mpa_setup_event(struct mpa_setup *s);

/* Wishes that only become known with the decision: like those of the config. Before accepting. */
void mpa_setup_wish(struct mpa_setup *s, bool wants_crc, bool wants_markers);

/*
 * The answer to MPA_SETUP_REQUEST. When one is refused (WEFT_R_PRIVATE_DATA, WEFT_R_BAD_ARGUMENT)
 * another may be given; when the set-up failed meanwhile, its reason is returned. The private data
 * is copied, and may be the peer's own.
 */
enum weft_reason mpa_setup_accept(struct mpa_setup *s, const struct mpa_answer *answer,
				  uint64_t now_ns);
enum weft_reason mpa_setup_reject(struct mpa_setup *s, struct mpa_bytes private_data,
				  uint64_t now_ns);

/* ---- Questions ------------------------------------------------------------------------------ */

struct mpa_peer mpa_setup_peer(const struct mpa_setup *s);

/* WEFT_OK until it failed or the peer rejected. */
enum weft_reason mpa_setup_reason(const struct mpa_setup *s);

/*
 * RFC 6581 section 8: the peer believes that the stream is up, and is told by a Terminate on it
 * that it is not: 2/0/06 for WEFT_R_MPA_DEPTH, 2/0/07 for WEFT_R_MPA_RTR. Otherwise TCP is just
 * closed.
 */
bool mpa_setup_must_terminate(const struct mpa_setup *s);

/* After MPA_SETUP_ESTABLISHED, or when a Terminate is to be sent. */
const struct iwarp_terms *mpa_setup_terms(const struct mpa_setup *s);

/* Never NULL. */
const char *mpa_setup_state_name(enum mpa_setup_state state);
