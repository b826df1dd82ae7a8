/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "test.h"
#include "unit/rio/unit_fixture.h"

enum { SEEDS = HISTORIES(60) };

static struct unit_world w;
static struct unit_list l;

static bool has_ended_well(uint64_t id, uint64_t bytes)
{
	const struct status *s = world_status(&w, id);

	return s && s->reason == 0 && s->done_bytes == bytes;
}

static enum weft_reason ended_with(uint64_t id)
{
	const struct status *s = world_status(&w, id);

	return s ? (enum weft_reason)s->reason : WEFT_REASON_COUNT;
}

/* Both ways of reaching the device: straight from its memory, and through a buffer. */
#define FOR_BOTH_DEVICES(seed)                                                                     \
	for (int is_slow = 0; is_slow < 2; is_slow++)                                              \
		for (uint64_t seed = 1; seed <= SEEDS; seed++)

struct fragment {
	uint64_t at, length;
};

/* The moves were asked for in the order of the two fragments, and leave no gap. */
static void moved_in_order(enum rio_act_kind kind, const struct fragment fragments[2])
{
	uint64_t done = 0;

	REQUIRE(w.moves > 2 && w.moves <= MOVES_KEPT); /* pieces divide fragments */
	for (uint32_t i = 0; i < w.moves; i++) {
		const struct rio_act *m = &w.moved[i];
		uint64_t first = fragments[0].length;

		EXPECT_EQ(m->kind, kind);
		EXPECT_EQ(m->handle, 0x700U);
		EXPECT_EQ(m->remote,
			  done < first ? fragments[0].at + done : fragments[1].at + done - first);
		done += m->length;
	}
	EXPECT_EQ(done, fragments[0].length + fragments[1].length);
}

TEST(test_rio_02g_a_read_arrives_in_fragments_a_and_b)
{
	const struct fragment a_and_b[2] = { { 100, 5000 }, { 30000, 5240 } };

	FOR_BOTH_DEVICES(seed)
	{
		world_open(&w, seed, is_slow);
		w.is_alone = true;
		world_grant(&w, 0);
		list_start(&l);
		list_platform(&l, 0);
		list_transaction(&l, SGL_READ, 1024, 20 * 512);
		list_result(&l, 0, 100, 5000);
		list_result(&l, 0, 30000, 5240);
		world_command(&w, 1, &l);
		world_run(&w);
		EXPECT(has_ended_well(1, 20 * 512));
		EXPECT(memcmp(w.requesters[0].memory + 100, w.disk_bytes + 1024, 5000) == 0);
		EXPECT(memcmp(w.requesters[0].memory + 30000, w.disk_bytes + 6024, 5240) == 0);
		moved_in_order(RIO_ACT_WRITE, a_and_b);
		EXPECT_EQ(w.dials, 1U);
		EXPECT_EQ(w.settles, 0U);
		EXPECT(w.notified[1] && world_status(&w, 1)->is_notified);
		world_close(&w);
	}
}

TEST(test_rio_02h_a_write_comes_from_fragments_a_and_b)
{
	const struct fragment a_and_b[2] = { { 7, 5000 }, { 40000, 5240 } };

	FOR_BOTH_DEVICES(seed)
	{
		world_open(&w, seed, is_slow);
		world_grant(&w, 0);
		list_start(&l);
		list_platform(&l, 0);
		list_transaction(&l, SGL_WRITE, 512, 20 * 512);
		list_source(&l, 0, 7, 5000);
		list_source(&l, 0, 40000, 5240);
		world_command(&w, 1, &l);
		world_run(&w);
		EXPECT(has_ended_well(1, 20 * 512));
		EXPECT(memcmp(w.disk_bytes + 512, w.requesters[0].memory + 7, 5000) == 0);
		EXPECT(memcmp(w.disk_bytes + 5512, w.requesters[0].memory + 40000, 5240) == 0);
		moved_in_order(RIO_ACT_READ, a_and_b);
		EXPECT_EQ(w.settles, 0U);
		EXPECT(w.notified[1] &&
		       !world_status(&w, 1)->is_notified); /* the owner's word is enough */
		world_close(&w);
	}
}

