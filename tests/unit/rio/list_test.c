/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of one sequence: what may follow what, limits, and the walk. */
#include "test.h"

#include <stdlib.h>

#include "list_fixture.h"
#include "rio/refusal.h"
#include "unit/wire/rio_fixture.h"

TEST(test_rio_13c_rio_14_rio_15_a_list_is_walked_by_transactions)
{
	struct text t;
	struct rio_list *l = list_of(rio_list_limits_default());
	struct sgl_transaction what;
	struct rio_segment s;
	struct rio_walk walk, mark;

	text_start(&t);
	put_transaction(&t, SGL_WRITE, 112); /* own memory, then 7.1, then data, then 8.1 */
	put_detail(&t, SGL_SOURCE, 1, false);
	put_platform(&t, 7);
	put_detail(&t, SGL_SOURCE, 10, false);
	put_immediate(&t, "a", false);
	put_platform(&t, 8);
	put_detail(&t, SGL_SOURCE, 100, true);
	put_transaction(&t, SGL_FLUSH, 0);
	put_read(&t, 5); /* still at 8.1 */
	put_last(&t);
	EXPECT_EQ(take(l, &t), WEFT_OK);
	EXPECT(rio_list_is_whole(l));
	EXPECT_EQ(rio_list_transactions(l), 3);
	EXPECT_EQ(rio_list_data_bytes(l), 117);

	rio_walk_start(&walk, l);
	EXPECT(!rio_walk_segment(&walk, &s)); /* none before the first transaction */
	EXPECT(rio_walk_transaction(&walk, &what));
	EXPECT_EQ(what.operation, SGL_WRITE);
	EXPECT_EQ(what.length, 112);
	mark = walk;
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_OWN && s.length == 1 && s.handle == 0xa1 && s.address == 0x1000);
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_REMOTE && s.length == 10 && s.platform.unit == 7);
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_IMMEDIATE && s.length == 1 && s.data[0] == 'a');
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_REMOTE && s.length == 100 && s.platform.unit == 8);
	EXPECT(s.platform.process == 1);
	EXPECT(!rio_walk_segment(&walk, &s));
	EXPECT(!rio_walk_segment(&walk, &s));
	EXPECT(rio_walk_transaction(&walk, &what));
	EXPECT_EQ(what.operation, SGL_FLUSH);
	EXPECT(!rio_walk_segment(&walk, &s));

	/* From the mark, without looking at the segments: platforms hold all the same. */
	EXPECT(rio_walk_transaction(&mark, &what));
	EXPECT_EQ(what.operation, SGL_FLUSH);
	EXPECT(rio_walk_transaction(&mark, &what));
	EXPECT_EQ(what.operation, SGL_READ);
	EXPECT(rio_walk_segment(&mark, &s));
	EXPECT(s.where == RIO_REMOTE && s.length == 5 && s.platform.unit == 8);
	EXPECT(!rio_walk_segment(&mark, &s));
	EXPECT(!rio_walk_transaction(&mark, &what));
	rio_list_destroy(l);
}

TEST(test_rio_12_rio_13_the_documented_list_is_good)
{
	uint8_t bytes[FIXTURE_LIST_BYTES];
	struct rio_list *l = list_of(rio_list_limits_default());
	struct sgl_transaction what;
	struct rio_segment s;
	struct rio_walk walk;

	fixture_list(bytes);
	EXPECT_EQ(take_bytes(l, bytes, sizeof(bytes)), WEFT_OK);
	rio_walk_start(&walk, l);
	EXPECT(rio_walk_transaction(&walk, &what));
	EXPECT(what.operation == SGL_READ && what.device == 3 && what.offset == 1 << 20);
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.platform.unit == 7 && s.length == 4096 && s.handle == 0xa105);
	EXPECT(rio_walk_segment(&walk, &s));
	EXPECT(s.platform.unit == 7 && s.length == 2048 && s.address == 0x7f0056780200);
	EXPECT(!rio_walk_segment(&walk, &s));
	rio_list_destroy(l);
}

/* Cut anywhere: inside an element it is short, between two it has no last element. */
TEST(test_rio_16_every_truncation_is_refused)
{
	uint8_t bytes[FIXTURE_LIST_BYTES];

	fixture_list(bytes);
	for (size_t n = 0; n < sizeof(bytes); n++) {
		struct rio_list *l = list_of(rio_list_limits_default());
		bool is_between = n == 0 || n == 8 || n == 20 || n == 48 || n == 72;

		EXPECT_EQ(take_bytes(l, bytes, n),
			  is_between ? WEFT_R_SGL_LAST_MISSING : WEFT_R_SGL_SHORT);
		rio_list_destroy(l);
	}
}

