/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem_fixture.h"

static struct gate g;

/* ---- TOUCH-05 as a table: flags x where the segment's last byte lies ------------------------- */

enum place { OLD, IN_ORDER, IN_WINDOW, BEYOND, PLACES };

/* What the rows say, by place of the last byte and its distance from the stored one. */
static enum touch_action row(const struct touch_input *in, enum place place, int32_t from_stored)
{
	static const enum touch_action first[PLACES] = {
		[OLD] = TOUCH_DROP,		     /* 05f */
		[IN_ORDER] = TOUCH_PLACE_AND_CLOSE,  /* 05d */
		[IN_WINDOW] = TOUCH_PLACE_AND_STORE, /* 05e */
		[BEYOND] = TOUCH_DROP,		     /* 05f */
	};

	if (!in->is_one_touch)
		return TOUCH_PLACE; /* 05a, 05b */
	if (!in->is_last)
		return in->is_touched && from_stored > 0 ? TOUCH_REFUSE : TOUCH_PLACE; /* 07, 05a */
	if (in->is_touched)
		return from_stored == 0 ? TOUCH_DROP : TOUCH_CLOSE_AND_REFUSE; /* 08, 05c */
	return first[place];
}

/* All flags and stored numbers near, for one place of the segment's last byte. */
static void expect_rows(struct touch_stream s, enum place place)
{
	static const int32_t distances[] = { -(1 << 30), -2, -1, 0, 1, 2, 1 << 30, INT32_MAX };

	for (uint32_t flags = 0; flags < 8; flags++) {
		for (uint32_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
			const struct touch_input in = {
				.is_last = flags & 1,
				.is_one_touch = flags & 2,
				.is_touched = flags & 4,
				.stored_sn = s.end_sn - (uint32_t)distances[i],
				.stream = s,
			};

			REQUIRE(touch_decide(&in) == row(&in, place, distances[i]));
		}
	}
}

/* Every place around the in-order point and the window's end, for one position of the stream. */
static void expect_places(struct touch_stream s)
{
	for (uint32_t n = 1; n <= 3; n++) {
		s.end_sn = s.expected_sn - n;
		expect_rows(s, OLD);
	}
	s.end_sn = s.expected_sn - (UINT32_C(1) << 30);
	expect_rows(s, OLD);
	for (s.end_sn = s.expected_sn; s.end_sn != s.next_sn; s.end_sn++)
		expect_rows(s, IN_ORDER);
	for (uint32_t n = 0; n < 3; n++) {
		s.end_sn = s.next_sn + n;
		expect_rows(s, n < s.window ? IN_WINDOW : BEYOND);
		s.end_sn = s.next_sn + s.window + n;
		expect_rows(s, BEYOND);
		s.end_sn = s.next_sn + s.window - 1 - n;
		if (n < s.window)
			expect_rows(s, IN_WINDOW);
	}
	s.end_sn = s.next_sn + s.window + (UINT32_C(1) << 30);
	expect_rows(s, BEYOND);
}

TEST(test_touch_04_touch_05a_touch_05b_touch_05c_touch_05d_touch_05e_touch_05f_touch_09_all_rows)
{
	static const uint32_t windows[] = { 0, 1, 2, 1000, 1 << 30 };
	static const uint32_t absorbed[] = { 0, 1, 2, 60 }; /* by this segment, gaps included */

	for (uint32_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
		for (uint32_t a = 0; a < sizeof(absorbed) / sizeof(absorbed[0]); a++) {
			/* Around 2^32, around 2^31, and somewhere else. */
			for (uint32_t n = 0; n < 8; n++) {
				struct touch_stream s = { .window = windows[w] };
				const uint32_t bases[] = { n - 4, n - 4 - windows[w],
							   (UINT32_C(1) << 31) - 4 + n,
							   123456 * (n + 1) };

				for (uint32_t b = 0; b < 4; b++) {
					s.expected_sn = bases[b];
					s.next_sn = bases[b] + absorbed[a];
					expect_places(s);
				}
			}
		}
	}
}

/* ---- The rows on an entry ---------------------------------------------------------------- */

enum { BASE = 1000, WINDOW = 500 };

/* Last byte, in-order point before and after. */
static struct touch_stream tcp(uint32_t end_sn, uint32_t expected_sn, uint32_t next_sn)
{
	return (struct touch_stream){ .end_sn = end_sn,
				      .expected_sn = expected_sn,
				      .next_sn = next_sn,
				      .window = WINDOW,
				      .qp = QP_OWN };
}

static void expect_segment(uint32_t tag, bool is_last, struct touch_stream s,
			   enum weft_reason expected, bool is_placed_expected)
{
	bool is_placed = !is_placed_expected;