/* RIO-08, RIO-10: made on demand, kept, and made again when it is lost. */
TEST(test_rio_10_a_connection_is_made_when_it_is_needed_and_kept)
{
	world_open(&w, 1, false);
	world_grant(&w, 0);
	world_run(&w);
	EXPECT_EQ(w.dials, 0U);
	for (uint64_t id = 1; id <= 4; id++) {
		list_start(&l);
		list_platform(&l, 0);
		list_transaction(&l, SGL_READ, 0, 512);
		list_result(&l, 0, 0, 512);
		world_command(&w, id, &l);
		world_run(&w);
		EXPECT(has_ended_well(id, 512));
		if (id == 2)
			world_break(&w, 0);
	}
	EXPECT_EQ(w.dials, 2U);
	world_close(&w);
}

/* The caller sleeps when there is no act left. */
TEST(test_rio_10_all_that_is_to_be_done_is_said_at_once)
{
	FOR_BOTH_DEVICES(seed)
	{
		bool has_dialled = false;
		struct rio_act act;

		world_open(&w, seed, is_slow);
		world_run(&w);
		world_grant(&w, 0);
		list_start(&l);
		list_platform(&l, 0);
		list_transaction(&l, SGL_READ, 0, 512);
		list_result(&l, 0, 0, 512);
		world_command(&w, 1, &l);
		rio_iounit_progress(w.unit, 1000);
		while (rio_iounit_act(w.unit, &act))
			has_dialled |= act.kind == RIO_ACT_DIAL;
		EXPECT(has_dialled);
		rio_iounit_dialled(w.unit, (struct platform){ FIRST, 1 }, WEFT_R_CONNECT_CLOSED,
				   NULL);
		world_run(&w);
		world_close(&w);
	}
}

TEST(test_rio_09_commands_that_wait_for_a_connection_share_it)
{
	uint32_t dials = 0;
	struct rio_act act;

	world_open(&w, 1, false);
	world_run(&w);
	world_grant(&w, 0);
	for (uint64_t id = 1; id <= 3; id++) {
		list_start(&l);
		list_platform(&l, 0);
		list_transaction(&l, SGL_READ, 0, 512);
		list_result(&l, 0, 0, 512);
		world_command(&w, id, &l);
		rio_iounit_progress(w.unit, 1000);
		while (rio_iounit_act(w.unit, &act))
			dials += act.kind == RIO_ACT_DIAL;
	}
	EXPECT_EQ(dials, 1U);
	rio_iounit_dialled(w.unit, (struct platform){ FIRST, 1 }, WEFT_R_CONNECT_CLOSED, NULL);
	world_run(&w);
	world_close(&w);
}

TEST(test_rio_06_one_command_writes_to_two_platforms_and_gathers_from_them)
{
	FOR_BOTH_DEVICES(seed)
	{
		world_open(&w, seed, is_slow);
		w.is_alone = true;
		world_grant(&w, 0);
		world_grant(&w, 2);
		list_start(&l);
		list_platform(&l, 0);
		list_transaction(&l, SGL_READ, 0, 4096);
		list_result(&l, 0, 0, 1000);
		list_platform(&l, 2);
		list_result(&l, 2, 0, 2000);
		list_platform(&l, 0);
		list_result(&l, 0, 5000, 1096);
		list_transaction(&l, SGL_WRITE, 8192, 1024);
		list_source(&l, 0, 20000, 512);
		list_platform(&l, 2);
		list_source(&l, 2, 20000, 512);
		world_command(&w, 1, &l);
		world_run(&w);
		EXPECT(has_ended_well(1, 5120));
		EXPECT(memcmp(w.requesters[0].memory, w.disk_bytes, 1000) == 0);
		EXPECT(memcmp(w.requesters[2].memory, w.disk_bytes + 1000, 2000) == 0);
		EXPECT(memcmp(w.requesters[0].memory + 5000, w.disk_bytes + 3000, 1096) == 0);
		EXPECT(memcmp(w.disk_bytes + 8192, w.requesters[0].memory + 20000, 512) == 0);
		EXPECT(memcmp(w.disk_bytes + 8704, w.requesters[2].memory + 20000, 512) == 0);
		EXPECT_EQ(w.settles, 1U); /* the other one's; the requester is told */
		EXPECT(w.notified[1] && world_status(&w, 1)->is_notified);
		world_close(&w);
	}
}

