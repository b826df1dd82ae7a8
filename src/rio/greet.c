/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/greet.h"

#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_scalarmult_curve25519.h>
#include <sodium/crypto_sign_ed25519.h>
#include <sodium/utils.h>
#include <string.h>

#include "base/check.h"
#include "rio/refusal.h"

/* Labels separate the purposes of signed texts and derived keys. */
static const char welcome_label[] = "weft rio 1 welcome";
static const char prove_label[] = "weft rio 1 prove";
static const char keys_label[] = "weft rio 1 keys";

enum { SIGNED_MAX = sizeof(welcome_label) + 3 * RIO_GREETING_MAX };

_Static_assert(RIO_KEY_BYTES == crypto_sign_ed25519_PUBLICKEYBYTES &&
		       RIO_SECRET_BYTES == crypto_sign_ed25519_SECRETKEYBYTES &&
		       RIO_SEED_BYTES == crypto_sign_ed25519_SEEDBYTES &&
		       RIO_SIGNATURE_BYTES == crypto_sign_ed25519_BYTES &&
		       RIO_KEY_BYTES == crypto_scalarmult_curve25519_BYTES,
	       "keys are as long as libsodium has them");

void rio_identity_make(struct rio_identity *self, const uint8_t seed[RIO_SEED_BYTES])
{
	(void)crypto_sign_ed25519_seed_keypair(self->key, self->secret, seed);
}

int rio_term_compare(const struct rio_term *a, const struct rio_term *b)
{
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	if (a->incarnation != b->incarnation)
		return a->incarnation < b->incarnation ? -1 : 1;
	return 0;
}

void rio_greet_init(struct rio_greet *g, const struct rio_identity *self,
		    const uint8_t random[RIO_SEED_BYTES])
{
	*g = (struct rio_greet){ .self = self };
	memcpy(g->ephemeral_secret, random, sizeof(g->ephemeral_secret));
}

void rio_greet_fini(struct rio_greet *g)
{
	sodium_memzero(g, sizeof(*g));
}

static enum weft_reason refuse(struct rio_greet *g, enum weft_reason reason)
{
	sodium_memzero(g->ephemeral_secret, sizeof(g->ephemeral_secret));
	sodium_memzero(&g->session, sizeof(g->session));
	g->state = RIO_GREET_REFUSED;
	return reason;
}

static struct rio_hello introduction(const struct rio_greet *g)
{
	struct rio_hello h = { .platform = g->self->platform,
			       .role = g->self->role,
			       .term = g->self->term };

	memcpy(h.key, g->self->key, sizeof(h.key));
	(void)crypto_scalarmult_curve25519_base(h.ephemeral, g->ephemeral_secret);
	return h;
}

/* ---- What is signed ------------------------------------------------------------------------- */

struct text {
	uint8_t bytes[SIGNED_MAX];
	size_t length;
};

static void text_add(struct text *t, const void *bytes, size_t length)
{
	CHECK(length <= sizeof(t->bytes) - t->length);
	memcpy(t->bytes + t->length, bytes, length);
	t->length += length;
}

/* A signature covers its own message except itself, and all messages before it. */
static void text_of_welcome(const struct rio_greet *g, const uint8_t *welcome, struct text *t)
{
	t->length = 0;
	text_add(t, welcome_label, sizeof(welcome_label) - 1);
	text_add(t, g->hello, g->hello_bytes);
	text_add(t, welcome, RIO_WELCOME_SIGNED_BYTES);
}

static void text_of_prove(const struct rio_greet *g, const uint8_t *prove, struct text *t)
{
	t->length = 0;
	text_add(t, prove_label, sizeof(prove_label) - 1);
	text_add(t, g->hello, g->hello_bytes);
	text_add(t, g->welcome, g->welcome_bytes);
	text_add(t, prove, RIO_MSG_HEADER_BYTES);
	text_add(t, prove + RIO_PROVE_SIGNED_AT, RIO_PROVE_SIGNED_BYTES);
}

static bool is_signed(const struct text *t, const uint8_t *signature, const uint8_t *key)
{
	return crypto_sign_ed25519_verify_detached(signature, t->bytes, t->length, key) == 0;
}

/* ---- Keys ----------------------------------------------------------------------------------- */

/* False: the peer's ephemeral key is a low-order point. */
static bool make_keys(struct rio_greet *g, bool is_dialler)
{
	crypto_generichash_blake2b_state hash;
	uint8_t secret[RIO_KEY_BYTES], keys[2 * RIO_KEY_BYTES];
	bool is_good = crypto_scalarmult_curve25519(secret, g->ephemeral_secret,
						    g->peer.ephemeral) == 0;

	(void)crypto_generichash_blake2b_init(&hash, NULL, 0, sizeof(keys));
	(void)crypto_generichash_blake2b_update(&hash, (const uint8_t *)keys_label,
						sizeof(keys_label) - 1);
	(void)crypto_generichash_blake2b_update(&hash, secret, sizeof(secret));
	(void)crypto_generichash_blake2b_update(&hash, g->hello, g->hello_bytes);
	(void)crypto_generichash_blake2b_update(&hash, g->welcome, g->welcome_bytes);
	(void)crypto_generichash_blake2b_final(&hash, keys, sizeof(keys));
	memcpy(is_dialler ? g->session.send_key : g->session.receive_key, keys, RIO_KEY_BYTES);
	memcpy(is_dialler ? g->session.receive_key : g->session.send_key, keys + RIO_KEY_BYTES,
	       RIO_KEY_BYTES);
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(keys, sizeof(keys));
	sodium_memzero(&hash, sizeof(hash));
	sodium_memzero(g->ephemeral_secret, sizeof(g->ephemeral_secret));
	return is_good;
}

