/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair in iSCSI mode on its stream core, without sockets, against a target that the test
 * plays: it builds PDUs by the wire codecs, right or wrong, and reads what the core sends by a
 * reader of its own, which checks lengths and digests.
 *
 * Every scenario runs in several ways, which differ in how many bytes the connection moves at a
 * time and in whether there are digests:
 *
 *	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
 *		...
 *	}
 *
 * bed_next() also sees that every request ended in exactly one completion, and that no entry of a
 * command is left.
 */
#pragma once

#include "iscsi/offload/offload.h"
#include "test.h"
#include "verbs/commands.h"
#include "wire/iscsi.h"

enum {
	MEMORY_BYTES = 96 * 1024, /* the consumer's */
	RECEIVES_AT = 64 * 1024,  /* in it: receives begin here */
	RECEIVE_BYTES = 2048,
	RECEIVES_MAX = 16,
	CLOSE_WAIT_NS = 1000,
	RECEIVER_WAIT_NS = 500,
	ALL_RIGHTS = 0x3f
};

struct setup {
	struct weft_iscsi_terms terms;
	bool is_privileged;
	bool is_plain; /* no way with digests */
	bool is_raw;   /* the test sets the terms itself */
	enum weft_failure on_failure;
	uint32_t tags_max; /* default 32 */
	uint32_t send_max, outstanding_max;
};

struct pipe {
	uint8_t *bytes;
	size_t length, at, size;
};

struct bed {
	struct setup setup;
	size_t way, in_max, out_max;
	struct weft_iscsi_terms terms;
	/* The core. */
	struct adapter adapter;
	struct weft_pd *pd, *other_pd;
	struct weft_cq *cq;
	struct weft_qp *qp; /* NULL: destroyed */
	struct list attention;
	struct iscsi_offload *stream; /* NULL: closed */
	uint64_t now_ns;
	bool is_shut, is_closed, is_aborted;
	struct pipe in, out;
	size_t out_credit;
	/* The target. */
	uint32_t stat_sn;
	bool is_data_bad, is_header_bad; /* the digest of the next PDU */
	/* The consumer. */
	uint8_t *memory, *shadow;
	uint32_t tag; /* of all memory */
	uint32_t posted, completed;
	uint64_t id;
	uint32_t cmd_sn;
	uint32_t receives; /* ever posted */
	bool is_gone;	   /* all memory of the program is missing */
};

struct bed *bed_first(const struct setup *setup);
struct bed *bed_next(struct bed *b);

/* Another queue pair, of this domain, in RESET. */
struct weft_qp *bed_qp(struct bed *b, struct weft_pd *pd);

/* Lets everything move until it rests; and at a later time. */
void bed_move(struct bed *b);
void bed_wait(struct bed *b, uint64_t ns);
void bed_eof(struct bed *b);
void bed_lost(struct bed *b);

/* ---- The consumer --------------------------------------------------------------------------- */

struct weft_sge bed_sge(const struct bed *b, size_t offset, uint32_t length);

/* A SCSI Command that reads or writes so many bytes, or none; with these as its header. */
struct iscsi_pdu command_pdu(struct bed *b, enum mem_way way, uint32_t length);
struct weft_iscsi_pdu wr_pdu(const struct iscsi_pdu *p);

/* Posts a command with one element at the beginning of memory. Its Command ID. */
uint32_t bed_command(struct bed *b, enum mem_way way, uint32_t length);

enum weft_reason bed_post(struct bed *b, struct weft_send_wr *wr);
enum weft_reason bed_control(struct bed *b, const struct iscsi_pdu *p, const void *data);
void bed_receive(struct bed *b, uint32_t count);

/* The memory of the n-th receive ever posted. */
uint8_t *bed_received(const struct bed *b, uint32_t n);

bool bed_poll(struct bed *b, struct weft_completion *c);

/* The next completion, which must be there. */
struct weft_completion bed_completion(struct bed *b);

/* The next completion is a receive of this kind and reason: returns it. */
struct weft_completion expect_receive(struct bed *b, enum weft_opcode opcode,
				      enum weft_reason reason);
void expect_no_completion(struct bed *b);

/* Whether memory before the receives is as it was when last noted. */
bool is_unchanged(const struct bed *b);
void bed_note(struct bed *b);

struct weft_iscsi_attr bed_query(const struct bed *b);
uint64_t bed_entries(const struct bed *b);

/* ---- The target ----------------------------------------------------------------------------- */

void target_bytes(struct bed *b, const void *bytes, size_t length);

/* A PDU with its data segment: data_bytes of the pdu. */
void target_pdu(struct bed *b, const struct iscsi_pdu *p, const void *data);

/* With the next StatSN where there is one. */
void target_data_in(struct bed *b, uint32_t itt, uint32_t offset, const void *data,
		    uint32_t length);
void target_r2t(struct bed *b, uint32_t itt, uint32_t ttt, uint32_t offset, uint32_t length);
void target_response(struct bed *b, uint32_t itt);

struct sent {
	struct iscsi_pdu pdu;
	uint8_t header[ISCSI_HEADER_MAX];
	uint8_t data[MEMORY_BYTES];
};

/* The next PDU of the core, which must be right in itself. NULL: there is no whole one. */
const struct sent *target_next(struct bed *b);

/* The next PDU must be of this opcode. */
const struct sent *expect_sent(struct bed *b, enum iscsi_opcode opcode);
