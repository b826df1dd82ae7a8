/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutual authentication of two peers (docs/wire/rio.md): in three messages each proves that it
 * holds the private key of its public key, and both derive two session keys that are secret to
 * them. The caller has the configuration and decides which public keys to accept.
 *
 *	initiator			responder
 *	greet_hello	    -- hello -->	greet_take_hello
 *	greet_take_welcome  <- welcome --	greet_welcome
 *	greet_prove	    -- prove -->	greet_take_prove
 */
#pragma once

#include "rio/session.h"

enum { RIO_SECRET_BYTES = 64, RIO_SEED_BYTES = 32, RIO_GREETING_MAX = 320 };

/* The identity of this process: Ed25519 keys as libsodium derives them from a seed. */
struct rio_identity {
	struct platform platform;
	enum rio_role role;
	uint8_t key[RIO_KEY_BYTES];
	uint8_t secret[RIO_SECRET_BYTES];
	struct rio_term term; /* an owner's own term; in other roles the highest term seen */
};

void rio_identity_make(struct rio_identity *self, const uint8_t seed[RIO_SEED_BYTES]);

/* Below 0: a is lower; 0: equal; above 0: a is higher. */
int rio_term_compare(const struct rio_term *a, const struct rio_term *b);

enum rio_greet_state {
	RIO_GREET_NEW = 0,
	RIO_GREET_ASKED,    /* hello sent, welcome awaited */
	RIO_GREET_ASKING,   /* hello received; the caller decides whether to accept its key */
	RIO_GREET_ANSWERED, /* welcome sent, prove awaited */
	RIO_GREET_KNOWN,    /* initiator: the peer is authenticated; prove is to be sent */
	RIO_GREET_DONE,
	RIO_GREET_REFUSED,
	RIO_GREET_STATES
};

struct rio_greet {
	const struct rio_identity *self;
	enum rio_greet_state state;
	uint8_t ephemeral_secret[RIO_KEY_BYTES];
	uint8_t hello[RIO_GREETING_MAX], welcome[RIO_GREETING_MAX]; /* as sent on the wire */
	size_t hello_bytes, welcome_bytes;
	struct rio_hello peer;		 /* what the peer claims to be */
	uint32_t requests_max, list_max; /* initiator: the peer's limits */
	struct rio_session session;	 /* its keys are valid in state DONE */
};

/* The random bytes must be fresh for each greeting, and secret. */
void rio_greet_init(struct rio_greet *g, const struct rio_identity *self,
		    const uint8_t random[RIO_SEED_BYTES]);

/* Wipes the secrets. */
void rio_greet_fini(struct rio_greet *g);

/* Write the message to send into a buffer of RIO_GREETING_MAX bytes; return its length. */
size_t rio_greet_hello(struct rio_greet *g, uint8_t *bytes);
size_t rio_greet_welcome(struct rio_greet *g, uint32_t requests_max, uint32_t list_max,
			 uint8_t *bytes);
size_t rio_greet_prove(struct rio_greet *g, const struct rio_address *address, uint8_t *bytes);

/* Process a received message. After a refusal no further message can be sent to the peer. */
enum weft_reason rio_greet_take_hello(struct rio_greet *g, const uint8_t *bytes, size_t length);

/* key: the public key of the peer that this side meant to reach. */
enum weft_reason rio_greet_take_welcome(struct rio_greet *g, const uint8_t *bytes, size_t length,
					const uint8_t key[RIO_KEY_BYTES]);
enum weft_reason rio_greet_take_prove(struct rio_greet *g, const uint8_t *bytes, size_t length,
				      struct rio_address *address);
