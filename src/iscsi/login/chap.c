/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/login/chap.h"

#include <string.h>

#include <sodium/utils.h>

#include "base/check.h"
#include "base/digest.h"

enum {
	TO_CHALLENGE = 1 << CHAP_STATE_CHALLENGE,
	TO_AWAITING_CHALLENGE = 1 << CHAP_STATE_AWAITING_CHALLENGE,
	TO_RESPONSE = 1 << CHAP_STATE_RESPONSE,
	TO_AWAITING_RESPONSE = 1 << CHAP_STATE_AWAITING_RESPONSE,
	TO_PROOF = 1 << CHAP_STATE_PROOF,
	TO_AWAITING_PROOF = 1 << CHAP_STATE_AWAITING_PROOF,
	TO_DONE = 1 << CHAP_STATE_DONE,
	TO_FAILED = 1 << CHAP_STATE_FAILED,
};

static const struct {
	bool has_words;
	uint32_t moves;
} states[CHAP_STATE_COUNT] = {
	[CHAP_STATE_OFFER] = { true, TO_AWAITING_CHALLENGE | TO_FAILED },
	[CHAP_STATE_AWAITING_OFFER] = { false, TO_CHALLENGE | TO_FAILED },
	[CHAP_STATE_CHALLENGE] = { true, TO_AWAITING_RESPONSE | TO_FAILED },
	[CHAP_STATE_AWAITING_CHALLENGE] = { false, TO_RESPONSE | TO_FAILED },
	[CHAP_STATE_RESPONSE] = { true, TO_AWAITING_PROOF | TO_DONE | TO_FAILED },
	[CHAP_STATE_AWAITING_RESPONSE] = { false, TO_PROOF | TO_DONE | TO_FAILED },
	[CHAP_STATE_PROOF] = { true, TO_DONE | TO_FAILED },
	[CHAP_STATE_AWAITING_PROOF] = { false, TO_DONE | TO_FAILED },
	[CHAP_STATE_DONE] = { false, TO_FAILED },
	[CHAP_STATE_FAILED] = { false, TO_FAILED },
};

/* The strongest first. */
static const struct {
	uint8_t number;
	enum digest_kind digest;
} algorithms[] = {
	{ CHAP_SHA3_256, DIGEST_SHA3_256 },
	{ CHAP_SHA256, DIGEST_SHA256 },
	{ CHAP_SHA1, DIGEST_SHA1 },
	{ CHAP_MD5, DIGEST_MD5 },
};

enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

static void chap_move(struct chap *c, enum chap_state to)
{
	CHECK(states[c->state].moves & 1U << to);
	c->state = to;
}

bool chap_has_words(const struct chap *c)
{
	return states[c->state].has_words;
}

bool chap_is_done(const struct chap *c)
{
	return c->state == CHAP_STATE_DONE;
}

struct word chap_peer_name(const struct chap *c)
{
	CHECK(c->peer < c->config.peer_count);
	return c->config.peers[c->peer].name;
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static bool secret_is_sound(const struct chap_config *config, struct word secret)
{
	uint32_t min = config->allows_short ? 1 : CHAP_SECRET_MIN;

	return secret.length >= min && secret.length <= CHAP_SECRET_MAX;
}

static bool words_are_same(struct word a, struct word b)
{
	return a.length == b.length && sodium_memcmp(a.at, b.at, a.length) == 0;
}

enum weft_reason chap_init(struct chap *c, const struct chap_config *config,
			   const uint8_t random[CHAP_RANDOM_BYTES])
{
	bool has_self = config->self.name.length > 0;

	CHECK(has_self || config->is_target);
	if (has_self && !secret_is_sound(config, config->self.secret))
		return WEFT_R_ISCSI_CHAP_SECRET;
	for (uint32_t i = 0; i < config->peer_count; i++) {
		if (!secret_is_sound(config, config->peers[i].secret))
			return WEFT_R_ISCSI_CHAP_SECRET;
		/* RFC 7143 section 9.2.1. */
		if (has_self && words_are_same(config->self.secret, config->peers[i].secret))
			return WEFT_R_ISCSI_CHAP_SAME_SECRET;
	}
	*c = (struct chap){
		.config = *config,
		.state = config->is_target ? CHAP_STATE_AWAITING_OFFER : CHAP_STATE_OFFER,
		.peer = UINT32_MAX,
		.id = random[0],
	};
	memcpy(c->challenge, random + 1, CHAP_CHALLENGE_BYTES);
	return WEFT_OK;
}

void chap_fini(struct chap *c)
{
	sodium_memzero(c, sizeof(*c));
	c->state = CHAP_STATE_FAILED;
}

/* ---- What is said --------------------------------------------------------------------------- */

static bool is_allowed(const struct chap *c, uint64_t number)
{
	return c->config.algorithms == 0 || (number < 16 && c->config.algorithms >> number & 1);
}

static void say_offer(const struct chap *c, struct wr *w)
{
	char list[2 * ALGORITHMS];
	uint32_t length = 0;

	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		if (!is_allowed(c, algorithms[i].number))
			continue;
		if (length > 0)
			list[length++] = ',';
		list[length++] = (char)('0' + algorithms[i].number);
	}
	iscsi_text_put(w, "CHAP_A", (struct word){ list, length });
}

