/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists in several sequences. */
#include "test.h"

#include <string.h>

#include "list_fixture.h"

static bool wants_at(const struct rio_list *l, uint64_t address)
{
	struct sgl_chain chain = { 0 };

	return rio_list_wants(l, &chain) && chain.address == address && chain.handle == 0x55 &&
	       chain.platform.unit == 7 && chain.platform.process == 1;
}

/* The lengths of its transactions, which tell in which order the sequences were joined. */
static void expect_lengths(const struct rio_list *l, const char *digits)
{
	struct sgl_transaction what;
	struct rio_walk walk;

	REQUIRE(rio_list_is_whole(l));
	rio_walk_start(&walk, l);
	for (; *digits; digits++) {
		REQUIRE(rio_walk_transaction(&walk, &what));
		REQUIRE(what.length == (uint64_t)(*digits - '0'));
	}
	REQUIRE(!rio_walk_transaction(&walk, &what));
}

TEST(test_rio_13b_a_chained_sequence_follows_the_rest_of_its_own)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, second;
	struct sgl_chain chain;

	text_start(&second);
	put_read(&second, 2);
	put_last(&second);
	text_start(&first);
	put_attributes(&first, 8);
	put_chain(&first, 0x1000, text_bytes(&second));
	put_read(&first, 1);

	EXPECT(!rio_list_wants(l, &chain));
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT(!rio_list_is_whole(l));
	EXPECT(wants_at(l, 0x1000));
	EXPECT(rio_list_wants(l, &chain));
	EXPECT_EQ(chain.length, text_bytes(&second));
	EXPECT_EQ(take(l, &second), WEFT_OK);
	EXPECT(!rio_list_wants(l, &chain));
	expect_lengths(l, "12");
	rio_list_destroy(l);
}

/*
 * AMB-27: depth first. The first sequence chains a and b, a chains c and d, and c has nothing of
 * its own but a pointer to e.
 */
TEST(test_rio_13b_chained_sequences_may_chain)
{
	enum { A = 0x1000, B = 0x2000, C = 0x3000, D = 0x4000, E = 0x5000 };
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, a, b, c, d, e;

	text_start(&e);
	put_read(&e, 3);
	text_start(&d);
	put_read(&d, 4);
	text_start(&c);
	put_chain(&c, E, text_bytes(&e));
	text_start(&b);
	put_read(&b, 5);
	put_last(&b);
	text_start(&a);
	put_chain(&a, C, text_bytes(&c));
	put_chain(&a, D, text_bytes(&d));
	put_read(&a, 2);
	text_start(&first);
	put_chain(&first, A, text_bytes(&a));
	put_chain(&first, B, text_bytes(&b));
	put_read(&first, 1);

	for (int round = 0; round < 2; round++, rio_list_clear(l)) {
		EXPECT_EQ(take(l, &first), WEFT_OK);
		EXPECT(wants_at(l, A));
		EXPECT_EQ(take(l, &a), WEFT_OK);
		EXPECT(wants_at(l, C));
		EXPECT_EQ(take(l, &c), WEFT_OK);
		EXPECT(wants_at(l, E));
		EXPECT_EQ(take(l, &e), WEFT_OK);
		EXPECT(wants_at(l, D));
		EXPECT_EQ(take(l, &d), WEFT_OK);
		EXPECT(wants_at(l, B));
		EXPECT_EQ(take(l, &b), WEFT_OK);
		expect_lengths(l, "12345");
	}
	rio_list_destroy(l);
}

/* A transaction and a run of details go on over the border. */
TEST(test_rio_13b_rio_13c_a_platform_holds_in_the_next_sequence)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, second;
	struct sgl_transaction what;
	struct rio_segment s;
	struct rio_walk walk;

	text_start(&second);
	put_detail(&second, SGL_RESULT, 2, true);
	put_last(&second);
	text_start(&first);
	put_chain(&first, 0x1000, text_bytes(&second));
	put_platform(&first, 8);
	put_transaction(&first, SGL_READ, 3);
	put_detail(&first, SGL_RESULT, 1, false);
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT_EQ(take(l, &second), WEFT_OK);
	rio_walk_start(&walk, l);
	EXPECT(rio_walk_transaction(&walk, &what));
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_REMOTE && s.platform.unit == 8 && s.length == 1);
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_REMOTE && s.platform.unit == 8 && s.length == 2);
	EXPECT(!rio_walk_segment(&walk, &s));
	rio_list_destroy(l);
}

