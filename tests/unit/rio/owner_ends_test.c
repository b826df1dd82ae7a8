/* SPDX-License-Identifier: BSD-2-Clause */
/* How requests end, and messages that have no place. */
#include "test.h"
#include "unit/rio/owner_fixture.h"

enum { A = 0, B = 1, C = 2, U = BED_UNIT, V = BED_UNIT + 1, MS = 1000 * 1000 };

static struct owner_bed b;
static struct paper p;

/* ---- Ends ----------------------------------------------------------------------------------- */

TEST(test_rio_02i_a_request_can_be_cancelled)
{
	const struct heard *command;

	bed_open_all(&b);
	for (uint64_t id = 1; id <= 3; id++)
		bed_ask_read(&b, A, id, BED_DEVICE(0, 1));
	bed_run(&b);
	bed_cancel(&b, A, 3); /* which waits */
	bed_cancel(&b, A, 3);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_CANCEL), 0U);
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 1U);
	EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ENDED, 3, 0)->note.reason, WEFT_R_RIO_CANCELLED);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_CANCELLED);
	command = bed_heard(&b, U, RIO_COMMAND);
	bed_cancel(&b, A, 1); /* which is under way */
	bed_cancel(&b, A, 1);
	bed_cancel(&b, A, 99);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_CANCEL), 1U);
	EXPECT_EQ(bed_heard(&b, U, RIO_CANCEL)->m.id, command->m.id);
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 1U);
	bed_status(&b, U, command->m.id, WEFT_OK, 512); /* it was done before that came */
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_OK);
	/* It ends before the unit is told: then it is not told. */
	bed_cancel(&b, A, 2);
	bed_status_next(&b, U);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_CANCEL), 1U);
	EXPECT_EQ(bed_under_way(&b, A) + bed_under_way(&b, U), 0U);
	bed_close(&b);
}

TEST(test_rio_02i_what_is_late_is_given_up_and_its_status_still_awaited)
{
	const struct heard *command, *late;
	struct rio_owner_peer u;

	bed_open_all(&b);
	b.now_ns = 7;
	(void)bed_ask_chained(&b, A, 1, MANY);
	bed_run(&b);
	command = bed_heard(&b, U, RIO_COMMAND);
	EXPECT_EQ(command->m.request.timeout_ms, BED_TIMEOUT_NS / MS);
	EXPECT_EQ(rio_owner_due(b.owner), BED_TIMEOUT_NS + 7);
	rio_owner_expire(b.owner, BED_TIMEOUT_NS + 6);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 0U);
	rio_owner_expire(b.owner, BED_TIMEOUT_NS + 7);
	bed_run(&b);
	late = bed_heard(&b, A, RIO_STATUS);
	EXPECT(late && late->m.status.reason == WEFT_R_RIO_TIMEOUT && late->m.id == 1);
	EXPECT_EQ(bed_heard(&b, U, RIO_CANCEL)->m.id, command->m.id);
	EXPECT_EQ(bed_under_way(&b, A), 0U);
	EXPECT_EQ(bed_under_way(&b, U), 1U);
	/* Its slot is in use: A has one left. */
	(void)bed_ask_chained(&b, A, 2, MANY);
	(void)bed_ask_chained(&b, A, 3, MANY);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 2U);
	bed_status(&b, U, command->m.id, WEFT_R_RIO_CANCELLED, 0);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 3U);
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 1U);
	/* Once. */
	EXPECT_EQ(bed_try_say(&b, U, &(struct rio_msg){ .type = RIO_STATUS, .id = command->m.id }),
		  WEFT_R_RIO_UNEXPECTED);
	rio_owner_query(b.owner, b.ends[U].number, &u);
	EXPECT(u.requests == 3 && u.failed == 1);
	bed_close(&b);
}

