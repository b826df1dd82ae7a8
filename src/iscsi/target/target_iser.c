/* SPDX-License-Identifier: BSD-2-Clause */
/* The datamover of iSER: what the queue pair of a connection receives, and what it is to do. */
#include "iscsi/target/target_iser.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "iscsi/target/target_inside.h"

enum {
	CONTROL_BYTES = 4096,
	CONTROLS_MAX = 32,
	/* Of messages that wait for a slow initiator: a window of commands, and some text. */
	WAITING_BYTES_MAX = 64 * 1024
};

/* A message that came when there was no room for its answer, or no slot for its command. */
struct waiting {
	struct list link;
	uint32_t length;
	uint8_t bytes[];
};

/* Ids of work: the slot of its task, from 1, and its kind; 0: a control message. */
enum { ID_KIND_BITS = 2, ID_KIND_MASK = 3 };

/* Control messages that wait, in the order of their StatSN. */
struct target_iser {
	uint8_t bytes[CONTROL_BYTES];
	uint16_t lengths[CONTROLS_MAX];
	uint32_t used, first, count;  /* of bytes; the first message in them */
	uint32_t taken;		      /* bytes of messages that were taken */
	uint32_t posted;	      /* control messages that the owner has posted */
	uint32_t data_max;	      /* of a message of the initiator */
	uint64_t bytes_in, bytes_out; /* messages, and data moved */
	struct list waiting;	      /* struct waiting, in the order of their arrival */
	uint64_t waiting_bytes;
};

/* ---- Messages of the initiator -------------------------------------------------------------- */

static bool refuse(struct iscsi_connection *c, enum weft_reason reason)
{
	target_conn_end(c, reason);
	return true;
}

/* The data of a message goes to memory of the node: that of a task, or of a text. */
static void copy_to_sink(struct iscsi_connection *c, const uint8_t *data, uint32_t length)
{
	for (uint32_t at = 0; at < length;) {
		struct mem_span span;
		uint32_t count = 1;

		CHECK(target_conn_sink(c, at, &span, &count) == WEFT_OK && count == 1);
		if (span.length > length - at)
			span.length = length - at;
		CHECK(mem_span_write(&span, data + at));
		at += (uint32_t)span.length;
	}
}

/* False: not now. */
static bool place(struct iscsi_connection *c, struct iscsi_arrival *a, const uint8_t *data)
{
	if (a->pdu.data_bytes == 0)
		return true;
	switch (target_conn_place(c, a)) {
	case ISCSI_PLACE_WAIT:
		return false;
	case ISCSI_PLACE_MEMORY:
		copy_to_sink(c, data, a->pdu.data_bytes);
		break;
	case ISCSI_PLACE_BUFFER:
		a->data = data;
		break;
	case ISCSI_PLACE_SKIP:
	case ISCSI_PLACE_END:
		break;
	}
	return true;
}

/* What a command lets the target reach. */
static void note_memory(struct iscsi_connection *c, const struct iscsi_pdu *p, uint64_t order,
			const struct iser_header *h)
{
	struct target_task *t = c->session ? target_task_find(c->session, p->itt) : NULL;

	if (p->opcode != ISCSI_SCSI_COMMAND || !t || t->order <= order)
		return;
	t->remote_tag = t->is_write ? h->write_stag : h->read_stag;
	t->remote_addr = t->is_write ? h->write_to : h->read_to;
	t->has_remote = t->is_write ? h->has_write : h->has_read;
}

static bool is_whole(struct rd r)
{
	uint64_t left = (uint64_t)(r.end - r.at);

	return left >= ISCSI_BHS_BYTES &&
	       left >= (uint64_t)iscsi_header_bytes(r.at) + iscsi_data_bytes(r.at);
}

