/* SPDX-License-Identifier: BSD-2-Clause */
/* PDUs of one connection: their order, where they go, and what is answered at once. */
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "iscsi/target/target_inside.h"

enum {
	ANSWER_BYTES_MAX = 2048, /* copied into an answer: a Reject's header, data of a ping */
	PING_COPY_MAX = 1024
};

/* ---- Sending -------------------------------------------------------------------------------- */

void target_conn_number(struct iscsi_connection *c, struct iscsi_pdu *p, bool counts)
{
	const struct target_session *s = c->session;

	p->stat_sn = counts ? c->stat_sn++ : c->stat_sn;
	p->exp_cmd_sn = s->exp_cmd_sn;
	p->max_cmd_sn = target_session_max_cmd_sn(s);
}

void target_conn_send(struct iscsi_connection *c, struct iscsi_pdu *p, const uint8_t *data)
{
	/* Section 11.19.1: a NOP-In that answers none has no status. */
	bool counts = p->opcode != ISCSI_NOP_IN || p->itt != ISCSI_TAG_NONE;

	target_conn_number(c, p, counts);
	c->mover->send_control(c, p, data);
}

void target_conn_reject(struct iscsi_connection *c, const struct iscsi_arrival *a,
			enum iscsi_reject_reason why)
{
	struct iscsi_pdu p = { .opcode = ISCSI_REJECT,
			       .code = (uint8_t)why,
			       .is_final = true,
			       .itt = ISCSI_TAG_NONE,
			       .data_bytes = a->header_bytes };

	/* The initiator may take less than its own additional header segments. */
	if (p.data_bytes > c->params.connection.send_bytes_max)
		p.data_bytes = ISCSI_BHS_BYTES;
	c->node->counts.rejects++;
	target_conn_send(c, &p, a->header);
}

/* ---- The end -------------------------------------------------------------------------------- */

static bool is_abrupt(enum weft_reason reason)
{
	return reason == WEFT_R_ISCSI_SILENT || reason == WEFT_R_ISCSI_CROWDED ||
	       reason == WEFT_R_CONNECT_TIMEOUT;
}

void target_conn_end(struct iscsi_connection *c, enum weft_reason reason)
{
	struct iscsi_node *node = c->node;
	uint16_t status = 0;

	if (c->state == CONN_CLOSED)
		return;
	if (c->reason == WEFT_OK)
		c->reason = reason;
	c->action = is_abrupt(c->reason) ? ISCSI_ACTION_ABORT : ISCSI_ACTION_CLOSE;
	c->arriving = NULL;
	target_conn_wait(c, false);
	node->open_count--;
	timer_queue_cancel(&node->timers, &c->timer);
	list_remove(&c->half_open);
	if (c->text) {
		status = iscsi_login_status(&c->text->login);
		target_text_put(c);
	}
	if (c->session) {
		target_note(c, ISCSI_NOTE_END, 0);
		target_session_end(c->session);
	} else if (!c->is_logged_in) {
		node->counts.refused++;
		target_note(c, ISCSI_NOTE_REFUSED, status);
	}
	c->state = CONN_CLOSED;
	target_attention(c);
}

void target_conn_leave(struct iscsi_connection *c, enum weft_reason reason)
{
	if (c->state >= CONN_LEAVING)
		return;
	c->state = CONN_LEAVING;
	c->reason = reason;
	target_conn_arm(c, deadline_after(c->node->now_ns, c->node->config.ping_wait_ns));
	target_attention(c);
}

void target_conn_sent(struct iscsi_connection *c)
{
	if (c->state == CONN_LEAVING && c->mover->is_sent(c))
		target_conn_end(c, c->reason);
}

void target_conn_ask_to_leave(struct iscsi_connection *c, uint64_t wait_ns)
{
	enum { SECOND_NS = 1000000000, SECONDS_MAX = 3600 };
	uint64_t seconds = wait_ns / SECOND_NS;
	struct iscsi_pdu p = { .opcode = ISCSI_ASYNC,
			       .code = ISCSI_ASYNC_LOGOUT,
			       .is_final = true,
			       .itt = ISCSI_TAG_NONE };

	p.parameters[2] = (uint16_t)(seconds < SECONDS_MAX ? seconds : SECONDS_MAX);
	if (c->state == CONN_OPEN && c->mover->can_send(c, 0))
		target_conn_send(c, &p, NULL);
}

