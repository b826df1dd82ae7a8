/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/scsi/scsi_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bed_cdb(struct scsi_task *t, const char *hex)
{
	uint32_t count = 0;
	unsigned int value;

	memset(t->cdb, 0, sizeof(t->cdb));
	while (sscanf(hex, " %2x", &value) == 1) {
		REQUIRE(count < sizeof(t->cdb));
		t->cdb[count++] = (uint8_t)value;
		hex += *hex == ' ' ? 3 : 2;
	}
}

uint64_t bed_number(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

uint32_t bed_sense(const struct scsi_task *t)
{
	bool is_descriptor = t->sense[0] == 0x72;

	if (t->status != SCSI_CHECK_CONDITION)
		return t->status;
	if (is_descriptor)
		return (uint32_t)bed_number(t->sense + 1, 3);
	return (uint32_t)t->sense[2] << 16 | (uint32_t)bed_number(t->sense + 12, 2);
}

uint16_t bed_field(const struct scsi_task *t)
{
	return (uint16_t)bed_number(t->sense + 16, 2);
}

void bed_finish(struct bed *b, struct scsi_task *t)
{
	struct scsi_task *done = scsi_next_done(b->target, b->now_ns);

	while (!done) {
		b->now_ns = scsi_due(b->target);
		REQUIRE(b->now_ns != STORE_NEVER);
		scsi_expire(b->target, b->now_ns);
		done = scsi_next_done(b->target, b->now_ns);
	}
	REQUIRE(done == t);
	REQUIRE(scsi_next_done(b->target, b->now_ns) == NULL);
}

static struct scsi_task *run(struct bed *b, uint32_t nexus, const char *cdb)
{
	bed_cdb(&b->task, cdb);
	b->task.nexus = b->nexus[nexus];
	scsi_submit(b->target, &b->task, b->now_ns);
	bed_finish(b, &b->task);
	return &b->task;
}

struct scsi_task *bed_in(struct bed *b, uint32_t nexus, const char *cdb, uint64_t expected)
{
	REQUIRE(expected <= sizeof(b->data));
	memset(b->data, 0xee, sizeof(b->data));
	b->in = (struct span){ b->data, (size_t)expected };
	b->task.in = (struct scsi_data){ &b->in, 1, expected };
	b->task.out = (struct scsi_data){ 0 };
	return run(b, nexus, cdb);
}

struct scsi_task *bed_out(struct bed *b, uint32_t nexus, const char *cdb, uint64_t length)
{
	b->out = (struct span){ b->sent, (size_t)length };
	b->task.out = (struct scsi_data){ &b->out, 1, length };
	b->task.in = (struct scsi_data){ 0 };
	return run(b, nexus, cdb);
}

static void store_create(struct bed *b, const struct bed_config *c, uint32_t block_bytes)
{
	struct mem_store_config memory = { .block_bytes = block_bytes };

	b->size_bytes = (uint64_t)BED_BLOCKS * block_bytes;
	b->medium = calloc(1, b->size_bytes);
	REQUIRE(b->medium != NULL);
	memory.bytes = b->medium;
	memory.size_bytes = b->size_bytes;
	MUST(mem_store_create(&memory, &b->memory));
	b->store = b->memory;
	if (c->fault) {
		MUST(fault_store_create(b->store, c->fault, &b->fault));
		b->store = b->fault;
	}
	if (c->delay_ns > 0) {
		MUST(delay_store_create(b->store, c->delay_ns, &b->delay));
		b->store = b->delay;
	}
	b->store->shape.can &= ~c->can_not;
}

static void nexus_create(struct bed *b, uint32_t i)
{
	/* SPC-4 table 499: an iSCSI initiator port. */
	uint8_t id[40] = { 0x45, 0, 0, 36 };
	struct scsi_nexus_config c = { id, sizeof(id) };

	snprintf((char *)id + 4, sizeof(id) - 4, "iqn.2026-11.x:%u,i,0x%012u", i, i);
	MUST(scsi_nexus_add(b->target, &c, &b->nexus[i]));
}

struct bed *bed_create(const struct bed_config *c)
{
	struct bed *b = calloc(1, sizeof(*b));
	struct scsi_target_config target = { .name = "iqn.2026-11.x:disks",
					     .port = 1,
					     .units_max = 2,
					     .nexuses_max = BED_NEXUSES,
					     .registrations_max = BED_REGISTRATIONS };
	struct scsi_unit_config unit = { .lun = 0,
					 .transfer_bytes_max = c->transfer_bytes_max
								       ? c->transfer_bytes_max
								       : BED_DATA,
					 .is_readonly = c->is_readonly,
					 .has_zeroing_discard = c->has_zeroing_discard,
					 .id = 0x123456789abcdef,
					 .serial = "disk-1" };

	REQUIRE(b != NULL);
	store_create(b, c, c->block_bytes ? c->block_bytes : 512);
	unit.store = b->store;
	MUST(scsi_target_create(&target, &b->target));
	MUST(scsi_unit_add(b->target, &unit));
	for (uint32_t i = 0; i < 2; i++) {
		nexus_create(b, i);
		MUST_EQ(bed_sense(bed_in(b, i, "00 00 00 00 00 00", 0)), S_UA_POWER_ON);
	}
	for (uint32_t i = 0; i < sizeof(b->sent); i++)
		b->sent[i] = (uint8_t)(i * 7 + i / 251 + 1);
	return b;
}

void bed_destroy(struct bed *b)
{
	scsi_target_destroy(b->target);
	if (b->delay)
		store_destroy(b->delay);
	if (b->fault)
		store_destroy(b->fault);
	store_destroy(b->memory);
	free(b->medium);
	free(b);
}