/* RIO-15: one transaction begins when the one before it has ended. */
TEST(test_rio_15_transactions_of_a_request_are_carried_out_in_order)
{
	FOR_BOTH_DEVICES(seed)
	{
		world_open(&w, seed, is_slow);
		w.is_alone = true;
		world_grant(&w, 0);
		list_start(&l);
		list_platform(&l, 0);
		list_transaction(&l, SGL_WRITE, 0, 16384);
		list_source(&l, 0, 0, 16384);
		list_transaction(&l, SGL_FLUSH, 0, 0);
		list_transaction(&l, SGL_WRITE_ZEROES, 512, 512);
		list_transaction(&l, SGL_READ, 0, 16384);
		list_result(&l, 0, 32768, 16384);
		world_command(&w, 1, &l);
		world_run(&w);
		EXPECT(has_ended_well(1, 32768));
		memset(w.requesters[0].memory + 512, 0, 512);
		EXPECT(memcmp(w.requesters[0].memory, w.requesters[0].memory + 32768, 16384) == 0);
		world_close(&w);
	}
}

TEST(test_rio_13d_data_in_the_list_needs_no_connection)
{
	static uint8_t data[512];

	FOR_BOTH_DEVICES(seed)
	{
		memset(data, (int)seed, sizeof(data));
		world_open(&w, seed, is_slow);
		list_start(&l);
		list_transaction(&l, SGL_WRITE, 2048, 1024);
		list_data(&l, data, 300);
		list_data(&l, data, 212);
		list_data(&l, data, 512);
		world_command(&w, 1, &l);
		world_run(&w);
		EXPECT(has_ended_well(1, 1024));
		EXPECT(memcmp(w.disk_bytes + 2048, data, 512) == 0);
		EXPECT(memcmp(w.disk_bytes + 2560, data, 512) == 0);
		EXPECT_EQ(w.dials + w.moves, 0U);
		world_close(&w);
	}
}

TEST(test_rio_14_without_a_platform_the_memory_is_the_units_own)
{
	FOR_BOTH_DEVICES(seed)
	{
		world_open(&w, seed, is_slow);
		list_start(&l);
		list_transaction(&l, SGL_READ, 4096, 8192);
		list_own_result(&l, 50, 8192);
		list_transaction(&l, SGL_WRITE, 32768, 8192);
		list_own_source(&l, 50, 8192);
		world_command(&w, 1, &l);
		world_run(&w);
		EXPECT(has_ended_well(1, 2 * 8192));
		EXPECT(memcmp(w.own_memory + 50, w.disk_bytes + 4096, 8192) == 0);
		EXPECT(memcmp(w.disk_bytes + 32768, w.disk_bytes + 4096, 8192) == 0);
		EXPECT_EQ(w.dials, 0U);
		world_close(&w);
	}
}

/* ---- Refusals: nothing has moved ------------------------------------------------------------ */

