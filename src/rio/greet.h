/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two sides come to know each other (docs/wire/rio.md): three messages, in which both prove
 * that they hold the secret of their public key, and agree on two keys that nobody else can know.
 * Whether a public key is one to talk to is for the caller to say, who has the configuration.
 *
 *	who dials			who is dialled
 *	greet_hello	    -- hello -->	greet_take_hello
 *	greet_take_welcome  <- welcome --	greet_welcome
 *	greet_prove	    -- prove -->	greet_take_prove
 */
#pragma once

#include "rio/session.h"

enum { RIO_SECRET_BYTES = 64, RIO_SEED_BYTES = 32, RIO_GREETING_MAX = 320 };

/* Who one is: Ed25519 keys as libsodium makes them from a seed. */
struct rio_identity {
	struct platform platform;
	enum rio_role role;
	uint8_t key[RIO_KEY_BYTES];
	uint8_t secret[RIO_SECRET_BYTES];
	struct rio_term term; /* an owner's; of others: the highest that they have seen */
};

void rio_identity_make(struct rio_identity *self, const uint8_t seed[RIO_SEED_BYTES]);

/* Below 0: a is the lower term; 0: they are the same; above 0: a is higher. */
int rio_term_compare(const struct rio_term *a, const struct rio_term *b);

enum rio_greet_state {
	RIO_GREET_NEW = 0,
	RIO_GREET_ASKED,    /* hello is out, welcome is awaited */
	RIO_GREET_ASKING,   /* hello has come: is its key one to talk to? */
	RIO_GREET_ANSWERED, /* welcome is out, prove is awaited */
	RIO_GREET_KNOWN,    /* dialler: the other side has proved itself; prove is to be sent */
	RIO_GREET_DONE,
	RIO_GREET_REFUSED,
	RIO_GREET_STATES
};

struct rio_greet {
	const struct rio_identity *self;
	enum rio_greet_state state;
	uint8_t ephemeral_secret[RIO_KEY_BYTES];
	uint8_t hello[RIO_GREETING_MAX], welcome[RIO_GREETING_MAX]; /* as they went */
	size_t hello_bytes, welcome_bytes;
	struct rio_hello peer;		 /* what the other side says of itself */
	uint32_t requests_max, list_max; /* dialler: what the other side allows */
	struct rio_session session;	 /* its keys count in state DONE */
};

/* The random bytes must be new for each greeting, and nobody else's to know. */
void rio_greet_init(struct rio_greet *g, const struct rio_identity *self,
		    const uint8_t random[RIO_SEED_BYTES]);

/* Forgets the secrets. */
void rio_greet_fini(struct rio_greet *g);

/* What is to be sent, in room for RIO_GREETING_MAX bytes; returns its length. */
size_t rio_greet_hello(struct rio_greet *g, uint8_t *bytes);
size_t rio_greet_welcome(struct rio_greet *g, uint32_t requests_max, uint32_t list_max,
			 uint8_t *bytes);
size_t rio_greet_prove(struct rio_greet *g, const struct rio_address *address, uint8_t *bytes);

/* What has come. After a refusal nothing can be said to the other side any more. */
enum weft_reason rio_greet_take_hello(struct rio_greet *g, const uint8_t *bytes, size_t length);

/* key: whom one wanted to reach. */
enum weft_reason rio_greet_take_welcome(struct rio_greet *g, const uint8_t *bytes, size_t length,
					const uint8_t key[RIO_KEY_BYTES]);
enum weft_reason rio_greet_take_prove(struct rio_greet *g, const uint8_t *bytes, size_t length,
				      struct rio_address *address);
