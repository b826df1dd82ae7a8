/* SPDX-License-Identifier: BSD-2-Clause */
/* PERSISTENT RESERVE IN: SPC-4 section 6.15. */
#include "scsi/reservation.h"

enum {
	READ_KEYS = 0x00,
	READ_RESERVATION = 0x01,
	REPORT_CAPABILITIES = 0x02,
	READ_FULL_STATUS = 0x03,
	TYPE_MASK_VALID = 0x80,
	/* WR_EX_AR, EX_AC_RO, WR_EX_RO, EX_AC, WR_EX; EX_AC_AR */
	TYPES = 0xea01,
	R_HOLDER = 0x01,
};

static void keys_encode(const struct reservations *p, struct wr *w)
{
	for (uint32_t i = 0; i < p->rows_max; i++)
		if (p->rows[i].key != 0)
			wr_u64(w, p->rows[i].key);
}

static void reservation_encode(const struct reservations *p, struct wr *w)
{
	if (p->type == RESERVATION_NONE)
		return;
	/* SPC-4 section 6.15.3.2: of the types for all registrants the key is 0. */
	wr_u64(w, reservation_is_for_all(p->type) ? 0 : p->rows[p->holder].key);
	wr_u32(w, 0);
	wr_u8(w, 0);
	wr_u8(w, (uint8_t)p->type); /* of the whole unit */
	wr_u16(w, 0);
}

static void full_encode(const struct scsi_unit *u, struct wr *w)
{
	const struct reservations *p = &u->reservations;

	for (uint32_t i = 0; i < p->rows_max; i++) {
		const struct registration *row = &p->rows[i];
		bool is_holder = reservation_is_holder(p, i);

		if (row->key == 0)
			continue;
		wr_u64(w, row->key);
		wr_u32(w, 0);
		wr_u8(w, is_holder ? R_HOLDER : 0);
		wr_u8(w, is_holder ? (uint8_t)p->type : 0);
		wr_u32(w, 0);
		wr_u16(w, u->target->port);
		wr_u32(w, row->who.length);
		wr_bytes(w, row->who.bytes, row->who.length);
	}
}

static void capabilities_encode(struct wr *w)
{
	wr_u16(w, 8);
	wr_u8(w, 0); /* neither other ports, nor through a loss of power */
	wr_u8(w, TYPE_MASK_VALID);
	wr_u16(w, TYPES);
	wr_u16(w, 0);
}

enum scsi_reason run_reserve_in(struct scsi_unit *u, struct scsi_task *t)
{
	const struct reservations *p = &u->reservations;
	struct wr w = reply_begin(u->target), length;
	uint8_t action = t->command->action;
	const uint8_t *first;

	if (action == REPORT_CAPABILITIES) {
		capabilities_encode(&w);
		return reply_end(u->target, t, &w);
	}
	wr_u32(&w, p->generation);
	length = w;
	wr_u32(&w, 0);
	first = w.at;
	if (action == READ_KEYS)
		keys_encode(p, &w);
	else if (action == READ_RESERVATION)
		reservation_encode(p, &w);
	else
		full_encode(u, &w);
	wr_u32(&length, (uint32_t)(w.at - first));
	return reply_end(u->target, t, &w);
}
