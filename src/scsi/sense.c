/* SPDX-License-Identifier: BSD-2-Clause */
/* Sense data: SPC-4 section 4.5. */
#include "scsi/unit.h"

enum sense_key {
	NO_SENSE = 0x0,
	NOT_READY = 0x2,
	MEDIUM_ERROR = 0x3,
	HARDWARE_ERROR = 0x4,
	ILLEGAL_REQUEST = 0x5,
	UNIT_ATTENTION = 0x6,
	DATA_PROTECT = 0x7,
	ABORTED_COMMAND = 0xb,
	MISCOMPARE = 0xe,
};

enum {
	FIXED_CURRENT = 0x70,
	FIXED_BYTES = 18,
	FIXED_VALID = 0x80,
	DESCRIPTOR_CURRENT = 0x72,
	DESCRIPTOR_HEADER = 8,
	INFORMATION_TYPE = 0x00,
	INFORMATION_LENGTH = 0x0a,
	INFORMATION_VALID = 0x80,
	SPECIFIC_TYPE = 0x02,
	SPECIFIC_LENGTH = 0x06,
	SPECIFIC_VALID = 0x80,
	FIELD_IN_CDB = 0x40,
	HAS_BIT = 0x08,
};

struct sense_row {
	uint8_t status, key;
	uint16_t code; /* additional sense code and qualifier */
	const char *text;
};

#define CHECK_ROW(key, code, text)                                                                 \
	{                                                                                          \
		SCSI_CHECK_CONDITION, key, code, text                                              \
	}

static const struct sense_row rows[SCSI_REASON_COUNT] = {
	[SCSI_OK] = { SCSI_GOOD, NO_SENSE, 0x0000, "nothing was refused" },
	[SCSI_PENDING] = { SCSI_GOOD, NO_SENSE, 0x0000, "in progress" },
	[SCSI_R_OPCODE] = CHECK_ROW(ILLEGAL_REQUEST, 0x2000, "invalid command operation code"),
	[SCSI_R_CDB_FIELD] = CHECK_ROW(ILLEGAL_REQUEST, 0x2400, "invalid field in CDB"),
	[SCSI_R_PARAMETER_FIELD] = CHECK_ROW(ILLEGAL_REQUEST, 0x2600,
					     "invalid field in parameter list"),
	[SCSI_R_PARAMETER_LENGTH] = CHECK_ROW(ILLEGAL_REQUEST, 0x1a00,
					      "parameter list length error"),
	[SCSI_R_LBA] = CHECK_ROW(ILLEGAL_REQUEST, 0x2100, "logical block address out of range"),
	[SCSI_R_LUN] = CHECK_ROW(ILLEGAL_REQUEST, 0x2500, "logical unit not supported"),
	[SCSI_R_DATA_LENGTH] = CHECK_ROW(ILLEGAL_REQUEST, 0x0e03,
					 "invalid field in command information unit"),
	[SCSI_R_SAVING] = CHECK_ROW(ILLEGAL_REQUEST, 0x3900, "saving parameters not supported"),
	[SCSI_R_RELEASE] = CHECK_ROW(ILLEGAL_REQUEST, 0x2604,
				     "invalid release of persistent reservation"),
	[SCSI_R_REGISTRATIONS_FULL] = CHECK_ROW(ILLEGAL_REQUEST, 0x5504,
						"insufficient registration resources"),
	[SCSI_R_WRITE_PROTECTED] = CHECK_ROW(DATA_PROTECT, 0x2700, "write protected"),
	[SCSI_R_SOFTWARE_WRITE_PROTECTED] = CHECK_ROW(DATA_PROTECT, 0x2702,
						      "logical unit software write protected"),
	[SCSI_R_SPACE] = CHECK_ROW(DATA_PROTECT, 0x2707, "space allocation failed write protect"),
	[SCSI_R_STOPPED] = CHECK_ROW(NOT_READY, 0x0402,
				     "logical unit not ready, initializing command required"),
	[SCSI_R_MISCOMPARE] = CHECK_ROW(MISCOMPARE, 0x1d00, "miscompare during verify operation"),
	[SCSI_R_READ] = CHECK_ROW(MEDIUM_ERROR, 0x1100, "unrecovered read error"),
	[SCSI_R_WRITE] = CHECK_ROW(MEDIUM_ERROR, 0x0c00, "write error"),
	[SCSI_R_INTERNAL] = CHECK_ROW(HARDWARE_ERROR, 0x4400, "internal target failure"),
	[SCSI_R_CONFLICT] = { SCSI_RESERVATION_CONFLICT, NO_SENSE, 0x0000, "reservation conflict" },
	[SCSI_R_ABORTED] = { SCSI_TASK_ABORTED, NO_SENSE, 0x0000, "task aborted" },
	[SCSI_R_UA_POWER_ON] = CHECK_ROW(UNIT_ATTENTION, 0x2900,
					 "power on, reset, or bus device reset occurred"),
	[SCSI_R_UA_RESET] = CHECK_ROW(UNIT_ATTENTION, 0x2903, "bus device reset function occurred"),
	[SCSI_R_UA_NEXUS_LOST] = CHECK_ROW(UNIT_ATTENTION, 0x2907, "I_T nexus loss occurred"),
	[SCSI_R_UA_COMMANDS_CLEARED] = CHECK_ROW(UNIT_ATTENTION, 0x2f00,
						 "commands cleared by another initiator"),
	[SCSI_R_UA_RESERVATIONS_PREEMPTED] = CHECK_ROW(UNIT_ATTENTION, 0x2a03,
						       "reservations preempted"),
	[SCSI_R_UA_RESERVATIONS_RELEASED] = CHECK_ROW(UNIT_ATTENTION, 0x2a04,
						      "reservations released"),
	[SCSI_R_UA_REGISTRATIONS_PREEMPTED] = CHECK_ROW(UNIT_ATTENTION, 0x2a05,
							"registrations preempted"),
	[SCSI_R_UA_MODE_CHANGED] = CHECK_ROW(UNIT_ATTENTION, 0x2a01, "mode parameters changed"),
	[SCSI_R_UA_LUNS_CHANGED] = CHECK_ROW(UNIT_ATTENTION, 0x3f0e,
					     "reported LUNs data has changed"),
};