/* The first sequence's attributes are those of the whole list. */
TEST(test_rio_13a_rio_13b_attributes_hold_in_chained_sequences)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, second;

	text_start(&second);
	second.attributes.address_bytes = 4;
	put_read(&second, 2);
	put_last(&second);
	text_start(&first);
	put_attributes(&first, 4);
	put_chain(&first, 0x1000, text_bytes(&second));
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT_EQ(take(l, &second), WEFT_OK);
	expect_lengths(l, "2");

	/* They cannot be given there, neither again nor for the first time. */
	for (int given = 0; given < 2; given++) {
		rio_list_clear(l);
		text_start(&second);
		put_attributes(&second, 8);
		put_read(&second, 2);
		put_last(&second);
		text_start(&first);
		if (given)
			put_attributes(&first, 8);
		put_chain(&first, 0x1000, text_bytes(&second));
		EXPECT_EQ(take(l, &first), WEFT_OK);
		EXPECT_EQ(take(l, &second),
			  given ? WEFT_R_SGL_ATTRIBUTES_TWICE : WEFT_R_SGL_ATTRIBUTES_PLACE);
	}
	rio_list_destroy(l);
}

TEST(test_rio_13b_chain_pointers_are_one_run_at_the_start)
{
	struct text t;

	text_start(&t);
	put_read(&t, 5);
	put_chain(&t, 0x1000, 64);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_CHAIN_PLACE);
	text_start(&t);
	put_chain(&t, 0x1000, 64);
	put_platform(&t, 7);
	put_chain(&t, 0x2000, 64);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_CHAIN_PLACE);
	text_start(&t);
	put_attributes(&t, 8);
	put_chain(&t, 0x1000, 64);
	put_chain(&t, 0x2000, 64);
	EXPECT_EQ(judge(&t), WEFT_OK); /* so far */
}

TEST(test_rio_12_rio_13b_last_is_in_the_last_sequence)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, second;

	text_start(&first); /* a pointer is never the last element */
	put_chain(&first, 0x1000, 64);
	put_last(&first);
	EXPECT_EQ(judge(&first), WEFT_R_SGL_LAST_EARLY);
	text_start(&first); /* one is still to be fetched */
	put_chain(&first, 0x1000, 64);
	put_read(&first, 1);
	put_last(&first);
	EXPECT_EQ(judge(&first), WEFT_R_SGL_LAST_EARLY);

	text_start(&second); /* of two the first says so */
	put_read(&second, 2);
	put_last(&second);
	text_start(&first);
	put_chain(&first, 0x1000, text_bytes(&second));
	put_chain(&first, 0x2000, text_bytes(&second));
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT_EQ(take(l, &second), WEFT_R_SGL_LAST_EARLY);

	rio_list_clear(l); /* no element has the Last flag */
	text_start(&second);
	put_read(&second, 2);
	text_start(&first);
	put_chain(&first, 0x1000, text_bytes(&second));
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT_EQ(take(l, &second), WEFT_R_SGL_LAST_MISSING);
	rio_list_destroy(l);
}

TEST(test_rio_16_chain_loops_are_refused)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, second;

	text_start(&second); /* to itself */
	put_chain(&second, 0x1000, 64);
	text_start(&first);
	put_chain(&first, 0x1000, text_bytes(&second));
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT_EQ(take(l, &second), WEFT_R_SGL_CHAIN_LOOP);

	rio_list_clear(l); /* to what is still to come */
	text_start(&second);
	put_chain(&second, 0x2000, 64);
	text_start(&first);
	put_chain(&first, 0x1000, text_bytes(&second));
	put_chain(&first, 0x2000, 64);
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT_EQ(take(l, &second), WEFT_R_SGL_CHAIN_LOOP);
	rio_list_destroy(l);

	text_start(&first); /* twice the same */
	put_chain(&first, 0x1000, 64);
	put_chain(&first, 0x1000, 64);
	EXPECT_EQ(judge(&first), WEFT_R_SGL_CHAIN_LOOP);
}

