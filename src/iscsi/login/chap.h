/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CHAP (RFC 1994) as iSCSI uses it (RFC 7143 section 12.1.3), at either end of one login:
 *
 *	initiator		target
 *	CHAP_A=list	  ->
 *			  <-	CHAP_A=choice CHAP_I CHAP_C
 *	CHAP_N CHAP_R	  ->	verifies
 *	 [CHAP_I CHAP_C]
 *	verifies	  <-	[CHAP_N CHAP_R]
 *
 * What is in brackets authenticates the target to the initiator too.
 *
 *	chap_init(c, config, random)
 *	chap_say(c, w)		at an end whose turn it is
 *	chap_take(c, text)	what the peer said
 *	until chap_is_done(c)
 *
 * A challenge is used once: random must come fresh from a source that a peer cannot foresee, for
 * every login. RFC 7143 section 9.2.1: secrets of fewer than 96 bits are refused unless allowed,
 * as is one secret for both directions; a challenge that comes back is refused.
 */
#pragma once

#include <weft/reason.h>

#include "base/cursor.h"
#include "iscsi/login/text.h"

enum {
	CHAP_NAME_MAX = 255,
	CHAP_SECRET_MIN = 12, /* 96 bits */
	CHAP_SECRET_MAX = 255,
	CHAP_CHALLENGE_BYTES = 32,
	CHAP_RANDOM_BYTES = 1 + CHAP_CHALLENGE_BYTES, /* the identifier, and the challenge */
};

/* The numbers of RFC 7143 and of IANA's registry of PPP authentication algorithms. */
enum { CHAP_MD5 = 5, CHAP_SHA1 = 6, CHAP_SHA256 = 7, CHAP_SHA3_256 = 8 };

struct chap_account {
	struct word name, secret; /* borrowed; name of length 0: none */
};

struct chap_config {
	bool is_target;
	/* Target: those that it knows. Initiator: the target, to authenticate it; count 0: not. */
	const struct chap_account *peers; /* borrowed until the end of the login */
	uint32_t peer_count;
	/* Of this end. Initiator: always. Target: name of length 0 if it cannot prove itself. */
	struct chap_account self;
	uint16_t algorithms; /* 1 << CHAP_MD5 and so on; 0: all, the strongest first */
	bool allows_short;   /* secrets of fewer than 96 bits */
};

enum chap_state {
	CHAP_STATE_OFFER,	   /* initiator: says CHAP_A */
	CHAP_STATE_AWAITING_OFFER, /* target */
	CHAP_STATE_CHALLENGE,	   /* target: says CHAP_A, CHAP_I, CHAP_C */
	CHAP_STATE_AWAITING_CHALLENGE,
	CHAP_STATE_RESPONSE, /* initiator: says CHAP_N, CHAP_R and perhaps CHAP_I, CHAP_C */
	CHAP_STATE_AWAITING_RESPONSE,
	CHAP_STATE_PROOF, /* target: says CHAP_N, CHAP_R */
	CHAP_STATE_AWAITING_PROOF,
	CHAP_STATE_DONE,
	CHAP_STATE_FAILED,
	CHAP_STATE_COUNT
};

/* The caller's memory; the fields belong to this module. */
struct chap {
	struct chap_config config;
	enum chap_state state;
	uint8_t algorithm;
	uint8_t id, peer_id;
	uint32_t peer; /* target: the account that proved itself */
	uint16_t peer_challenge_bytes;
	uint8_t challenge[CHAP_CHALLENGE_BYTES];
	uint8_t peer_challenge[ISCSI_BINARY_MAX];
};

/*
 * WEFT_R_ISCSI_CHAP_SECRET: of fewer than 96 bits and not allowed, or longer than 255 bytes.
 * WEFT_R_ISCSI_CHAP_SAME_SECRET: an account of the peers has that of this end.
 */
enum weft_reason chap_init(struct chap *c, const struct chap_config *config,
			   const uint8_t random[CHAP_RANDOM_BYTES]);

/* Wipes the challenges. */
void chap_fini(struct chap *c);

/* Whether it is this end's turn. */
bool chap_has_words(const struct chap *c);

/* Appends what is due to be said. */
void chap_say(struct chap *c, struct wr *w);

/* Takes the peer's text. After a refusal the login must end. */
enum weft_reason chap_take(struct chap *c, const uint8_t *text, size_t length);

/* Everything that was required has been proved and said. */
bool chap_is_done(const struct chap *c);

/* The name that proved itself to a target; only once it did. For the session, to come. */
struct word chap_peer_name(const struct chap *c);
