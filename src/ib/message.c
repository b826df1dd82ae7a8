/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A Send or Write of the peer, packet by packet and in order. Each step is a check that lets the
 * packet go on, or says what becomes of it; only the last two change anything.
 */
#include "ib/message.h"

#include <string.h>

#include "ib/conn.h"
#include "ib/port.h"
#include "ib/responder.h"
#include "wire/iba_aeth.h"

static const struct verdict good;

static struct verdict refused(enum iba_nak nak, enum weft_reason reason)
{
	return (struct verdict){ .reason = reason, .nak = (uint8_t)nak };
}

/* IBA 9.7.4.1.2: after a first or middle packet comes a middle or last one of the same kind. */
static bool is_in_order(const struct message *m, const struct iba_form *f)
{
	bool is_first = f->traits & IBA_FIRST;

	return m->kind == IBA_KIND_NONE ? is_first : !is_first && m->kind == f->kind;
}

/* Whether the message takes a receive with this packet. */
static bool takes_receive(const struct weft_qp *qp, const struct iba_form *f)
{
	if (f->kind == IBA_KIND_SEND)
		return !qp->recv;
	return f->headers & IBA_HAS_IMM;
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* RKEY-09: the peer asked for something that it may not have, and the consumer is told. */
static struct verdict refused_access(struct ib_conn *c, enum weft_reason reason, uint64_t addr,
				     uint32_t tag)
{
	qp_refused(c->resp.qp, reason, addr, tag);
	return refused(IBA_NAK_ACCESS, reason);
}

/* The receive is at fault, or the message too long for it: it ends, and so does all else. */
static struct verdict fail_receive(struct ib_conn *c, enum weft_status status,
				   enum weft_reason reason)
{
	struct weft_completion completion = {
		.status = status,
		.opcode = WEFT_OP_RECV,
		.reason = reason,
		.src_qp_number = conn_sender(c),
		.src_ee_number = conn_sender_ee(c),
	};

	qp_recv_retire(c->resp.qp, &completion, false);
	return refused(status == WEFT_ERR_LOCAL_LENGTH ? IBA_NAK_INVALID : IBA_NAK_OPERATION,
		       reason);
}

enum weft_reason receive_check(struct weft_qp *qp)
{
	struct stretch all = qp_recv_stretch(qp);

	all.is_ahead = true;
	return qp_segments_check(qp, &all);
}

/* QP-08, LOC-02: the receive of a Send whose first packet this is. */
static struct verdict open_receive(struct ib_conn *c)
{
	const struct recv_wqe *recv;
	enum weft_reason r;

	qp_recv_claim(c->resp.qp);
	r = receive_check(c->resp.qp);
	if (r != WEFT_OK)
		return fail_receive(c, WEFT_ERR_LOCAL_ACCESS, r);
	recv = c->resp.qp->recv;
	c->resp.in.recv_checked = c->port->adapter->mem.changes;
	c->resp.in.room = 0;
	for (uint32_t i = 0; i < recv->sge_count; i++)
		c->resp.in.room += recv->sges[i].length;
	return good;
}

static struct verdict check_send(struct ib_conn *c, const struct iba_packet *p,
				 const struct iba_form *f)
{
	const struct message *m = &c->resp.in;
	struct weft_qp *qp = c->resp.qp;
	struct verdict v = good;
	enum weft_reason r = WEFT_OK;

	if (!qp->recv)
		v = open_receive(c);
	if (v.reason != WEFT_OK)
		return v;
	if ((f->traits & IBA_FIRST ? 0 : m->bytes) + (uint64_t)p->payload_bytes > m->room)
		return fail_receive(c, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
	if (f->headers & IBA_HAS_IETH) /* SQR-10 */
		r = mem_invalidate_check(&qp->adapter->mem, qp_peer_pd(qp), qp->number,
					 p->inv_r_key);
	return r == WEFT_OK ? good : refused_access(c, r, 0, p->inv_r_key);
}

/* IBA 9.7.4.1.3 and 9.7.4.1.5: all of the range at first, then each part as it comes. */
static enum weft_reason write_access(struct ib_conn *c, uint64_t offset, uint64_t length,
				     bool is_ahead, struct mem_grant *grant)
{
	const struct message *m = &c->resp.in;
	struct mem_access access = {
		.addr = m->va + offset,
		.length = length,
		.tag = m->r_key,
		.kind = MEM_REMOTE_WRITE,
		.is_ahead = is_ahead,
		.can_wait = conn_can_wait(c),
	};

	if (length > 0 && !(c->resp.qp->remote_rights & WEFT_REMOTE_WRITE))
		return WEFT_R_QP_REMOTE_RIGHTS;
	return qp_access(c->resp.qp, &access, grant);
}

static struct verdict check_write(struct ib_conn *c, const struct iba_packet *p,
				  const struct iba_form *f)
{
	struct message *m = &c->resp.in;
	struct mem_grant grant;
	enum weft_reason r;
	uint64_t end;

	if (f->traits & IBA_FIRST) {
		m->va = p->va;
		m->r_key = p->r_key;
		m->length = p->dma_bytes;
		m->bytes = 0;
		if (m->length > WEFT_MESSAGE_MAX)
			return refused(IBA_NAK_INVALID, WEFT_R_IB_LENGTH);
		r = write_access(c, 0, m->length, true, &grant);
		if (r == WEFT_OK && m->length > 0 && rc_resp_is_touched(c, m->r_key))
			r = WEFT_R_TAG_SPENT;
		if (r != WEFT_OK)
			return refused_access(c, r, m->va, m->r_key);
		m->write_checked = c->port->adapter->mem.changes;
	}
	/* IBA 9.7.4.1.6: the packets together are just as long as the first one said. */
	end = (uint64_t)m->bytes + p->payload_bytes;
	if (f->traits & IBA_LAST ? end != m->length : end >= m->length)
		return refused(IBA_NAK_INVALID, WEFT_R_IB_LENGTH);
	return good;
}

/* ---- Placement ------------------------------------------------------------------------------ */

enum { PLACE_SPANS = 8 };

/* Behind what was copied; NULL: some of it has gone. */
static const uint8_t *copy_in(const struct mem_span *spans, uint32_t count, const uint8_t *bytes)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!mem_span_write(&spans[i], bytes))
			return NULL;
		bytes += spans[i].length;
	}
	return bytes;
}

