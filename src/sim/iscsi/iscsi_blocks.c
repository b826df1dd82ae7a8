/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which values a block may have. Every write has a serial number, which each of its blocks tells,
 * so no value comes twice. A history of a block is linearizable if and only if of the zones of its
 * values (see struct isw_value) no two forward ones overlap, and no forward one has another inside.
 *
 * A write without an answer counts once it was read. It may take effect until its host has a later
 * answer: the target ends what a former session had asked for before it begins with what a new one
 * asks for. A power failure leaves of each block a value that nothing durable has replaced.
 */
#include <string.h>

#include "sim/iscsi/iscsi_world.h"

/* ---- Contents ------------------------------------------------------------------------------- */

static uint64_t word_of(uint64_t serial, uint32_t unit, uint32_t lba, uint32_t i)
{
	return i == 0 ? serial : prng_mix(serial << 16 ^ (uint64_t)unit << 60 ^ lba << 8 ^ i);
}

void isw_stamp(uint8_t *bytes, uint64_t serial, uint32_t unit, uint32_t lba)
{
	for (uint32_t i = 0; i < ISW_BLOCK_BYTES / sizeof(uint64_t); i++) {
		uint64_t word = serial ? word_of(serial, unit, lba, i) : 0;

		for (uint32_t b = 0; b < sizeof(word); b++)
			bytes[i * sizeof(word) + b] = (uint8_t)(word >> 8 * b);
	}
}

bool isw_stamp_read(const uint8_t *bytes, uint32_t unit, uint32_t lba, uint64_t *serial)
{
	uint8_t right[ISW_BLOCK_BYTES];

	*serial = 0;
	for (uint32_t b = 0; b < sizeof(*serial); b++)
		*serial |= (uint64_t)bytes[b] << 8 * b;
	isw_stamp(right, *serial, unit, lba);
	return memcmp(bytes, right, ISW_BLOCK_BYTES) == 0;
}

/* ---- Values --------------------------------------------------------------------------------- */

static struct isw_block *block_at(struct iscsi_world *w, uint32_t unit, uint32_t lba)
{
	return &w->units[unit].blocks[lba];
}

static struct isw_value *find(struct isw_block *b, uint64_t serial)
{
	for (uint32_t i = 0; i < b->count; i++)
		if (b->values[i].serial == serial)
			return &b->values[i];
	return NULL;
}

void isw_blocks_open(struct iscsi_world *w)
{
	for (uint32_t u = 0; u < ISW_UNITS; u++) {
		for (uint32_t i = 0; i < ISW_BLOCKS; i++) {
			struct isw_block *b = block_at(w, u, i);

			b->count = 1;
			b->values[0] = (struct isw_value){ .state = ISW_VALUE_SURE,
							   .is_durable = true };
		}
	}
}

bool isw_block_has_room(const struct iscsi_world *w, uint32_t unit, uint32_t lba, uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks; i++)
		if (w->units[unit].blocks[lba + i].count == ISW_VALUES)
			return false;
	return true;
}

/* ---- The judge ------------------------------------------------------------------------------ */

static bool is_counted(const struct isw_value *v)
{
	return v->state == ISW_VALUE_SURE || v->is_read;
}

static bool is_forward(const struct isw_value *v)
{
	return v->low < v->high;
}

static bool is_inside(const struct isw_value *v, const struct isw_value *forward)
{
	return forward->low < v->high && v->low < forward->high;
}

static bool do_clash(const struct isw_value *a, const struct isw_value *b)
{
	if (is_forward(a) && is_forward(b))
		return a->low < b->high && b->low < a->high;
	if (is_forward(a))
		return is_inside(b, a);
	return is_forward(b) && is_inside(a, b);
}

