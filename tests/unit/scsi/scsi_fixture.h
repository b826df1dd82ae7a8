/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target with one unit on a memory device, behind filters if asked for, and commands that run to
 * their end. Nexus 0 and 1 are there, and their first unit attention is gone.
 */
#pragma once

#include "base/cursor.h"
#include "scsi/scsi.h"
#include "test.h"

enum { BED_BLOCKS = 1024, BED_DATA = 1024 * 1024, BED_NEXUSES = 4, BED_REGISTRATIONS = 3 };

struct bed {
	uint8_t *medium;
	uint64_t size_bytes;
	struct store *memory, *fault, *delay;
	struct store *store; /* what the unit is on */
	struct scsi_target *target;
	uint32_t nexus[BED_NEXUSES];
	uint64_t now_ns;
	struct scsi_task task;	/* the last command */
	struct span in, out;	/* its data */
	uint8_t data[BED_DATA]; /* what came back */
	uint8_t sent[BED_DATA];
};

struct bed_config {
	uint32_t block_bytes; /* 0: 512 */
	uint32_t can_not;     /* abilities that the device is without */
	bool is_readonly, has_zeroing_discard;
	uint64_t delay_ns;
	const struct fault_store_config *fault;
	uint32_t transfer_bytes_max; /* 0: 1 MiB */
};

struct bed *bed_create(const struct bed_config *c);
void bed_destroy(struct bed *b);

/* The commands: bytes in hex, and the lengths of data that the initiator expects. */
struct scsi_task *bed_in(struct bed *b, uint32_t nexus, const char *cdb, uint64_t expected);
struct scsi_task *bed_out(struct bed *b, uint32_t nexus, const char *cdb, uint64_t length);
/* Waits for this task, and no other is in progress. */
void bed_finish(struct bed *b, struct scsi_task *t);

/* Fills the task, without submitting it. */
void bed_cdb(struct scsi_task *t, const char *hex);

/* Sense data of the task, as 0x5_24_00; 0: status GOOD; a status that has none, as it is. */
uint32_t bed_sense(const struct scsi_task *t);
uint16_t bed_field(const struct scsi_task *t); /* of fixed sense data: the field pointer */
uint64_t bed_number(const uint8_t *at, uint32_t bytes);

#define EXPECT_SENSE(task, sense) EXPECT_EQ(bed_sense(task), sense)

enum {
	S_GOOD = 0,
	S_CONFLICT = 0x18,
	S_ABORTED = 0x40,
	S_STOPPED = 0x20402,
	S_READ = 0x31100,
	S_WRITE = 0x30c00,
	S_INTERNAL = 0x44400,
	S_DATA_LENGTH = 0x50e03,
	S_PARAMETER_LENGTH = 0x51a00,
	S_OPCODE = 0x52000,
	S_LBA = 0x52100,
	S_CDB = 0x52400,
	S_LUN = 0x52500,
	S_PARAMETER = 0x52600,
	S_RELEASE = 0x52604,
	S_SAVING = 0x53900,
	S_FULL = 0x55504,
	S_UA_POWER_ON = 0x62900,
	S_UA_RESET = 0x62903,
	S_UA_NEXUS_LOST = 0x62907,
	S_UA_MODE = 0x62a01,
	S_UA_RESERVATIONS_PREEMPTED = 0x62a03,
	S_UA_RESERVATIONS_RELEASED = 0x62a04,
	S_UA_REGISTRATIONS_PREEMPTED = 0x62a05,
	S_UA_LUNS = 0x63f0e,
	S_PROTECTED = 0x72700,
	S_SOFTWARE_PROTECTED = 0x72702,
	S_SPACE = 0x72707,
	S_MISCOMPARE = 0xe1d00,
};
