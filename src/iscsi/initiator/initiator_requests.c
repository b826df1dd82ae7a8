/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of a session: in line, sent, sent again, ended. */
#include <string.h>

#include "base/deadline.h"
#include "iscsi/initiator/initiator_inside.h"

/* ---- Ends ----------------------------------------------------------------------------------- */

bool session_is_own(const struct iscsi_initiator *i, const struct iscsi_request *r)
{
	return r == &i->own_ping || r == &i->own_task || r == &i->own_text;
}

static void release_slot(struct iscsi_initiator *i, const struct iscsi_request *r)
{
	i->slots[r->slot] = NULL;
	i->free_slots[i->free_count++] = r->slot;
}

/* Takes a request off the list that it is on. */
static void unlink_request(struct iscsi_initiator *i, struct iscsi_request *r)
{
	bool is_out = r->state == REQUEST_SENT || r->state == REQUEST_REFUSED;

	list_remove(&r->link);
	if (is_out && r->kind == ISCSI_REQUEST_COMMAND)
		release_slot(i, r);
	else if (is_out)
		i->controls_out--;
	if (is_out && r->kind == ISCSI_REQUEST_TEXT)
		i->has_text = false;
	r->state = REQUEST_NONE;
}

/* No task management refers to a command that has ended. */
static void forget_task(struct list *head, const struct iscsi_request *task)
{
	for (struct list *l = head->next; l != head; l = l->next) {
		struct iscsi_request *r = CONTAINER_OF(l, struct iscsi_request, link);

		if (r->task == task)
			r->task = NULL;
	}
}

void session_end_request(struct iscsi_initiator *i, struct iscsi_request *r,
			 enum weft_reason reason)
{
	unlink_request(i, r);
	timer_queue_cancel(&i->timers, &r->timer);
	if (r->kind == ISCSI_REQUEST_COMMAND) {
		forget_task(&i->controls, r);
		forget_task(&i->controls_sent, r);
	}
	if (session_is_own(i, r))
		return;
	r->reason = reason;
	r->login = i->counts.logins;
	r->state = REQUEST_DONE;
	list_add_tail(&i->done, &r->link);
}

struct iscsi_request *iscsi_initiator_next_done(struct iscsi_initiator *i)
{
	struct iscsi_request *r;

	if (list_is_empty(&i->done))
		return NULL;
	r = CONTAINER_OF(list_pop(&i->done), struct iscsi_request, link);
	r->state = REQUEST_NONE;
	i->requests--;
	return r;
}

/*
 * Commands whose effect is the same if they are carried out twice with no other command of the
 * caller in between that depends on them: a caller does not send that before the first has ended.
 */
bool session_is_repeatable(const struct iscsi_request *r)
{
	switch (r->cdb[0]) {
	case 0x00: /* TEST UNIT READY */
	case 0x03: /* REQUEST SENSE */
	case 0x12: /* INQUIRY */
	case 0x1a: /* MODE SENSE (6) */
	case 0x5a: /* MODE SENSE (10) */
	case 0x25: /* READ CAPACITY (10) */
	case 0x9e: /* SERVICE ACTION IN (16): READ CAPACITY (16) */
	case 0xa0: /* REPORT LUNS */
	case 0xa3: /* MAINTENANCE IN */
	case 0x5e: /* PERSISTENT RESERVE IN */
	case 0x08: /* READ */
	case 0x28:
	case 0xa8:
	case 0x88:
	case 0x0a: /* WRITE */
	case 0x2a:
	case 0xaa:
	case 0x8a:
	case 0x2e: /* WRITE AND VERIFY */
	case 0x8e:
	case 0x2f: /* VERIFY */
	case 0x8f:
	case 0x35: /* SYNCHRONIZE CACHE */
	case 0x91:
	case 0x41: /* WRITE SAME */
	case 0x93:
	case 0x42: /* UNMAP */
		return true;
	default:
		return false;
	}
}

void session_wait_again(struct iscsi_initiator *i, struct iscsi_request *r)
{
	unlink_request(i, r);
	r->state = REQUEST_WAITING;
	list_push(r->kind == ISCSI_REQUEST_COMMAND ? &i->waiting : &i->controls, &r->link);
}

void session_repeat(struct iscsi_initiator *i, struct iscsi_request *r, enum weft_reason reason)
{
	uint32_t retries_max = i->config.recovery.retries_max;

	if (!i->is_last && retries_max > 0 && !session_is_repeatable(r))
		reason = WEFT_R_ISCSI_NOT_AGAIN;
	else if (!i->is_last && retries_max > 0 && r->retries >= retries_max)
		reason = WEFT_R_ISCSI_RETRIES;
	else if (!i->is_last && retries_max > 0)
		reason = WEFT_OK;
	if (r->is_overdue)
		reason = WEFT_R_ISCSI_TIMEOUT;
	if (reason != WEFT_OK) {
		session_end_request(i, r, reason);
		return;
	}
	r->retries++;
	session_wait_again(i, r);
	i->counts.retries++;
}

