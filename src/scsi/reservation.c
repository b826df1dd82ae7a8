/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PERSISTENT RESERVE OUT, and which commands a reservation refuses: SPC-4 sections 5.12 and 6.16. A
 * registration belongs to an initiator port, known by its TransportID, and outlives the nexus.
 */
#include <stdlib.h>

#include "scsi/reservation.h"

enum {
	REGISTER = 0x00,
	RESERVE = 0x01,
	RELEASE = 0x02,
	CLEAR = 0x03,
	PREEMPT = 0x04,
	PREEMPT_AND_ABORT = 0x05,
	REGISTER_AND_IGNORE = 0x06,
	PARAMETER_BYTES = 24,
	FLAGS_AT = 20,
	SPEC_I_PT = 0x08,
	ALL_TG_PT = 0x04,
	APTPL = 0x01,
};

struct reserve_out {
	uint64_t key, service_key;
	uint8_t scope, type;
	uint32_t row; /* of the nexus, or NO_HOLDER */
};

enum weft_reason reservations_init(struct reservations *p, uint32_t rows_max)
{
	*p = (struct reservations){ .rows_max = rows_max, .holder = NO_HOLDER };
	p->rows = calloc(rows_max, sizeof(*p->rows));
	return p->rows ? WEFT_OK : WEFT_R_NO_MEMORY;
}

uint32_t registration_of(const struct scsi_unit *u, uint32_t nexus)
{
	const struct transport_id *who = &u->target->nexuses[nexus].id;

	for (uint32_t i = 0; i < u->reservations.rows_max; i++) {
		const struct registration *row = &u->reservations.rows[i];

		if (row->key != 0 && transport_id_is_same(&row->who, who))
			return i;
	}
	return NO_HOLDER;
}

/* ---- Conflicts ------------------------------------------------------------------------------ */

enum scsi_reason reservation_check_as(const struct scsi_unit *u, const struct scsi_task *t,
				      enum access_class access)
{
	/* SPC-4 table 67: what a reservation of this type refuses to those it does not let in. */
	static const enum access_class refused[RESERVATION_TYPES] = {
		[RESERVATION_NONE] = ACCESS_WRITE + 1,
		[WRITE_EXCLUSIVE] = ACCESS_WRITE,
		[EXCLUSIVE_ACCESS] = ACCESS_READ,
		[WRITE_EXCLUSIVE_REGISTRANTS] = ACCESS_WRITE,
		[EXCLUSIVE_ACCESS_REGISTRANTS] = ACCESS_READ,
		[WRITE_EXCLUSIVE_ALL] = ACCESS_WRITE,
		[EXCLUSIVE_ACCESS_ALL] = ACCESS_READ,
	};
	const struct reservations *p = &u->reservations;
	uint32_t row;

	if (access < refused[p->type])
		return SCSI_OK;
	row = registration_of(u, t->nexus);
	if (row != NO_HOLDER && (reservation_has_registrants(p->type) || p->holder == row))
		return SCSI_OK;
	return SCSI_R_CONFLICT;
}

enum scsi_reason reservation_check(const struct scsi_unit *u, const struct scsi_task *t)
{
	return reservation_check_as(u, t, t->command->access);
}

/* ---- Registrations -------------------------------------------------------------------------- */

/* Tells every nexus of the registration but the one that caused it, also one that may come back. */
static void tell_row(struct scsi_unit *u, uint32_t row, enum scsi_reason reason, uint32_t nexus)
{
	for (uint32_t i = 0; i < u->target->nexuses_max; i++)
		if (i != nexus && registration_of(u, i) == row)
			u->attentions[i] |= UA_BIT(reason);
}

static void tell_registered(struct scsi_unit *u, enum scsi_reason reason, uint32_t nexus)
{
	for (uint32_t i = 0; i < u->target->nexuses_max; i++)
		if (i != nexus && registration_of(u, i) != NO_HOLDER)
			u->attentions[i] |= UA_BIT(reason);
}

static bool is_any_registered(const struct reservations *p)
{
	for (uint32_t i = 0; i < p->rows_max; i++)
		if (p->rows[i].key != 0)
			return true;
	return false;
}

static void reservation_drop(struct reservations *p)
{
	p->type = RESERVATION_NONE;
	p->holder = NO_HOLDER;
}