TEST(test_rio_02i_what_is_left_of_its_time_is_handed_on)
{
	bed_open(&b);
	b.ends[U].requests_max = 1;
	bed_start(&b);
	bed_allow_all(&b);
	bed_all_come(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_run(&b);
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	paper_last(&p);
	REQUIRE(bed_try_ask(&b, A, 2, &p, 100) == WEFT_OK);
	REQUIRE(bed_try_ask(&b, A, 3, &p, UINT32_MAX) == WEFT_OK);
	b.now_ns = 40 * MS + 1;
	bed_status_next(&b, U);
	bed_run(&b);
	EXPECT_EQ(b.ends[U].heard[1].m.request.timeout_ms, 60U);
	/* A wait is no longer than that either. */
	rio_owner_expire(b.owner, 100 * MS);
	bed_run(&b);
	EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ENDED, 2, 0)->note.reason, WEFT_R_RIO_TIMEOUT);
	b.now_ns = 100 * MS;
	bed_status_next(&b, U);
	bed_run(&b);
	EXPECT_EQ(b.ends[U].heard[3].m.type, RIO_COMMAND);
	EXPECT_EQ(b.ends[U].heard[3].m.request.timeout_ms, UINT32_MAX - 100);
	bed_close(&b);
}

TEST(test_rio_02i_a_request_that_waits_too_long_is_not_handed_on)
{
	bed_open(&b);
	b.ends[U].requests_max = 1;
	bed_start(&b);
	bed_allow_all(&b);
	bed_all_come(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_run(&b);
	b.now_ns = 5;
	bed_ask_read(&b, B, 2, BED_DEVICE(0, 1));
	rio_owner_expire(b.owner, BED_TIMEOUT_NS + 5);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, B), WEFT_R_RIO_TIMEOUT);
	bed_status_next(&b, U);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 1U);
	bed_close(&b);
}

/* A unit that comes anew has nothing under way; a requester that is gone waits for nothing. */
TEST(test_rio_03_who_waits_for_what_it_had_asked_need_not_for_ever)
{
	const struct heard *command;

	bed_open_all(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_run(&b);
	bed_leave(&b, A);
	bed_run(&b);
	bed_come(&b, A);
	bed_ask_read(&b, A, 2, BED_DEVICE(0, 1));
	rio_owner_expire(b.owner, BED_TIMEOUT_NS);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_TIMEOUT);
	bed_leave(&b, U);
	bed_run(&b);
	bed_forget(&b);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	bed_ask_read(&b, A, 3, BED_DEVICE(0, 1));
	bed_run(&b);
	command = bed_heard(&b, U, RIO_COMMAND);
	REQUIRE(command);
	bed_leave(&b, A);
	bed_run(&b);
	bed_status(&b, U, command->m.id, WEFT_OK, 512);
	bed_run(&b);
	bed_come(&b, A);
	bed_ask_read(&b, A, 4, BED_DEVICE(0, 1));
	bed_run(&b);
	EXPECT(bed_heard(&b, U, RIO_COMMAND));
	bed_close(&b);
}

TEST(test_rio_03_a_requester_that_leaves_takes_its_requests_along)
{
	const struct heard *command, *revoke, *cancel;

	bed_open_all(&b);
	for (uint64_t id = 1; id <= 3; id++)
		(void)bed_ask_chained(&b, A, id, MANY);
	bed_run(&b);
	command = bed_heard(&b, U, RIO_COMMAND);
	bed_leave(&b, A);
	bed_run(&b);
	revoke = bed_heard(&b, U, RIO_REVOKE);
	cancel = bed_heard(&b, U, RIO_CANCEL);
	EXPECT(revoke && cancel && revoke->order < cancel->order);
	EXPECT_EQ(cancel->m.id, command->m.id);
	EXPECT(bed_heard(&b, U, RIO_CANCEL));
	EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ENDED, 1, 0)->note.reason, WEFT_R_PEER_GONE);
	EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ENDED, 2, 0)->note.reason, WEFT_R_PEER_GONE);
	EXPECT(bed_note_of(&b, RIO_NOTE_REFUSED, 3, 0) && !bed_note_of(&b, RIO_NOTE_ENDED, 3, 0));
	EXPECT_EQ(b.notes[b.note_count - 1].note.kind, RIO_NOTE_LEFT);
	/* Its slots are in use until the unit reports; a new requester has all its requests. */
	bed_come(&b, A);
	for (uint64_t id = 1; id <= BED_REQUESTS; id++)
		(void)bed_ask_chained(&b, A, id, MANY);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 3U);
	bed_status(&b, U, command->m.id, WEFT_R_RIO_CANCELLED, 0);
	bed_status_next(&b, U);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 4U);
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 0U);
	bed_close(&b);
}

