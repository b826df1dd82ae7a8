/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * docs/rio.md, "What a write promises", rule 2: a write that failed and is still at its device
 * comes before every later request for its blocks, or not at all.
 */
#include <string.h>

#include "test.h"
#include "unit/rio/unit_fixture.h"

enum {
	SEEDS = HISTORIES(60),
	BLOCK = 512,
	OLD = 1,
	NEW = 2,
	BYTES = 2 * PIECE,
	TIMEOUT_NS = 1000 * 1000
};

static struct unit_world w;

static uint32_t device = DEVICE;

static void command(uint64_t id, enum sgl_operation operation, int requester, uint64_t offset)
{
	struct unit_list l;

	list_start(&l);
	l.device = device;
	list_platform(&l, requester);
	list_transaction(&l, operation, operation == SGL_FLUSH ? 0 : offset,
			 operation == SGL_FLUSH ? 0 : BYTES);
	if (operation == SGL_READ)
		list_result(&l, requester, 0, BYTES);
	else if (operation == SGL_WRITE)
		list_source(&l, requester, 0, BYTES);
	world_command(&w, id, &l);
}

static void memory_fill(int requester, uint8_t byte)
{
	memset(w.requesters[requester].memory, byte, MEMORY);
}

static bool disk_is(uint64_t offset, uint8_t byte)
{
	for (uint64_t i = 0; i < BYTES; i++) {
		if (w.disk_bytes[offset + i] != byte)
			return false;
	}
	return true;
}

static uint32_t outcome(uint64_t id)
{
	return world_status(&w, id) ? world_status(&w, id)->reason : UINT32_MAX;
}

/* OLD is at the device, which is stuck. */
static void old_gets_stuck(uint64_t seed)
{
	world_open_stuck(&w, seed);
	world_grant(&w, 0);
	world_grant(&w, 1);
	memory_fill(0, 0xaa);
	memory_fill(1, 0xbb);
	w.stuck.is_stuck = true;
	command(OLD, SGL_WRITE, 0, 0);
	world_run_until(&w, w.now_ns + TIMEOUT_NS / 2);
	REQUIRE(w.stuck.held_count == 2);
}

static void old_fails(int how)
{
	if (how == 0) {
		world_run_until(&w, w.now_ns + TIMEOUT_NS);
		EXPECT_EQ(outcome(OLD), WEFT_R_RIO_TIMEOUT);
	} else if (how == 1) {
		world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = OLD });
		world_run_until(&w, w.now_ns + 1);
		EXPECT_EQ(outcome(OLD), WEFT_R_RIO_CANCELLED);
	} else {
		world_owner_again(&w);
		w.devices_said = 0;
		world_run_until(&w, w.now_ns + 1);
		/* The device is stuck, the unit is not: the next owner is served at once. */
		EXPECT_EQ(w.devices_said, 1U);
		world_grant(&w, 0);
		world_grant(&w, 1);
	}
}

/* The device moves on, and everything at it ends. NEW begins only then, and is what stays. */
static void new_comes_after(uint32_t held_before)
{
	world_run_until(&w, w.now_ns + TIMEOUT_NS / 4);
	EXPECT_EQ(w.stuck.held_count, held_before);
	EXPECT_EQ(outcome(NEW), UINT32_MAX);
	world_unstick(&w);
	world_run(&w);
	EXPECT_EQ(outcome(NEW), WEFT_OK);
}

TEST(test_rio_02_a_write_waits_for_one_that_failed_and_is_at_the_device)
{
	for (int how = 0; how < 3; how++) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			old_gets_stuck(seed);
			old_fails(how);
			command(NEW, SGL_WRITE, 1, BLOCK);
			new_comes_after(2);
			EXPECT(disk_is(BLOCK, 0xbb));
			EXPECT(w.disk_bytes[0] == 0xaa);
			world_close(&w);
		}
	}
}

TEST(test_rio_02_so_do_reads_zeroes_and_discards)
{
	static const enum sgl_operation operations[] = { SGL_READ, SGL_WRITE_ZEROES, SGL_DISCARD };

	for (int i = 0; i < 3; i++) {
		for (int how = 0; how < 3; how++) {
			old_gets_stuck(5);
			old_fails(how);
			command(NEW, operations[i], 1, BYTES - BLOCK);
			new_comes_after(2);
			if (operations[i] == SGL_READ)
				EXPECT(w.requesters[1].memory[0] == 0xaa);
			world_close(&w);
		}
	}
}

/* Zeroes and discards that failed are waited for, too. */
TEST(test_rio_02_zeroes_and_discards_that_failed_are_waited_for)
{
	static const enum sgl_operation operations[] = { SGL_WRITE_ZEROES, SGL_DISCARD };

	for (int i = 0; i < 2; i++) {
		world_open_stuck(&w, 3);
		world_grant(&w, 0);
		world_grant(&w, 1);
		memory_fill(1, 0xbb);
		w.stuck.is_stuck = true;
		command(OLD, operations[i], 0, 0);
		world_run_until(&w, w.now_ns + 2 * TIMEOUT_NS);
		EXPECT_EQ(outcome(OLD), WEFT_R_RIO_TIMEOUT);
		command(NEW, SGL_WRITE, 1, 0);
		new_comes_after(1);
		EXPECT(disk_is(0, 0xbb));
		world_close(&w);
	}
}