static void refused(enum weft_reason reason, uint32_t transaction)
{
	static uint8_t disk[DISK], memory[MEMORY];
	const struct status *s;

	memcpy(disk, w.disk_bytes, DISK);
	memcpy(memory, w.requesters[0].memory, MEMORY);
	world_command(&w, 1, &l);
	world_run(&w);
	s = world_status(&w, 1);
	REQUIRE(s);
	EXPECT_EQ(s->reason, (uint32_t)reason);
	EXPECT_EQ(s->transaction, transaction);
	EXPECT_EQ(s->done_bytes, 0U);
	EXPECT_EQ(w.dials + w.moves, 0U);
	EXPECT(memcmp(disk, w.disk_bytes, DISK) == 0);
	EXPECT(memcmp(memory, w.requesters[0].memory, MEMORY) == 0);
	world_close(&w);
}

static void good_write_first(void)
{
	world_open(&w, 1, false);
	world_grant(&w, 0);
	list_start(&l);
	list_platform(&l, 0);
	list_transaction(&l, SGL_WRITE, 0, 512);
	list_source(&l, 0, 0, 512);
}

TEST(test_rio_16_a_command_is_refused_whole_for_its_second_transaction)
{
	good_write_first();
	list_transaction(&l, SGL_READ, DISK, 512);
	list_result(&l, 0, 0, 512);
	refused(WEFT_R_STORE_RANGE, 1);

	good_write_first();
	list_transaction(&l, SGL_READ, 100, 512);
	list_result(&l, 0, 0, 512);
	refused(WEFT_R_STORE_ALIGN, 1);

	good_write_first();
	list_transaction(&l, SGL_READ, 0, 512);
	list_platform(&l, 1); /* not granted */
	list_result(&l, 1, 0, 512);
	refused(WEFT_R_RIO_PLATFORM, 1);

	good_write_first();
	list_transaction(&l, SGL_READ, 0, 512);
	list_result(&l, 0, 0, 100); /* the sum is wrong */
	refused(WEFT_R_SGL_SUM, 0);
}

/* RIO-06: the list of a Read with a result in each of so many platforms. */
static void list_results(uint32_t platforms)
{
	world_open(&w, 1, false);
	list_start(&l);
	list_transaction(&l, SGL_READ, 0, platforms * 512);
	for (uint32_t i = 0; i < platforms; i++) {
		world_grant(&w, (int)i);
		list_platform(&l, (int)i);
		list_result(&l, (int)i, 0, 512);
	}
}

TEST(test_rio_06_a_command_writes_to_eight_platforms_and_not_to_nine)
{
	list_results(COMMAND_PLATFORMS_MAX);
	world_command(&w, 1, &l);
	world_run(&w);
	EXPECT(has_ended_well(1, COMMAND_PLATFORMS_MAX * 512));
	for (int i = 0; i < COMMAND_PLATFORMS_MAX; i++)
		EXPECT(memcmp(w.requesters[i].memory, w.disk_bytes + i * 512, 512) == 0);
	world_close(&w);

	list_results(COMMAND_PLATFORMS_MAX + 1);
	refused(WEFT_R_RIO_PLATFORMS, 0);
}

TEST(test_rio_14_the_unit_has_so_much_memory_of_its_own_and_no_handles)
{
	static const struct fragment outside[] = { { DISK - 511, 512 },
						   { DISK, 512 },
						   { UINT64_MAX - 511, 512 } };

	for (int i = 0; i < 3; i++) {
		world_open(&w, 1, false);
		list_start(&l);
		list_transaction(&l, SGL_READ, 0, 512);
		list_own_result(&l, outside[i].at, 512);
		refused(WEFT_R_RIO_PLATFORM, 0);
	}
	world_open(&w, 1, false);
	list_start(&l);
	list_transaction(&l, SGL_READ, 0, 512);
	list_result(&l, 0, 0, 512); /* a handle, and no platform */
	refused(WEFT_R_RIO_PLATFORM, 0);
}

TEST(test_rio_02d_a_device_that_is_not_there_is_refused)
{
	const struct sgl_attributes attributes = sgl_attributes_default();
	const struct sgl_element e = { .kind = SGL_TRANSACTION,
				       .transaction = { .operation = SGL_FLUSH,
							.device = DEVICE + 1 } };

	world_open(&w, 1, false);
	list_start(&l);
	l.latest = l.w.at;
	sgl_put(&e, &attributes, &l.w);
	refused(WEFT_R_RIO_DEVICE, 0);
}