/*
 * A requester that was gone and is here again, maybe restarted: the unit is told to give up what
 * the requester had wanted in the life before, ahead of what it wants now, and keeps the two in
 * order.
 */
TEST(test_rio_03_what_a_requester_had_begun_is_cancelled_before_it_is_served_again)
{
	const struct heard *first, *second, *next;

	bed_open_all(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_ask_read(&b, A, 2, BED_DEVICE(0, 1));
	bed_run(&b);
	first = bed_heard(&b, U, RIO_COMMAND);
	second = bed_heard(&b, U, RIO_COMMAND);
	bed_leave(&b, A);
	bed_leave(&b, C);
	bed_run(&b);
	bed_come(&b, C); /* another one has its slot */
	bed_come(&b, A);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_CANCEL), 2U);
	next = bed_heard(&b, U, RIO_CANCEL);
	EXPECT_EQ(next->m.id, first->m.id);
	next = bed_heard(&b, U, RIO_CANCEL);
	EXPECT_EQ(next->m.id, second->m.id);
	/* Behind both of them. */
	EXPECT(bed_heard(&b, U, RIO_COMMAND) > next);
	bed_status(&b, U, first->m.id, WEFT_R_RIO_CANCELLED, 0);
	bed_status(&b, U, second->m.id, WEFT_OK, 512);
	bed_run(&b);
	/* No request waits for a unit that has left. */
	bed_leave(&b, A);
	bed_leave(&b, U);
	bed_run(&b);
	bed_come(&b, A);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	bed_forget(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 1U);
	bed_close(&b);
}

/* Before anything of it was written down. */
TEST(test_rio_03_what_was_allowed_is_written_down_whatever_comes_after)
{
	static const enum rio_note_kind kinds[] = { RIO_NOTE_ALLOWED, RIO_NOTE_ENDED,
						    RIO_NOTE_REFUSED, RIO_NOTE_LEFT };

	bed_open_all(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_ask_read(&b, A, 2, BED_DEVICE(0, 9));
	bed_leave(&b, A);
	bed_run(&b);
	EXPECT_EQ(b.note_count, 4U);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(b.notes[i].note.kind, kinds[i]);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 0U);
	bed_come(&b, A);
	/* The same of a long one, whose slot is used again. */
	b.is_holding = true;
	for (uint64_t id = 10; id < 20; id++) {
		(void)bed_ask_chained(&b, A, id, MANY);
		bed_run(&b);
		bed_fetched(&b, 0, WEFT_OK);
		bed_cancel(&b, A, id);
		bed_run(&b);
		EXPECT(bed_note_of(&b, RIO_NOTE_ALLOWED, id, 0));
		EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ENDED, id, 0)->note.reason,
			  WEFT_R_RIO_CANCELLED);
	}
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 0U);
	bed_close(&b);
}

