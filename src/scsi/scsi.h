/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A SCSI target: logical units (SPC-4, SBC-3) on the devices of store/, I_T nexuses, unit
 * attentions and persistent reservations. It knows no transport: iSCSI and iSER hand it commands
 * with the memory for their data, and send what it answers.
 *
 * A task belongs to the caller, and is lent to the target from scsi_submit() until scsi_next_done()
 * returns it. Blocks move between the device and the caller's memory with no copy in between;
 * parameter data is copied into that memory.
 *
 * Only one thread at a time may use a target and the devices of its units.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/list.h"
#include "base/span.h"
#include "store/store.h"

enum {
	SCSI_CDB_BYTES = 16,
	SCSI_SENSE_MAX = 32,
	SCSI_TRANSPORT_ID_MAX = 252,
	SCSI_NAME_MAX = 223,	 /* of the target, RFC 7143 section 4.2.7.1 */
	SCSI_UNITS_MAX = 256,	 /* REPORT LUNS has them in one answer */
	SCSI_NEXUSES_MAX = 4096, /* and registrations */
	SCSI_SERIAL_MAX = 32,
};

#define SCSI_NO_LUN UINT16_MAX

/* SAM-5 table 33. */
enum scsi_status {
	SCSI_GOOD = 0x00,
	SCSI_CHECK_CONDITION = 0x02,
	SCSI_RESERVATION_CONFLICT = 0x18,
	SCSI_TASK_ABORTED = 0x40,
};

/* SAM-5 section 8.6. */
enum scsi_attribute {
	SCSI_SIMPLE,
	SCSI_ORDERED,
	SCSI_HEAD_OF_QUEUE,
};

/* Why a command did not end with GOOD. Each has a status and, with CHECK CONDITION, sense data. */
enum scsi_reason {
	SCSI_OK,
	SCSI_PENDING, /* inside only: the device works on it */
	SCSI_R_OPCODE,
	SCSI_R_CDB_FIELD,
	SCSI_R_PARAMETER_FIELD,
	SCSI_R_PARAMETER_LENGTH,
	SCSI_R_LBA,
	SCSI_R_LUN,
	SCSI_R_DATA_LENGTH,
	SCSI_R_SAVING,
	SCSI_R_RELEASE,
	SCSI_R_REGISTRATIONS_FULL,
	SCSI_R_WRITE_PROTECTED,
	SCSI_R_SOFTWARE_WRITE_PROTECTED,
	SCSI_R_SPACE,
	SCSI_R_STOPPED,
	SCSI_R_MISCOMPARE,
	SCSI_R_READ,
	SCSI_R_WRITE,
	SCSI_R_INTERNAL,
	SCSI_R_CONFLICT,
	SCSI_R_ABORTED,
	/* Unit attentions, in the order in which they are reported. */
	SCSI_R_UA_POWER_ON,
	SCSI_R_UA_RESET,
	SCSI_R_UA_NEXUS_LOST,
	SCSI_R_UA_COMMANDS_CLEARED,
	SCSI_R_UA_RESERVATIONS_PREEMPTED,
	SCSI_R_UA_RESERVATIONS_RELEASED,
	SCSI_R_UA_REGISTRATIONS_PREEMPTED,
	SCSI_R_UA_MODE_CHANGED,
	SCSI_R_UA_LUNS_CHANGED,
	SCSI_REASON_COUNT
};

/* Memory for data, in this order; `length` is the sum of the spans. */
struct scsi_data {
	const struct span *spans;
	uint32_t span_count;
	uint64_t length;
};

struct scsi_unit;
struct scsi_command;

struct scsi_task {
	/* Set by the caller, constant while in progress. */
	uint32_t nexus; /* of scsi_nexus_add() */
	uint16_t lun;	/* of scsi_lun_decode() */
	uint8_t cdb[SCSI_CDB_BYTES];
	enum scsi_attribute attribute;
	struct scsi_data in;  /* where data for the initiator goes: as much as it expects */
	struct scsi_data out; /* what the initiator sent: all that it announced */
	/*
	 * Not NULL: where the data of a read may be instead of in `in`, if its bytes are not NULL
	 * on completion; the caller ends the loan.
	 */
	struct store_loan *loan;

	/* Set by the target on completion. */
	enum scsi_reason reason;
	uint8_t status;	      /* enum scsi_status */
	bool is_aborted;      /* by task management or PREEMPT AND ABORT: send no response */
	uint8_t sense_length; /* 0 unless CHECK CONDITION */
	bool is_overflow;     /* the command had `residual` bytes more than there was room for */
	uint64_t residual;    /* else: bytes of `in` or `out` that the command did not use */
	uint64_t in_length;   /* bytes from the start of `in` that hold data */
	uint8_t sense[SCSI_SENSE_MAX];