/* Other blocks, flushes, and what follows a read that failed wait for nothing. */
TEST(test_rio_02_what_does_not_overlap_does_not_wait)
{
	old_gets_stuck(7);
	old_fails(0);
	command(NEW, SGL_WRITE, 1, BYTES);
	world_run_until(&w, w.now_ns + TIMEOUT_NS / 4);
	EXPECT_EQ(w.stuck.held_count, 4U);
	command(NEW + 1, SGL_FLUSH, 1, 0);
	world_run_until(&w, w.now_ns + TIMEOUT_NS / 4);
	EXPECT_EQ(w.stuck.held_count, 5U);
	world_unstick(&w);
	world_run(&w);
	EXPECT_EQ(outcome(NEW), WEFT_OK);
	EXPECT_EQ(outcome(NEW + 1), WEFT_OK);
	world_close(&w);

	world_open_stuck(&w, 7);
	world_grant(&w, 0);
	world_grant(&w, 1);
	w.stuck.is_stuck = true;
	command(OLD, SGL_READ, 0, 0);
	world_run_until(&w, w.now_ns + 2 * TIMEOUT_NS);
	EXPECT_EQ(outcome(OLD), WEFT_R_RIO_TIMEOUT);
	command(NEW, SGL_WRITE, 1, 0);
	world_run_until(&w, w.now_ns + TIMEOUT_NS / 4);
	EXPECT_EQ(w.stuck.held_count, 4U);
	world_unstick(&w);
	world_run(&w);
	EXPECT_EQ(outcome(NEW), WEFT_OK);
	world_close(&w);
}

/* NEW gives up first: it has done nothing, and does nothing later. */
TEST(test_rio_02_who_waits_may_time_out_and_has_not_begun)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		old_gets_stuck(seed);
		old_fails((int)(seed % 3));
		command(NEW, SGL_WRITE, 1, 0);
		world_run_until(&w, w.now_ns + 2 * TIMEOUT_NS);
		EXPECT_EQ(outcome(NEW), WEFT_R_RIO_TIMEOUT);
		EXPECT_EQ(w.stuck.held_count, 2U);
		world_unstick(&w);
		world_run(&w);
		EXPECT(disk_is(0, 0xaa));
		world_close(&w);
	}
}

/* Commands end although their requests are at the device: others have their slots. */
TEST(test_rio_02_a_stuck_device_keeps_no_command)
{
	old_gets_stuck(9);
	old_fails(0);
	EXPECT_EQ(w.unit->commands_now, 0U);
	EXPECT_EQ(w.unit->pieces_now, 2U);
	EXPECT(!rio_iounit_is_idle(w.unit));
	world_unstick(&w);
	world_run(&w);
	world_close(&w);
}

/*
 * What is stuck at a device keeps its buffers, also after the commands have timed out: the other
 * devices of the unit have some all the same.
 */
TEST(test_rio_02_a_stuck_device_leaves_buffers_to_the_others)
{
	uint64_t id = 0;

	world_open_pair(&w, 11);
	world_grant(&w, 0);
	w.stuck.is_stuck = true;
	for (int i = 0; i < COMMANDS; i++)
		command(++id, i % 2 ? SGL_WRITE : SGL_READ, 0, (uint64_t)i * BYTES);
	device = OTHER_DEVICE;
	for (int round = 0; round < 2; round++) {
		world_run_until(&w, w.now_ns + 2 * TIMEOUT_NS);
		for (uint64_t stuck = 1; stuck <= COMMANDS; stuck++)
			EXPECT_EQ(outcome(stuck), WEFT_R_RIO_TIMEOUT);
		EXPECT_EQ(w.stuck.held_count, PIECES / 2U);
		command(++id, SGL_WRITE, 0, 0);
		command(++id, SGL_READ, 0, BYTES);
		command(++id, SGL_FLUSH, 0, 0);
		world_run_until(&w, w.now_ns + TIMEOUT_NS / 2);
		for (uint64_t well = id - 2; well <= id; well++)
			EXPECT_EQ(outcome(well), WEFT_OK);
	}
	device = DEVICE;
	/* Those that wait for a buffer of the stuck one go on when it does. */
	command(++id, SGL_WRITE, 0, 4 * BYTES);
	world_run_until(&w, w.now_ns + TIMEOUT_NS / 2);
	EXPECT_EQ(outcome(id), UINT32_MAX);
	world_unstick(&w);
	world_run(&w);
	EXPECT_EQ(outcome(id), WEFT_OK);
	world_close(&w);
}

/*
 * A device that is memory is written to by RDMA Read: what is on its way when the command is given
 * up counts as being at the device.
 */
TEST(test_rio_02_data_on_its_way_into_a_device_of_memory_is_waited_for)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_open(&w, seed, false);
		world_grant(&w, 0);
		world_grant(&w, 1);
		memory_fill(0, 0xaa);
		memory_fill(1, 0xbb);
		command(OLD, SGL_WRITE, 0, 0);
		for (uint64_t i = 0; i < seed / 2 && world_step(&w); i++)
			;
		world_say(&w, &(struct rio_msg){ .type = RIO_CANCEL, .id = OLD });
		command(NEW, SGL_WRITE, 1, 0);
		world_run(&w);
		EXPECT_EQ(outcome(NEW), WEFT_OK);
		EXPECT(disk_is(0, 0xbb));
		world_close(&w);
	}
}
