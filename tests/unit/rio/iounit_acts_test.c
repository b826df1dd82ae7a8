/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An I/O unit gives out its acts as soon as it can: the caller pulls again only after an event.
 * Acts are pulled here one by one.
 */
#include <string.h>

#include "test.h"
#include "unit/rio/unit_fixture.h"

enum { FUA_AT = 5 }; /* the flags of a transaction element */

static struct unit_world w;

/* Takes acts until there is none; moves stay under way. */
struct taken {
	uint32_t reads, writes, settles, dials, hang_ups, statuses;
	uint32_t ids[16], id_count;
	uint32_t reason; /* of the last status */
	struct platform dialled;
};

static struct taken take_all(void)
{
	struct taken t = { 0 };
	struct rio_act act;

	while (rio_iounit_act(w.unit, &act)) {
		struct rio_msg m;

		t.reads += act.kind == RIO_ACT_READ;
		t.writes += act.kind == RIO_ACT_WRITE;
		t.settles += act.kind == RIO_ACT_SETTLE;
		t.dials += act.kind == RIO_ACT_DIAL;
		t.hang_ups += act.kind == RIO_ACT_HANG_UP;
		if (act.kind == RIO_ACT_DIAL)
			t.dialled = act.platform;
		if (act.kind == RIO_ACT_READ || act.kind == RIO_ACT_WRITE ||
		    act.kind == RIO_ACT_SETTLE)
			t.ids[t.id_count++] = act.id;
		if (act.kind != RIO_ACT_SAY)
			continue;
		REQUIRE(rio_session_open(&w.owner, act.bytes, act.length, &m) == WEFT_OK);
		if (m.type != RIO_STATUS)
			continue;
		t.statuses++;
		t.reason = m.status.reason;
	}
	return t;
}

static void end_all(const struct taken *t)
{
	for (uint32_t i = 0; i < t->id_count; i++)
		rio_iounit_ended(w.unit, t->ids[i], WEFT_OK);
}

/* Of whom the world does not know. */
static void grant_unknown(void)
{
	world_say(&w, &(struct rio_msg){ .type = RIO_GRANT,
					 .grant = { .requester = { FIRST + REQUESTERS, 1 },
						    .address = { .family = 4, .port = 7480 } } });
}

static void command(uint64_t id, enum sgl_operation operation, int requester, uint32_t length)
{
	struct unit_list l;

	list_start(&l);
	list_transaction(&l, operation, 0, length);
	list_platform(&l, requester);
	if (operation == SGL_READ)
		list_result(&l, requester, 0, length);
	else
		list_source(&l, requester, 0, length);
	world_command(&w, id, &l);
}

TEST(test_rio_10_who_is_to_be_dialled_is_dialled_when_the_device_has_read)
{
	struct taken t;

	world_open(&w, 1, true);
	world_grant(&w, 0);
	command(1, SGL_READ, 0, 512);
	take_all();
	w.now_ns = rio_iounit_due(w.unit);
	rio_iounit_progress(w.unit, w.now_ns);
	t = take_all();
	EXPECT_EQ(t.dials, 1U);
	rio_iounit_dialled(w.unit, t.dialled, WEFT_R_CONNECT_CLOSED, NULL);
	t = take_all();
	EXPECT_EQ(t.statuses, 1U);
	EXPECT_EQ(t.reason, WEFT_R_CONNECT_CLOSED);
	world_close(&w);
}

/* The device is memory, and completes before the caller could wait for it. */
TEST(test_rio_13d_data_in_the_list_is_said_to_be_written_when_it_is)
{
	static const uint8_t data[512] = { 7 };
	struct unit_list l;
	struct taken t;

	world_open(&w, 1, false);
	take_all();
	list_start(&l);
	list_transaction(&l, SGL_WRITE, 0, sizeof(data));
	l.latest[FUA_AT] = 1;
	list_data(&l, data, sizeof(data));
	world_command(&w, 1, &l);
	t = take_all();
	EXPECT_EQ(t.statuses, 1U);
	EXPECT_EQ(t.reason, WEFT_OK);
	EXPECT(memcmp(w.disk_bytes, data, sizeof(data)) == 0);
	world_close(&w);
}

static void revoke(int requester)
{
	world_say(&w, &(struct rio_msg){ .type = RIO_REVOKE,
					 .revoked = { FIRST + (uint32_t)requester, 1 } });
}

/*
 * A requester goes and comes back while the device works for it: the one that came back has asked
 * for nothing yet, and none of the old handles is its own.
 */