static bool arrive(struct iscsi_connection *c, const struct iser_header *h, struct rd r)
{
	struct iscsi_arrival a = { .header = r.at };
	uint64_t order = c->node->order_next;
	enum iscsi_take took;

	if (!is_whole(r))
		return refuse(c, WEFT_R_ISCSI_SHORT);
	a.header_bytes = iscsi_header_bytes(r.at);
	a.pdu.data_bytes = iscsi_data_bytes(r.at);
	a.reason = iscsi_decode(&a.pdu, ISCSI_INITIATOR, rd_of(r.at, a.header_bytes),
				c->iser->data_max);
	if (!place(c, &a, r.at + a.header_bytes))
		return false;
	if (c->state == CONN_CLOSED)
		return true;
	took = target_conn_take(c, &a);
	/* What has been placed never waits here: its place had room for the answer. */
	if (took == ISCSI_TAKE_WAIT)
		return false;
	c->iser->bytes_in += ISER_HEADER_BYTES + (uint64_t)(r.end - r.at);
	if (took == ISCSI_TAKE_NEXT)
		note_memory(c, &a.pdu, order, h);
	return true;
}

/* False: it must wait. */
static bool message_take(struct iscsi_connection *c, const uint8_t *bytes, uint32_t length)
{
	struct rd r = rd_of(bytes, length);
	struct iser_header h;
	enum weft_reason reason = iser_decode(&h, ISER_RFC7145, &r);

	if (reason == WEFT_OK && h.kind != ISER_CONTROL)
		reason = WEFT_R_ISER_OPCODE; /* iSERHelloRequired=Yes is never agreed upon */
	return reason == WEFT_OK ? arrive(c, &h, r) : refuse(c, reason);
}

static enum weft_reason message_keep(struct target_iser *m, const uint8_t *bytes, uint32_t length)
{
	struct waiting *w;

	if (m->waiting_bytes + length > WAITING_BYTES_MAX)
		return WEFT_R_ISCSI_FLOOD;
	w = malloc(sizeof(*w) + length);
	if (!w)
		return WEFT_R_NO_MEMORY;
	w->length = length;
	memcpy(w->bytes, bytes, length);
	m->waiting_bytes += length;
	list_init(&w->link);
	list_add_tail(&m->waiting, &w->link);
	return WEFT_OK;
}

static void message_drop(struct target_iser *m)
{
	struct waiting *w = CONTAINER_OF(list_pop(&m->waiting), struct waiting, link);

	m->waiting_bytes -= w->length;
	free(w);
}

void iscsi_iser_received(struct iscsi_connection *c, const uint8_t *bytes, uint32_t length,
			 uint64_t now_ns)
{
	enum weft_reason reason = WEFT_OK;

	c->node->now_ns = now_ns;
	if (c->state == CONN_CLOSED)
		return;
	c->heard_ns = now_ns;
	c->is_pinging = false;
	if (!list_is_empty(&c->iser->waiting) || !message_take(c, bytes, length))
		reason = message_keep(c->iser, bytes, length);
	if (reason != WEFT_OK)
		target_conn_end(c, reason);
	target_node_settle(c->node);
}

/* ---- Work for the queue pair ---------------------------------------------------------------- */

static uint64_t id_of(const struct iscsi_connection *c, const struct target_task *t,
		      enum iser_work_kind kind)
{
	return ((uint64_t)(t - c->node->tasks) + 1) << ID_KIND_BITS | kind;
}

static uint32_t message_put(uint8_t *room, const struct iscsi_pdu *p, const uint8_t *data)
{
	const struct iser_header h = { .kind = ISER_CONTROL };
	struct wr w = wr_of(room, ISER_ANSWER_MAX);

	iser_encode(&h, ISER_RFC7145, &w);
	iscsi_encode(p, &w);
	if (p->data_bytes > 0)
		wr_bytes(&w, data, p->data_bytes);
	CHECK(!w.is_short);
	return (uint32_t)(w.at - room);
}

static void take_control(struct target_iser *m, const struct iser_room *room,
			 struct iser_work *work)
{
	uint32_t length = m->lengths[m->first];

	memcpy(room->message, m->bytes + m->taken, length);
	m->taken += length;
	m->first++;
	m->count--;
	m->posted++;
	if (m->count == 0)
		m->used = m->taken = m->first = 0;
	m->bytes_out += length;
	*work = (struct iser_work){ .kind = ISER_SEND, .length = length };
}

