/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the room: targets, units, the table of commands, and what commands share. */
#pragma once

#include "base/cursor.h"
#include "scsi/scsi.h"

enum {
	SCSI_NO_BIT = 8,
	SCRATCH_BYTES = 128 * 1024,
	COMPARE_BLOCKS_MAX = 255, /* the CDB has one byte for it */
	UNMAP_BLOCKS_MAX = 1 << 20,
	UNMAP_DESCRIPTORS_MAX = 256,
	WRITE_SAME_BLOCKS_MAX = 1 << 15,
	REPLY_BYTES_MIN = 4096,
	REGISTRATION_BYTES = 24 + SCSI_TRANSPORT_ID_MAX,
};

/* Instead of the number of a nexus. */
#define EVERY_NEXUS UINT32_MAX
#define NO_NEXUS UINT32_MAX

/* Unit attentions of a nexus at a unit: a bit each, from SCSI_R_UA_POWER_ON. */
#define UA_BIT(reason) ((uint16_t)(1U << ((reason)-SCSI_R_UA_POWER_ON)))

/* ---- Persistent reservations ---------------------------------------------------------------- */

struct transport_id {
	uint16_t length;
	uint8_t bytes[SCSI_TRANSPORT_ID_MAX];
};

static inline bool transport_id_is_same(const struct transport_id *a, const struct transport_id *b)
{
	return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

struct registration {
	uint64_t key; /* 0: not in use */
	struct transport_id who;
};

/* SPC-4 table 76. */
enum reservation_type {
	RESERVATION_NONE = 0,
	WRITE_EXCLUSIVE = 1,
	EXCLUSIVE_ACCESS = 3,
	WRITE_EXCLUSIVE_REGISTRANTS = 5,
	EXCLUSIVE_ACCESS_REGISTRANTS = 6,
	WRITE_EXCLUSIVE_ALL = 7,
	EXCLUSIVE_ACCESS_ALL = 8,
	RESERVATION_TYPES
};

#define NO_HOLDER UINT32_MAX

struct reservations {
	struct registration *rows; /* registrations_max */
	uint32_t rows_max, generation;
	enum reservation_type type;
	uint32_t holder; /* a row; of the types for all registrants NO_HOLDER */
};

/* ---- Mode parameters ------------------------------------------------------------------------ */

struct mode_parameters {
	bool has_descriptor_sense; /* D_SENSE */
	bool is_write_protected;   /* SWP */
	bool has_write_cache;	   /* WCE */
};

/* ---- Units and targets ---------------------------------------------------------------------- */

/* One that has gone is remembered, until its number is needed for another. */
struct scsi_nexus {
	bool is_used;
	uint32_t task_count;
	uint64_t gone;		/* the count of those that had gone then; 0: never */
	struct transport_id id; /* of no bytes: none is remembered */
};

struct scsi_unit {
	struct scsi_target *target;
	uint16_t lun;
	struct store *store;
	uint64_t id;
	char serial[SCSI_SERIAL_MAX + 1];
	uint32_t block_bytes;
	uint64_t block_count;
	uint32_t transfer_blocks_max, compare_blocks_max;
	bool is_readonly, is_thin, is_zeroing;
	enum store_op unmap_op;

	bool is_stopped;
	struct mode_parameters mode;
	struct reservations reservations;
	uint16_t *attentions; /* of each nexus, also of those that are remembered */

	struct list tasks; /* in progress, in the order they came */
	uint32_t waiting_count, barrier_count;
	uint8_t *scratch; /* of one task at a time */
};

struct scsi_target {
	char name[SCSI_NAME_MAX + 1];
	uint16_t port;
	uint32_t units_max, unit_count, nexuses_max, registrations_max;
	struct scsi_unit *units;
	struct scsi_nexus *nexuses;
	uint64_t gone_count;
	struct scsi_unit absent; /* stands for every unit that is not there */
	struct list done;
	uint8_t *reply; /* parameter data of the command at hand */
	uint32_t reply_bytes;
	uint64_t now_ns; /* of the call at hand */
	bool has_more;	 /* devices have completed requests that were not looked at yet */
};

/* ---- Commands ------------------------------------------------------------------------------- */

/* Where a CDB has its logical block address and its length. */
enum cdb_shape {
	CDB_NEITHER,
	CDB_6,
	CDB_10,
	CDB_12,
	CDB_16,
	CDB_COMPARE,	 /* 16 bytes; one of length */
	CDB_ALLOCATE_6,	 /* length only: one byte at 4 */
	CDB_ALLOCATE_3,	 /* two bytes at 3 */
	CDB_ALLOCATE_7,	 /* two bytes at 7 */
	CDB_ALLOCATE_5,	 /* four bytes at 5 */
	CDB_ALLOCATE_6L, /* four bytes at 6 */
	CDB_LBA_16,	 /* an address, and four bytes of allocation length at 10 */
	CDB_LBA_EIGHT,	 /* an address at 2; the answer has eight bytes */
};

/* What is moved, and how much of it. */
enum cdb_data {
	DATA_NONE,
	DATA_REPLY,	   /* to the initiator: at most so many bytes */
	DATA_PARAMETERS,   /* from the initiator: so many bytes */
	DATA_BLOCKS_IN,	   /* to the initiator: so many blocks */
	DATA_BLOCKS_OUT,   /* from the initiator: so many blocks */
	DATA_BLOCKS_TWICE, /* from the initiator: so many blocks twice */
	DATA_BLOCKS_CHECK, /* from the initiator: so many blocks if BYTCHK is set */
	DATA_BLOCK_OUT,	   /* from the initiator: one block, unless NDOB is set */
};

/* SPC-4 table 67 and SBC-3 table 13: which reservations of others refuse the command. */
enum access_class {
	ACCESS_FREE,  /* none */
	ACCESS_READ,  /* exclusive access */
	ACCESS_WRITE, /* write exclusive and exclusive access */
};

enum command_flags {
	KEEPS_ATTENTION = 1 << 0, /* runs though a unit attention is pending */
	NEEDS_MEDIUM = 1 << 1,	  /* not if the unit is stopped */
	CHANGES_MEDIUM = 1 << 2,  /* not if the unit is write-protected */
	IS_EXCLUSIVE = 1 << 3,	  /* atomic against other commands of the same blocks */
	USES_SCRATCH = 1 << 4,
	THIN_ONLY = 1 << 5,   /* only where blocks can be unmapped */
	NO_UNIT = 1 << 6,     /* answered though there is no such unit */
	HAS_FUA = 1 << 8,     /* byte 1 has DPO and FUA */
	HAS_PROTECT = 1 << 7, /* byte 1 begins with a protect field, which must be 0 */
};

struct scsi_command {
	uint8_t opcode, action;
	bool has_action;
	uint8_t bytes; /* of the CDB */
	enum cdb_shape shape;
	enum cdb_data data;
	enum access_class access;
	uint32_t flags;
	uint32_t timeout_s;
	uint8_t usage[SCSI_CDB_BYTES]; /* SPC-4 section 6.34.3, without opcode and service action */
	enum scsi_reason (*run)(struct scsi_unit *u, struct scsi_task *t);
};

extern const struct scsi_command scsi_commands[];
extern const uint32_t scsi_command_count;

/* SCSI_OK, or the opcode is unknown, or the service action, which is a field of the CDB. */
enum scsi_reason command_find(const struct scsi_unit *u, const uint8_t *cdb,
			      const struct scsi_command **out);

struct cdb_extent {
	uint64_t lba, length;
};

struct cdb_extent cdb_decode(enum cdb_shape shape, const uint8_t *cdb);

/* Bytes of data that the command moves. */
uint64_t cdb_want(const struct scsi_unit *u, const struct scsi_command *c, const uint8_t *cdb);

enum scsi_reason run_inquiry(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_test_unit_ready(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_request_sense(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_report_luns(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_start_stop(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_read_capacity_10(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_read_capacity_16(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_get_lba_status(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_report_opcodes(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_mode_sense(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_mode_select(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_reserve_in(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_reserve_out(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_read(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_write(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_write_verify(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_prefetch(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_synchronize(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_verify(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_compare_and_write(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_or_write(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_unmap(struct scsi_unit *u, struct scsi_task *t);
enum scsi_reason run_write_same(struct scsi_unit *u, struct scsi_task *t);

/* ---- What commands share -------------------------------------------------------------------- */

/* Each returns a refusal, and notes what sense data says about it. */
enum scsi_reason cdb_refuse(struct scsi_task *t, uint16_t at, uint8_t bit);
enum scsi_reason parameter_refuse(struct scsi_task *t, uint16_t at, uint8_t bit);

/* SCSI_OK: the blocks are in the unit, and not more than a command may have. */
enum scsi_reason blocks_check(const struct scsi_unit *u, struct scsi_task *t, uint64_t blocks_max);

/* Answers with what was written into the target's reply buffer, as far as it was asked for. */
struct wr reply_begin(struct scsi_target *target);
enum scsi_reason reply_end(struct scsi_target *target, struct scsi_task *t, const struct wr *w);

/* Copies bytes of the data from the initiator. False: there are not as many. */
bool out_read(const struct scsi_task *t, uint64_t at, void *to, size_t length);

/* Fills t->spans with whole blocks of the data, at most `length` bytes; how many bytes. */
uint64_t data_cut(const struct scsi_unit *u, struct scsi_task *t, const struct scsi_data *data,
		  uint64_t skip, uint64_t length);

/*
 * Submits a request for a range of blocks, for reads and writes with t->spans; t->next comes after
 * it. SCSI_PENDING, or the device refused it.
 */
enum scsi_reason device_request(struct scsi_unit *u, struct scsi_task *t, enum store_op op,
				uint64_t offset, uint64_t length);
/* A flush if the device has a cache; then, or else at once, t->next. */
enum scsi_reason device_flush(struct scsi_unit *u, struct scsi_task *t);

/* A read into the scratch buffer, or a write from it. */
enum scsi_reason scratch_request(struct scsi_unit *u, struct scsi_task *t, enum store_op op,
				 uint64_t offset, uint64_t length);

/* The last step of commands that have nothing more to do. */
enum scsi_reason finish_good(struct scsi_unit *u, struct scsi_task *t);

/* After a write: is it to be on stable storage, and can the device do that by itself? */
enum scsi_reason finish_stable(struct scsi_unit *u, struct scsi_task *t);
uint32_t write_flags(const struct scsi_unit *u, const struct scsi_task *t);

/* Verifies the blocks, against data from the initiator or for being readable. */
enum scsi_reason verify_begin(struct scsi_unit *u, struct scsi_task *t);
/* SCSI_OK: BYTCHK is 00b or 01b. */
enum scsi_reason bytchk_check(struct scsi_task *t);

/* ---- Unit attentions, sense data, reservations, mode pages ---------------------------------- */

/* Tells every nexus but this one, which may be NO_NEXUS. */
void attention_set_others(struct scsi_unit *u, enum scsi_reason reason, uint32_t nexus);
enum scsi_reason attention_take(struct scsi_unit *u, uint32_t nexus);

/* Fills sense, at least SCSI_SENSE_MAX bytes; returns how many. */
uint8_t sense_encode(uint8_t *sense, enum scsi_reason reason, bool is_descriptor,
		     const struct scsi_task *t);
uint8_t reason_status(enum scsi_reason reason);

enum weft_reason reservations_init(struct reservations *r, uint32_t rows_max);
enum scsi_reason reservation_check(const struct scsi_unit *u, const struct scsi_task *t);
enum scsi_reason reservation_check_as(const struct scsi_unit *u, const struct scsi_task *t,
				      enum access_class access);

void mode_reset(struct scsi_unit *u);

/* ---- A unit, for the target ----------------------------------------------------------------- */

void unit_take(struct scsi_unit *u, struct scsi_task *t);
/* A few steps of tasks whose device requests have completed. True: a task has taken one. */
bool unit_poll(struct scsi_unit *u);
void unit_abort_task(struct scsi_unit *u, struct scsi_task *t);
/* All tasks of the nexus, or of EVERY_NEXUS, but the one that asks for it, which may be NULL. */
void unit_abort(struct scsi_unit *u, uint32_t nexus, const struct scsi_task *except);
