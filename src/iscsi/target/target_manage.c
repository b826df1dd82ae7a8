/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task management (RFC 7143 section 11.5, RFC 7144 section 7). A function is answered once every
 * task that it ended is gone, also from its device: what the initiator sends then comes after it.
 */
#include "base/check.h"
#include "iscsi/target/target_inside.h"

/* What a function concerns. */
enum scope {
	SCOPE_NONE, /* nothing is ended */
	SCOPE_TASK,
	SCOPE_UNIT_OF_SESSION,
	SCOPE_UNIT,
	SCOPE_TARGET,
	SCOPE_SESSION
};

static enum scope scope_of(uint8_t function)
{
	switch (function) {
	case ISCSI_ABORT_TASK:
		return SCOPE_TASK;
	case ISCSI_ABORT_TASK_SET:
		return SCOPE_UNIT_OF_SESSION;
	case ISCSI_CLEAR_TASK_SET:
	case ISCSI_LU_RESET:
		return SCOPE_UNIT;
	case ISCSI_TARGET_WARM_RESET:
	case ISCSI_TARGET_COLD_RESET:
		return SCOPE_TARGET;
	case ISCSI_I_T_NEXUS_RESET:
		return SCOPE_SESSION;
	default:
		return SCOPE_NONE;
	}
}

/* Whether the function, which has come later, ends this task. */
static bool concerns(const struct target_task *m, const struct target_task *t)
{
	bool is_same = t->session == m->session;

	if (t->kind != TASK_SCSI || t->order > m->order || t->session->target != m->session->target)
		return false;
	switch (scope_of(m->function)) {
	case SCOPE_TASK:
		return t == m->aborted && t->order == m->aborted_order;
	case SCOPE_UNIT_OF_SESSION:
		return is_same && t->scsi.lun == m->scsi.lun;
	case SCOPE_UNIT:
		return t->scsi.lun == m->scsi.lun;
	case SCOPE_TARGET:
		return true;
	case SCOPE_SESSION:
		return is_same;
	case SCOPE_NONE:
		break;
	}
	return false;
}

/* Visits the tasks of all sessions. True: visit() returned true for one, and ended it. */
static bool for_each(struct list *sessions, struct target_task *m,
		     bool (*visit)(struct target_task *m, struct target_task *t))
{
	for (struct list *l = sessions->next; l != sessions; l = l->next) {
		struct target_session *s = CONTAINER_OF(l, struct target_session, link);
		struct list *k = s->tasks.next;

		while (k != &s->tasks) {
			struct target_task *t = CONTAINER_OF(k, struct target_task, link);

			k = k->next;
			if (concerns(m, t) && visit(m, t))
				return true;
		}
	}
	return false;
}

/* SAM-5 section 5.14.5: initiators whose tasks another one cleared are told. */
static bool abort_one(struct target_task *m, struct target_task *t)
{
	if (m->function == ISCSI_CLEAR_TASK_SET && t->session != m->session)
		scsi_tell_cleared(target_session_scsi(t->session), t->scsi.lun, t->session->nexus);
	target_task_abort(t);
	return false;
}

static bool is_there(struct target_task *m, struct target_task *t)
{
	(void)m;
	return t->state == TASK_ENDING;
}

/* ---- The end of a function ------------------------------------------------------------------ */

/* Section 11.5.1: a cold reset ends the sessions of the target. */
static void cold_reset(struct target_session *s)
{
	struct iscsi_node *node = s->node;
	struct list *l = node->sessions.next;

	while (l != &node->sessions) {
		struct target_session *other = CONTAINER_OF(l, struct target_session, link);

		l = l->next;
		if (other != s && other->target == s->target)
			target_conn_end(other->connection, WEFT_R_ISCSI_RESET);
	}
}

/* The answer to a cold reset is the last PDU of its session. */
static void finish_cold(struct target_task *m)
{
	struct iscsi_connection *c = m->session->connection;
	uint8_t none[SENSE_BYTES_MAX];
	struct iscsi_pdu p;

	cold_reset(m->session);
	target_task_status(m, &p, none);
	if (c->mover->can_send(c, 0))
		target_conn_send(c, &p, NULL);
	target_task_free(m);
	target_conn_leave(c, WEFT_R_ISCSI_RESET);
}

/* True: it was, and sessions have ended by it. */
static bool check(struct target_task *m)
{
	struct iscsi_connection *c = m->session->connection;
	struct iscsi_node *node = m->session->node;
	bool is_cold = m->function == ISCSI_TARGET_COLD_RESET;

	if (m->state != TASK_COLLECTING || for_each(&node->sessions, m, is_there) ||
	    for_each(&node->zombies, m, is_there))
		return false;
	if (is_cold) {
		finish_cold(m);
		return true;
	}
	m->state = TASK_PUTTING;
	c->mover->put_data(c, m);
	return false;
}