	REQUIRE(mem_touch_segment(&g.table, tag, is_last, &s, &is_placed) == expected);
	REQUIRE(is_placed == is_placed_expected);
}

TEST(test_touch_01_touch_05b_multiple_touch_entry_lives_on)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_bound(&g, gate_region(&g, 0, 64, RIGHTS_ALL), 0, 64, WEFT_REMOTE_WRITE);
	for (uint32_t i = 0; i < 5; i++) {
		expect_segment(tag, true, tcp(BASE + i, BASE + i, BASE + i + 1), WEFT_OK, true);
		expect_segment(tag, true, tcp(BASE + 99, BASE, BASE), WEFT_OK, true);
		expect_segment(tag, true, tcp(BASE - 99, BASE, BASE), WEFT_OK, true);
		mem_touch_advance(&g.table, tag, BASE + 1000);
		mem_touch_message(&g.table, tag);
		EXPECT(gate_is_open(&g, tag, 0, 64));
	}
	EXPECT_EQ(gate_entry(&g, tag)->touch, 0);
	gate_fini(&g);
}

TEST(test_touch_01_touch_05a_touch_05d_one_touch_entry_dies_with_its_message)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	expect_segment(tag, false, tcp(BASE + 9, BASE, BASE + 10), WEFT_OK, true);
	expect_segment(tag, false, tcp(BASE + 19, BASE + 10, BASE + 20), WEFT_OK, true);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	expect_segment(tag, true, tcp(BASE + 29, BASE + 20, BASE + 30), WEFT_OK, true);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	/* The region is as free as after an unbind. */
	EXPECT_EQ(g.table.by_type[1][MEM_WINDOW], 0);
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OWN, tag), WEFT_R_WINDOW_UNBOUND);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, tag), WEFT_OK);
	gate_fini(&g);
}

/* The last segment that fills a gap: what came after it has been there before. */
TEST(test_touch_05d_touch_09_last_segment_that_fills_a_gap_is_in_order)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	expect_segment(tag, true, tcp(BASE + 9, BASE, BASE + 200), WEFT_OK, true);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	gate_fini(&g);
}

TEST(test_touch_02_mem_04h_loc_04_one_touch_is_asked_for_at_bind_or_registration)
{
	const struct weft_region_options o = { .addr = gate_addr(&g, 0),
					       .length = 64,
					       .rights = WEFT_REMOTE_WRITE,
					       .is_one_touch = true };
	uint32_t tag, window;

	gate_init(&g, WEFT_POLICY_OPEN);
	window = gate_one_touch(&g, 64);
	EXPECT_EQ(gate_entry(&g, window)->touch, MEM_ONE_TOUCH);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	EXPECT_EQ(gate_entry(&g, tag)->touch, MEM_ONE_TOUCH);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	expect_segment(tag, true, tcp(BASE, BASE, BASE + 1), WEFT_OK, true);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	EXPECT(gate_is_open(&g, window, 0, 64));
	/* The owner still gives the spent region back; its memory is let go of already. */
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tag), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_INVALID);
	gate_fini(&g);
}

TEST(test_touch_05e_touch_06_mem_04h_mem_04i_early_last_segment_is_remembered)
{
	uint32_t tag;
	const struct mem_entry *e;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	e = gate_entry(&g, tag);
	expect_segment(tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, true);
	EXPECT_EQ(e->touch, MEM_ONE_TOUCH | MEM_TOUCHED);
	EXPECT_EQ(e->stored_sn, BASE + 29);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	/* What is missing of the message is still placed. */
	expect_segment(tag, false, tcp(BASE + 19, BASE, BASE), WEFT_OK, true);
	mem_touch_advance(&g.table, tag, BASE);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	mem_touch_advance(&g.table, tag, BASE + 29); /* all but the last byte */
	EXPECT(gate_is_open(&g, tag, 0, 64));
	expect_segment(tag, false, tcp(BASE + 9, BASE, BASE + 30), WEFT_OK, true);
	mem_touch_advance(&g.table, tag, BASE + 30);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	gate_fini(&g);
}

/* A window of one queue pair is not opened to others by being touched. */
TEST(test_touch_05e_rkey_06_touched_window_stays_with_its_queue_pair)
{
	enum { OWNER = 5 };
	struct weft_bind bind = { .length = 64, .rights = WEFT_REMOTE_WRITE, .is_one_touch = true };

	gate_init(&g, WEFT_POLICY_STRICT);
	bind.region_tag = gate_region(&g, 0, 64, RIGHTS_ALL);
	bind.addr = gate_addr(&g, 0);
	bind.window_tag = gate_window(&g);
	REQUIRE(gate_bind_qp(&g, OWNER, &bind) == WEFT_OK);
	expect_segment(bind.tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, true);
	EXPECT_EQ(gate_entry(&g, bind.tag)->touch, MEM_ONE_TOUCH | MEM_TOUCHED);
	EXPECT_EQ(gate_entry(&g, bind.tag)->qp, OWNER);
	gate_fini(&g);
}

