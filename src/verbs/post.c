/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/reserved.h"
#include "verbs/ah.h"
#include "verbs/commands.h"
#include "verbs/ee.h"
#include "verbs/qp.h"

enum {
	RC = 1 << WEFT_RC,
	UC = 1 << WEFT_UC,
	RD = 1 << WEFT_RD,
	UD = 1 << WEFT_UD,
	ISCSI = 1 << WEFT_ISCSI,
	ANY_FLAGS = WEFT_SIGNALLED | WEFT_FENCE,
	MESSAGE_FLAGS = ANY_FLAGS | WEFT_SOLICITED | WEFT_INLINE,
	WRITE_FLAGS = ANY_FLAGS | WEFT_INLINE | WEFT_UNHURRIED,
};

/* QP-07: the operations, which services have them, which flags go with them. */
static const struct {
	const char *name;
	uint8_t services;
	uint8_t flags;
	bool has_segments;
} ops[WEFT_OP_SEND_COUNT] = {
	[WEFT_OP_SEND] = { "Send", RC | UC | RD | UD, MESSAGE_FLAGS, true },
	[WEFT_OP_SEND_IMM] = { "Send with immediate", RC | UC | RD | UD, MESSAGE_FLAGS, true },
	[WEFT_OP_SEND_INVALIDATE] = { "Send with invalidate", RC | RD, MESSAGE_FLAGS, true },
	[WEFT_OP_WRITE] = { "Write", RC | UC | RD, WRITE_FLAGS, true },
	[WEFT_OP_WRITE_IMM] = { "Write with immediate", RC | UC | RD,
				MESSAGE_FLAGS | WEFT_UNHURRIED, true },
	[WEFT_OP_READ] = { "Read", RC | RD, ANY_FLAGS, true },
	[WEFT_OP_COMPARE_SWAP] = { "Compare and swap", RC | RD, ANY_FLAGS, true },
	[WEFT_OP_FETCH_ADD] = { "Fetch and add", RC | RD, ANY_FLAGS, true },
	[WEFT_OP_BIND] = { "Bind", RC | UC | RD, ANY_FLAGS, false },
	[WEFT_OP_INVALIDATE] = { "Invalidate", RC | UC | RD, ANY_FLAGS, false },
	[WEFT_OP_REGISTER] = { "Register", RC | UC | RD, ANY_FLAGS, false },
	[WEFT_OP_REGISTER_SEND] = { "Register and send", RC | UC | RD, MESSAGE_FLAGS, true },
	[WEFT_OP_DELAY] = { "Delay", RC | UC | RD | UD | ISCSI, ANY_FLAGS, false },
	[WEFT_OP_ISCSI_COMMAND] = { "iSCSI command", ISCSI, WEFT_SIGNALLED, true },
	[WEFT_OP_ISCSI_CONTROL] = { "iSCSI control", ISCSI, WEFT_SIGNALLED | WEFT_INLINE, true },
};

const char *weft_opcode_name(enum weft_opcode opcode)
{
	if ((unsigned int)opcode < WEFT_OP_SEND_COUNT)
		return ops[opcode].name;
	switch (opcode) {
	case WEFT_OP_RECV:
		return "Receive";
	case WEFT_OP_RECV_WRITE_IMM:
		return "Receive of a Write's immediate";
	case WEFT_OP_RECV_ISCSI:
		return "Receive of an iSCSI PDU";
	case WEFT_OP_RECV_ISCSI_DATA:
		return "Receive of a Data-In";
	case WEFT_OP_RECV_ISCSI_R2T:
		return "Receive of an R2T";
	case WEFT_OP_RECV_ISCSI_RESPONSE:
		return "Receive of a SCSI Response";
	default:
		return "unknown";
	}
}

static enum weft_reason check_segments(const struct weft_qp *qp, const struct weft_send_wr *wr,
				       uint64_t *length)
{
	bool is_atomic = wr->opcode == WEFT_OP_COMPARE_SWAP || wr->opcode == WEFT_OP_FETCH_ADD;

	*length = 0;
	if (wr->sge_count > (ops[wr->opcode].has_segments ? qp->sq.sges_max : 0))
		return WEFT_R_WR_SGES;
	if (wr->sge_count > 0 && !wr->sges)
		return WEFT_R_NULL_ARGUMENT;
	for (uint32_t i = 0; i < wr->sge_count; i++) {
		if ((wr->flags & WEFT_INLINE) && wr->sges[i].length > 0 && !wr->sges[i].addr)
			return WEFT_R_NULL_ARGUMENT;
		*length += wr->sges[i].length;
	}
	if (*length > WEFT_MESSAGE_MAX || (is_atomic && *length != 8))
		return WEFT_R_WR_LENGTH;
	if ((wr->flags & WEFT_INLINE) && *length > qp->sq.inline_max)
		return WEFT_R_WR_INLINE;
	return WEFT_OK;
}

