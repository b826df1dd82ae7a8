/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/handshake.h"

#include <string.h>

#include "test.h"

enum { REQUESTS = 12, LIST = 2048, MESSAGE = 512, KNOWN = 3 };

static const struct rio_address address = { .family = 4, .port = 7480, .ip = { 192, 0, 2, 7 } };

/* An initiator, a responder, and the message in flight between them. */
struct meeting {
	struct rio_identity dialler, awaiting;
	struct rio_known known[KNOWN];
	struct rio_known expected;
	struct rio_handshake near, far;
	uint8_t bytes[RIO_GREETING_MAX];
	size_t length;
};

static void identity_init(struct rio_identity *self, uint32_t unit, enum rio_role role)
{
	uint8_t seed[RIO_SEED_BYTES];

	memset(seed, (int)unit, sizeof(seed));
	*self = (struct rio_identity){ .platform = { unit, 1 }, .role = role };
	rio_identity_make(self, seed);
}

static struct rio_known known_of(const struct rio_identity *of)
{
	struct rio_known known = { .platform = of->platform, .role = of->role };

	memcpy(known.key, of->key, sizeof(known.key));
	return known;
}

/* From what the book and the dialler know; in each greeting the random bytes are others. */
static void meeting_start(struct meeting *m, uint8_t salt)
{
	const struct rio_book book = { m->known, KNOWN };
	uint8_t random[RIO_SEED_BYTES];

	memset(random, salt, sizeof(random));
	rio_handshake_dial(&m->near, &m->dialler, &m->expected, &address, random);
	memset(random, salt + 100, sizeof(random));
	rio_handshake_await(&m->far, &m->awaiting, &book,
			    &(struct rio_handshake_limits){ REQUESTS, LIST }, random);
}

/* The one that dials is in the middle of the book, between others. */
static void meeting_init(struct meeting *m, enum rio_role role)
{
	struct rio_identity other;

	identity_init(&m->dialler, 7, role);
	identity_init(&m->awaiting, 3, role == RIO_OWNER ? RIO_IOUNIT : RIO_OWNER);
	identity_init(&other, 20, RIO_REQUESTER);
	m->known[0] = known_of(&other);
	m->known[1] = known_of(&m->dialler);
	identity_init(&other, 21, RIO_IOUNIT);
	m->known[2] = known_of(&other);
	m->expected = known_of(&m->awaiting);
	meeting_start(m, 1);
}

static void say(struct meeting *m, struct rio_handshake *who)
{
	m->length = rio_handshake_say(who, m->bytes);
	REQUIRE(m->length > 0);
}

static enum weft_reason take(struct meeting *m, struct rio_handshake *who)
{
	return rio_handshake_take(who, m->bytes, m->length);
}

/* Says so many of the three; the last one is in bytes, and not taken yet. */
static void meeting_say(struct meeting *m, int messages)
{
	say(m, &m->near);
	if (messages == 1)
		return;
	REQUIRE(take(m, &m->far) == WEFT_OK);
	say(m, &m->far);
	if (messages == 2)
		return;
	REQUIRE(take(m, &m->near) == WEFT_OK);
	say(m, &m->near);
}

static struct rio_handshake *taker_of(struct meeting *m, int message)
{
	return message == 2 ? &m->near : &m->far;
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

/* Refused for good: nothing more is said, nothing believed, and no key is left. */
static bool is_over(struct rio_handshake *c)
{
	uint8_t bytes[RIO_GREETING_MAX];

	return !rio_handshake_is_done(c) && rio_handshake_say(c, bytes) == 0 &&
	       is_zero(c->greet.ephemeral_secret, RIO_KEY_BYTES) &&
	       is_zero(&c->greet.session, sizeof(c->greet.session)) &&
	       rio_handshake_take(c, bytes, 0) != WEFT_OK;
}

static enum weft_reason pass(struct rio_handshake *from, struct rio_handshake *to)
{
	const struct rio_msg m = { .type = RIO_PING, .id = 5 };
	uint8_t bytes[MESSAGE];
	struct rio_msg heard;
	size_t length = rio_session_close(&from->greet.session, &m, bytes, sizeof(bytes));
	enum weft_reason r = rio_session_open(&to->greet.session, bytes, length, &heard);

