/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets, their units and nexuses, and how tasks come in and go out. */
#include <stdlib.h>

#include "scsi/unit.h"

enum { LUN_MAX = 16383 };

/* ---- Creation ------------------------------------------------------------------------------- */

static uint32_t reply_bytes_for(const struct scsi_target_config *c)
{
	uint32_t bytes = REPLY_BYTES_MIN + c->registrations_max * REGISTRATION_BYTES;
	uint32_t luns = 8 + c->units_max * 8;

	return bytes > luns ? bytes : luns;
}

enum weft_reason scsi_target_create(const struct scsi_target_config *c, struct scsi_target **out)
{
	struct scsi_target *target;

	if (!c->name)
		return WEFT_R_NULL_ARGUMENT;
	if (strlen(c->name) > SCSI_NAME_MAX || c->port == 0 || c->units_max - 1 >= SCSI_UNITS_MAX ||
	    c->nexuses_max - 1 >= SCSI_NEXUSES_MAX || c->registrations_max - 1 >= SCSI_NEXUSES_MAX)
		return WEFT_R_BAD_ARGUMENT;
	target = calloc(1, sizeof(*target));
	if (!target)
		return WEFT_R_NO_MEMORY;
	memcpy(target->name, c->name, strlen(c->name));
	target->port = c->port;
	target->units_max = c->units_max;
	target->nexuses_max = c->nexuses_max;
	target->registrations_max = c->registrations_max;
	target->reply_bytes = reply_bytes_for(c);
	target->units = calloc(c->units_max, sizeof(*target->units));
	target->nexuses = calloc(c->nexuses_max, sizeof(*target->nexuses));
	target->reply = calloc(1, target->reply_bytes);
	target->absent = (struct scsi_unit){ .target = target, .lun = SCSI_NO_LUN };
	list_init(&target->absent.tasks);
	list_init(&target->done);
	if (!target->units || !target->nexuses || !target->reply) {
		scsi_target_destroy(target);
		return WEFT_R_NO_MEMORY;
	}
	*out = target;
	return WEFT_OK;
}

static void unit_free(struct scsi_unit *u)
{
	free(u->attentions);
	free(u->reservations.rows);
	free(u->scratch);
}

void scsi_target_destroy(struct scsi_target *target)
{
	for (uint32_t i = 0; i < target->unit_count; i++) {
		CHECK(list_is_empty(&target->units[i].tasks));
		unit_free(&target->units[i]);
	}
	CHECK(list_is_empty(&target->done));
	free(target->units);
	free(target->nexuses);
	free(target->reply);
	free(target);
}

static struct scsi_unit *unit_of(struct scsi_target *target, uint16_t lun)
{
	for (uint32_t i = 0; i < target->unit_count; i++)
		if (target->units[i].lun == lun)
			return &target->units[i];
	return &target->absent;
}

static enum weft_reason unit_config_check(struct scsi_target *target,
					  const struct scsi_unit_config *c)
{
	size_t length;

	if (!c->store || !c->serial)
		return WEFT_R_NULL_ARGUMENT;
	length = strlen(c->serial);
	if (c->lun > LUN_MAX || unit_of(target, c->lun) != &target->absent)
		return WEFT_R_BAD_ARGUMENT;
	if (length == 0 || length > SCSI_SERIAL_MAX)
		return WEFT_R_BAD_ARGUMENT;
	for (size_t i = 0; i < length; i++)
		if (c->serial[i] < 0x20 || c->serial[i] > 0x7e)
			return WEFT_R_BAD_ARGUMENT;
	if (c->transfer_bytes_max == 0 ||
	    c->transfer_bytes_max % c->store->shape.block_bytes != 0 || c->id >> 60 != 0)
		return WEFT_R_BAD_ARGUMENT;
	return target->unit_count == target->units_max ? WEFT_R_LIMIT : WEFT_OK;
}

static void unit_init(struct scsi_unit *u, const struct scsi_unit_config *c)
{
	const struct store_shape *shape = &c->store->shape;
	bool can_discard = shape->can & STORE_CAN_DISCARD;
	bool can_zero = shape->can & STORE_CAN_WRITE_ZEROES;

	u->lun = c->lun;
	u->store = c->store;
	u->id = c->id;
	memcpy(u->serial, c->serial, strlen(c->serial));
	u->block_bytes = shape->block_bytes;
	u->block_count = shape->size_bytes / shape->block_bytes;
	u->transfer_blocks_max = c->transfer_bytes_max / shape->block_bytes;
	u->compare_blocks_max = SCRATCH_BYTES / shape->block_bytes;
	if (u->compare_blocks_max > COMPARE_BLOCKS_MAX)
		u->compare_blocks_max = COMPARE_BLOCKS_MAX;
	u->is_readonly = shape->is_readonly || c->is_readonly;
	/* Blocks that are unmapped read as zeroes where the device can see to that. */
	u->is_thin = can_discard || can_zero;
	u->is_zeroing = can_zero || (can_discard && c->has_zeroing_discard);
	u->unmap_op = can_discard && (c->has_zeroing_discard || !can_zero) ? STORE_DISCARD
									   : STORE_WRITE_ZEROES;
	list_init(&u->tasks);
	mode_reset(u);
}