/* What is reserved in the parts of a request that its operation uses. */
static bool are_parts_zero(const struct weft_send_wr *wr)
{
	const struct weft_region_options *region = &wr->reg.region;

	if (wr->opcode == WEFT_OP_BIND)
		return RESERVED_IS_ZERO(&wr->bind);
	if (wr->opcode != WEFT_OP_REGISTER && wr->opcode != WEFT_OP_REGISTER_SEND)
		return true;
	return RESERVED_IS_ZERO(&wr->reg) && RESERVED_IS_ZERO(region) &&
	       (!region->pages || RESERVED_IS_ZERO(region->pages));
}

static enum weft_reason check_request(const struct weft_qp *qp, const struct weft_send_wr *wr,
				      uint64_t *length)
{
	enum weft_reason r;

	if ((unsigned int)wr->opcode >= WEFT_OP_SEND_COUNT)
		return WEFT_R_WR_OPCODE;
	if (!RESERVED_IS_ZERO(wr) || !are_parts_zero(wr))
		return WEFT_R_RESERVED;
	if (!(ops[wr->opcode].services & 1 << qp->service))
		return WEFT_R_WR_SERVICE;
	if (wr->flags & ~(uint32_t)ops[wr->opcode].flags)
		return WEFT_R_WR_FLAGS;
	if (qp->state < WEFT_QPS_RTS)
		return WEFT_R_WR_STATE;
	if (wr->ah && qp->service == WEFT_UD && wr->ah->pd != qp->pd)
		return WEFT_R_TAG_PD;
	r = check_segments(qp, wr, length);
	if (r == WEFT_OK && qp->service == WEFT_ISCSI && wr->opcode != WEFT_OP_DELAY)
		r = commands_check(qp, wr, length);
	if (r == WEFT_OK)
		r = qp->transport->check(qp, wr);
	if (r != WEFT_OK)
		return r;
	return qp->sq.count < qp->sq.max ? WEFT_OK : WEFT_R_QUEUE_FULL;
}

/* Whether it asks for a tag, rather than bring one. */
static bool wants_tag(const struct weft_send_wr *wr)
{
	if (wr->opcode == WEFT_OP_BIND)
		return wr->bind.tag == 0;
	if (wr->opcode == WEFT_OP_ISCSI_COMMAND)
		return true;
	return (wr->opcode == WEFT_OP_REGISTER || wr->opcode == WEFT_OP_REGISTER_SEND) &&
	       wr->reg.tag == 0;
}

/* The tags that posting promises. The last step that can refuse, so nothing needs undoing. */
static enum weft_reason promise_tag(struct weft_qp *qp, struct weft_send_wr *wr)
{
	struct mem_table *mem = &qp->adapter->mem;

	switch (wr->opcode) {
	case WEFT_OP_BIND:
		return mem_window_promise(mem, qp->pd->number, &wr->bind);
	case WEFT_OP_REGISTER:
	case WEFT_OP_REGISTER_SEND:
		/* Another space could be gone by the time the request is carried out. */
		if (wr->reg.region.space && wr->reg.region.space != qp->pd->space)
			return WEFT_R_REG_SPACE;
		if (wr->reg.tag == 0)
			return mem_tag_reserve(mem, qp->pd->number, &wr->reg.tag);
		return WEFT_OK;
	case WEFT_OP_ISCSI_COMMAND:
		return commands_begin(qp, wr);
	default:
		return WEFT_OK;
	}
}

static void copy_inline(const struct weft_send_wr *wr, uint8_t *to)
{
	for (uint32_t i = 0; i < wr->sge_count; i++) {
		const struct weft_sge *s = &wr->sges[i];

		if (s->length > 0)
			memcpy(to, (const void *)(uintptr_t)s->addr, s->length);
		to += s->length;
	}
}

/* Whether the peer needs a receive for it. */
static bool takes_receive(enum weft_opcode opcode)
{
	return opcode == WEFT_OP_SEND || opcode == WEFT_OP_SEND_IMM ||
	       opcode == WEFT_OP_SEND_INVALIDATE || opcode == WEFT_OP_WRITE_IMM ||
	       opcode == WEFT_OP_REGISTER_SEND;
}

/* What Register, and requests of iSCSI, have beside their segments. */
static void enqueue_parts(struct weft_qp *qp, const struct weft_send_wr *wr, struct send_wqe *wqe)
{
	struct send_queue *q = &qp->sq;

	if (wr->opcode == WEFT_OP_REGISTER || wr->opcode == WEFT_OP_REGISTER_SEND) {
		wqe->register_tag = wr->reg.tag;
		if (q->register_at > 0) {
			*wqe_region(q, wqe) = wr->reg.region;
			wqe_region(q, wqe)->space = NULL;
		}
	}
	if (wr->opcode == WEFT_OP_ISCSI_COMMAND) {
		/* Its elements are with the command, which outlives this request. */
		wqe->command_id = wr->iscsi->command_id;
		wqe->sge_count = 0;
	} else if (wr->opcode == WEFT_OP_ISCSI_CONTROL) {
		/* What was checked: the program may have changed its own meanwhile. */
		memcpy(wqe_header(q, wqe), qp->commands->checked.bytes, WEFT_ISCSI_BHS_BYTES);
	}
}