/* ---- The three messages --------------------------------------------------------------------- */

/* Greeting messages count in the session's sequence numbers. */
static size_t put(struct rio_greet *g, struct rio_msg *m, uint8_t *bytes)
{
	size_t length = rio_session_close(&g->session, m, bytes, RIO_GREETING_MAX);

	CHECK(length > 0);
	return length;
}

static enum weft_reason take(struct rio_greet *g, enum rio_msg_type type, struct rio_bytes from,
			     struct rio_msg *m)
{
	enum rio_msg_err err = rio_msg_decode(m, from.bytes, from.length);

	if (err != RIO_MSG_OK)
		return refusal_of_msg(err);
	if (m->type != type || from.length > RIO_GREETING_MAX)
		return WEFT_R_RIO_UNEXPECTED;
	if (m->sequence != g->session.received + 1)
		return WEFT_R_RIO_SEQUENCE;
	g->session.received++;
	return WEFT_OK;
}

size_t rio_greet_hello(struct rio_greet *g, uint8_t *bytes)
{
	struct rio_msg m = { .type = RIO_HELLO, .hello = introduction(g) };

	CHECK(g->state == RIO_GREET_NEW);
	g->hello_bytes = put(g, &m, g->hello);
	memcpy(bytes, g->hello, g->hello_bytes);
	g->state = RIO_GREET_ASKED;
	return g->hello_bytes;
}

enum weft_reason rio_greet_take_hello(struct rio_greet *g, const uint8_t *bytes, size_t length)
{
	struct rio_msg m;
	enum weft_reason r;

	if (g->state != RIO_GREET_NEW)
		return refuse(g, WEFT_R_RIO_UNEXPECTED);
	r = take(g, RIO_HELLO, (struct rio_bytes){ bytes, length }, &m);
	if (r != WEFT_OK)
		return refuse(g, r);
	g->peer = m.hello;
	memcpy(g->hello, bytes, length);
	g->hello_bytes = length;
	g->state = RIO_GREET_ASKING;
	return WEFT_OK;
}

size_t rio_greet_welcome(struct rio_greet *g, uint32_t requests_max, uint32_t list_max,
			 uint8_t *bytes)
{
	struct rio_msg m = {
		.type = RIO_WELCOME,
		.welcome = { .hello = introduction(g),
			     .requests_max = requests_max,
			     .list_max = list_max },
	};
	struct text t;

	CHECK(g->state == RIO_GREET_ASKING);
	g->welcome_bytes = put(g, &m, g->welcome);
	text_of_welcome(g, g->welcome, &t);
	(void)crypto_sign_ed25519_detached(g->welcome + RIO_WELCOME_SIGNED_BYTES, NULL, t.bytes,
					   t.length, g->self->secret);
	memcpy(bytes, g->welcome, g->welcome_bytes);
	g->state = RIO_GREET_ANSWERED;
	return g->welcome_bytes;
}

enum weft_reason rio_greet_take_welcome(struct rio_greet *g, const uint8_t *bytes, size_t length,
					const uint8_t key[RIO_KEY_BYTES])
{
	struct rio_msg m;
	struct text t;
	enum weft_reason r;

	if (g->state != RIO_GREET_ASKED)
		return refuse(g, WEFT_R_RIO_UNEXPECTED);
	r = take(g, RIO_WELCOME, (struct rio_bytes){ bytes, length }, &m);
	if (r != WEFT_OK)
		return refuse(g, r);
	if (memcmp(m.welcome.hello.key, key, RIO_KEY_BYTES) != 0)
		return refuse(g, WEFT_R_RIO_UNKNOWN_PEER);
	text_of_welcome(g, bytes, &t);
	if (!is_signed(&t, m.welcome.signature, key))
		return refuse(g, WEFT_R_RIO_FORGED);
	g->peer = m.welcome.hello;
	g->requests_max = m.welcome.requests_max;
	g->list_max = m.welcome.list_max;
	memcpy(g->welcome, bytes, length);
	g->welcome_bytes = length;
	if (!make_keys(g, true))
		return refuse(g, WEFT_R_RIO_FORGED);
	g->state = RIO_GREET_KNOWN;
	return WEFT_OK;
}

size_t rio_greet_prove(struct rio_greet *g, const struct rio_address *address, uint8_t *bytes)
{
	struct rio_msg m = { .type = RIO_PROVE, .prove = { .address = *address } };
	struct text t;
	size_t length;

	CHECK(g->state == RIO_GREET_KNOWN);
	length = put(g, &m, bytes);
	text_of_prove(g, bytes, &t);
	(void)crypto_sign_ed25519_detached(bytes + RIO_MSG_HEADER_BYTES, NULL, t.bytes, t.length,
					   g->self->secret);
	g->state = RIO_GREET_DONE;
	return length;
}

enum weft_reason rio_greet_take_prove(struct rio_greet *g, const uint8_t *bytes, size_t length,
				      struct rio_address *address)
{
	struct rio_msg m;
	struct text t;
	enum weft_reason r;

	if (g->state != RIO_GREET_ANSWERED)
		return refuse(g, WEFT_R_RIO_UNEXPECTED);
	r = take(g, RIO_PROVE, (struct rio_bytes){ bytes, length }, &m);
	if (r != WEFT_OK)
		return refuse(g, r);
	text_of_prove(g, bytes, &t);
	if (!is_signed(&t, m.prove.signature, g->peer.key))
		return refuse(g, WEFT_R_RIO_FORGED);
	if (!make_keys(g, false))
		return refuse(g, WEFT_R_RIO_FORGED);
	*address = m.prove.address;
	g->state = RIO_GREET_DONE;
	return WEFT_OK;
}
