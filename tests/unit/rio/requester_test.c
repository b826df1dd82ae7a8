/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/requester.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "unit/rio/asker_fixture.h"

enum { LIST_MAX = RIO_REQUEST_LIST_MAX, DEVICE = ASKER_DEVICE, TAG = ASKER_TAG };

static const struct platform self = { ASKER, 1 }, other = { 9, 4 };

/* ---- Windows and lists ---------------------------------------------------------------------- */

TEST(test_rio_02a_each_fragment_is_exposed_by_a_window_of_its_own)
{
	const struct rio_fragment f[] = { asker_own(0x10000, 4096), asker_own(0x40200, 2048) };
	struct rio_wanted what = asker_wanted(SGL_READ, f, 2);
	struct asker_world w;
	uint64_t id;

	for (int is_write = 0; is_write < 2; is_write++) {
		what.is.operation = is_write ? SGL_WRITE : SGL_READ;
		asker_open(&w, 4, LIST_MAX);
		w.is_slow = true;
		EXPECT_EQ(asker_ask(&w, &what, 1, &id), WEFT_OK);
		asker_run(&w);
		EXPECT_EQ(w.opened, 2U);
		for (uint32_t i = 0; i < 2; i++) {
			const struct pane_of *p = &w.panes[i];

			EXPECT_EQ(p->state, PANE_ASKED);
			EXPECT_EQ(p->tag, (uint32_t)TAG);
			EXPECT_EQ(p->address, f[i].address);
			EXPECT_EQ(p->length, f[i].length);
			EXPECT_EQ(p->is_written, !is_write);
		}
		EXPECT_EQ(w.heard_count, 0U);
		asker_expose(&w, 1, WEFT_OK); /* in any order */
		asker_run(&w);
		EXPECT_EQ(w.heard_count, 0U);
		asker_expose(&w, 0, WEFT_OK);
		asker_run(&w);
		EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
		EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->id, id);
		EXPECT(asker_list_is_open(&w, asker_latest(&w, RIO_REQUEST)));
		asker_close(&w);
	}
}

TEST(test_rio_02a_nothing_of_the_ask_is_needed_afterwards)
{
	struct rio_fragment f[] = { asker_own(0x10000, 4096), asker_own(0x40200, 2048) };
	struct rio_wanted what[] = { asker_wanted(SGL_READ, f, 2),
				     { .is = asker_transaction(SGL_WRITE, 5) } };
	uint8_t data[] = "hello";
	struct rio_list *list;
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	what[1].immediate = data;
	EXPECT_EQ(asker_ask(&w, what, 2, &id), WEFT_OK);
	memset(f, 0xff, sizeof(f));
	memset(what, 0xff, sizeof(what));
	memset(data, 0xff, sizeof(data));
	asker_run(&w);
	EXPECT(asker_list_is_open(&w, asker_latest(&w, RIO_REQUEST)));
	list = asker_list(&w, asker_latest(&w, RIO_REQUEST));
	rio_walk_start(&walk, list);
	EXPECT(rio_walk_transaction(&walk, &t) && t.length == 4096 + 2048);
	EXPECT(rio_walk_transaction(&walk, &t) && t.length == 5 && t.operation == SGL_WRITE);
	EXPECT(rio_walk_segment(&walk, &s) && s.where == RIO_IMMEDIATE && s.length == 5);
	EXPECT_MEM(s.data, "hello", 5);
	rio_list_destroy(list);
	asker_close(&w);
}