enum weft_reason scsi_unit_add(struct scsi_target *target, const struct scsi_unit_config *c)
{
	enum weft_reason reason = unit_config_check(target, c);
	struct scsi_unit *u = &target->units[target->unit_count];

	if (reason != WEFT_OK)
		return reason;
	*u = (struct scsi_unit){ .target = target };
	unit_init(u, c);
	u->attentions = calloc(target->nexuses_max, sizeof(*u->attentions));
	u->scratch = calloc(1, SCRATCH_BYTES);
	reason = reservations_init(&u->reservations, target->registrations_max);
	if (!u->attentions || !u->scratch || reason != WEFT_OK) {
		unit_free(u);
		return WEFT_R_NO_MEMORY;
	}
	for (uint32_t i = 0; i < target->unit_count; i++)
		attention_set_others(&target->units[i], SCSI_R_UA_LUNS_CHANGED, NO_NEXUS);
	target->unit_count++;
	attention_set_others(u, SCSI_R_UA_POWER_ON, NO_NEXUS);
	return WEFT_OK;
}

/* ---- Nexuses -------------------------------------------------------------------------------- */

/* The nexus of this TransportID that has gone; NO_NEXUS: none is remembered. */
static uint32_t nexus_find_gone(const struct scsi_target *target, const struct transport_id *id)
{
	for (uint32_t i = 0; i < target->nexuses_max; i++)
		if (!target->nexuses[i].is_used && transport_id_is_same(&target->nexuses[i].id, id))
			return i;
	return NO_NEXUS;
}

/* One that was never used, or else the one that went first, which is forgotten. */
static uint32_t nexus_find_free(const struct scsi_target *target)
{
	uint32_t best = NO_NEXUS;

	for (uint32_t i = 0; i < target->nexuses_max; i++) {
		const struct scsi_nexus *n = &target->nexuses[i];

		/* Tasks of an earlier nexus may still be at a device under its number. */
		if (n->is_used || n->task_count > 0)
			continue;
		if (best == NO_NEXUS || n->gone < target->nexuses[best].gone)
			best = i;
	}
	return best;
}

/*
 * SAM-5 section 6.3.4: an initiator that comes back is told that its nexus was lost, and what
 * happened while it was away; power on only if its nexus was not told, or has been forgotten.
 */
static void attentions_begin(struct scsi_target *target, uint32_t nexus, uint32_t gone)
{
	for (uint32_t i = 0; i < target->unit_count; i++) {
		uint16_t *attentions = target->units[i].attentions;
		uint16_t now = UA_BIT(SCSI_R_UA_POWER_ON);

		if (gone != NO_NEXUS)
			now = attentions[gone];
		if (!(now & UA_BIT(SCSI_R_UA_POWER_ON)))
			now |= UA_BIT(SCSI_R_UA_NEXUS_LOST);
		attentions[nexus] = now;
	}
}

enum weft_reason scsi_nexus_add(struct scsi_target *target, const struct scsi_nexus_config *c,
				uint32_t *out)
{
	struct transport_id id = { .length = c->transport_id_length };
	uint32_t gone, i;

	/* SPC-4 section 7.6.4: a multiple of four bytes. */
	if (c->transport_id_length == 0 || c->transport_id_length > SCSI_TRANSPORT_ID_MAX ||
	    c->transport_id_length % 4 != 0)
		return WEFT_R_BAD_ARGUMENT;
	memcpy(id.bytes, c->transport_id, id.length);
	i = gone = nexus_find_gone(target, &id);
	if (i == NO_NEXUS || target->nexuses[i].task_count > 0)
		i = nexus_find_free(target);
	if (i == NO_NEXUS)
		return WEFT_R_LIMIT;
	attentions_begin(target, i, gone);
	if (gone != NO_NEXUS)
		target->nexuses[gone].id.length = 0;
	target->nexuses[i] = (struct scsi_nexus){ .is_used = true, .id = id };
	*out = i;
	return WEFT_OK;
}

void scsi_nexus_remove(struct scsi_target *target, uint32_t nexus)
{
	CHECK(nexus < target->nexuses_max && target->nexuses[nexus].is_used);
	for (uint32_t i = 0; i < target->unit_count; i++)
		unit_abort(&target->units[i], nexus, NULL);
	target->nexuses[nexus].is_used = false;
	target->nexuses[nexus].gone = ++target->gone_count;
}