/* SPC-4 section 5.12.11.2.3. */
static void unregister(struct scsi_unit *u, uint32_t row, uint32_t nexus)
{
	struct reservations *p = &u->reservations;
	enum reservation_type type = p->type;
	bool was_holder = p->type != RESERVATION_NONE && p->holder == row;

	p->rows[row].key = 0;
	if (reservation_is_for_all(type) && !is_any_registered(p)) {
		reservation_drop(p);
	} else if (was_holder) {
		reservation_drop(p);
		if (reservation_has_registrants(type))
			tell_registered(u, SCSI_R_UA_RESERVATIONS_RELEASED, nexus);
	}
}

static enum scsi_reason register_new(struct scsi_unit *u, const struct scsi_task *t, uint64_t key)
{
	struct reservations *p = &u->reservations;

	if (key == 0)
		return SCSI_OK;
	for (uint32_t i = 0; i < p->rows_max; i++) {
		if (p->rows[i].key != 0)
			continue;
		p->rows[i].key = key;
		p->rows[i].who = u->target->nexuses[t->nexus].id;
		return SCSI_OK;
	}
	return SCSI_R_REGISTRATIONS_FULL;
}

static enum scsi_reason act_register(struct scsi_unit *u, const struct scsi_task *t,
				     const struct reserve_out *o)
{
	struct reservations *p = &u->reservations;
	enum scsi_reason reason = SCSI_OK;
	uint64_t key = o->row == NO_HOLDER ? 0 : p->rows[o->row].key;

	if (t->command->action == REGISTER && o->key != key)
		return SCSI_R_CONFLICT;
	if (o->row == NO_HOLDER)
		reason = register_new(u, t, o->service_key);
	else if (o->service_key == 0)
		unregister(u, o->row, t->nexus);
	else
		p->rows[o->row].key = o->service_key;
	if (reason == SCSI_OK)
		p->generation++;
	return reason;
}

/* ---- Reservations --------------------------------------------------------------------------- */

static enum scsi_reason act_reserve(struct scsi_unit *u, const struct reserve_out *o)
{
	struct reservations *p = &u->reservations;

	if (p->type != RESERVATION_NONE) {
		bool is_same = reservation_is_holder(p, o->row) && p->type == o->type;

		return is_same ? SCSI_OK : SCSI_R_CONFLICT;
	}
	p->type = o->type;
	p->holder = reservation_is_for_all(p->type) ? NO_HOLDER : o->row;
	return SCSI_OK;
}

static enum scsi_reason act_release(struct scsi_unit *u, const struct scsi_task *t,
				    const struct reserve_out *o)
{
	struct reservations *p = &u->reservations;
	enum reservation_type type = p->type;

	if (!reservation_is_holder(p, o->row))
		return SCSI_OK;
	if (type != o->type)
		return SCSI_R_RELEASE;
	reservation_drop(p);
	if (reservation_has_registrants(type))
		tell_registered(u, SCSI_R_UA_RESERVATIONS_RELEASED, t->nexus);
	return SCSI_OK;
}

static enum scsi_reason act_clear(struct scsi_unit *u, const struct scsi_task *t)
{
	struct reservations *p = &u->reservations;

	tell_registered(u, SCSI_R_UA_RESERVATIONS_PREEMPTED, t->nexus);
	for (uint32_t i = 0; i < p->rows_max; i++)
		p->rows[i].key = 0;
	reservation_drop(p);
	p->generation++;
	return SCSI_OK;
}

/* ---- PREEMPT -------------------------------------------------------------------------------- */

static void abort_row(struct scsi_unit *u, uint32_t row, const struct scsi_task *t)
{
	for (uint32_t i = 0; i < u->target->nexuses_max; i++)
		if (registration_of(u, i) == row)
			unit_abort(u, i, t);
}

/* Removes the registrations with the key, or all; never that of `keep`. How many. */
static uint32_t remove_rows(struct scsi_unit *u, const struct scsi_task *t, uint64_t key,
			    uint32_t keep)
{
	struct reservations *p = &u->reservations;
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->rows_max; i++) {
		if (i == keep || p->rows[i].key == 0 || (key != 0 && p->rows[i].key != key))
			continue;
		if (t->command->action == PREEMPT_AND_ABORT)
			abort_row(u, i, t);
		tell_row(u, i, SCSI_R_UA_REGISTRATIONS_PREEMPTED, t->nexus);
		p->rows[i].key = 0;
		count++;
	}
	return count;
}