/* ---- Chained lists -------------------------------------------------------------------------- */

TEST(test_rio_13b_a_chained_list_is_fetched_from_the_owner)
{
	size_t length;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	list_start(&l);
	list_platform(&l, 0);
	list_transaction(&l, SGL_READ, 0, 512);
	list_result(&l, 0, 64, 512);
	length = list_end(&l);
	memcpy(w.owner_memory + 16, l.bytes, length);
	world_chained(&w, 1, (struct platform){ OWNER, 1 }, (uint32_t)length);
	world_run(&w);
	EXPECT(has_ended_well(1, 512));
	EXPECT(memcmp(w.requesters[0].memory + 64, w.disk_bytes, 512) == 0);
	/* Only the owner vouches for lists. */
	world_chained(&w, 2, (struct platform){ FIRST, 1 }, (uint32_t)length);
	world_run(&w);
	EXPECT_EQ(ended_with(2), WEFT_R_RIO_CHAIN);
	world_chained(&w, 3, (struct platform){ OWNER, 1 }, PIECE + 4);
	world_run(&w);
	EXPECT_EQ(ended_with(3), WEFT_R_RIO_CHAIN);
	EXPECT_EQ(w.moves, 1U);
	world_close(&w);
}

TEST(test_rio_16_a_chained_list_that_is_malformed_moves_nothing)
{
	world_open(&w, 1, false);
	world_chained(&w, 1, (struct platform){ OWNER, 1 }, 64);
	world_run(&w);
	EXPECT_EQ(ended_with(1), WEFT_R_SGL_KIND);
	EXPECT_EQ(w.moves, 0U);
	world_close(&w);
}

/* ---- Faults --------------------------------------------------------------------------------- */

static void command_read(uint64_t id, int requester, uint32_t length)
{
	list_start(&l);
	list_platform(&l, requester);
	list_transaction(&l, SGL_READ, 0, length);
	list_result(&l, requester, 0, length);
	world_command(&w, id, &l);
}

TEST(test_rio_02f_unreachable_or_lying_requester_is_reported)
{
	world_open(&w, 1, false);
	world_grant(&w, 0);
	w.requesters[0].is_refusing = true;
	command_read(1, 0, 8192);
	world_run(&w);
	EXPECT_EQ(ended_with(1), WEFT_R_CONNECT_CLOSED);
	w.requesters[0].is_refusing = false;
	w.requesters[0].is_lying = true;
	command_read(2, 0, 8192);
	world_run(&w);
	EXPECT_EQ(ended_with(2), WEFT_R_RIO_FORGED);
	w.requesters[0].is_lying = false;
	command_read(3, 0, 8192);
	world_run(&w);
	EXPECT(has_ended_well(3, 8192));
	EXPECT_EQ(w.dials, 3U);
	EXPECT_EQ(w.moves, 2U);
	world_close(&w);
}

static void as_question(struct rio_data *d)
{
	d->is_answer = false;
	d->reason = 0;
}

static void of_another_counter(struct rio_data *d)
{
	d->counter++;
}

static void of_another(struct rio_data *d)
{
	d->from.unit++;
}

static void to_another(struct rio_data *d)
{
	d->to.unit++;
}

static void of_another_nonce(struct rio_data *d)
{
	d->nonce[0] ^= 1;
}

/* Each is sealed as it should be: an answer that was given before, or elsewhere. */
TEST(test_rio_02f_an_answer_to_another_question_is_refused)
{
	static void (*const alter[])(struct rio_data *) = { as_question, of_another_counter,
							    of_another, to_another,
							    of_another_nonce };

	world_open(&w, 1, false);
	world_grant(&w, 0);
	for (uint32_t i = 0; i < sizeof(alter) / sizeof(alter[0]); i++) {
		w.requesters[0].alter = alter[i];
		command_read(1 + i, 0, 512);
		world_run(&w);
		EXPECT_EQ(ended_with(1 + i), WEFT_R_RIO_UNEXPECTED);
	}
	w.requesters[0].alter = NULL;
	command_read(9, 0, 512);
	world_run(&w);
	EXPECT(has_ended_well(9, 512));
	world_close(&w);
}

