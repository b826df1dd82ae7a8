/* SPDX-License-Identifier: BSD-2-Clause */
/* Task management of a session, and what follows from time limits. */
#include "base/deadline.h"
#include "iscsi/initiator/initiator_inside.h"

/* ---- Requests ------------------------------------------------------------------------------- */

/* The command of an ABORT TASK is not at the target: it ends here. */
static void abort_here(struct iscsi_initiator *i, struct iscsi_request *r)
{
	session_end_request(i, r->task, WEFT_R_ISCSI_ABORTED);
	r->response = ISCSI_TASK_COMPLETE;
	session_end_request(i, r, WEFT_OK);
}

bool session_send_task(struct iscsi_initiator *i, struct iscsi_request *r)
{
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_TASK_REQUEST,
		.code = r->function,
		.is_final = true,
		.lun = r->lun,
		.itt = r->itt,
		.ref_itt = ISCSI_TAG_NONE,
	};

	if (r->function == ISCSI_ABORT_TASK) {
		if (r->task->state == REQUEST_WAITING) {
			abort_here(i, r);
			return false;
		}
		if (r->task->state == REQUEST_REFUSED ||
		    !i->calls->tag(i->port, r->task->slot, &pdu.ref_itt))
			return false;
		pdu.lun = r->task->lun;
		pdu.ref_cmd_sn = r->task->cmd_sn;
	}
	return session_send_control(i, &pdu, NULL, 0);
}

/* ---- Answers -------------------------------------------------------------------------------- */

/* The target has ended a command without a response. */
static void end_aborted(struct iscsi_initiator *i, struct iscsi_request *r, bool is_own)
{
	if (!i->calls->forget(i->port, r->slot)) {
		session_close(i, WEFT_R_ISCSI_TASK_SILENT);
		return;
	}
	if (is_own && !r->is_overdue)
		session_repeat(i, r, WEFT_R_ISCSI_ABORTED);
	else
		session_end_request(i, r, is_own ? WEFT_R_ISCSI_TIMEOUT : WEFT_R_ISCSI_ABORTED);
}

/*
 * The command of an ABORT TASK that was answered. It may have had a response meanwhile that has it
 * sent again: then it waits, or is at the target under another tag, which nothing has aborted.
 */
static void end_task(struct iscsi_initiator *i, const struct iscsi_request *abort,
		     struct iscsi_request *r, bool is_own)
{
	if (r->state == REQUEST_SENT && r->order < abort->order)
		end_aborted(i, r, is_own);
	else if (r->state != REQUEST_SENT)
		session_end_request(i, r, is_own ? WEFT_R_ISCSI_TIMEOUT : WEFT_R_ISCSI_ABORTED);
}

/* Section 11.5.1: commands that the target took before the function; of one unit or of all. */
static void end_set(struct iscsi_initiator *i, const struct iscsi_request *task, bool is_own)
{
	bool is_all = task->function == ISCSI_TARGET_WARM_RESET ||
		      task->function == ISCSI_TARGET_COLD_RESET;
	struct list *prev;

	for (struct list *l = i->sent.prev; l != &i->sent && session_is_full(i); l = prev) {
		struct iscsi_request *r = CONTAINER_OF(l, struct iscsi_request, link);

		prev = l->prev;
		if (r->state == REQUEST_SENT && r->order < task->order &&
		    (is_all || r->lun == task->lun))
			end_aborted(i, r, is_own);
	}
}

static void begin_own_task(struct iscsi_initiator *i, uint8_t function, uint64_t now_ns)
{
	i->own_task.function = function;
	session_ask(i, &i->own_task, ISCSI_REQUEST_TASK);
	timer_queue_set(&i->timers, &i->own_task.timer,
			deadline_after(now_ns, i->config.limits.task_ns));
	if (function == ISCSI_ABORT_TASK)
		i->counts.aborts++;
	else
		i->counts.resets++;
}

/* One command at a time is aborted: a target that answers is done with all of them soon. */
static void abort_overdue(struct iscsi_initiator *i, uint64_t now_ns)
{
	if (i->own_task.state != REQUEST_NONE || !session_is_full(i) ||
	    i->state == ISCSI_SESSION_LOGOUT)
		return;
	for (struct list *l = i->sent.next; l != &i->sent; l = l->next) {
		struct iscsi_request *r = CONTAINER_OF(l, struct iscsi_request, link);

		if (r->state != REQUEST_SENT || !r->is_overdue)
			continue;
		i->own_task.task = r;
		i->own_task.lun = r->lun;
		begin_own_task(i, ISCSI_ABORT_TASK, now_ns);
		session_send(i, now_ns);
		return;
	}
}