/* The initiator's memory, or ours, ends before the data: the rest follows. */
static void move(struct iscsi_connection *c, struct target_task *t, enum iser_work_kind kind,
		 struct iser_work *work)
{
	uint32_t *at = kind == ISER_READ ? &t->read : &t->put;
	uint64_t end = kind == ISER_READ ? t->needed : t->scsi.in_length;
	struct mem_span span;
	uint32_t count = target_task_spans(t, *at, &span, 1);

	CHECK(count == 1);
	if (span.length > end - *at)
		span.length = end - *at;
	*work = (struct iser_work){
		.kind = kind,
		.id = id_of(c, t, kind),
		.memory = { .bytes = span.bytes, .length = (size_t)span.length },
		.remote_tag = t->remote_tag,
		.remote_addr = t->remote_addr + *at,
	};
	*at += (uint32_t)span.length;
	t->posted++;
	*(kind == ISER_READ ? &c->iser->bytes_in : &c->iser->bytes_out) += span.length;
}

static void tell_status(struct iscsi_connection *c, struct target_task *t,
			const struct iser_room *room, struct iser_work *work)
{
	uint8_t sense[SENSE_BYTES_MAX];
	const uint8_t *data = sense;
	struct iscsi_pdu p;
	struct mem_span span;

	target_task_status(t, &p, sense);
	t->has_status_out = true;
	target_task_told(t);
	if (t->kind == TASK_PING) {
		uint32_t max = c->params.connection.send_bytes_max;

		if (max > ISER_ANSWER_MAX - ISER_HEADER_BYTES - ISCSI_BHS_BYTES)
			max = ISER_ANSWER_MAX - ISER_HEADER_BYTES - ISCSI_BHS_BYTES;
		p.data_bytes = t->received < max ? t->received : max;
		data = target_task_spans(t, 0, &span, 1) ? span.bytes : NULL;
	}
	target_conn_number(c, &p, true);
	t->posted++;
	*work = (struct iser_work){ .kind = ISER_SEND,
				    .id = id_of(c, t, ISER_SEND),
				    .length = message_put(room->message, &p, data) };
	c->iser->bytes_out += work->length;
}

enum turn { TURN_NOTHING, TURN_MORE, TURN_LAST };

/* Data is to be moved: the initiator must have said where. */
static bool needs_remote(const struct target_task *t)
{
	return t->state == TASK_COLLECTING || (t->kind == TASK_SCSI && t->put < t->scsi.in_length);
}

/* One piece of work of the task. TURN_NOTHING: there is no room for it. */
static enum turn task_turn(struct iscsi_connection *c, struct target_task *t,
			   const struct iser_room *room, struct iser_work *work)
{
	if (needs_remote(t) && !t->has_remote) {
		target_conn_end(c, WEFT_R_ISER_NO_TAG);
		return TURN_NOTHING;
	}
	if (t->state == TASK_COLLECTING) {
		if (!room->can_read)
			return TURN_NOTHING;
		move(c, t, ISER_READ, work);
		return t->read < t->needed ? TURN_MORE : TURN_LAST;
	}
	if (t->kind == TASK_SCSI && t->put < t->scsi.in_length) {
		move(c, t, ISER_WRITE, work);
		return TURN_MORE;
	}
	tell_status(c, t, room, work);
	return TURN_LAST;
}

bool iscsi_iser_next(struct iscsi_connection *c, const struct iser_room *room,
		     struct iser_work *work)
{
	struct target_iser *m = c->iser;
	struct list *l = c->out.next;

	if (m->count > 0 && c->state != CONN_CLOSED) {
		take_control(m, room, work);
		return true;
	}
	while (c->state == CONN_OPEN && l != &c->out) {
		struct target_task *t = CONTAINER_OF(l, struct target_task, wait);
		enum turn turn;

		l = l->next;
		turn = task_turn(c, t, room, work);
		if (turn == TURN_NOTHING)
			continue;
		list_remove(&t->wait);
		if (turn == TURN_MORE) /* others have their turn */
			list_add_tail(&c->out, &t->wait);
		return true;
	}
	return false;
}

static void task_done(struct iscsi_connection *c, struct target_task *t, enum iser_work_kind kind)
{
	CHECK(t->posted > 0);
	t->posted--;
	if (t->state == TASK_ENDING) {
		if (t->posted == 0 && !t->is_submitted)
			target_task_free(t);
		return;
	}
	if (kind == ISER_READ && t->posted == 0 && t->read == t->needed) {
		t->received = t->needed;
		target_task_arrived(t);
	} else if (t->has_status_out && t->posted == 0) {
		target_task_put(t);
	}
	target_attention(c);
}

