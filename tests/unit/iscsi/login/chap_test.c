/* SPDX-License-Identifier: BSD-2-Clause */
/* CHAP at both ends: RFC 1994, RFC 7143 sections 9.2.1 and 12.1.3. */
#include "test.h"

#include <string.h>

#include "base/prng.h"
#include "iscsi/login/chap.h"

enum { TEXT_MAX = 4096 };

struct text {
	uint8_t bytes[TEXT_MAX];
	size_t length;
};

static const uint8_t initiator_random[CHAP_RANDOM_BYTES] = { 7, 1, 2, 3 };
static const uint8_t target_random[CHAP_RANDOM_BYTES] = { 9, 4, 5, 6 };

static struct chap_account account(const char *name, const char *secret)
{
	return (struct chap_account){ iscsi_word(name), iscsi_word(secret) };
}

static struct text say(struct chap *c)
{
	struct text t;
	struct wr w = wr_of(t.bytes, sizeof(t.bytes));

	REQUIRE(chap_has_words(c));
	chap_say(c, &w);
	REQUIRE(!w.is_short);
	t.length = (size_t)(w.at - t.bytes);
	return t;
}

static enum weft_reason take(struct chap *c, struct text t)
{
	return chap_take(c, t.bytes, t.length);
}

/* Pairs that are separated by spaces here. */
static struct text text_of(const char *pairs)
{
	struct text t = { .length = strlen(pairs) + 1 };

	memcpy(t.bytes, pairs, t.length);
	for (size_t i = 0; i < t.length; i++)
		t.bytes[i] = t.bytes[i] == ' ' ? 0 : t.bytes[i];
	return t;
}

static bool says(const struct text *t, const char *key, const char *value)
{
	struct word w;

	return iscsi_text_find(t->bytes, t->length, key, &w) && (!value || word_is(w, value));
}

struct pair {
	struct chap_account known[2], target_known;
	struct chap_config i, t;
	struct chap initiator, target;
};

static void pair_config(struct pair *p, bool is_mutual)
{
	p->known[0] = account("other", "another secret!!");
	p->known[1] = account("alice", "secret of twelve");
	p->target_known = account("disk", "secret of target");
	p->i = (struct chap_config){ .self = account("alice", "secret of twelve"),
				     .peers = &p->target_known,
				     .peer_count = is_mutual };
	p->t = (struct chap_config){
		.is_target = true, .peers = p->known, .peer_count = 2, .self = p->target_known
	};
}

static void pair_init(struct pair *p)
{
	REQUIRE(chap_init(&p->initiator, &p->i, initiator_random) == WEFT_OK);
	REQUIRE(chap_init(&p->target, &p->t, target_random) == WEFT_OK);
}

/* Up to the initiator's response. */
static struct text pair_response(struct pair *p)
{
	pair_init(p);
	REQUIRE(take(&p->target, say(&p->initiator)) == WEFT_OK);
	REQUIRE(take(&p->initiator, say(&p->target)) == WEFT_OK);
	return say(&p->initiator);
}

TEST(test_rfc7143_12_1_3_one_way)
{
	struct pair p;

	pair_config(&p, false);
	EXPECT_EQ(take(&p.target, pair_response(&p)), WEFT_OK);
	EXPECT(chap_is_done(&p.target) && chap_is_done(&p.initiator));
	EXPECT(word_is(chap_peer_name(&p.target), "alice"));
	chap_fini(&p.target);
	EXPECT(!chap_is_done(&p.target));
}

TEST(test_rfc7143_12_1_3_mutual_with_every_algorithm)
{
	static const uint8_t numbers[] = { CHAP_MD5, CHAP_SHA1, CHAP_SHA256, CHAP_SHA3_256 };

	for (size_t i = 0; i < sizeof(numbers); i++) {
		struct pair p;

		pair_config(&p, true);
		p.t.algorithms = (uint16_t)(1 << numbers[i]);
		EXPECT_EQ(take(&p.target, pair_response(&p)), WEFT_OK);
		EXPECT_EQ(p.target.algorithm, numbers[i]);
		EXPECT(!chap_is_done(&p.initiator) && !chap_is_done(&p.target));
		EXPECT_EQ(take(&p.initiator, say(&p.target)), WEFT_OK);
		EXPECT(chap_is_done(&p.initiator) && chap_is_done(&p.target));
	}
}

