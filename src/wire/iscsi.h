/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PDUs of iSCSI (RFC 7143 section 11): the basic header segment (BHS), the additional header
 * segments (AHS) of a SCSI Command, the length of what follows, and digests. A PDU is
 *
 *	BHS [AHS...] [header digest] [data segment, padded to a full word] [data digest]
 *
 * One table describes each opcode: who sends it, and which parts it has. Not here: the text of a
 * data segment, whether a PDU belongs to the state of its connection, and what was negotiated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/cursor.h"

enum {
	ISCSI_TCP_PORT = 3260,
	ISCSI_BHS_BYTES = 48,
	ISCSI_AHS_MAX = 255 * 4,
	ISCSI_HEADER_MAX = ISCSI_BHS_BYTES + ISCSI_AHS_MAX,
	ISCSI_DATA_MAX = 0xffffff, /* DataSegmentLength has 24 bits */
	ISCSI_PAD_MAX = 3,
	ISCSI_DIGEST_BYTES = 4,
	ISCSI_CDB_BYTES = 16,	   /* the rest of a longer one is in an AHS */
	ISCSI_CDB_MORE_MAX = 1016, /* what one AHS holds of it */
	ISCSI_SENSE_HEADER_BYTES = 2
};

/* The reserved value of Initiator Task Tags and Target Transfer Tags: there is none. */
#define ISCSI_TAG_NONE UINT32_MAX

enum iscsi_opcode {
	ISCSI_NOP_OUT = 0x00,
	ISCSI_SCSI_COMMAND = 0x01,
	ISCSI_TASK_REQUEST = 0x02,
	ISCSI_LOGIN_REQUEST = 0x03,
	ISCSI_TEXT_REQUEST = 0x04,
	ISCSI_DATA_OUT = 0x05,
	ISCSI_LOGOUT_REQUEST = 0x06,
	ISCSI_SNACK = 0x10,
	ISCSI_NOP_IN = 0x20,
	ISCSI_SCSI_RESPONSE = 0x21,
	ISCSI_TASK_RESPONSE = 0x22,
	ISCSI_LOGIN_RESPONSE = 0x23,
	ISCSI_TEXT_RESPONSE = 0x24,
	ISCSI_DATA_IN = 0x25,
	ISCSI_LOGOUT_RESPONSE = 0x26,
	ISCSI_R2T = 0x31,
	ISCSI_ASYNC = 0x32,
	ISCSI_REJECT = 0x3f
};

enum iscsi_side { ISCSI_INITIATOR, ISCSI_TARGET };

/* Section 11.3.1: ATTR of a SCSI Command. */
enum iscsi_attr {
	ISCSI_ATTR_UNTAGGED = 0,
	ISCSI_ATTR_SIMPLE = 1,
	ISCSI_ATTR_ORDERED = 2,
	ISCSI_ATTR_HEAD = 3,
	ISCSI_ATTR_ACA = 4
};

/* Values of iscsi_pdu.code, by opcode. Those from RFC 7144 are of protocol level 2. */
enum iscsi_scsi_response { ISCSI_COMPLETED = 0, ISCSI_TARGET_FAILURE = 1, ISCSI_VENDOR_80 = 0x80 };

enum iscsi_task_function {
	ISCSI_ABORT_TASK = 1,
	ISCSI_ABORT_TASK_SET = 2,
	ISCSI_CLEAR_ACA = 3,
	ISCSI_CLEAR_TASK_SET = 4,
	ISCSI_LU_RESET = 5,
	ISCSI_TARGET_WARM_RESET = 6,
	ISCSI_TARGET_COLD_RESET = 7,
	ISCSI_TASK_REASSIGN = 8,
	ISCSI_QUERY_TASK = 9, /* RFC 7144, and the next three */
	ISCSI_QUERY_TASK_SET = 10,
	ISCSI_I_T_NEXUS_RESET = 11,
	ISCSI_QUERY_ASYNC_EVENT = 12
};

enum iscsi_task_result {
	ISCSI_TASK_COMPLETE = 0,
	ISCSI_TASK_NO_TASK = 1,
	ISCSI_TASK_NO_LUN = 2,
	ISCSI_TASK_ALLEGIANT = 3,
	ISCSI_TASK_NO_REASSIGN = 4,
	ISCSI_TASK_UNSUPPORTED = 5,
	ISCSI_TASK_UNAUTHORIZED = 6,
	ISCSI_TASK_SUCCEEDED = 7, /* RFC 7144 */
	ISCSI_TASK_REJECTED = 255
};