void target_conn_wait(struct iscsi_connection *c, bool is_waiting)
{
	c->node->waiting_count += (uint32_t)is_waiting - (uint32_t)c->is_waiting;
	c->is_waiting = is_waiting;
}

/* ---- Deadlines ------------------------------------------------------------------------------ */

void target_conn_arm(struct iscsi_connection *c, uint64_t deadline_ns)
{
	if (c->node->is_ending && c->end_ns < deadline_ns)
		deadline_ns = c->end_ns;
	if (deadline_ns == UINT64_MAX)
		timer_queue_cancel(&c->node->timers, &c->timer);
	else
		timer_queue_set(&c->node->timers, &c->timer, deadline_ns);
}

/* Silence: asks whether the initiator is there, then gives it up. */
static void ping(struct iscsi_connection *c)
{
	const struct iscsi_node_config *config = &c->node->config;
	uint64_t now_ns = c->node->now_ns, due_ns;
	struct iscsi_pdu p = { .opcode = ISCSI_NOP_IN,
			       .is_final = true,
			       .itt = ISCSI_TAG_NONE,
			       .ttt = ++c->ping_ttt & INT32_MAX };

	due_ns = deadline_after(c->heard_ns, config->ping_after_ns);
	if (due_ns > now_ns) {
		c->is_pinging = false;
		target_conn_arm(c, due_ns);
		return;
	}
	if (c->is_pinging) {
		target_conn_end(c, WEFT_R_ISCSI_SILENT);
		return;
	}
	c->is_pinging = true;
	if (c->mover->can_send(c, 0))
		target_conn_send(c, &p, NULL);
	c->session->counts.pings++;
	target_conn_arm(c, deadline_after(now_ns, config->ping_wait_ns));
}

void target_conn_expire(struct iscsi_connection *c)
{
	if (c->state == CONN_LOGIN)
		target_login_expire(c);
	else if (c->state == CONN_LEAVING)
		target_conn_end(c, c->reason);
	else if (c->node->is_ending && c->end_ns <= c->node->now_ns)
		target_conn_end(c, WEFT_R_ISCSI_ENDING);
	else if (c->state == CONN_OPEN)
		ping(c);
}

/* ---- Order ---------------------------------------------------------------------------------- */

enum order {
	ORDER_NOW,   /* it is the next, or immediate */
	ORDER_LATER, /* some before it are missing */
	ORDER_NEVER  /* it is outside the window, or came before: ignored (section 4.2.2.1) */
};

static enum order order_of(const struct target_session *s, const struct iscsi_pdu *p)
{
	struct iscsi_window w = { s->exp_cmd_sn, target_session_max_cmd_sn(s) };

	if (p->is_immediate)
		return ORDER_NOW;
	if (!iscsi_window_has(&w, p->cmd_sn))
		return ORDER_NEVER;
	if (p->cmd_sn == s->exp_cmd_sn)
		return ORDER_NOW;
	for (struct list *l = s->held.next; l != &s->held; l = l->next)
		if (CONTAINER_OF(l, struct target_task, wait)->cmd_sn == p->cmd_sn)
			return ORDER_NEVER;
	return ORDER_LATER;
}

void target_conn_advance(struct target_session *s)
{
	s->exp_cmd_sn++;
	while (!list_is_empty(&s->held)) {
		struct target_task *t = CONTAINER_OF(s->held.next, struct target_task, wait);

		if (t->cmd_sn != s->exp_cmd_sn)
			return;
		list_remove(&t->wait);
		s->exp_cmd_sn++;
		if (t->kind == TASK_NUMBER)
			target_task_free(t);
		else
			target_task_order(t);
	}
}

/* Keeps a task until those before it have come, in the order of their CmdSN. */
static void hold(struct target_session *s, struct target_task *t)
{
	struct list *l = s->held.prev;

	while (l != &s->held &&
	       iscsi_sn_is_before(t->cmd_sn, CONTAINER_OF(l, struct target_task, wait)->cmd_sn))
		l = l->prev;
	list_push(l, &t->wait);
}