/* RIO-13a, RIO-12: element by element. */
TEST(test_rio_02b_the_list_names_platform_handles_addresses_and_lengths)
{
	const struct rio_fragment f[] = { asker_own(0x7f0012340000, 4096),
					  asker_own(0x7f0056780200, 2048) };
	const struct rio_wanted what = asker_wanted(SGL_READ, f, 2);
	const struct sgl_attributes in = sgl_attributes_default();
	const struct heard *h;
	struct asker_world w;
	struct sgl_element e;
	struct rd r;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(asker_ask(&w, &what, 1, &id), WEFT_OK);
	asker_run(&w);
	h = asker_latest(&w, RIO_REQUEST);
	r = rd_of(h->list, h->length);
	EXPECT_EQ(sgl_next(&e, &r, &in), SGL_OK);
	EXPECT(e.kind == SGL_ATTRIBUTES && e.attributes.address_bytes == 8);
	EXPECT(e.attributes.context_bytes == 4 && e.attributes.page_shift == 12 && !e.is_last);
	EXPECT_EQ(sgl_next(&e, &r, &in), SGL_OK);
	EXPECT(e.kind == SGL_TRANSACTION && e.transaction.operation == SGL_READ);
	EXPECT(e.transaction.device == DEVICE && e.transaction.offset == 1 << 20);
	EXPECT(e.transaction.length == 6144 && !e.transaction.is_fua);
	EXPECT_EQ(sgl_next(&e, &r, &in), SGL_OK);
	EXPECT(e.kind == SGL_PLATFORM && platform_is_same(e.platform, self));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(sgl_next(&e, &r, &in), SGL_OK);
		EXPECT(e.kind == SGL_DETAIL && e.detail.role == SGL_RESULT);
		EXPECT_EQ(e.detail.handle, w.panes[i].handle);
		EXPECT_EQ(e.detail.address, f[i].address);
		EXPECT_EQ(e.detail.length, f[i].length);
		EXPECT_EQ(e.detail.ends_buffer, i == 1);
		EXPECT_EQ(e.is_last, i == 1);
	}
	EXPECT(r.at == r.end);
	asker_close(&w);
}

static uint32_t count_kind(const struct heard *h, enum sgl_kind kind)
{
	const struct sgl_attributes in = sgl_attributes_default();
	struct rd r = rd_of(h->list, h->length);
	struct sgl_element e;
	uint32_t count = 0;

	while (r.at != r.end) {
		REQUIRE(sgl_next(&e, &r, &in) == SGL_OK);
		count += e.kind == kind;
	}
	return count;
}