static void say_challenge(struct chap *c, struct wr *w)
{
	iscsi_text_put_number(w, "CHAP_I", c->id);
	iscsi_text_put_binary(w, "CHAP_C", c->challenge, CHAP_CHALLENGE_BYTES);
}

/* RFC 1994 section 4.1: the digest of identifier, secret and challenge. Returns its bytes. */
static uint32_t respond(const struct chap *c, uint8_t id, struct word secret, struct span challenge,
			uint8_t response[DIGEST_BYTES_MAX])
{
	const struct span parts[] = {
		{ &id, 1 },
		{ (uint8_t *)(uintptr_t)secret.at, secret.length },
		challenge,
	};

	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		if (algorithms[i].number == c->algorithm) {
			digest_of(algorithms[i].digest, parts, 3, response);
			return digest_bytes(algorithms[i].digest);
		}
	}
	return 0;
}

static void say_response(struct chap *c, struct wr *w)
{
	struct span challenge = { c->peer_challenge, c->peer_challenge_bytes };
	uint8_t response[DIGEST_BYTES_MAX];
	uint32_t bytes = respond(c, c->peer_id, c->config.self.secret, challenge, response);

	iscsi_text_put(w, "CHAP_N", c->config.self.name);
	iscsi_text_put_binary(w, "CHAP_R", response, bytes);
}

void chap_say(struct chap *c, struct wr *w)
{
	bool is_mutual = !c->config.is_target && c->config.peer_count > 0;

	switch (c->state) {
	case CHAP_STATE_OFFER:
		say_offer(c, w);
		chap_move(c, CHAP_STATE_AWAITING_CHALLENGE);
		return;
	case CHAP_STATE_CHALLENGE:
		iscsi_text_put_number(w, "CHAP_A", c->algorithm);
		say_challenge(c, w);
		chap_move(c, CHAP_STATE_AWAITING_RESPONSE);
		return;
	case CHAP_STATE_RESPONSE:
		say_response(c, w);
		if (is_mutual)
			say_challenge(c, w);
		chap_move(c, is_mutual ? CHAP_STATE_AWAITING_PROOF : CHAP_STATE_DONE);
		return;
	default:
		CHECK(c->state == CHAP_STATE_PROOF);
		say_response(c, w);
		chap_move(c, CHAP_STATE_DONE);
	}
}

/* ---- What is taken -------------------------------------------------------------------------- */

struct text {
	const uint8_t *bytes;
	size_t length;
};

static bool text_has(const struct text *t, const char *key, struct word *value)
{
	return iscsi_text_find(t->bytes, t->length, key, value);
}

/* Target: the first algorithm of the list that is allowed. */
static enum weft_reason take_offer(struct chap *c, const struct text *t)
{
	struct word list, item;
	uint64_t number;

	if (!text_has(t, "CHAP_A", &list))
		return WEFT_R_ISCSI_CHAP_ORDER;
	while (iscsi_list_next(&list, &item)) {
		for (uint32_t i = 0; iscsi_number(item, &number) && i < ALGORITHMS; i++) {
			if (number == algorithms[i].number && is_allowed(c, number)) {
				c->algorithm = algorithms[i].number;
				chap_move(c, CHAP_STATE_CHALLENGE);
				return WEFT_OK;
			}
		}
	}
	return WEFT_R_ISCSI_CHAP_ALGORITHM;
}

/* CHAP_I and CHAP_C of the peer. */
static enum weft_reason take_peer_challenge(struct chap *c, struct word id, struct word challenge)
{
	uint64_t number;
	size_t bytes = iscsi_binary(challenge, c->peer_challenge, sizeof(c->peer_challenge));

