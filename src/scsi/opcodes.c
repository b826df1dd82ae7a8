/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of commands, sorted by opcode: it dispatches, and REPORT SUPPORTED OPERATION CODES
 * (SPC-4 section 6.34) tells it to initiators.
 */
#include "scsi/unit.h"

enum {
	OPCODE_MASK_ACTION = 0x1f,
	RCTD = 0x80, /* return command timeouts descriptor */
	OPTIONS_MASK = 0x07,
	REPORT_ALL = 0,
	REPORT_OPCODE = 1,
	REPORT_ACTION = 2,
	REPORT_EITHER = 3,
	SERVACTV = 0x01,
	CTDP_ALL = 0x02,
	CTDP_ONE = 0x80,
	NOT_SUPPORTED = 0x01,
	AS_STANDARD = 0x03,
	TIMEOUTS_BYTES = 0x0a, /* after the length itself */
	QUICK_S = 10,
	BLOCKS_S = 30,
	LONG_S = 120,
};

#define MEDIUM_READ (NEEDS_MEDIUM | HAS_PROTECT)
#define MEDIUM_WRITE (NEEDS_MEDIUM | CHANGES_MEDIUM | HAS_PROTECT)
#define MEDIUM_EXCLUSIVE (MEDIUM_WRITE | HAS_FUA | IS_EXCLUSIVE | USES_SCRATCH)
#define U32 0xff, 0xff, 0xff, 0xff
#define U64 U32, U32

/* clang-format off */
#define ROW(opcode, bytes, shape, data, access, flags, timeout_s, run, ...) \
	{ opcode, 0, false, bytes, shape, data, access, flags, timeout_s, { __VA_ARGS__ }, run }
#define ACTION(opcode, action, bytes, shape, data, access, flags, run, ...) \
	{ opcode, action, true, bytes, shape, data, access, flags, QUICK_S, { __VA_ARGS__ }, run }