TEST(test_rio_02i_a_unit_that_leaves_ends_what_it_had_to_do)
{
	const struct heard *revoke, *status;

	bed_open_all(&b);
	for (uint64_t id = 1; id <= 3; id++)
		(void)bed_ask_chained(&b, A, id, MANY);
	for (uint64_t id = 1; id <= 3; id++)
		bed_ask_read(&b, B, id, BED_DEVICE(0, 1));
	bed_ask_read(&b, B, 4, BED_DEVICE(1, 1));
	bed_run(&b);
	bed_leave(&b, U);
	bed_run(&b);
	revoke = bed_heard(&b, A, RIO_REVOKE);
	status = bed_heard(&b, A, RIO_STATUS);
	EXPECT(revoke && status && revoke->order < status->order);
	EXPECT_EQ(status->m.status.reason, (uint32_t)WEFT_R_RIO_IOUNIT_LEFT);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_IOUNIT_LEFT);
	/* The third was fetched when a slot was free, and found no I/O unit. */
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_DEVICE);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(bed_ended_with(&b, B), WEFT_R_RIO_IOUNIT_LEFT);
	EXPECT_EQ(bed_under_way(&b, A), 0U);
	EXPECT_EQ(bed_under_way(&b, B), 1U);
	bed_ask_read(&b, B, 5, BED_DEVICE(0, 1));
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, B), WEFT_R_RIO_DEVICE);
	/* When it comes again all is as it was. */
	bed_come(&b, U);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_GRANT), 0U);
	bed_tell_devices(&b, U);
	for (uint64_t id = 1; id <= 2; id++)
		(void)bed_ask_chained(&b, A, id, MANY);
	bed_forget(&b);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_GRANT), 3U);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 2U);
	bed_close(&b);
}

/* ---- Units that come back with other devices ------------------------------------------------ */

static enum weft_reason try_come_with(const struct rio_device *devices, uint32_t count)
{
	uint8_t entries[256];
	struct wr w = wr_of(entries, sizeof(entries));
	enum weft_reason r;

	bed_come(&b, U);
	for (uint32_t i = 0; i < count; i++)
		rio_device_put(&devices[i], &w);
	r = bed_try_say(&b, U,
			&(struct rio_msg){
				.type = RIO_DEVICES,
				.devices = { .count = count,
					     .entries = { entries, (size_t)(w.at - entries) } } });
	bed_run(&b);
	return r;
}

static void come_with(const struct rio_device *devices, uint32_t count)
{
	REQUIRE(try_come_with(devices, count) == WEFT_OK);
}

/* What the owner says to a request for the device that has this number. */
static enum weft_reason asked_for(uint32_t number)
{
	static uint64_t id;

	bed_ask_read(&b, A, ++id, number);
	bed_run(&b);
	if (bed_count(&b, U, RIO_COMMAND) > 0)
		bed_status_next(&b, U);
	bed_run(&b);
	return bed_ended_with(&b, A);
}

/* The number of the last device that A was told of. */
static uint32_t number_announced(void)
{
	struct heard *h = bed_heard(&b, A, RIO_ANNOUNCE);
	struct rio_device d = { 0 };
	struct rd at;

	REQUIRE(h);
	at = rd_of(h->m.announce.devices.entries.bytes, h->m.announce.devices.entries.length);
	for (uint32_t i = 0; i < h->m.announce.devices.count; i++)
		REQUIRE(rio_device_next(&d, &at) == RIO_MSG_OK);
	return d.number;
}

static const struct rio_device first = { .number = 1,
					 .block_bytes = 512,
					 .size_bytes = BED_DISK,
					 .flags = RIO_DEVICE_FLUSH,
					 .name = { (const uint8_t *)"disk", 4 } };

/* A has the number, the unit comes back so, and A asks before it has heard of that. */
static void changes(const struct rio_device *devices, uint32_t count)
{
	struct rio_device d;
	uint32_t number;

	bed_open(&b);
	bed_start(&b);
	bed_allow_all(&b);
	bed_come(&b, A);
	come_with(&first, 1);
	EXPECT_EQ(number_announced(), BED_DEVICE(0, 1));
	EXPECT_EQ(asked_for(BED_DEVICE(0, 1)), WEFT_OK);
	bed_leave(&b, U);
	bed_run(&b);
	bed_forget(&b);
	come_with(devices, count);
	EXPECT(!rio_owner_device(b.owner, BED_DEVICE(0, 1), &d));
	EXPECT_EQ(asked_for(BED_DEVICE(0, 1)), WEFT_R_RIO_DEVICE);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 0U);
	number = number_announced();
	EXPECT(rio_owner_device(b.owner, number, &d));
	EXPECT(asked_for(number) != WEFT_R_RIO_DEVICE); /* it may dislike the request */
	bed_close(&b);
}