void iscsi_iser_done(struct iscsi_connection *c, uint64_t id, enum weft_reason reason,
		     uint64_t now_ns)
{
	c->node->now_ns = now_ns;
	if (reason != WEFT_OK && c->state != CONN_CLOSED)
		target_conn_end(c, reason);
	if (id != 0) {
		task_done(c, &c->node->tasks[(id >> ID_KIND_BITS) - 1], id & ID_KIND_MASK);
	} else {
		c->iser->posted--;
		target_conn_sent(c);
	}
	c->node->has_freed |= c->is_waiting;
	target_node_settle(c->node);
}

void iscsi_iser_lost(struct iscsi_connection *c, enum weft_reason reason, uint64_t now_ns)
{
	if (reason == WEFT_OK || reason == WEFT_R_PEER_GONE) {
		iscsi_connection_eof(c, now_ns);
		return;
	}
	c->node->now_ns = now_ns;
	target_conn_end(c, reason);
	target_node_settle(c->node);
}

/* ---- The table ------------------------------------------------------------------------------ */

static bool iser_can_send(const struct iscsi_connection *c, uint32_t data_bytes)
{
	const struct target_iser *m = c->iser;

	return m->first + m->count < CONTROLS_MAX &&
	       m->used + ISER_HEADER_BYTES + ISCSI_BHS_BYTES + data_bytes <= CONTROL_BYTES;
}

static void iser_send_control(struct iscsi_connection *c, const struct iscsi_pdu *p,
			      const uint8_t *data)
{
	struct target_iser *m = c->iser;
	uint32_t length = message_put(m->bytes + m->used, p, data);

	m->lengths[m->first + m->count++] = (uint16_t)length;
	m->used += length;
	target_attention(c);
}

static void iser_out(struct iscsi_connection *c, struct target_task *t)
{
	if (!list_is_linked(&t->wait))
		list_add_tail(&c->out, &t->wait);
	target_attention(c);
}

static void iser_get_data(struct iscsi_connection *c, struct target_task *t)
{
	if (t->read == 0) /* nothing is under way */
		t->read = t->received;
	iser_out(c, t);
}

static void iser_notice_keys(struct iscsi_connection *c, const struct iscsi_params *p)
{
	c->iser->data_max = p->connection.target_recv_bytes_max;
}

static void iser_resume(struct iscsi_connection *c, uint64_t now_ns)
{
	struct target_iser *m = c->iser;

	(void)now_ns;
	while (!list_is_empty(&m->waiting)) {
		const struct waiting *w = CONTAINER_OF(m->waiting.next, struct waiting, link);

		if (!message_take(c, w->bytes, w->length))
			return;
		message_drop(m);
	}
}

static bool iser_is_sent(const struct iscsi_connection *c)
{
	return c->iser->count == 0 && c->iser->posted == 0;
}

static void iser_count(const struct iscsi_connection *c, struct iscsi_view *v)
{
	v->bytes_in = c->iser->bytes_in;
	v->bytes_out = c->iser->bytes_out;
}

static void iser_terminate(struct iscsi_connection *c)
{
	while (!list_is_empty(&c->iser->waiting))
		message_drop(c->iser);
	free(c->iser);
}

static const struct target_mover iser_mover = {
	.can_send = iser_can_send,
	.send_control = iser_send_control,
	.put_data = iser_out,
	.get_data = iser_get_data,
	.notice_keys = iser_notice_keys,
	.resume = iser_resume,
	.is_sent = iser_is_sent,
	.count = iser_count,
	.terminate = iser_terminate,
};

enum weft_reason target_iser_begin(struct iscsi_connection *c)
{
	c->iser = calloc(1, sizeof(*c->iser));
	if (!c->iser)
		return WEFT_R_NO_MEMORY;
	c->iser->data_max = ISER_TARGET_RECV_BYTES;
	list_init(&c->iser->waiting);
	c->mover = &iser_mover;
	return WEFT_OK;
}