const struct scsi_command scsi_commands[] = {
	ROW(0x00, 6, CDB_NEITHER, DATA_NONE, ACCESS_FREE, NEEDS_MEDIUM, QUICK_S,
	    run_test_unit_ready, 0, 0, 0, 0, 0, 0x04),
	ROW(0x03, 6, CDB_ALLOCATE_6, DATA_REPLY, ACCESS_FREE, KEEPS_ATTENTION | NO_UNIT, QUICK_S,
	    run_request_sense, 0, 0x01, 0, 0, 0xff, 0x04),
	ROW(0x08, 6, CDB_6, DATA_BLOCKS_IN, ACCESS_READ, NEEDS_MEDIUM, BLOCKS_S,
	    run_read, 0, 0x1f, 0xff, 0xff, 0xff, 0x04),
	ROW(0x0a, 6, CDB_6, DATA_BLOCKS_OUT, ACCESS_WRITE, NEEDS_MEDIUM | CHANGES_MEDIUM, BLOCKS_S,
	    run_write, 0, 0x1f, 0xff, 0xff, 0xff, 0x04),
	ROW(0x12, 6, CDB_ALLOCATE_3, DATA_REPLY, ACCESS_FREE, KEEPS_ATTENTION | NO_UNIT, QUICK_S,
	    run_inquiry, 0, 0x01, 0xff, 0xff, 0xff, 0x04),
	ROW(0x15, 6, CDB_ALLOCATE_6, DATA_PARAMETERS, ACCESS_WRITE, 0, QUICK_S,
	    run_mode_select, 0, 0x11, 0, 0, 0xff, 0x04),
	ROW(0x1a, 6, CDB_ALLOCATE_6, DATA_REPLY, ACCESS_WRITE, 0, QUICK_S,
	    run_mode_sense, 0, 0x08, 0xff, 0xff, 0xff, 0x04),
	ROW(0x1b, 6, CDB_NEITHER, DATA_NONE, ACCESS_FREE, 0, LONG_S,
	    run_start_stop, 0, 0x01, 0, 0x0f, 0xf3, 0x04),
	ROW(0x25, 10, CDB_LBA_EIGHT, DATA_REPLY, ACCESS_FREE, NEEDS_MEDIUM, QUICK_S,
	    run_read_capacity_10, 0, 0, U32, 0, 0, 0x01, 0x04),
	ROW(0x28, 10, CDB_10, DATA_BLOCKS_IN, ACCESS_READ, MEDIUM_READ | HAS_FUA, BLOCKS_S,
	    run_read, 0, 0x18, U32, 0, 0xff, 0xff, 0x04),
	ROW(0x2a, 10, CDB_10, DATA_BLOCKS_OUT, ACCESS_WRITE, MEDIUM_WRITE | HAS_FUA, BLOCKS_S,
	    run_write, 0, 0x18, U32, 0, 0xff, 0xff, 0x04),
	ROW(0x2e, 10, CDB_10, DATA_BLOCKS_OUT, ACCESS_WRITE, MEDIUM_WRITE | USES_SCRATCH, BLOCKS_S,
	    run_write_verify, 0, 0x16, U32, 0, 0xff, 0xff, 0x04),
	ROW(0x2f, 10, CDB_10, DATA_BLOCKS_CHECK, ACCESS_READ, MEDIUM_READ | USES_SCRATCH, LONG_S,
	    run_verify, 0, 0x16, U32, 0, 0xff, 0xff, 0x04),
	ROW(0x34, 10, CDB_10, DATA_NONE, ACCESS_READ, NEEDS_MEDIUM, BLOCKS_S,
	    run_prefetch, 0, 0x02, U32, 0, 0xff, 0xff, 0x04),
	ROW(0x35, 10, CDB_10, DATA_NONE, ACCESS_WRITE, NEEDS_MEDIUM, LONG_S,
	    run_synchronize, 0, 0x02, U32, 0, 0xff, 0xff, 0x04),
	ROW(0x41, 10, CDB_10, DATA_BLOCK_OUT, ACCESS_WRITE, MEDIUM_WRITE, LONG_S,
	    run_write_same, 0, 0x08, U32, 0, 0xff, 0xff, 0x04),
	ROW(0x42, 10, CDB_ALLOCATE_7, DATA_PARAMETERS, ACCESS_WRITE,
	    NEEDS_MEDIUM | CHANGES_MEDIUM | THIN_ONLY, LONG_S,
	    run_unmap, 0, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04),
	ROW(0x55, 10, CDB_ALLOCATE_7, DATA_PARAMETERS, ACCESS_WRITE, 0, QUICK_S,
	    run_mode_select, 0, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04),
	ROW(0x5a, 10, CDB_ALLOCATE_7, DATA_REPLY, ACCESS_WRITE, 0, QUICK_S,
	    run_mode_sense, 0, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0x04),
	ACTION(0x5e, 0x00, 10, CDB_ALLOCATE_7, DATA_REPLY, ACCESS_FREE, 0,
	       run_reserve_in, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04),
	ACTION(0x5e, 0x01, 10, CDB_ALLOCATE_7, DATA_REPLY, ACCESS_FREE, 0,
	       run_reserve_in, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04),
	ACTION(0x5e, 0x02, 10, CDB_ALLOCATE_7, DATA_REPLY, ACCESS_FREE, 0,
	       run_reserve_in, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04),
	ACTION(0x5e, 0x03, 10, CDB_ALLOCATE_7, DATA_REPLY, ACCESS_FREE, 0,
	       run_reserve_in, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x04),
	ACTION(0x5f, 0x00, 10, CDB_ALLOCATE_5, DATA_PARAMETERS, ACCESS_FREE, 0,
	       run_reserve_out, 0, 0, 0, 0, 0, U32, 0x04),
	ACTION(0x5f, 0x01, 10, CDB_ALLOCATE_5, DATA_PARAMETERS, ACCESS_FREE, 0,
	       run_reserve_out, 0, 0, 0xff, 0, 0, U32, 0x04),
	ACTION(0x5f, 0x02, 10, CDB_ALLOCATE_5, DATA_PARAMETERS, ACCESS_FREE, 0,
	       run_reserve_out, 0, 0, 0xff, 0, 0, U32, 0x04),
	ACTION(0x5f, 0x03, 10, CDB_ALLOCATE_5, DATA_PARAMETERS, ACCESS_FREE, 0,
	       run_reserve_out, 0, 0, 0, 0, 0, U32, 0x04),
	ACTION(0x5f, 0x04, 10, CDB_ALLOCATE_5, DATA_PARAMETERS, ACCESS_FREE, 0,
	       run_reserve_out, 0, 0, 0xff, 0, 0, U32, 0x04),
	ACTION(0x5f, 0x05, 10, CDB_ALLOCATE_5, DATA_PARAMETERS, ACCESS_FREE, 0,
	       run_reserve_out, 0, 0, 0xff, 0, 0, U32, 0x04),
	ACTION(0x5f, 0x06, 10, CDB_ALLOCATE_5, DATA_PARAMETERS, ACCESS_FREE, 0,
	       run_reserve_out, 0, 0, 0, 0, 0, U32, 0x04),
	ROW(0x88, 16, CDB_16, DATA_BLOCKS_IN, ACCESS_READ, MEDIUM_READ | HAS_FUA, BLOCKS_S,
	    run_read, 0, 0x18, U64, U32, 0, 0x04),
	ROW(0x89, 16, CDB_COMPARE, DATA_BLOCKS_TWICE, ACCESS_WRITE, MEDIUM_EXCLUSIVE, BLOCKS_S,
	    run_compare_and_write, 0, 0x18, U64, 0, 0, 0, 0xff, 0, 0x04),
	ROW(0x8a, 16, CDB_16, DATA_BLOCKS_OUT, ACCESS_WRITE, MEDIUM_WRITE | HAS_FUA, BLOCKS_S,
	    run_write, 0, 0x18, U64, U32, 0, 0x04),
	ROW(0x8b, 16, CDB_16, DATA_BLOCKS_OUT, ACCESS_WRITE, MEDIUM_EXCLUSIVE, BLOCKS_S,
	    run_or_write, 0, 0x18, U64, U32, 0, 0x04),
	ROW(0x8e, 16, CDB_16, DATA_BLOCKS_OUT, ACCESS_WRITE, MEDIUM_WRITE | USES_SCRATCH, BLOCKS_S,
	    run_write_verify, 0, 0x16, U64, U32, 0, 0x04),
	ROW(0x8f, 16, CDB_16, DATA_BLOCKS_CHECK, ACCESS_READ, MEDIUM_READ | USES_SCRATCH, LONG_S,
	    run_verify, 0, 0x16, U64, U32, 0, 0x04),
	ROW(0x90, 16, CDB_16, DATA_NONE, ACCESS_READ, NEEDS_MEDIUM, BLOCKS_S,
	    run_prefetch, 0, 0x02, U64, U32, 0, 0x04),
	ROW(0x91, 16, CDB_16, DATA_NONE, ACCESS_WRITE, NEEDS_MEDIUM, LONG_S,
	    run_synchronize, 0, 0x02, U64, U32, 0, 0x04),
	ROW(0x93, 16, CDB_16, DATA_BLOCK_OUT, ACCESS_WRITE, MEDIUM_WRITE, LONG_S,
	    run_write_same, 0, 0x09, U64, U32, 0, 0x04),
	ACTION(0x9e, 0x10, 16, CDB_LBA_16, DATA_REPLY, ACCESS_FREE, NEEDS_MEDIUM,
	       run_read_capacity_16, 0, 0, U64, U32, 0x01, 0x04),
	ACTION(0x9e, 0x12, 16, CDB_LBA_16, DATA_REPLY, ACCESS_READ, NEEDS_MEDIUM,
	       run_get_lba_status, 0, 0, U64, U32, 0, 0x04),
	ROW(0xa0, 12, CDB_ALLOCATE_6L, DATA_REPLY, ACCESS_FREE, KEEPS_ATTENTION | NO_UNIT, QUICK_S,
	    run_report_luns, 0, 0, 0xff, 0, 0, 0, U32, 0, 0x04),
	ACTION(0xa3, 0x0c, 12, CDB_ALLOCATE_6L, DATA_REPLY, ACCESS_READ, 0,
	       run_report_opcodes, 0, 0, 0x87, 0xff, 0xff, 0xff, U32, 0, 0x04),
	ROW(0xa8, 12, CDB_12, DATA_BLOCKS_IN, ACCESS_READ, MEDIUM_READ | HAS_FUA, BLOCKS_S,
	    run_read, 0, 0x18, U32, U32, 0, 0x04),
	ROW(0xaa, 12, CDB_12, DATA_BLOCKS_OUT, ACCESS_WRITE, MEDIUM_WRITE | HAS_FUA, BLOCKS_S,
	    run_write, 0, 0x18, U32, U32, 0, 0x04),
	ROW(0xae, 12, CDB_12, DATA_BLOCKS_OUT, ACCESS_WRITE, MEDIUM_WRITE | USES_SCRATCH, BLOCKS_S,
	    run_write_verify, 0, 0x16, U32, U32, 0, 0x04),
	ROW(0xaf, 12, CDB_12, DATA_BLOCKS_CHECK, ACCESS_READ, MEDIUM_READ | USES_SCRATCH, LONG_S,
	    run_verify, 0, 0x16, U32, U32, 0, 0x04),
};
/* clang-format on */