/* Calls end() for the commands that were sent, the last first. */
static void each_sent(struct iscsi_initiator *i, enum weft_reason reason,
		      void (*end)(struct iscsi_initiator *, struct iscsi_request *,
				  enum weft_reason))
{
	while (!list_is_empty(&i->sent))
		end(i, CONTAINER_OF(i->sent.prev, struct iscsi_request, link), reason);
}

static void end_all(struct iscsi_initiator *i, struct list *head, enum weft_reason reason)
{
	while (!list_is_empty(head))
		session_end_request(i, CONTAINER_OF(head->next, struct iscsi_request, link),
				    reason);
}

void session_requests_lost(struct iscsi_initiator *i, enum weft_reason reason)
{
	end_all(i, &i->controls_sent, reason);
	if (i->own_task.state == REQUEST_WAITING)
		session_end_request(i, &i->own_task, reason);
	if (i->own_ping.state == REQUEST_WAITING)
		session_end_request(i, &i->own_ping, reason);
	if (i->own_text.state == REQUEST_WAITING)
		session_end_request(i, &i->own_text, reason);
	each_sent(i, reason, session_repeat);
}

void session_requests_end(struct iscsi_initiator *i, enum weft_reason reason)
{
	end_all(i, &i->controls, reason);
	end_all(i, &i->waiting, reason);
}

/* ---- Sending -------------------------------------------------------------------------------- */

bool session_send_control(struct iscsi_initiator *i, struct iscsi_pdu *pdu, const uint8_t *data,
			  uint32_t data_bytes)
{
	uint8_t bhs[ISCSI_BHS_BYTES];
	struct wr w = wr_of(bhs, sizeof(bhs));

	pdu->is_immediate = true;
	pdu->cmd_sn = i->cmd_sn;
	pdu->exp_stat_sn = i->exp_stat_sn;
	pdu->data_bytes = data_bytes;
	iscsi_encode(pdu, &w);
	if (!i->calls->send_control(i->port, bhs, data, data_bytes)) {
		i->counts.waits++;
		return false;
	}
	i->counts.control++;
	return true;
}

uint32_t session_tag(struct iscsi_initiator *i)
{
	uint32_t tag = i->calls->tag_first + i->tag_next;

	i->tag_next = (i->tag_next + 1) % i->calls->tag_count;
	return tag;
}

/* Section 11.18: the answers to what the target asked by NOP-In. False: no room. */
static bool send_answers(struct iscsi_initiator *i)
{
	while (i->answer_count > 0) {
		struct iscsi_pdu pdu = {
			.opcode = ISCSI_NOP_OUT,
			.is_final = true,
			.lun = i->answers[0].lun,
			.itt = ISCSI_TAG_NONE,
			.ttt = i->answers[0].ttt,
		};

		if (!session_send_control(i, &pdu, NULL, 0))
			return false;
		i->counts.nops_answered++;
		i->answer_count--;
		memmove(&i->answers[0], &i->answers[1], i->answer_count * sizeof(i->answers[0]));
	}
	return true;
}

static bool send_ping(struct iscsi_initiator *i, struct iscsi_request *r)
{
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_NOP_OUT,
		.is_final = true,
		.itt = r->itt,
		.ttt = ISCSI_TAG_NONE,
	};

	return session_send_control(i, &pdu, NULL, 0);
}

/* SendTargets, the next piece of an answer, or what the negotiation of the session has to say. */
static bool send_text(struct iscsi_initiator *i, struct iscsi_request *r)
{
	uint8_t bytes[ISCSI_KEY_MAX + ISCSI_SIMPLE_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_TEXT_REQUEST,
		.is_final = true,
		.itt = r->itt,
		.ttt = r->ttt,
	};

	if (r == &i->own_text)
		return session_send_control(i, &pdu, i->text_out.bytes, r->expected_bytes);
	if (r->ttt == ISCSI_TAG_NONE)
		iscsi_text_put(&w, "SendTargets", r->send_targets);
	return session_send_control(i, &pdu, bytes, (uint32_t)(w.at - bytes));
}

