/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the owner hears of a command that went well: its requester knows, so it may wait for others
 * (docs/wire/rio.md). Everything else is said at once.
 */
#include "rio/notify.h"
#include "test.h"
#include "unit/rio/unit_fixture.h"

enum {
	WIDE = 64,  /* commands: with two dozen of them there is no shortage */
	NARROW = 8, /* with two there is */
	BYTES = 512
};

static struct unit_world w;

static void command(uint64_t id, enum sgl_operation operation, int requester, uint64_t offset)
{
	struct unit_list l;

	list_start(&l);
	list_platform(&l, requester);
	list_transaction(&l, operation, offset, BYTES);
	if (operation == SGL_READ)
		list_result(&l, requester, 0, BYTES);
	else
		list_source(&l, requester, 0, BYTES);
	world_command(&w, id, &l);
}

/* All of it that takes no time. */
static void now(void)
{
	world_run_until(&w, w.now_ns);
}

static void read_now(uint64_t id)
{
	command(id, SGL_READ, 0, 0);
	now();
	EXPECT(w.notified[id]);
}

/* The requesters are connected, and time does not begin at 0. */
static void open_with(uint32_t commands)
{
	world_open_wide(&w, 1, false, commands);
	w.timeout_ms = 1000;
	world_grant(&w, 0);
	world_grant(&w, 1);
	command(60, SGL_WRITE, 0, 0);
	command(61, SGL_WRITE, 1, 0);
	world_run(&w);
	REQUIRE(world_status(&w, 60) && world_status(&w, 61));
	world_run_until(&w, UINT64_C(7777777));
	w.status_count = 0;
}

static bool has_heard(uint64_t id)
{
	const struct status *s = world_status(&w, id);

	return s && s->is_notified && s->reason == 0 && s->done_bytes == BYTES;
}

TEST(test_rio_02i_the_owner_hears_some_milliseconds_later_what_the_requester_knows)
{
	uint64_t from;

	open_with(WIDE);
	for (uint64_t id = 1; id <= 5; id += 2) { /* each time anew */
		from = w.now_ns;
		read_now(id);
		EXPECT(!world_status(&w, id));
		EXPECT_EQ(rio_iounit_due(w.unit), from + RIO_NOTIFY_WAIT_NS);
		world_run_until(&w, from + 300000);
		read_now(id + 1); /* does not put it off */
		EXPECT_EQ(rio_iounit_due(w.unit), from + RIO_NOTIFY_WAIT_NS);
		world_run_until(&w, from + RIO_NOTIFY_WAIT_NS - 1);
		EXPECT_EQ(w.status_count, (uint32_t)id - 1);
		EXPECT(!rio_iounit_is_idle(w.unit));
		world_run_until(&w, from + RIO_NOTIFY_WAIT_NS);
		EXPECT(has_heard(id) && has_heard(id + 1));
		EXPECT_EQ(w.status_count, (uint32_t)id + 1);
		EXPECT_EQ(w.notifications, ((uint32_t)id + 1) / 2); /* both at once */
		EXPECT_EQ(rio_iounit_due(w.unit), UINT64_MAX);
		EXPECT(rio_iounit_is_idle(w.unit));
	}
	world_close(&w);
}

TEST(test_rio_02i_the_owner_hears_of_sixteen_at_once)
{
	open_with(WIDE);
	/* Those that were said for another reason are not counted. */
	for (uint64_t id = 1; id <= 5; id++)
		read_now(id);
	world_run_until(&w, w.now_ns + RIO_NOTIFY_WAIT_NS);
	EXPECT_EQ(w.status_count, 5U);
	for (int round = 0; round < 2; round++) {
		w.status_count = w.notifications = 0;
		for (uint64_t id = 10; id < 10 + RIO_NOTIFY_BATCH - 1; id++)
			read_now(id);
		EXPECT_EQ(w.status_count, 0U);
		read_now(30);
		EXPECT_EQ(w.status_count, (uint32_t)RIO_NOTIFY_BATCH);
		EXPECT_EQ(w.notifications, 1U);
		EXPECT(has_heard(10) && has_heard(30));
		EXPECT(rio_iounit_is_idle(w.unit));
	}
	world_close(&w);
}

TEST(test_rio_02i_an_urgent_one_takes_along_what_waits)
{
	open_with(WIDE);
	read_now(1);
	read_now(2);
	EXPECT_EQ(w.status_count, 0U);
	w.is_urgent = true;
	read_now(3);
	EXPECT(has_heard(1) && has_heard(2) && has_heard(3));
	EXPECT_EQ(w.notifications, 1U);
	read_now(4); /* alone */
	EXPECT(has_heard(4));
	w.is_urgent = false;
	read_now(5);
	EXPECT(!world_status(&w, 5));
	world_run(&w);
	EXPECT(has_heard(5));
	world_close(&w);
}

