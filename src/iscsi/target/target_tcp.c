/* SPDX-License-Identifier: BSD-2-Clause */
/* The datamover of TCP: Data-In, R2T and SCSI Responses through the framing of the connection. */
#include <string.h>

#include "base/check.h"
#include "iscsi/target/target_inside.h"

enum { TTT_SHIFT = 8, TTT_SN_MASK = 0xff };

uint32_t target_task_ttt(const struct target_task *t, uint32_t r2t_sn)
{
	uint32_t slot = (uint32_t)(t - t->session->node->tasks);

	return slot << TTT_SHIFT | (r2t_sn & TTT_SN_MASK);
}

/* ---- Calls of the framing ------------------------------------------------------------------- */

static enum iscsi_place tcp_place(void *owner, const struct iscsi_arrival *a, uint64_t now_ns)
{
	(void)now_ns;
	return target_conn_place(owner, a);
}

static enum weft_reason tcp_sink(void *owner, uint32_t offset, struct mem_span *spans,
				 uint32_t *count)
{
	return target_conn_sink(owner, offset, spans, count);
}

static enum iscsi_take tcp_take(void *owner, const struct iscsi_arrival *a, uint64_t now_ns)
{
	(void)now_ns;
	return target_conn_take(owner, a);
}

/* A cookie is the number of a task's slot, from 1. */
static struct target_task *task_of(const struct iscsi_connection *c, uint64_t cookie)
{
	return &c->node->tasks[cookie - 1];
}

static uint64_t cookie_of(const struct iscsi_connection *c, const struct target_task *t)
{
	return (uint64_t)(t - c->node->tasks) + 1;
}

static enum weft_reason tcp_source(void *owner, uint64_t cookie, uint64_t data_at,
				   struct mem_span *spans, uint32_t *count)
{
	struct iscsi_connection *c = owner;

	*count = target_task_spans(task_of(c, cookie), data_at, spans, *count);
	return WEFT_OK;
}

static void tcp_taken(void *owner, uint64_t cookie)
{
	struct iscsi_connection *c = owner;
	struct target_task *t = task_of(c, cookie);

	CHECK(t->pdus > 0);
	if (--t->pdus > 0)
		return;
	if (t->state == TASK_ENDING)
		target_task_free(t);
	else if (t->has_status_out)
		target_task_put(t);
}

static const struct iscsi_framing_calls framing_calls = { tcp_place, tcp_sink, tcp_take, tcp_source,
							  tcp_taken };

/* ---- Tasks ---------------------------------------------------------------------------------- */

static void send_r2t(struct iscsi_connection *c, struct target_task *t)
{
	uint64_t burst = c->params.session.burst_bytes_max;
	uint64_t from = t->asked_from + burst * t->r2t_sent;
	struct iscsi_pdu p = { .opcode = ISCSI_R2T,
			       .is_final = true,
			       .itt = t->itt,
			       .lun = t->lun,
			       .ttt = target_task_ttt(t, t->r2t_sent),
			       .data_sn = t->r2t_sent,
			       .offset = (uint32_t)from };

	p.desired_bytes = t->needed - p.offset < burst ? t->needed - p.offset : (uint32_t)burst;
	target_conn_number(c, &p, false);
	(void)iscsi_framing_send(c->framing, &(struct iscsi_framing_pdu){ .pdu = &p });
	t->r2t_sent++;
	t->session->counts.r2ts++;
}

static bool can_r2t(const struct iscsi_connection *c, const struct target_task *t)
{
	uint64_t from = t->asked_from + (uint64_t)c->params.session.burst_bytes_max * t->r2t_sent;

	return t->r2t_sent - t->r2t_done < c->params.session.r2t_max && from < t->needed;
}

static void send_data_in(struct iscsi_connection *c, struct target_task *t)
{
	uint32_t burst = c->params.session.burst_bytes_max;
	uint32_t left = (uint32_t)t->scsi.in_length - t->put, to_burst = burst - t->put % burst;
	struct iscsi_pdu p = { .opcode = ISCSI_DATA_IN,
			       .itt = t->itt,
			       .ttt = ISCSI_TAG_NONE,
			       .data_sn = t->put_sn++,
			       .offset = t->put };

	p.data_bytes = left < to_burst ? left : to_burst;
	if (p.data_bytes > c->params.connection.send_bytes_max)
		p.data_bytes = c->params.connection.send_bytes_max;
	p.is_final = p.data_bytes == left || p.data_bytes == to_burst;
	p.has_status = p.data_bytes == left && target_task_is_plain(t);
	if (p.has_status) {
		p.status = SCSI_GOOD;
		t->has_status_out = true;
		target_task_told(t);
	}
	target_conn_number(c, &p, p.has_status);
	t->pdus++;
	(void)iscsi_framing_send(c->framing, &(struct iscsi_framing_pdu){ .pdu = &p,
									  .cookie = cookie_of(c, t),
									  .data_at = t->put });
	t->put += p.data_bytes;
}

