/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random commands against a plain array: what is read is what was written, and after a failure of
 * the device each block is the old or the new one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "unit/scsi/scsi_fixture.h"

enum { MODEL_COMMANDS = 400, MODEL_BLOCKS = 40 };

struct model {
	struct bed *b;
	uint8_t *bytes;
	uint32_t block;
	struct prng prng;
};

static uint32_t draw(struct model *m, uint32_t below)
{
	return (uint32_t)(prng_next(&m->prng) % below);
}

/* Which blocks, and what bytes: few values, so that comparisons succeed too. */
struct extent {
	uint32_t lba, blocks;
};

static struct extent extent_draw(struct model *m)
{
	struct extent e = { draw(m, 64), 1 + draw(m, MODEL_BLOCKS) };

	return e;
}

static void fill_draw(struct model *m, uint64_t length)
{
	for (uint64_t at = 0; at < length; at += m->block)
		memset(m->b->sent + at, (int)draw(m, 3), m->block);
}

static void act_read(struct model *m, struct extent e)
{
	uint64_t length = (uint64_t)e.blocks * m->block;
	char cdb[64];

	snprintf(cdb, sizeof(cdb), "28 00 00 00 00 %02x 00 00 %02x 00", e.lba, e.blocks);
	REQUIRE(bed_sense(bed_in(m->b, draw(m, 2), cdb, length)) == S_GOOD);
	REQUIRE(memcmp(m->b->data, m->bytes + (uint64_t)e.lba * m->block, length) == 0);
}

static void act_write(struct model *m, struct extent e)
{
	uint64_t length = (uint64_t)e.blocks * m->block;
	bool is_or = draw(m, 3) == 0, is_verified = !is_or && draw(m, 2) == 0;
	uint8_t *at = m->bytes + (uint64_t)e.lba * m->block;
	char cdb[64];

	fill_draw(m, length);
	snprintf(cdb, sizeof(cdb), "%s 0%u 00 00 00 00 00 00 00 %02x 00 00 00 %02x 00 00",
		 is_or	       ? "8b"
		 : is_verified ? "8e"
			       : "8a",
		 is_verified ? 2 : 8 * draw(m, 2), e.lba, e.blocks);
	REQUIRE(bed_sense(bed_out(m->b, draw(m, 2), cdb, length)) == S_GOOD);
	for (uint64_t i = 0; i < length; i++)
		at[i] = is_or ? at[i] | m->b->sent[i] : m->b->sent[i];
}

static void act_same(struct model *m, struct extent e)
{
	bool is_unmap = draw(m, 2), has_data = draw(m, 2);
	char cdb[64];

	fill_draw(m, m->block);
	snprintf(cdb, sizeof(cdb), "93 %02x 00 00 00 00 00 00 00 %02x 00 00 00 %02x 00 00",
		 (is_unmap ? 8 : 0) | (has_data ? 0 : 1), e.lba, e.blocks);
	REQUIRE(bed_sense(bed_out(m->b, draw(m, 2), cdb, has_data ? m->block : 0)) == S_GOOD);
	for (uint32_t i = 0; i < e.blocks; i++)
		memset(m->bytes + (uint64_t)(e.lba + i) * m->block, has_data ? m->b->sent[0] : 0,
		       m->block);
}

static void act_unmap(struct model *m, struct extent e)
{
	struct wr w = wr_of(m->b->sent, 40);

	wr_u64(&w, (uint64_t)38 << 48 | (uint64_t)32 << 32);
	wr_u64(&w, e.lba);
	wr_u64(&w, (uint64_t)e.blocks << 32);
	wr_u64(&w, e.lba + 1);
	wr_u64(&w, (uint64_t)e.blocks << 32);
	REQUIRE(bed_sense(bed_out(m->b, draw(m, 2), "42 00 00 00 00 00 00 00 28 00", 40)) ==
		S_GOOD);
	memset(m->bytes + (uint64_t)e.lba * m->block, 0, (uint64_t)(e.blocks + 1) * m->block);
}

/* The first byte that differs, or the length. */
static uint64_t differs(const uint8_t *a, const uint8_t *b, uint64_t length)
{
	uint64_t i = 0;

	while (i < length && a[i] == b[i])
		i++;
	return i;
}

static void act_compare(struct model *m, struct extent e)
{
	bool is_write = draw(m, 2);
	uint64_t length, same;
	uint8_t *at = m->bytes + (uint64_t)e.lba * m->block;
	char cdb[64];

	e.blocks = 1 + e.blocks % (is_write ? 3 : MODEL_BLOCKS);
	length = (uint64_t)e.blocks * m->block;
	fill_draw(m, 2 * length);
	if (draw(m, 2))
		memcpy(m->b->sent, at, length);
	same = differs(m->b->sent, at, length);
	snprintf(cdb, sizeof(cdb), "%s 0%u 00 00 00 00 00 00 00 %02x 00 00 00 %02x 00 00",
		 is_write ? "89" : "8f", is_write ? 0 : 2, e.lba, e.blocks);
	(void)bed_out(m->b, draw(m, 2), cdb, is_write ? 2 * length : length);
	REQUIRE(bed_sense(&m->b->task) == (same == length ? S_GOOD : S_MISCOMPARE));
	if (same < length)
		REQUIRE(bed_number(m->b->task.sense + 3, 4) == same);
	else if (is_write)
		memcpy(at, m->b->sent + length, length);
}

