/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives the greeting (rio/greet.h) on a new control connection: which peers are acceptable, and
 * the three messages in order. Once done, its session goes to the role that handles the connection.
 *
 *	rio_handshake_dial(c, ...)  or  rio_handshake_await(c, ...)
 *	for (;;) {
 *		if ((length = rio_handshake_say(c, bytes)) > 0)
 *			send;
 *		if (rio_handshake_is_done(c))
 *			break;
 *		reason = rio_handshake_take(c, the received message);
 *	}
 *
 * The initiator sends the last message, and is done once it has.
 *
 * Terms fence off old owners: a peer refuses an owner whose term is lower than the highest it has
 * seen, and an owner refuses an I/O unit that has seen a higher term than its own; both with
 * WEFT_R_RIO_SUPERSEDED. The caller keeps the term in its identity: an owner its own, the other
 * roles the highest they have seen.
 */
#pragma once

#include "rio/greet.h"

/* A peer that is accepted, with exactly this platform, role and key. */
struct rio_known {
	struct platform platform;
	enum rio_role role;
	uint8_t key[RIO_KEY_BYTES];
};

struct rio_book {
	const struct rio_known *known; /* borrowed */
	uint32_t count;
};

struct rio_handshake {
	struct rio_greet greet;
	struct rio_book book;
	struct rio_known expected;	 /* initiator: the peer that must answer */
	struct rio_address address;	 /* initiator: ours, to be sent; else the peer's */
	uint32_t requests_max, list_max; /* responder: ours, to be sent; else the peer's */
	bool is_dialling, has_word;
	struct rio_term seen; /* the peer's term; kept also after a refusal */
};

/*
 * Initiates. random is as for rio_greet_init(). address: where this side accepts data connections.
 */
void rio_handshake_dial(struct rio_handshake *c, const struct rio_identity *self,
			const struct rio_known *expected, const struct rio_address *address,
			const uint8_t random[RIO_SEED_BYTES]);

/* Limits that the responder announces in its welcome. */
struct rio_handshake_limits {
	uint32_t requests_max, list_max;
};

void rio_handshake_await(struct rio_handshake *c, const struct rio_identity *self,
			 const struct rio_book *book, const struct rio_handshake_limits *limits,
			 const uint8_t random[RIO_SEED_BYTES]);

/* Wipes all secrets, the session's included. */
void rio_handshake_fini(struct rio_handshake *c);

/* Writes the next message to send into a buffer of RIO_GREETING_MAX bytes; 0: none is due. */
size_t rio_handshake_say(struct rio_handshake *c, uint8_t *bytes);

/* Processes a received message. After a refusal the caller must close the connection. */
enum weft_reason rio_handshake_take(struct rio_handshake *c, const uint8_t *bytes, size_t length);

/* Both peers are authenticated, and the last message was sent or received. */
bool rio_handshake_is_done(const struct rio_handshake *c);

/* The authenticated peer; only once the handshake is done. */
struct rio_known rio_handshake_peer(const struct rio_handshake *c);
