/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an initiator asks of a logical unit (SPC-4, SBC-3): CDBs, and what the answers say. No
 * transport, no state. Answers come from a device that may lie: what is too short or contradicts
 * itself is refused or left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SCSI_ASK_CDB_BYTES = 16,
	SCSI_ASK_ANSWER_BYTES = 512, /* enough for each answer that is read here */
	SCSI_PAGES_MAX = 255
};

/* ---- CDBs ----------------------------------------------------------------------------------- */

/* Each fills all of the CDB; answers take SCSI_ASK_ANSWER_BYTES. */
void scsi_ask_ready(uint8_t cdb[SCSI_ASK_CDB_BYTES]);
void scsi_ask_inquiry(uint8_t cdb[SCSI_ASK_CDB_BYTES]);
void scsi_ask_page(uint8_t cdb[SCSI_ASK_CDB_BYTES], uint8_t page);
void scsi_ask_capacity_10(uint8_t cdb[SCSI_ASK_CDB_BYTES]);
void scsi_ask_capacity_16(uint8_t cdb[SCSI_ASK_CDB_BYTES]);
/* Caching mode page, by MODE SENSE (6). */
void scsi_ask_caching(uint8_t cdb[SCSI_ASK_CDB_BYTES]);
/* Whether the unit has this command: REPORT SUPPORTED OPERATION CODES. */
void scsi_ask_opcode(uint8_t cdb[SCSI_ASK_CDB_BYTES], uint8_t opcode);

/* Blocks: the shorter form where it can say it. */
struct scsi_extent {
	uint64_t lba;
	uint32_t blocks;
};

void scsi_ask_read(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e, bool is_fua);
void scsi_ask_write(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e, bool is_fua);
/* With blocks of 0: all of the unit. */
void scsi_ask_flush(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e);
/* One block of data, written to all. */
void scsi_ask_write_same(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e);

enum { SCSI_UNMAP_BYTES = 24 }; /* of the parameters, with one extent */
void scsi_ask_unmap(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e,
		    uint8_t parameters[SCSI_UNMAP_BYTES]);

/* ---- Answers -------------------------------------------------------------------------------- */

enum scsi_presence { SCSI_THERE, SCSI_NOT_THERE, SCSI_NO_ANSWER };

struct scsi_identity {
	uint8_t device_type;
	char vendor[9], product[17], revision[5];
};

/* SCSI_NOT_THERE: the peripheral qualifier says that there is no such unit. */
enum scsi_presence scsi_answer_inquiry(struct scsi_identity *i, const uint8_t *bytes,
				       size_t length);

/* Whether page 00 lists a page. */
bool scsi_answer_has_page(const uint8_t *bytes, size_t length, uint8_t page);

/* Page 80; an empty text if it has none. */
void scsi_answer_serial(char serial[65], const uint8_t *bytes, size_t length);

/* Page 83: the best designator of the unit, as naa.HEX, eui.HEX, t10.TEXT or name.TEXT. */
void scsi_answer_identity(char identity[65], const uint8_t *bytes, size_t length);

/* Page B0; 0: not said. In blocks. */
struct scsi_block_limits {
	uint32_t transfer_max, transfer_preferred;
	uint32_t unmap_max;
	uint64_t write_same_max;
};

void scsi_answer_block_limits(struct scsi_block_limits *l, const uint8_t *bytes, size_t length);

/* Page B2: whether UNMAP does something. */
bool scsi_answer_can_unmap(const uint8_t *bytes, size_t length);

struct scsi_capacity {
	uint64_t blocks;
	uint32_t block_bytes, physical_block_bytes;
	bool is_thin;
};

/* False: none that can be. Of READ CAPACITY (10), 2^32 blocks mean: ask the longer one. */
bool scsi_answer_capacity_10(struct scsi_capacity *c, const uint8_t *bytes, size_t length);
bool scsi_answer_capacity_16(struct scsi_capacity *c, const uint8_t *bytes, size_t length);

struct scsi_caching {
	bool is_readonly, can_fua;
	bool has_page, has_write_cache;
};

/* False: it is none. */
bool scsi_answer_caching(struct scsi_caching *c, const uint8_t *bytes, size_t length);

/* Whether REPORT SUPPORTED OPERATION CODES says that the command is there. */
bool scsi_answer_has_opcode(const uint8_t *bytes, size_t length);

/* Sense data, of fixed or descriptor format. False: it is neither. */
struct scsi_sense {
	uint8_t key, code, qualifier;
};

bool scsi_answer_sense(struct scsi_sense *s, const uint8_t *bytes, size_t length);

/* For people; NULL: none is known here. */
const char *scsi_status_text(uint8_t status);
const char *scsi_sense_key_text(uint8_t key);
const char *scsi_sense_text(uint8_t code, uint8_t qualifier);

/* The eight bytes of a LUN below 16384 (SAM-5 section 4.7.7), the first the highest. */
uint64_t scsi_lun_bytes(uint16_t lun);