/* The response of RFC 1994 section 4.1, computed elsewhere; hexadecimal and base64 challenges. */
TEST(test_rfc1994_4_1_response_as_bytes)
{
	static const char *const challenges[] = {
		"CHAP_A=5 CHAP_I=5 CHAP_C=0x000102030405060708090a0b0c0d0e0f",
		"CHAP_A=5 CHAP_I=0x5 CHAP_C=0bAAECAwQFBgcICQoLDA0ODw=="
	};

	for (int i = 0; i < 2; i++) {
		struct pair p;
		struct text offer, response;

		pair_config(&p, false);
		pair_init(&p);
		offer = say(&p.initiator);
		EXPECT(says(&offer, "CHAP_A", "8,7,6,5"));
		EXPECT_EQ(take(&p.initiator, text_of(challenges[i])), WEFT_OK);
		response = say(&p.initiator);
		EXPECT(says(&response, "CHAP_N", "alice"));
		EXPECT(says(&response, "CHAP_R", "0x6a9b4332f9df81129dd916549b2493cd"));
		EXPECT(!says(&response, "CHAP_C", NULL) && chap_is_done(&p.initiator));
	}
}

TEST(test_rfc7143_12_1_3_first_algorithm_of_the_list)
{
	static const struct {
		const char *offer;
		uint16_t allowed;
		uint8_t chosen; /* 0: none */
	} rows[] = { { "CHAP_A=5", 0, 5 },
		     { "CHAP_A=5,7", 0, 5 },
		     { "CHAP_A=9,7,5", 0, 7 },
		     { "CHAP_A=8,7,6,5", 1 << CHAP_MD5, 5 },
		     { "CHAP_A=5,6", 1 << CHAP_SHA256, 0 },
		     { "CHAP_A=", 0, 0 },
		     { "CHAP_A=4", 0, 0 },
		     { "CHAP_A=261", 0, 0 },
		     { "CHAP_A=x,y", 0, 0 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair p;

		pair_config(&p, false);
		p.t.algorithms = rows[i].allowed;
		pair_init(&p);
		EXPECT_EQ(take(&p.target, text_of(rows[i].offer)),
			  rows[i].chosen ? WEFT_OK : WEFT_R_ISCSI_CHAP_ALGORITHM);
		EXPECT_EQ(p.target.algorithm, rows[i].chosen);
	}
}

TEST(test_rfc7143_12_1_3_initiator_takes_no_algorithm_it_did_not_offer)
{
	static const char *const bad[] = { "CHAP_A=5", "CHAP_A=9", "CHAP_A=4", "CHAP_A=7,8",
					   "CHAP_A=263" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pair p;
		struct text t;

		pair_config(&p, false);
		p.i.algorithms = 1 << CHAP_SHA256 | 1 << 9;
		pair_init(&p);
		(void)say(&p.initiator);
		t = text_of(bad[i]);
		memcpy(t.bytes + t.length, "CHAP_I=1\0CHAP_C=0x01", 21);
		t.length += 21;
		EXPECT_EQ(take(&p.initiator, t), WEFT_R_ISCSI_CHAP_ALGORITHM);
	}
}

TEST(test_rfc7143_9_2_1_secrets_of_96_bits)
{
	struct pair p;

	pair_config(&p, true);
	p.i.self.secret = iscsi_word("11 bytes it");
	EXPECT_EQ(chap_init(&p.initiator, &p.i, initiator_random), WEFT_R_ISCSI_CHAP_SECRET);
	p.i.allows_short = true;
	EXPECT_EQ(chap_init(&p.initiator, &p.i, initiator_random), WEFT_OK);
	p.i.self.secret = iscsi_word("");
	EXPECT_EQ(chap_init(&p.initiator, &p.i, initiator_random), WEFT_R_ISCSI_CHAP_SECRET);
	p.known[0].secret = iscsi_word("11 bytes it");
	EXPECT_EQ(chap_init(&p.target, &p.t, target_random), WEFT_R_ISCSI_CHAP_SECRET);
	p.known[0].secret = iscsi_word("12 bytes it!");
	EXPECT_EQ(chap_init(&p.target, &p.t, target_random), WEFT_OK);
	p.known[0].secret.length = 256;
	EXPECT_EQ(chap_init(&p.target, &p.t, target_random), WEFT_R_ISCSI_CHAP_SECRET);
}

TEST(test_rfc7143_9_2_1_one_secret_for_both_directions)
{
	struct pair p;

	pair_config(&p, true);
	p.target_known.secret = p.i.self.secret;
	EXPECT_EQ(chap_init(&p.initiator, &p.i, initiator_random), WEFT_R_ISCSI_CHAP_SAME_SECRET);
	p.t.self.secret = iscsi_word("secret of twelve");
	EXPECT_EQ(chap_init(&p.target, &p.t, target_random), WEFT_R_ISCSI_CHAP_SAME_SECRET);
}

TEST(test_rfc7143_9_2_1_challenge_comes_back)
{
	struct pair p;
	struct text t;

	pair_config(&p, true);
	pair_init(&p);
	EXPECT_EQ(take(&p.target, say(&p.initiator)), WEFT_OK);
	t = say(&p.target);
	/* To the target, beside a good response. */
	EXPECT_EQ(take(&p.initiator, t), WEFT_OK);
	memcpy(p.initiator.challenge, p.target.challenge, CHAP_CHALLENGE_BYTES);
	EXPECT_EQ(take(&p.target, say(&p.initiator)), WEFT_R_ISCSI_CHAP_REFLECTED);
	/* To the initiator. */
	pair_init(&p);
	(void)say(&p.initiator);
	memcpy(p.initiator.challenge, target_random + 1, CHAP_CHALLENGE_BYTES);
	EXPECT_EQ(take(&p.initiator, t), WEFT_R_ISCSI_CHAP_REFLECTED);
}

static enum weft_reason judged(const char *name, const char *secret)
{
	struct pair p;

	pair_config(&p, false);
	p.i.self = account(name, secret);
	return take(&p.target, pair_response(&p));
}

TEST(test_rfc7143_12_1_3_wrong_name_or_secret)
{
	EXPECT_EQ(judged("alice", "secret of twelve"), WEFT_OK);
	EXPECT_EQ(judged("alice", "secret of twelvE"), WEFT_R_ISCSI_CHAP_FAILED);
	EXPECT_EQ(judged("Alice", "secret of twelve"), WEFT_R_ISCSI_CHAP_FAILED);
	EXPECT_EQ(judged("other", "secret of twelve"), WEFT_R_ISCSI_CHAP_FAILED);
	/* The secret that stands in for unknown names opens nothing. */
	EXPECT_EQ(judged("mallory", "no account has this"), WEFT_R_ISCSI_CHAP_FAILED);
}

/* The secret of unknown names, with its zero byte, as an attacker who read the source sends it. */
TEST(test_rfc7143_12_1_3_unknown_name_with_the_stand_in_secret)
{
	struct pair p;

	pair_config(&p, false);
	p.i.self = account("mallory", "no account has this");
	p.i.self.secret.length++;
	EXPECT_EQ(take(&p.target, pair_response(&p)), WEFT_R_ISCSI_CHAP_FAILED);
}

TEST(test_rfc7143_12_1_3_response_of_another_length)
{
	static const char *const bad[] = { "CHAP_R=0x", "CHAP_R=0x00", "CHAP_R=0", "CHAP_R=zz" };
	struct pair p;
	struct text t;

	pair_config(&p, false);
	p.t.algorithms = 1 << CHAP_MD5;
	for (int i = 0; i < 4; i++) {
		char pairs[64] = "CHAP_N=alice ";

		(void)pair_response(&p);
		EXPECT_EQ(take(&p.target, text_of(strcat(pairs, bad[i]))),
			  WEFT_R_ISCSI_CHAP_FAILED);
	}
	/* The right bytes, and one more. */
	t = pair_response(&p);
	memcpy(t.bytes + t.length - 1, "00", 3);
	t.length += 2;
	EXPECT_EQ(take(&p.target, t), WEFT_R_ISCSI_CHAP_FAILED);
}

TEST(test_rfc7143_12_1_3_initiator_does_not_trust_a_wrong_proof)
{
	struct pair p;

	pair_config(&p, true);
	p.t.self.secret = iscsi_word("secret of others");
	EXPECT_EQ(take(&p.target, pair_response(&p)), WEFT_OK);
	EXPECT_EQ(take(&p.initiator, say(&p.target)), WEFT_R_ISCSI_CHAP_FAILED);
	/* Or none. */
	EXPECT_EQ(take(&p.target, pair_response(&p)), WEFT_OK);
	EXPECT_EQ(take(&p.initiator, text_of("CHAP_N=disk")), WEFT_R_ISCSI_CHAP_ORDER);
	EXPECT(!chap_is_done(&p.initiator));
}

TEST(test_rfc7143_12_1_3_target_without_a_secret_cannot_prove_itself)
{
	struct pair p;

	pair_config(&p, true);
	p.t.self.name.length = 0;
	EXPECT_EQ(take(&p.target, pair_response(&p)), WEFT_R_ISCSI_AUTH_METHOD);
}

/* A response that was right once: the next login has another challenge. */
TEST(test_rfc7143_9_2_1_replayed_response)
{
	static const uint8_t next[CHAP_RANDOM_BYTES] = { 9, 4, 5, 7 };
	struct pair p;
	struct text seen;

	pair_config(&p, false);
	seen = pair_response(&p);
	EXPECT_EQ(chap_init(&p.target, &p.t, next), WEFT_OK);
	EXPECT_EQ(take(&p.target, text_of("CHAP_A=8")), WEFT_OK);
	(void)say(&p.target);
	EXPECT_EQ(take(&p.target, seen), WEFT_R_ISCSI_CHAP_FAILED);
	/* And a second try on the same challenge is none. */
	EXPECT_EQ(take(&p.target, seen), WEFT_R_ISCSI_CHAP_ORDER);
}

TEST(test_rfc7143_12_1_3_keys_missing_or_out_of_order)
{
	static const char *const challenges[] = {
		"CHAP_I=1 CHAP_C=0x01",	     "CHAP_A=5 CHAP_C=0x01",
		"CHAP_A=5 CHAP_I=1",	     "CHAP_A=5 CHAP_I=256 CHAP_C=0x01",
		"CHAP_A=5 CHAP_I=1 CHAP_C=", "CHAP_A=5 CHAP_I=x CHAP_C=0x01",
	};
	struct pair p;
	struct text t;

	pair_config(&p, true);
	for (size_t i = 0; i < sizeof(challenges) / sizeof(challenges[0]); i++) {
		pair_init(&p);
		(void)say(&p.initiator);
		EXPECT_EQ(take(&p.initiator, text_of(challenges[i])), WEFT_R_ISCSI_CHAP_ORDER);
	}
	pair_init(&p);
	EXPECT_EQ(take(&p.target, text_of("CHAP_N=alice CHAP_R=0x00")), WEFT_R_ISCSI_CHAP_ORDER);
	/* An initiator takes nothing before it has offered. */
	EXPECT_EQ(take(&p.initiator, text_of("CHAP_A=5 CHAP_I=1 CHAP_C=0x01")),
		  WEFT_R_ISCSI_CHAP_ORDER);
	(void)pair_response(&p);
	EXPECT_EQ(take(&p.target, text_of("CHAP_R=0x00")), WEFT_R_ISCSI_CHAP_ORDER);
	/* Half of a challenge beside a good response. */
	t = pair_response(&p);
	for (size_t i = 0; i + 6 < t.length; i++) {
		if (memcmp(t.bytes + i, "CHAP_I", 6) == 0)
			memcpy(t.bytes + i, "CHAP_J", 6);
	}
	EXPECT_EQ(take(&p.target, t), WEFT_R_ISCSI_CHAP_ORDER);
}

TEST(test_rfc7143_12_1_3_challenge_of_1024_bytes)
{
	for (int extra = 0; extra < 2; extra++) {
		struct pair p;
		struct text t = text_of("CHAP_A=5 CHAP_I=1 CHAP_C=0x");

		pair_config(&p, false);
		pair_init(&p);
		(void)say(&p.initiator);
		memset(t.bytes + t.length - 1, 'a', 2048 + 2);
		t.length += (size_t)(2048 + 2 * extra);
		t.bytes[t.length - 1] = 0;
		EXPECT_EQ(take(&p.initiator, t), extra ? WEFT_R_ISCSI_CHAP_ORDER : WEFT_OK);
	}
}