void attention_set_others(struct scsi_unit *u, enum scsi_reason reason, uint32_t nexus)
{
	for (uint32_t i = 0; i < u->target->nexuses_max; i++)
		if (i != nexus)
			u->attentions[i] |= UA_BIT(reason);
}

enum scsi_reason attention_take(struct scsi_unit *u, uint32_t nexus)
{
	uint16_t *pending = u->attentions ? &u->attentions[nexus] : NULL;

	for (int r = SCSI_R_UA_POWER_ON; pending && *pending && r < SCSI_REASON_COUNT; r++)
		if (*pending & UA_BIT(r)) {
			*pending &= (uint16_t)~UA_BIT(r);
			return (enum scsi_reason)r;
		}
	return SCSI_OK;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

uint16_t scsi_lun_decode(const uint8_t bytes[8])
{
	struct rd r = rd_of(bytes, 8);
	uint16_t first = rd_u16(&r), second = rd_u16(&r);
	uint32_t rest = rd_u32(&r);

	if (second != 0 || rest != 0)
		return SCSI_NO_LUN;
	if (first >> 14 == 1)
		return first & LUN_MAX;
	return first <= UINT8_MAX ? first : SCSI_NO_LUN;
}

uint64_t scsi_data_need(struct scsi_target *target, uint16_t lun, const uint8_t *cdb)
{
	struct scsi_unit *u = unit_of(target, lun);
	const struct scsi_command *c;

	if (command_find(u, cdb, &c) != SCSI_OK)
		return 0;
	/* A byte more than COMPARE AND WRITE moves shows that there is more, which it refuses. */
	return cdb_want(u, c, cdb) + (c->data == DATA_BLOCKS_TWICE);
}

void scsi_submit(struct scsi_target *target, struct scsi_task *t, uint64_t now_ns)
{
	struct scsi_unit *u = unit_of(target, t->lun);

	CHECK(t->nexus < target->nexuses_max && target->nexuses[t->nexus].is_used);
	target->now_ns = now_ns;
	target->nexuses[t->nexus].task_count++;
	unit_take(u, t);
}

struct scsi_task *scsi_next_done(struct scsi_target *target, uint64_t now_ns)
{
	enum { PASSES_MAX = 2 };
	struct scsi_task *t;

	target->now_ns = now_ns;
	target->has_more = true;
	/* The caller has others to look after, too: the rest is for its next call. */
	for (int n = 0; n < PASSES_MAX && list_is_empty(&target->done) && target->has_more; n++) {
		target->has_more = false;
		for (uint32_t i = 0; i < target->unit_count; i++)
			target->has_more |= unit_poll(&target->units[i]);
	}
	if (list_is_empty(&target->done))
		return NULL;
	t = CONTAINER_OF(list_pop(&target->done), struct scsi_task, link);
	target->nexuses[t->nexus].task_count--;
	return t;
}

uint64_t scsi_due(const struct scsi_target *target)
{
	uint64_t due_ns = target->has_more ? target->now_ns : STORE_NEVER;

	for (uint32_t i = 0; i < target->unit_count; i++) {
		uint64_t unit_ns = store_due(target->units[i].store);

		due_ns = unit_ns < due_ns ? unit_ns : due_ns;
	}
	return due_ns;
}

void scsi_expire(struct scsi_target *target, uint64_t now_ns)
{
	for (uint32_t i = 0; i < target->unit_count; i++)
		store_expire(target->units[i].store, now_ns);
}

void scsi_task_abort(struct scsi_target *target, struct scsi_task *t)
{
	(void)target;
	if (t->unit)
		unit_abort_task(t->unit, t);
}

bool scsi_task_set_abort(struct scsi_target *target, uint16_t lun, uint32_t nexus)
{
	struct scsi_unit *u = unit_of(target, lun);

	if (u == &target->absent)
		return false;
	unit_abort(u, nexus, NULL);
	return true;
}

/* SAM-5 section 6.3.3. Reservations persist: SPC-4 section 5.12.1. */
bool scsi_unit_reset(struct scsi_target *target, uint16_t lun)
{
	struct scsi_unit *u = unit_of(target, lun);

	if (u == &target->absent)
		return false;
	unit_abort(u, EVERY_NEXUS, NULL);
	mode_reset(u);
	u->is_stopped = false;
	attention_set_others(u, SCSI_R_UA_RESET, NO_NEXUS);
	return true;
}

void scsi_target_reset(struct scsi_target *target)
{
	for (uint32_t i = 0; i < target->unit_count; i++)
		(void)scsi_unit_reset(target, target->units[i].lun);
}

void scsi_tell_cleared(struct scsi_target *target, uint16_t lun, uint32_t nexus)
{
	struct scsi_unit *u = unit_of(target, lun);

	if (u != &target->absent)
		u->attentions[nexus] |= UA_BIT(SCSI_R_UA_COMMANDS_CLEARED);
}