TEST(test_touch_06_advance_past_the_stored_number_closes_too)
{
	gate_init(&g, WEFT_POLICY_STRICT);
	for (uint32_t i = 0; i < 12; i++) {
		/* Around 2^32: stored just before, at and after the wrap. */
		uint32_t tag = gate_one_touch(&g, 64), stored = i - 6;

		expect_segment(tag, true, tcp(stored, stored - 20, stored - 20), WEFT_OK, true);
		mem_touch_advance(&g.table, tag, stored - 1);
		EXPECT(gate_is_open(&g, tag, 0, 64));
		mem_touch_advance(&g.table, tag, stored);
		EXPECT(gate_is_open(&g, tag, 0, 64));
		mem_touch_advance(&g.table, tag, stored + 1 + i * 100);
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	}
	gate_fini(&g);
}

TEST(test_touch_06_advance_leaves_an_untouched_entry_alone)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	for (uint32_t bit = 1; bit; bit <<= 1)
		mem_touch_advance(&g.table, tag, bit);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	gate_fini(&g);
}

TEST(test_touch_05c_second_last_segment_closes_and_is_refused)
{
	/* Before and after the stored number, in order and not. */
	static const uint32_t ends[] = { BASE + 9, BASE + 49, BASE + 28, BASE + 30 };

	gate_init(&g, WEFT_POLICY_STRICT);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t tag = gate_one_touch(&g, 64);

		expect_segment(tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, true);
		expect_segment(tag, true, tcp(ends[i], BASE, BASE + 10), WEFT_R_TOUCH_SECOND,
			       false);
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	}
	gate_fini(&g);
}

TEST(test_touch_05f_last_segment_outside_the_window_is_dropped)
{
	static const uint32_t ends[] = { BASE + WINDOW, BASE + WINDOW + 1, BASE - 1, BASE - 2 };
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	for (uint32_t i = 0; i < 4; i++) {
		expect_segment(tag, true, tcp(ends[i], BASE, BASE), WEFT_OK, false);
		EXPECT_EQ(gate_entry(&g, tag)->touch, MEM_ONE_TOUCH);
		EXPECT(gate_is_open(&g, tag, 0, 64));
	}
	expect_segment(tag, true, tcp(BASE + WINDOW - 1, BASE, BASE), WEFT_OK, true);
	EXPECT_EQ(gate_entry(&g, tag)->touch, MEM_ONE_TOUCH | MEM_TOUCHED);
	gate_fini(&g);
}

TEST(test_touch_07_segments_beyond_the_stored_end_are_refused)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	expect_segment(tag, false, tcp(BASE + 99, BASE, BASE), WEFT_OK, true); /* not known yet */
	expect_segment(tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, true);
	expect_segment(tag, false, tcp(BASE + 30, BASE, BASE), WEFT_R_TOUCH_BEYOND, false);
	expect_segment(tag, false, tcp(BASE + 99, BASE, BASE), WEFT_R_TOUCH_BEYOND, false);
	expect_segment(tag, false, tcp(BASE + 28, BASE, BASE), WEFT_OK, true);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	gate_fini(&g);
}

TEST(test_touch_08_duplicate_of_the_stored_segment_is_dropped)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	expect_segment(tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, true);
	expect_segment(tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, false);
	expect_segment(tag, true, tcp(BASE + 29, BASE + 10, BASE + 10), WEFT_OK, false);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	mem_touch_advance(&g.table, tag, BASE + 30);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	gate_fini(&g);
}

TEST(test_touch_09_early_last_segment_across_the_wrap)
{
	gate_init(&g, WEFT_POLICY_STRICT);
	for (uint32_t n = 0; n < 20; n++) {
		uint32_t tag = gate_one_touch(&g, 64), next = n - 10, stored = next + 9;

		expect_segment(tag, true, tcp(stored, next, next), WEFT_OK, true);
		expect_segment(tag, false, tcp(stored + 1, next, next), WEFT_R_TOUCH_BEYOND, false);
		expect_segment(tag, false, tcp(stored - 1, next, next), WEFT_OK, true);
		expect_segment(tag, true, tcp(stored, next, next), WEFT_OK, false);
		mem_touch_advance(&g.table, tag, stored + 1);
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	}
	gate_fini(&g);
}

