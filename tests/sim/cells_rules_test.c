/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in cells on a fabric: the scenarios of the document. */
#include "sim/cells/cells_world.h"
#include "test.h"

enum { FROM = 0, TO = 1 };

static struct cells_world w;

static void run(void)
{
	while (cells_world_step(&w))
		continue;
	EXPECT_STR(cells_world_failure(&w), "");
}

static struct cells_channel *begin(enum cells_kind kind)
{
	REQUIRE(cells_world_open(&w, 1, true) == 0);
	return cells_channel_of(&w, FROM, TO, kind);
}

/*
 * Three packets of that length, of so many cells; of the middle one a cell does not get there well.
 */
static void lose_one(struct cells_packet packet, uint32_t cells, enum cells_hurt hurt,
		     uint32_t cell)
{
	struct cells_channel *c = begin(CELLS_CONNECTED);

	w.script = hurt;
	w.script_packet = 1;
	w.script_cell = cell;
	for (uint32_t i = 0; i < 3; i++) {
		packet.element = i;
		MUST(cells_world_send(&w, c, &packet));
		run();
		EXPECT_EQ(c->packets[i].has_come, i != 1 || hurt == CELLS_WELL);
	}
	EXPECT_EQ(w.hurt, hurt != CELLS_WELL);
	EXPECT_EQ(w.cells, 3 * cells - (hurt == CELLS_LOST));
	/* Those behind it are dropped, too; but of its own packet only. */
	if (hurt == CELLS_LOST)
		EXPECT_EQ(w.dropped, cells - 1 - cell);
	if (hurt == CELLS_DAMAGED)
		EXPECT_EQ(w.dropped, cells - cell);
	if (w.dropped > 0)
		EXPECT_EQ(w.dropped_for, hurt == CELLS_DAMAGED && cell == cells - 1
						 ? WEFT_R_PUSH_CELL_CRC
						 : WEFT_R_PUSH_CELL_LOST);
	EXPECT_EQ(w.immediates, packet.has_immediate ? w.came : 0);
	cells_world_close(&w);
}

TEST(test_push_s6_fab_08_payloads_of_256_257_and_many_cells_cross_a_fabric)
{
	static const struct {
		uint32_t bytes, cells;
	} sizes[] = { { 256, 1 }, { 257, 2 }, { 2049, 9 }, { 4096, 16 } };

	for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct cells_packet packet = { .is_write = i % 2,
						     .has_immediate = i % 2,
						     .bytes = sizes[i / 2].bytes };
		uint32_t cells = sizes[i / 2].cells;

		lose_one(packet, cells, CELLS_WELL, 0);
		for (uint32_t cell = 0; cell < cells; cell++) {
			lose_one(packet, cells, CELLS_LOST, cell);
			lose_one(packet, cells, CELLS_DAMAGED, cell);
		}
	}
}

/* UD-03: what does not fit one cell is refused, and nothing of it leaves. */
TEST(test_ud_03_a_connectionless_channel_of_a_fabric_carries_single_cells)
{
	struct cells_channel *c = begin(CELLS_CONNECTIONLESS);

	MUST(cells_world_send(&w, c, &(struct cells_packet){ .bytes = 256 }));
	run();
	EXPECT_EQ(w.came, 1);
	EXPECT_EQ(cells_world_send(&w, c, &(struct cells_packet){ .bytes = 257 }),
		  WEFT_R_PUSH_SINGLE_CELL);
	run();
	EXPECT_EQ(w.cells, 1);
	cells_world_close(&w);
}

/* PUSH-14: the first cell tells the whole range. The judge looks at the memory beside the pool. */
TEST(test_push_14_push_13_a_write_in_cells_beyond_its_pool_writes_nothing)
{
	const struct cells_packet good = { .bytes = 700, .is_write = true };
	struct cells_packet beyond = good;
	struct cells_channel *c = begin(CELLS_CONNECTED);

	beyond.is_forbidden = true;
	MUST(cells_world_send(&w, c, &beyond));
	run();
	EXPECT_EQ(w.refused_for, WEFT_R_RANGE_BOUNDS);
	EXPECT_EQ(w.came, 0);
	EXPECT_EQ(c->pool[CELLS_POOL_BYTES - 1], 0x5a);
	MUST(cells_world_send(&w, c, &good));
	run();
	EXPECT_EQ(w.came, 1);
	cells_world_close(&w);
}
