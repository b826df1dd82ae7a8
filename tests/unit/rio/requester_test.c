/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/requester.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "unit/rio/asker_fixture.h"

enum { DEVICE = 0x10003, LIST_MAX = 8144, TAG = 0x77 };

static const struct platform self = { ASKER, 1 }, other = { 9, 4 };

static struct rio_fragment own(uint64_t address, uint32_t length)
{
	return (struct rio_fragment){ .tag = TAG, .length = length, .address = address };
}

static struct sgl_transaction transaction(enum sgl_operation operation, uint64_t length)
{
	return (struct sgl_transaction){
		.operation = operation, .device = DEVICE, .offset = 1 << 20, .length = length
	};
}

static struct rio_wanted wanted(enum sgl_operation operation, const struct rio_fragment *f,
				uint32_t count)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < count; i++)
		length += f[i].length;
	return (struct rio_wanted){ .is = transaction(operation, length),
				    .fragments = f,
				    .fragment_count = count };
}

static enum weft_reason ask(struct asker_world *w, const struct rio_wanted *what, uint32_t count,
			    uint64_t *id)
{
	const struct rio_ask a = { .wanted = what, .count = count, .context = w };

	return rio_requester_ask(w->q, &a, w->now_ns, id);
}

/* Reads into so many fragments of 4 KiB. */
static uint64_t read_into(struct asker_world *w, uint32_t fragments)
{
	struct rio_fragment f[ASKER_WINDOWS];
	struct rio_wanted what;
	uint64_t id;

	for (uint32_t i = 0; i < fragments; i++)
		f[i] = own(0x10000 + i * 0x2000, 4096);
	what = wanted(SGL_READ, f, fragments);
	REQUIRE(ask(w, &what, 1, &id) == WEFT_OK);
	return id;
}

/* It has ended, so; and nothing else has. */
static void expect_ended(struct asker_world *w, uint64_t id, uint32_t reason)
{
	struct rio_ended e;

	REQUIRE(rio_requester_ended(w->q, &e));
	REQUIRE(e.id == id);
	REQUIRE(e.reason == reason);
	REQUIRE(e.context == w);
	REQUIRE(!rio_requester_ended(w->q, &e));
}

static bool has_ended(struct asker_world *w)
{
	struct rio_ended e;

	return rio_requester_ended(w->q, &e);
}

/* The first of the windows that are to be opened. */
static uint32_t pane_asked(const struct asker_world *w)
{
	uint32_t i = 0;

	while (i < ASKER_WINDOWS && w->panes[i].state != PANE_ASKED)
		i++;
	REQUIRE(i < ASKER_WINDOWS);
	return i;
}

/* ---- Windows and lists ---------------------------------------------------------------------- */

