/* SPDX-License-Identifier: BSD-2-Clause */
/* SCSI commands from their PDU to their status. */
#include <string.h>

#include "base/check.h"
#include "base/free_list.h"
#include "iscsi/target/target_inside.h"

/* ---- Slots ---------------------------------------------------------------------------------- */

static struct target_task **bucket_of(struct target_session *s, uint32_t itt)
{
	enum { SPREAD = 0x9e3779b1, SHIFT = 26 };

	return &s->by_itt[(itt * (uint32_t)SPREAD) >> SHIFT];
}

/*
 * Section 4.2.2.1: a session may always have an immediate command and an immediate function; of
 * more it has a few, lest one takes the slots of all.
 */
static bool has_extra(const struct target_session *s, enum target_task_kind kind)
{
	uint32_t most = kind == TASK_MANAGE ? ISCSI_EXTRAS_MAX : ISCSI_EXTRA_COMMANDS_MAX;

	return s->extras < most && s->node->unpromised > 0;
}

struct target_task *target_task_get(struct target_session *s, enum target_task_kind kind,
				    uint32_t itt, bool is_extra)
{
	struct target_task **bucket = bucket_of(s, itt);
	struct iscsi_node *node = s->node;
	struct target_task *t;

	if (is_extra ? !has_extra(s, kind) : s->slots == s->window)
		return NULL;
	node->unpromised -= is_extra;
	s->extras += is_extra;
	s->slots += !is_extra;
	CHECK(node->task_count < node->config.tasks_max);
	t = &node->tasks[free_list_get(node->free_tasks, node->task_count++)];
	CHECK(t->state == TASK_FREE);
	memset(t, 0, offsetof(struct target_task, span_count));
	t->span_count = 0;
	t->kind = kind;
	t->state = TASK_COLLECTING;
	t->session = s;
	t->is_extra = is_extra;
	t->order = ++node->order_next;
	t->itt = itt;
	t->next_by_itt = *bucket;
	*bucket = t;
	list_init(&t->wait);
	list_add_tail(&s->tasks, &t->link);
	return t;
}

void target_task_free(struct target_task *t)
{
	struct target_session *s = t->session;
	struct iscsi_node *node = s->node;
	struct target_task **at = bucket_of(s, t->itt);

	while (*at != t)
		at = &(*at)->next_by_itt;
	*at = t->next_by_itt;
	target_task_told(t);
	store_loan_end(&t->loan);
	if (t->span_count > 0) {
		pool_give(node->pool, t->spans, t->span_count);
		s->memory_bytes -= t->room;
	}
	list_remove(&t->link);
	list_remove(&t->wait);
	s->cut_count -= t->is_cut;
	node->manage_count -= t->kind == TASK_MANAGE;
	node->ready_count -= t->state == TASK_READY;
	node->unpromised += t->is_extra;
	s->extras -= t->is_extra;
	s->slots -= !t->is_extra;
	t->state = TASK_FREE;
	free_list_set(node->free_tasks, --node->task_count, (uint32_t)(t - node->tasks));
	node->has_freed = true;
	if (!s->connection)
		target_session_reap(s);
}

struct target_task *target_task_find(struct target_session *s, uint32_t itt)
{
	struct target_task *t = *bucket_of(s, itt);

	while (t && (t->itt != itt || t->state == TASK_ENDING))
		t = t->next_by_itt;
	return t;
}

/* ---- Memory --------------------------------------------------------------------------------- */

bool target_task_take_memory(struct target_task *t, uint64_t reserve)
{
	uint32_t count = TASK_SPANS;

	if (t->room == 0 || t->span_count > 0)
		return true;
	if (!pool_take(t->session->node->pool, t->room, reserve, t->spans, &count))
		return false;
	t->span_count = count;
	t->held_ns = t->session->node->now_ns;
	t->session->memory_bytes += t->room;
	return true;
}

uint32_t target_task_spans(const struct target_task *t, uint64_t at, struct mem_span *spans,
			   uint32_t max)
{
	uint32_t n = 0;

	if (t->loan.bytes) {
		spans[0] = (struct mem_span){ .bytes = t->loan.bytes + at,
					      .length = t->loan.length - at };
		return 1;
	}
	for (uint32_t i = 0; i < t->span_count && n < max; i++) {
		const struct span *s = &t->spans[i];

		if (at >= s->length) {
			at -= s->length;
			continue;
		}
		spans[n++] = (struct mem_span){ .bytes = s->bytes + at, .length = s->length - at };
		at = 0;
	}
	return n;
}