/* Whether the request is gone from the head of its line: sent, or at its end. */
static bool send_request(struct iscsi_initiator *i, struct iscsi_request *r)
{
	bool is_sent;

	if (r->kind == ISCSI_REQUEST_TASK && r->function == ISCSI_ABORT_TASK && !r->task) {
		/* The command ended before. */
		r->response = ISCSI_TASK_NO_TASK;
		session_end_request(i, r, WEFT_OK);
		return true;
	}
	if (i->controls_out >= SESSION_CONTROLS_MAX)
		return false;
	if (r->itt == ISCSI_TAG_NONE)
		r->itt = session_tag(i);
	if (r->kind == ISCSI_REQUEST_TASK)
		is_sent = session_send_task(i, r);
	else if (r->kind == ISCSI_REQUEST_PING)
		is_sent = send_ping(i, r);
	else
		is_sent = !i->has_text && send_text(i, r);
	if (!is_sent)
		return r->state != REQUEST_WAITING;
	list_remove(&r->link);
	list_add_tail(&i->controls_sent, &r->link);
	r->state = REQUEST_SENT;
	r->order = ++i->order;
	r->cmd_sn = i->cmd_sn;
	i->controls_out++;
	if (r->kind == ISCSI_REQUEST_TEXT)
		i->has_text = true;
	return true;
}

/* One that has to wait holds up no other: a Text Request does not delay task management. */
static void send_controls(struct iscsi_initiator *i)
{
	struct list *next;

	for (struct list *l = i->controls.next; l != &i->controls; l = next) {
		next = l->next;
		(void)send_request(i, CONTAINER_OF(l, struct iscsi_request, link));
	}
}

static void send_logout(struct iscsi_initiator *i, uint64_t now_ns)
{
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_LOGOUT_REQUEST,
		.code = ISCSI_LOGOUT_SESSION,
		.is_final = true,
		.itt = session_tag(i),
	};

	if (!session_send_control(i, &pdu, NULL, 0))
		return;
	session_move(i, ISCSI_SESSION_LOGOUT);
	i->logout_itt = pdu.itt;
	timer_queue_set(&i->timers, &i->timer, deadline_after(now_ns, i->config.limits.logout_ns));
}

static void encode_command(struct iscsi_initiator *i, const struct iscsi_request *r, struct wr *w)
{
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_SCSI_COMMAND,
		.is_immediate = r->is_immediate,
		.is_final = true,
		.is_read = r->direction == ISCSI_READ,
		.is_write = r->direction == ISCSI_WRITE,
		.attr = r->attr,
		.lun = r->lun,
		.expected_bytes = r->expected_bytes,
		.cmd_sn = i->cmd_sn,
		.exp_stat_sn = i->exp_stat_sn,
	};

	memcpy(pdu.cdb, r->cdb, sizeof(pdu.cdb));
	iscsi_encode(&pdu, w);
}

static bool send_command(struct iscsi_initiator *i, struct iscsi_request *r)
{
	uint8_t bhs[ISCSI_BHS_BYTES];
	struct wr w = wr_of(bhs, sizeof(bhs));
	struct iscsi_port_command c = { .bhs = bhs, .request = r };

	if (i->free_count == 0 || (!r->is_immediate && !iscsi_window_has(&i->window, i->cmd_sn))) {
		i->counts.waits++;
		return false;
	}
	encode_command(i, r, &w);
	c.slot = i->free_slots[i->free_count - 1];
	if (!i->calls->send_command(i->port, &c)) {
		i->counts.waits++;
		return false;
	}
	i->free_count--;
	i->slots[c.slot] = r;
	r->slot = c.slot;
	r->cmd_sn = i->cmd_sn;
	r->order = ++i->order;
	r->moved_bytes = 0;
	r->state = REQUEST_SENT;
	list_remove(&r->link);
	list_add_tail(&i->sent, &r->link);
	if (!r->is_immediate)
		i->cmd_sn++;
	i->counts.commands++;
	return true;
}

/* Section 4.2.2.1: commands in order, as the window allows; immediate ones do not wait for it. */
static void send_commands(struct iscsi_initiator *i)
{
	bool is_blocked = false;
	struct list *next;

	for (struct list *l = i->waiting.next; l != &i->waiting && !i->is_paused; l = next) {
		struct iscsi_request *r = CONTAINER_OF(l, struct iscsi_request, link);

		next = l->next;
		if (is_blocked && !r->is_immediate)
			continue;
		if (!send_command(i, r))
			is_blocked = true;
		if (is_blocked && i->free_count == 0)
			return;
	}
}

/* The logout waits for what is under way: at the end of a session also for what waits. */
static bool is_drained(const struct iscsi_initiator *i)
{
	return list_is_empty(&i->sent) && list_is_empty(&i->controls_sent) &&
	       (!i->is_last || (list_is_empty(&i->waiting) && list_is_empty(&i->controls)));
}

