/* SPDX-License-Identifier: BSD-2-Clause */
/* How the cluster stands: who may see it, and what is shown. */
#include <string.h>

#include "test.h"
#include "unit/rio/owner_fixture.h"

enum { A = 0, B = 1, C = 2, U = BED_UNIT, V = BED_UNIT + 1 };

static struct owner_bed b;

static void inquire(int end, uint64_t id, uint32_t first)
{
	bed_say(&b, end,
		&(struct rio_msg){ .type = RIO_INQUIRE, .id = id, .inquire_first = first });
}

static void watch(struct platform who)
{
	REQUIRE(rio_policy_add_watcher(&b.policy, who) == WEFT_OK);
}

/* The entries of a report, in room for so many. */
static uint32_t entries_of(const struct heard *h, struct rio_seen *seen, uint32_t room)
{
	struct rd at = rd_of(h->m.report.entries.bytes, h->m.report.entries.length);

	REQUIRE(h->m.report.count <= room);
	for (uint32_t i = 0; i < h->m.report.count; i++)
		REQUIRE(rio_seen_next(&seen[i], &at) == RIO_MSG_OK);
	return h->m.report.count;
}

static bool is_named(const struct rio_seen *s, const char *name)
{
	return s->name.length == strlen(name) && memcmp(s->name.bytes, name, s->name.length) == 0;
}

TEST(test_rio_03_who_may_not_watch_is_refused_and_noted)
{
	const struct heard *h;
	const struct bed_note *n;

	bed_open_all(&b);
	watch((struct platform){ 8, 1 });
	inquire(A, 41, 0);
	bed_run(&b);
	h = bed_heard(&b, A, RIO_STATUS);
	REQUIRE(h);
	EXPECT_EQ(h->m.id, 41U);
	EXPECT_EQ(h->m.status.reason, WEFT_R_RIO_DENIED);
	EXPECT_EQ(bed_count(&b, A, RIO_REPORT), 0U);
	n = bed_note_of(&b, RIO_NOTE_WATCH, 0, 0);
	REQUIRE(n);
	EXPECT_EQ(n->note.reason, WEFT_R_RIO_DENIED);
	EXPECT_EQ(n->note.who.unit, 7U);
	EXPECT(n->order < h->order);
	/* Each time; and a requester is not disconnected for asking. */
	inquire(A, 42, 0);
	bed_run(&b);
	EXPECT(bed_note_of(&b, RIO_NOTE_WATCH, 0, 1));
	EXPECT(!b.ends[A].is_sent_away);
	bed_close(&b);
}

TEST(test_rio_03_a_watching_requester_is_noted_once)
{
	const struct bed_note *n;

	bed_open_all(&b);
	watch((struct platform){ 8, 1 });
	for (uint64_t id = 1; id <= 3; id++) {
		inquire(B, id, 0);
		bed_run(&b);
		EXPECT_EQ(bed_heard(&b, B, RIO_REPORT)->m.id, id);
	}
	n = bed_note_of(&b, RIO_NOTE_WATCH, 0, 0);
	EXPECT(n && n->note.reason == WEFT_OK && n->note.who.unit == 8);
	EXPECT(!bed_note_of(&b, RIO_NOTE_WATCH, 0, 1));
	/* Of another connection it is noted again, and before that it left. */
	bed_leave(&b, B);
	bed_run(&b);
	bed_come(&b, B);
	inquire(B, 1, 0);
	bed_leave(&b, B);
	bed_forget(&b);
	bed_run(&b);
	REQUIRE(b.note_count == 3);
	EXPECT_EQ(b.notes[0].note.kind, RIO_NOTE_CAME);
	EXPECT_EQ(b.notes[1].note.kind, RIO_NOTE_WATCH);
	EXPECT_EQ(b.notes[2].note.kind, RIO_NOTE_LEFT);
	EXPECT_EQ(bed_count(&b, B, RIO_REPORT), 0U);
	bed_close(&b);
}

TEST(test_rio_03_who_watched_and_may_no_longer_is_noted)
{
	const struct bed_note *n;

	bed_open_all(&b);
	watch((struct platform){ 8, 1 });
	inquire(B, 1, 0);
	bed_run(&b);
	b.policy.watcher_count = 0;
	inquire(B, 2, 0);
	bed_run(&b);
	n = bed_note_of(&b, RIO_NOTE_WATCH, 0, 1);
	EXPECT(n && n->note.reason == WEFT_R_RIO_DENIED);
	EXPECT_EQ(bed_ended_with(&b, B), WEFT_R_RIO_DENIED);
	watch((struct platform){ 8, 1 });
	inquire(B, 3, 0);
	bed_run(&b);
	n = bed_note_of(&b, RIO_NOTE_WATCH, 0, 2);
	EXPECT(n && n->note.reason == WEFT_OK);
	bed_close(&b);
}

TEST(test_rio_03_io_units_do_not_inquire)
{
	bed_open_all(&b);
	watch((struct platform){ 0 });
	EXPECT_EQ(bed_try_say(&b, U, &(struct rio_msg){ .type = RIO_INQUIRE, .id = 1 }),
		  WEFT_R_RIO_UNEXPECTED);
	bed_close(&b);
}

