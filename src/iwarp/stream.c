/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <stdlib.h>

#include "base/check.h"

/*
 * The moves of a stream. From OPEN it goes to TERMINATING after an error that a Terminate can
 * report, or to CLOSING in good order. Both end when the peer has closed its direction, or when the
 * time is over.
 */
static const struct {
	const char *name;
	uint32_t moves;
} states[STREAM_STATES] = {
	[STREAM_OPEN] = { "OPEN", 1U << STREAM_TERMINATING | 1U << STREAM_CLOSING |
					  1U << STREAM_CLOSED | 1U << STREAM_ABORTED },
	[STREAM_TERMINATING] = { "TERMINATING", 1U << STREAM_CLOSING | 1U << STREAM_CLOSED |
							1U << STREAM_ABORTED },
	[STREAM_CLOSING] = { "CLOSING", 1U << STREAM_CLOSED | 1U << STREAM_ABORTED },
	[STREAM_CLOSED] = { "CLOSED", 0 },
	[STREAM_ABORTED] = { "ABORTED", 0 },
};

static void stream_move(struct iwarp_stream *s, enum stream_state to)
{
	CHECK(states[s->state].moves & 1U << to);
	trace_add(s->adapter->trace, (struct trace_event){
					     .kind = TRACE_STREAM_STATE,
					     .who = s->number,
					     .a = s->state,
					     .b = to,
				     });
	s->state = to;
	s->rx.deadline_ns = UINT64_MAX;
	stream_attention(s);
}

void stream_attention(struct iwarp_stream *s)
{
	if (!list_is_linked(&s->attention_link))
		list_add_tail(s->attention, &s->attention_link);
}

struct iwarp_stream *iwarp_attend(struct list *attention)
{
	if (list_is_empty(attention))
		return NULL;
	return CONTAINER_OF(list_pop(attention), struct iwarp_stream, attention_link);
}

void iwarp_again(struct iwarp_stream *s)
{
	stream_attention(s);
}

struct iwarp_stream *iwarp_last(const struct list *attention)
{
	if (list_is_empty(attention))
		return NULL;
	return CONTAINER_OF(attention->prev, struct iwarp_stream, attention_link);
}

/* ---- A silent peer -------------------------------------------------------------------------- */

/*
 * Linux's siw reads bytes that arrived between its MPA reply and the end of its accept() only when
 * more bytes arrive. Our opening message and the first request behind it would lie there for ever.
 * A Write of no bytes has no effect at the peer, so it can be repeated.
 */
enum { AGAIN_MAX = 6 };

static void silence_begin(struct iwarp_stream *s, const struct iwarp_config *config)
{
	const struct iwarp_terms *terms = &config->terms;
	uint64_t wait_ns = 0;

	if (terms->is_initiator && terms->rtr == IWARP_RTR_WRITE)
		wait_ns = config->again_wait_ns;
	else if (!terms->is_initiator && terms->rtr == IWARP_RTR_NONE)
		wait_ns = config->first_wait_ns;
	s->silence_ns = wait_ns ? config->begin_ns + wait_ns : UINT64_MAX;
	s->again_wait_ns = wait_ns;
	s->again_left = AGAIN_MAX;
}

static uint64_t silence_due(const struct iwarp_stream *s)
{
	return s->rx.has_fpdu || s->state != STREAM_OPEN ? UINT64_MAX : s->silence_ns;
}

static void silence_expire(struct iwarp_stream *s, uint64_t now_ns)
{
	s->silence_ns = UINT64_MAX;
	stream_attention(s);
	if (!s->terms.is_initiator) {
		s->tx.is_held = false;
		tx_fill(s);
		return;
	}
	if (--s->again_left > 0) {
		s->again_wait_ns *= 2;
		s->silence_ns = now_ns + s->again_wait_ns;
	}
	/* Otherwise more bytes are about to be sent anyway. */
	if (!s->tx.has_message && tx_has_room(s))
		rdmap_tx_rtr(s);
}

/* ---- Life ----------------------------------------------------------------------------------- */

enum weft_reason iwarp_create(struct weft_qp *qp, const struct iwarp_config *config,
			      struct iwarp_stream **stream)
{
	struct iwarp_stream *s;

	if (qp->service != WEFT_RC)
		return WEFT_R_WR_SERVICE;
	if (qp->state > WEFT_QPS_INIT)
		return WEFT_R_QP_STATE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return WEFT_R_NO_MEMORY;
	s->qp = qp;
	s->number = qp->number;
	s->adapter = qp->adapter;
	s->attention = config->attention;
	s->owner = config->owner;
	s->terms = config->terms;
	s->close_wait_ns = config->close_wait_ns;
	s->close_ns = UINT64_MAX;
	list_init(&s->attention_link);
	rx_init(s);
	if (buffers_init(s) < 0 || readq_init(s) < 0) {
		s->qp = NULL;
		iwarp_destroy(s);
		return WEFT_R_NO_MEMORY;
	}
	s->tx.is_held = !s->terms.is_initiator;
	silence_begin(s, config);
	qp_attach(qp, &iwarp_transport, s);
	if (s->terms.ord < qp->reads_max)
		qp->reads_max = s->terms.ord;
	rdmap_tx_rtr(s);
	stream_attention(s);
	*stream = s;
	return WEFT_OK;
}