/* A list with one bit changed is refused, or it is that list and no other. */
TEST(test_rio_16_every_bit_matters)
{
	uint8_t bytes[FIXTURE_LIST_BYTES], flat[FIXTURE_LIST_BYTES];
	struct rio_list *l = list_of(rio_list_limits_default());

	fixture_list(bytes);
	for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		struct wr w = wr_of(flat, sizeof(flat));

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		rio_list_clear(l);
		if (take_bytes(l, bytes, sizeof(bytes)) == WEFT_OK) {
			EXPECT(rio_list_is_whole(l));
			rio_list_flat(l, &w);
			EXPECT(!w.is_short);
			EXPECT_MEM(flat, bytes, sizeof(bytes));
		}
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	rio_list_destroy(l);
}

TEST(test_rio_12_rio_16_last_is_there_once_and_at_the_end)
{
	struct text t;

	text_start(&t);
	put_read(&t, 5);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_LAST_MISSING);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_OK);
	put_read(&t, 5);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_LAST_EARLY);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_LAST_EARLY);

	text_start(&t); /* bytes behind it that are no element */
	put_read(&t, 5);
	put_last(&t);
	wr_u32(&t.w, 0);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_LAST_EARLY);
	text_start(&t); /* nothing at all */
	EXPECT_EQ(judge(&t), WEFT_R_SGL_LAST_MISSING);
}

TEST(test_rio_13a_rio_16_attributes_are_first_and_once)
{
	struct text t;

	text_start(&t);
	put_attributes(&t, 4);
	put_read(&t, 5);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_OK);

	text_start(&t);
	put_attributes(&t, 8);
	put_attributes(&t, 8);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_ATTRIBUTES_TWICE);
	text_start(&t);
	put_attributes(&t, 8);
	put_read(&t, 5);
	put_attributes(&t, 8);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_ATTRIBUTES_TWICE);
	text_start(&t);
	put_platform(&t, 7);
	put_attributes(&t, 8);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_ATTRIBUTES_PLACE);
	text_start(&t);
	put_chain(&t, 0, 64);
	put_attributes(&t, 8);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_ATTRIBUTES_PLACE);
	text_start(&t);
	put_read(&t, 5);
	put_attributes(&t, 8);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_ATTRIBUTES_PLACE);
}

TEST(test_rio_13a_absent_attributes_mean_8_byte_addresses)
{
	struct text t;

	text_start(&t);
	t.attributes.address_bytes = 4; /* without saying so */
	put_read(&t, 5);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_ELEMENT_LENGTH);
}

TEST(test_rio_15_a_request_has_a_transaction)
{
	struct text t;

	text_start(&t);
	put_platform(&t, 7);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_NO_TRANSACTION);
	text_start(&t);
	put_attributes(&t, 8);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_NO_TRANSACTION);
}

TEST(test_rio_15_segments_belong_to_a_transaction)
{
	struct text t;

	text_start(&t);
	put_detail(&t, SGL_RESULT, 5, true);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_OUTSIDE);
	text_start(&t);
	put_platform(&t, 7);
	put_immediate(&t, "data", true);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_OUTSIDE);
}

TEST(test_rio_15_segments_go_with_their_operation)
{
	for (int op = SGL_READ; op < SGL_OPERATION_COUNT; op++) {
		for (int kind = 0; kind < 3; kind++) {
			struct text t;
			bool is_good = op == SGL_READ ? kind == 1 : op == SGL_WRITE && kind != 1;

			text_start(&t);
			put_transaction(&t, (enum sgl_operation)op, op == SGL_FLUSH ? 0 : 4);
			if (kind == 2)
				put_immediate(&t, "data", true);
			else
				put_detail(&t, kind ? SGL_RESULT : SGL_SOURCE, 4, true);
			put_last(&t);
			EXPECT_EQ(judge(&t), is_good ? WEFT_OK : WEFT_R_SGL_SEGMENT);
		}
	}
}

TEST(test_rio_15_flush_zeroes_and_discard_need_no_segments)
{
	struct text t;

	text_start(&t);
	put_transaction(&t, SGL_FLUSH, 0);
	put_transaction(&t, SGL_WRITE_ZEROES, 4096);
	put_transaction(&t, SGL_DISCARD, 8192);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_OK);
}