TEST(test_rio_13c_a_run_of_fragments_names_its_platform_once)
{
	struct rio_fragment f[] = { asker_own(0x10000, 512), asker_own(0x20000, 512),
				    asker_own(0x30000, 512) };
	const struct rio_wanted what[] = { asker_wanted(SGL_READ, f, 3),
					   asker_wanted(SGL_WRITE, f, 2) };
	struct asker_world w;
	uint64_t id;

	f[1].platform = self; /* which is the same as none */
	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(asker_ask(&w, what, 2, &id), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(count_kind(asker_latest(&w, RIO_REQUEST), SGL_PLATFORM), 1U);
	EXPECT_EQ(count_kind(asker_latest(&w, RIO_REQUEST), SGL_ATTRIBUTES), 1U);
	EXPECT_EQ(count_kind(asker_latest(&w, RIO_REQUEST), SGL_DETAIL), 5U);
	EXPECT_EQ(w.opened, 5U);
	EXPECT(asker_list_is_open(&w, asker_latest(&w, RIO_REQUEST)));
	asker_close(&w);
}

/* What others have exposed is named by platform, handle and address, and is not ours to open. */
TEST(test_mem_13_fragments_of_other_platforms_keep_their_handles)
{
	struct rio_fragment f[] = { asker_own(0x10000, 512), asker_own(0x20000, 512),
				    asker_own(0x30000, 512), asker_own(0x40000, 512) };
	struct rio_wanted what = asker_wanted(SGL_WRITE, f, 4);
	struct rio_list *list;
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct asker_world w;
	uint64_t id;

	f[1].platform = other;
	f[1].tag = 0xabc;
	f[2].platform = other;
	f[2].tag = 0xabd;
	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(asker_ask(&w, &what, 1, &id), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.opened, 2U);
	EXPECT_EQ(count_kind(asker_latest(&w, RIO_REQUEST), SGL_PLATFORM), 3U);
	list = asker_list(&w, asker_latest(&w, RIO_REQUEST));
	rio_walk_start(&walk, list);
	EXPECT(rio_walk_transaction(&walk, &t));
	for (int i = 0; i < 4; i++) {
		EXPECT(rio_walk_segment(&walk, &s) && s.where == RIO_REMOTE);
		EXPECT(platform_is_same(s.platform, i == 1 || i == 2 ? other : self));
		EXPECT(i == 0 || i == 3 ? s.handle == w.panes[i == 3].handle
					: s.handle == f[i].tag);
		EXPECT_EQ(s.address, f[i].address);
	}
	EXPECT(!rio_walk_segment(&walk, &s));
	rio_list_destroy(list);
	asker_close(&w);
}

TEST(test_rio_15_a_request_holds_several_transactions_in_order)
{
	const struct rio_fragment f[] = { asker_own(0x10000, 512), asker_own(0x20000, 512) };
	struct rio_wanted what[] = { asker_wanted(SGL_WRITE, f, 2),
				     { .is = asker_transaction(SGL_WRITE_ZEROES, 4096) },
				     { .is = asker_transaction(SGL_DISCARD, 4096) },
				     { .is = { .operation = SGL_FLUSH, .device = DEVICE } },
				     asker_wanted(SGL_READ, f, 1) };
	struct sgl_transaction t;
	struct rio_walk walk;
	struct rio_list *list;
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	what[0].is.is_fua = true;
	EXPECT_EQ(asker_ask(&w, what, 5, &id), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.opened, 3U);
	list = asker_list(&w, asker_latest(&w, RIO_REQUEST));
	rio_walk_start(&walk, list);
	for (int i = 0; i < 5; i++) {
		EXPECT(rio_walk_transaction(&walk, &t));
		EXPECT_EQ(t.operation, what[i].is.operation);
		EXPECT_EQ(t.length, what[i].is.length);
		EXPECT_EQ(t.is_fua, i == 0);
	}
	rio_list_destroy(list);
	asker_close(&w);
}

/* Without memory of its own there is nothing to open, and it is asked for at once. */
TEST(test_rio_13d_immediate_data_travels_in_the_list)
{
	static const uint8_t data[513] = { 1, 2, 3, [512] = 9 };
	const struct rio_wanted what = { .is = asker_transaction(SGL_WRITE, sizeof(data)),
					 .immediate = data };
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct rio_list *list;
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(asker_ask(&w, &what, 1, &id), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.opened, 0U);
	list = asker_list(&w, asker_latest(&w, RIO_REQUEST));
	rio_walk_start(&walk, list);
	EXPECT(rio_walk_transaction(&walk, &t) && rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_IMMEDIATE && s.length == sizeof(data));
	EXPECT_MEM(s.data, data, sizeof(data));
	rio_list_destroy(list);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	asker_expect_ended(&w, id, 0);
	asker_close(&w);
}

/* ---- Long lists (RIO-13b) ------------------------------------------------------------------- */

TEST(test_rio_13b_a_list_that_does_not_fit_the_message_is_chained)
{
	static const uint32_t allowed[] = { LIST_MAX, 512, UINT32_MAX };
	struct asker_world w;
	uint64_t id;

	for (int i = 0; i < 3; i++) {
		uint32_t room = allowed[i] < LIST_MAX ? allowed[i] : LIST_MAX;
		const struct heard *h;

		asker_open(&w, 4, allowed[i]);
		EXPECT_EQ(asker_ask_long(&w, room - 48, &id), WEFT_OK); /* just fits */
		asker_run(&w);
		h = asker_latest(&w, RIO_REQUEST);
		EXPECT_EQ(h->length, room);
		EXPECT_EQ(count_kind(h, SGL_CHAIN), 0U);
		rio_list_destroy(asker_list(&w, h));
		EXPECT_EQ(asker_ask_long(&w, room - 48 + 1, &id), WEFT_OK); /* and this not */
		asker_run(&w);
		h = asker_latest(&w, RIO_REQUEST);
		EXPECT_EQ(h->length, 36U);
		EXPECT_EQ(count_kind(h, SGL_CHAIN), 1U);
		EXPECT_EQ(count_kind(h, SGL_ATTRIBUTES), 1U);
		rio_list_destroy(asker_list(&w, h));
		asker_close(&w);
	}
}

TEST(test_rio_13b_handles_are_written_into_chained_lists_too)
{
	struct asker_world w;
	uint64_t first, second;

	asker_open(&w, 4, 36); /* only a chain pointer fits */
	first = asker_read(&w, 3);
	second = asker_read(&w, 4);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT(asker_list_is_open(&w, &w.heard[0]));
	EXPECT(asker_list_is_open(&w, &w.heard[1]));
	EXPECT(memcmp(w.heard[0].list, w.heard[1].list, 36) != 0); /* two places */
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK);
	EXPECT_EQ(asker_status(&w, second, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT(asker_has_ended(&w) && asker_has_ended(&w) && rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_13b_a_slot_for_lists_is_used_until_the_owner_answers)
{
	struct asker_world w;
	uint64_t ids[ASKER_LISTS + 1];

	asker_open(&w, 4, 36);
	for (int i = 0; i < ASKER_LISTS; i++)
		EXPECT_EQ(asker_ask_long(&w, 100, &ids[i]), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_ask_long(&w, 100, &ids[2]), WEFT_R_BUSY);
	EXPECT_EQ(asker_status(&w, ids[1], WEFT_OK), WEFT_OK);
	asker_expect_ended(&w, ids[1], 0);
	EXPECT_EQ(asker_ask_long(&w, 100, &ids[2]), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 100, &ids[1]), WEFT_R_BUSY);
	asker_close(&w);
}

/* Whatever stood there next would be carried out in its name. */
TEST(test_rio_13b_the_list_of_a_request_that_was_given_up_is_kept)
{
	struct asker_world w;
	uint64_t ids[3];

	asker_open(&w, 4, 36);
	EXPECT_EQ(asker_ask_long(&w, 100, &ids[0]), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 100, &ids[1]), WEFT_OK);
	asker_run(&w);
	asker_wait(&w, (ASKER_TIMEOUT_MS + ASKER_GRACE_MS) * (uint64_t)NS_PER_MS);
	EXPECT(asker_has_ended(&w) && asker_has_ended(&w));
	EXPECT(!rio_requester_is_idle(w.q));
	EXPECT_EQ(asker_ask_long(&w, 100, &ids[2]), WEFT_R_BUSY);
	EXPECT_EQ(asker_status(&w, ids[0], WEFT_R_RIO_TIMEOUT), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 100, &ids[2]), WEFT_OK);
	rio_requester_owner_left(w.q);
	asker_run(&w);
	asker_expect_ended(&w, ids[2], WEFT_R_RIO_OWNER_LEFT);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* ---- What is refused here ------------------------------------------------------------------- */

TEST(test_rio_16_what_would_be_refused_is_refused_before_anything_is_opened)
{
	static const uint8_t data[16];
	struct rio_fragment f[] = { asker_own(0x10000, 4096), asker_own(0x20000, 4096) };
	struct rio_fragment empty[] = { asker_own(0x10000, 4096), asker_own(0x20000, 0) };
	struct rio_fragment wraps[] = { asker_own(UINT64_MAX - 4094, 4096) };
	struct rio_wanted two = asker_wanted(SGL_READ, f, 2), longer = two, shorter = two,
			  none = two;
	struct rio_wanted past = two, mixed = two, flushing = two, lost = two;
	struct rio_wanted reads_data = { .is = asker_transaction(SGL_READ, 16), .immediate = data };
	const struct {
		struct rio_wanted what;
		enum weft_reason reason;
	} cases[] = {
		{ (longer.is.length++, longer), WEFT_R_SGL_SUM },
		{ (shorter.is.length--, shorter), WEFT_R_SGL_SUM },
		{ (none.fragment_count = 0, none), WEFT_R_SGL_SUM },
		{ asker_wanted(SGL_READ, empty, 2), WEFT_R_SGL_EMPTY },
		{ asker_wanted(SGL_READ, wraps, 1), WEFT_R_SGL_WRAP },
		{ (past.is.offset = UINT64_MAX - 8191, past), WEFT_R_SGL_WRAP },
		{ { .is = asker_transaction(SGL_READ, 0) }, WEFT_R_SGL_EMPTY },
		{ { .is = asker_transaction(SGL_WRITE_ZEROES, 0) }, WEFT_R_SGL_EMPTY },
		{ { .is = asker_transaction(SGL_FLUSH, 1) }, WEFT_R_SGL_FLUSH },
		{ { .is = asker_transaction(SGL_OPERATION_COUNT, 1) }, WEFT_R_SGL_OPERATION },
		{ { .is = { .operation = SGL_READ, .is_fua = true, .length = 1 } },
		  WEFT_R_SGL_FLAGS },
		{ reads_data, WEFT_R_SGL_SEGMENT },
		{ (flushing.is = (struct sgl_transaction){ .operation = SGL_FLUSH }, flushing),
		  WEFT_R_SGL_SEGMENT },
		{ (mixed.immediate = data, mixed), WEFT_R_BAD_ARGUMENT },
		{ (lost.fragments = NULL, lost), WEFT_R_BAD_ARGUMENT },
		{ { .is = asker_transaction(SGL_WRITE, RIO_LIST_BYTES_MAX), .immediate = data },
		  WEFT_R_SGL_BYTES },
		{ { .is = asker_transaction(SGL_WRITE, UINT64_C(1) << 40), .immediate = data },
		  WEFT_R_SGL_BYTES },
	};
	struct asker_world w;
	uint64_t id = 5;

	asker_open(&w, 4, LIST_MAX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT_EQ(asker_ask(&w, &cases[i].what, 1, &id), cases[i].reason);
		EXPECT(rio_requester_is_idle(w.q));
		EXPECT(!asker_step(&w));
	}
	EXPECT_EQ(asker_ask(&w, NULL, 0, &id), WEFT_R_SGL_NO_TRANSACTION);
	EXPECT_EQ(id, 5U);
	EXPECT_EQ(rio_requester_due(w.q), UINT64_MAX);
	asker_close(&w);
}

TEST(test_rio_16_a_list_is_as_large_as_a_receiver_takes_and_no_larger)
{
	struct rio_wanted *what = calloc(65, sizeof(*what));
	struct rio_fragment *f = calloc(4097, sizeof(*f));
	struct asker_world w;
	struct rio_list *list;
	uint64_t id;

	REQUIRE(what && f);
	asker_open(&w, 8, LIST_MAX);
	for (uint32_t i = 0; i < 65; i++) {
		what[i].is = asker_transaction(SGL_DISCARD, 512);
		what[i].is.device += i; /* what is written is remembered for each */
	}
	EXPECT_EQ(asker_ask(&w, what, 65, &id), WEFT_R_SGL_TRANSACTIONS);
	EXPECT_EQ(asker_ask(&w, what, 64, &id), WEFT_OK);
	/* Attributes, chain pointer, transaction, platform: 4092 are left of the elements. */
	for (uint32_t i = 0; i < 4097; i++)
		f[i] = (struct rio_fragment){ other, 5, 512, i * UINT64_C(512) };
	what[0] = asker_wanted(SGL_READ, f, 4093);
	EXPECT_EQ(asker_ask(&w, what, 1, &id), WEFT_R_SGL_ELEMENTS);
	what[0] = asker_wanted(SGL_READ, f, 4097);
	EXPECT_EQ(asker_ask(&w, what, 1, &id), WEFT_R_SGL_ELEMENTS);
	what[0] = asker_wanted(SGL_READ, f, 4092);
	EXPECT_EQ(asker_ask(&w, what, 1, &id), WEFT_OK);
	/* Of the bytes: attributes, chain pointer, transaction, immediate header. */
	EXPECT_EQ(asker_ask_long(&w, RIO_LIST_BYTES_MAX - 76 + 1, &id), WEFT_R_SGL_BYTES);
	EXPECT_EQ(asker_ask_long(&w, RIO_LIST_BYTES_MAX - 76, &id), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.heard_count, 3U);
	for (uint32_t i = 0; i < 3; i++) {
		list = asker_list(&w, &w.heard[i]);
		rio_list_destroy(list);
	}
	asker_close(&w);
	free(what);
	free(f);
}

/* Lengths that add up to more than 64 bits, though each is good. */
TEST(test_rio_16_sums_do_not_wrap)
{
	const struct rio_wanted what[] = { { .is = { .operation = SGL_DISCARD,
						     .length = UINT64_MAX } },
					   { .is = { .operation = SGL_DISCARD, .length = 1 } } };
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(asker_ask(&w, what, 2, &id), WEFT_R_SGL_WRAP);
	EXPECT_EQ(asker_ask(&w, what, 1, &id), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_02a_more_than_there_is_room_for_is_busy_or_never_possible)
{
	struct rio_fragment f[ASKER_WINDOWS + 1];
	struct rio_wanted what;
	struct asker_world w;
	uint64_t id, first;

	asker_open(&w, 8, LIST_MAX);
	for (uint32_t i = 0; i < ASKER_WINDOWS + 1; i++)
		f[i] = asker_own(0x10000 + 0x1000 * i, 512);
	what = asker_wanted(SGL_READ, f, ASKER_WINDOWS + 1);
	EXPECT_EQ(asker_ask(&w, &what, 1, &id), WEFT_R_LIMIT);
	first = asker_read(&w, 1);
	what = asker_wanted(SGL_READ, f, ASKER_WINDOWS);
	EXPECT_EQ(asker_ask(&w, &what, 1, &id), WEFT_R_BUSY);
	what = asker_wanted(SGL_READ, f, ASKER_WINDOWS - 1);
	EXPECT_EQ(asker_ask(&w, &what, 1, &id), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 8, &id), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 8, &id), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 8, &id), WEFT_R_BUSY); /* no request is left */
	asker_run(&w);
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 8, &id), WEFT_R_BUSY); /* it has not ended yet */
	asker_run(&w);
	EXPECT_EQ(asker_ask_long(&w, 8, &id), WEFT_R_BUSY); /* nor was that taken */
	asker_expect_ended(&w, first, 0);
	EXPECT_EQ(asker_ask_long(&w, 8, &id), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_02c_an_owner_without_room_for_a_chain_pointer_is_asked_for_nothing_long)
{
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, 35);
	EXPECT_EQ(asker_ask_long(&w, 8, &id), WEFT_R_SGL_BYTES);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02a_a_requester_has_limits)
{
	uint8_t byte[1];
	struct rio_requester *q;

	for (int i = 0; i < 8; i++) {
		struct rio_requester_config c = asker_config(byte);

		c.self.unit = i == 0 ? 0 : c.self.unit;
		c.requests_max = i == 1 ? 0 : c.requests_max;
		c.sges_max = i == 2 ? 0 : c.sges_max;
		c.iounits_max = i == 3 ? 0 : c.iounits_max;
		c.lists_max = i == 4 ? 0 : c.lists_max;
		c.lists = i == 5 ? NULL : c.lists;
		c.timeout_ns = i == 6 ? 0 : c.timeout_ns;
		c.devices_max = i == 7 ? 0 : c.devices_max;
		EXPECT_EQ(rio_requester_create(&c, &q), WEFT_R_BAD_ARGUMENT);
	}
}