const uint32_t scsi_command_count = sizeof(scsi_commands) / sizeof(scsi_commands[0]);

static bool is_there(const struct scsi_unit *u, const struct scsi_command *c)
{
	return u->is_thin || !(c->flags & THIN_ONLY);
}

enum scsi_reason command_find(const struct scsi_unit *u, const uint8_t *cdb,
			      const struct scsi_command **out)
{
	enum scsi_reason reason = SCSI_R_OPCODE;
	uint32_t first = 0, end = scsi_command_count;

	/* The table is sorted: find the first row of the opcode. */
	while (first < end) {
		uint32_t middle = (first + end) / 2;

		if (scsi_commands[middle].opcode < cdb[0])
			first = middle + 1;
		else
			end = middle;
	}
	for (uint32_t i = first; i < scsi_command_count; i++) {
		const struct scsi_command *c = &scsi_commands[i];

		if (c->opcode != cdb[0])
			break;
		if (!is_there(u, c))
			continue;
		if (!c->has_action || c->action == (cdb[1] & OPCODE_MASK_ACTION)) {
			*out = c;
			return SCSI_OK;
		}
		reason = SCSI_R_CDB_FIELD;
	}
	return reason;
}

/* ---- REPORT SUPPORTED OPERATION CODES ------------------------------------------------------- */

