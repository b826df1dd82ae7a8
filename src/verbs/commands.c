/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/reserved.h"

_Static_assert(WEFT_ISCSI_BHS_BYTES == (int)ISCSI_BHS_BYTES, "the public header has the same");

struct commands *commands_create(uint32_t max, uint32_t sges_max)
{
	struct commands *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->record_bytes = sizeof(struct command) + sges_max * sizeof(struct weft_sge);
	c->record_bytes = (c->record_bytes + 7) / 8 * 8;
	c->records = calloc(max, c->record_bytes);
	if (id_table_init(&c->ids, max) < 0 || !c->records) {
		commands_destroy(c);
		return NULL;
	}
	return c;
}

void commands_destroy(struct commands *c)
{
	if (!c)
		return;
	id_table_fini(&c->ids);
	free(c->records);
	free(c);
}

/* ---- Posting -------------------------------------------------------------------------------- */

/* BHS and AHS as one. */
static uint32_t header_copy(const struct weft_iscsi_pdu *pdu, uint8_t *to)
{
	memcpy(to, pdu->bhs, sizeof(pdu->bhs));
	if (pdu->ahs_bytes > 0)
		memcpy(to + sizeof(pdu->bhs), pdu->ahs, pdu->ahs_bytes);
	return (uint32_t)sizeof(pdu->bhs) + pdu->ahs_bytes;
}

static enum weft_reason check_memory(const struct weft_qp *qp, const struct weft_send_wr *wr,
				     const struct iscsi_pdu *p, uint64_t *length)
{
	const struct weft_iscsi_pdu *pdu = wr->iscsi;

	if (pdu->pages) {
		if (!qp->pd->is_privileged || wr->sge_count > 0)
			return WEFT_R_ISCSI_PAGES;
		if (!RESERVED_IS_ZERO(pdu->pages))
			return WEFT_R_RESERVED;
		if (!mem_command_bytes(pdu->pages, pdu->end_offset, length))
			return WEFT_R_ISCSI_PAGES;
	} else if (pdu->end_offset) {
		return WEFT_R_ISCSI_PAGES;
	}
	return *length == p->expected_bytes ? WEFT_OK : WEFT_R_ISCSI_LENGTH;
}

static enum weft_reason check_command(const struct weft_qp *qp, const struct weft_send_wr *wr,
				      const struct iscsi_pdu *p, uint64_t *length)
{
	if (p->opcode != ISCSI_SCSI_COMMAND || p->data_bytes > 0)
		return WEFT_R_ISCSI_REQUEST;
	if ((p->is_read && p->is_write) || p->has_read_expected)
		return WEFT_R_ISCSI_BOTH_WAYS;
	return check_memory(qp, wr, p, length);
}

static enum weft_reason check_control(const struct weft_send_wr *wr, const struct iscsi_pdu *p,
				      uint64_t length)
{
	if (p->opcode == ISCSI_SCSI_COMMAND || p->opcode == ISCSI_DATA_OUT ||
	    p->opcode == ISCSI_SNACK || wr->iscsi->pages || wr->iscsi->end_offset)
		return WEFT_R_ISCSI_REQUEST;
	if (p->itt >= WEFT_ISCSI_TAGS_MAX && p->itt != ISCSI_TAG_NONE)
		return WEFT_R_ISCSI_TASK_TAG;
	return length == p->data_bytes ? WEFT_OK : WEFT_R_ISCSI_LENGTH;
}

enum weft_reason commands_check(const struct weft_qp *qp, const struct weft_send_wr *wr,
				uint64_t *length)
{
	struct command_header *h = &qp->commands->checked;
	const struct weft_iscsi_pdu *pdu = wr->iscsi;
	enum weft_reason r;

	if (!pdu || (pdu->ahs_bytes > 0 && !pdu->ahs))
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(pdu))
		return WEFT_R_RESERVED;
	if (pdu->ahs_bytes > WEFT_ISCSI_AHS_MAX)
		return WEFT_R_ISCSI_AHS;
	h->length = header_copy(pdu, h->bytes);
	r = iscsi_decode(&h->pdu, ISCSI_INITIATOR, rd_of(h->bytes, h->length), ISCSI_DATA_MAX);
	if (r != WEFT_OK)
		return r;
	if (iscsi_header_bytes(h->bytes) != h->length)
		return WEFT_R_ISCSI_AHS;
	return wr->opcode == WEFT_OP_ISCSI_COMMAND ? check_command(qp, wr, &h->pdu, length)
						   : check_control(wr, &h->pdu, *length);
}

/* By the flags of a header that passed the check. */
static enum mem_way way_of(const struct iscsi_pdu *p)
{
	if (p->expected_bytes == 0)
		return MEM_WAY_NONE;
	return p->is_read ? MEM_WAY_IN : MEM_WAY_OUT;
}

enum weft_reason commands_begin(struct weft_qp *qp, const struct weft_send_wr *wr)
{
	struct commands *all = qp->commands;
	const struct command_header *h = &all->checked;
	uint32_t id = id_table_add(&all->ids, all);
	struct command *c;

	if (id == 0)
		return WEFT_R_QUEUE_FULL;
	c = commands_at(all, id_slot(id));
	*c = (struct command){
		.id = id,
		.is_posted = true,
		.pages = wr->iscsi->pages,
		.end_offset = wr->iscsi->end_offset,
		.sge_count = wr->sge_count,
		.wqe_slot = send_queue_slot(&qp->sq, qp->sq.count),
		.length = h->pdu.expected_bytes,
		.way = way_of(&h->pdu),
		.header = { .pdu = h->pdu, .length = h->length },
	};
	memcpy(c->header.bytes, h->bytes, h->length);
	if (h->pdu.cdb_more)
		c->header.pdu.cdb_more = c->header.bytes + (h->pdu.cdb_more - h->bytes);
	if (wr->sge_count > 0)
		memcpy(c->sges, wr->sges, wr->sge_count * sizeof(*wr->sges));
	wr->iscsi->command_id = id;
	return WEFT_OK;
}

/* ---- Life ----------------------------------------------------------------------------------- */

enum weft_reason commands_register(struct weft_qp *qp, struct command *c)
{
	const struct mem_owner owner = pd_owner(qp->pd);
	const struct mem_command command = {
		.qp = qp->number,
		.slot = id_slot(c->id),
		.id = c->id,
		.way = c->way,
		.length = c->length,
		.pages = c->pages,
		.end_offset = c->end_offset,
	};

	CHECK(c->tag == 0);
	return mem_command_register(&qp->adapter->mem, &owner, &command, &c->tag);
}

void commands_end(struct weft_qp *qp, struct command *c)
{
	if (!c)
		return;
	if (c->tag != 0)
		mem_command_deregister(&qp->adapter->mem, c->tag);
	id_table_remove(&qp->commands->ids, c->id);
	c->id = 0;
	c->tag = 0;
}

void commands_end_all(struct weft_qp *qp)
{
	const struct commands *all = qp->commands;

	for (uint32_t slot = 0; slot < all->ids.slots_max && all->ids.used > 0; slot++) {
		struct command *c = commands_at(all, slot);

		if (c->tag != 0)
			commands_end(qp, c);
	}
}