enum weft_reason place_list(struct weft_qp *qp, struct stretch *part, const uint8_t *bytes)
{
	/* Bound: every round places a byte at least. */
	while (part->length > 0) {
		struct mem_span spans[PLACE_SPANS];
		uint32_t count;
		enum weft_reason r = qp_segments_spans(qp, part, spans, PLACE_SPANS, &count);
		const uint8_t *next;

		if (r != WEFT_OK)
			return r;
		next = copy_in(spans, count, bytes);
		if (!next)
			return WEFT_R_MEMORY_GONE;
		part->offset += (uint64_t)(next - bytes);
		part->length -= (uint64_t)(next - bytes);
		bytes = next;
	}
	return WEFT_OK;
}

/* The same in memory that was checked for the message, if it has not changed since. */
static bool place_known(const struct ib_conn *c, const struct iba_packet *p,
			const struct weft_sge *all, uint32_t checked)
{
	const struct weft_sge part = { .addr = all->addr + c->resp.in.bytes,
				       .length = p->payload_bytes,
				       .tag = all->tag };
	struct mem_span span;

	return mem_known_span(&c->port->adapter->mem, checked, &part, &span) &&
	       mem_span_write(&span, p->payload);
}

/* VMM-09: nothing has changed but that the page was asked for. */
static const struct verdict absent = { .reason = WEFT_R_SPACE_UNMAPPED, .is_absent = true };

static struct verdict place_send(struct ib_conn *c, const struct iba_packet *p)
{
	const struct stretch all = qp_recv_stretch(c->resp.qp);
	struct stretch part;
	enum weft_reason r;

	if (all.count == 1 && !c->is_ee && place_known(c, p, all.sges, c->resp.in.recv_checked))
		return good;
	part = all;
	part.offset = c->resp.in.bytes;
	part.length = p->payload_bytes;
	part.can_wait = conn_can_wait(c);
	r = place_list(c->resp.qp, &part, p->payload);
	if (r == WEFT_R_SPACE_UNMAPPED && part.can_wait && qp_segments_will_come(c->resp.qp, &all))
		return absent;
	return r == WEFT_OK ? good : fail_receive(c, WEFT_ERR_LOCAL_ACCESS, r);
}

static struct verdict place_write(struct ib_conn *c, const struct iba_packet *p)
{
	const struct message *m = &c->resp.in;
	const struct weft_sge all = { .addr = m->va, .length = m->length, .tag = m->r_key };
	const uint8_t *bytes = p->payload;
	struct mem_grant grant;
	enum weft_reason r;

