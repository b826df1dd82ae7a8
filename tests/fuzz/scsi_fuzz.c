/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CDBs and parameter data from arbitrary bytes, of two nexuses, on a small device that takes its
 * time: every task ends once, with a status and sense data that fit, and no byte beyond the memory
 * that was given is written.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "scsi/scsi.h"

enum { BLOCKS = 64, TASKS = 8, DATA_MAX = 8192, GUARD = 16, GUARD_BYTE = 0xa5 };

struct slot {
	struct scsi_task task;
	struct span spans[2];
	uint8_t bytes[DATA_MAX + GUARD];
	bool is_out;
};

struct world {
	uint8_t medium[BLOCKS * 512];
	struct store *memory, *delay;
	struct scsi_target *target;
	uint32_t nexus[2];
	uint64_t now_ns;
	struct slot slots[TASKS];
};

static void world_create(struct world *w)
{
	struct mem_store_config memory = { .bytes = w->medium,
					   .size_bytes = sizeof(w->medium),
					   .block_bytes = 512 };
	struct scsi_target_config target = {
		.name = "iqn.x", .port = 1, .units_max = 1, .nexuses_max = 2, .registrations_max = 2
	};
	struct scsi_unit_config unit = { .transfer_bytes_max = 32768, .serial = "s" };
	uint8_t id[8] = { 0x45 };
	struct scsi_nexus_config nexus = { id, sizeof(id) };

	CHECK(mem_store_create(&memory, &w->memory) == WEFT_OK);
	CHECK(delay_store_create(w->memory, 10, &w->delay) == WEFT_OK);
	CHECK(scsi_target_create(&target, &w->target) == WEFT_OK);
	unit.store = w->delay;
	CHECK(scsi_unit_add(w->target, &unit) == WEFT_OK);
	for (uint32_t i = 0; i < 2; i++) {
		id[4] = (uint8_t)i;
		CHECK(scsi_nexus_add(w->target, &nexus, &w->nexus[i]) == WEFT_OK);
	}
}

static void done_check(struct world *w, struct scsi_task *t)
{
	struct slot *s = CONTAINER_OF(t, struct slot, task);
	uint64_t given = t->in.length > t->out.length ? t->in.length : t->out.length;

	(void)w;
	CHECK(s->is_out);
	s->is_out = false;
	CHECK(t->reason != SCSI_PENDING && (unsigned int)t->reason < SCSI_REASON_COUNT);
	CHECK((t->status == SCSI_GOOD) == (t->reason == SCSI_OK));
	CHECK((t->status == SCSI_CHECK_CONDITION) == (t->sense_length > 0));
	CHECK(t->sense_length <= SCSI_SENSE_MAX && t->in_length <= t->in.length);
	CHECK(t->is_aborted == (t->status == SCSI_TASK_ABORTED));
	CHECK(t->is_overflow || t->residual <= given);
	for (uint32_t i = 0; i < GUARD; i++)
		CHECK(s->bytes[given + i] == GUARD_BYTE);
}

static void collect(struct world *w)
{
	struct scsi_task *t;

	while ((t = scsi_next_done(w->target, w->now_ns)))
		done_check(w, t);
}

static void wait(struct world *w)
{
	if (scsi_due(w->target) == STORE_NEVER)
		return;
	w->now_ns = scsi_due(w->target);
	scsi_expire(w->target, w->now_ns);
	collect(w);
}

static void start(struct world *w, struct slot *s, uint8_t how, struct rd *r)
{
	uint16_t length = rd_u16(r) % (DATA_MAX + 1);
	uint16_t cut = length > 0 ? rd_u16(r) % length : 0;
	size_t left;

	rd_bytes(r, s->task.cdb, sizeof(s->task.cdb));
	left = (size_t)(r->end - r->at) < length ? (size_t)(r->end - r->at) : length;
	memset(s->bytes, 0, sizeof(s->bytes));
	rd_bytes(r, s->bytes, left);
	memset(s->bytes + length, GUARD_BYTE, GUARD);
	s->spans[0] = (struct span){ s->bytes, cut };
	s->spans[1] = (struct span){ s->bytes + cut, (size_t)length - cut };
	s->task.nexus = w->nexus[how & 1];
	s->task.lun = how & 2 && how & 4 ? 9 : 0;
	s->task.attribute = how & 8 ? SCSI_ORDERED : SCSI_SIMPLE;
	s->task.in = how & 16 ? (struct scsi_data){ 0 } : (struct scsi_data){ s->spans, 2, length };
	s->task.out = (struct scsi_data){ s->spans, 2, length };
	s->is_out = true;
	(void)scsi_data_need(w->target, s->task.lun, s->task.cdb);
	scsi_submit(w->target, &s->task, w->now_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	struct rd r = rd_of(data, size);

	CHECK(w);
	world_create(w);
	while (r.at < r.end) {
		uint8_t how = rd_u8(&r);
		struct slot *s = &w->slots[how % TASKS];

		if (how >= 0xf8)
			(void)scsi_unit_reset(w->target, 0);
		else if (how >= 0xf0)
			(void)scsi_task_set_abort(w->target, 0, w->nexus[how & 1]);
		else if (how >= 0xe0 && s->is_out)
			scsi_task_abort(w->target, &s->task);
		else if (how >= 0xc0)
			wait(w);
		else if (!s->is_out)
			start(w, s, how >> 3, &r);
		collect(w);
	}
	while (scsi_due(w->target) != STORE_NEVER)
		wait(w);
	for (uint32_t i = 0; i < TASKS; i++)
		CHECK(!w->slots[i].is_out);
	scsi_target_destroy(w->target);
	store_destroy(w->delay);
	store_destroy(w->memory);
	free(w);
	return 0;
}