TEST(test_rio_02a_each_fragment_is_exposed_by_a_window_of_its_own)
{
	const struct rio_fragment f[] = { own(0x10000, 4096), own(0x40200, 2048) };
	struct rio_wanted what = wanted(SGL_READ, f, 2);
	struct asker_world w;
	uint64_t id;

	for (int is_write = 0; is_write < 2; is_write++) {
		what.is.operation = is_write ? SGL_WRITE : SGL_READ;
		asker_open(&w, 4, LIST_MAX);
		w.is_slow = true;
		EXPECT_EQ(ask(&w, &what, 1, &id), WEFT_OK);
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
	struct rio_fragment f[] = { own(0x10000, 4096), own(0x40200, 2048) };
	struct rio_wanted what[] = { wanted(SGL_READ, f, 2), { .is = transaction(SGL_WRITE, 5) } };
	uint8_t data[] = "hello";
	struct rio_list *list;
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	what[1].immediate = data;
	EXPECT_EQ(ask(&w, what, 2, &id), WEFT_OK);
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
	const struct rio_fragment f[] = { own(0x7f0012340000, 4096), own(0x7f0056780200, 2048) };
	const struct rio_wanted what = wanted(SGL_READ, f, 2);
	const struct sgl_attributes in = sgl_attributes_default();
	const struct heard *h;
	struct asker_world w;
	struct sgl_element e;
	struct rd r;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(ask(&w, &what, 1, &id), WEFT_OK);
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
	struct rio_fragment f[] = { own(0x10000, 512), own(0x20000, 512), own(0x30000, 512) };
	const struct rio_wanted what[] = { wanted(SGL_READ, f, 3), wanted(SGL_WRITE, f, 2) };
	struct asker_world w;
	uint64_t id;

	f[1].platform = self; /* which is the same as none */
	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(ask(&w, what, 2, &id), WEFT_OK);
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
	struct rio_fragment f[] = { own(0x10000, 512), own(0x20000, 512), own(0x30000, 512),
				    own(0x40000, 512) };
	struct rio_wanted what = wanted(SGL_WRITE, f, 4);
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
	EXPECT_EQ(ask(&w, &what, 1, &id), WEFT_OK);
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
	const struct rio_fragment f[] = { own(0x10000, 512), own(0x20000, 512) };
	struct rio_wanted what[] = { wanted(SGL_WRITE, f, 2),
				     { .is = transaction(SGL_WRITE_ZEROES, 4096) },
				     { .is = transaction(SGL_DISCARD, 4096) },
				     { .is = { .operation = SGL_FLUSH, .device = DEVICE } },
				     wanted(SGL_READ, f, 1) };
	struct sgl_transaction t;
	struct rio_walk walk;
	struct rio_list *list;
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	what[0].is.is_fua = true;
	EXPECT_EQ(ask(&w, what, 5, &id), WEFT_OK);
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
	const struct rio_wanted what = { .is = transaction(SGL_WRITE, sizeof(data)),
					 .immediate = data };
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct rio_list *list;
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(ask(&w, &what, 1, &id), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.opened, 0U);
	list = asker_list(&w, asker_latest(&w, RIO_REQUEST));
	rio_walk_start(&walk, list);
	EXPECT(rio_walk_transaction(&walk, &t) && rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_IMMEDIATE && s.length == sizeof(data));
	EXPECT_MEM(s.data, data, sizeof(data));
	rio_list_destroy(list);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	expect_ended(&w, id, 0);
	asker_close(&w);
}

/* ---- Long lists (RIO-13b) ------------------------------------------------------------------- */

/* A write of so many bytes of immediate data makes a list of 48 bytes more. */
static enum weft_reason ask_long(struct asker_world *w, uint32_t bytes, uint64_t *id)
{
	static const uint8_t data[RIO_LIST_BYTES_MAX];
	const struct rio_wanted what = { .is = transaction(SGL_WRITE, bytes), .immediate = data };

	return ask(w, &what, 1, id);
}

TEST(test_rio_13b_a_list_that_does_not_fit_the_message_is_chained)
{
	static const uint32_t allowed[] = { LIST_MAX, 512, UINT32_MAX };
	struct asker_world w;
	uint64_t id;

	for (int i = 0; i < 3; i++) {
		uint32_t room = allowed[i] < LIST_MAX ? allowed[i] : LIST_MAX;
		const struct heard *h;

		asker_open(&w, 4, allowed[i]);
		EXPECT_EQ(ask_long(&w, room - 48, &id), WEFT_OK); /* just fits */
		asker_run(&w);
		h = asker_latest(&w, RIO_REQUEST);
		EXPECT_EQ(h->length, room);
		EXPECT_EQ(count_kind(h, SGL_CHAIN), 0U);
		rio_list_destroy(asker_list(&w, h));
		EXPECT_EQ(ask_long(&w, room - 48 + 1, &id), WEFT_OK); /* and this not */
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
	first = read_into(&w, 3);
	second = read_into(&w, 4);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT(asker_list_is_open(&w, &w.heard[0]));
	EXPECT(asker_list_is_open(&w, &w.heard[1]));
	EXPECT(memcmp(w.heard[0].list, w.heard[1].list, 36) != 0); /* two places */
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK);
	EXPECT_EQ(asker_status(&w, second, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT(has_ended(&w) && has_ended(&w) && rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_13b_a_slot_for_lists_is_used_until_the_owner_answers)
{
	struct asker_world w;
	uint64_t ids[ASKER_LISTS + 1];

	asker_open(&w, 4, 36);
	for (int i = 0; i < ASKER_LISTS; i++)
		EXPECT_EQ(ask_long(&w, 100, &ids[i]), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(ask_long(&w, 100, &ids[2]), WEFT_R_BUSY);
	EXPECT_EQ(asker_status(&w, ids[1], WEFT_OK), WEFT_OK);
	expect_ended(&w, ids[1], 0);
	EXPECT_EQ(ask_long(&w, 100, &ids[2]), WEFT_OK);
	EXPECT_EQ(ask_long(&w, 100, &ids[1]), WEFT_R_BUSY);
	asker_close(&w);
}

/* Whatever stood there next would be carried out in its name. */
TEST(test_rio_13b_the_list_of_a_request_that_was_given_up_is_kept)
{
	struct asker_world w;
	uint64_t ids[3];

	asker_open(&w, 4, 36);
	EXPECT_EQ(ask_long(&w, 100, &ids[0]), WEFT_OK);
	EXPECT_EQ(ask_long(&w, 100, &ids[1]), WEFT_OK);
	asker_run(&w);
	asker_wait(&w, (ASKER_TIMEOUT_MS + ASKER_GRACE_MS) * (uint64_t)NS_PER_MS);
	EXPECT(has_ended(&w) && has_ended(&w));
	EXPECT(!rio_requester_is_idle(w.q));
	EXPECT_EQ(ask_long(&w, 100, &ids[2]), WEFT_R_BUSY);
	EXPECT_EQ(asker_status(&w, ids[0], WEFT_R_RIO_TIMEOUT), WEFT_OK);
	EXPECT_EQ(ask_long(&w, 100, &ids[2]), WEFT_OK);
	rio_requester_owner_left(w.q);
	asker_run(&w);
	expect_ended(&w, ids[2], WEFT_R_RIO_OWNER_LEFT);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* ---- What is refused here ------------------------------------------------------------------- */

TEST(test_rio_16_what_would_be_refused_is_refused_before_anything_is_opened)
{
	static const uint8_t data[16];
	struct rio_fragment f[] = { own(0x10000, 4096), own(0x20000, 4096) };
	struct rio_fragment empty[] = { own(0x10000, 4096), own(0x20000, 0) };
	struct rio_fragment wraps[] = { own(UINT64_MAX - 4094, 4096) };
	struct rio_wanted two = wanted(SGL_READ, f, 2), longer = two, shorter = two, none = two;
	struct rio_wanted past = two, mixed = two, flushing = two, lost = two;
	struct rio_wanted reads_data = { .is = transaction(SGL_READ, 16), .immediate = data };
	const struct {
		struct rio_wanted what;
		enum weft_reason reason;
	} cases[] = {
		{ (longer.is.length++, longer), WEFT_R_SGL_SUM },
		{ (shorter.is.length--, shorter), WEFT_R_SGL_SUM },
		{ (none.fragment_count = 0, none), WEFT_R_SGL_SUM },
		{ wanted(SGL_READ, empty, 2), WEFT_R_SGL_EMPTY },
		{ wanted(SGL_READ, wraps, 1), WEFT_R_SGL_WRAP },
		{ (past.is.offset = UINT64_MAX - 8191, past), WEFT_R_SGL_WRAP },
		{ { .is = transaction(SGL_READ, 0) }, WEFT_R_SGL_EMPTY },
		{ { .is = transaction(SGL_WRITE_ZEROES, 0) }, WEFT_R_SGL_EMPTY },
		{ { .is = transaction(SGL_FLUSH, 1) }, WEFT_R_SGL_FLUSH },
		{ { .is = transaction(SGL_OPERATION_COUNT, 1) }, WEFT_R_SGL_OPERATION },
		{ { .is = { .operation = SGL_READ, .is_fua = true, .length = 1 } },
		  WEFT_R_SGL_FLAGS },
		{ reads_data, WEFT_R_SGL_SEGMENT },
		{ (flushing.is = (struct sgl_transaction){ .operation = SGL_FLUSH }, flushing),
		  WEFT_R_SGL_SEGMENT },
		{ (mixed.immediate = data, mixed), WEFT_R_BAD_ARGUMENT },
		{ (lost.fragments = NULL, lost), WEFT_R_BAD_ARGUMENT },
		{ { .is = transaction(SGL_WRITE, RIO_LIST_BYTES_MAX), .immediate = data },
		  WEFT_R_SGL_BYTES },
		{ { .is = transaction(SGL_WRITE, UINT64_C(1) << 40), .immediate = data },
		  WEFT_R_SGL_BYTES },
	};
	struct asker_world w;
	uint64_t id = 5;

	asker_open(&w, 4, LIST_MAX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT_EQ(ask(&w, &cases[i].what, 1, &id), cases[i].reason);
		EXPECT(rio_requester_is_idle(w.q));
		EXPECT(!asker_step(&w));
	}
	EXPECT_EQ(ask(&w, NULL, 0, &id), WEFT_R_SGL_NO_TRANSACTION);
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
	for (uint32_t i = 0; i < 65; i++)
		what[i].is = transaction(SGL_DISCARD, 512);
	EXPECT_EQ(ask(&w, what, 65, &id), WEFT_R_SGL_TRANSACTIONS);
	EXPECT_EQ(ask(&w, what, 64, &id), WEFT_OK);
	/* Attributes, chain pointer, transaction, platform: 4092 are left of the elements. */
	for (uint32_t i = 0; i < 4097; i++)
		f[i] = (struct rio_fragment){ other, 5, 512, i * UINT64_C(512) };
	what[0] = wanted(SGL_READ, f, 4093);
	EXPECT_EQ(ask(&w, what, 1, &id), WEFT_R_SGL_ELEMENTS);
	what[0] = wanted(SGL_READ, f, 4097);
	EXPECT_EQ(ask(&w, what, 1, &id), WEFT_R_SGL_ELEMENTS);
	what[0] = wanted(SGL_READ, f, 4092);
	EXPECT_EQ(ask(&w, what, 1, &id), WEFT_OK);
	/* Of the bytes: attributes, chain pointer, transaction, immediate header. */
	EXPECT_EQ(ask_long(&w, RIO_LIST_BYTES_MAX - 76 + 1, &id), WEFT_R_SGL_BYTES);
	EXPECT_EQ(ask_long(&w, RIO_LIST_BYTES_MAX - 76, &id), WEFT_OK);
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
	EXPECT_EQ(ask(&w, what, 2, &id), WEFT_R_SGL_WRAP);
	EXPECT_EQ(ask(&w, what, 1, &id), WEFT_OK);
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
		f[i] = own(0x10000 + 0x1000 * i, 512);
	what = wanted(SGL_READ, f, ASKER_WINDOWS + 1);
	EXPECT_EQ(ask(&w, &what, 1, &id), WEFT_R_LIMIT);
	first = read_into(&w, 1);
	what = wanted(SGL_READ, f, ASKER_WINDOWS);
	EXPECT_EQ(ask(&w, &what, 1, &id), WEFT_R_BUSY);
	what = wanted(SGL_READ, f, ASKER_WINDOWS - 1);
	EXPECT_EQ(ask(&w, &what, 1, &id), WEFT_OK);
	EXPECT_EQ(ask_long(&w, 8, &id), WEFT_OK);
	EXPECT_EQ(ask_long(&w, 8, &id), WEFT_OK);
	EXPECT_EQ(ask_long(&w, 8, &id), WEFT_R_BUSY); /* no request is left */
	asker_run(&w);
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK);
	EXPECT_EQ(ask_long(&w, 8, &id), WEFT_R_BUSY); /* it has not ended yet */
	asker_run(&w);
	EXPECT_EQ(ask_long(&w, 8, &id), WEFT_R_BUSY); /* nor was that taken */
	expect_ended(&w, first, 0);
	EXPECT_EQ(ask_long(&w, 8, &id), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_02c_an_owner_without_room_for_a_chain_pointer_is_asked_for_nothing_long)
{
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, 35);
	EXPECT_EQ(ask_long(&w, 8, &id), WEFT_R_SGL_BYTES);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02a_a_requester_has_limits)
{
	uint8_t byte[1];
	struct rio_requester *q;

	for (int i = 0; i < 7; i++) {
		struct rio_requester_config c = asker_config(byte);

		c.self.unit = i == 0 ? 0 : c.self.unit;
		c.requests_max = i == 1 ? 0 : c.requests_max;
		c.segments_max = i == 2 ? 0 : c.segments_max;
		c.iounits_max = i == 3 ? 0 : c.iounits_max;
		c.lists_max = i == 4 ? 0 : c.lists_max;
		c.lists = i == 5 ? NULL : c.lists;
		c.timeout_ns = i == 6 ? 0 : c.timeout_ns;
		EXPECT_EQ(rio_requester_create(&c, &q), WEFT_R_BAD_ARGUMENT);
	}
}

/* ---- Asking --------------------------------------------------------------------------------- */

TEST(test_rio_02c_no_more_is_asked_at_a_time_than_the_owner_allows)
{
	struct asker_world w;
	uint64_t ids[4];

	asker_open(&w, 2, LIST_MAX);
	for (int i = 0; i < 4; i++)
		ids[i] = read_into(&w, 2);
	asker_run(&w);
	EXPECT_EQ(w.opened, 8U);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT(w.heard[0].id == ids[0] && w.heard[1].id == ids[1]);
	EXPECT_EQ(asker_status(&w, ids[1], WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 3U);
	EXPECT_EQ(w.heard[2].id, ids[2]);
	EXPECT_EQ(asker_status(&w, ids[0], WEFT_OK), WEFT_OK);
	EXPECT_EQ(asker_status(&w, ids[2], WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.heard[3].id, ids[3]);
	asker_close(&w);
}

TEST(test_rio_02i_windows_are_closed_before_the_request_has_ended)
{
	struct asker_world w;
	struct rio_requester_act act;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	id = read_into(&w, 2);
	asker_run(&w);
	EXPECT_EQ(w.open_now, 2U);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	EXPECT(!has_ended(&w));
	EXPECT(asker_step(&w) && w.closed == 1 && !has_ended(&w));
	EXPECT(asker_step(&w) && w.closed == 2 && w.open_now == 0);
	EXPECT(!has_ended(&w)); /* until the next act is asked for */
	EXPECT(!rio_requester_act(w.q, &act));
	expect_ended(&w, id, 0);
	EXPECT(rio_requester_is_idle(w.q));
	EXPECT_EQ(rio_requester_due(w.q), UINT64_MAX);
	asker_close(&w);
}

TEST(test_rio_02i_what_the_owner_says_of_it_is_handed_on)
{
	static const char text[] = "not yours";
	struct rio_msg m = { .type = RIO_STATUS,
			     .status = { .reason = 4000000000,
					 .transaction = 3,
					 .done_bytes = 8192,
					 .text = { (const uint8_t *)text, strlen(text) } } };
	struct asker_world w;
	struct rio_ended e;

	asker_open(&w, 4, LIST_MAX);
	m.id = read_into(&w, 2);
	asker_run(&w);
	EXPECT_EQ(asker_hears(&w, &m), WEFT_OK);
	asker_run(&w);
	EXPECT(rio_requester_ended(w.q, &e));
	EXPECT(e.id == m.id && e.reason == 4000000000 && e.transaction == 3);
	EXPECT(e.done_bytes == 8192 && e.context == &w);
	EXPECT_STR(e.text, text);
	/* The longest one; and none, in the same slot. */
	for (int i = 0; i < 2 * ASKER_REQUESTS; i++) {
		uint8_t words[RIO_TEXT_MAX];

		memset(words, 'a', sizeof(words));
		m.id = read_into(&w, 1);
		m.status.text = (struct rio_bytes){ words, i < 4 ? sizeof(words) : 0 };
		asker_run(&w);
		EXPECT_EQ(asker_hears(&w, &m), WEFT_OK);
		asker_run(&w);
		EXPECT(rio_requester_ended(w.q, &e));
		EXPECT_EQ(strlen(e.text), i < 4 ? sizeof(words) : 0U);
	}
	asker_close(&w);
}

TEST(test_rio_02a_a_window_that_does_not_open_ends_the_request)
{
	struct asker_world w;
	uint64_t id;

	/* The other ones: open, being opened, or not begun. */
	asker_open(&w, 4, LIST_MAX);
	w.is_slow = true;
	id = read_into(&w, 4);
	EXPECT(asker_step(&w) && asker_step(&w) && asker_step(&w));
	asker_expose(&w, 0, WEFT_OK);
	asker_expose(&w, 1, WEFT_R_TAG_INVALID);
	EXPECT(!has_ended(&w));
	asker_run(&w);
	EXPECT_EQ(w.opened, 3U);
	EXPECT_EQ(w.closed, 1U);
	EXPECT(!has_ended(&w)); /* one is under way still */
	asker_expose(&w, 2, WEFT_OK);
	EXPECT(!has_ended(&w));
	asker_run(&w);
	EXPECT_EQ(w.closed, 2U);
	expect_ended(&w, id, WEFT_R_TAG_INVALID);
	EXPECT(w.open_now == 0 && w.heard_count == 0 && rio_requester_is_idle(w.q));

	/* The first reason is the one. */
	id = read_into(&w, 2);
	asker_run(&w);
	asker_expose(&w, pane_asked(&w), WEFT_R_TAG_INVALID);
	asker_expose(&w, pane_asked(&w), WEFT_R_LIMIT);
	expect_ended(&w, id, WEFT_R_TAG_INVALID);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_03_a_status_that_nobody_waits_for_is_refused)
{
	struct asker_world w;
	uint64_t id, waits;

	asker_open(&w, 1, LIST_MAX);
	id = read_into(&w, 1);
	waits = read_into(&w, 1);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED); /* not asked yet */
	asker_run(&w);
	EXPECT_EQ(asker_status(&w, waits, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, id + ASKER_REQUESTS, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, 0, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, UINT64_MAX, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED); /* twice */
	asker_run(&w);
	expect_ended(&w, id, 0);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);
}

/* ---- Cancelling ----------------------------------------------------------------------------- */

TEST(test_rio_02i_a_request_that_was_not_asked_yet_is_cancelled_at_once)
{
	struct asker_world w;
	uint64_t asked, waits, exposes;

	asker_open(&w, 1, LIST_MAX);
	asked = read_into(&w, 1);
	waits = read_into(&w, 1);
	asker_run(&w);
	w.is_slow = true;
	exposes = read_into(&w, 2);
	asker_step(&w);
	rio_requester_cancel(w.q, waits);
	asker_run(&w);
	expect_ended(&w, waits, WEFT_R_RIO_CANCELLED);
	rio_requester_cancel(w.q, exposes);
	asker_run(&w);
	EXPECT(!has_ended(&w));
	asker_expose(&w, pane_asked(&w), WEFT_OK);
	asker_expose(&w, pane_asked(&w), WEFT_OK);
	asker_run(&w);
	expect_ended(&w, exposes, WEFT_R_RIO_CANCELLED);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 0U);
	EXPECT_EQ(w.open_now, 1U);
	rio_requester_cancel(w.q, waits); /* long gone */
	rio_requester_cancel(w.q, 0);
	EXPECT_EQ(asker_status(&w, asked, WEFT_OK), WEFT_OK);
	asker_run(&w);
	expect_ended(&w, asked, 0);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02i_a_request_that_was_asked_ends_by_its_status_when_cancelled)
{
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	id = read_into(&w, 1);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	rio_requester_cancel(w.q, id);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U);
	EXPECT_EQ(asker_latest(&w, RIO_CANCEL)->id, id);
	EXPECT(!has_ended(&w) && w.open_now == 1);
	EXPECT_EQ(asker_status(&w, id, WEFT_R_RIO_CANCELLED), WEFT_OK);
	rio_requester_cancel(w.q, id); /* while its window closes */
	asker_run(&w);
	expect_ended(&w, id, WEFT_R_RIO_CANCELLED);

	/* A status that comes first makes it needless. */
	id = read_into(&w, 1);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U);
	expect_ended(&w, id, 0);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* ---- Time ----------------------------------------------------------------------------------- */

static uint64_t read_within(struct asker_world *w, uint64_t timeout_ns)
{
	const struct rio_fragment f = own(0x10000, 512);
	const struct rio_wanted what = wanted(SGL_READ, &f, 1);
	const struct rio_ask a = {
		.wanted = &what, .count = 1, .timeout_ns = timeout_ns, .context = w
	};
	uint64_t id;

	REQUIRE(rio_requester_ask(w->q, &a, w->now_ns, &id) == WEFT_OK);
	asker_run(w);
	return id;
}

TEST(test_rio_02c_the_owner_is_told_how_long_a_request_may_take)
{
	static const struct {
		uint64_t timeout_ns;
		uint32_t told_ms;
	} cases[] = { { 0, ASKER_TIMEOUT_MS },
		      { 1, 1 },
		      { NS_PER_MS, 1 },
		      { NS_PER_MS + 1, 2 },
		      { UINT64_C(30000) * NS_PER_MS, 30000 },
		      { UINT64_MAX, UINT32_MAX } };
	struct asker_world w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		asker_open(&w, 4, LIST_MAX);
		w.now_ns = 12345;
		read_within(&w, cases[i].timeout_ns);
		EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->timeout_ms, cases[i].told_ms);
		asker_close(&w);
	}
}

/* What it has waited here the owner has not any more. */
TEST(test_rio_02c_the_owner_is_told_what_is_left_of_the_time)
{
	struct asker_world w;
	uint64_t first;

	asker_open(&w, 1, LIST_MAX);
	first = read_within(&w, 0);
	read_within(&w, 0);
	w.now_ns += 400 * (uint64_t)NS_PER_MS;
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->timeout_ms, ASKER_TIMEOUT_MS - 400U);
	asker_close(&w);
}

TEST(test_rio_02i_a_request_without_a_status_is_given_up)
{
	const uint64_t long_ns = (ASKER_TIMEOUT_MS + ASKER_GRACE_MS) * (uint64_t)NS_PER_MS;
	struct asker_world w;
	uint64_t id, next;

	asker_open(&w, 1, LIST_MAX);
	id = read_into(&w, 2);
	asker_run(&w);
	EXPECT_EQ(rio_requester_due(w.q), long_ns);
	asker_wait(&w, long_ns - 1);
	EXPECT(!has_ended(&w) && asker_heard(&w, RIO_CANCEL) == 0);
	asker_wait(&w, 1);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U);
	EXPECT_EQ(asker_latest(&w, RIO_CANCEL)->id, id);
	EXPECT(w.open_now == 0 && w.closed == 2);
	expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(rio_requester_due(w.q), UINT64_MAX);

	/* The owner may be busy with it: it counts, until he answers. */
	next = read_into(&w, 1);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT(!has_ended(&w)); /* once is enough */
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, next, WEFT_OK), WEFT_OK);
	asker_run(&w);
	expect_ended(&w, next, 0);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02i_a_request_that_was_cancelled_is_given_up_too)
{
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 1, LIST_MAX);
	id = read_into(&w, 1);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	asker_run(&w);
	asker_wait(&w, 2 * ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U); /* he knows */
	EXPECT_EQ(asker_status(&w, id, WEFT_R_RIO_CANCELLED), WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* Nobody else has heard of it: there is no grace, and nothing to be said. */
TEST(test_rio_02i_a_request_that_waits_too_long_ends)
{
	struct asker_world w;
	uint64_t ids[2];

	asker_open(&w, 0, LIST_MAX); /* an owner that allows none */
	ids[0] = read_into(&w, 1);
	asker_run(&w);
	w.is_slow = true;
	ids[1] = read_into(&w, 1);
	asker_run(&w);
	EXPECT_EQ(rio_requester_due(w.q), ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	asker_wait(&w, ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	expect_ended(&w, ids[0], WEFT_R_RIO_TIMEOUT);
	asker_expose(&w, pane_asked(&w), WEFT_OK); /* late, and closed again */
	asker_run(&w);
	expect_ended(&w, ids[1], WEFT_R_RIO_TIMEOUT);
	EXPECT(w.open_now == 0 && w.heard_count == 0 && rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* Requests that nobody answers do not use up more than there is. */
TEST(test_rio_02i_an_owner_that_never_answers_is_asked_for_no_more_than_is_kept_here)
{
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 1000, LIST_MAX);
	for (int i = 0; i < ASKER_REQUESTS; i++) {
		id = read_into(&w, 1);
		asker_run(&w);
		asker_wait(&w, 2 * ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
		expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	}
	id = read_into(&w, 1);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), (uint32_t)ASKER_REQUESTS);
	asker_wait(&w, ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	asker_close(&w);
}

/* ---- Owners come and go --------------------------------------------------------------------- */

TEST(test_rio_03_when_the_owner_leaves_every_request_ends)
{
	struct rio_ended e;
	struct asker_world w;
	uint64_t ids[4];
	int count = 0;

	asker_open(&w, 1, LIST_MAX);
	ids[0] = read_into(&w, 2); /* asked, and to be cancelled */
	ids[1] = read_into(&w, 1); /* waits */
	asker_run(&w);
	w.is_slow = true;
	ids[2] = read_into(&w, 2); /* one window is being opened */
	asker_step(&w);
	ids[3] = read_into(&w, 1); /* not begun */
	rio_requester_cancel(w.q, ids[0]);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PING }), WEFT_OK);
	rio_requester_owner_left(w.q);
	EXPECT(!rio_requester_has_owner(w.q));
	asker_run(&w);
	asker_expose(&w, pane_asked(&w), WEFT_OK);
	asker_run(&w);
	while (rio_requester_ended(w.q, &e)) {
		EXPECT_EQ(e.reason, WEFT_R_RIO_OWNER_LEFT);
		count++;
	}
	EXPECT_EQ(count, 4);
	EXPECT(w.open_now == 0 && rio_requester_is_idle(w.q));
	EXPECT_EQ(w.heard_count, 1U); /* only that one request */
	EXPECT_EQ(rio_requester_due(w.q), UINT64_MAX);
	EXPECT_EQ(ask_long(&w, 8, &ids[0]), WEFT_R_RIO_OWNER_LEFT);
	asker_close(&w);
}

TEST(test_rio_03_a_new_owner_has_nothing_of_the_old_one)
{
	struct asker_world w;
	uint64_t old, id;
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length;

	asker_open(&w, 1, LIST_MAX);
	old = read_into(&w, 1);
	asker_run(&w);
	length = rio_session_close(&w.owner, &(struct rio_msg){ .type = RIO_PING }, bytes,
				   sizeof(bytes));
	asker_owner_comes(&w, 2, 36); /* without a word of leaving */
	EXPECT(rio_requester_has_owner(w.q));
	asker_run(&w);
	expect_ended(&w, old, WEFT_R_RIO_OWNER_LEFT);
	id = read_into(&w, 1);
	read_into(&w, 1);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 3U); /* by his limits, not the other's */
	EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->length, 36U);
	EXPECT(id != old);
	EXPECT_EQ(asker_status(&w, old, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(rio_requester_take(w.q, bytes, length, w.now_ns), WEFT_R_RIO_FORGED);
	asker_close(&w);
}

TEST(test_rio_03_without_an_owner_nothing_is_taken)
{
	struct asker_world w;

	asker_open(&w, 1, LIST_MAX);
	rio_requester_owner_left(w.q);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PING }), WEFT_R_RIO_UNEXPECTED);
	asker_run(&w);
	EXPECT_EQ(w.heard_count, 0U);
	asker_close(&w);
}