/* Two queue pairs, one window: the numbers of the other stream mean nothing here. */
TEST(test_touch_07_touched_entry_belongs_to_the_stream_that_touched_it)
{
	struct mem_access a;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	a = gate_ask(&g, MEM_REMOTE_WRITE, tag, 0, 64);
	a.qp = QP_OTHER;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	expect_segment(tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, true);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_QP);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	mem_touch_advance(&g.table, tag, BASE + 30);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_SPENT);
	gate_fini(&g);
}

TEST(test_touch_10_one_touch_entry_dies_when_it_has_been_read)
{
	uint32_t tag;
	struct mem_access a;
	struct mem_grant grant;
	struct mem_span span;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	a = gate_ask(&g, MEM_REMOTE_READ, tag, 0, 64);
	REQUIRE(mem_access_check(&g.table, &a, &grant) == WEFT_OK);
	mem_touch_message(&g.table, tag);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_SPENT);
	/* AMB-18: what was granted can still be sent again. */
	EXPECT_EQ(mem_grant_spans(&grant, &span, 1), 1);
	EXPECT(span.bytes == g.memory && span.length == 64);
	gate_fini(&g);
}

TEST(test_touch_11_only_the_current_tag_touches)
{
	uint32_t tag;
	const struct touch_stream in_order = tcp(BASE, BASE, BASE + 1);
	bool is_placed;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	mem_touch_message(&g.table, tag ^ 1);
	mem_touch_message(&g.table, UINT32_MAX);
	mem_touch_message(&g.table, 0);
	(void)mem_touch_segment(&g.table, tag ^ 1, true, &in_order, &is_placed);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	expect_segment(tag, true, tcp(BASE + 9, BASE, BASE), WEFT_OK, true);
	mem_touch_advance(&g.table, tag ^ 1, BASE + 10);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	mem_touch_advance(&g.table, tag, BASE + 10);
	EXPECT(!gate_is_open(&g, tag, 0, 64));
	/* To others the dead tag looks like any dead tag. */
	struct mem_access a = gate_ask(&g, MEM_REMOTE_WRITE, tag, 0, 64);

	a.pd = PD_OTHER;
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_INVALID);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag ^ 1, 0, 64), WEFT_R_TAG_INVALID);
	gate_fini(&g);
}

/* What a send queue registered for one touch leaves the table altogether. */
TEST(test_sqr_s4_touch_01_one_touch_region_of_a_queue_leaves_no_trace)
{
	const struct weft_region_options o = { .addr = gate_addr(&g, 0),
					       .length = 64,
					       .rights = WEFT_REMOTE_WRITE,
					       .is_one_touch = true };
	struct gate_use before;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	for (int i = 0; i < 3 * GATE_TAGS; i++) {
		REQUIRE(mem_tag_reserve(&g.table, PD_OWN, &tag) == WEFT_OK);
		REQUIRE(mem_region_register_reserved(&g.table, &g.owner, &o, tag) == WEFT_OK);
		EXPECT(gate_is_open(&g, tag, 0, 64));
		mem_touch_message(&g.table, tag);
		EXPECT(!gate_is_open(&g, tag, 0, 64));
		EXPECT(gate_use_is(&g, before));
	}
	gate_fini(&g);
}

/* ---- TOUCH-S2: the story of each row ----------------------------------------------------- */

/* Last segment first, the gap filled later. */
TEST(test_touch_s2_last_segment_first)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	expect_segment(tag, true, tcp(BASE + 29, BASE, BASE), WEFT_OK, true);
	mem_touch_advance(&g.table, tag, BASE);
	expect_segment(tag, false, tcp(BASE + 19, BASE, BASE), WEFT_OK, true);
	mem_touch_advance(&g.table, tag, BASE);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	expect_segment(tag, false, tcp(BASE + 9, BASE, BASE + 30), WEFT_OK, true);
	mem_touch_advance(&g.table, tag, BASE + 30);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	gate_fini(&g);
}

/* Outside the window: dropped, sent again when the window has moved, taken in order. */
TEST(test_touch_s2_out_of_window_is_dropped_then_resent)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	expect_segment(tag, true, tcp(BASE + WINDOW + 9, BASE, BASE), WEFT_OK, false);
	expect_segment(tag, false, tcp(BASE + WINDOW - 1, BASE, BASE + WINDOW), WEFT_OK, true);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	expect_segment(tag, true, tcp(BASE + WINDOW + 9, BASE + WINDOW, BASE + WINDOW + 10),
		       WEFT_OK, true);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	gate_fini(&g);
}
