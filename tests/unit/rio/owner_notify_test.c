/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a requester hears from the owner what its I/O unit has told it before: it need not act on
 * it, so that may wait for others (docs/wire/rio.md). Everything else is said at once.
 */
#include "rio/notify.h"
#include "test.h"
#include "unit/rio/owner_fixture.h"

enum {
	A = 0,
	B = 1,
	C = 2,
	U = BED_UNIT,
	WIDE = 64,  /* requests: with two dozen of them there is no shortage */
	NARROW = 8, /* with two there is */
	MANY_NOTIFIED = 32
};

static struct owner_bed b;

/* With room for so many requests of each; a unit takes as many commands as there are. */
static void open_with(uint32_t requests)
{
	bed_open(&b);
	b.config.requests_max = requests;
	for (int end = BED_UNIT; end < BED_ENDS; end++)
		b.ends[end].requests_max = BED_REQUESTERS * requests;
	b.now_ns = UINT64_C(5555555);
	bed_start(&b);
	bed_allow_all(&b);
	bed_all_come(&b);
}

static void wait_until(uint64_t ns)
{
	b.now_ns = ns;
	rio_owner_expire(b.owner, ns);
	bed_run(&b);
}

/* Asked for, commanded, and not told yet. */
static void ask(int end, uint64_t id)
{
	bed_ask_read(&b, end, id, BED_DEVICE(0, 1));
	bed_run(&b);
}

/* The unit has told the requesters of the next so many commands; the owner hears it. */
static void unit_notifies(uint32_t count)
{
	uint8_t entries[MANY_NOTIFIED * RIO_NOTIFIED_ENTRY_BYTES];
	struct wr w = wr_of(entries, sizeof(entries));

	for (uint32_t i = 0; i < count; i++) {
		const struct heard *h = bed_heard(&b, U, RIO_COMMAND);

		REQUIRE(h);
		rio_notified_put(&(struct rio_notified_entry){ h->m.id, 512 }, &w);
	}
	REQUIRE(!w.is_short);
	bed_say(&b, U,
		&(struct rio_msg){ .type = RIO_NOTIFIED,
				   .notified = { count, { entries, (size_t)(w.at - entries) } } });
}

static void ask_and_tell(int end, uint64_t id)
{
	ask(end, id);
	unit_notifies(1);
	bed_run(&b);
}

/* The next message of these to this requester: are they so many, from this id on? */
static bool hears_of(int end, uint32_t count, uint64_t first)
{
	const struct heard *h = bed_heard(&b, end, RIO_NOTIFIED);
	struct rd at;

	if (!h || h->m.notified.count != count)
		return false;
	at = rd_of(h->m.notified.entries.bytes, h->m.notified.entries.length);
	for (uint32_t i = 0; i < count; i++) {
		const struct rio_notified_entry e = rio_notified_next(&at);

		if (e.id != first + i || e.done_bytes != 512)
			return false;
	}
	return true;
}

/* Of a command that the unit does not have, or that has ended. */
TEST(test_rio_02i_a_unit_tells_of_its_own_commands_only)
{
	static const uint64_t ids[] = { 0, 1, UINT64_MAX };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		uint8_t entry[RIO_NOTIFIED_ENTRY_BYTES];
		struct wr w = wr_of(entry, sizeof(entry));

		open_with(WIDE);
		rio_notified_put(&(struct rio_notified_entry){ ids[i], 512 }, &w);
		EXPECT_EQ(bed_try_say(
				  &b, U,
				  &(struct rio_msg){ .type = RIO_NOTIFIED,
						     .notified = { 1, { entry, sizeof(entry) } } }),
			  WEFT_R_RIO_UNEXPECTED);
		bed_close(&b);
	}
}