const char *scsi_reason_text(enum scsi_reason reason)
{
	return (unsigned int)reason < SCSI_REASON_COUNT ? rows[reason].text : "unknown reason";
}

uint8_t reason_status(enum scsi_reason reason)
{
	return rows[reason].status;
}

static bool has_field(enum scsi_reason reason)
{
	return reason == SCSI_R_CDB_FIELD || reason == SCSI_R_PARAMETER_FIELD;
}

/* SPC-4 section 4.5.2.4.2: three bytes. */
static void field_encode(struct wr *w, enum scsi_reason reason, const struct scsi_task *t)
{
	uint8_t flags = SPECIFIC_VALID;

	if (reason == SCSI_R_CDB_FIELD)
		flags |= FIELD_IN_CDB;
	if (t->field_bit != SCSI_NO_BIT)
		flags |= HAS_BIT | t->field_bit;
	wr_u8(w, flags);
	wr_u16(w, t->field_at);
}

static uint8_t descriptor_encode(uint8_t *sense, enum scsi_reason reason, const struct scsi_task *t)
{
	struct wr w = wr_of(sense, SCSI_SENSE_MAX);
	uint8_t length;

	wr_u8(&w, DESCRIPTOR_CURRENT);
	wr_u8(&w, rows[reason].key);
	wr_u16(&w, rows[reason].code);
	wr_u32(&w, 0); /* the last byte is the length, below */
	if (t && t->has_info) {
		wr_u8(&w, INFORMATION_TYPE);
		wr_u8(&w, INFORMATION_LENGTH);
		wr_u8(&w, INFORMATION_VALID);
		wr_u8(&w, 0);
		wr_u64(&w, t->info);
	}
	if (t && has_field(reason)) {
		wr_u8(&w, SPECIFIC_TYPE);
		wr_u8(&w, SPECIFIC_LENGTH);
		wr_u16(&w, 0);
		field_encode(&w, reason, t);
		wr_u8(&w, 0);
	}
	CHECK(!w.is_short);
	length = (uint8_t)(w.at - sense);
	w = wr_of(sense + DESCRIPTOR_HEADER - 1, 1);
	wr_u8(&w, length - DESCRIPTOR_HEADER);
	return length;
}

static uint8_t fixed_encode(uint8_t *sense, enum scsi_reason reason, const struct scsi_task *t)
{
	bool has_info = t && t->has_info && t->info <= UINT32_MAX;
	struct wr w = wr_of(sense, FIXED_BYTES);

	wr_u8(&w, FIXED_CURRENT | (has_info ? FIXED_VALID : 0));
	wr_u8(&w, 0);
	wr_u8(&w, rows[reason].key);
	wr_u32(&w, has_info ? (uint32_t)t->info : 0);
	wr_u8(&w, FIXED_BYTES - 8);
	wr_u32(&w, 0);
	wr_u16(&w, rows[reason].code);
	wr_u8(&w, 0);
	if (t && has_field(reason)) {
		field_encode(&w, reason, t);
	} else {
		wr_u8(&w, 0);
		wr_u16(&w, 0);
	}
	CHECK(!w.is_short);
	return FIXED_BYTES;
}

uint8_t sense_encode(uint8_t *sense, enum scsi_reason reason, bool is_descriptor,
		     const struct scsi_task *t)
{
	return is_descriptor ? descriptor_encode(sense, reason, t) : fixed_encode(sense, reason, t);
}

enum scsi_reason cdb_refuse(struct scsi_task *t, uint16_t at, uint8_t bit)
{
	t->field_at = at;
	t->field_bit = bit;
	return SCSI_R_CDB_FIELD;
}

enum scsi_reason parameter_refuse(struct scsi_task *t, uint16_t at, uint8_t bit)
{
	t->field_at = at;
	t->field_bit = bit;
	return SCSI_R_PARAMETER_FIELD;
}