void target_manage_check(struct iscsi_node *node)
{
	if (node->manage_count == 0)
		return;
	for (struct list *l = node->sessions.next; l != &node->sessions; l = l->next) {
		struct target_session *s = CONTAINER_OF(l, struct target_session, link);
		struct list *k = s->tasks.next;

		while (k != &s->tasks) {
			struct target_task *t = CONTAINER_OF(k, struct target_task, link);

			k = k->next;
			/* Those that are left are looked at in the next turn. */
			if (t->kind == TASK_MANAGE && check(t))
				return;
		}
	}
}

/* ---- Its beginning -------------------------------------------------------------------------- */

/* A task that another function has ended, and that its device still has; NULL: there is none. */
static struct target_task *find_ending(struct target_session *s, uint32_t itt)
{
	for (struct list *l = s->tasks.prev; l != &s->tasks; l = l->prev) {
		struct target_task *t = CONTAINER_OF(l, struct target_task, link);

		if (t->itt == itt && t->kind == TASK_SCSI && t->state == TASK_ENDING)
			return t;
	}
	return NULL;
}

/* Section 11.6.1: a task that has not come, but whose CmdSN was sent, counts as come and ended. */
static uint8_t abort_task(struct target_task *m, const struct iscsi_pdu *p)
{
	struct target_session *s = m->session;
	struct target_task *t = target_task_find(s, p->ref_itt);

	if (!t)
		t = find_ending(s, p->ref_itt);
	if (t && t->kind == TASK_SCSI) {
		m->aborted = t;
		m->aborted_order = t->order;
		return ISCSI_TASK_COMPLETE;
	}
	if (!iscsi_sn_is_before(p->ref_cmd_sn, p->cmd_sn))
		return ISCSI_TASK_NO_TASK;
	return target_conn_skip(s, p->ref_itt, p->ref_cmd_sn);
}

static bool has_tasks(const struct target_session *s, uint16_t lun)
{
	for (struct list *l = s->tasks.next; l != &s->tasks; l = l->next) {
		const struct target_task *t = CONTAINER_OF(l, struct target_task, link);

		if (t->kind == TASK_SCSI && t->state != TASK_ENDING && t->scsi.lun == lun)
			return true;
	}
	return false;
}

/* RFC 7144 section 7: only if the protocol level has them. */
static uint8_t query(struct target_task *m, const struct iscsi_pdu *p)
{
	struct target_session *s = m->session;
	const struct target_task *t = target_task_find(s, p->ref_itt);

	if (s->params.session.protocol_level < 2)
		return ISCSI_TASK_UNSUPPORTED;
	if (m->function == ISCSI_QUERY_TASK)
		return t && t->kind == TASK_SCSI ? ISCSI_TASK_SUCCEEDED : ISCSI_TASK_COMPLETE;
	if (m->function == ISCSI_QUERY_TASK_SET)
		return has_tasks(s, m->scsi.lun) ? ISCSI_TASK_SUCCEEDED : ISCSI_TASK_COMPLETE;
	return ISCSI_TASK_COMPLETE; /* a nexus reset; or no event is pending */
}

static uint8_t begin(struct target_task *m, const struct iscsi_pdu *p)
{
	struct scsi_target *scsi = target_session_scsi(m->session);

	switch (m->function) {
	case ISCSI_ABORT_TASK:
		return abort_task(m, p);
	case ISCSI_ABORT_TASK_SET:
	case ISCSI_CLEAR_TASK_SET: /* tasks of others are aborted one by one */
		return scsi_task_set_abort(scsi, m->scsi.lun, m->session->nexus)
			       ? ISCSI_TASK_COMPLETE
			       : ISCSI_TASK_NO_LUN;
	case ISCSI_LU_RESET:
		return scsi_unit_reset(scsi, m->scsi.lun) ? ISCSI_TASK_COMPLETE : ISCSI_TASK_NO_LUN;
	case ISCSI_TARGET_WARM_RESET:
	case ISCSI_TARGET_COLD_RESET:
		scsi_target_reset(scsi);
		return ISCSI_TASK_COMPLETE;
	case ISCSI_TASK_REASSIGN:
		return ISCSI_TASK_NO_REASSIGN;
	case ISCSI_CLEAR_ACA:
		return ISCSI_TASK_UNSUPPORTED;
	default:
		return query(m, p);
	}
}

void target_manage_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	struct target_session *s = c->session;
	struct target_task *m;
	uint8_t lun[sizeof(uint64_t)];
	struct wr w = wr_of(lun, sizeof(lun));

	if (s->is_discovery) {
		target_conn_reject(c, a, ISCSI_REJECT_PROTOCOL);
		return;
	}
	m = target_task_get(s, TASK_MANAGE, a->pdu.itt, true);
	if (!m) {
		target_conn_reject(c, a, ISCSI_REJECT_IMMEDIATE);
		return;
	}
	wr_u64(&w, a->pdu.lun);
	m->function = a->pdu.code;
	m->scsi.lun = scsi_lun_decode(lun);
	s->node->manage_count++;
	s->counts.task_functions++;
	m->result = begin(m, &a->pdu);
	if (m->result == ISCSI_TASK_COMPLETE)
		(void)for_each(&s->node->sessions, m, abort_one);
	(void)check(m);
}
