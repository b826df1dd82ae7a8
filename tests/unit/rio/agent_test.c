/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RIO-07: devices of an I/O unit know no connection. What they move goes through the unit's agent,
 * which has the one connection to each platform, makes it when it is needed, and stands for what
 * went over it. The world fails on a move without a connection, and on a second one.
 */
#include <string.h>

#include "test.h"
#include "unit/rio/unit_fixture.h"

enum { ROUNDS = HISTORIES(300), PLACE = 8192, STEP = 1024, STEPS = PLACE / STEP };

static struct unit_world w;
static struct unit_list l;

/* What a command moves: the nth KiB is of that requester's memory, all at PLACE * id. */
struct plan {
	bool is_read;
	int of[STEPS];
};

static struct plan plans[COMMANDS + 1];

static void begin(uint64_t id)
{
	struct plan *p = &plans[id];

	p->is_read = prng_below(&w.prng, 2);
	list_start(&l);
	list_transaction(&l, p->is_read ? SGL_READ : SGL_WRITE, id * PLACE, PLACE);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t at = id * PLACE + (uint64_t)i * STEP;

		p->of[i] = (int)prng_below(&w.prng, REQUESTERS);
		list_platform(&l, p->of[i]);
		if (p->is_read)
			list_result(&l, p->of[i], at, STEP);
		else
			list_source(&l, p->of[i], at, STEP);
	}
	world_command(&w, id, &l);
}

/* All of it is where it belongs. */
static void expect_there(uint64_t id)
{
	for (uint32_t i = 0; i < STEPS; i++) {
		size_t at = id * PLACE + (size_t)i * STEP;

		EXPECT_MEM(w.disk_bytes + at, w.requesters[plans[id].of[i]].memory + at, STEP);
	}
}

/* What is said to be done is there, whole, whichever connections break meanwhile. */
TEST(test_rio_07_what_went_over_the_agents_connections_is_there_or_has_failed)
{
	uint32_t well = 0, failed = 0;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		world_open(&w, seed, seed % 2);
		for (int i = 0; i < REQUESTERS; i++)
			world_grant(&w, i);
		for (uint64_t id = 1; id <= COMMANDS; id++)
			begin(id);
		for (uint32_t left = prng_below(&w.prng, 200); left > 0 && world_step(&w); left--) {
			int victim = (int)prng_below(&w.prng, REQUESTERS);

			if (prng_below(&w.prng, 60) == 0 && w.requesters[victim].is_up)
				world_break(&w, victim);
		}
		world_run(&w);
		for (uint64_t id = 1; id <= COMMANDS; id++) {
			const struct status *s = world_status(&w, id);

			REQUIRE(s && (s->reason == 0 || s->reason == WEFT_R_PEER_GONE));
			if (s->reason == 0)
				expect_there(id);
			well += s->reason == 0;
			failed += s->reason != 0;
		}
		EXPECT_EQ(w.status_count, (uint32_t)COMMANDS);
		world_close(&w);
	}
	EXPECT(well > ROUNDS && failed > ROUNDS / 10);
}

/* Four commands, one connection per platform; and none to a platform that no command needs. */
TEST(test_rio_07_one_connection_to_each_platform_carries_all)
{
	world_open(&w, 1, true);
	for (int i = 0; i < REQUESTERS; i++)
		world_grant(&w, i);
	for (uint64_t id = 1; id <= COMMANDS; id++) {
		list_start(&l);
		list_platform(&l, (int)id % 2);
		list_transaction(&l, SGL_READ, 0, PLACE);
		list_result(&l, (int)id % 2, id * PLACE, PLACE);
		world_command(&w, id, &l);
	}
	world_run(&w);
	EXPECT_EQ(w.dials, 2U);
	EXPECT(w.requesters[0].is_up && w.requesters[1].is_up && !w.requesters[2].is_up);
	EXPECT_EQ(w.status_count, (uint32_t)COMMANDS);
	world_close(&w);
}

/* ---- Which memory --------------------------------------------------------------------------- */

/* Carries out what there is to be done by saying that it was; the writes are kept. */
static uint32_t writes_of(struct rio_act writes[4])
{
	struct rio_act act;
	uint32_t count = 0;

	while (rio_iounit_act(w.unit, &act)) {
		if (act.kind == RIO_ACT_WRITE && count < 4)
			writes[count++] = act;
		if (act.kind == RIO_ACT_WRITE || act.kind == RIO_ACT_SETTLE)
			rio_iounit_ended(w.unit, act.id, WEFT_OK);
	}
	return count;
}

/* The handle and the address are the same; only the platform says whose they are. */
TEST(test_mem_13_a_handle_and_an_address_are_memory_of_the_platform_that_is_named)
{
	struct rio_act writes[4];

	world_open(&w, 1, false);
	for (int i = 0; i < 2; i++) { /* they are connected */
		world_grant(&w, i);
		list_start(&l);
		list_platform(&l, i);
		list_transaction(&l, SGL_WRITE, 0, 512);
		list_source(&l, i, 0, 512);
		world_command(&w, 1 + (uint64_t)i, &l);
		world_run(&w);
	}
	list_start(&l);
	list_transaction(&l, SGL_READ, 0, 1024);
	list_platform(&l, 0);
	list_result(&l, 0, 64, 512);
	list_platform(&l, 1);
	list_result(&l, 0, 64, 512);
	world_command(&w, 3, &l);
	EXPECT_EQ(writes_of(writes), 2U);
	for (uint32_t i = 0; i < 2; i++) {
		EXPECT_EQ(writes[i].handle, 0x700U);
		EXPECT_EQ(writes[i].remote, 64U);
		EXPECT_EQ(writes[i].length, 512U);
		EXPECT_EQ(writes[i].platform.unit, (uint32_t)FIRST + i);
	}
	world_close(&w);
}