enum iscsi_logout_reason {
	ISCSI_LOGOUT_SESSION = 0,
	ISCSI_LOGOUT_CONNECTION = 1,
	ISCSI_LOGOUT_RECOVERY = 2
};

enum iscsi_logout_result {
	ISCSI_LOGOUT_OK = 0,
	ISCSI_LOGOUT_NO_CID = 1,
	ISCSI_LOGOUT_NO_RECOVERY = 2,
	ISCSI_LOGOUT_FAILED = 3
};

enum iscsi_snack_type {
	ISCSI_SNACK_DATA = 0, /* Data-In or R2T */
	ISCSI_SNACK_STATUS = 1,
	ISCSI_SNACK_DATA_ACK = 2,
	ISCSI_SNACK_R_DATA = 3
};

enum iscsi_async_event {
	ISCSI_ASYNC_SCSI = 0,
	ISCSI_ASYNC_LOGOUT = 1,
	ISCSI_ASYNC_DROP_CONNECTION = 2,
	ISCSI_ASYNC_DROP_SESSION = 3,
	ISCSI_ASYNC_NEGOTIATE = 4,
	ISCSI_ASYNC_TASKS_ENDED = 5,
	ISCSI_ASYNC_VENDOR = 248 /* and on */
};

enum iscsi_reject_reason {
	ISCSI_REJECT_DATA_DIGEST = 0x02,
	ISCSI_REJECT_SNACK = 0x03,
	ISCSI_REJECT_PROTOCOL = 0x04,
	ISCSI_REJECT_UNSUPPORTED = 0x05,
	ISCSI_REJECT_IMMEDIATE = 0x06, /* too many immediate commands */
	ISCSI_REJECT_IN_PROGRESS = 0x07,
	ISCSI_REJECT_DATA_ACK = 0x08,
	ISCSI_REJECT_FIELD = 0x09,
	ISCSI_REJECT_LONG = 0x0a,	 /* no Target Transfer Tag is left */
	ISCSI_REJECT_NEGOTIATION = 0x0b, /* of RFC 3720, now deprecated */
	ISCSI_REJECT_LOGOUT = 0x0c	 /* waiting for the logout */
};

/* Section 11.12.3. */
enum iscsi_stage {
	ISCSI_STAGE_SECURITY = 0,
	ISCSI_STAGE_OPERATIONAL = 1,
	ISCSI_STAGE_FULL_FEATURE = 3
};

/*
 * One PDU, without its data segment. Only fields that the opcode has are used; decoding sets the
 * others to 0, and tags to ISCSI_TAG_NONE.
 */
struct iscsi_pdu {
	uint8_t opcode;	     /* enum iscsi_opcode */
	uint8_t code;	     /* response, function, reason, type or event: see the enums above */
	bool is_immediate;   /* I: requests but Data-Out and SNACK */
	bool is_final;	     /* F: SCSI Command, Data and Text; T of a Login; 1 in all others */
	bool is_continued;   /* C: Text, Login */
	uint32_t data_bytes; /* DataSegmentLength, without the padding */
	uint64_t lun;	     /* Data-In: if wants_ack */
	uint32_t itt;
	uint32_t ttt; /* NOP, Data, R2T, Text; SNACK Tag of a SNACK and of a SCSI Response */

	/* Requests; Data-Out and SNACK have only the second. */
	uint32_t cmd_sn, exp_stat_sn;
	/* Of a target; the first of Data-In if has_status. */
	uint32_t stat_sn, exp_cmd_sn, max_cmd_sn;
	/* DataSN, R2TSN; ExpDataSN of a SCSI Response and a Task Management Request */
	uint32_t data_sn;

	/* SCSI Command */
	bool is_read, is_write;	 /* R, W */
	uint8_t attr;		 /* enum iscsi_attr */
	uint32_t expected_bytes; /* Expected Data Transfer Length */
	uint8_t cdb[ISCSI_CDB_BYTES];
	const uint8_t *cdb_more; /* of a longer CDB; decoding points it into the bytes */
	uint16_t cdb_more_bytes; /* 0: there is no such AHS */
	bool has_read_expected;	 /* the AHS of a bidirectional command: */
	uint32_t read_expected_bytes;

