/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/offload/offload_inside.h"

#include "base/check.h"
#include "base/deadline.h"

/* ---- Sequence numbers ----------------------------------------------------------------------- */

/* RFC 7143 section 4.2.2.2: whether its StatSN is its own, and the next PDU has the one behind. */
static bool has_stat_sn(const struct iscsi_pdu *p)
{
	switch (p->opcode) {
	case ISCSI_R2T:
		return false;
	case ISCSI_DATA_IN:
		return p->has_status;
	case ISCSI_NOP_IN:
		return p->itt != ISCSI_TAG_NONE;
	case ISCSI_LOGIN_RESPONSE:
		return p->status_class == 0; /* section 11.13.4: else it means nothing */
	default:
		return true;
	}
}

/* The first PDU that has one says where they begin. */
static bool is_stat_sn_next(const struct iscsi_offload *s, const struct iscsi_pdu *p)
{
	return !has_stat_sn(p) || !s->rx.has_stat_sn || p->stat_sn == s->rx.exp_stat_sn;
}

static void note_stat_sn(struct iscsi_offload *s, const struct iscsi_pdu *p)
{
	if (!has_stat_sn(p))
		return;
	s->rx.has_stat_sn = true;
	s->rx.exp_stat_sn = p->stat_sn + 1;
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* The elements of a command are checked as those of any request, when they are used. */
static enum weft_reason check_elements(struct iscsi_offload *s, const struct command *c,
				       enum mem_kind kind)
{
	const struct stretch all = {
		.sges = c->sges,
		.count = c->sge_count,
		.kind = kind == MEM_DATA_IN ? MEM_LOCAL_WRITE : MEM_LOCAL_READ,
	};
	enum weft_reason r = qp_segments_check(s->qp, &all);

	return r == WEFT_R_SPACE_UNMAPPED && qp_segments_will_come(s->qp, &all) ? WEFT_OK : r;
}

/* 05g: the command that the address field of its entry points to. */
static enum weft_reason find_command(struct iscsi_offload *s, uint32_t itt,
				     const struct command **c)
{
	uint32_t slot = mem_command_slot(&s->adapter->mem, itt);

	*c = commands_at(s->qp->commands, slot);
	return (*c)->tag == itt ? WEFT_OK : WEFT_R_ISCSI_ENTRY_COMMAND;
}

/* ISCSI-05, of Data-In or R2T. */
static void judge_data(struct iscsi_offload *s, const struct iscsi_pdu *p)
{
	struct offload_rx *rx = &s->rx;
	bool is_data_in = p->opcode == ISCSI_DATA_IN;
	struct mem_access access = {
		.addr = p->offset,
		.length = is_data_in ? p->data_bytes : p->desired_bytes,
		.tag = p->itt,
		.kind = is_data_in ? MEM_DATA_IN : MEM_R2T,
	};
	struct mem_grant grant;
	const struct command *c;
	enum weft_reason r = qp_access(s->qp, &access, &grant);

	if (r == WEFT_OK)
		r = find_command(s, p->itt, &c);
	if (r == WEFT_OK)
		r = check_elements(s, c, access.kind);
	if (r == WEFT_OK) {
		rx->command_id = c->id;
		rx->path = is_data_in ? RX_PLACED : RX_ASKED;
		return;
	}
	rx->reason = r;
	s->counts.refused++;
	qp_refused(s->qp, r, p->offset, p->itt);
}

/* ISCSI-01i. */
static enum weft_reason check_response(struct iscsi_offload *s, const struct iscsi_pdu *p,
				       const struct command **c)
{
	struct mem_access access = { .tag = p->itt, .kind = MEM_RESPONSE };
	struct mem_grant none;
	enum weft_reason r;

	if (!is_stat_sn_next(s, p))
		return WEFT_R_ISCSI_STAT_SN;
	r = qp_access(s->qp, &access, &none);
	return r == WEFT_OK ? find_command(s, p->itt, c) : r;
}

static void judge_response(struct iscsi_offload *s, const struct iscsi_pdu *p)
{
	struct offload_rx *rx = &s->rx;
	const struct command *c;

	rx->reason = check_response(s, p, &c);
	rx->path = rx->reason == WEFT_OK ? RX_ENDING : RX_DROPPED;
	if (rx->reason == WEFT_OK)
		rx->command_id = c->id;
}

/* Decides once where a PDU goes. */
static void judge(struct iscsi_offload *s, const struct iscsi_arrival *a)
{
	struct offload_rx *rx = &s->rx;

	if (rx->path != RX_UNKNOWN)
		return;
	rx->path = RX_CONSUMER;
	rx->reason = a->reason;
	rx->command_id = 0;
	rx->has_header = false;
	rx->is_whole = false;
	rx->offset = a->pdu.offset;
	rx->bytes = a->pdu.data_bytes;
	rx->header_bytes = a->header_bytes;
	if (a->reason != WEFT_OK)
		return; /* it is none: the data segment is skipped */
	switch (a->pdu.opcode) {
	case ISCSI_DATA_IN:
	case ISCSI_R2T:
		judge_data(s, &a->pdu);
		break;
	case ISCSI_SCSI_RESPONSE:
		judge_response(s, &a->pdu);
		break;
	default:
		if (!is_stat_sn_next(s, &a->pdu))
			rx->reason = WEFT_R_ISCSI_STAT_SN;
	}
	rx->is_whole = rx->path == RX_CONSUMER || rx->path == RX_ENDING;
}

/* ---- Receives ------------------------------------------------------------------------------- */

enum receive { RECEIVE_READY = 0, RECEIVE_WAIT, RECEIVE_END };

/* The receive is of no use: completes it in error, and the stream ends. */
static enum receive fail_receive(struct iscsi_offload *s, enum weft_status status,
				 enum weft_reason reason)
{
	struct weft_completion completion = {
		.status = status,
		.opcode = WEFT_OP_RECV_ISCSI,
		.reason = reason,
	};

	qp_recv_retire(s->qp, &completion, false);
	offload_abort(s, reason);
	return RECEIVE_END;
}

static enum receive claim_receive(struct iscsi_offload *s, uint64_t now_ns)
{
	struct weft_qp *qp = s->qp;

	if (qp->recv)
		return RECEIVE_READY;
	if (qp_has_receive(qp)) {
		qp_recv_claim(qp);
		return RECEIVE_READY;
	}
	if (qp->receiver_wait_ns == 0) {
		offload_abort(s, WEFT_R_RECEIVER_NOT_READY);
		return RECEIVE_END;
	}
	qp_await_receive(qp, qp_recv_queue(qp));
	s->rx.is_waiting = true;
	s->rx.deadline_ns = deadline_after(now_ns, qp->receiver_wait_ns);
	offload_attention(s);
	return RECEIVE_WAIT;
}

static enum receive check_receive(struct iscsi_offload *s, uint64_t bytes)
{
	const struct stretch all = qp_recv_stretch(s->qp);
	enum weft_reason r = qp_segments_check(s->qp, &all);
	uint64_t room = 0;

	if (r != WEFT_OK && !(r == WEFT_R_SPACE_UNMAPPED && qp_segments_will_come(s->qp, &all)))
		return fail_receive(s, WEFT_ERR_LOCAL_ACCESS, r);
	for (uint32_t i = 0; i < all.count; i++)
		room += all.sges[i].length;
	if (bytes > room)
		return fail_receive(s, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
	return RECEIVE_READY;
}

/* BHS and AHS, at the beginning of the receive. */
static enum receive write_header(struct iscsi_offload *s, const struct iscsi_arrival *a)
{
	struct stretch part = qp_recv_stretch(s->qp);

	part.length = a->header_bytes;
	/* Bound: each iteration writes some bytes. */
	while (part.length > 0) {
		struct mem_span spans[4];
		uint32_t count = sizeof(spans) / sizeof(spans[0]);
		enum weft_reason r = offload_list_spans(s, part, spans, &count);

		if (r == WEFT_R_SPACE_UNMAPPED) {
			s->rx.is_absent = true;
			offload_attention(s);
			return RECEIVE_WAIT;
		}
		for (uint32_t i = 0; r == WEFT_OK && i < count; i++) {
			if (!mem_span_write(&spans[i], a->header + part.offset))
				r = WEFT_R_MEMORY_GONE;
			part.offset += spans[i].length;
			part.length -= spans[i].length;
		}
		if (r != WEFT_OK)
			return fail_receive(s, WEFT_ERR_LOCAL_ACCESS, r);
	}
	return RECEIVE_READY;
}

/* Claims a receive that holds the header and so many bytes of data, and writes the header. */
static enum receive open_receive(struct iscsi_offload *s, const struct iscsi_arrival *a,
				 uint32_t data_bytes, uint64_t now_ns)
{
	enum receive result = claim_receive(s, now_ns);

	if (result != RECEIVE_READY || s->rx.has_header)
		return result;
	result = check_receive(s, (uint64_t)a->header_bytes + data_bytes);
	if (result == RECEIVE_READY)
		result = write_header(s, a);
	s->rx.has_header = result == RECEIVE_READY;
	return result;
}

/* ---- The framing's calls -------------------------------------------------------------------- */

enum iscsi_place offload_rx_place(void *owner, const struct iscsi_arrival *a, uint64_t now_ns)
{
	struct iscsi_offload *s = owner;

	judge(s, a);
	if (a->reason != WEFT_OK || s->rx.path == RX_DROPPED)
		return ISCSI_PLACE_SKIP;
	if (s->rx.path == RX_PLACED)
		return ISCSI_PLACE_MEMORY;
	switch (open_receive(s, a, a->pdu.data_bytes, now_ns)) {
	case RECEIVE_READY:
		return ISCSI_PLACE_MEMORY;
	case RECEIVE_WAIT:
		return ISCSI_PLACE_WAIT;
	case RECEIVE_END:
		break;
	}
	return ISCSI_PLACE_END;
}

/* ISCSI-06b; its command may have been ended meanwhile, and the rest is thrown away. */
static enum weft_reason sink_of_command(struct iscsi_offload *s, uint32_t offset,
					struct mem_span *spans, uint32_t *count)
{
	struct offload_rx *rx = &s->rx;
	const struct command *c = commands_find(s->qp, rx->command_id);
	const struct stretch part = {
		.kind = MEM_DATA_IN,
		.offset = (uint64_t)rx->offset + offset,
		.length = rx->bytes - offset,
	};

	if (c)
		return offload_spans(s, c, &part, spans, count);
	spans[0] = (struct mem_span){ .bytes = rx->scratch, .length = sizeof(rx->scratch) };
	*count = 1;
	return WEFT_OK;
}

enum weft_reason offload_rx_sink(void *owner, uint32_t offset, struct mem_span *spans,
				 uint32_t *count)
{
	struct iscsi_offload *s = owner;
	struct stretch part;
	enum weft_reason r;

	if (s->rx.path == RX_PLACED) {
		r = sink_of_command(s, offset, spans, count);
	} else {
		part = qp_recv_stretch(s->qp);
		part.offset = (uint64_t)s->rx.header_bytes + offset;
		part.length = s->rx.bytes - offset;
		r = offload_list_spans(s, part, spans, count);
	}
	s->rx.is_absent = r == WEFT_R_SPACE_UNMAPPED;
	if (s->rx.is_absent)
		offload_attention(s);
	return r;
}

/* ---- What a whole PDU does ------------------------------------------------------------------ */

/* ISCSI-01j: the command is over. False: the stream is, too. */
static bool end_command(struct iscsi_offload *s, const struct iscsi_pdu *p,
			struct weft_completion *completion)
{
	struct command *c = commands_find(s->qp, s->rx.command_id);

	note_stat_sn(s, p);
	s->counts.responses++;
	completion->has_invalidated = true;
	completion->invalidated_tag = p->itt;
	return offload_command_over(s, c);
}

/* ISCSI-06b, and ISCSI-07. */
static bool take_data(struct iscsi_offload *s, const struct iscsi_pdu *p,
		      struct weft_completion *completion)
{
	completion->opcode = WEFT_OP_RECV_ISCSI_DATA;
	s->counts.data_ins++;
	s->counts.bytes_placed += p->data_bytes;
	if (!p->has_status)
		return true;
	if (is_stat_sn_next(s, p))
		return end_command(s, p, completion);
	/* AMB-19: as data it is good, as a Response it is dropped. */
	completion->reason = WEFT_R_ISCSI_STAT_SN;
	s->counts.dropped++;
	return true;
}

/* ISCSI-06a. */
static void take_r2t(struct iscsi_offload *s, const struct iscsi_pdu *p,
		     struct weft_completion *completion)
{
	completion->opcode = WEFT_OP_RECV_ISCSI_R2T;
	s->counts.r2ts++;
	offload_tx_answer(s, &(struct burst){
				     .command_id = s->rx.command_id,
				     .ttt = p->ttt,
				     .lun = p->lun,
				     .offset = p->offset,
				     .left = p->desired_bytes,
			     });
}

/* False: the stream has ended. */
static bool take_by_path(struct iscsi_offload *s, const struct iscsi_arrival *a,
			 struct weft_completion *completion)
{
	switch (s->rx.path) {
	case RX_PLACED:
		return take_data(s, &a->pdu, completion);
	case RX_ASKED:
		take_r2t(s, &a->pdu, completion);
		return true;
	case RX_ENDING:
		completion->opcode = WEFT_OP_RECV_ISCSI_RESPONSE;
		return end_command(s, &a->pdu, completion);
	default:
		s->counts.controls_in++;
		if (s->rx.reason == WEFT_OK)
			note_stat_sn(s, &a->pdu);
		return true;
	}
}

/* What has changed since it was judged: damage, or the end of its command by its consumer. */
static void judge_again(struct iscsi_offload *s, const struct iscsi_arrival *a)
{
	struct offload_rx *rx = &s->rx;

	if (rx->path == RX_CONSUMER || rx->path == RX_DROPPED) {
		if (a->reason != WEFT_OK)
			rx->reason = a->reason;
		return;
	}
	if (a->reason == WEFT_OK && commands_find(s->qp, rx->command_id))
		return;
	rx->reason = a->reason != WEFT_OK ? a->reason : WEFT_R_ISCSI_ENTRY_INVALID;
	rx->path = RX_CONSUMER;
}

/* RFC 7143 section 11.13.3: the login has ended well, and other terms may hold from here on. */
static bool ends_login(const struct iscsi_offload *s, const struct iscsi_pdu *p)
{
	return s->rx.reason == WEFT_OK && p->opcode == ISCSI_LOGIN_RESPONSE && p->is_final &&
	       p->status_class == 0 && p->nsg == ISCSI_STAGE_FULL_FEATURE;
}

static enum iscsi_take drop(struct iscsi_offload *s, uint32_t itt)
{
	s->counts.dropped++;
	trace_add(s->adapter->trace, (struct trace_event){
					     .kind = TRACE_RESPONSE_DROPPED,
					     .who = s->number,
					     .a = itt,
					     .reason = (uint16_t)s->rx.reason,
				     });
	s->rx.path = RX_UNKNOWN;
	return ISCSI_TAKE_NEXT;
}

/* Delivers a PDU for which the receive is ready. */
static enum iscsi_take deliver(struct iscsi_offload *s, const struct iscsi_arrival *a)
{
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV_ISCSI,
		.reason = s->rx.reason,
		.command_id = s->rx.command_id,
	};
	bool is_login = ends_login(s, &a->pdu);

	completion.byte_count = a->header_bytes + (s->rx.is_whole ? s->rx.bytes : 0);
	if (!take_by_path(s, a, &completion))
		return ISCSI_TAKE_END;
	s->rx.path = RX_UNKNOWN;
	qp_recv_retire(s->qp, &completion, false);
	s->rx.is_held = is_login;
	if (is_login)
		offload_attention(s);
	return is_login ? ISCSI_TAKE_WAIT : ISCSI_TAKE_NEXT;
}

enum iscsi_take offload_rx_take(void *owner, const struct iscsi_arrival *a, uint64_t now_ns)
{
	struct iscsi_offload *s = owner;
	struct offload_rx *rx = &s->rx;

	if (rx->is_held) {
		if (!rx->is_released)
			return ISCSI_TAKE_WAIT;
		rx->is_held = false;
		rx->is_released = false;
		return ISCSI_TAKE_NEXT;
	}
	judge(s, a);
	judge_again(s, a);
	if (rx->path == RX_DROPPED)
		return drop(s, a->pdu.itt);
	if (rx->path == RX_ASKED && !offload_tx_can_answer(s)) {
		rx->is_crowded = true;
		offload_attention(s);
		return ISCSI_TAKE_WAIT;
	}
	switch (open_receive(s, a, rx->is_whole ? rx->bytes : 0, now_ns)) {
	case RECEIVE_READY:
		return deliver(s, a);
	case RECEIVE_WAIT:
		return ISCSI_TAKE_WAIT;
	case RECEIVE_END:
		break;
	}
	return ISCSI_TAKE_END;
}