/* One byte in common is a loop; side by side is none. The very top of the space is no exception. */
TEST(test_rio_16_chained_buffers_do_not_overlap)
{
	static const uint64_t bases[] = { 0x1000, UINT64_MAX - 191 };

	for (int i = 0; i < 2; i++) {
		for (int64_t away = -72; away <= 72; away += 4) {
			bool is_apart = away <= -64 || away >= 64;
			struct text t;

			text_start(&t);
			put_chain(&t, bases[i] + 64, 64);
			put_chain(&t, bases[i] + 64 + (uint64_t)away, 64);
			/* Beyond the end of the space it is refused before. */
			if (i == 1 && away > 64)
				EXPECT_EQ(judge(&t), WEFT_R_SGL_WRAP);
			else
				EXPECT_EQ(judge(&t), is_apart ? WEFT_OK : WEFT_R_SGL_CHAIN_LOOP);
		}
	}
}

/* The same address under another handle, or in another process, is another place. */
TEST(test_rio_14_rio_16_places_have_platform_handle_and_address)
{
	for (int other = 0; other < 3; other++) {
		const struct sgl_attributes in = sgl_attributes_default();
		struct sgl_element e = { .kind = SGL_CHAIN,
					 .chain = { { 7, 1 }, 0x55, 64, 0x1000 } };
		struct text t;

		text_start(&t);
		sgl_put(&e, &in, &t.w);
		e.chain.platform.unit += other == 0;
		e.chain.platform.process += other == 1;
		e.chain.handle += other == 2;
		sgl_put(&e, &in, &t.w);
		EXPECT_EQ(judge(&t), WEFT_OK);
	}
}

TEST(test_rio_16_chained_sequences_are_limited)
{
	struct rio_list_limits limits = rio_list_limits_default();
	struct text t;

	text_start(&t);
	for (uint32_t i = 0; i < limits.chained; i++)
		put_chain(&t, 0x1000 * i, 64);
	EXPECT_EQ(judge(&t), WEFT_OK);
	put_chain(&t, 0x100000, 64);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_CHAINED);
	limits.chained = 0;
	EXPECT_EQ(judge_within(&t, limits), WEFT_R_SGL_CHAINED);
}

/* A chain that goes on and on, each one leading to the next, ends at the limit. */
TEST(test_rio_16_an_endless_chain_ends)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	enum weft_reason reason = WEFT_OK;
	uint32_t taken = 0;
	struct sgl_chain chain;
	struct text t;

	do {
		text_start(&t);
		put_chain(&t, 0x1000 * (taken + 1), 28);
		reason = take(l, &t);
		taken++;
	} while (!reason && rio_list_wants(l, &chain));
	EXPECT_EQ(reason, WEFT_R_SGL_CHAINED);
	EXPECT_EQ(taken, rio_list_limits_default().chained + 1);
	rio_list_destroy(l);
}

/* What is announced counts at once: nothing is fetched of a list that is too long. */
TEST(test_rio_16_bytes_are_limited_before_they_are_fetched)
{
	struct rio_list_limits limits = rio_list_limits_default();
	struct text t;

	text_start(&t);
	put_chain(&t, 0x1000, 64);
	put_chain(&t, 0x2000, 128);
	limits.bytes = (uint32_t)text_bytes(&t) + 192;
	EXPECT_EQ(judge_within(&t, limits), WEFT_OK);
	limits.bytes--;
	EXPECT_EQ(judge_within(&t, limits), WEFT_R_SGL_BYTES);
	text_start(&t);
	put_chain(&t, 0x1000, UINT32_MAX - 3);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_BYTES);
}

TEST(test_rio_16_elements_and_transactions_count_over_all_sequences)
{
	struct rio_list_limits limits = rio_list_limits_default();
	struct text first, second;

	text_start(&second);
	put_read(&second, 2);
	put_last(&second);
	text_start(&first);
	put_chain(&first, 0x1000, text_bytes(&second));
	put_read(&first, 1);
	for (int i = 0; i < 3; i++) {
		static const enum weft_reason want[] = { WEFT_OK, WEFT_R_SGL_ELEMENTS,
							 WEFT_R_SGL_TRANSACTIONS };
		struct rio_list *l;

		limits.elements = i == 1 ? 4 : 5;
		limits.transactions = i == 2 ? 1 : 2;
		l = list_of(limits);
		EXPECT_EQ(take(l, &first), WEFT_OK);
		EXPECT_EQ(take(l, &second), want[i]);
		rio_list_destroy(l);
	}
}