TEST(test_rio_03_a_ping_is_answered)
{
	struct asker_world w;

	asker_open(&w, 1, LIST_MAX);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PING, .id = 3 }), WEFT_OK);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PONG, .id = 9 }), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.heard_count, 1U);
	EXPECT_EQ(asker_latest(&w, RIO_PONG)->id, 3U);
	asker_close(&w);
}

TEST(test_rio_03_what_is_not_an_owners_to_say_is_refused)
{
	static const uint8_t list[8] = { 1 };
	const struct rio_msg said[] = {
		{ .type = RIO_REQUEST, .request = { .list = { list, 8 } } },
		{ .type = RIO_COMMAND, .request = { .requester = self, .list = { list, 8 } } },
		{ .type = RIO_GRANT,
		  .grant = { .requester = self, .address = { .family = 4, .port = 1 } } },
		{ .type = RIO_DEVICES },
		{ .type = RIO_CANCEL, .id = 1 },
	};
	struct asker_world w;

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		asker_open(&w, 1, LIST_MAX);
		EXPECT_EQ(asker_hears(&w, &said[i]), WEFT_R_RIO_UNEXPECTED);
		asker_run(&w);
		EXPECT_EQ(w.heard_count, 0U);
		asker_close(&w);
	}
	asker_open(&w, 1, LIST_MAX);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_BYE }), WEFT_R_RIO_OWNER_LEFT);
	asker_close(&w);
}