TEST(test_rio_01_a_report_shows_what_the_owner_carried_and_what_others_did)
{
	const struct rio_moved moved = { 0, 0, 333, 444, 0 };
	struct rio_seen s[16];
	const struct heard *h;

	bed_open_all(&b);
	watch((struct platform){ 8, 0 });
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_ask_read(&b, A, 2, BED_DEVICE(0, 9)); /* there is none */
	bed_ask_read(&b, A, 3, BED_DEVICE(0, 1));
	bed_run(&b);
	bed_status(&b, U, bed_heard(&b, U, RIO_COMMAND)->m.id, WEFT_OK, 512);
	bed_run(&b);
	EXPECT(!rio_owner_is_inquired(b.owner));
	inquire(B, 1, 0);
	EXPECT(rio_owner_is_inquired(b.owner));
	rio_owner_moved(b.owner, &moved);
	bed_run(&b);
	EXPECT(!rio_owner_is_inquired(b.owner));
	h = bed_heard(&b, B, RIO_REPORT);
	REQUIRE(h);
	/* The owner, three requesters, two units with two devices each. */
	EXPECT_EQ(h->m.report.total, 10U);
	EXPECT_EQ(entries_of(h, s, 16), 10U);
	EXPECT(s[0].kind == RIO_SEEN_OWNER && s[0].platform.unit == 1 && s[0].now == 1);
	EXPECT(s[0].moved.payload_in == 0 && s[0].moved.payload_out == 0);
	EXPECT(s[0].moved.control_in == 333 && s[0].moved.control_out == 444);
	EXPECT(s[1].kind == RIO_SEEN_REQUESTER && s[1].platform.unit == 7 && s[1].is_here);
	EXPECT(s[1].now == 1 && s[1].done.requests == 3 && s[1].done.refused == 1);
	EXPECT(s[1].done.read_bytes == 512 && s[1].done.written_bytes == 0);
	EXPECT(s[4].kind == RIO_SEEN_IOUNIT && s[4].platform.unit == 2);
	EXPECT(s[4].done.requests == 2 && s[4].done.read_bytes == 512);
	EXPECT(s[5].kind == RIO_SEEN_DEVICE && s[5].platform.unit == 2);
	EXPECT_EQ(s[5].device.number, BED_DEVICE(0, 1));
	EXPECT(s[7].kind == RIO_SEEN_IOUNIT && s[8].platform.unit == 3);
	EXPECT_EQ(s[9].device.number, BED_DEVICE(1, 2));
	bed_close(&b);
}

TEST(test_rio_03_names_are_the_owners_and_who_is_not_here_is_shown_so)
{
	static const struct rio_owner_known known[] = {
		{ { 7, 1 }, RIO_REQUESTER, { (const uint8_t *)"db", 2 } },
		{ { 8, 1 }, RIO_REQUESTER, { NULL, 0 } },
		{ { 2, 1 }, RIO_IOUNIT, { (const uint8_t *)"disks", 5 } },
		{ { 3, 1 }, RIO_IOUNIT, { (const uint8_t *)"more", 4 } },
	};
	struct rio_seen s[16];

	bed_open(&b);
	b.config.known = known;
	b.config.known_count = 4;
	watch((struct platform){ 0 });
	bed_start(&b);
	bed_come(&b, B);
	bed_come(&b, U);
	inquire(B, 1, 0);
	bed_run(&b);
	REQUIRE(entries_of(bed_heard(&b, B, RIO_REPORT), s, 16) == 5);
	EXPECT(s[1].is_here && s[1].platform.unit == 8 && s[1].name.length == 0);
	EXPECT(s[2].is_here && s[2].platform.unit == 2 && is_named(&s[2], "disks"));
	EXPECT(!s[3].is_here && s[3].kind == RIO_SEEN_REQUESTER && is_named(&s[3], "db"));
	EXPECT(!s[4].is_here && s[4].kind == RIO_SEEN_IOUNIT && is_named(&s[4], "more"));
	bed_close(&b);
}

TEST(test_rio_02e_a_report_goes_on_where_it_was_asked_to)
{
	static struct rio_owner_known known[300];
	static uint8_t name[RIO_DEVICE_NAME_MAX];
	static bool seen[300];
	struct rio_seen s[200];
	uint32_t first = 0, parts = 0;

	bed_open(&b);
	memset(name, 'x', sizeof(name));
	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < 300; i++)
		known[i] = (struct rio_owner_known){ { 1000 + i, 1 },
						     RIO_REQUESTER,
						     { name, sizeof(name) } };
	b.config.known = known;
	b.config.known_count = 300;
	watch((struct platform){ 7, 1 });
	bed_start(&b);
	bed_come(&b, A);
	while (first < 302) {
		const struct heard *h;
		uint32_t count;

		inquire(A, ++parts, first);
		bed_run(&b);
		h = bed_heard(&b, A, RIO_REPORT);
		REQUIRE(h && h->m.id == parts && h->m.report.total == 302);
		count = entries_of(h, s, 200);
		REQUIRE(count > 0);
		for (uint32_t i = 0; i < count; i++) {
			if (s[i].platform.unit >= 1000)
				seen[s[i].platform.unit - 1000] = true;
		}
		first += count;
	}
	EXPECT(first == 302 && parts > 1);
	for (uint32_t i = 0; i < 300; i++)
		EXPECT(seen[i]);
	/* Past the end there is nothing, and that is said. */
	inquire(A, 99, 302);
	bed_run(&b);
	EXPECT_EQ(bed_heard(&b, A, RIO_REPORT)->m.report.count, 0U);
	inquire(A, 100, UINT32_MAX);
	bed_run(&b);
	EXPECT_EQ(bed_heard(&b, A, RIO_REPORT)->m.report.total, 302U);
	bed_close(&b);
}

TEST(test_rio_03_of_several_inquiries_the_last_is_answered)
{
	bed_open_all(&b);
	watch((struct platform){ 7, 1 });
	for (uint64_t id = 1; id <= 5; id++)
		inquire(A, id, 0);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, A, RIO_REPORT), 1U);
	EXPECT_EQ(bed_heard(&b, A, RIO_REPORT)->m.id, 5U);
	bed_close(&b);
}