/* left <= all / 4 + 4 */
TEST(test_rio_02i_a_unit_that_is_short_of_slots_does_not_wait)
{
	open_with(NARROW);
	read_now(1); /* one slot is taken, 7 are left */
	EXPECT(!world_status(&w, 1));
	read_now(2); /* 6 */
	EXPECT(has_heard(1) && has_heard(2));
	EXPECT_EQ(w.notifications, 1U);
	/* Whatever takes the slot. */
	w.is_stuck = true;
	command(3, SGL_WRITE, 1, 0);
	now();
	EXPECT_EQ(w.under_way_count, 1U);
	read_now(4);
	EXPECT(has_heard(4));
	w.is_stuck = false;
	world_run(&w);
	world_close(&w);

	open_with(NARROW - 2); /* never more than 5 of 6 are left */
	read_now(1);
	EXPECT(has_heard(1));
	world_close(&w);
}

/* Failures, and what only the owner can tell of: the requester is not connected. */
TEST(test_rio_02i_a_status_unknown_to_the_requester_does_not_wait)
{
	struct unit_list l;
	uint64_t due;

	open_with(WIDE);
	world_break(&w, 0);
	list_start(&l);
	list_transaction(&l, SGL_READ, 0, BYTES);
	list_own_result(&l, 0, BYTES);
	world_command(&w, 2, &l);
	now();
	EXPECT(!w.notified[2] && world_status(&w, 2) && !world_status(&w, 2)->is_notified);
	read_now(1);
	due = rio_iounit_due(w.unit);
	world_run_until(&w, w.now_ns + 1000);
	command(3, SGL_READ, 0, DISK); /* not there */
	now();
	REQUIRE(world_status(&w, 3));
	EXPECT_EQ(world_status(&w, 3)->reason, (uint32_t)WEFT_R_STORE_RANGE);
	w.is_stuck = true;
	command(6, SGL_WRITE, 0, 0);
	now();
	world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = 6 });
	w.is_stuck = false;
	now();
	REQUIRE(world_status(&w, 6));
	EXPECT_EQ(world_status(&w, 6)->reason, (uint32_t)WEFT_R_RIO_CANCELLED);
	EXPECT(!world_status(&w, 1));
	EXPECT_EQ(rio_iounit_due(w.unit), due);
	world_run_until(&w, due);
	EXPECT(has_heard(1));
	world_close(&w);
}

/* A write, and a read to another than its requester, which settles: the first word counts. */
TEST(test_rio_02i_the_owner_hears_later_of_writes_too)
{
	uint64_t due;

	open_with(WIDE);
	read_now(1);
	due = rio_iounit_due(w.unit);
	command(2, SGL_WRITE, 0, 0);
	now();
	command(3, SGL_READ, 1, 0);
	now();
	read_now(4);
	EXPECT(w.notified[2] && w.notified[3]);
	EXPECT_EQ(w.status_count, 0U);
	EXPECT_EQ(rio_iounit_due(w.unit), due);
	world_run_until(&w, due);
	EXPECT(has_heard(1) && has_heard(4));
	for (uint64_t id = 2; id <= 3; id++) {
		REQUIRE(world_status(&w, id));
		EXPECT(!world_status(&w, id)->is_notified && world_status(&w, id)->reason == 0);
	}
	EXPECT_EQ(w.status_count, 4U);
	EXPECT(rio_iounit_is_idle(w.unit));
	world_close(&w);
}

/* Also what went well and could not be told to its requester: it is not connected. */
TEST(test_rio_02i_status_goes_at_once_if_no_requester_was_notified)
{
	struct unit_list l;

	open_with(WIDE);
	world_break(&w, 0);
	now();
	list_start(&l);
	list_transaction(&l, SGL_FLUSH, 0, 0);
	world_command(&w, 1, &l);
	now();
	EXPECT(world_status(&w, 1) && !world_status(&w, 1)->is_notified && !w.notified[1]);
	world_close(&w);
}

/* It is known how they went: what comes later does not change that. */
TEST(test_rio_02i_what_waits_to_be_said_is_neither_cancelled_nor_lost)
{
	open_with(WIDE);
	read_now(1);
	world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = 1 });
	world_break(&w, 0);
	now();
	EXPECT_EQ(w.status_count, 0U);
	world_run(&w);
	EXPECT(has_heard(1));
	EXPECT_EQ(w.status_count, 1U);
	world_close(&w);
}