/* A completed Write may still be lost: its data must not be reported as placed. */
TEST(test_rio_02i_a_connection_that_breaks_before_it_settled_is_no_success)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_open(&w, seed, seed % 2);
		world_grant(&w, 0);
		world_grant(&w, 1);
		list_start(&l);
		list_platform(&l, 1);
		list_transaction(&l, SGL_READ, 0, 16384);
		list_result(&l, 1, 0, 16384);
		world_command(&w, 1, &l);
		while (w.settles == 0 && !w.failure)
			REQUIRE(world_step(&w));
		world_break(&w, 1);
		command_read(2, 0, 512); /* which makes a new one */
		world_run(&w);
		EXPECT_EQ(ended_with(1), WEFT_R_PEER_GONE);
		EXPECT(has_ended_well(2, 512));
		world_close(&w);
	}
}

/* The requester's own connection breaks when all has been written, and nothing been said. */
TEST(test_rio_02i_a_connection_that_breaks_before_the_word_is_no_success)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_open(&w, seed, seed % 2);
		world_grant(&w, 0);
		command_read(1, 0, 16384);
		while (w.moves < 4 && !w.failure)
			REQUIRE(world_step(&w));
		EXPECT_EQ(w.tells, 0U); /* it is what comes next */
		world_break(&w, 0);
		command_read(2, 0, 512); /* which makes a new one */
		world_run(&w);
		EXPECT_EQ(ended_with(1), WEFT_R_PEER_GONE);
		EXPECT(!w.notified[1] && has_ended_well(2, 512));
		world_close(&w);
	}
}

TEST(test_rio_02i_a_command_that_is_late_is_given_up_and_its_connection_too)
{
	world_open(&w, 1, false);
	world_grant(&w, 0);
	world_grant(&w, 1);
	command_read(1, 0, 16384);
	w.is_stuck = true;
	world_run(&w);
	EXPECT_EQ(ended_with(1), WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(w.hang_ups, 1U);
	w.is_stuck = false;
	command_read(2, 0, 512);
	world_run(&w);
	EXPECT(has_ended_well(2, 512));
	world_close(&w);
}

TEST(test_rio_02i_a_command_can_be_cancelled_at_any_step)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_open(&w, seed, seed % 2);
		world_grant(&w, 0);
		command_read(1, 0, 32768);
		for (uint64_t i = 0; i < seed && world_step(&w); i++)
			;
		world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = 1 });
		world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = 99 });
		world_run(&w);
		EXPECT(has_ended_well(1, 32768) || (ended_with(1) == WEFT_R_RIO_CANCELLED &&
						    world_status(&w, 1)->done_bytes <= 32768));
		EXPECT_EQ(w.status_count, 1U);
		world_close(&w);
	}
}

static void command_write(uint64_t id, int requester, uint32_t length)
{
	list_start(&l);
	list_platform(&l, requester);
	list_transaction(&l, SGL_WRITE, 0, length);
	list_source(&l, requester, 0, length);
	world_command(&w, id, &l);
}

/* Its commands are dropped, without a word; the next one finds a unit that is free. */
TEST(test_rio_03_an_owner_that_leaves_takes_its_commands_along)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint32_t said;

		world_open(&w, seed, seed % 2);
		world_grant(&w, 0);
		command_read(1, 0, 32768);
		command_read(2, 0, 4096);
		for (uint64_t i = 0; i < seed && world_step(&w); i++)
			;
		said = w.status_count;
		rio_iounit_owner_left(w.unit);
		world_run(&w);
		EXPECT_EQ(w.status_count, said);
		EXPECT(rio_iounit_is_idle(w.unit));

		world_owner_again(&w);
		world_grant(&w, 0);
		command_read(3, 0, 512);
		world_run(&w);
		EXPECT(has_ended_well(3, 512));
		world_close(&w);
	}
}

