/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Negotiation of keys at one end (RFC 7143 section 6.2): offers, answers, and what comes of them.
 * Both ends use the same code; the peer's text goes in, and answers and offers are appended to a
 * text that goes out. The outcome is struct iscsi_params.
 *
 *	iscsi_negotiation_init(n, config)
 *	for each exchange of a stage:
 *		iscsi_negotiation_take(n, the peer's whole text, out)	checks it and answers
 *		iscsi_negotiation_offer(n, out)		adds what this end has to say
 *	iscsi_negotiation_finish(n)	before the move to the full feature phase
 *
 * An initiator offers what it wants otherwise than the default. A target offers only what it could
 * not accept at its default, and declares its own limits: so a login takes no exchange more than
 * it must. Keys that the login or the session reads (names, AuthMethod, SendTargets) are checked
 * here and then left to them.
 */
#pragma once

#include <weft/reason.h>

#include "iscsi/login/keys.h"

struct iscsi_negotiation_config {
	bool is_target;
	bool is_leading;   /* of the connections of the session; the login sets both */
	bool is_discovery; /* initiator; a target learns it from SessionType */
	bool needs_rdma;   /* the connection has no other way than RDMAExtensions=Yes */
	struct iscsi_params wish;
	struct iscsi_session_params session; /* what holds already, if not is_leading */
};

/* The caller's memory; others read only params and is_discovery. */
struct iscsi_negotiation {
	struct iscsi_negotiation_config config;
	struct iscsi_params params; /* defaults, until there is an outcome */
	enum iscsi_stage stage;
	bool is_discovery;
	uint64_t seen;	   /* keys that the peer offered or declared */
	uint64_t said;	   /* keys that this end offered or declared */
	uint64_t answered; /* keys of said that the peer answered */
	uint64_t required; /* keys of said that it must answer */
};

void iscsi_negotiation_init(struct iscsi_negotiation *n,
			    const struct iscsi_negotiation_config *config);

/* A stage begins. In the full feature phase each negotiation is one: keys may come again. */
void iscsi_negotiation_begin(struct iscsi_negotiation *n, enum iscsi_stage stage);

/*
 * Takes a whole text of the peer, and appends the answers. A refusal ends the login:
 * WEFT_R_ISCSI_TEXT, _KEY: it is no text. _KEY_SENDER, _KEY_STAGE, _KEY_AGAIN: the key must not
 * come from this peer, now, or again. _VALUE: a declaration is not of its kind. _ANSWER: the offer
 * does not allow it. Anything else that is wrong is answered with Reject, Irrelevant or
 * NotUnderstood.
 */
enum weft_reason iscsi_negotiation_take(struct iscsi_negotiation *n, const uint8_t *text,
					size_t length, struct wr *answers);

/* Appends the offers and declarations of this end that are due in this stage. */
void iscsi_negotiation_offer(struct iscsi_negotiation *n, struct wr *w);

/* No offer of this end waits for an answer. */
bool iscsi_negotiation_is_settled(const struct iscsi_negotiation *n);

/*
 * Derives what depends on several keys. WEFT_R_ISCSI_NO_ANSWER: an offer has none.
 * WEFT_R_ISCSI_UNACCEPTABLE: a digest, or the lack of RDMAExtensions, that this end does not take.
 */
enum weft_reason iscsi_negotiation_finish(struct iscsi_negotiation *n);
