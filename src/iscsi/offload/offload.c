/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/offload/offload_inside.h"

#include <stdlib.h>

#include "base/check.h"

enum { BYTES_DEFAULT = 8192, FIRST_BURST_DEFAULT = 65536, BURST_DEFAULT = 262144 };

/*
 * The moves of a stream. From OPEN it goes to CLOSING in good order, and to CLOSED when the target
 * closes its direction first. iSCSI has no message that would tell an error: it ends in ABORTED.
 */
static const struct {
	const char *name;
	uint32_t moves;
} states[OFFLOAD_STATES] = {
	[OFFLOAD_OPEN] = { "OPEN",
			   1U << OFFLOAD_CLOSING | 1U << OFFLOAD_CLOSED | 1U << OFFLOAD_ABORTED },
	[OFFLOAD_CLOSING] = { "CLOSING", 1U << OFFLOAD_CLOSED | 1U << OFFLOAD_ABORTED },
	[OFFLOAD_CLOSED] = { "CLOSED", 0 },
	[OFFLOAD_ABORTED] = { "ABORTED", 0 },
};

static void offload_move(struct iscsi_offload *s, enum offload_state to)
{
	CHECK(states[s->state].moves & 1U << to);
	trace_add(s->adapter->trace, (struct trace_event){
					     .kind = TRACE_ISCSI_STATE,
					     .who = s->number,
					     .a = s->state,
					     .b = to,
				     });
	s->state = to;
	s->rx.deadline_ns = UINT64_MAX;
	offload_attention(s);
}

void offload_attention(struct iscsi_offload *s)
{
	if (!list_is_linked(&s->attention_link))
		list_add_tail(s->attention, &s->attention_link);
}

struct iscsi_offload *iscsi_offload_attend(struct list *attention)
{
	if (list_is_empty(attention))
		return NULL;
	return CONTAINER_OF(list_pop(attention), struct iscsi_offload, attention_link);
}

struct iscsi_offload *iscsi_offload_last(const struct list *attention)
{
	if (list_is_empty(attention))
		return NULL;
	return CONTAINER_OF(attention->prev, struct iscsi_offload, attention_link);
}

