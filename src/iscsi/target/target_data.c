/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data that an initiator sends: with its command, unasked behind it, or in answer to R2Ts. As
 * DataPDUInOrder and DataSequenceInOrder are always Yes here, each byte comes in its order.
 */
#include "base/check.h"
#include "iscsi/target/target_inside.h"

/* ---- With a command, and unasked ------------------------------------------------------------ */

/* Section 13.14: how much may come before the first R2T. */
static uint32_t unsolicited_max(const struct target_task *t)
{
	uint32_t first = t->session->params.session.first_burst_bytes_max;

	return first < t->expected ? first : t->expected;
}

/* Sections 13.10, 13.11 and 13.14. */
void target_data_announce(struct target_task *t, const struct iscsi_pdu *p)
{
	const struct iscsi_session_params *k = &t->session->params.session;
	uint32_t max = unsolicited_max(t);

	t->is_unsolicited = t->is_write && !p->is_final;
	if (p->data_bytes > 0 && (!t->is_write || !k->has_immediate_data || p->data_bytes > max))
		t->fault = FAULT_UNSOLICITED;
	if (t->is_unsolicited && k->needs_r2t)
		t->fault = FAULT_UNSOLICITED;
	/* What comes unasked needs memory, even if the command will not use all of it. */
	if (t->fault == FAULT_NONE && (p->data_bytes > 0 || t->is_unsolicited) && max > t->room)
		t->room = t->is_unsolicited ? max : p->data_bytes;
	if (t->room < t->needed)
		t->room = t->needed;
}

enum iscsi_place target_data_immediate(struct target_task *t)
{
	if (t->fault == FAULT_NONE && !target_task_take_memory(t, 0))
		t->fault = FAULT_BUSY;
	return t->fault == FAULT_NONE ? ISCSI_PLACE_MEMORY : ISCSI_PLACE_SKIP;
}

/* ---- Data-Out ------------------------------------------------------------------------------- */

/* The end of the sequence that is coming. */
static uint32_t sequence_end(const struct target_task *t)
{
	uint64_t burst = t->session->params.session.burst_bytes_max;
	uint64_t end = t->asked_from + burst * (t->r2t_done + 1);

	return end < t->needed ? (uint32_t)end : t->needed;
}

/* Sections 11.7.2 to 11.7.6, 11.8.4 and 13.14. */
static enum weft_reason check(struct target_task *t, const struct iscsi_pdu *p)
{
	uint64_t end = (uint64_t)p->offset + p->data_bytes;

	if (p->offset != t->received)
		return WEFT_R_ISCSI_DATA_ORDER;
	/* Section 7.9: as if the digest of an earlier one had been wrong. */
	if (p->data_sn != t->data_sn && t->fault == FAULT_NONE)
		t->fault = FAULT_DIGEST;
	if (p->ttt == ISCSI_TAG_NONE) {
		if (!t->is_unsolicited)
			return WEFT_R_ISCSI_DATA_ORDER;
		/* Whatever was wrong before: there is no memory for it. */
		if (end > unsolicited_max(t))
			t->fault = FAULT_UNSOLICITED;
		return end > t->expected ? WEFT_R_ISCSI_DATA_ORDER : WEFT_OK;
	}
	if (t->is_unsolicited || !t->is_asked || t->r2t_done == t->r2t_sent ||
	    p->ttt != target_task_ttt(t, t->r2t_done))
		return WEFT_R_ISCSI_DATA_ORDER;
	if (end > sequence_end(t) || p->is_final != (end == sequence_end(t)))
		return WEFT_R_ISCSI_DATA_ORDER;
	return WEFT_OK;
}

/*
 * Finds the task of a Data-Out, and checks it. False: the connection ends. c->arriving is NULL if
 * the data goes nowhere: its task has ended meanwhile, by its own fault or by an abort.
 */
static bool begin(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_task *t = target_task_find(c->session, a->pdu.itt);
	enum weft_reason reason;

	c->has_begun = true;
	c->arriving = NULL;
	if (!t || t->kind != TASK_SCSI || t->state != TASK_COLLECTING)
		return true;
	reason = check(t, &a->pdu);
	if (reason != WEFT_OK) {
		target_conn_reject(c, a, ISCSI_REJECT_PROTOCOL);
		target_conn_leave(c, reason);
		return false;
	}
	c->arriving = t;
	return true;
}

enum iscsi_place target_data_place(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_task *t;

	if (!begin(c, a))
		return ISCSI_PLACE_END;
	t = c->arriving;
	if (!t)
		return ISCSI_PLACE_SKIP;
	/* Unasked data before its CmdSN, or before memory was there for it. */
	if (t->fault == FAULT_NONE && !target_task_take_memory(t, 0))
		t->fault = FAULT_BUSY;
	/* A damaged sequence goes on, in its place. */
	return t->fault == FAULT_NONE || (t->fault == FAULT_DIGEST && t->span_count > 0)
		       ? ISCSI_PLACE_MEMORY
		       : ISCSI_PLACE_SKIP;
}

void target_data_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_task *t;

	if (!c->has_begun && !begin(c, a))
		return;
	t = c->arriving;
	c->arriving = NULL;
	if (a->reason == WEFT_R_ISCSI_DATA_DIGEST)
		target_conn_reject(c, a, ISCSI_REJECT_DATA_DIGEST);
	if (!t)
		return;
	if (t->state == TASK_ENDING) { /* aborted while its data came */
		if (t->kind != TASK_NUMBER)
			target_task_free(t);
		return;
	}
	if (a->reason == WEFT_R_ISCSI_DATA_DIGEST && t->fault == FAULT_NONE)
		t->fault = FAULT_DIGEST;
	t->received += a->pdu.data_bytes;
	t->data_sn++;
	if (!a->pdu.is_final)
		return;
	t->data_sn = 0;
	if (a->pdu.ttt == ISCSI_TAG_NONE)
		t->is_unsolicited = false;
	else
		t->r2t_done++;
	target_task_step(t);
}