TEST(test_rio_15_segments_add_up_to_their_transaction)
{
	for (int other = 0; other < 2; other++) {
		for (uint32_t length = 1; length < 12; length++) {
			struct text t;
			enum weft_reason want = length == 7 ? WEFT_OK : WEFT_R_SGL_SUM;

			text_start(&t);
			put_transaction(&t, SGL_WRITE, length);
			put_immediate(&t, "abc", false);
			put_detail(&t, SGL_SOURCE, 4, true);
			if (other) /* found at the next transaction, or at the end */
				put_transaction(&t, SGL_FLUSH, 0);
			put_last(&t);
			EXPECT_EQ(judge(&t), want);
		}
	}
}

/* By the first segment too many: what follows is not looked at. */
TEST(test_rio_15_a_segment_beyond_its_transaction_is_the_reason)
{
	struct text t;

	text_start(&t);
	put_transaction(&t, SGL_READ, 16);
	put_detail(&t, SGL_RESULT, 17, true);
	put_detail(&t, SGL_SOURCE, 1, true); /* a Read has no such segment */
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_SUM);
}

/* Far more than any transaction is long, by lengths that would add up to anything. */
TEST(test_rio_16_sums_do_not_overflow)
{
	struct text t;

	text_start(&t);
	put_transaction(&t, SGL_READ, 16);
	for (int i = 0; i < 100; i++)
		put_detail(&t, SGL_RESULT, UINT32_MAX, i == 99);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_SUM);

	text_start(&t);
	put_transaction(&t, SGL_DISCARD, UINT64_MAX);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_OK);
	text_start(&t);
	put_transaction(&t, SGL_DISCARD, UINT64_MAX);
	put_transaction(&t, SGL_DISCARD, 1);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_WRAP);
}

TEST(test_rio_15_reads_and_writes_have_one_buffer_or_more)
{
	struct text t;

	for (int ends = 0; ends < 8; ends++) {
		text_start(&t);
		put_transaction(&t, SGL_READ, 6);
		put_detail(&t, SGL_RESULT, 1, ends & 1);
		put_detail(&t, SGL_RESULT, 2, ends & 2);
		put_detail(&t, SGL_RESULT, 3, ends & 4);
		put_last(&t);
		EXPECT_EQ(judge(&t), ends & 4 ? WEFT_OK : WEFT_R_SGL_BUFFERS);
	}
	/* One that is left open ends nowhere else. */
	text_start(&t);
	put_transaction(&t, SGL_WRITE, 4);
	put_detail(&t, SGL_SOURCE, 4, false);
	put_transaction(&t, SGL_WRITE, 4);
	put_detail(&t, SGL_SOURCE, 4, true);
	put_last(&t);
	EXPECT_EQ(judge(&t), WEFT_R_SGL_BUFFERS);
}

/* Every refusal of an element by itself ends as a reason of its own. */
TEST(test_rio_16_every_refusal_of_wire_has_a_reason)
{
	for (int i = SGL_OK + 1; i < SGL_ERR_COUNT; i++) {
		enum weft_reason reason = refusal_of_sgl((enum sgl_err)i);

		EXPECT(reason >= WEFT_R_SGL_SHORT && reason <= WEFT_R_SGL_WRAP);
		for (int n = SGL_OK + 1; n < i; n++)
			EXPECT(reason != refusal_of_sgl((enum sgl_err)n));
		EXPECT_MEM(weft_reason_requirement(reason), "RIO-1", 5);
	}
	for (int i = RIO_MSG_OK + 1; i < RIO_MSG_ERR_COUNT; i++) {
		enum weft_reason reason = refusal_of_msg((enum rio_msg_err)i);

		EXPECT(reason >= WEFT_R_RIO_SHORT && reason <= WEFT_R_RIO_FORM);
	}
	EXPECT_EQ(refusal_of_sgl(SGL_OK), WEFT_OK);
	EXPECT_EQ(refusal_of_msg(RIO_MSG_OK), WEFT_OK);
	EXPECT_EQ(refusal_of_sgl(SGL_ERR_KIND), WEFT_R_SGL_KIND);
	EXPECT_EQ(refusal_of_msg(RIO_MSG_ERR_MAGIC), WEFT_R_RIO_MAGIC);
}