void iscsi_offload_again(struct iscsi_offload *s)
{
	offload_attention(s);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static const struct transport offload_transport;

static const struct iscsi_framing_calls framing_calls = {
	.place = offload_rx_place,
	.sink = offload_rx_sink,
	.take = offload_rx_take,
	.source = offload_tx_source,
	.taken = offload_tx_taken,
};

static uint32_t value_or(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

static void set_terms(struct iscsi_offload *s, const struct weft_iscsi_terms *terms)
{
	struct weft_iscsi_terms *t = &s->terms;

	*t = *terms;
	t->recv_bytes_max = value_or(t->recv_bytes_max, BYTES_DEFAULT);
	t->send_bytes_max = value_or(t->send_bytes_max, BYTES_DEFAULT);
	t->first_burst_bytes = value_or(t->first_burst_bytes, FIRST_BURST_DEFAULT);
	t->burst_bytes_max = value_or(t->burst_bytes_max, BURST_DEFAULT);
	iscsi_framing_set(s->framing, &(struct iscsi_framing_terms){
					      .has_header_digest = t->has_header_digest,
					      .has_data_digest = t->has_data_digest,
					      .recv_bytes_max = t->recv_bytes_max,
				      });
}

static enum weft_reason allocate(struct iscsi_offload *s, uint32_t commands_max)
{
	const struct iscsi_framing_config config = {
		.side = ISCSI_INITIATOR,
		.calls = &framing_calls,
		.owner = s,
	};

	s->tx.r2ts_max = commands_max + R2TS_SPARE;
	s->tx.r2ts = calloc(s->tx.r2ts_max, sizeof(*s->tx.r2ts));
	if (!s->tx.r2ts)
		return WEFT_R_NO_MEMORY;
	return iscsi_framing_create(&config, &s->framing);
}

enum weft_reason iscsi_offload_create(struct weft_qp *qp, const struct iscsi_offload_config *config,
				      struct iscsi_offload **stream)
{
	static const struct weft_iscsi_terms defaults;
	struct iscsi_offload *s;
	enum weft_reason r;

	if (qp->service != WEFT_ISCSI)
		return WEFT_R_WR_SERVICE;
	if (qp->state > WEFT_QPS_INIT)
		return WEFT_R_QP_STATE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return WEFT_R_NO_MEMORY;
	s->number = qp->number;
	s->adapter = qp->adapter;
	s->attention = config->attention;
	s->owner = config->owner;
	s->close_wait_ns = config->close_wait_ns;
	s->close_ns = UINT64_MAX;
	s->rx.deadline_ns = UINT64_MAX;
	list_init(&s->attention_link);
	r = allocate(s, qp->outstanding_max);
	if (r != WEFT_OK) {
		iscsi_offload_destroy(s);
		return r;
	}
	set_terms(s, &defaults);
	s->qp = qp;
	qp_attach(qp, &offload_transport, s);
	offload_attention(s);
	*stream = s;
	return WEFT_OK;
}

void iscsi_offload_destroy(struct iscsi_offload *s)
{
	if (s->qp)
		iscsi_offload_lost(s);
	list_remove(&s->attention_link);
	if (s->framing)
		iscsi_framing_destroy(s->framing);
	free(s->tx.r2ts);
	free(s);
}

void *iscsi_offload_owner(const struct iscsi_offload *s)
{
	return s->owner;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* Fails the queue pair, if it is still attached. Its call back into the stream only detaches it. */
static void fail_qp(struct iscsi_offload *s, enum weft_reason reason)
{
	if (s->qp)
		qp_fail(s->qp, reason);
	CHECK(!s->qp);
}

void offload_abort(struct iscsi_offload *s, enum weft_reason reason)
{
	if (s->state >= OFFLOAD_CLOSED)
		return;
	offload_move(s, OFFLOAD_ABORTED);
	fail_qp(s, reason);
}

void iscsi_offload_refuse(struct iscsi_offload *s, enum weft_reason reason)
{
	offload_abort(s, reason);
}

void iscsi_offload_lost(struct iscsi_offload *s)
{
	offload_abort(s, WEFT_R_STREAM_LOST);
}

void iscsi_offload_eof(struct iscsi_offload *s, uint64_t now_ns)
{
	(void)now_ns;
	s->is_peer_done = true;
	if (s->state == OFFLOAD_OPEN) {
		bool is_cut = iscsi_framing_is_amid(s->framing);

		offload_move(s, OFFLOAD_CLOSED);
		fail_qp(s, is_cut ? WEFT_R_STREAM_CUT : WEFT_R_PEER_GONE);
	} else if (s->state == OFFLOAD_CLOSING && !s->is_shut_due) {
		offload_move(s, OFFLOAD_CLOSED);
	}
	offload_attention(s);
}

/* The queue pair detaches. If the stream caused this, it has left OPEN already. */
static void offload_down(struct weft_qp *qp, enum weft_reason why)
{
	struct iscsi_offload *s = qp->stream;

	s->qp = NULL;
	list_remove(&qp->absent_link);
	if (s->state != OFFLOAD_OPEN)
		return;
	if (why != WEFT_R_PEER_GONE) {
		offload_move(s, OFFLOAD_ABORTED);
		return;
	}
	offload_move(s, OFFLOAD_CLOSING);
	s->is_shut_due = true;
}

/* ---- Deadlines and actions ------------------------------------------------------------------ */

/* The call that ended the stream had no clock: the time begins at the next one that has. */
static bool is_close_wait_due(const struct iscsi_offload *s)
{
	return s->state == OFFLOAD_CLOSING && s->close_ns == UINT64_MAX;
}

uint64_t iscsi_offload_due(const struct iscsi_offload *s)
{
	if (is_close_wait_due(s))
		return 0;
	return s->rx.deadline_ns < s->close_ns ? s->rx.deadline_ns : s->close_ns;
}

void iscsi_offload_expire(struct iscsi_offload *s, uint64_t now_ns)
{
	if (is_close_wait_due(s))
		s->close_ns = now_ns + s->close_wait_ns;
	if (s->close_ns <= now_ns && s->state < OFFLOAD_CLOSED)
		offload_move(s, OFFLOAD_ABORTED);
	else if (s->rx.deadline_ns <= now_ns)
		offload_abort(s, WEFT_R_RECEIVER_NOT_READY);
}

enum iscsi_offload_action iscsi_offload_action(struct iscsi_offload *s)
{
	if (s->state == OFFLOAD_CLOSING && s->is_shut_due) {
		s->is_shut_due = false;
		if (!s->is_peer_done)
			return ISCSI_OFFLOAD_SHUT;
		offload_move(s, OFFLOAD_CLOSED);
	}
	if (s->state == OFFLOAD_CLOSED)
		return ISCSI_OFFLOAD_CLOSE;
	return s->state == OFFLOAD_ABORTED ? ISCSI_OFFLOAD_ABORT : ISCSI_OFFLOAD_NOTHING;
}

bool iscsi_offload_is_open(const struct iscsi_offload *s)
{
	return s->state == OFFLOAD_OPEN;
}

const char *iscsi_offload_state_name(uint64_t state)
{
	return state < OFFLOAD_STATES ? states[state].name : "unknown";
}

struct iscsi_offload_counts iscsi_offload_counts(const struct iscsi_offload *s)
{
	const struct iscsi_framing_counts *c = iscsi_framing_counts(s->framing);

	return (struct iscsi_offload_counts){
		.pdus_in = c->pdus_in,
		.pdus_out = c->pdus_out,
		.bytes_in = c->bytes_in,
		.bytes_out = c->bytes_out,
		.data_in = c->data_in,
		.data_out = c->data_out,
		.data_copied = c->data_copied,
	};
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* The framing may have ended by itself: a digest is wrong, or memory has gone. */
static void look_after(struct iscsi_offload *s)
{
	enum weft_reason reason = iscsi_framing_reason(s->framing);

	if (s->state == OFFLOAD_OPEN && reason != WEFT_OK)
		offload_abort(s, reason);
}

bool iscsi_offload_wants(const struct iscsi_offload *s)
{
	if (s->state == OFFLOAD_CLOSING)
		return true;
	return s->state == OFFLOAD_OPEN && iscsi_framing_wants(s->framing);
}

void iscsi_offload_want(struct iscsi_offload *s, uint64_t now_ns, struct span_list *l)
{
	l->count = 0;
	l->length = 0;
	l->may_go = false;
	if (s->state == OFFLOAD_CLOSING)
		(void)span_list_add(l, s->rx.scratch, sizeof(s->rx.scratch));
	if (s->state != OFFLOAD_OPEN)
		return;
	iscsi_framing_want(s->framing, now_ns, l);
	look_after(s);
	if (s->state != OFFLOAD_OPEN)
		l->count = 0;
}

void iscsi_offload_got(struct iscsi_offload *s, uint64_t now_ns, const struct span_list *l,
		       size_t n)
{
	if (s->state != OFFLOAD_OPEN)
		return; /* the receive queue is gone */
	iscsi_framing_got(s->framing, now_ns, l, n);
	look_after(s);
	offload_tx_fill(s);
}

void iscsi_offload_sink_gone(struct iscsi_offload *s)
{
	iscsi_framing_sink_gone(s->framing);
	look_after(s);
}

void iscsi_offload_have(struct iscsi_offload *s, uint64_t now_ns, struct span_list *l)
{
	l->count = 0;
	l->length = 0;
	l->may_go = false;
	if (s->state != OFFLOAD_OPEN)
		return;
	iscsi_framing_have(s->framing, now_ns, l);
	look_after(s);
	if (s->state != OFFLOAD_OPEN)
		l->count = 0;
}

void iscsi_offload_sent(struct iscsi_offload *s, uint64_t now_ns, size_t n)
{
	if (s->state != OFFLOAD_OPEN)
		return;
	iscsi_framing_sent(s->framing, now_ns, n);
	offload_tx_fill(s);
}

void iscsi_offload_source_gone(struct iscsi_offload *s)
{
	iscsi_framing_source_gone(s->framing);
	look_after(s);
}

/* ---- Memory --------------------------------------------------------------------------------- */

enum weft_reason offload_list_spans(struct iscsi_offload *s, struct stretch part,
				    struct mem_span *spans, uint32_t *count)
{
	enum weft_reason r;

	part.can_wait = true;
	r = qp_segments_spans(s->qp, &part, spans, *count, count);
	if (r != WEFT_R_SPACE_UNMAPPED)
		return r;
	if (!qp_segments_will_come(s->qp, &part))
		return WEFT_R_SPACE_MAPPING;
	qp_await_memory(s->qp);
	return r;
}

enum weft_reason offload_spans(struct iscsi_offload *s, const struct command *c,
			       const struct stretch *part, struct mem_span *spans, uint32_t *count)
{
	struct mem_access access = {
		.addr = part->offset,
		.length = part->length,
		.tag = c->tag,
		.kind = part->kind,
	};
	const struct stretch elements = {
		.sges = c->sges,
		.count = c->sge_count,
		.kind = part->kind == MEM_DATA_IN ? MEM_LOCAL_WRITE : MEM_LOCAL_READ,
		.offset = part->offset,
		.length = part->length,
	};
	struct mem_grant grant;
	enum weft_reason r = qp_access(s->qp, &access, &grant);

	if (r != WEFT_OK)
		return r;
	if (!grant.space)
		return offload_list_spans(s, elements, spans, count);
	*count = mem_grant_spans(&grant, spans, *count);
	return WEFT_OK;
}

bool offload_command_over(struct iscsi_offload *s, struct command *c)
{
	static const struct outcome good = { .status = WEFT_SUCCESS };
	enum weft_reason r = iscsi_framing_void(s->framing, c->id);

	if (r != WEFT_OK) {
		offload_abort(s, r);
		return false;
	}
	if (c->is_posted) /* it was answered before all of its data had left */
		send_queue_end(s->qp, send_queue_at(&s->qp->sq, c->wqe_slot), &good);
	commands_end(s->qp, c);
	return true;
}

/* ---- Public calls --------------------------------------------------------------------------- */

static bool is_in_range(uint32_t bytes)
{
	return bytes == 0 || (bytes >= 512 && bytes <= ISCSI_DATA_MAX);
}

enum weft_reason iscsi_offload_set(struct weft_qp *qp, const struct weft_iscsi_terms *terms)
{
	struct iscsi_offload *s = qp->stream;

	if (qp->service != WEFT_ISCSI)
		return WEFT_R_WR_SERVICE;
	if (!s)
		return WEFT_R_QP_UNCONNECTED;
	if (!is_in_range(terms->recv_bytes_max) || !is_in_range(terms->send_bytes_max) ||
	    !is_in_range(terms->first_burst_bytes) || !is_in_range(terms->burst_bytes_max))
		return WEFT_R_ISCSI_VALUE;
	set_terms(s, terms);
	if (s->rx.is_held) {
		s->rx.is_released = true;
		qp_ready(qp);
	}
	return WEFT_OK;
}

enum weft_reason iscsi_offload_query(const struct weft_qp *qp, struct weft_iscsi_attr *attr)
{
	const struct iscsi_offload *s = qp->stream;

	if (qp->service != WEFT_ISCSI)
		return WEFT_R_WR_SERVICE;
	if (!s)
		return WEFT_R_QP_UNCONNECTED;
	*attr = s->counts;
	attr->terms = s->terms;
	attr->exp_stat_sn = s->rx.exp_stat_sn;
	attr->commands_open = qp->commands->ids.used;
	return WEFT_OK;
}

enum weft_reason iscsi_offload_tag(const struct weft_qp *qp, uint32_t command_id, uint32_t *tag)
{
	const struct command *c;

	if (qp->service != WEFT_ISCSI)
		return WEFT_R_WR_SERVICE;
	c = commands_find(qp, command_id);
	if (!c || c->tag == 0)
		return WEFT_R_ISCSI_COMMAND;
	*tag = c->tag;
	return WEFT_OK;
}

enum weft_reason iscsi_offload_end(struct weft_qp *qp, uint32_t command_id)
{
	struct command *c;

	if (qp->service != WEFT_ISCSI)
		return WEFT_R_WR_SERVICE;
	c = commands_find(qp, command_id);
	if (!c)
		return WEFT_R_ISCSI_COMMAND;
	if (c->is_posted)
		return WEFT_R_BUSY;
	(void)offload_command_over(qp->stream, c);
	return WEFT_OK;
}

/* ---- The transport's face to the verbs ------------------------------------------------------ */

/* The target's limit of a data segment, as it is when the request is posted. */
static enum weft_reason offload_check(const struct weft_qp *qp, const struct weft_send_wr *wr)
{
	const struct iscsi_offload *s = qp->stream;
	uint64_t length = 0;

	if (wr->opcode != WEFT_OP_ISCSI_CONTROL)
		return WEFT_OK;
	for (uint32_t i = 0; i < wr->sge_count; i++)
		length += wr->sges[i].length;
	return length <= s->terms.send_bytes_max ? WEFT_OK : WEFT_R_ISCSI_DATA_LIMIT;
}

/* Whether what the PDU at hand waits for may be there. */
static bool can_go_on(struct iscsi_offload *s, bool has_changed)
{
	struct offload_rx *rx = &s->rx;

	if (rx->is_held)
		return rx->is_released;
	if (rx->is_absent)
		return has_changed;
	if (rx->is_crowded)
		return offload_tx_can_answer(s);
	if (!rx->is_waiting)
		return false;
	if (qp_has_receive(s->qp))
		return true;
	qp_await_receive(s->qp, qp_recv_queue(s->qp)); /* another took it from a shared queue */
	return false;
}

/* The queue pair has changed: receives, terms, pages. */
static void offload_advance(struct weft_qp *qp, uint64_t now_ns)
{
	struct iscsi_offload *s = qp->stream;
	bool has_changed = !list_is_linked(&qp->absent_link);

	if (s->state != OFFLOAD_OPEN)
		return;
	if (s->tx.is_absent && has_changed) {
		s->tx.is_absent = false;
		offload_attention(s);
	}
	if (can_go_on(s, has_changed)) {
		s->rx.is_absent = false;
		s->rx.is_waiting = false;
		s->rx.is_crowded = false;
		s->rx.deadline_ns = UINT64_MAX;
		offload_attention(s);
		iscsi_framing_resume(s->framing, now_ns);
		look_after(s);
	}
	offload_tx_fill(s);
}

static const struct transport offload_transport = {
	.check = offload_check,
	.issue = offload_tx_issue,
	.advance = offload_advance,
	.down = offload_down,
};