/* The first bytes of the memory, as SCSI wants them. */
static struct scsi_data data_of(struct target_task *t, uint32_t length)
{
	struct scsi_data d = { .spans = t->spans, .length = length };

	for (uint64_t left = length; left > 0; d.span_count++) {
		struct span *s = &t->spans[d.span_count];

		if (s->length > left)
			s->length = (size_t)left;
		left -= s->length;
	}
	return d;
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static enum scsi_attribute attribute_of(uint8_t attr)
{
	if (attr == ISCSI_ATTR_ORDERED)
		return SCSI_ORDERED;
	return attr == ISCSI_ATTR_HEAD ? SCSI_HEAD_OF_QUEUE : SCSI_SIMPLE;
}

struct target_task *target_task_begin(struct target_session *s, const struct iscsi_pdu *p)
{
	struct target_task *t = target_task_get(s, TASK_SCSI, p->itt, p->is_immediate);
	uint8_t lun[sizeof(uint64_t)];
	struct wr w = wr_of(lun, sizeof(lun));
	uint64_t need;

	if (!t)
		return NULL;
	wr_u64(&w, p->lun);
	t->cmd_sn = p->cmd_sn;
	t->lun = p->lun;
	t->is_immediate = p->is_immediate;
	t->is_write = p->is_write;
	t->is_read = p->is_read && !p->is_write;
	t->expected = p->expected_bytes;
	t->read_expected = p->is_write ? p->read_expected_bytes : 0;
	t->scsi.nexus = s->nexus;
	t->scsi.lun = scsi_lun_decode(lun);
	t->scsi.attribute = attribute_of(p->attr);
	memcpy(t->scsi.cdb, p->cdb, sizeof(t->scsi.cdb));
	need = scsi_data_need(target_session_scsi(s), t->scsi.lun, t->scsi.cdb);
	/* More than a transfer may have is refused by SCSI before it looks at the data. */
	if ((!t->is_read && !t->is_write) || need > ISCSI_TRANSFER_MAX)
		need = 0;
	t->needed = need < t->expected ? (uint32_t)need : t->expected;
	t->room = t->needed;
	s->counts.commands++;
	s->node->counts.commands++;
	s->counts.reads += t->is_read;
	s->counts.writes += t->is_write;
	s->ordered_count += t->scsi.attribute == SCSI_ORDERED;
	return t;
}

/* ---- Going on ------------------------------------------------------------------------------- */

static bool is_waiting(const struct target_task *t)
{
	return t->kind == TASK_SCSI && (t->state == TASK_COLLECTING || t->state == TASK_READY);
}

/* It leaves the tasks that are to be submitted. */
static void leave_queue(struct target_task *t, enum target_task_state to)
{
	struct target_session *s = t->session;

	if (is_waiting(t) && t->scsi.attribute == SCSI_ORDERED)
		s->ordered_count--;
	s->node->ready_count -= t->state == TASK_READY;
	t->state = to;
}

/* SAM-5 section 8.6: an ordered task is after all before it, and before all after it. */
static bool may_submit(const struct target_task *t)
{
	const struct target_session *s = t->session;

	if (s->cut_count > 0 || !target_session_is_clear(s))
		return false;
	if (s->ordered_count == 0 || t->scsi.attribute == SCSI_HEAD_OF_QUEUE)
		return true;
	for (struct list *l = s->tasks.next; l != &t->link; l = l->next) {
		const struct target_task *before = CONTAINER_OF(l, struct target_task, link);

		if (is_waiting(before) &&
		    (t->scsi.attribute == SCSI_ORDERED || before->scsi.attribute == SCSI_ORDERED))
			return false;
	}
	return true;
}

static void submit(struct target_task *t)
{
	struct target_session *s = t->session;
	struct scsi_data data = data_of(t, t->needed);

	t->scsi.in = t->is_read ? data : (struct scsi_data){ .spans = NULL };
	t->scsi.out = t->is_write ? data : (struct scsi_data){ .spans = NULL };
	t->scsi.loan = s->connection && s->connection->mover->takes_loans ? &t->loan : NULL;
	leave_queue(t, TASK_RUNNING);
	t->is_submitted = true;
	scsi_submit(target_session_scsi(s), &t->scsi, s->node->now_ns);
	s->node->has_freed |= s->ordered_count > 0;
}

void target_task_kick(struct target_session *s)
{
	struct list *l = s->tasks.next;

	while (l != &s->tasks) {
		struct target_task *t = CONTAINER_OF(l, struct target_task, link);

		l = l->next;
		if (t->state == TASK_READY && may_submit(t))
			submit(t);
	}
}

/* Sense data of a fault, of fixed format (SPC-4 section 4.5.3): key, code and qualifier. */
static void sense_set(struct scsi_task *t, uint8_t key, uint8_t code, uint8_t qualifier)
{
	enum { FIXED = 0x70, LENGTH = 18, AT_KEY = 2, AT_MORE = 7, AT_CODE = 12 };

	memset(t->sense, 0, LENGTH);
	t->sense[0] = FIXED;
	t->sense[AT_KEY] = key;
	t->sense[AT_MORE] = LENGTH - AT_MORE - 1;
	t->sense[AT_CODE] = code;
	t->sense[AT_CODE + 1] = qualifier;
	t->sense_length = LENGTH;
	t->status = SCSI_CHECK_CONDITION;
}

static void put(struct target_task *t)
{
	struct iscsi_connection *c = t->session->connection;

	leave_queue(t, TASK_PUTTING);
	t->held_ns = t->session->node->now_ns;
	t->session->counts.failed += t->scsi.status != SCSI_GOOD;
	c->mover->put_data(c, t);
}

/* Ends a task that SCSI has not seen. Section 11.4.7.2 has the sense data. */
static void fail(struct target_task *t)
{
	enum { ABORTED_COMMAND = 0x0b };
	struct scsi_task *scsi = &t->scsi;

	scsi->is_overflow = false;
	scsi->in_length = 0;
	scsi->residual = t->needed;
	scsi->sense_length = 0;
	if (t->fault == FAULT_BUSY) {
		scsi->status = TARGET_BUSY;
		t->session->node->counts.busy++;
	} else if (t->fault == FAULT_UNSOLICITED) {
		sense_set(scsi, ABORTED_COMMAND, 0x0c, 0x0c);
	} else {
		sense_set(scsi, ABORTED_COMMAND, 0x47, 0x05);
	}
	put(t);
}

/*
 * A session may have as much of the memory as it leaves to others, however many there are: what it
 * has, whose initiator is slow or whose device hangs, never takes all. What is more waits for what
 * it has. One task it may always have.
 */
static bool is_greedy(const struct target_task *t)
{
	const struct target_session *s = t->session;
	bool is_next = list_is_empty(&s->greedy) || s->greedy.next == &t->wait;

	return s->memory_bytes > 0 && (!is_next || s->memory_bytes + 2 * (uint64_t)t->room >
							   pool_free_bytes(s->node->pool));
}

/* Memory for a task whose turn it is. False: it waits. */
static bool take_turn(struct target_task *t)
{
	struct iscsi_node *node = t->session->node;
	bool is_turn = list_is_empty(&node->starved) || node->starved.next == &t->wait;

	if (is_greedy(t)) {
		if (t->session->greedy.next != &t->wait) {
			list_remove(&t->wait);
			list_add_tail(&t->session->greedy, &t->wait);
		}
		if (!list_is_linked(&t->session->wait))
			list_add_tail(&node->greedy, &t->session->wait);
		return false;
	}
	if (is_turn && target_task_take_memory(t, pool_bytes(node->pool) / RESERVE_PART)) {
		list_remove(&t->wait);
		return true;
	}
	if (node->starved.next != &t->wait) {
		list_remove(&t->wait);
		target_node_starve(node, t);
	}
	return false;
}

void target_task_step(struct target_task *t)
{
	struct iscsi_node *node = t->session->node;
	struct iscsi_connection *c = t->session->connection;
	bool is_whole = !t->is_write || t->received >= t->needed;

	if (t->state != TASK_COLLECTING || !t->is_ordered || t->is_unsolicited)
		return;
	/* Section 7.8: the data that was asked for must have come. */
	if (t->fault != FAULT_NONE && (is_whole || !t->is_asked)) {
		fail(t);
		return;
	}
	if (t->room > 0 && t->span_count == 0 && !take_turn(t))
		return;
	if (!is_whole) {
		t->asked_from = t->is_asked ? t->asked_from : t->received;
		t->is_asked = true;
		c->mover->get_data(c, t);
		return;
	}
	t->state = TASK_READY;
	node->ready_count++;
	if (may_submit(t))
		submit(t);
}

void target_task_order(struct target_task *t)
{
	t->is_ordered = true;
	if (!t->is_immediate) {
		t->is_counted = true;
		t->session->in_flight++;
	}
	target_task_step(t);
}

void target_task_arrived(struct target_task *t)
{
	target_task_step(t);
}

void target_task_done(struct target_task *t)
{
	struct target_session *s = t->session;

	t->is_submitted = false;
	if (t->state == TASK_ENDING || t->scsi.is_aborted || !s->connection) {
		target_task_free(t);
		return;
	}
	s->counts.bytes_read += t->scsi.in_length;
	s->counts.bytes_written += t->is_write ? t->needed : 0;
	put(t);
}

void target_task_told(struct target_task *t)
{
	if (!t->is_counted)
		return;
	t->is_counted = false;
	t->session->in_flight--;
}

void target_task_put(struct target_task *t)
{
	target_task_free(t);
}

/* ---- Aborts --------------------------------------------------------------------------------- */

void target_task_abort(struct target_task *t)
{
	struct target_session *s = t->session;
	bool is_running = t->state == TASK_RUNNING;
	bool is_held = is_waiting(t) && !t->is_ordered && list_is_linked(&t->wait);

	if (t->state == TASK_ENDING)
		return;
	if (is_held) { /* section 4.2.2.1: its number has come all the same */
		leave_queue(t, TASK_ENDING);
		t->kind = TASK_NUMBER;
		return;
	}
	target_task_told(t);
	list_remove(&t->wait);
	leave_queue(t, TASK_ENDING);
	if (is_running) {
		scsi_task_abort(target_session_scsi(s), &t->scsi);
		s->node->has_freed = true;
	} else if (t->pdus == 0 && t->posted == 0 &&
		   !(s->connection && s->connection->arriving == t)) {
		/* Else it is freed when its last PDU is sent, or its data has come. */
		target_task_free(t);
	}
}

/* ---- Status --------------------------------------------------------------------------------- */

static uint32_t residual_of(const struct target_task *t)
{
	uint64_t residual = t->scsi.residual;

	if (!t->scsi.is_overflow)
		residual += t->expected - t->needed;
	return residual < UINT32_MAX ? (uint32_t)residual : UINT32_MAX;
}

bool target_task_is_plain(const struct target_task *t)
{
	return t->kind == TASK_SCSI && t->scsi.status == SCSI_GOOD && t->is_read &&
	       residual_of(t) == 0 && t->scsi.in_length > 0;
}

static void scsi_status(const struct target_task *t, struct iscsi_pdu *p, uint8_t *sense)
{
	uint32_t residual = residual_of(t);
	struct wr w = wr_of(sense, SENSE_BYTES_MAX);

	p->opcode = ISCSI_SCSI_RESPONSE;
	p->code = ISCSI_COMPLETED;
	p->status = t->scsi.status;
	p->residual = residual;
	p->is_overflow = residual > 0 && t->scsi.is_overflow;
	p->is_underflow = residual > 0 && !t->scsi.is_overflow;
	p->read_residual = t->read_expected;
	p->is_read_underflow = t->read_expected > 0;
	p->data_sn = t->put_sn + t->r2t_sent;
	p->ttt = 0; /* SNACK Tag */
	if (t->scsi.sense_length > 0) {
		wr_u16(&w, t->scsi.sense_length);
		wr_bytes(&w, t->scsi.sense, t->scsi.sense_length);
		p->data_bytes = ISCSI_SENSE_HEADER_BYTES + (uint32_t)t->scsi.sense_length;
	}
}

void target_task_status(const struct target_task *t, struct iscsi_pdu *p,
			uint8_t sense[SENSE_BYTES_MAX])
{
	*p = (struct iscsi_pdu){ .is_final = true, .itt = t->itt, .ttt = ISCSI_TAG_NONE };
	if (t->kind == TASK_SCSI) {
		scsi_status(t, p, sense);
	} else if (t->kind == TASK_MANAGE) {
		p->opcode = ISCSI_TASK_RESPONSE;
		p->code = t->result;
	} else {
		p->opcode = ISCSI_NOP_IN;
		p->lun = t->lun;
	}
}