static void judge(struct iscsi_world *w, uint32_t unit, uint32_t lba, const struct isw_value *v)
{
	struct isw_block *b = block_at(w, unit, lba);

	for (uint32_t i = 0; i < b->count; i++) {
		const struct isw_value *u = &b->values[i];

		if (u == v || !is_counted(u) || !is_counted(v) || !do_clash(u, v))
			continue;
		isw_fail(w,
			 "unit %u block %u: no order explains that it was %llu (seen from %llu to "
			 "%llu) and %llu (from %llu to %llu)",
			 unit, lba, (unsigned long long)v->serial, (unsigned long long)v->low,
			 (unsigned long long)v->high, (unsigned long long)u->serial,
			 (unsigned long long)u->low, (unsigned long long)u->high);
		return;
	}
}

/* ---- Writes --------------------------------------------------------------------------------- */

void isw_write_begin(struct iscsi_world *w, const struct isw_ask *a)
{
	struct isw_written *r = &w->written[a->serial % ISW_WRITTEN];

	*r = (struct isw_written){ .serial = a->serial,
				   .host = a->host,
				   .unit = a->unit,
				   .lba = a->lba,
				   .blocks = a->blocks,
				   .begin = a->begin,
				   .is_repeatable = w->limits.is_private && a->kind == ISW_WRITE };
	for (uint32_t i = 0; i < a->blocks; i++) {
		struct isw_block *b = block_at(w, a->unit, a->lba + i);

		b->values[b->count++] = (struct isw_value){ .serial = a->serial,
							    .state = ISW_VALUE_ACTIVE,
							    .host = a->host,
							    .begin = a->begin,
							    .end = UINT64_MAX,
							    .low = UINT64_MAX,
							    .high = a->begin };
	}
}

static void value_end(struct iscsi_world *w, const struct isw_ask *a, uint32_t lba,
		      enum isw_end_of_write how)
{
	struct isw_value *v = find(block_at(w, a->unit, lba), a->serial);

	if (!v)
		return;
	if (how == ISW_WRITE_VOID && v->is_read)
		isw_fail(w, "unit %u block %u: write %llu was refused, and has been read", a->unit,
			 lba, (unsigned long long)a->serial);
	v->state = how == ISW_WRITE_SURE   ? ISW_VALUE_SURE
		   : how == ISW_WRITE_VOID ? ISW_VALUE_VOID
					   : ISW_VALUE_MAYBE;
	if (how == ISW_WRITE_OPEN)
		return;
	v->end = w->tick;
	v->low = v->low < w->tick ? v->low : w->tick;
	v->is_durable |= how == ISW_WRITE_SURE && a->is_fua;
	judge(w, a->unit, lba, v);
}

void isw_write_end(struct iscsi_world *w, const struct isw_ask *a, enum isw_end_of_write how)
{
	struct isw_written *r = isw_written_find(w, a->serial);

	for (uint32_t i = 0; i < a->blocks; i++)
		value_end(w, a, a->lba + i, how);
	if (!r)
		return;
	r->end = w->tick;
	r->is_sure = how == ISW_WRITE_SURE;
	r->is_void = how == ISW_WRITE_VOID;
}

void isw_write_close(struct iscsi_world *w, uint64_t serial)
{
	struct isw_written *r = isw_written_find(w, serial);

	if (r)
		r->is_closed = true;
	for (uint32_t i = 0; r && i < r->blocks; i++) {
		struct isw_value *v = find(block_at(w, r->unit, r->lba + i), serial);

		if (!v || v->state != ISW_VALUE_MAYBE)
			continue;
		v->end = w->tick;
		v->low = v->low < w->tick ? v->low : w->tick;
		judge(w, r->unit, r->lba + i, v);
	}
}

struct isw_written *isw_written_find(struct iscsi_world *w, uint64_t serial)
{
	struct isw_written *r = &w->written[serial % ISW_WRITTEN];

	return serial != 0 && r->serial == serial ? r : NULL;
}

/* ---- Reads ---------------------------------------------------------------------------------- */