TEST(test_rio_03_who_comes_back_gets_nothing_of_what_it_asked_for_before)
{
	for (int is_moved = 0; is_moved < 2; is_moved++) {
		struct taken t;

		world_open(&w, 1, true);
		if (is_moved)
			world_grant(&w, 0); /* the other slot is free afterwards */
		world_grant(&w, 1);
		command(1, SGL_READ, 1, 512);
		take_all();
		if (is_moved)
			revoke(0);
		revoke(1);
		world_grant(&w, 1);
		w.now_ns = rio_iounit_due(w.unit);
		rio_iounit_progress(w.unit, w.now_ns);
		t = take_all();
		EXPECT_EQ(t.dials + t.writes, 0U);
		EXPECT_EQ(t.statuses, 1U);
		EXPECT_EQ(t.reason, WEFT_R_RIO_PLATFORM);
		world_close(&w);
	}
}

/* What a command was to move next falls to the others when it is cancelled. */
TEST(test_rio_02i_a_cancelled_command_lets_others_have_its_turn)
{
	struct unit_list l;
	struct taken a, c;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	command(1, SGL_WRITE, 0, 512);
	world_run(&w); /* it is connected */
	list_start(&l);
	list_transaction(&l, SGL_WRITE, 0, MOVES * 512);
	list_platform(&l, 0);
	for (uint64_t i = 0; i < MOVES; i++)
		list_source(&l, 0, i * 1024, 512);
	world_command(&w, 2, &l);
	a = take_all();
	EXPECT_EQ(a.reads, (uint32_t)MOVES);
	command(3, SGL_WRITE, 0, 3 * PIECE);
	command(4, SGL_WRITE, 0, 2 * PIECE);
	EXPECT_EQ(take_all().id_count, 0U); /* so many at a time */
	end_all(&a);
	world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = 3 });
	c = take_all();
	EXPECT_EQ(c.reads, 2U);
	EXPECT_EQ(c.statuses, 2U);
	end_all(&c);
	EXPECT_EQ(take_all().statuses, 1U);
	world_close(&w);
}

/* No command waits for a buffer while one is free, even one meant for a command that failed. */
TEST(test_rio_02i_a_command_that_fails_leaves_its_buffer_to_others)
{
	struct taken e, b, d;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	world_grant(&w, 1);
	command(1, SGL_WRITE, 0, 512);
	command(2, SGL_WRITE, 1, 512);
	world_run(&w);
	command(3, SGL_WRITE, 1, (PIECES - 1) * PIECE);
	e = take_all();
	command(4, SGL_WRITE, 0, 2 * PIECE); /* there is a buffer for half of it */
	command(5, SGL_WRITE, 0, 512);	     /* and none for this */
	b = take_all();
	EXPECT_EQ(b.reads, 1U);
	rio_iounit_ended(w.unit, b.ids[0], WEFT_R_FLUSHED);
	d = take_all();
	EXPECT_EQ(d.statuses, 1U);
	EXPECT_EQ(d.reason, WEFT_R_FLUSHED);
	EXPECT_EQ(d.reads, 1U);
	end_all(&d);
	for (; e.id_count > 0; e = take_all())
		end_all(&e);
	world_close(&w);
}

/* Else what is on its way would find its window closed, and others would lose the connection. */
TEST(test_rio_02i_a_command_that_failed_is_not_said_to_have_before_all_is_there)
{
	struct taken t;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	command(1, SGL_WRITE, 0, 512);
	world_run(&w);
	command(2, SGL_READ, 0, 2 * PIECE);
	t = take_all();
	EXPECT_EQ(t.writes, 2U);
	world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = 2 });
	EXPECT_EQ(take_all().statuses, 0U);
	end_all(&t);
	t = take_all();
	EXPECT_EQ(t.settles, 1U);
	EXPECT_EQ(t.statuses, 0U);
	end_all(&t);
	t = take_all();
	EXPECT_EQ(t.statuses, 1U);
	EXPECT_EQ(t.reason, WEFT_R_RIO_CANCELLED);
	world_close(&w);
}

/* But who does not let it settle is not waited for longer than the command may take. */
TEST(test_rio_02i_a_command_that_failed_and_does_not_settle_is_late)
{
	struct taken t;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	command(1, SGL_WRITE, 0, 512);
	world_run(&w);
	command(2, SGL_READ, 0, 512);
	t = take_all();
	world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = 2 });
	end_all(&t);
	t = take_all();
	EXPECT_EQ(t.settles, 1U);
	w.now_ns = rio_iounit_due(w.unit);
	rio_iounit_progress(w.unit, w.now_ns);
	EXPECT_EQ(take_all().hang_ups, 1U);
	rio_iounit_ended(w.unit, t.ids[0], WEFT_R_FLUSHED);
	rio_iounit_lost(w.unit, (struct platform){ FIRST, 1 });
	EXPECT_EQ(take_all().statuses, 1U);
	world_close(&w);
}