	if ((c->resp.qp->remote_rights & WEFT_REMOTE_WRITE) &&
	    place_known(c, p, &all, m->write_checked))
		return good;
	r = write_access(c, m->bytes, p->payload_bytes, false, &grant);
	if (r == WEFT_R_SPACE_UNMAPPED && conn_can_wait(c) && mem_grant_will_come(&grant))
		return absent;
	if (r != WEFT_OK)
		return refused_access(c, r, m->va + m->bytes, m->r_key);
	while (grant.length > 0) {
		struct mem_span spans[PLACE_SPANS];

		bytes = copy_in(spans, mem_grant_spans(&grant, spans, PLACE_SPANS), bytes);
		if (!bytes)
			return refused_access(c, WEFT_R_MEMORY_GONE, m->va + m->bytes, m->r_key);
	}
	return good;
}

/* ---- Delivery ------------------------------------------------------------------------------- */

/* SQR-09: the tag goes before the consumer sees the completion. */
static struct verdict deliver_send(struct ib_conn *c, const struct iba_packet *p,
				   const struct iba_form *f)
{
	struct weft_qp *qp = c->resp.qp;
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV,
		.src_qp_number = conn_sender(c),
		.src_ee_number = conn_sender_ee(c),
		.byte_count = c->resp.in.bytes,
		.has_imm = f->headers & IBA_HAS_IMM,
		.imm = p->imm,
		.has_invalidated = f->headers & IBA_HAS_IETH,
		.invalidated_tag = p->inv_r_key,
	};

	if (completion.has_invalidated) {
		enum weft_reason r = mem_invalidate_by_peer(&qp->adapter->mem, qp_peer_pd(qp),
							    qp->number, p->inv_r_key);

		if (r != WEFT_OK)
			return refused_access(c, r, 0, p->inv_r_key);
	}
	qp_recv_retire(qp, &completion, p->is_solicited);
	return good;
}

/* TOUCH-05 in order: the last packet of the first message closes a one-touch entry. */
static void deliver_write(struct ib_conn *c, const struct iba_packet *p, const struct iba_form *f)
{
	const struct message *m = &c->resp.in;
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV_WRITE_IMM,
		.src_qp_number = conn_sender(c),
		.src_ee_number = conn_sender_ee(c),
		.byte_count = m->bytes,
		.has_imm = true,
		.imm = p->imm,
	};

	if (m->length > 0)
		mem_touch_message(&c->port->adapter->mem, m->r_key);
	if (!(f->headers & IBA_HAS_IMM))
		return;
	if (!c->resp.qp->recv) /* UC: a Send that has lost its rest may have left one */
		qp_recv_claim(c->resp.qp);
	qp_recv_retire(c->resp.qp, &completion, p->is_solicited);
}

static struct verdict deliver(struct ib_conn *c, const struct iba_packet *p,
			      const struct iba_form *f)
{
	struct verdict v = good;

	count_message_in(c->port, c->resp.qp, c->resp.in.bytes);
	if (f->kind == IBA_KIND_SEND)
		v = deliver_send(c, p, f);
	else
		deliver_write(c, p, f);
	c->resp.in.kind = IBA_KIND_NONE;
	return v;
}

struct verdict message_take(struct ib_conn *c, const struct iba_packet *p)
{
	const struct iba_form *f = iba_form(p->opcode);
	struct message *m = &c->resp.in;
	struct verdict v;

	if (!is_in_order(m, f))
		return refused(IBA_NAK_INVALID, WEFT_R_IB_ORDER);
	if (!iba_fits_mtu(p, c->path.mtu_bytes))
		return refused(IBA_NAK_INVALID, WEFT_R_IB_LENGTH);
	if (c->is_xrc && !qp_xrc_name(c->resp.qp, p->xrc_srq))
		return refused(IBA_NAK_INVALID, WEFT_R_IB_XRC);
	if (takes_receive(c->resp.qp, f) && !qp_has_receive(c->resp.qp))
		return (struct verdict){ .reason = WEFT_R_RECEIVER_NOT_READY,
					 .is_not_ready = true };
	v = f->kind == IBA_KIND_SEND ? check_send(c, p, f) : check_write(c, p, f);
	if (v.reason != WEFT_OK)
		return v;
	if (f->traits & IBA_FIRST) {
		m->kind = f->kind;
		m->bytes = 0;
	}
	if (p->payload_bytes > 0) {
		v = f->kind == IBA_KIND_SEND ? place_send(c, p) : place_write(c, p);
		if (v.is_absent && (f->traits & IBA_FIRST))
			m->kind = IBA_KIND_NONE; /* the same packet begins it again */
		if (v.reason != WEFT_OK)
			return v;
	}
	m->bytes += p->payload_bytes;
	return f->traits & IBA_LAST ? deliver(c, p, f) : good;
}