void session_send(struct iscsi_initiator *i, uint64_t now_ns)
{
	if (!session_is_full(i))
		return;
	if (!send_answers(i))
		return;
	if (i->state == ISCSI_SESSION_LOGOUT)
		return;
	send_controls(i);
	if (session_is_full(i) && (i->state == ISCSI_SESSION_FULL || i->is_last) &&
	    !i->is_logout_due)
		send_commands(i);
	if (i->state == ISCSI_SESSION_DRAINING && (i->is_logout_due || is_drained(i)))
		send_logout(i, now_ns);
}

/* ---- Calls of the owner --------------------------------------------------------------------- */

static bool is_sound(const struct iscsi_initiator *i, const struct iscsi_request *r)
{
	switch (r->kind) {
	case ISCSI_REQUEST_COMMAND:
		return !i->config.is_discovery && r->attr <= ISCSI_ATTR_ACA &&
		       (r->direction != ISCSI_NO_DATA || r->expected_bytes == 0);
	case ISCSI_REQUEST_TASK:
		return !i->config.is_discovery && r->function >= ISCSI_ABORT_TASK &&
		       r->function <= ISCSI_TARGET_COLD_RESET &&
		       (r->function != ISCSI_ABORT_TASK) == (r->task == NULL);
	case ISCSI_REQUEST_PING:
		return true;
	case ISCSI_REQUEST_TEXT:
		return r->text.length > 0 && r->send_targets.length <= ISCSI_NAME_MAX;
	default:
		return false;
	}
}

static void enqueue(struct iscsi_initiator *i, struct iscsi_request *r)
{
	r->state = REQUEST_WAITING;
	r->itt = r->ttt = ISCSI_TAG_NONE;
	r->order = 0;
	r->timer = (struct timer){ 0 };
	r->retries = 0;
	r->moved_bytes = 0;
	r->is_overdue = false;
	if (r->kind == ISCSI_REQUEST_TASK && r->task &&
	    (r->task->state == REQUEST_NONE || r->task->state == REQUEST_DONE))
		r->task = NULL;
	list_add_tail(r->kind == ISCSI_REQUEST_COMMAND ? &i->waiting : &i->controls, &r->link);
}

static void clear_result(struct iscsi_request *r)
{
	r->reason = WEFT_OK;
	r->response = r->status = 0;
	r->is_overflow = r->is_underflow = false;
	r->residual = r->text_bytes = 0;
	r->sense_bytes = 0;
	r->login = 0;
}

enum weft_reason iscsi_initiator_submit(struct iscsi_initiator *i, struct iscsi_request *r,
					uint64_t now_ns)
{
	if (i->is_last || i->state == ISCSI_SESSION_ENDED)
		return WEFT_R_ISCSI_ENDED;
	if (!is_sound(i, r))
		return WEFT_R_BAD_ARGUMENT;
	if (i->requests == i->config.limits.requests_max)
		return WEFT_R_QUEUE_FULL;
	i->requests++;
	clear_result(r);
	enqueue(i, r);
	timer_queue_set(&i->timers, &r->timer,
			deadline_after(now_ns, r->timeout_ns ? r->timeout_ns
							     : i->config.limits.command_ns));
	session_send(i, now_ns);
	return WEFT_OK;
}

void session_ask(struct iscsi_initiator *i, struct iscsi_request *own, enum iscsi_request_kind kind)
{
	CHECK(own->state == REQUEST_NONE);
	own->kind = kind;
	enqueue(i, own);
}

void iscsi_initiator_refused(struct iscsi_initiator *i, uint32_t slot, enum weft_reason reason,
			     uint64_t now_ns)
{
	struct iscsi_request *r = slot < i->config.limits.depth ? i->slots[slot] : NULL;

	(void)now_ns;
	CHECK(r && r->state == REQUEST_SENT);
	/* The first of a row has the number that the next command takes. */
	if (!i->is_paused || iscsi_sn_is_before(r->cmd_sn, i->refused_sn))
		i->refused_sn = r->cmd_sn;
	i->is_paused = true;
	if (reason != WEFT_OK)
		session_end_request(i, r, reason);
	else
		r->state = REQUEST_REFUSED;
}

/* Commands that the port did not send wait again, in their order, with their old numbers. */
static void resume(struct iscsi_initiator *i)
{
	struct list *prev;

	for (struct list *l = i->sent.prev; l != &i->sent; l = prev) {
		struct iscsi_request *r = CONTAINER_OF(l, struct iscsi_request, link);

		prev = l->prev;
		if (r->state == REQUEST_REFUSED)
			session_wait_again(i, r);
	}
	i->cmd_sn = i->refused_sn;
	i->is_paused = false;
}

void iscsi_initiator_ready(struct iscsi_initiator *i, uint64_t now_ns)
{
	if (i->is_paused && session_is_full(i))
		resume(i);
	session_send(i, now_ns);
}