uint8_t target_conn_skip(struct target_session *s, uint32_t itt, uint32_t cmd_sn)
{
	const struct iscsi_pdu p = { .cmd_sn = cmd_sn };
	enum order order = order_of(s, &p);
	struct target_task *t;

	if (order == ORDER_NEVER)
		return ISCSI_TASK_NO_TASK;
	if (order == ORDER_NOW) {
		target_conn_advance(s);
		return ISCSI_TASK_COMPLETE;
	}
	t = target_task_get(s, TASK_NUMBER, itt, false);
	if (!t)
		return ISCSI_TASK_REJECTED;
	t->state = TASK_ENDING;
	t->cmd_sn = cmd_sn;
	hold(s, t);
	return ISCSI_TASK_COMPLETE;
}

/* ---- SCSI Commands -------------------------------------------------------------------------- */

/*
 * Makes the task of a command whose data is about to come, or which is whole. False: no slot is
 * free, it waits. c->arriving is NULL if the command is passed over.
 */
static bool command_begin(struct iscsi_connection *c, const struct iscsi_pdu *p)
{
	struct target_session *s = c->session;

	c->arriving = NULL;
	if (!s->is_discovery && order_of(s, p) != ORDER_NEVER && !target_task_find(s, p->itt)) {
		/* Too many immediate ones are rejected once they are whole (section 11.17.1). */
		c->arriving = target_task_begin(s, p);
		if (!c->arriving && !p->is_immediate)
			return false;
		if (c->arriving)
			target_data_announce(c->arriving, p);
	}
	c->has_begun = true;
	return true;
}

/* What a whole command is refused for. Its CmdSN has come nevertheless. */
static void command_refuse(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_session *s = c->session;
	enum order order = order_of(s, &a->pdu);
	enum iscsi_reject_reason why = ISCSI_REJECT_IMMEDIATE;

	if (order == ORDER_NEVER)
		return;
	if (s->is_discovery)
		why = ISCSI_REJECT_PROTOCOL;
	else if (target_task_find(s, a->pdu.itt))
		why = ISCSI_REJECT_IN_PROGRESS;
	if (!a->pdu.is_immediate && order == ORDER_NOW)
		target_conn_advance(s);
	target_conn_reject(c, a, why);
}

/* It leaves nothing, whether it was aborted while its data came or not. */
static void command_drop(struct target_task *t)
{
	if (t->state == TASK_ENDING)
		target_task_free(t);
	else
		target_task_abort(t);
}

/* A command that was aborted while its data came: its CmdSN has come nevertheless. */
static void aborted_take(struct target_session *s, struct target_task *t, const struct iscsi_pdu *p)
{
	enum order order = order_of(s, p);

	if (order == ORDER_LATER) {
		t->kind = TASK_NUMBER;
		hold(s, t);
		s->node->has_freed = true; /* the function that aborted it is complete */
		return;
	}
	target_task_free(t);
	if (!p->is_immediate && order == ORDER_NOW)
		target_conn_advance(s);
}

static void command_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_session *s = c->session;
	struct target_task *t = c->arriving;

	c->arriving = NULL;
	if (!t) {
		command_refuse(c, a);
		return;
	}
	/* Section 7.8: a damaged command has not come. */
	if (a->reason == WEFT_R_ISCSI_DATA_DIGEST) {
		target_conn_reject(c, a, ISCSI_REJECT_DATA_DIGEST);
		command_drop(t);
		return;
	}
	if (t->state == TASK_ENDING) {
		aborted_take(s, t, &a->pdu);
		return;
	}
	t->received = t->is_write ? a->pdu.data_bytes : 0;
	if (order_of(s, &a->pdu) == ORDER_LATER) {
		hold(s, t);
		return;
	}
	target_task_order(t);
	if (!a->pdu.is_immediate)
		target_conn_advance(s);
}

/* ---- Others --------------------------------------------------------------------------------- */

