/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A control connection until its two sides know each other: whom a process talks to, and the three
 * messages of the greeting (rio/greet.h) in their order. When it is done, its session goes to the
 * role that the messages are for.
 *
 *	rio_handshake_dial(c, ...)  or  rio_handshake_await(c, ...)
 *	for (;;) {
 *		if ((length = rio_handshake_say(c, bytes)) > 0)
 *			send;
 *		if (rio_handshake_is_done(c))
 *			break;
 *		reason = rio_handshake_take(c, what has come);
 *	}
 *
 * Whoever dialled has the last word, and is done with it.
 *
 * An owner with a lower term than one that was here before is refused, and an owner that hears from
 * an I/O unit of a higher term than its own refuses itself: WEFT_R_RIO_SUPERSEDED. The caller keeps
 * the term of its identity: an owner its own, others the highest of those that came.
 */
#pragma once

#include "rio/greet.h"

/* Somebody who is let in, by key, as just that. */
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
	struct rio_known expected;  /* dialling: who must answer */
	struct rio_address address; /* dialling: ours, to be told; else the peer's, once done */
	uint32_t requests_max,
		list_max; /* awaiting: ours, to be told; else the peer's, once done */
	bool is_dialling, has_word;
	struct rio_term seen; /* what the peer's greeting said; kept when it is refused */
};

/* The random bytes are as for rio_greet_init(). address: where this side takes data connections. */
void rio_handshake_dial(struct rio_handshake *c, const struct rio_identity *self,
			const struct rio_known *expected, const struct rio_address *address,
			const uint8_t random[RIO_SEED_BYTES]);

/* Somebody of the book will say hello, and is told these limits. */
struct rio_handshake_limits {
	uint32_t requests_max, list_max;
};

void rio_handshake_await(struct rio_handshake *c, const struct rio_identity *self,
			 const struct rio_book *book, const struct rio_handshake_limits *limits,
			 const uint8_t random[RIO_SEED_BYTES]);

/* Forgets the secrets, the session's too. */
void rio_handshake_fini(struct rio_handshake *c);

/* What is to be said now, in room for RIO_GREETING_MAX bytes; 0: nothing. */
size_t rio_handshake_say(struct rio_handshake *c, uint8_t *bytes);

/* After a refusal the connection must be ended. */
enum weft_reason rio_handshake_take(struct rio_handshake *c, const uint8_t *bytes, size_t length);

/* Both are known, and all has been said. */
bool rio_handshake_is_done(const struct rio_handshake *c);

/* Who it is; of one that is done. */
struct rio_known rio_handshake_peer(const struct rio_handshake *c);