/* Also by this end: the other one may never hear of it. */
TEST(test_rio_03_who_is_revoked_is_hung_up_by_the_unit)
{
	struct taken t;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	command(1, SGL_WRITE, 0, 512);
	world_run(&w);
	EXPECT(w.requesters[0].is_up);
	revoke(0);
	t = take_all();
	EXPECT_EQ(t.hang_ups, 1U);
	EXPECT_EQ(t.dials, 0U);
	rio_iounit_lost(w.unit, (struct platform){ FIRST, 1 });
	/* And one that is being dialled. */
	world_grant(&w, 0);
	command(2, SGL_WRITE, 0, 512);
	EXPECT_EQ(take_all().dials, 1U);
	revoke(0);
	t = take_all();
	EXPECT_EQ(t.hang_ups, 1U);
	EXPECT_EQ(t.statuses, 1U);
	rio_iounit_lost(w.unit, (struct platform){ FIRST, 1 });
	world_close(&w);
}

/* docs/wire/rio.md: an accepted connection whose answer is not sealed right is closed. */
TEST(test_rio_02f_who_does_not_answer_truly_is_hung_up)
{
	static const uint8_t lie[RIO_DATA_BYTES];
	struct taken t;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	command(1, SGL_WRITE, 0, 512);
	t = take_all();
	EXPECT_EQ(t.dials, 1U);
	rio_iounit_dialled(w.unit, t.dialled, WEFT_OK, &(struct rio_bytes){ lie, sizeof(lie) });
	command(2, SGL_WRITE, 0, 512); /* it waits until that is gone */
	t = take_all();
	EXPECT_EQ(t.hang_ups, 1U);
	EXPECT_EQ(t.dials, 0U);
	EXPECT_EQ(t.statuses, 1U);
	rio_iounit_lost(w.unit, (struct platform){ FIRST, 1 });
	EXPECT_EQ(take_all().statuses, 1U);
	world_close(&w);
}

/* A grant beyond the limit is ignored, and harms no other platform. */
TEST(test_rio_04_a_grant_too_many_is_left_out)
{
	struct taken t;

	world_open(&w, 1, false);
	for (int i = 0; i < REQUESTERS; i++)
		world_grant(&w, i);
	grant_unknown();
	command(1, SGL_WRITE, REQUESTERS, 512);
	t = take_all();
	EXPECT_EQ(t.statuses, 1U);
	EXPECT_EQ(t.reason, WEFT_R_RIO_PLATFORM);
	command(2, SGL_WRITE, REQUESTERS - 1, 512);
	EXPECT_EQ(take_all().dials, 1U);
	/* There is room for it when another has gone. */
	revoke(0);
	grant_unknown();
	command(3, SGL_WRITE, REQUESTERS, 512);
	EXPECT_EQ(take_all().dials, 1U);
	for (uint32_t i = REQUESTERS - 1; i <= REQUESTERS; i++)
		rio_iounit_dialled(w.unit, (struct platform){ FIRST + i, 1 },
				   WEFT_R_CONNECT_TIMEOUT, NULL);
	EXPECT_EQ(take_all().statuses, 2U);
	world_close(&w);
}

/* What it asks for then is for the next connection: the one that goes was another's. */
TEST(test_rio_03_who_is_let_in_anew_is_dialled_when_the_old_connection_is_gone)
{
	for (int is_dialling = 0; is_dialling < 2; is_dialling++) {
		const struct platform first = { FIRST, 1 };
		struct taken t;

		world_open(&w, 1, false);
		world_grant(&w, 0);
		command(1, SGL_WRITE, 0, 512);
		if (is_dialling)
			EXPECT_EQ(take_all().dials, 1U);
		else
			world_run(&w);
		revoke(0);
		world_grant(&w, 0);
		command(2, SGL_WRITE, 0, 512);
		t = take_all();
		EXPECT_EQ(t.hang_ups, 1U);
		EXPECT_EQ(t.dials, 0U);
		EXPECT_EQ(t.statuses, is_dialling);
		if (is_dialling)
			rio_iounit_dialled(w.unit, first, WEFT_R_PEER_GONE, NULL);
		else
			rio_iounit_lost(w.unit, first);
		t = take_all();
		EXPECT_EQ(t.statuses, 0U);
		EXPECT_EQ(t.dials, 1U);
		/* The dial fails. */
		rio_iounit_dialled(w.unit, first, WEFT_R_CONNECT_TIMEOUT, NULL);
		t = take_all();
		EXPECT_EQ(t.statuses, 1U);
		EXPECT_EQ(t.reason, WEFT_R_CONNECT_TIMEOUT);
		world_close(&w);
	}
}
