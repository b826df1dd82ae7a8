/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/greet.h"

#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_shorthash_siphash24.h>
#include <string.h>

#include "test.h"

enum { REQUESTS = 32, LIST = 4096, MESSAGE = 512 };

struct greeter {
	struct rio_identity identity;
	struct rio_greet greet;
};

/* Two who know each other, before a word was said. */
struct two {
	struct greeter dialler, dialled;
	uint8_t bytes[RIO_GREETING_MAX];
	size_t length;
	struct rio_address from; /* where the dialler takes data connections, as it says */
};

static const struct rio_address address = { .family = 4, .port = 7480, .ip = { 192, 0, 2, 7 } };

static void greeter_init(struct greeter *s, uint32_t unit, enum rio_role role)
{
	uint8_t seed[RIO_SEED_BYTES], random[RIO_SEED_BYTES];

	memset(seed, (int)unit, sizeof(seed));
	memset(random, (int)(unit + 100), sizeof(random));
	s->identity = (struct rio_identity){ .platform = { unit, 1 }, .role = role };
	rio_identity_make(&s->identity, seed);
	rio_greet_init(&s->greet, &s->identity, random);
}

static void two_init(struct two *t)
{
	greeter_init(&t->dialler, 7, RIO_REQUESTER);
	greeter_init(&t->dialled, 3, RIO_OWNER);
}

static enum weft_reason take_hello(struct two *t)
{
	return rio_greet_take_hello(&t->dialled.greet, t->bytes, t->length);
}

static enum weft_reason take_welcome(struct two *t)
{
	return rio_greet_take_welcome(&t->dialler.greet, t->bytes, t->length,
				      t->dialled.identity.key);
}

static enum weft_reason take_prove(struct two *t)
{
	return rio_greet_take_prove(&t->dialled.greet, t->bytes, t->length, &t->from);
}

/* Says so many of the three; the last one is in bytes, and not taken yet. */
static void two_say(struct two *t, int messages)
{
	t->length = rio_greet_hello(&t->dialler.greet, t->bytes);
	if (messages == 1)
		return;
	REQUIRE(take_hello(t) == WEFT_OK);
	t->length = rio_greet_welcome(&t->dialled.greet, REQUESTS, LIST, t->bytes);
	if (messages == 2)
		return;
	REQUIRE(take_welcome(t) == WEFT_OK);
	t->length = rio_greet_prove(&t->dialler.greet, &address, t->bytes);
}

static void two_greet(struct two *t)
{
	two_init(t);
	two_say(t, 3);
	REQUIRE(take_prove(t) == WEFT_OK);
}

TEST(test_rio_03_two_sides_prove_who_they_are_and_agree_on_keys)
{
	struct two t;
	const struct rio_greet *near = &t.dialler.greet, *far = &t.dialled.greet;

	two_greet(&t);
	EXPECT_EQ(near->state, RIO_GREET_DONE);
	EXPECT_EQ(far->state, RIO_GREET_DONE);
	EXPECT_EQ(near->peer.platform.unit, 3U);
	EXPECT_EQ(near->peer.role, RIO_OWNER);
	EXPECT_EQ(far->peer.platform.unit, 7U);
	EXPECT_EQ(near->requests_max, (uint32_t)REQUESTS);
	EXPECT_EQ(near->list_max, (uint32_t)LIST);
	EXPECT(t.from.family == 4 && t.from.port == address.port);
	EXPECT(memcmp(t.from.ip, address.ip, sizeof(address.ip)) == 0);
	EXPECT(memcmp(near->session.send_key, far->session.receive_key, RIO_KEY_BYTES) == 0);
	EXPECT(memcmp(near->session.receive_key, far->session.send_key, RIO_KEY_BYTES) == 0);
	EXPECT(memcmp(near->session.send_key, near->session.receive_key, RIO_KEY_BYTES) != 0);
}

static bool is_zero(const void *bytes, size_t length)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < length; i++) {
		if (b[i] != 0)
			return false;
	}
	return true;
}

TEST(test_rio_03_no_secret_stays_behind_after_a_greeting)
{
	struct two t;

	two_greet(&t);
	EXPECT(is_zero(t.dialler.greet.ephemeral_secret, RIO_KEY_BYTES));
	EXPECT(is_zero(t.dialled.greet.ephemeral_secret, RIO_KEY_BYTES));
	rio_greet_fini(&t.dialler.greet);
	EXPECT(is_zero(&t.dialler.greet, sizeof(t.dialler.greet)));
}