	if (!iscsi_number(id, &number) || number > 255 || bytes == 0)
		return WEFT_R_ISCSI_CHAP_ORDER;
	/* RFC 7143 section 9.2.1: the peer would have this end answer its own challenge. */
	if (bytes == CHAP_CHALLENGE_BYTES && memcmp(c->peer_challenge, c->challenge, bytes) == 0)
		return WEFT_R_ISCSI_CHAP_REFLECTED;
	c->peer_id = (uint8_t)number;
	c->peer_challenge_bytes = (uint16_t)bytes;
	return WEFT_OK;
}

static enum weft_reason take_challenge(struct chap *c, const struct text *t)
{
	struct word chosen, id, challenge;
	enum weft_reason reason;
	uint64_t number;

	if (!text_has(t, "CHAP_A", &chosen) || !text_has(t, "CHAP_I", &id) ||
	    !text_has(t, "CHAP_C", &challenge))
		return WEFT_R_ISCSI_CHAP_ORDER;
	if (!iscsi_number(chosen, &number) || number < CHAP_MD5 || number > CHAP_SHA3_256 ||
	    !is_allowed(c, number))
		return WEFT_R_ISCSI_CHAP_ALGORITHM;
	c->algorithm = (uint8_t)number;
	reason = take_peer_challenge(c, id, challenge);
	if (reason == WEFT_OK)
		chap_move(c, CHAP_STATE_RESPONSE);
	return reason;
}

/*
 * CHAP_N and CHAP_R of the peer. An unknown name is compared with a response too, so that time does
 * not tell which names there are.
 */
static enum weft_reason verify(struct chap *c, const struct text *t)
{
	static const char unknown[] = "no account has this";
	struct span challenge = { c->challenge, CHAP_CHALLENGE_BYTES };
	struct chap_account account = { .secret = { unknown, sizeof(unknown) } };
	uint8_t theirs[DIGEST_BYTES_MAX] = { 0 }, expected[DIGEST_BYTES_MAX];
	struct word name, response;
	uint32_t found = UINT32_MAX, bytes;
	size_t their_bytes;

	if (!text_has(t, "CHAP_N", &name) || !text_has(t, "CHAP_R", &response))
		return WEFT_R_ISCSI_CHAP_ORDER;
	for (uint32_t i = 0; i < c->config.peer_count; i++) {
		if (words_are_same(name, c->config.peers[i].name)) {
			found = i;
			account = c->config.peers[i];
		}
	}
	bytes = respond(c, c->id, account.secret, challenge, expected);
	their_bytes = iscsi_binary(response, theirs, sizeof(theirs));
	if (sodium_memcmp(theirs, expected, bytes) != 0 || their_bytes != bytes ||
	    found == UINT32_MAX)
		return WEFT_R_ISCSI_CHAP_FAILED;
	c->peer = found;
	return WEFT_OK;
}

static enum weft_reason take_response(struct chap *c, const struct text *t)
{
	enum weft_reason reason = verify(c, t);
	struct word id, challenge;
	bool has_id = text_has(t, "CHAP_I", &id), has_challenge = text_has(t, "CHAP_C", &challenge);

	if (reason != WEFT_OK)
		return reason;
	if (!has_id && !has_challenge) {
		chap_move(c, CHAP_STATE_DONE);
		return WEFT_OK;
	}
	if (!has_id || !has_challenge)
		return WEFT_R_ISCSI_CHAP_ORDER;
	reason = take_peer_challenge(c, id, challenge);
	if (reason != WEFT_OK)
		return reason;
	/* A target without a secret cannot prove itself to an initiator that asks for it. */
	if (c->config.self.name.length == 0)
		return WEFT_R_ISCSI_AUTH_METHOD;
	chap_move(c, CHAP_STATE_PROOF);
	return WEFT_OK;
}

static enum weft_reason take_in_turn(struct chap *c, const struct text *t)
{
	enum weft_reason reason;

	switch (c->state) {
	case CHAP_STATE_AWAITING_OFFER:
		return take_offer(c, t);
	case CHAP_STATE_AWAITING_CHALLENGE:
		return take_challenge(c, t);
	case CHAP_STATE_AWAITING_RESPONSE:
		return take_response(c, t);
	case CHAP_STATE_AWAITING_PROOF:
		reason = verify(c, t);
		if (reason == WEFT_OK)
			chap_move(c, CHAP_STATE_DONE);
		return reason;
	default:
		return WEFT_R_ISCSI_CHAP_ORDER;
	}
}

enum weft_reason chap_take(struct chap *c, const uint8_t *text, size_t length)
{
	const struct text t = { text, length };
	enum weft_reason reason = take_in_turn(c, &t);

	if (reason != WEFT_OK)
		chap_move(c, CHAP_STATE_FAILED);
	return reason;
}