/* Every truncation of what is chained, the pointer being true to it. */
TEST(test_rio_16_every_truncation_of_a_chained_sequence_is_refused)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, second;

	text_start(&second);
	put_platform(&second, 7);
	put_read(&second, 2);
	put_read(&second, 2);
	put_last(&second);
	for (size_t n = 4; n < text_bytes(&second); n += 4) {
		bool is_between = n == 12 || n == 40 || n == 64 || n == 92;

		rio_list_clear(l);
		text_start(&first);
		put_chain(&first, 0x1000, n);
		EXPECT_EQ(take(l, &first), WEFT_OK);
		EXPECT_EQ(take_bytes(l, second.bytes, n),
			  is_between ? WEFT_R_SGL_LAST_MISSING : WEFT_R_SGL_SHORT);
	}
	rio_list_destroy(l);
}

/* In one sequence it is the same list. */
TEST(test_rio_13b_a_list_can_be_passed_on_without_its_chains)
{
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text first, second, want;
	uint8_t bytes[TEXT_BYTES_MAX], before[TEXT_BYTES_MAX];

	text_start(&second);
	second.attributes.address_bytes = 4;
	put_detail(&second, SGL_RESULT, 2, true);
	put_last(&second);
	text_start(&first);
	put_attributes(&first, 4);
	put_chain(&first, 0x1000, text_bytes(&second));
	put_transaction(&first, SGL_READ, 2);
	EXPECT_EQ(take(l, &first), WEFT_OK);
	EXPECT_EQ(take(l, &second), WEFT_OK);

	text_start(&want);
	put_attributes(&want, 4);
	put_read(&want, 2);
	put_last(&want);
	EXPECT_EQ(rio_list_flat_bytes(l), text_bytes(&want));
	for (size_t room = 0; room <= text_bytes(&want); room++) {
		struct wr w = wr_of(bytes, room);

		memset(bytes, 0xee, sizeof(bytes));
		memset(before, 0xee, sizeof(before));
		rio_list_flat(l, &w);
		EXPECT_EQ(w.is_short, room < text_bytes(&want));
		EXPECT_MEM(bytes, w.is_short ? before : want.bytes, text_bytes(&want));
	}
	EXPECT_EQ(judge(&want), WEFT_OK);
	rio_list_destroy(l);
}

/*
 * The first elements are kept as they were decoded, the others are not: walks do not differ, over
 * sequences that were moved together, and after device numbers have changed.
 */
TEST(test_rio_13b_rio_14_a_walk_finds_all_of_a_long_list)
{
	enum { EACH = 13 }; /* more than are kept, in both */
	struct rio_list *l = list_of(rio_list_limits_default());
	struct text parts[2];

	for (int part = 1; part >= 0; part--) {
		text_start(&parts[part]);
		parts[part].attributes.address_bytes = 4;
		if (part == 0) {
			put_attributes(&parts[0], 4);
			put_chain(&parts[0], 0x1000, text_bytes(&parts[1]));
		}
		for (int i = 0; i < EACH; i++) {
			const char data[] = { (char)('a' + part * EACH + i), '\0' };

			put_platform(&parts[part], (uint32_t)(part * EACH + i + 1));
			put_transaction(&parts[part], SGL_WRITE, 3);
			put_immediate(&parts[part], data, false);
			put_detail(&parts[part], SGL_SOURCE, 2, true);
		}
	}
	put_last(&parts[1]);
	EXPECT_EQ(take(l, &parts[0]), WEFT_OK);
	EXPECT_EQ(take(l, &parts[1]), WEFT_OK);
	for (uint32_t device = 3; device >= 2; device--) { /* the fixture's is 3 */
		struct sgl_transaction what;
		struct rio_segment s;
		struct rio_walk walk;

		rio_walk_start(&walk, l);
		for (uint32_t i = 0; i < 2 * EACH; i++) {
			EXPECT(rio_walk_transaction(&walk, &what));
			EXPECT(what.device == device && what.length == 3);
			EXPECT(rio_walk_segment(&walk, &s));
			EXPECT(s.where == RIO_IMMEDIATE && s.length == 1);
			EXPECT_EQ(s.data[0], 'a' + i);
			EXPECT(rio_walk_segment(&walk, &s));
			EXPECT(s.where == RIO_REMOTE && s.platform.unit == i + 1 && s.length == 2);
			EXPECT(!rio_walk_segment(&walk, &s));
		}
		EXPECT(!rio_walk_transaction(&walk, &what));
		rio_list_mask_devices(l, 2);
	}
	rio_list_destroy(l);
}