/*
 * What the former owner had ordered may still be written. Until that has ended the next one is not
 * offered the devices, so nothing that it orders can come before.
 */
TEST(test_rio_03_the_next_owner_waits_for_what_the_former_had_ordered)
{
	uint32_t had_commands = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_open(&w, seed, seed % 2);
		world_grant(&w, 0);
		for (uint64_t id = 1; id <= COMMANDS; id++)
			command_write(id, 0, 32768);
		for (uint64_t i = 0; i < 3 * seed && world_step(&w); i++)
			;
		world_owner_again(&w);
		had_commands += w.unit->commands_now > 0;
		w.devices_said = 0;
		world_run(&w);
		EXPECT_EQ(w.devices_said, 1U);
		EXPECT_EQ(w.commands_at_devices, 0U);
		/* Its slots are all there again. */
		world_grant(&w, 0);
		for (uint64_t id = 11; id < 11 + COMMANDS; id++)
			command_write(id, 0, 512);
		world_run(&w);
		EXPECT(has_ended_well(11, 512));
		world_close(&w);
	}
	EXPECT(had_commands > 0);
}

TEST(test_rio_03_who_is_revoked_is_reached_no_more)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint32_t moves;

		world_open(&w, seed, seed % 2);
		world_grant(&w, 0);
		command_read(1, 0, 32768);
		for (uint64_t i = 0; i < seed && world_step(&w); i++)
			;
		world_say(&w, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = { FIRST, 1 } });
		moves = w.moves;
		world_run(&w);
		EXPECT_EQ(w.moves, moves);
		command_read(2, 0, 512);
		world_run(&w);
		EXPECT_EQ(ended_with(2), WEFT_R_RIO_PLATFORM);
		world_close(&w);
	}
}

TEST(test_rio_03_an_owner_that_breaks_the_rules_is_found_out)
{
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length;

	world_open(&w, 1, false);
	world_grant(&w, 0);
	command_read(1, 0, 512);
	length = rio_session_close(
		&w.owner,
		&(struct rio_msg){ .type = RIO_COMMAND,
				   .id = 1,
				   .request = { .requester = { FIRST, 1 },
						.list = { l.bytes, (size_t)(l.w.at - l.bytes) } } },
		bytes, sizeof(bytes));
	EXPECT_EQ(rio_iounit_take(w.unit, bytes, length, 0), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(rio_iounit_take(w.unit, bytes, length, 0), WEFT_R_RIO_SEQUENCE);
	world_run(&w);
	EXPECT(has_ended_well(1, 512));
	world_close(&w);
}

/* RIO-04: several at once, none of which waits for another; connections break meanwhile. */
TEST(test_rio_04_commands_of_several_requesters_end_once_each)
{
	FOR_BOTH_DEVICES(seed)
	{
		uint32_t sent = 0;

		world_open(&w, seed, is_slow);
		for (int r = 0; r < REQUESTERS; r++)
			world_grant(&w, r);
		while (sent < 40) {
			if (w.unit->commands_now < COMMANDS && prng_below(&w.prng, 3) == 0)
				command_read(++sent, (int)prng_below(&w.prng, REQUESTERS),
					     512 * (1 + prng_below(&w.prng, 60)));
			if (prng_below(&w.prng, 50) == 0)
				world_break(&w, (int)prng_below(&w.prng, REQUESTERS));
			(void)world_step(&w);
		}
		world_run(&w);
		EXPECT_EQ(w.status_count, sent);
		for (uint64_t id = 1; id <= sent; id++)
			EXPECT(world_status(&w, id));
		world_close(&w);
	}
}