TEST(test_rio_16_limits_are_reached_and_not_passed)
{
	struct rio_list_limits limits = rio_list_limits_default();
	struct text t;

	EXPECT(limits.elements == 4096 && limits.transactions == 64);
	EXPECT(limits.chained == 16 && limits.bytes == 256 << 10);
	text_start(&t);
	put_read(&t, 5);
	put_read(&t, 5);
	put_last(&t);
	limits = (struct rio_list_limits){ 4, 2, 0, (uint32_t)text_bytes(&t) };
	EXPECT_EQ(judge_within(&t, limits), WEFT_OK);
	limits.elements = 3;
	EXPECT_EQ(judge_within(&t, limits), WEFT_R_SGL_ELEMENTS);
	limits.elements = 4;
	limits.transactions = 1;
	EXPECT_EQ(judge_within(&t, limits), WEFT_R_SGL_TRANSACTIONS);
	limits.transactions = 2;
	limits.bytes--;
	EXPECT_EQ(judge_within(&t, limits), WEFT_R_SGL_BYTES);
	limits = (struct rio_list_limits){ 0 };
	EXPECT_EQ(judge_within(&t, limits), WEFT_R_SGL_BYTES);
}

/* As many tiny elements as there may be, and one more. */
TEST(test_rio_16_thousands_of_tiny_elements)
{
	const struct sgl_attributes in = sgl_attributes_default();
	const uint32_t max = rio_list_limits_default().elements;
	uint8_t *bytes = malloc(256 << 10);

	REQUIRE(bytes);
	for (uint32_t count = max - 1; count <= max + 1; count++) {
		struct rio_list *l = list_of(rio_list_limits_default());
		struct wr w = wr_of(bytes, 256 << 10);
		struct sgl_element e = { .kind = SGL_TRANSACTION,
					 .transaction = { SGL_WRITE, false, 3, 0, count - 1 } };

		sgl_put(&e, &in, &w);
		for (uint32_t i = 1; i < count; i++) {
			bool is_end = i == count - 1;

			e = (struct sgl_element){ .kind = SGL_IMMEDIATE,
						  .is_last = is_end,
						  .immediate = { is_end, 1, bytes } };
			sgl_put(&e, &in, &w);
		}
		EXPECT(!w.is_short);
		EXPECT_EQ(rio_list_take(l, bytes, (size_t)(w.at - bytes)),
			  count > max ? WEFT_R_SGL_ELEMENTS : WEFT_OK);
		rio_list_destroy(l);
	}
	free(bytes);
}

/* ---- To be handed on ------------------------------------------------------------------------ */

TEST(test_rio_02e_a_list_is_handed_on_without_attributes_and_with_other_device_numbers)
{
	uint8_t body[TEXT_BYTES_MAX];
	struct rio_list *l = list_of(rio_list_limits_default());
	struct sgl_attributes attributes;
	struct sgl_transaction transaction;
	struct rio_segment segment;
	struct rio_walk walk;
	struct text t;
	struct wr w;

	text_start(&t);
	put_attributes(&t, 4);
	put_platform(&t, 7);
	put_read(&t, 512);
	put_transaction(&t, SGL_FLUSH, 0);
	put_last(&t);
	REQUIRE(take(l, &t) == WEFT_OK);
	EXPECT(rio_list_attributes(l, &attributes));
	EXPECT_EQ(attributes.address_bytes, 4);
	EXPECT_EQ(rio_list_body_bytes(l), text_bytes(&t) - 8);
	w = wr_of(body, text_bytes(&t) - 9);
	rio_list_body(l, &w);
	EXPECT(w.is_short && w.at == body);
	w = wr_of(body, text_bytes(&t) - 8);
	rio_list_body(l, &w);
	EXPECT(!w.is_short && w.at == w.end);
	EXPECT_MEM(body, t.bytes + 8, text_bytes(&t) - 8);

	/* The fixture's device is 3. */
	rio_list_mask_devices(l, 2);
	rio_walk_start(&walk, l);
	for (int i = 0; i < 2; i++) {
		EXPECT(rio_walk_transaction(&walk, &transaction));
		EXPECT_EQ(transaction.device, 2U);
	}
	rio_walk_start(&walk, l);
	EXPECT(rio_walk_transaction(&walk, &transaction));
	EXPECT(transaction.operation == SGL_READ && transaction.length == 512);
	EXPECT(rio_walk_segment(&walk, &segment));
	EXPECT(segment.platform.unit == 7 && segment.handle == 0xa1);
	rio_list_clear(l);
	EXPECT(!rio_list_attributes(l, &attributes));
	EXPECT_EQ(attributes.address_bytes, 8);
	rio_list_destroy(l);
}