/* Section 11.18: an answer to a ping of ours, or a ping. */
static void nop_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_task *t = c->arriving;
	uint32_t max = c->params.connection.send_bytes_max;
	struct iscsi_pdu p = { .opcode = ISCSI_NOP_IN,
			       .is_final = true,
			       .itt = a->pdu.itt,
			       .lun = a->pdu.lun,
			       .ttt = ISCSI_TAG_NONE };

	c->arriving = NULL;
	if (t) {
		t->received = a->pdu.data_bytes;
		t->state = TASK_PUTTING;
		c->mover->put_data(c, t);
		return;
	}
	if (a->pdu.itt == ISCSI_TAG_NONE)
		return;
	if (a->data)
		p.data_bytes = a->pdu.data_bytes < max ? a->pdu.data_bytes : max;
	target_conn_send(c, &p, a->data);
}

/* A ping whose data is larger than the mover's buffer: it goes through memory for data. */
static enum iscsi_place nop_place(struct iscsi_connection *c, const struct iscsi_pdu *p)
{
	struct target_task *t;

	if (p->itt == ISCSI_TAG_NONE)
		return ISCSI_PLACE_SKIP;
	if (p->data_bytes <= PING_COPY_MAX)
		return ISCSI_PLACE_BUFFER;
	t = target_task_get(c->session, TASK_PING, p->itt, true);
	if (!t)
		return ISCSI_PLACE_SKIP;
	t->lun = p->lun;
	t->room = p->data_bytes;
	if (!target_task_take_memory(t, 0)) {
		target_task_free(t);
		return ISCSI_PLACE_SKIP;
	}
	c->arriving = t;
	return ISCSI_PLACE_MEMORY;
}

/* Section 11.14. At error recovery level 0 there is nothing to recover. */
static void logout_take(struct iscsi_connection *c, const struct iscsi_pdu *q)
{
	struct iscsi_pdu p = { .opcode = ISCSI_LOGOUT_RESPONSE,
			       .code = ISCSI_LOGOUT_OK,
			       .is_final = true,
			       .itt = q->itt,
			       .time2wait = (uint16_t)c->params.session.time2wait_s,
			       .time2retain = (uint16_t)c->params.session.time2retain_s };

	if (q->code == ISCSI_LOGOUT_RECOVERY)
		p.code = ISCSI_LOGOUT_NO_RECOVERY;
	else if (q->code == ISCSI_LOGOUT_CONNECTION && q->cid != c->session->cid)
		p.code = ISCSI_LOGOUT_NO_CID;
	target_conn_send(c, &p, NULL);
	if (p.code == ISCSI_LOGOUT_OK)
		target_conn_leave(c, WEFT_OK);
}

/* All but SCSI Commands and Data-Out: of these those with a CmdSN come in their order. */
static void other_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	const struct iscsi_pdu *p = &a->pdu;

	switch (p->opcode) {
	case ISCSI_NOP_OUT:
		nop_take(c, a);
		break;
	case ISCSI_TASK_REQUEST:
		target_manage_take(c, a);
		break;
	case ISCSI_TEXT_REQUEST:
		target_text_take(c, a);
		break;
	case ISCSI_LOGOUT_REQUEST:
		logout_take(c, p);
		break;
	case ISCSI_SNACK:
		target_conn_reject(c, a, ISCSI_REJECT_SNACK);
		break;
	default: /* a Login Request, in the full feature phase */
		target_conn_reject(c, a, ISCSI_REJECT_PROTOCOL);
		target_conn_leave(c, WEFT_R_ISCSI_PHASE);
	}
}

static void ordered_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_session *s = c->session;
	bool has_sn = a->pdu.opcode != ISCSI_SNACK && a->pdu.opcode != ISCSI_LOGIN_REQUEST;
	enum order order = has_sn ? order_of(s, &a->pdu) : ORDER_NOW;
	struct target_task *t = c->arriving;

	if (a->reason == WEFT_R_ISCSI_DATA_DIGEST) {
		target_conn_reject(c, a, ISCSI_REJECT_DATA_DIGEST);
	} else if (order == ORDER_LATER) {
		/* On one connection, what is missing never comes. */
		target_conn_end(c, WEFT_R_ISCSI_CMD_SN);
		return;
	}
	if (a->reason != WEFT_OK || order != ORDER_NOW) {
		c->arriving = NULL;
		if (t)
			target_task_abort(t);
		return;
	}
	if (has_sn && !a->pdu.is_immediate)
		target_conn_advance(s);
	other_take(c, a);
}