TEST(test_rio_02d_a_device_that_changed_is_not_asked_for_by_its_former_number)
{
	struct rio_device other = first;
	struct rio_device two[2] = { first, first };

	other.size_bytes *= 2;
	changes(&other, 1);
	other = first;
	other.block_bytes = 1024;
	changes(&other, 1);
	other = first;
	other.flags = 0;
	changes(&other, 1);
	other = first;
	other.name = (struct rio_bytes){ (const uint8_t *)"dusk", 4 };
	changes(&other, 1);
	other.name = (struct rio_bytes){ (const uint8_t *)"disks", 5 };
	changes(&other, 1);
	other = first;
	other.number = 2;
	changes(&other, 1);
	two[0].number = 2;
	changes(two, 2);
}

/* What it was refused with in between counts for nothing. */
TEST(test_rio_02d_a_device_that_was_refused_before_has_changed_still)
{
	struct rio_device twice[2] = { first, first };

	bed_open(&b);
	bed_start(&b);
	bed_allow_all(&b);
	bed_come(&b, A);
	come_with(&first, 1);
	bed_leave(&b, U);
	bed_run(&b);
	twice[0].size_bytes = twice[1].size_bytes = BED_DISK / 2;
	EXPECT_EQ(try_come_with(twice, 2), WEFT_R_RIO_UNEXPECTED);
	bed_leave(&b, U);
	bed_run(&b);
	bed_forget(&b);
	come_with(twice, 1);
	EXPECT_EQ(asked_for(BED_DEVICE(0, 1)), WEFT_R_RIO_DEVICE);
	EXPECT(number_announced() != BED_DEVICE(0, 1));
	bed_close(&b);
}

TEST(test_rio_03_a_unit_that_comes_back_as_it_was_has_the_same_numbers)
{
	bed_open_all(&b);
	for (int i = 0; i < 3; i++) {
		bed_leave(&b, U);
		bed_run(&b);
		bed_forget(&b);
		bed_come(&b, U);
		bed_run(&b); /* nothing is here before it tells */
		EXPECT_EQ(asked_for(BED_DEVICE(0, 1)), WEFT_R_RIO_DEVICE);
		bed_tell_devices(&b, U);
		bed_run(&b);
		EXPECT_EQ(number_announced(), BED_DEVICE(0, 2));
		EXPECT_EQ(asked_for(BED_DEVICE(0, 1)), WEFT_OK);
	}
	bed_close(&b);
}

/* Again and again, and no number is another unit's, or the one before. */
TEST(test_rio_03_numbers_of_devices_that_change_stay_apart)
{
	struct rio_device d = first;
	uint32_t before = 0, first_again = 0;

	bed_open_all(&b);
	bed_leave(&b, U);
	bed_run(&b);
	for (uint32_t i = 0; i < 0x9000; i++) {
		uint32_t number;

		d.size_bytes = (uint64_t)BED_DISK << i % 2;
		bed_forget(&b);
		b.note_count = 0;
		come_with(&d, 1);
		number = number_announced();
		REQUIRE(number != before && number >> 16 != 0 && number >> 16 < 0xffff);
		REQUIRE((number >> 16) % BED_UNITS == 1 && (number & 0xffff) == 1);
		first_again += number == BED_DEVICE(0, 1);
		before = number;
		bed_leave(&b, U);
		bed_run(&b);
	}
	EXPECT_EQ(first_again, 1U);
	EXPECT_EQ(asked_for(BED_DEVICE(1, 1)), WEFT_REASON_COUNT); /* V has it, and says nothing */
	bed_close(&b);
}

/* ---- Other messages ------------------------------------------------------------------------- */