TEST(test_rio_02i_a_requester_hears_a_millisecond_later_what_it_knows)
{
	uint64_t from;

	open_with(WIDE);
	for (uint64_t id = 1; id <= 5; id += 2) { /* each time anew */
		from = b.now_ns;
		ask_and_tell(A, id);
		EXPECT_EQ(rio_owner_due(b.owner), from + RIO_NOTIFY_WAIT_NS);
		wait_until(from + 300000);
		ask_and_tell(A, id + 1); /* does not put it off */
		EXPECT_EQ(rio_owner_due(b.owner), from + RIO_NOTIFY_WAIT_NS);
		wait_until(from + RIO_NOTIFY_WAIT_NS - 1);
		EXPECT(!bed_heard(&b, A, RIO_NOTIFIED));
		EXPECT_EQ(bed_under_way(&b, A), 2U);
		EXPECT_EQ(bed_under_way(&b, U), 0U); /* there the room is free at once */
		wait_until(from + RIO_NOTIFY_WAIT_NS);
		EXPECT(hears_of(A, 2, id));
		EXPECT_EQ(bed_under_way(&b, A), 0U);
		EXPECT_EQ(rio_owner_due(b.owner), UINT64_MAX);
	}
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 0U);
	/* What was decided is written down at once. */
	ask_and_tell(A, 9);
	EXPECT(bed_note_of(&b, RIO_NOTE_ENDED, 9, 0));
	bed_close(&b);
}

TEST(test_rio_02i_requesters_hear_of_sixteen_at_once)
{
	open_with(WIDE);
	/* Those that were said for another reason are not counted. */
	for (uint64_t id = 1; id <= 5; id++)
		ask_and_tell(A, id);
	wait_until(b.now_ns + RIO_NOTIFY_WAIT_NS);
	EXPECT(hears_of(A, 5, 1));
	for (int round = 0; round < 2; round++) {
		bed_forget(&b);
		for (uint64_t id = 10; id < 10 + 8; id++) {
			ask_and_tell(A, id);
			if (id > 10)
				ask_and_tell(B, id);
		}
		EXPECT(!bed_heard(&b, A, RIO_NOTIFIED) && !bed_heard(&b, B, RIO_NOTIFIED));
		ask_and_tell(B, 18);
		EXPECT(hears_of(A, 8, 10)); /* each of its own, in one message */
		EXPECT(hears_of(B, 8, 11));
		EXPECT(!bed_heard(&b, A, RIO_NOTIFIED) && !bed_heard(&b, B, RIO_NOTIFIED));
		EXPECT_EQ(rio_owner_due(b.owner), UINT64_MAX);
	}
	/* Also if all of them come at once. */
	for (uint64_t id = 1; id <= RIO_NOTIFY_BATCH; id++)
		ask(A, id);
	unit_notifies(RIO_NOTIFY_BATCH);
	bed_run(&b);
	EXPECT(hears_of(A, RIO_NOTIFY_BATCH, 1));
	bed_close(&b);
}

/* left <= all / 4 + 4 */
TEST(test_rio_02i_a_requester_that_is_short_of_room_hears_at_once)
{
	open_with(NARROW);
	ask_and_tell(A, 1); /* 7 of 8 are left */
	EXPECT(!bed_heard(&b, A, RIO_NOTIFIED));
	for (uint64_t id = 1; id <= 3; id++)
		ask(B, id);
	EXPECT(!bed_heard(&b, A, RIO_NOTIFIED)); /* another's shortage */
	bed_forget(&b);
	ask(A, 2); /* 6 */
	EXPECT(!bed_heard(&b, A, RIO_NOTIFIED));
	unit_notifies(1);
	bed_run(&b);
	EXPECT(hears_of(A, 2, 1));
	EXPECT(!bed_heard(&b, A, RIO_NOTIFIED));
	bed_close(&b);

	open_with(NARROW - 2); /* never more than 5 of 6 are left */
	ask_and_tell(A, 1);
	EXPECT(hears_of(A, 1, 1));
	bed_close(&b);
}