	/* SCSI Response; Data-In has those of the first line if has_status */
	bool is_overflow, is_underflow; /* O, U */
	bool is_read_overflow, is_read_underflow;
	uint8_t status;
	uint32_t residual, read_residual;

	/* Data-In, Data-Out, R2T */
	bool wants_ack;		/* A: Data-In */
	bool has_status;	/* S: Data-In */
	uint32_t offset;	/* Buffer Offset */
	uint32_t desired_bytes; /* R2T */

	/* Task Management Request */
	uint32_t ref_itt, ref_cmd_sn;

	/* Login, Logout */
	uint8_t csg, nsg;	      /* enum iscsi_stage; the second if is_final */
	uint8_t version_max, version; /* the second: Version-min, Version-active */
	uint64_t isid;		      /* 48 bits */
	uint16_t tsih, cid;	      /* cid: requests */
	uint8_t status_class, status_detail;
	uint16_t time2wait, time2retain; /* Logout Response */

	/* SNACK */
	uint32_t beg_run, run_length;

	/* Asynchronous Message */
	uint8_t vendor_code;
	uint16_t parameters[3];
};

/* For people, e.g. "SCSI Command"; never NULL. */
const char *iscsi_opcode_name(uint8_t opcode);

/* By the first ISCSI_BHS_BYTES of a PDU, whatever they are: lengths of its parts. */

/* BHS and AHS, without the digest. */
uint32_t iscsi_header_bytes(const uint8_t bhs[ISCSI_BHS_BYTES]);
/* Without padding and digest. */
uint32_t iscsi_data_bytes(const uint8_t bhs[ISCSI_BHS_BYTES]);

/* The padding that a data segment of this length needs. */
static inline uint32_t iscsi_pad(uint32_t data_bytes)
{
	return -data_bytes & 3;
}

/* The whole PDU, if digests are used or not; an empty data segment has none. */
uint32_t iscsi_pdu_bytes(const uint8_t bhs[ISCSI_BHS_BYTES], bool has_header_digest,
			 bool has_data_digest);

/*
 * Decodes BHS and AHS of a PDU that this side sent. Refuses what section 11 of the RFC forbids,
 * whatever the connection is doing, and a data segment over data_limit; reserved bits are ignored
 * (section 11.1.1). Bytes after the header are not looked at. On error *p has not changed.
 */
enum weft_reason iscsi_decode(struct iscsi_pdu *p, enum iscsi_side sender, struct rd header,
			      uint32_t data_limit);

/* Of the AHS that iscsi_encode() makes. */
uint32_t iscsi_ahs_bytes(const struct iscsi_pdu *p);

/* Encodes BHS and AHS, iscsi_header_bytes() of them. */
void iscsi_encode(const struct iscsi_pdu *p, struct wr *w);

/*
 * Digests: CRC32C, sent with its least significant byte first (section 13.1). A header digest
 * covers BHS and AHS, a data digest the data segment and its padding.
 */
uint32_t iscsi_digest_decode(const uint8_t bytes[ISCSI_DIGEST_BYTES]);
void iscsi_digest_encode(uint32_t digest, uint8_t bytes[ISCSI_DIGEST_BYTES]);

uint32_t iscsi_header_digest(const uint8_t *header, size_t length);

/* Of data_bytes that crc32c_add() turned CRC32C_BEGIN into crc by, and padding of zeros. */
uint32_t iscsi_data_digest(uint32_t crc, uint32_t data_bytes);

/* WEFT_R_ISCSI_HEADER_DIGEST: it is not the digest of this header. */
enum weft_reason iscsi_header_check(const uint8_t *header, size_t length,
				    const uint8_t digest[ISCSI_DIGEST_BYTES]);
/* WEFT_R_ISCSI_DATA_DIGEST; crc: of the data and of the padding as it came, not ended. */
enum weft_reason iscsi_data_check(uint32_t crc, const uint8_t digest[ISCSI_DIGEST_BYTES]);

/*
 * Sections 11.4.7 and 11.9.4: sense data at the beginning of the data segment of a SCSI Response
 * or of an Asynchronous Message, and the bytes behind it. Both point into the bytes. An empty data
 * segment has no sense data. On error *s has not changed.
 */
struct iscsi_sense {
	const uint8_t *sense, *more;
	uint32_t sense_bytes, more_bytes;
};

enum weft_reason iscsi_sense_decode(struct iscsi_sense *s, const uint8_t *data, size_t length);