/* With two moves, both of which have ended. */
static void read_in_parts(uint64_t id)
{
	struct unit_list l;

	list_start(&l);
	list_platform(&l, 0);
	list_transaction(&l, SGL_READ, 0, BYTES);
	list_result(&l, 0, 0, BYTES / 2);
	list_result(&l, 0, BYTES, BYTES / 2);
	world_command(&w, id, &l);
	now();
	EXPECT(w.notified[id]);
}

/* A connection that carries no data of the late command is not closed: its moves are another's. */
TEST(test_rio_02i_what_waits_to_be_said_is_not_late)
{
	uint64_t from;

	open_with(WIDE);
	from = w.now_ns;
	w.timeout_ms = 1;
	read_in_parts(1);
	w.timeout_ms = 1000;
	world_run_until(&w, from + RIO_NOTIFY_WAIT_NS / 2);
	w.is_stuck = true;
	command(2, SGL_WRITE, 0, 0);
	now();
	EXPECT_EQ(w.under_way_count, 1U);
	world_run_until(&w, from + RIO_NOTIFY_WAIT_NS);
	EXPECT(has_heard(1));
	EXPECT_EQ(w.hang_ups, 0U);
	w.is_stuck = false;
	world_run(&w);
	REQUIRE(world_status(&w, 2));
	EXPECT_EQ(world_status(&w, 2)->reason, (uint32_t)WEFT_OK);
	world_close(&w);
}

/* Nor for what the command before it in its slot had moved there. */
TEST(test_rio_02i_a_command_that_is_late_hangs_up_only_whom_it_waits_for)
{
	open_with(WIDE);
	w.is_stuck = true;
	command(1, SGL_WRITE, 0, 0);
	now();
	w.is_urgent = true;
	read_in_parts(2);
	EXPECT(has_heard(2));
	w.timeout_ms = 1;
	world_chained(&w, 3, (struct platform){ OWNER, 1 }, 64); /* it waits for the owner */
	now();
	EXPECT_EQ(w.under_way_count, 2U);
	world_run_until(&w, w.now_ns + 1000 * 1000);
	EXPECT_EQ(w.hang_ups, 0U);
	w.is_stuck = false;
	world_run(&w);
	REQUIRE(world_status(&w, 1) && world_status(&w, 3));
	EXPECT_EQ(world_status(&w, 1)->reason, (uint32_t)WEFT_OK);
	EXPECT_EQ(world_status(&w, 3)->reason, (uint32_t)WEFT_R_RIO_TIMEOUT);
	world_close(&w);
}

TEST(test_rio_02i_a_unit_that_is_about_to_end_does_not_wait)
{
	open_with(WIDE);
	read_now(1);
	read_now(2);
	EXPECT_EQ(w.notifications, 0U);
	rio_iounit_hurry(w.unit);
	now();
	EXPECT(has_heard(1) && has_heard(2));
	EXPECT_EQ(w.notifications, 1U);
	EXPECT(rio_iounit_is_idle(w.unit));
	world_close(&w);
}

/* Its requester may know of a read before this unit has taken the end of its last Write. */
TEST(test_rio_02i_a_unit_that_is_about_to_end_does_not_wait_for_what_ends_then)
{
	open_with(WIDE);
	rio_iounit_hurry(w.unit); /* there is nothing */
	now();
	EXPECT_EQ(w.notifications, 0U);
	for (uint64_t id = 1; id <= 2; id++) {
		read_now(id);
		EXPECT(has_heard(id));
		EXPECT_EQ(w.notifications, (uint32_t)id);
	}
	EXPECT(rio_iounit_is_idle(w.unit));
	world_close(&w);
}

TEST(test_rio_03_an_owner_that_leaves_leaves_nothing_that_waits_to_be_said)
{
	open_with(WIDE);
	for (uint64_t id = 1; id < RIO_NOTIFY_BATCH; id++)
		read_now(id);
	EXPECT(!rio_iounit_is_idle(w.unit));
	rio_iounit_owner_left(w.unit);
	EXPECT(rio_iounit_is_idle(w.unit));
	EXPECT_EQ(rio_iounit_due(w.unit), UINT64_MAX);
	world_run_until(&w, w.now_ns + 100);

	/* The next one hears only of what is its own, and that as if nothing had been. */
	world_owner_again(&w);
	world_grant(&w, 0);
	now();
	EXPECT_EQ(w.status_count, 0U);
	read_now(31);
	EXPECT_EQ(w.status_count, 0U);
	EXPECT_EQ(rio_iounit_due(w.unit), w.now_ns + RIO_NOTIFY_WAIT_NS);
	world_run(&w);
	EXPECT(has_heard(31));
	EXPECT_EQ(w.status_count, 1U);
	world_close(&w);
}