static struct send_wqe *enqueue(struct weft_qp *qp, const struct weft_send_wr *wr, uint64_t length)
{
	struct send_queue *q = &qp->sq;
	struct send_wqe *wqe = send_queue_at(q, send_queue_slot(q, q->count));
	bool is_inline = wr->flags & WEFT_INLINE, is_bind = wr->opcode == WEFT_OP_BIND;

	*wqe = (struct send_wqe){
		.id = wr->id,
		.remote_addr = wr->remote_addr,
		.operand = wr->opcode == WEFT_OP_DELAY ? wr->delay_ns : wr->compare_add,
		.swap = wr->swap,
		.length = (uint32_t)length,
		.remote_tag = wr->remote_tag,
		.imm = wr->imm,
		.dest_qp_number = wr->dest_qp_number,
		.ee = wr->ee ? wr->ee->number : 0,
		.remote_q_key = wr->remote_q_key,
		.opcode = (uint8_t)wr->opcode,
		.flags = (uint8_t)wr->flags,
		.sge_count = is_inline ? 0 : (uint8_t)wr->sge_count,
	};
	if (qp->service == WEFT_UD)
		wqe->ah = wr->ah ? wr->ah->number : 0;
	if (wr->opcode == WEFT_OP_SEND_INVALIDATE || wr->opcode == WEFT_OP_INVALIDATE)
		wqe->invalidate_tag = wr->invalidate_tag;
	if (wr->opcode > WEFT_OP_BIND)
		enqueue_parts(qp, wr, wqe);
	if (is_bind)
		*wqe_bind(wqe) = wr->bind;
	else if (is_inline)
		copy_inline(wr, (uint8_t *)wqe->data);
	else if (wqe->sge_count > 0)
		memcpy(wqe_segments(wqe), wr->sges, wqe->sge_count * sizeof(*wr->sges));
	if (qp->dice) {
		wqe->is_doomed = opcode_is_carried(wr->opcode) &&
				 qp_fault_drawn(qp, FAULT_QP_ERROR);
		wqe->is_held_up = takes_receive(wr->opcode) && qp_fault_drawn(qp, FAULT_RNR);
	}
	q->count++;
	return wqe;
}

/* Queues requests up to the first bad one; *posted says how many. None begins yet. */
static enum weft_reason enqueue_list(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count,
				     uint32_t *posted)
{
	enum weft_reason r = WEFT_OK;
	uint32_t i;

	for (i = 0; i < count; i++) {
		bool has_tags = (unsigned int)wrs[i].opcode >= WEFT_OP_BIND;
		bool has_new_tag = has_tags && wants_tag(&wrs[i]);
		uint64_t length;

		r = check_request(qp, &wrs[i], &length);
		if (r == WEFT_OK && qp_fault_falls(qp, FAULT_POST_FULL))
			r = WEFT_R_QUEUE_FULL;
		if (r == WEFT_OK && has_tags)
			r = promise_tag(qp, &wrs[i]);
		if (r != WEFT_OK)
			break;
		enqueue(qp, &wrs[i], length)->has_new_tag = has_new_tag;
	}
	*posted = i;
	return r;
}

/* Takes the newest requests off the queue again, and what they were promised. */
static void take_back(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count)
{
	struct mem_table *mem = &qp->adapter->mem;
	struct send_queue *q = &qp->sq;

	while (count > 0) {
		struct send_wqe *wqe = send_queue_at(q, send_queue_slot(q, --q->count));
		struct weft_send_wr *wr = &wrs[--count];

		if (wqe->opcode == WEFT_OP_BIND)
			mem_window_forget(mem, wqe_bind(wqe));
		if (!wqe->has_new_tag)
			continue;
		if (wqe->opcode == WEFT_OP_BIND) {
			wr->bind.tag = 0;
		} else if (wqe->opcode == WEFT_OP_ISCSI_COMMAND) {
			commands_end(qp, commands_find(qp, wqe->command_id));
			wr->iscsi->command_id = 0;
		} else {
			(void)mem_tag_release(mem, qp->pd->number, wr->reg.tag);
			wr->reg.tag = 0;
		}
	}
}

enum weft_reason qp_post_send(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count,
			      uint32_t *posted)
{
	enum weft_reason r = enqueue_list(qp, wrs, count, posted);

	if (*posted > 0)
		qp_ready(qp);
	return r;
}

enum weft_reason qp_post_send_all(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count)
{
	uint32_t posted;
	enum weft_reason r = enqueue_list(qp, wrs, count, &posted);

	if (r != WEFT_OK)
		take_back(qp, wrs, posted);
	else if (posted > 0)
		qp_ready(qp);
	return r;
}