TEST(test_rio_03_a_ping_is_answered)
{
	bed_open_all(&b);
	for (int i = 0; i < BED_ENDS; i++) {
		for (uint64_t id = 1; id <= 3; id++)
			bed_say(&b, i, &(struct rio_msg){ .type = RIO_PING, .id = id });
	}
	bed_run(&b);
	for (int i = 0; i < BED_ENDS; i++) {
		EXPECT_EQ(b.ends[i].heard_count, 1U);
		EXPECT_EQ(bed_heard(&b, i, RIO_PONG)->m.id, 3U);
	}
	bed_say(&b, A, &(struct rio_msg){ .type = RIO_PING });
	bed_leave(&b, A);
	bed_run(&b);
	EXPECT_EQ(b.ends[A].heard_count, 1U);
	bed_close(&b);
}

TEST(test_rio_03_messages_out_of_place_are_refused)
{
	const struct {
		int end;
		struct rio_msg m;
	} said[] = {
		{ A, { .type = RIO_BYE } },
		{ A, { .type = RIO_PONG } },
		{ A, { .type = RIO_STATUS } },
		{ A, { .type = RIO_DEVICES } },
		{ A, { .type = RIO_REVOKE, .revoked = { 8, 1 } } },
		{ A,
		  { .type = RIO_GRANT,
		    .grant = { .requester = { 7, 1 }, .address = { .family = 4, .port = 1 } } } },
		{ A, { .type = RIO_ANNOUNCE, .announce = { .iounit = { 2, 1 } } } },
		{ A,
		  { .type = RIO_COMMAND,
		    .request = { .requester = { 7, 1 }, .list = { p.bytes, 40 } } } },
		{ U, { .type = RIO_BYE } },
		{ U, { .type = RIO_PONG } },
		{ U, { .type = RIO_CANCEL } },
		{ U, { .type = RIO_STATUS, .id = 0 } },
		{ U, { .type = RIO_STATUS, .id = 1 } },
		{ U, { .type = RIO_STATUS, .id = UINT64_MAX } },
		{ U, { .type = RIO_REQUEST, .request = { .list = { p.bytes, 40 } } } },
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		bed_open_all(&b);
		EXPECT_EQ(bed_try_say(&b, said[i].end, &said[i].m), WEFT_R_RIO_UNEXPECTED);
		bed_run(&b);
		for (int k = 0; k < BED_ENDS; k++)
			EXPECT_EQ(b.ends[k].heard_count, 0U);
		bed_close(&b);
	}
}

/* One unit's commands are not another's. */
TEST(test_rio_03_a_status_of_another_unit_is_refused)
{
	uint64_t id;

	bed_open_all(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_run(&b);
	id = bed_heard(&b, U, RIO_COMMAND)->m.id;
	EXPECT_EQ(bed_try_say(&b, V, &(struct rio_msg){ .type = RIO_STATUS, .id = id }),
		  WEFT_R_RIO_UNEXPECTED);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 0U);
	bed_close(&b);
}

TEST(test_rio_03_what_was_forged_or_repeated_is_refused)
{
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length;

	bed_open_all(&b);
	length = rio_session_close(&b.ends[A].session, &(struct rio_msg){ .type = RIO_PING }, bytes,
				   sizeof(bytes));
	bytes[20] ^= 1;
	EXPECT_EQ(rio_owner_take(b.owner, b.ends[A].number, bytes, length, 0), WEFT_R_RIO_FORGED);
	bytes[20] ^= 1;
	EXPECT_EQ(rio_owner_take(b.owner, b.ends[A].number, bytes, length, 0),
		  WEFT_R_RIO_UNEXPECTED); /* it is to be sent away */
	length = rio_session_close(&b.ends[B].session, &(struct rio_msg){ .type = RIO_PING }, bytes,
				   sizeof(bytes));
	EXPECT_EQ(rio_owner_take(b.owner, b.ends[B].number, bytes, length, 0), WEFT_OK);
	EXPECT_EQ(rio_owner_take(b.owner, b.ends[B].number, bytes, length, 0), WEFT_R_RIO_SEQUENCE);
	bed_close(&b);
}