/* ---- For movers ----------------------------------------------------------------------------- */

/* How the header of a PDU is refused: by a Reject, or by the end (section 7.6). */
static bool refuse(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	if (c->state == CONN_OPEN && a->reason == WEFT_R_ISCSI_OPCODE) {
		target_conn_reject(c, a, ISCSI_REJECT_UNSUPPORTED);
		return true;
	}
	target_conn_end(c, a->reason);
	return false;
}

enum iscsi_place target_conn_place(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	target_conn_wait(c, false);
	if (c->state >= CONN_LEAVING)
		return ISCSI_PLACE_END;
	/* There must be room for what may be answered. */
	if (!c->mover->can_send(c, ANSWER_BYTES_MAX)) {
		target_conn_wait(c, true);
		return ISCSI_PLACE_WAIT;
	}
	if (a->reason == WEFT_R_ISCSI_OPCODE && c->state == CONN_OPEN)
		return ISCSI_PLACE_SKIP; /* rejected when it is whole */
	if (a->reason != WEFT_OK) {
		(void)refuse(c, a);
		return ISCSI_PLACE_END;
	}
	if (c->state == CONN_LOGIN || a->pdu.opcode == ISCSI_TEXT_REQUEST)
		return target_text_place(c, a);
	switch (a->pdu.opcode) {
	case ISCSI_SCSI_COMMAND:
		if (!command_begin(c, &a->pdu)) {
			target_conn_wait(c, true);
			return ISCSI_PLACE_WAIT;
		}
		return c->arriving ? target_data_immediate(c->arriving) : ISCSI_PLACE_SKIP;
	case ISCSI_DATA_OUT:
		return target_data_place(c, a);
	case ISCSI_NOP_OUT:
		return nop_place(c, &a->pdu);
	default:
		return ISCSI_PLACE_SKIP;
	}
}

enum weft_reason target_conn_sink(struct iscsi_connection *c, uint32_t offset,
				  struct mem_span *spans, uint32_t *count)
{
	const struct target_task *t = c->arriving;

	if (!t) {
		spans[0] = (struct mem_span){ .bytes = c->text->stage + offset,
					      .length = TEXT_IN_BYTES - offset };
		*count = 1;
		return WEFT_OK;
	}
	*count = target_task_spans(t, t->received + (uint64_t)offset, spans, *count);
	return WEFT_OK;
}

static enum iscsi_take open_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	if (a->pdu.opcode == ISCSI_SCSI_COMMAND) {
		if (!c->has_begun && !command_begin(c, &a->pdu)) {
			target_conn_wait(c, true);
			return ISCSI_TAKE_WAIT;
		}
		command_take(c, a);
	} else if (a->pdu.opcode == ISCSI_DATA_OUT) {
		target_data_take(c, a);
	} else {
		ordered_take(c, a);
	}
	c->has_begun = false;
	return c->state >= CONN_LEAVING ? ISCSI_TAKE_END : ISCSI_TAKE_NEXT;
}

enum iscsi_take target_conn_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	target_conn_wait(c, false);
	if (c->state >= CONN_LEAVING)
		return ISCSI_TAKE_END;
	if (!c->mover->can_send(c, ANSWER_BYTES_MAX)) {
		target_conn_wait(c, true);
		return ISCSI_TAKE_WAIT;
	}
	if (a->reason != WEFT_OK && a->reason != WEFT_R_ISCSI_DATA_DIGEST)
		return refuse(c, a) ? ISCSI_TAKE_NEXT : ISCSI_TAKE_END;
	if (c->state == CONN_OPEN)
		return open_take(c, a);
	target_login_take(c, a);
	return c->state >= CONN_LEAVING ? ISCSI_TAKE_END : ISCSI_TAKE_NEXT;
}