static void history(uint64_t seed, const struct bed_config *c)
{
	static void (*const acts[])(struct model * m, struct extent e) = { act_read, act_write,
									   act_same, act_unmap,
									   act_compare };
	struct model m = { .b = bed_create(c), .prng = { seed } };

	m.block = c->block_bytes;
	m.bytes = calloc(1, m.b->size_bytes);
	REQUIRE(m.bytes != NULL);
	harness_note("seed %llu", (unsigned long long)seed);
	for (uint32_t i = 0; i < MODEL_COMMANDS; i++)
		acts[draw(&m, 5)](&m, extent_draw(&m));
	REQUIRE(memcmp(m.bytes, m.b->medium, m.b->size_bytes) == 0);
	free(m.bytes);
	bed_destroy(m.b);
}

TEST(test_model_random_commands_are_as_on_an_array)
{
	static const struct bed_config ways[] = {
		{ .block_bytes = 512 },
		{ .block_bytes = 4096, .has_zeroing_discard = true },
		{ .block_bytes = 512, .can_not = STORE_CAN_FUA | STORE_CAN_DISCARD },
		{ .block_bytes = 512, .delay_ns = 1000 },
	};

	for (uint64_t seed = 1; seed <= HISTORIES(40); seed++)
		history(seed, &ways[seed % 4]);
}

/* Ten tasks at a time, whose device is slow and fails now and then: each ends once. */
TEST(test_model_many_at_once_on_a_device_that_fails)
{
	static const struct fault_store_config fault = { .seed = 7, .error = 200000000 };
	enum { TASKS = 10, LENGTH = 4096 };
	static struct scsi_task tasks[TASKS];
	static struct span spans[TASKS];
	static uint8_t bytes[TASKS][LENGTH];
	bool is_out[TASKS] = { false };
	uint32_t counts[2] = { 0 };
	struct prng p = { 11 };
	struct bed *b = bed_create(&(struct bed_config){ .fault = &fault, .delay_ns = 1000 });

	for (uint32_t round = 0; round < 4000; round++) {
		uint32_t i = (uint32_t)(prng_next(&p) % TASKS);
		struct scsi_task *done;
		static const uint8_t opcodes[] = { 0x28, 0x2a, 0x2f, 0x35, 0x89, 0x41 };
		uint8_t opcode = opcodes[prng_next(&p) % 6];

		if (!is_out[i]) {
			memset(&tasks[i].cdb, 0, sizeof(tasks[i].cdb));
			tasks[i].cdb[0] = opcode;
			tasks[i].cdb[opcode == 0x89 ? 9 : 5] = (uint8_t)(prng_next(&p) % 8);
			tasks[i].cdb[opcode == 0x89 ? 13 : 8] = opcode == 0x89 ? 4 : 8;
			spans[i] = (struct span){ bytes[i], opcode == 0x41 ? 512 : LENGTH };
			tasks[i].in = tasks[i].out = (struct scsi_data){ &spans[i], 1,
									 spans[i].length };
			tasks[i].attribute = prng_next(&p) % 9 == 0 ? SCSI_ORDERED : SCSI_SIMPLE;
			tasks[i].nexus = b->nexus[prng_next(&p) % 2];
			scsi_submit(b->target, &tasks[i], b->now_ns);
			is_out[i] = true;
		} else if (prng_next(&p) % 8 == 0) {
			scsi_task_abort(b->target, &tasks[i]);
		} else if (scsi_due(b->target) != STORE_NEVER) {
			b->now_ns = scsi_due(b->target);
			scsi_expire(b->target, b->now_ns);
		}
		while ((done = scsi_next_done(b->target, b->now_ns))) {
			REQUIRE(is_out[done - tasks]);
			is_out[done - tasks] = false;
			counts[done->status != SCSI_GOOD]++;
		}
	}
	while (scsi_due(b->target) != STORE_NEVER) {
		struct scsi_task *done;

		b->now_ns = scsi_due(b->target);
		scsi_expire(b->target, b->now_ns);
		while ((done = scsi_next_done(b->target, b->now_ns)))
			is_out[done - tasks] = false;
	}
	for (uint32_t i = 0; i < TASKS; i++)
		EXPECT(!is_out[i]);
	EXPECT(counts[0] > 100 && counts[1] > 100);
	bed_destroy(b);
}