/* SPC-4 section 5.12.11.2.4: the reservation goes to the nexus that asks. */
static void take_over(struct scsi_unit *u, const struct scsi_task *t, const struct reserve_out *o)
{
	struct reservations *p = &u->reservations;
	enum reservation_type type = p->type;

	(void)remove_rows(u, t, o->service_key, o->row);
	p->type = o->type;
	p->holder = reservation_is_for_all(p->type) ? NO_HOLDER : o->row;
	if (type != p->type)
		tell_registered(u, SCSI_R_UA_RESERVATIONS_RELEASED, t->nexus);
}

static enum scsi_reason act_preempt(struct scsi_unit *u, struct scsi_task *t,
				    const struct reserve_out *o)
{
	struct reservations *p = &u->reservations;
	bool is_for_all = reservation_is_for_all(p->type);
	bool is_holder_key = p->holder != NO_HOLDER && p->rows[p->holder].key == o->service_key;

	if (o->service_key == 0 && !is_for_all)
		return parameter_refuse(t, 8, SCSI_NO_BIT);
	if (is_for_all ? o->service_key == 0 : is_holder_key) {
		take_over(u, t, o);
	} else {
		if (remove_rows(u, t, o->service_key, NO_HOLDER) == 0)
			return SCSI_R_CONFLICT;
		if (!is_any_registered(p))
			reservation_drop(p);
	}
	p->generation++;
	return SCSI_OK;
}

/* ---- PERSISTENT RESERVE OUT ----------------------------------------------------------------- */

static bool is_type(uint8_t type)
{
	return type == WRITE_EXCLUSIVE || type == EXCLUSIVE_ACCESS ||
	       (type >= WRITE_EXCLUSIVE_REGISTRANTS && type < RESERVATION_TYPES);
}

static bool is_registering(uint8_t action)
{
	return action == REGISTER || action == REGISTER_AND_IGNORE;
}

static enum scsi_reason out_decode(const struct scsi_unit *u, struct scsi_task *t,
				   struct reserve_out *o)
{
	uint8_t bytes[PARAMETER_BYTES], flags;
	struct rd r = rd_of(bytes, sizeof(bytes));

	if (t->want != PARAMETER_BYTES || !out_read(t, 0, bytes, sizeof(bytes)))
		return SCSI_R_PARAMETER_LENGTH;
	o->key = rd_u64(&r);
	o->service_key = rd_u64(&r);
	(void)rd_u32(&r);
	flags = rd_u8(&r);
	o->scope = t->cdb[2] >> 4;
	o->type = t->cdb[2] & 0x0f;
	o->row = registration_of(u, t->nexus);
	if (flags & SPEC_I_PT)
		return parameter_refuse(t, FLAGS_AT, 3);
	/* SPC-4 section 6.16.3: other service actions ignore these. */
	if (!is_registering(t->command->action))
		return SCSI_OK;
	if (flags & ALL_TG_PT)
		return parameter_refuse(t, FLAGS_AT, 2);
	if (flags & APTPL)
		return parameter_refuse(t, FLAGS_AT, 0);
	return SCSI_OK;
}

static bool has_type(uint8_t action)
{
	return action == RESERVE || action == RELEASE || action == PREEMPT ||
	       action == PREEMPT_AND_ABORT;
}

enum scsi_reason run_reserve_out(struct scsi_unit *u, struct scsi_task *t)
{
	struct reserve_out o = { 0 };
	enum scsi_reason reason = out_decode(u, t, &o);
	uint8_t action = t->command->action;

	if (reason != SCSI_OK)
		return reason;
	if (has_type(action) && o.scope != 0)
		return cdb_refuse(t, 2, 7);
	if (has_type(action) && !is_type(o.type))
		return cdb_refuse(t, 2, 3);
	if (is_registering(action))
		return act_register(u, t, &o);
	if (o.row == NO_HOLDER || u->reservations.rows[o.row].key != o.key)
		return SCSI_R_CONFLICT;
	switch (action) {
	case RESERVE:
		return act_reserve(u, &o);
	case RELEASE:
		return act_release(u, t, &o);
	case CLEAR:
		return act_clear(u, t);
	default:
		return act_preempt(u, t, &o);
	}
}