static void timeouts_encode(struct wr *w, const struct scsi_command *c)
{
	wr_u16(w, TIMEOUTS_BYTES);
	wr_u16(w, 0);
	wr_u32(w, 0); /* the nominal time is not given */
	wr_u32(w, c->timeout_s);
}

static void all_encode(const struct scsi_unit *u, struct wr *w, bool has_timeouts)
{
	struct wr at = *w;
	uint8_t *first;

	wr_u32(w, 0);
	first = w->at;
	for (uint32_t i = 0; i < scsi_command_count; i++) {
		const struct scsi_command *c = &scsi_commands[i];

		if (!is_there(u, c))
			continue;
		wr_u8(w, c->opcode);
		wr_u8(w, 0);
		wr_u16(w, c->action);
		wr_u8(w, 0);
		wr_u8(w, (c->has_action ? SERVACTV : 0) | (has_timeouts ? CTDP_ALL : 0));
		wr_u16(w, c->bytes);
		if (has_timeouts)
			timeouts_encode(w, c);
	}
	wr_u32(&at, (uint32_t)(w->at - first));
}

static void one_encode(struct wr *w, const struct scsi_command *c, bool has_timeouts)
{
	wr_u8(w, 0);
	if (!c) {
		wr_u8(w, NOT_SUPPORTED);
		wr_u16(w, 0);
		return;
	}
	wr_u8(w, AS_STANDARD | (has_timeouts ? CTDP_ONE : 0));
	wr_u16(w, c->bytes);
	wr_u8(w, c->opcode);
	wr_u8(w, c->usage[1] | c->action);
	wr_bytes(w, c->usage + 2, c->bytes - 2);
	if (has_timeouts)
		timeouts_encode(w, c);
}

enum scsi_reason run_report_opcodes(struct scsi_unit *u, struct scsi_task *t)
{
	struct wr w = reply_begin(u->target);
	struct rd r = rd_of(t->cdb + 2, 4);
	uint8_t options = rd_u8(&r);
	uint8_t asked[2] = { rd_u8(&r) };
	uint16_t action = rd_u16(&r);
	bool has_timeouts = options & RCTD, has_actions = false;
	const struct scsi_command *c = NULL;

	options &= OPTIONS_MASK;
	if (options > REPORT_EITHER)
		return cdb_refuse(t, 2, 2);
	if (options == REPORT_ALL) {
		all_encode(u, &w, has_timeouts);
		return reply_end(u->target, t, &w);
	}
	asked[1] = options == REPORT_OPCODE ? 0 : action & OPCODE_MASK_ACTION;
	/* No service action has more than five bits in a CDB of this table. */
	if (command_find(u, asked, &c) == SCSI_R_CDB_FIELD || (c && c->has_action))
		has_actions = true;
	if (options == REPORT_OPCODE && has_actions)
		return cdb_refuse(t, 2, 2);
	if (options == REPORT_ACTION && c && !has_actions)
		return cdb_refuse(t, 2, 2);
	if (has_actions ? action > OPCODE_MASK_ACTION : options == REPORT_EITHER && action != 0)
		c = NULL;
	one_encode(&w, c, has_timeouts);
	return reply_end(u->target, t, &w);
}