/* A hello is believed until it is proved; the other two are signed, so every bit of them counts. */
TEST(test_rio_03_a_greeting_that_was_altered_is_refused)
{
	static enum weft_reason (*const takes[])(struct two * t) = { take_welcome, take_prove };

	for (int message = 2; message <= 3; message++) {
		struct two t;
		size_t length;

		two_init(&t);
		two_say(&t, message);
		length = t.length;
		for (size_t bit = 0; bit < 8 * length; bit++) {
			two_init(&t);
			two_say(&t, message);
			t.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
			EXPECT(takes[message - 2](&t) != WEFT_OK);
		}
	}
}

TEST(test_rio_03_a_hello_that_was_altered_on_its_way_is_found_out)
{
	struct two t;
	size_t length;

	two_init(&t);
	two_say(&t, 1);
	length = t.length;
	for (size_t at = 0; at < length; at++) {
		enum weft_reason r;

		two_init(&t);
		two_say(&t, 1);
		t.bytes[at] ^= 1;
		r = take_hello(&t);
		if (r == WEFT_OK) {
			t.length = rio_greet_welcome(&t.dialled.greet, REQUESTS, LIST, t.bytes);
			r = take_welcome(&t);
		}
		EXPECT(r != WEFT_OK);
	}
}

TEST(test_rio_03_who_is_not_the_one_that_was_dialled_is_refused)
{
	struct two t;
	struct greeter other;

	two_init(&t);
	greeter_init(&other, 4, RIO_OWNER);
	two_say(&t, 1);
	REQUIRE(rio_greet_take_hello(&other.greet, t.bytes, t.length) == WEFT_OK);
	t.length = rio_greet_welcome(&other.greet, REQUESTS, LIST, t.bytes);
	EXPECT_EQ(take_welcome(&t), WEFT_R_RIO_UNKNOWN_PEER);
	EXPECT_EQ(t.dialler.greet.state, RIO_GREET_REFUSED);
	EXPECT(is_zero(t.dialler.greet.ephemeral_secret, RIO_KEY_BYTES));
}

/* What was said in another greeting, by the right side, is of no use in this one. */
TEST(test_rio_03_a_greeting_that_is_repeated_is_refused)
{
	uint8_t random[RIO_SEED_BYTES] = { 1 };
	struct two old, t;

	two_init(&old);
	two_say(&old, 2);
	two_init(&t);
	rio_greet_init(&t.dialler.greet, &t.dialler.identity, random);
	two_say(&t, 1);
	memcpy(t.bytes, old.bytes, old.length);
	t.length = old.length;
	EXPECT_EQ(take_welcome(&t), WEFT_R_RIO_FORGED);

	two_init(&old);
	two_say(&old, 3);
	two_init(&t);
	rio_greet_init(&t.dialled.greet, &t.dialled.identity, random);
	two_say(&t, 2);
	memcpy(t.bytes, old.bytes, old.length);
	t.length = old.length;
	EXPECT_EQ(take_prove(&t), WEFT_R_RIO_FORGED);
}

TEST(test_rio_03_a_greeting_out_of_its_order_is_refused)
{
	struct two t;

	two_init(&t);
	two_say(&t, 1);
	EXPECT_EQ(take_welcome(&t), WEFT_R_RIO_UNEXPECTED); /* its own hello */

	two_init(&t);
	two_say(&t, 1);
	EXPECT_EQ(take_prove(&t), WEFT_R_RIO_UNEXPECTED);

	two_init(&t);
	two_say(&t, 1);
	REQUIRE(take_hello(&t) == WEFT_OK);
	EXPECT_EQ(take_hello(&t), WEFT_R_RIO_UNEXPECTED);
}

TEST(test_rio_03_a_greeting_begins_at_the_first_message)
{
	struct rio_msg m;
	struct wr w;
	struct two t;

	two_init(&t);
	two_say(&t, 1);
	REQUIRE(rio_msg_decode(&m, t.bytes, t.length) == RIO_MSG_OK);
	m.sequence = 2;
	w = wr_of(t.bytes, sizeof(t.bytes));
	rio_msg_encode(&m, &w);
	REQUIRE(!w.is_short);
	EXPECT_EQ(take_hello(&t), WEFT_R_RIO_SEQUENCE);
}