void iwarp_destroy(struct iwarp_stream *s)
{
	if (s->qp)
		iwarp_lost(s);
	list_remove(&s->attention_link);
	readq_fini(s);
	buffers_fini(s);
	free(s);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* Fails the queue pair, if it is still attached. Its call back into the stream only detaches it. */
static void fail_qp(struct iwarp_stream *s, enum weft_reason reason)
{
	if (s->qp)
		qp_fail(s->qp, reason);
	CHECK(!s->qp);
}

/*
 * Drops all output except a possible Terminate. False: not even a Terminate can follow, because an
 * FPDU is half sent and its rest lies in the consumer's memory.
 */
static bool end_output(struct iwarp_stream *s)
{
	s->tx.has_message = false;
	return tx_prune(s);
}

/* The same if nothing has to follow: a half-sent FPDU is cut, which the peer notices. */
static void cut_output(struct iwarp_stream *s)
{
	if (end_output(s))
		return;
	s->tx.count = 0;
	s->tx.used = 0;
}

/* Closes our direction: the owner shuts it down once all output is sent. */
static void begin_close(struct iwarp_stream *s)
{
	stream_move(s, STREAM_CLOSING);
	s->is_shut_due = true;
}

static void trace_terminate(struct iwarp_stream *s, enum trace_kind kind,
			    const struct rdmap_terminate *t, enum weft_reason reason)
{
	trace_add(s->adapter->trace,
		  (struct trace_event){
			  .kind = (uint16_t)kind,
			  .who = s->number,
			  .a = (uint64_t)t->layer << 16 | (uint64_t)t->type << 8 | t->code,
			  .reason = (uint16_t)reason,
		  });
}

static void begin_terminate(struct iwarp_stream *s, const struct rdmap_terminate *t,
			    enum weft_reason reason)
{
	if (!end_output(s)) {
		stream_move(s, STREAM_ABORTED);
	} else if (s->tx.is_held) {
		/* RFC 5044 section 7.1.2: a responder sends nothing before a valid FPDU arrived. */
		begin_close(s);
	} else {
		stream_move(s, STREAM_TERMINATING);
		trace_terminate(s, TRACE_TERMINATE_SENT, t, reason);
		rdmap_tx_terminate(s, t);
	}
}

void stream_refuse(struct iwarp_stream *s, enum weft_reason reason,
		   const struct rx_segment *segment)
{
	struct rdmap_terminate t;

	if (s->state != STREAM_OPEN)
		return;
	terminate_of(reason, segment, &t);
	begin_terminate(s, &t, reason);
	fail_qp(s, reason);
}

/* The same without a Terminate: an FPDU is half sent, or the connection is lost. */
static void stream_abort(struct iwarp_stream *s, enum weft_reason reason)
{
	if (s->state >= STREAM_CLOSED)
		return;
	stream_move(s, STREAM_ABORTED);
	fail_qp(s, reason);
}

void stream_terminated(struct iwarp_stream *s, const struct rdmap_terminate *t)
{
	enum weft_reason reason = terminate_reason(t);
	uint32_t msn;

	s->peer_words = rdmap_terminate_text(t->layer, t->type, t->code);
	trace_terminate(s, TRACE_TERMINATE_TAKEN, t, reason);
	/* A refused Read is still outstanding; Sends and Writes have completed by now. */
	if (terminate_is_of_request(t, &msn))
		readq_refused(s, msn,
			      &(struct outcome){
				      .status = terminate_status(reason),
				      .reason = reason,
			      });
	cut_output(s);
	begin_close(s);
	fail_qp(s, reason);
}

void iwarp_eof(struct iwarp_stream *s, uint64_t now_ns)
{
	bool is_cut = s->rx.stage != RX_HEADER || s->rx.start != s->rx.end;

	(void)now_ns;
	s->is_peer_done = true;
	if (s->state == STREAM_OPEN) {
		stream_move(s, STREAM_CLOSED);
		fail_qp(s, is_cut ? WEFT_R_STREAM_CUT : WEFT_R_PEER_GONE);
	} else if (s->state == STREAM_CLOSING && !s->is_shut_due) {
		stream_move(s, STREAM_CLOSED);
	}
	stream_attention(s);
}

void iwarp_lost(struct iwarp_stream *s)
{
	stream_abort(s, WEFT_R_STREAM_LOST);
}

/* The queue pair detaches. If the stream caused this, it has left OPEN already. */
static void iwarp_down(struct weft_qp *qp, enum weft_reason why)
{
	struct iwarp_stream *s = qp->stream;
	struct rdmap_terminate t;

	s->qp = NULL;
	list_remove(&qp->absent_link);
	if (s->state != STREAM_OPEN)
		return;
	if (why != WEFT_R_PEER_GONE) {
		terminate_of(why, NULL, &t);
		begin_terminate(s, &t, qp->reason);
	} else {
		cut_output(s);
		begin_close(s);
	}
}

void iwarp_refuse(struct iwarp_stream *s, enum weft_reason reason)
{
	stream_refuse(s, reason, NULL);
}

/* ---- Deadlines and actions ------------------------------------------------------------------ */

/*
 * Whether the time in which the peer must take our output and close its direction has yet to start.
 */
static bool is_close_wait_due(const struct iwarp_stream *s)
{
	return (s->state == STREAM_TERMINATING || s->state == STREAM_CLOSING) &&
	       s->close_ns == UINT64_MAX;
}

uint64_t iwarp_due(const struct iwarp_stream *s)
{
	uint64_t silence_ns = silence_due(s), due_ns;

	/*
	 * The call that ended the stream had no clock, so the timer starts at once: a peer that
	 * takes no bytes causes no later call that has one.
	 */
	if (is_close_wait_due(s))
		return 0;
	due_ns = s->rx.deadline_ns < s->close_ns ? s->rx.deadline_ns : s->close_ns;
	return silence_ns < due_ns ? silence_ns : due_ns;
}

void stream_close_wait(struct iwarp_stream *s, uint64_t now_ns)
{
	if (is_close_wait_due(s))
		s->close_ns = now_ns + s->close_wait_ns;
}

void iwarp_expire(struct iwarp_stream *s, uint64_t now_ns)
{
	stream_close_wait(s, now_ns);
	if (s->close_ns <= now_ns && s->state < STREAM_CLOSED)
		stream_move(s, STREAM_ABORTED);
	else if (s->rx.deadline_ns <= now_ns)
		stream_refuse(s, WEFT_R_RECEIVER_NOT_READY, &s->rx.segment);
	else if (silence_due(s) <= now_ns)
		silence_expire(s, now_ns);
}

enum iwarp_action iwarp_action(struct iwarp_stream *s)
{
	if (s->state == STREAM_TERMINATING && s->tx.count == 0)
		begin_close(s);
	if (s->state == STREAM_CLOSING && s->is_shut_due && s->tx.count == 0) {
		s->is_shut_due = false;
		if (!s->is_peer_done)
			return IWARP_SHUT;
		stream_move(s, STREAM_CLOSED);
	}
	if (s->state == STREAM_CLOSED)
		return IWARP_CLOSE;
	return s->state == STREAM_ABORTED ? IWARP_ABORT : IWARP_NOTHING;
}

void *iwarp_owner(const struct iwarp_stream *s)
{
	return s->owner;
}

const char *iwarp_state_name(uint64_t state)
{
	return state < STREAM_STATES ? states[state].name : "unknown";
}

bool iwarp_is_open(const struct iwarp_stream *s)
{
	return s->state == STREAM_OPEN;
}

bool iwarp_is_ready(const struct iwarp_stream *s)
{
	return s->rx.has_fpdu;
}

const char *iwarp_peer_words(const struct iwarp_stream *s)
{
	return s->peer_words;
}

const struct iwarp_counts *iwarp_counts(const struct iwarp_stream *s)
{
	return &s->counts;
}

/* ---- The transport's face to the verbs ------------------------------------------------------ */

/*
 * AMB-04: a Read has one sink. There is no Send with immediate: RFC 7306 defines it for Writes
 * only.
 */
static enum weft_reason iwarp_check(const struct weft_qp *qp, const struct weft_send_wr *wr)
{
	bool is_read = wr->opcode == WEFT_OP_READ || wr->opcode == WEFT_OP_COMPARE_SWAP ||
		       wr->opcode == WEFT_OP_FETCH_ADD;

	if (wr->opcode == WEFT_OP_SEND_IMM || (wr->opcode == WEFT_OP_READ && wr->sge_count > 1))
		return WEFT_R_WR_WIRE;
	return is_read && qp->reads_max == 0 ? WEFT_R_READS_NONE : WEFT_OK;
}

/* Whether what the message in the buffer waits for is there: its page, or a receive. */
static bool can_go_on(struct weft_qp *qp, struct rx *rx, bool has_changed)
{
	if (rx->is_absent) {
		rx->is_absent = !has_changed;
		return has_changed;
	}
	if (qp_has_receive(qp))
		return true;
	qp_await_receive(qp,
			 qp_recv_queue(qp)); /* another queue pair took it from a shared queue */
	return false;
}

/*
 * The queue pair has changed: a receive that a message waits for may have been posted, or the page
 * have come that messages wait for.
 */
static void iwarp_advance(struct weft_qp *qp, uint64_t now_ns)
{
	struct iwarp_stream *s = qp->stream;
	bool has_changed = !list_is_linked(&qp->absent_link);

	if (s->tx.is_absent && has_changed) {
		s->tx.is_absent = false;
		stream_attention(s);
		tx_fill(s);
	}
	if (!s->rx.is_blocked || s->state != STREAM_OPEN || !can_go_on(qp, &s->rx, has_changed))
		return;
	s->rx.is_blocked = false;
	s->rx.deadline_ns = UINT64_MAX;
	stream_attention(s);
	rx_process(s, now_ns);
}

const struct transport iwarp_transport = {
	.check = iwarp_check,
	.issue = rdmap_tx_issue,
	.advance = iwarp_advance,
	.down = iwarp_down,
};