/* The last PDU. That of a ping has its data by reference. */
static void send_status(struct iscsi_connection *c, struct target_task *t)
{
	uint8_t sense[SENSE_BYTES_MAX];
	struct iscsi_framing_pdu out = { .copy = sense };
	struct iscsi_pdu p;

	target_task_status(t, &p, sense);
	t->has_status_out = true;
	target_task_told(t);
	if (t->kind == TASK_PING) {
		uint32_t max = c->params.connection.send_bytes_max;

		p.data_bytes = t->received < max ? t->received : max;
		out = (struct iscsi_framing_pdu){ .cookie = cookie_of(c, t) };
		t->pdus++;
	}
	target_conn_number(c, &p, true);
	out.pdu = &p;
	(void)iscsi_framing_send(c->framing, &out);
}

/* Sends one PDU of the task. True: there are more. */
static bool task_out(struct iscsi_connection *c, struct target_task *t)
{
	if (t->state == TASK_COLLECTING) {
		if (can_r2t(c, t))
			send_r2t(c, t);
		return can_r2t(c, t);
	}
	if (t->kind == TASK_SCSI && t->put < t->scsi.in_length)
		send_data_in(c, t);
	else
		send_status(c, t);
	if (!t->has_status_out)
		return true;
	if (t->pdus == 0)
		target_task_put(t);
	return false;
}

void target_tcp_fill(struct iscsi_connection *c)
{
	/* Bound: each turn takes room in the ring, or takes a task off the list. */
	while (c->state == CONN_OPEN && !list_is_empty(&c->out) &&
	       iscsi_framing_has_room(c->framing, SENSE_BYTES_MAX)) {
		struct target_task *t = CONTAINER_OF(list_pop(&c->out), struct target_task, wait);

		/* In turns, so that a small one need not wait for all of a large one. */
		if (task_out(c, t))
			list_add_tail(&c->out, &t->wait);
	}
}

/* ---- The table ------------------------------------------------------------------------------ */

static bool tcp_can_send(const struct iscsi_connection *c, uint32_t data_bytes)
{
	return iscsi_framing_has_room(c->framing, data_bytes);
}

static void tcp_send_control(struct iscsi_connection *c, const struct iscsi_pdu *p,
			     const uint8_t *data)
{
	static const uint8_t none[1];

	(void)iscsi_framing_send(
		c->framing, &(struct iscsi_framing_pdu){ .pdu = p, .copy = data ? data : none });
	target_attention(c);
}

static void tcp_out(struct iscsi_connection *c, struct target_task *t)
{
	if (!list_is_linked(&t->wait))
		list_add_tail(&c->out, &t->wait);
	target_attention(c);
}

static void tcp_get_data(struct iscsi_connection *c, struct target_task *t)
{
	if (can_r2t(c, t))
		tcp_out(c, t);
}

static void tcp_notice_keys(struct iscsi_connection *c, const struct iscsi_params *p)
{
	iscsi_framing_set(
		c->framing,
		&(struct iscsi_framing_terms){
			.has_header_digest = p->connection.header_digest == ISCSI_DIGEST_CRC32C,
			.has_data_digest = p->connection.data_digest == ISCSI_DIGEST_CRC32C,
			.recv_bytes_max = p->connection.recv_bytes_max,
		});
}

static void tcp_resume(struct iscsi_connection *c, uint64_t now_ns)
{
	iscsi_framing_resume(c->framing, now_ns);
}

static bool tcp_is_sent(const struct iscsi_connection *c)
{
	return iscsi_framing_is_sent(c->framing);
}

static void tcp_count(const struct iscsi_connection *c, struct iscsi_view *v)
{
	v->bytes_in = iscsi_framing_counts(c->framing)->bytes_in;
	v->bytes_out = iscsi_framing_counts(c->framing)->bytes_out;
}

static void tcp_terminate(struct iscsi_connection *c)
{
	iscsi_framing_destroy(c->framing);
}

static const struct target_mover tcp_mover = {
	.takes_loans = true,
	.can_send = tcp_can_send,
	.send_control = tcp_send_control,
	.put_data = tcp_out,
	.get_data = tcp_get_data,
	.notice_keys = tcp_notice_keys,
	.resume = tcp_resume,
	.is_sent = tcp_is_sent,
	.count = tcp_count,
	.terminate = tcp_terminate,
};

enum weft_reason target_tcp_begin(struct iscsi_connection *c)
{
	struct iscsi_framing_config config = { .side = ISCSI_TARGET,
					       .calls = &framing_calls,
					       .owner = c };

	c->mover = &tcp_mover;
	return iscsi_framing_create(&config, &c->framing);
}