/* A point of small order makes the same secret with every key. */
TEST(test_rio_03_a_key_that_makes_no_secret_is_refused)
{
	struct two t;
	struct rio_msg m;
	struct wr w;

	two_init(&t);
	two_say(&t, 1);
	REQUIRE(rio_msg_decode(&m, t.bytes, t.length) == RIO_MSG_OK);
	memset(m.hello.ephemeral, 0, sizeof(m.hello.ephemeral));
	w = wr_of(t.bytes, sizeof(t.bytes));
	rio_msg_encode(&m, &w);
	/* The dialler is an attacker here: it signs what it sent. */
	memcpy(t.dialler.greet.hello, t.bytes, t.length);
	REQUIRE(take_hello(&t) == WEFT_OK);
	t.length = rio_greet_welcome(&t.dialled.greet, REQUESTS, LIST, t.bytes);
	REQUIRE(take_welcome(&t) == WEFT_OK);
	t.length = rio_greet_prove(&t.dialler.greet, &address, t.bytes);
	EXPECT_EQ(take_prove(&t), WEFT_R_RIO_FORGED);
}

/* ---- After the greeting --------------------------------------------------------------------- */

static size_t ping(struct greeter *s, uint8_t *bytes)
{
	const struct rio_msg m = { .type = RIO_PING, .id = 5 };

	return rio_session_close(&s->greet.session, &m, bytes, MESSAGE);
}

static enum weft_reason hear(struct greeter *s, const uint8_t *bytes, size_t length)
{
	struct rio_msg m;
	enum weft_reason r = rio_session_open(&s->greet.session, bytes, length, &m);

	return r == WEFT_OK && (m.type != RIO_PING || m.id != 5) ? WEFT_R_SYSTEM : r;
}

TEST(test_rio_03_messages_open_in_their_order_and_once)
{
	uint8_t first[MESSAGE], second[MESSAGE];
	struct two t;
	size_t length;

	two_greet(&t);
	length = ping(&t.dialler, first);
	EXPECT_EQ(ping(&t.dialler, second), length);
	EXPECT_EQ(hear(&t.dialled, second, length), WEFT_R_RIO_SEQUENCE);
	EXPECT_EQ(hear(&t.dialled, first, length), WEFT_OK);
	EXPECT_EQ(hear(&t.dialled, first, length), WEFT_R_RIO_SEQUENCE);
	EXPECT_EQ(hear(&t.dialled, second, length), WEFT_OK);
	EXPECT_EQ(ping(&t.dialled, first), length);
	EXPECT_EQ(hear(&t.dialler, first, length), WEFT_OK);
}

TEST(test_rio_03_a_message_that_was_altered_or_turned_round_does_not_open)
{
	uint8_t bytes[MESSAGE];
	struct two t;
	size_t length;

	two_greet(&t);
	length = ping(&t.dialler, bytes);
	EXPECT_EQ(hear(&t.dialler, bytes, length), WEFT_R_RIO_FORGED); /* its own words */
	for (size_t bit = 0; bit < 8 * length; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
		EXPECT(hear(&t.dialled, bytes, length) != WEFT_OK);
		bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
	}
	for (size_t shorter = 0; shorter < length; shorter++)
		EXPECT(hear(&t.dialled, bytes, shorter) != WEFT_OK);
	EXPECT_EQ(hear(&t.dialled, bytes, length), WEFT_OK);
}

TEST(test_rio_03_a_greeting_has_no_place_in_a_session)
{
	struct rio_msg m;
	struct two t;

	two_greet(&t);
	EXPECT_EQ(rio_session_open(&t.dialled.greet.session, t.bytes, t.length, &m),
		  WEFT_R_RIO_UNEXPECTED);
}

TEST(test_rio_03_a_message_without_room_is_not_counted)
{
	const struct rio_msg m = { .type = RIO_PING, .id = 5 };
	uint8_t bytes[MESSAGE];
	struct two t;

	two_greet(&t);
	EXPECT_EQ(rio_session_close(&t.dialler.greet.session, &m, bytes, RIO_MSG_HEADER_BYTES), 0U);
	EXPECT_EQ(hear(&t.dialled, bytes, ping(&t.dialler, bytes)), WEFT_OK);
}

/* ---- Messages of another protocol ------------------------------------------------------------ */

enum { BODY = 40 };

static size_t tailed(struct greeter *s, uint8_t *bytes)
{
	for (size_t i = 0; i < BODY; i++)
		bytes[i] = (uint8_t)i;
	return rio_session_tail(&s->greet.session, bytes, BODY);
}