TEST(test_rio_02e_commands_are_urgent_while_their_requester_is_short_of_room)
{
	static const struct {
		uint32_t requests, first; /* so many of its requests: the first urgent one */
	} cases[] = { { 1, 1 }, { 4, 1 }, { 6, 1 }, { 8, 2 }, { 12, 5 }, { 64, 44 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_with(cases[i].requests);
		for (uint64_t id = 1; id <= cases[i].requests && id <= cases[i].first; id++) {
			const struct heard *h;

			ask(A, id);
			h = bed_heard(&b, U, RIO_COMMAND);
			REQUIRE(h);
			EXPECT_EQ(h->m.request.is_urgent, id == cases[i].first);
		}
		/* Its own: another has room. */
		if (cases[i].first > 1) {
			bed_forget(&b);
			ask(B, 1);
			EXPECT(!bed_heard(&b, U, RIO_COMMAND)->m.request.is_urgent);
		}
		bed_close(&b);
	}
}

/* Room that is given back is room. */
TEST(test_rio_02e_commands_are_urgent_no_more_when_there_is_room_again)
{
	open_with(NARROW);
	ask(A, 1);
	ask(A, 2);
	unit_notifies(2); /* of which it hears at once */
	bed_run(&b);
	EXPECT(hears_of(A, 2, 1));
	ask(A, 3);
	EXPECT(!bed_heard(&b, U, RIO_COMMAND)->m.request.is_urgent);
	bed_close(&b);
}

/* Whether what it asked for is written down before it leaves, or after. */
TEST(test_rio_03_a_requester_that_leaves_leaves_nothing_that_waits_to_be_said)
{
	for (int is_noted = 0; is_noted < 2; is_noted++) {
		uint64_t from;

		open_with(WIDE);
		from = b.now_ns;
		for (uint64_t id = 1; id <= 3; id++) {
			ask(A, id);
			ask(B, id + 10);
		}
		unit_notifies(6);
		if (is_noted)
			bed_run(&b);
		bed_leave(&b, A);
		bed_run(&b);
		for (uint64_t id = 1; id <= 3; id++)
			EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ENDED, id, 0)->note.reason, WEFT_OK);
		EXPECT_EQ(bed_under_way(&b, A), 0U);
		EXPECT(!bed_heard(&b, B, RIO_NOTIFIED));
		EXPECT_EQ(rio_owner_due(b.owner), from + RIO_NOTIFY_WAIT_NS);
		wait_until(from + RIO_NOTIFY_WAIT_NS);
		EXPECT(hears_of(B, 3, 11));
		EXPECT(!bed_heard(&b, B, RIO_NOTIFIED) && !bed_heard(&b, A, RIO_NOTIFIED));
		bed_close(&b);
	}
}

/* The last one that waited is gone: nothing is due, and the next one waits as long as any. */
TEST(test_rio_03_nothing_is_due_for_a_requester_that_left)
{
	for (int is_noted = 0; is_noted < 2; is_noted++) {
		open_with(WIDE);
		for (uint64_t id = 1; id < RIO_NOTIFY_BATCH; id++)
			ask(A, id);
		unit_notifies(RIO_NOTIFY_BATCH - 1);
		if (is_noted)
			bed_run(&b);
		bed_leave(&b, A);
		bed_run(&b);
		EXPECT_EQ(rio_owner_due(b.owner), UINT64_MAX);
		bed_forget(&b);
		bed_come(&b, A); /* its slots are all there again */
		wait_until(b.now_ns + 100);
		ask_and_tell(A, 1);
		EXPECT(!bed_heard(&b, A, RIO_NOTIFIED));
		EXPECT_EQ(rio_owner_due(b.owner), b.now_ns + RIO_NOTIFY_WAIT_NS);
		wait_until(b.now_ns + RIO_NOTIFY_WAIT_NS);
		EXPECT(hears_of(A, 1, 1));
		bed_close(&b);
	}
}

/* What waits goes on waiting. */
TEST(test_rio_02i_a_status_to_a_requester_does_not_wait)
{
	uint64_t from;

	open_with(WIDE);
	from = b.now_ns;
	ask_and_tell(A, 1);
	wait_until(from + 1000);
	ask(A, 2);
	bed_status_next(&b, U);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_OK);
	ask(A, 3);
	bed_status(&b, U, bed_heard(&b, U, RIO_COMMAND)->m.id, WEFT_R_STORE_RANGE, 0);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_STORE_RANGE);
	ask(A, 4);
	bed_cancel(&b, A, 1); /* it has ended */
	bed_leave(&b, U);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_IOUNIT_LEFT);
	ask(A, 5); /* which is refused: there is no such device now */
	EXPECT(bed_heard(&b, A, RIO_STATUS));
	EXPECT(!bed_heard(&b, A, RIO_NOTIFIED));
	EXPECT_EQ(rio_owner_due(b.owner), from + RIO_NOTIFY_WAIT_NS);
	wait_until(from + RIO_NOTIFY_WAIT_NS);
	EXPECT(hears_of(A, 1, 1));
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 4U);
	bed_close(&b);
}