	return r == WEFT_OK && (heard.type != RIO_PING || heard.id != 5) ? WEFT_R_SYSTEM : r;
}

static void expect_peer(const struct rio_handshake *c, const struct rio_identity *who)
{
	struct rio_known peer = rio_handshake_peer(c);

	EXPECT(platform_is_same(peer.platform, who->platform));
	EXPECT_EQ(peer.role, who->role);
	EXPECT_MEM(peer.key, who->key, RIO_KEY_BYTES);
}

TEST(test_rio_03_who_knows_each_other_meets_and_talks)
{
	static const enum rio_role roles[] = { RIO_REQUESTER, RIO_IOUNIT, RIO_OWNER };

	for (int i = 0; i < 3; i++) {
		struct meeting m;

		meeting_init(&m, roles[i]);
		EXPECT_EQ(rio_handshake_say(&m.far, m.bytes), 0U);
		meeting_say(&m, 2);
		EXPECT(!rio_handshake_is_done(&m.far));
		EXPECT_EQ(take(&m, &m.near), WEFT_OK);
		EXPECT(!rio_handshake_is_done(&m.near)); /* it has the last word */
		say(&m, &m.near);
		EXPECT(rio_handshake_is_done(&m.near));
		EXPECT(!rio_handshake_is_done(&m.far));
		EXPECT_EQ(take(&m, &m.far), WEFT_OK);
		EXPECT(rio_handshake_is_done(&m.far));
		EXPECT_EQ(rio_handshake_say(&m.near, m.bytes), 0U);
		EXPECT_EQ(rio_handshake_say(&m.far, m.bytes), 0U);
		expect_peer(&m.near, &m.awaiting);
		expect_peer(&m.far, &m.dialler);
		EXPECT_EQ(m.near.requests_max, (uint32_t)REQUESTS);
		EXPECT_EQ(m.near.list_max, (uint32_t)LIST);
		EXPECT(m.far.address.family == 4 && m.far.address.port == address.port);
		EXPECT_MEM(m.far.address.ip, address.ip, sizeof(address.ip));
		EXPECT_EQ(pass(&m.near, &m.far), WEFT_OK);
		EXPECT_EQ(pass(&m.far, &m.near), WEFT_OK);
		EXPECT_EQ(pass(&m.near, &m.far), WEFT_OK);
	}
}

TEST(test_rio_03_who_is_not_in_the_book_is_not_let_in)
{
	struct rio_identity unknown;
	struct meeting m;

	meeting_init(&m, RIO_REQUESTER);
	identity_init(&unknown, 8, RIO_REQUESTER);
	m.dialler = unknown;
	meeting_start(&m, 1);
	meeting_say(&m, 1);
	EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_UNKNOWN_PEER);
	EXPECT(is_over(&m.far));

	/* Under the name of one who is. */
	m.dialler.platform = m.known[1].platform;
	meeting_start(&m, 1);
	meeting_say(&m, 1);
	EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_UNKNOWN_PEER);
	EXPECT(is_over(&m.far));
}

TEST(test_rio_03_an_empty_book_lets_no_peer_in)
{
	const uint8_t random[RIO_SEED_BYTES] = { 1 };
	const struct rio_handshake_limits limits = { REQUESTS, LIST };
	struct meeting m;

	meeting_init(&m, RIO_REQUESTER);
	rio_handshake_await(&m.far, &m.awaiting, &(struct rio_book){ 0 }, &limits, random);
	meeting_say(&m, 1);
	EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_UNKNOWN_PEER);
	EXPECT(is_over(&m.far));
}

/* Platform, role and key must match one entry of the book. */
TEST(test_rio_03_a_known_key_is_good_for_one_platform_and_role_only)
{
	struct meeting m;

	for (int wrong = 0; wrong < 4; wrong++) {
		meeting_init(&m, RIO_REQUESTER);
		if (wrong == 0)
			m.dialler.platform.unit = m.known[0].platform.unit;
		else if (wrong == 1)
			m.dialler.platform.process++;
		else if (wrong == 2)
			m.dialler.role = RIO_OWNER;
		else
			m.dialler.role = RIO_IOUNIT;
		meeting_start(&m, 1);
		meeting_say(&m, 1);
		EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_UNKNOWN_PEER);
		EXPECT(is_over(&m.far));
	}
}

TEST(test_rio_03_who_answers_must_be_the_one_that_was_dialled)
{
	static const struct platform elsewhere = { 4, 1 }, other_process = { 3, 2 };
	struct rio_identity other;
	struct meeting m;

	for (int wrong = 0; wrong < 4; wrong++) {
		meeting_init(&m, RIO_REQUESTER);
		identity_init(&other, 9, RIO_OWNER);
		if (wrong == 0)
			memcpy(m.expected.key, other.key, RIO_KEY_BYTES);
		else if (wrong == 1)
			m.expected.platform = elsewhere;
		else if (wrong == 2)
			m.expected.platform = other_process;
		else
			m.expected.role = RIO_IOUNIT;
		meeting_start(&m, 1);
		meeting_say(&m, 2);
		EXPECT_EQ(take(&m, &m.near), WEFT_R_RIO_UNKNOWN_PEER);
		EXPECT(is_over(&m.near));
	}
}

