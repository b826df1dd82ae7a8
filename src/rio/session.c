/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/session.h"

#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_shorthash_siphash24.h>
#include <sodium/utils.h>
#include <string.h>

#include "rio/refusal.h"

void rio_seal(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes, size_t length,
	      uint8_t seal[RIO_SEAL_BYTES])
{
	/* It fails only for bad key or output lengths; these are valid. */
	(void)crypto_generichash_blake2b(seal, RIO_SEAL_BYTES, bytes, length, key, RIO_KEY_BYTES);
}

bool rio_seal_is_true(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes, size_t length,
		      const uint8_t seal[RIO_SEAL_BYTES])
{
	uint8_t truth[RIO_SEAL_BYTES];

	rio_seal(key, bytes, length, truth);
	return sodium_memcmp(truth, seal, RIO_SEAL_BYTES) == 0;
}

/* ---- Tokens --------------------------------------------------------------------------------- */

static const char token_label[] = "weft rio 1 token";

/*
 * The token in a message; NULL: it has none. Tokens are masked, because a reader of one could open
 * data connections.
 */
static uint8_t *token_of(struct rio_msg *m)
{
	if (m->type == RIO_ANNOUNCE)
		return m->announce.token;
	return m->type == RIO_GRANT ? m->grant.token : NULL;
}

/* Masks or unmasks the token. Sequence numbers are unique per key, so masks are too. */
static void token_mask(const uint8_t key[RIO_KEY_BYTES], struct rio_msg *m)
{
	uint8_t text[sizeof(token_label) - 1 + sizeof(m->sequence)], mask[RIO_TOKEN_BYTES];
	struct wr w = wr_of(text, sizeof(text));
	uint8_t *token = token_of(m);

	if (!token)
		return;
	wr_bytes(&w, token_label, sizeof(token_label) - 1);
	wr_u64(&w, m->sequence);
	/* The first half of the key is for seals. */
	(void)crypto_generichash_blake2b(mask, sizeof(mask), text, sizeof(text),
					 key + RIO_KEY_BYTES / 2, RIO_KEY_BYTES / 2);
	for (size_t i = 0; i < sizeof(mask); i++)
		token[i] ^= mask[i];
	sodium_memzero(mask, sizeof(mask));
}

/* ---- Data connections ----------------------------------------------------------------------- */

static const char tell_label[] = "weft rio 1 tell";

void rio_session_of_data(struct rio_session *s, const uint8_t token[RIO_TOKEN_BYTES],
			 const uint8_t nonce[RIO_NONCE_BYTES])
{
	uint8_t text[sizeof(tell_label) - 1 + RIO_NONCE_BYTES];

	memcpy(text, tell_label, sizeof(tell_label) - 1);
	memcpy(text + sizeof(tell_label) - 1, nonce, RIO_NONCE_BYTES);
	*s = (struct rio_session){ .sent = 0 };
	(void)crypto_generichash_blake2b(s->send_key, sizeof(s->send_key), text, sizeof(text),
					 token, RIO_TOKEN_BYTES);
	memcpy(s->receive_key, s->send_key, sizeof(s->receive_key));
}

/* ---- Seals of messages ---------------------------------------------------------------------- */

_Static_assert(crypto_shorthash_siphashx24_KEYBYTES == RIO_KEY_BYTES / 2, "half of a session key");
_Static_assert(crypto_shorthash_siphashx24_BYTES == RIO_SEAL_BYTES, "a whole seal");

/* SipHash: messages are short, and each is sealed once and verified once. */
static void message_seal(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes, size_t length,
			 uint8_t seal[RIO_SEAL_BYTES])
{
	(void)crypto_shorthash_siphashx24(seal, bytes, length, key);
}

static bool message_seal_is_true(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes,
				 size_t length, const uint8_t seal[RIO_SEAL_BYTES])
{
	uint8_t truth[RIO_SEAL_BYTES];

	message_seal(key, bytes, length, truth);
	return sodium_memcmp(truth, seal, RIO_SEAL_BYTES) == 0;
}

/* ---- Messages ------------------------------------------------------------------------------- */

size_t rio_session_close(struct rio_session *s, const struct rio_msg *m, uint8_t *bytes,
			 size_t room)
{
	struct rio_msg numbered = *m;
	struct wr w = wr_of(bytes, room);
	size_t length, sealed;

	numbered.sequence = s->sent + 1;
	token_mask(s->send_key, &numbered);
	rio_msg_encode(&numbered, &w);
	if (w.is_short)
		return 0;
	s->sent++;
	length = (size_t)(w.at - bytes);
	sealed = rio_msg_sealed_bytes(m->type, length);
	if (sealed > 0)
		message_seal(s->send_key, bytes, sealed, bytes + sealed);
	return length;
}

enum weft_reason rio_session_open(struct rio_session *s, const uint8_t *bytes, size_t length,
				  struct rio_msg *m)
{
	struct rio_msg v;
	enum rio_msg_err err;
	size_t sealed;

	err = rio_msg_decode(&v, bytes, length);
	if (err != RIO_MSG_OK)
		return refusal_of_msg(err);
	sealed = rio_msg_sealed_bytes(v.type, length);
	/* Greeting messages have no seal and are not valid here. */
	if (sealed == 0)
		return WEFT_R_RIO_UNEXPECTED;
	if (!message_seal_is_true(s->receive_key, bytes, sealed, v.seal))
		return WEFT_R_RIO_FORGED;
	if (v.sequence != s->received + 1)
		return WEFT_R_RIO_SEQUENCE;
	s->received++;
	token_mask(s->receive_key, &v);
	*m = v;
	return WEFT_OK;
}

/* ---- Messages of other protocols ------------------------------------------------------------ */

size_t rio_session_tail(struct rio_session *s, uint8_t *bytes, size_t length)
{
	struct wr w = wr_of(bytes + length, RIO_TAIL_BYTES);

	wr_u64(&w, ++s->sent);
	message_seal(s->send_key, bytes, length + 8, w.at);
	return length + RIO_TAIL_BYTES;
}

/* Who made it, and its number. */
static enum weft_reason tail_read(const struct rio_session *s, const uint8_t *bytes, size_t length,
				  uint64_t *sequence)
{
	struct rd r;

	if (length < RIO_TAIL_BYTES)
		return WEFT_R_RIO_FORGED;
	if (!message_seal_is_true(s->receive_key, bytes, length - RIO_SEAL_BYTES,
				  bytes + length - RIO_SEAL_BYTES))
		return WEFT_R_RIO_FORGED;
	r = rd_of(bytes + length - RIO_TAIL_BYTES, 8);
	*sequence = rd_u64(&r);
	return WEFT_OK;
}

enum weft_reason rio_session_tailed(struct rio_session *s, const uint8_t *bytes, size_t length,
				    size_t *body)
{
	uint64_t sequence;
	enum weft_reason reason = tail_read(s, bytes, length, &sequence);

	if (reason != WEFT_OK)
		return reason;
	*body = length - RIO_TAIL_BYTES;
	if (sequence != s->received + 1)
		return WEFT_R_RIO_SEQUENCE;
	s->received++;
	return WEFT_OK;
}

enum weft_reason rio_session_tailed_later(struct rio_session *s, const uint8_t *bytes,
					  size_t length, size_t *body)
{
	uint64_t sequence;
	enum weft_reason reason = tail_read(s, bytes, length, &sequence);

	if (reason != WEFT_OK)
		return reason;
	if (sequence <= s->received)
		return WEFT_R_RIO_SEQUENCE;
	s->received = sequence;
	*body = length - RIO_TAIL_BYTES;
	return WEFT_OK;
}