/* This is what the power failure has left. */
static void settle(struct isw_block *b, const struct isw_value *v)
{
	for (uint32_t i = 0; i < b->count; i++) {
		struct isw_value *u = &b->values[i];

		if (u->state == ISW_VALUE_REST)
			u->state = u == v ? ISW_VALUE_SURE : ISW_VALUE_VOID;
	}
	b->is_open = false;
}

void isw_read_end(struct iscsi_world *w, const struct isw_ask *a, uint32_t lba, uint64_t serial)
{
	struct isw_block *b = block_at(w, a->unit, lba);
	struct isw_value *v = find(b, serial);
	uint64_t begin = a->begin > b->since ? a->begin : b->since;

	if (!v || v->state == ISW_VALUE_VOID) {
		isw_fail(w, "unit %u block %u: host %u reads %llu, which cannot be there (%s)",
			 a->unit, lba, a->host, (unsigned long long)serial,
			 v ? "refused, or replaced" : "lost to a power failure, or never written");
		return;
	}
	if (v->state == ISW_VALUE_REST)
		settle(b, v);
	v->is_read = true;
	v->low = v->low < w->tick ? v->low : w->tick;
	v->high = v->high > begin ? v->high : begin;
	judge(w, a->unit, lba, v);
}

void isw_compare_end(struct iscsi_world *w, const struct isw_ask *a)
{
	struct isw_value *v;

	isw_read_end(w, a, a->lba, a->expected);
	v = find(block_at(w, a->unit, a->lba), a->expected);
	if (v && v->taken_by != 0)
		isw_fail(w, "unit %u block %u: %llu and %llu have both replaced %llu", a->unit,
			 a->lba, (unsigned long long)v->taken_by, (unsigned long long)a->serial,
			 (unsigned long long)a->expected);
	if (v)
		v->taken_by = a->serial;
}

/* ---- What lasts ----------------------------------------------------------------------------- */

void isw_flush_end(struct iscsi_world *w, const struct isw_ask *a)
{
	for (uint32_t i = 0; i < ISW_BLOCKS; i++) {
		struct isw_block *b = block_at(w, a->unit, i);

		for (uint32_t k = 0; k < b->count; k++) {
			struct isw_value *v = &b->values[k];

			v->is_durable |= v->state == ISW_VALUE_SURE && v->end < a->begin;
		}
	}
}

/* Something durable came after it. */
static bool is_replaced(const struct isw_block *b, const struct isw_value *v)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct isw_value *u = &b->values[i];

		if (u->serial != v->serial && u->is_durable && is_counted(u) && v->low < u->high)
			return true;
	}
	return false;
}

static void block_after_power(struct isw_block *b, uint64_t tick)
{
	struct isw_block was = *b;
	uint32_t rests = 0;

	b->count = 0;
	b->since = tick;
	for (uint32_t i = 0; i < was.count; i++) {
		struct isw_value v = was.values[i];
		bool is_active = v.state == ISW_VALUE_ACTIVE;

		if (v.state == ISW_VALUE_VOID || (!is_active && is_replaced(&was, &v)))
			continue;
		v.high = tick;
		v.low = is_active ? UINT64_MAX : tick;
		v.begin = tick;
		v.is_read = false;
		v.taken_by = 0;
		v.is_durable = !is_active;
		if (!is_active) {
			v.state = ISW_VALUE_REST;
			v.end = tick;
			rests++;
		}
		b->values[b->count++] = v;
	}
	b->is_open = rests > 1;
	for (uint32_t i = 0; rests == 1 && i < b->count; i++)
		if (b->values[i].state == ISW_VALUE_REST)
			b->values[i].state = ISW_VALUE_SURE;
}

void isw_power_failed(struct iscsi_world *w)
{
	uint64_t tick = ++w->tick;

	for (uint32_t u = 0; u < w->limits.units; u++)
		for (uint32_t i = 0; i < ISW_BLOCKS; i++)
			block_after_power(block_at(w, u, i), tick);
}