/* A peer with a known public key, but without its secret, can begin a handshake and not end it. */
TEST(test_rio_03_who_only_says_a_known_key_does_not_prove_it)
{
	struct rio_identity thief;
	struct meeting m;

	meeting_init(&m, RIO_REQUESTER);
	identity_init(&thief, 66, RIO_REQUESTER);
	memcpy(m.dialler.secret, thief.secret, sizeof(thief.secret));
	meeting_say(&m, 3);
	EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_FORGED);
	EXPECT(is_over(&m.far));

	meeting_init(&m, RIO_REQUESTER);
	memcpy(m.awaiting.secret, thief.secret, sizeof(thief.secret));
	meeting_say(&m, 2);
	EXPECT_EQ(take(&m, &m.near), WEFT_R_RIO_FORGED);
	EXPECT(is_over(&m.near));
}

TEST(test_rio_03_a_greeting_is_taken_in_its_order_only)
{
	struct meeting m;

	/* The dialler hears its own hello, and something before it has said one. */
	meeting_init(&m, RIO_REQUESTER);
	meeting_say(&m, 1);
	EXPECT_EQ(take(&m, &m.near), WEFT_R_RIO_UNEXPECTED);
	EXPECT(is_over(&m.near));
	meeting_start(&m, 1);
	EXPECT_EQ(take(&m, &m.near), WEFT_R_RIO_UNEXPECTED);
	EXPECT(is_over(&m.near));

	/* Hello again, before and behind the welcome. */
	meeting_start(&m, 1);
	meeting_say(&m, 1);
	EXPECT_EQ(take(&m, &m.far), WEFT_OK);
	EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_UNEXPECTED);
	EXPECT(is_over(&m.far));
	meeting_start(&m, 1);
	meeting_say(&m, 2);
	meeting_start(&m, 1);
	EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_UNEXPECTED); /* a welcome to who awaits */
	EXPECT(is_over(&m.far));

	/* Prove again, and welcome again. */
	for (int message = 2; message <= 3; message++) {
		struct rio_handshake *taker = taker_of(&m, message);

		meeting_start(&m, 1);
		meeting_say(&m, message);
		EXPECT_EQ(take(&m, taker), WEFT_OK);
		EXPECT_EQ(take(&m, taker), WEFT_R_RIO_UNEXPECTED);
		EXPECT(is_over(taker));
	}
}

/* What was said to this side before, by the right one, is of no use again. */
TEST(test_rio_03_a_greeting_of_yesterday_is_refused)
{
	for (int message = 2; message <= 3; message++) {
		uint8_t old[RIO_GREETING_MAX];
		struct meeting m;
		size_t length;

		meeting_init(&m, RIO_REQUESTER);
		meeting_say(&m, message);
		memcpy(old, m.bytes, m.length);
		length = m.length;
		meeting_start(&m, 2);
		meeting_say(&m, message);
		memcpy(m.bytes, old, length);
		m.length = length;
		EXPECT_EQ(take(&m, taker_of(&m, message)), WEFT_R_RIO_FORGED);
		EXPECT(is_over(taker_of(&m, message)));
	}
}

TEST(test_rio_03_a_greeting_that_is_cut_short_is_refused)
{
	struct meeting m;

	meeting_init(&m, RIO_REQUESTER);
	for (int message = 1; message <= 3; message++) {
		size_t length;

		meeting_start(&m, 1);
		meeting_say(&m, message);
		length = m.length;
		for (size_t cut = 0; cut < length; cut++) {
			meeting_start(&m, 1);
			meeting_say(&m, message);
			m.length = cut;
			EXPECT(take(&m, taker_of(&m, message)) != WEFT_OK);
			EXPECT(is_over(taker_of(&m, message)));
		}
	}
}

/* Of a hello some bits are only found out by who signs what he heard. */
TEST(test_rio_03_a_greeting_with_a_wrong_bit_is_refused)
{
	struct meeting m;

	meeting_init(&m, RIO_REQUESTER);
	for (int message = 1; message <= 3; message++) {
		size_t length;

		meeting_start(&m, 1);
		meeting_say(&m, message);
		length = m.length;
		for (size_t bit = 0; bit < 8 * length; bit += message == 1 ? 1 : 7) {
			enum weft_reason r;

			meeting_start(&m, 1);
			meeting_say(&m, message);
			m.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
			r = take(&m, taker_of(&m, message));
			if (message == 1 && r == WEFT_OK) {
				say(&m, &m.far);
				r = take(&m, &m.near);
				EXPECT(is_over(&m.near));
			}
			EXPECT(r != WEFT_OK);
		}
	}
}