static enum weft_reason hear_tailed(struct greeter *s, const uint8_t *bytes, size_t length)
{
	size_t body = 0;
	enum weft_reason r = rio_session_tailed(&s->greet.session, bytes, length, &body);

	return r == WEFT_OK && body != BODY ? WEFT_R_SYSTEM : r;
}

TEST(test_rio_03_tails_are_taken_in_their_order_and_once)
{
	uint8_t first[MESSAGE], second[MESSAGE];
	struct two t;

	two_greet(&t);
	EXPECT_EQ(tailed(&t.dialler, first), (size_t)BODY + RIO_TAIL_BYTES);
	EXPECT_EQ(tailed(&t.dialler, second), (size_t)BODY + RIO_TAIL_BYTES);
	EXPECT_EQ(hear_tailed(&t.dialled, second, BODY + RIO_TAIL_BYTES), WEFT_R_RIO_SEQUENCE);
	EXPECT_EQ(hear_tailed(&t.dialled, first, BODY + RIO_TAIL_BYTES), WEFT_OK);
	EXPECT_EQ(hear_tailed(&t.dialled, first, BODY + RIO_TAIL_BYTES), WEFT_R_RIO_SEQUENCE);
	EXPECT_EQ(hear_tailed(&t.dialled, second, BODY + RIO_TAIL_BYTES), WEFT_OK);
}

/* On a connection that loses, repeats and reorders. */
TEST(test_rio_03_push_07_later_tails_are_taken_once_and_earlier_not)
{
	const size_t length = BODY + RIO_TAIL_BYTES;
	uint8_t bytes[4][MESSAGE];
	struct rio_session *s;
	size_t body = 0;
	struct two t;

	two_greet(&t);
	s = &t.dialled.greet.session;
	for (int i = 0; i < 4; i++)
		tailed(&t.dialler, bytes[i]);
	EXPECT_EQ(rio_session_tailed_later(s, bytes[1], length, &body), WEFT_OK);
	EXPECT_EQ(body, (size_t)BODY);
	EXPECT_EQ(rio_session_tailed_later(s, bytes[1], length, &body), WEFT_R_RIO_SEQUENCE);
	EXPECT_EQ(rio_session_tailed_later(s, bytes[0], length, &body), WEFT_R_RIO_SEQUENCE);
	bytes[2][0] ^= 1;
	EXPECT_EQ(rio_session_tailed_later(s, bytes[2], length, &body), WEFT_R_RIO_FORGED);
	EXPECT_EQ(rio_session_tailed_later(s, bytes[3], length, &body), WEFT_OK);
}

TEST(test_rio_03_a_tailed_message_that_was_altered_or_cut_is_refused)
{
	const size_t length = BODY + RIO_TAIL_BYTES;
	uint8_t bytes[MESSAGE];
	struct two t;

	two_greet(&t);
	tailed(&t.dialler, bytes);
	EXPECT_EQ(hear_tailed(&t.dialler, bytes, length), WEFT_R_RIO_FORGED); /* its own words */
	for (size_t bit = 0; bit < 8 * length; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
		EXPECT_EQ(hear_tailed(&t.dialled, bytes, length), WEFT_R_RIO_FORGED);
		bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
	}
	for (size_t shorter = 0; shorter < length; shorter++)
		EXPECT_EQ(hear_tailed(&t.dialled, bytes, shorter), WEFT_R_RIO_FORGED);
	EXPECT_EQ(hear_tailed(&t.dialled, bytes, length), WEFT_OK);
}

/* ---- Tokens --------------------------------------------------------------------------------- */

static struct rio_msg announce_of(const uint8_t *token)
{
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = { 2, 1 } } };

	memcpy(m.announce.token, token, RIO_TOKEN_BYTES);
	return m;
}

static struct rio_msg grant_of(const uint8_t *token)
{
	struct rio_msg m = { .type = RIO_GRANT,
			     .grant = { .requester = { 7, 1 }, .address = address } };

	memcpy(m.grant.token, token, RIO_TOKEN_BYTES);
	return m;
}

/* Does so much as a word of it stand there? */
static bool shows(const uint8_t *bytes, size_t length, const uint8_t *token)
{
	for (size_t at = 0; at + 4 <= length; at++) {
		for (size_t word = 0; word < RIO_TOKEN_BYTES; word += 4) {
			if (memcmp(bytes + at, token + word, 4) == 0)
				return true;
		}
	}
	return false;
}