	/* For the target while in progress. */
	struct list link;
	const struct scsi_command *command; /* NULL: no such command, or no such unit */
	struct scsi_unit *unit;
	enum scsi_reason (*next)(struct scsi_unit *u, struct scsi_task *t);
	bool is_running, is_exclusive, is_scratch, is_ordered;
	uint8_t field_bit; /* of field_at; SCSI_NO_BIT: the whole byte */
	uint16_t field_at;
	bool has_info;
	uint64_t info; /* of sense data */
	uint64_t lba, blocks;
	uint64_t want;	  /* bytes of data that the command moves */
	uint64_t at, end; /* progress; its meaning is the command's */
	uint32_t index;
	struct store_request request;
	struct span_list spans;
};

struct scsi_target;

struct scsi_target_config {
	const char *name; /* of the target device, as an iSCSI name; at most SCSI_NAME_MAX */
	uint16_t port;	  /* relative target port identifier, from 1 */
	uint32_t units_max, nexuses_max;
	uint32_t registrations_max; /* per unit */
};

enum weft_reason scsi_target_create(const struct scsi_target_config *c, struct scsi_target **out);

/* Destroys a target with no task in progress, and its units. Devices are not destroyed. */
void scsi_target_destroy(struct scsi_target *target);

struct scsi_unit_config {
	uint16_t lun; /* below 16384 */
	struct store *store;
	bool is_readonly;	     /* even if the device is not */
	bool has_zeroing_discard;    /* discarded blocks of this device read as zeroes */
	uint32_t transfer_bytes_max; /* of one command; a multiple of the block size */
	uint64_t id;		     /* of this unit in all the world, for its NAA name; 60 bits */
	const char *serial;	     /* 1 to SCSI_SERIAL_MAX printable characters */
};

/* Nexuses that are there are told by a unit attention. */
enum weft_reason scsi_unit_add(struct scsi_target *target, const struct scsi_unit_config *c);

struct scsi_nexus_config {
	/*
	 * SPC-4 section 7.6.4. A nexus with the same TransportID as an earlier one continues it:
	 * its registrations are those of the earlier one, and unit attentions tell it of its loss
	 * and of what happened since. (One that went long ago may be new again: power on.)
	 */
	const uint8_t *transport_id;
	uint16_t transport_id_length;
};

enum weft_reason scsi_nexus_add(struct scsi_target *target, const struct scsi_nexus_config *c,
				uint32_t *out);

/* Aborts its tasks. Those still at a device end later; their memory stays in use until then. */
void scsi_nexus_remove(struct scsi_target *target, uint32_t nexus);

/* SAM-5 section 4.7.7: one level, peripheral device or flat space addressing. Else SCSI_NO_LUN. */
uint16_t scsi_lun_decode(const uint8_t bytes[8]);

/*
 * The most data that the command can move, and a byte more where that is refused: how much of what
 * the initiator announced needs memory. The rest may be left out of `in` and `out` if the caller
 * adds it to the residual.
 */
uint64_t scsi_data_need(struct scsi_target *target, uint16_t lun, const uint8_t *cdb);

/* The target has the task, and scsi_next_done() returns it exactly once. */
void scsi_submit(struct scsi_target *target, struct scsi_task *t, uint64_t now_ns);

/*
 * Takes a completed task; NULL: none at present. It does a bounded amount of work: scsi_due() is
 * now while there is more, as of a command for many blocks of a device in memory.
 */
struct scsi_task *scsi_next_done(struct scsi_target *target, uint64_t now_ns);

/* When to call scsi_expire(), then scsi_next_done(), if no other event comes first. */
uint64_t scsi_due(const struct scsi_target *target);
void scsi_expire(struct scsi_target *target, uint64_t now_ns);

/*
 * SAM-5 section 7. An aborted task that waits ends at once; one at the device ends when the device
 * returns it, as aborted. False: there is no such unit.
 */
void scsi_task_abort(struct scsi_target *target, struct scsi_task *t);
bool scsi_task_set_abort(struct scsi_target *target, uint16_t lun, uint32_t nexus);
bool scsi_unit_reset(struct scsi_target *target, uint16_t lun);

/* Resets every unit. */
void scsi_target_reset(struct scsi_target *target);

/* Tells the nexus by a unit attention that another one had its tasks at the unit aborted. */
void scsi_tell_cleared(struct scsi_target *target, uint16_t lun, uint32_t nexus);

/* For people: what refused the command. */
const char *scsi_reason_text(enum scsi_reason reason);