TEST(test_rio_03_no_secret_of_a_handshake_is_left)
{
	struct meeting m;

	meeting_init(&m, RIO_REQUESTER);
	meeting_say(&m, 3);
	REQUIRE(take(&m, &m.far) == WEFT_OK);
	rio_handshake_fini(&m.near);
	rio_handshake_fini(&m.far);
	EXPECT(is_zero(&m.near, sizeof(m.near)));
	EXPECT(is_zero(&m.far, sizeof(m.far)));
	meeting_start(&m, 1);
	rio_handshake_fini(&m.near); /* before a word was said */
	EXPECT(is_zero(&m.near, sizeof(m.near)));
}

/* ---- docs/rio.md, "What a write promises", rule 8 ------------------------------------------- */

/* WEFT_OK: both are done. Else who refuses, and why. */
static enum weft_reason meet(struct meeting *m, bool *is_dialler)
{
	enum weft_reason r;

	meeting_say(m, 2);
	*is_dialler = true;
	r = take(m, &m->near);
	if (r != WEFT_OK)
		return r;
	say(m, &m->near);
	*is_dialler = false;
	return take(m, &m->far);
}

TEST(test_rio_09_an_owner_with_a_lower_term_ends_itself)
{
	struct meeting m;
	bool is_dialler;

	meeting_init(&m, RIO_OWNER);
	m.dialler.term = (struct rio_term){ 4, 9 };
	m.awaiting.term = (struct rio_term){ 5, 1 };
	EXPECT_EQ(meet(&m, &is_dialler), WEFT_R_RIO_SUPERSEDED);
	EXPECT(is_dialler && is_over(&m.near));
	EXPECT_EQ(m.near.seen.number, 5U);

	/* Of the same number the higher incarnation counts. */
	m.dialler.term = (struct rio_term){ 5, 0 };
	meeting_start(&m, 2);
	EXPECT_EQ(meet(&m, &is_dialler), WEFT_R_RIO_SUPERSEDED);
	EXPECT(is_dialler);
}

TEST(test_rio_09_the_same_owner_and_a_later_one_are_let_in)
{
	struct meeting m;
	bool is_dialler;

	meeting_init(&m, RIO_OWNER);
	m.awaiting.term = m.dialler.term = (struct rio_term){ 5, 1 };
	EXPECT_EQ(meet(&m, &is_dialler), WEFT_OK);
	m.dialler.term = (struct rio_term){ 5, 2 };
	meeting_start(&m, 2);
	EXPECT_EQ(meet(&m, &is_dialler), WEFT_OK);
	m.dialler.term = (struct rio_term){ 6, 0 };
	meeting_start(&m, 3);
	EXPECT_EQ(meet(&m, &is_dialler), WEFT_OK);
	EXPECT_EQ(m.far.seen.number, 6U);
}

/* Another one came while this one greeted: it was welcome, and is refused when it has proved. */
TEST(test_rio_09_an_iounit_refuses_a_term_below_the_highest_one_it_has_seen)
{
	struct meeting m;

	meeting_init(&m, RIO_OWNER);
	m.dialler.term = (struct rio_term){ 5, 1 };
	meeting_say(&m, 3);
	m.awaiting.term = (struct rio_term){ 6, 1 };
	EXPECT_EQ(take(&m, &m.far), WEFT_R_RIO_SUPERSEDED);
	EXPECT(is_over(&m.far));
}

TEST(test_rio_09_a_requester_refuses_an_owner_that_is_superseded)
{
	struct meeting m;
	bool is_dialler;

	meeting_init(&m, RIO_REQUESTER);
	m.dialler.term = (struct rio_term){ 6, 1 };
	m.awaiting.term = (struct rio_term){ 5, 1 };
	EXPECT_EQ(meet(&m, &is_dialler), WEFT_R_RIO_SUPERSEDED);
	EXPECT(is_dialler);
}

/* What a requester says ends no owner. */
TEST(test_rio_09_an_owner_pays_no_attention_to_terms_of_requesters)
{
	struct meeting m;

	meeting_init(&m, RIO_REQUESTER);
	m.awaiting.term = (struct rio_term){ 5, 1 };
	meeting_say(&m, 1);
	EXPECT_EQ(take(&m, &m.far), WEFT_OK);
	m.dialler.term = (struct rio_term){ 9, 1 };
	meeting_start(&m, 2);
	m.dialler.term = (struct rio_term){ 9, 1 };
	meeting_say(&m, 2);
	m.dialler.term = (struct rio_term){ 0 }; /* it takes the welcome all the same */
	REQUIRE(take(&m, &m.near) == WEFT_OK);
	say(&m, &m.near);
	EXPECT_EQ(take(&m, &m.far), WEFT_OK);
	EXPECT(rio_handshake_is_done(&m.far));
}