static void token_init(uint8_t token[RIO_TOKEN_BYTES])
{
	for (int i = 0; i < RIO_TOKEN_BYTES; i++)
		token[i] = (uint8_t)(0xa0 + 5 * i);
}

TEST(test_rio_11_a_token_cannot_be_read_on_its_way)
{
	uint8_t token[RIO_TOKEN_BYTES], bytes[MESSAGE];
	struct rio_msg said[2], m;
	struct two t;

	two_greet(&t);
	token_init(token);
	said[0] = announce_of(token);
	said[1] = grant_of(token);
	for (int i = 0; i < 2; i++) {
		struct rio_session *s = &t.dialled.greet.session;
		size_t length = rio_session_close(s, &said[i], bytes, sizeof(bytes));

		EXPECT(length > 0 && !shows(bytes, length, token));
		EXPECT_EQ(rio_session_open(&t.dialler.greet.session, bytes, length, &m), WEFT_OK);
		EXPECT_MEM(i == 0 ? m.announce.token : m.grant.token, token, RIO_TOKEN_BYTES);
	}
	EXPECT_MEM(said[0].announce.token, token, RIO_TOKEN_BYTES); /* the sender's is as it was */
}

/* Else who reads two messages knows that the tokens are the same, or how they differ. */
TEST(test_rio_11_the_same_token_looks_different_each_time)
{
	uint8_t token[RIO_TOKEN_BYTES], wire[4][RIO_TOKEN_BYTES], bytes[MESSAGE];
	struct rio_msg said, m;
	struct two t;

	two_greet(&t);
	token_init(token);
	said = announce_of(token);
	for (int i = 0; i < 4; i++) {
		struct greeter *from = i < 2 ? &t.dialler : &t.dialled;
		size_t length = rio_session_close(&from->greet.session, &said, bytes, MESSAGE);

		REQUIRE(rio_msg_decode(&m, bytes, length) == RIO_MSG_OK);
		memcpy(wire[i], m.announce.token, RIO_TOKEN_BYTES);
		for (int k = 0; k < i; k++)
			EXPECT(memcmp(wire[i], wire[k], RIO_TOKEN_BYTES) != 0);
	}
}

/* What the page says, by libsodium alone. */
TEST(test_rio_11_the_mask_of_a_token_is_what_the_page_says)
{
	uint8_t token[RIO_TOKEN_BYTES] = { 0 }, bytes[MESSAGE], mask[RIO_TOKEN_BYTES];
	uint8_t seal[RIO_SEAL_BYTES];
	uint8_t text[24] = "weft rio 1 token";
	struct rio_msg said = grant_of(token), m;
	struct two t;
	size_t length;

	two_greet(&t);
	t.dialler.greet.session.sent = 0x0102030405060707;
	length = rio_session_close(&t.dialler.greet.session, &said, bytes, sizeof(bytes));
	for (int i = 0; i < 8; i++)
		text[16 + i] = (uint8_t)(i + 1);
	crypto_generichash_blake2b(mask, sizeof(mask), text, sizeof(text),
				   t.dialler.greet.session.send_key + 16, 16);
	REQUIRE(rio_msg_decode(&m, bytes, length) == RIO_MSG_OK);
	EXPECT_MEM(m.grant.token, mask, RIO_TOKEN_BYTES);
	crypto_shorthash_siphashx24(seal, bytes, length - RIO_SEAL_BYTES,
				    t.dialler.greet.session.send_key);
	EXPECT_MEM(m.seal, seal, RIO_SEAL_BYTES);
}

TEST(test_rio_11_a_token_that_was_altered_on_its_way_does_not_open)
{
	uint8_t token[RIO_TOKEN_BYTES], bytes[MESSAGE];
	struct rio_msg said, m;
	struct two t;
	size_t length;

	two_greet(&t);
	token_init(token);
	said = announce_of(token);
	length = rio_session_close(&t.dialler.greet.session, &said, bytes, sizeof(bytes));
	bytes[RIO_MSG_HEADER_BYTES + PLATFORM_BYTES] ^= 1;
	EXPECT_EQ(rio_session_open(&t.dialled.greet.session, bytes, length, &m), WEFT_R_RIO_FORGED);
	bytes[RIO_MSG_HEADER_BYTES + PLATFORM_BYTES] ^= 1;
	EXPECT_EQ(rio_session_open(&t.dialled.greet.session, bytes, length, &m), WEFT_OK);
}
