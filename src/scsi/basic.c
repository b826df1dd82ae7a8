/* SPDX-License-Identifier: BSD-2-Clause */
/* Small commands: SPC-4 sections 6.33, 6.39 and 6.47, SBC-3 sections 5.6 to 5.25. */
#include "scsi/unit.h"

enum {
	DESC = 0x01,
	PMI = 0x01,
	FLAT_SPACE = 0x4000,
	LUNS_BYTES_MIN = 16,
	CAPACITY_BYTES = 32,
	LBPME = 0x8000, /* of 16 bits */
	LBPRZ = 0x4000,
	POWER_CONDITION = 0xf0,
	LOEJ = 0x02,
	START = 0x01,
};

enum scsi_reason run_test_unit_ready(struct scsi_unit *u, struct scsi_task *t)
{
	return finish_good(u, t);
}

enum scsi_reason run_request_sense(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = u->store ? attention_take(u, t->nexus) : SCSI_R_LUN;
	struct wr w = reply_begin(u->target);
	uint8_t sense[SCSI_SENSE_MAX];
	uint8_t length;

	if (reason == SCSI_OK && u->is_stopped)
		reason = SCSI_R_STOPPED;
	length = sense_encode(sense, reason, t->cdb[1] & DESC, NULL);
	wr_bytes(&w, sense, length);
	return reply_end(u->target, t, &w);
}

enum scsi_reason run_report_luns(struct scsi_unit *u, struct scsi_task *t)
{
	struct scsi_target *target = u->target;
	struct wr w = reply_begin(target);
	uint8_t select = t->cdb[2];
	uint32_t count = select == 1 ? 0 : target->unit_count;

	/* All that are not well known; the well known, of which there are none; all. */
	if (select > 2)
		return cdb_refuse(t, 2, SCSI_NO_BIT);
	if (t->want < LUNS_BYTES_MIN)
		return cdb_refuse(t, 6, SCSI_NO_BIT);
	wr_u32(&w, count * 8);
	wr_u32(&w, 0);
	for (uint32_t i = 0; i < count; i++) {
		uint16_t lun = target->units[i].lun;

		wr_u16(&w, lun > UINT8_MAX ? FLAT_SPACE | lun : lun);
		wr_u16(&w, 0);
		wr_u32(&w, 0);
	}
	/* SPC-4 section 6.33: this command tells what the unit attentions were about. */
	for (uint32_t i = 0; i < target->unit_count; i++)
		target->units[i].attentions[t->nexus] &= (uint16_t)~UA_BIT(SCSI_R_UA_LUNS_CHANGED);
	return reply_end(target, t, &w);
}

enum scsi_reason run_start_stop(struct scsi_unit *u, struct scsi_task *t)
{
	uint8_t what = t->cdb[4];

	/* SBC-3 table 13: others may start the unit, and no more, while it is reserved. */
	if (what != START) {
		enum scsi_reason reason = reservation_check_as(u, t, ACCESS_WRITE);

		if (reason != SCSI_OK)
			return reason;
	}
	if (what & POWER_CONDITION)
		return cdb_refuse(t, 4, 7);
	if (what & LOEJ)
		return cdb_refuse(t, 4, 1);
	u->is_stopped = !(what & START);
	t->next = finish_good;
	return u->is_stopped ? device_flush(u, t) : SCSI_OK;
}

enum scsi_reason run_read_capacity_10(struct scsi_unit *u, struct scsi_task *t)
{
	struct wr w = reply_begin(u->target);
	uint64_t last = u->block_count - 1;

	if (!(t->cdb[8] & PMI) && t->lba != 0)
		return cdb_refuse(t, 2, SCSI_NO_BIT);
	wr_u32(&w, last < UINT32_MAX ? (uint32_t)last : UINT32_MAX);
	wr_u32(&w, u->block_bytes);
	return reply_end(u->target, t, &w);
}

enum scsi_reason run_read_capacity_16(struct scsi_unit *u, struct scsi_task *t)
{
	struct wr w = reply_begin(u->target);
	const uint8_t *first = w.at;

	if (!(t->cdb[14] & PMI) && t->lba != 0)
		return cdb_refuse(t, 2, SCSI_NO_BIT);
	wr_u64(&w, u->block_count - 1);
	wr_u32(&w, u->block_bytes);
	wr_u16(&w, 0);
	wr_u16(&w, (u->is_thin ? LBPME : 0) | (u->is_thin && u->is_zeroing ? LBPRZ : 0));
	while (w.at < first + CAPACITY_BYTES)
		wr_u8(&w, 0);
	return reply_end(u->target, t, &w);
}

/* SBC-3 section 5.6: which blocks are mapped is not known, and code 0 says so of all. */
enum scsi_reason run_get_lba_status(struct scsi_unit *u, struct scsi_task *t)
{
	struct wr w = reply_begin(u->target);
	uint64_t rest;

	if (t->lba >= u->block_count) {
		t->has_info = true;
		t->info = t->lba;
		return SCSI_R_LBA;
	}
	rest = u->block_count - t->lba;
	wr_u32(&w, 20); /* the bytes that follow */
	wr_u32(&w, 0);
	wr_u64(&w, t->lba);
	wr_u32(&w, rest < UINT32_MAX ? (uint32_t)rest : UINT32_MAX);
	wr_u32(&w, 0);
	return reply_end(u->target, t, &w);
}