/* The unit is reset after an abort that failed; after that only a new session is left. */
static void escalate(struct iscsi_initiator *i, uint64_t now_ns)
{
	if (i->own_task.function != ISCSI_ABORT_TASK) {
		session_close(i, WEFT_R_ISCSI_TASK_SILENT);
		return;
	}
	i->own_task.task = NULL;
	begin_own_task(i, ISCSI_LU_RESET, now_ns);
	session_send(i, now_ns);
}

static void take_own_task(struct iscsi_initiator *i, uint8_t response, uint64_t now_ns)
{
	struct iscsi_request *r = &i->own_task, *task = r->task;
	bool is_abort = r->function == ISCSI_ABORT_TASK;
	bool is_done = response == ISCSI_TASK_COMPLETE ||
		       (is_abort && response == ISCSI_TASK_NO_TASK);

	session_end_request(i, r, WEFT_OK);
	if (!is_done && (task || !is_abort)) {
		escalate(i, now_ns);
		return;
	}
	if (is_abort && task)
		end_task(i, r, task, true);
	else if (!is_abort)
		end_set(i, r, true);
	abort_overdue(i, now_ns);
}

void session_take_task(struct iscsi_initiator *i, struct iscsi_request *r, uint8_t response,
		       uint64_t now_ns)
{
	struct iscsi_request *task = r->task;
	bool is_abort = r->function == ISCSI_ABORT_TASK;

	if (r == &i->own_task) {
		take_own_task(i, response, now_ns);
		return;
	}
	r->response = response;
	if (is_abort && task && (response == ISCSI_TASK_COMPLETE || response == ISCSI_TASK_NO_TASK))
		end_task(i, r, task, false);
	else if (!is_abort && r->function != ISCSI_CLEAR_ACA && response == ISCSI_TASK_COMPLETE)
		end_set(i, r, false);
	session_end_request(i, r, WEFT_OK);
}

/* ---- Time limits ---------------------------------------------------------------------------- */

/* The answer to task management that was given up may still come. Only one is remembered. */
static void own_task_overdue(struct iscsi_initiator *i, uint64_t now_ns)
{
	struct iscsi_request *r = &i->own_task;
	bool is_sent = r->state == REQUEST_SENT, is_needed = r->task != NULL;

	if (r->function != ISCSI_ABORT_TASK || (is_sent && i->has_abandoned)) {
		session_close(i, WEFT_R_ISCSI_TASK_SILENT);
		return;
	}
	i->has_abandoned = is_sent;
	i->abandoned_itt = r->itt;
	session_end_request(i, r, WEFT_OK);
	if (is_needed)
		escalate(i, now_ns);
	else
		abort_overdue(i, now_ns);
}

void session_overdue(struct iscsi_initiator *i, struct iscsi_request *r, uint64_t now_ns)
{
	bool is_sent = r->state == REQUEST_SENT;

	if (r == &i->own_task) {
		if (session_is_full(i))
			own_task_overdue(i, now_ns);
		return;
	}
	i->counts.timeouts++;
	if (!is_sent) {
		session_end_request(i, r, WEFT_R_ISCSI_TIMEOUT);
		return;
	}
	if (r->kind == ISCSI_REQUEST_COMMAND) {
		r->is_overdue = true;
		abort_overdue(i, now_ns);
		return;
	}
	session_end_request(i, r, WEFT_R_ISCSI_TIMEOUT);
	session_close(i, r->kind == ISCSI_REQUEST_TASK ? WEFT_R_ISCSI_TASK_SILENT
						       : WEFT_R_ISCSI_SILENT);
}

void session_ping_due(struct iscsi_initiator *i, uint64_t now_ns)
{
	uint64_t due_ns = deadline_after(i->heard_ns, i->config.limits.ping_after_ns);

	if (i->state == ISCSI_SESSION_LOGOUT)
		return;
	if (i->own_ping.state != REQUEST_NONE) {
		session_close(i, WEFT_R_ISCSI_SILENT);
		return;
	}
	if (due_ns <= now_ns) {
		session_ask(i, &i->own_ping, ISCSI_REQUEST_PING);
		due_ns = deadline_after(now_ns, i->config.limits.ping_ns);
	}
	timer_queue_set(&i->timers, &i->ping, due_ns);
	session_send(i, now_ns);
}
