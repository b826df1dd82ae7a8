/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/handshake.h"

#include <sodium/utils.h>
#include <string.h>

#include "base/check.h"

void rio_handshake_dial(struct rio_handshake *c, const struct rio_identity *self,
			const struct rio_known *expected, const struct rio_address *address,
			const uint8_t random[RIO_SEED_BYTES])
{
	*c = (struct rio_handshake){
		.expected = *expected, .address = *address, .is_dialling = true, .has_word = true
	};
	rio_greet_init(&c->greet, self, random);
}

void rio_handshake_await(struct rio_handshake *c, const struct rio_identity *self,
			 const struct rio_book *book, const struct rio_handshake_limits *limits,
			 const uint8_t random[RIO_SEED_BYTES])
{
	*c = (struct rio_handshake){ .book = *book,
				     .requests_max = limits->requests_max,
				     .list_max = limits->list_max };
	rio_greet_init(&c->greet, self, random);
}

void rio_handshake_fini(struct rio_handshake *c)
{
	sodium_memzero(c, sizeof(*c));
}

/* Ends the handshake: sends and accepts nothing more, and wipes the secrets. */
static enum weft_reason refuse(struct rio_handshake *c, enum weft_reason reason)
{
	rio_greet_fini(&c->greet);
	c->greet.state = RIO_GREET_REFUSED;
	c->has_word = false;
	return reason;
}

/* A key is valid only with its configured platform and role. */
static bool is_just(const struct rio_hello *said, const struct rio_known *known)
{
	return platform_is_same(said->platform, known->platform) && said->role == known->role &&
	       memcmp(said->key, known->key, RIO_KEY_BYTES) == 0;
}

static bool book_has(const struct rio_book *book, const struct rio_hello *said)
{
	for (uint32_t i = 0; i < book->count; i++) {
		if (is_just(said, &book->known[i]))
			return true;
	}
	return false;
}

/*
 * The peer is authenticated. Terms seen by requesters are ignored: a requester must not be able to
 * depose an owner.
 */
static enum weft_reason term_check(struct rio_handshake *c)
{
	const struct rio_identity *self = c->greet.self;
	const struct rio_hello *peer = &c->greet.peer;
	int order = rio_term_compare(&peer->term, &self->term);
	bool is_lower = peer->role == RIO_OWNER && order < 0;
	bool is_higher = self->role == RIO_OWNER && peer->role == RIO_IOUNIT && order > 0;

	c->seen = peer->term;
	return is_lower || is_higher ? WEFT_R_RIO_SUPERSEDED : WEFT_OK;
}

size_t rio_handshake_say(struct rio_handshake *c, uint8_t *bytes)
{
	if (!c->has_word)
		return 0;
	c->has_word = false;
	if (!c->is_dialling)
		return rio_greet_welcome(&c->greet, c->requests_max, c->list_max, bytes);
	if (c->greet.state == RIO_GREET_NEW)
		return rio_greet_hello(&c->greet, bytes);
	return rio_greet_prove(&c->greet, &c->address, bytes);
}

static enum weft_reason take_welcome(struct rio_handshake *c, const uint8_t *bytes, size_t length)
{
	enum weft_reason r = rio_greet_take_welcome(&c->greet, bytes, length, c->expected.key);

	if (r != WEFT_OK)
		return r;
	if (!is_just(&c->greet.peer, &c->expected))
		return WEFT_R_RIO_UNKNOWN_PEER;
	r = term_check(c);
	if (r != WEFT_OK)
		return r;
	c->requests_max = c->greet.requests_max;
	c->list_max = c->greet.list_max;
	c->has_word = true;
	return WEFT_OK;
}

/* An unknown peer gets no answer, so it does not even learn this side's identity. */
static enum weft_reason take_hello(struct rio_handshake *c, const uint8_t *bytes, size_t length)
{
	enum weft_reason r = rio_greet_take_hello(&c->greet, bytes, length);

	if (r != WEFT_OK)
		return r;
	if (!book_has(&c->book, &c->greet.peer))
		return WEFT_R_RIO_UNKNOWN_PEER;
	c->has_word = true;
	return WEFT_OK;
}

static enum weft_reason take(struct rio_handshake *c, const uint8_t *bytes, size_t length)
{
	enum weft_reason r;

	if (c->is_dialling)
		return take_welcome(c, bytes, length);
	if (c->greet.state == RIO_GREET_NEW)
		return take_hello(c, bytes, length);
	r = rio_greet_take_prove(&c->greet, bytes, length, &c->address);
	return r == WEFT_OK ? term_check(c) : r;
}

enum weft_reason rio_handshake_take(struct rio_handshake *c, const uint8_t *bytes, size_t length)
{
	enum weft_reason r = take(c, bytes, length);

	return r == WEFT_OK ? WEFT_OK : refuse(c, r);
}

bool rio_handshake_is_done(const struct rio_handshake *c)
{
	return c->greet.state == RIO_GREET_DONE;
}

struct rio_known rio_handshake_peer(const struct rio_handshake *c)
{
	const struct rio_hello *peer = &c->greet.peer;
	struct rio_known known = { .platform = peer->platform, .role = peer->role };

	CHECK(rio_handshake_is_done(c));
	memcpy(known.key, peer->key, sizeof(known.key));
	return known;
}
