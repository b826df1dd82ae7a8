/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The iSCSI commands of a queue pair, from their posting until they are over: what the address
 * field of a table entry points to (ISCSI-03). A command outlives its request, which has ended when
 * the command was sent.
 */
#pragma once

#include "verbs/qp.h"
#include "wire/iscsi.h"

/* BHS and AHS, and what they say: a long CDB lies in the bytes. */
struct command_header {
	struct iscsi_pdu pdu;
	uint32_t length;
	uint8_t bytes[WEFT_ISCSI_BHS_BYTES + WEFT_ISCSI_AHS_MAX];
};

struct command {
	uint32_t id;	   /* its Command ID */
	uint32_t tag;	   /* of its entry; 0: it has none yet */
	uint32_t wqe_slot; /* of its request, while is_posted */
	bool is_posted;	   /* its request has not ended */
	enum mem_way way;
	uint32_t length;
	/* Its memory: a page list, or elements. */
	const struct weft_page_list *pages;
	uint64_t end_offset;
	uint32_t sge_count;
	struct command_header header;
	struct weft_sge sges[]; /* sges_max of them */
};

struct commands {
	struct id_table ids; /* Command IDs; the objects are this struct itself */
	uint8_t *records;
	size_t record_bytes;
	struct command_header checked; /* of the request that commands_check() saw last */
};

/* NULL when memory is short. */
struct commands *commands_create(uint32_t max, uint32_t sges_max);
void commands_destroy(struct commands *c);

/* The command in a slot below the maximum; the one of an ID, or NULL. */
static inline struct command *commands_at(const struct commands *c, uint32_t slot)
{
	return (struct command *)(void *)(c->records + slot * c->record_bytes);
}

static inline struct command *commands_find(const struct weft_qp *qp, uint32_t id)
{
	return id_table_find(&qp->commands->ids, id) ? commands_at(qp->commands, id_slot(id))
						     : NULL;
}

/*
 * ISCSI-01c, ISCSI-01d: the checks of a request when it is posted, as far as they need no table.
 * *length: of its elements; of its memory after the call.
 */
enum weft_reason commands_check(const struct weft_qp *qp, const struct weft_send_wr *wr,
				uint64_t *length);

/* Takes the command of the request that passed the check last, and writes its Command ID. */
enum weft_reason commands_begin(struct weft_qp *qp, const struct weft_send_wr *wr);

/* ISCSI-01d: makes the entry of a command that is executed. */
enum weft_reason commands_register(struct weft_qp *qp, struct command *c);

/* The command is over: ends its entry, if it has one. NULL: nothing to do. */
void commands_end(struct weft_qp *qp, struct command *c);

/* The stream has ended: all commands whose entries were made are over. */
void commands_end_all(struct weft_qp *qp);
