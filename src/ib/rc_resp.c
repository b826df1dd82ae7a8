/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of RC (IBA 9.7.4, 9.9.3): a packet of the peer passes one check after the other,
 * and what does not pass is answered as the clause says, or not at all.
 */
#include "ib/responder.h"

#include "base/check.h"
#include "ib/conn.h"
#include "ib/ee.h"
#include "ib/message.h"
#include "ib/migrate.h"
#include "ib/port.h"
#include "ib/rc.h"
#include "ib/rc_early.h"
#include "ib/rc_genuine.h"
#include "ib/requester.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

/* ---- Answers -------------------------------------------------------------------------------- */

/* Until the expected packet comes nothing else is executed (IBA 9.7.5.2.8). */
static void nak(struct ib_conn *c, uint8_t syndrome)
{
	struct responder *r = &c->resp;

	r->is_deaf = true;
	r->is_nak_due = true;
	r->nak = syndrome;
	conn_ready(c);
}

/* From now on the connection has this one answer for whatever comes. */
void rc_resp_end(struct ib_conn *c, uint32_t psn, enum iba_nak cause, enum weft_reason reason)
{
	c->has_final = true;
	c->resp.psn = psn;
	nak(c, iba_syndrome_nak(cause));
	if (c->is_ee)
		rd_message_drop(c);
	else
		conn_fail(c, reason);
}

/* The same after the responses that are due: these were right. */
static void rc_resp_refuse(struct ib_conn *c, uint32_t psn, enum iba_nak cause,
			   enum weft_reason reason)
{
	struct responder *r = &c->resp;

	if (!responder_is_answering(r)) {
		rc_resp_end(c, psn, cause, reason);
		return;
	}
	qp_record(c->resp.qp, reason);
	r->refusal = reason;
	nak(c, iba_syndrome_nak(cause));
}

/* ---- Reads and atomics ---------------------------------------------------------------------- */

static struct resource *res_at(const struct responder *r, uint32_t n)
{
	return &r->res[n & r->res_mask];
}

/*
 * TOUCH-10: what may be read once is spent when its answer has gone by. The peer may ask for a lost
 * answer again, so it is not spent before a later request shows that the peer goes on.
 */
void rc_resp_touch(struct ib_conn *c)
{
	struct responder *r = &c->resp;

	if (!r->has_touch_due)
		return;
	r->has_touch_due = false;
	for (uint32_t n = r->res_first; n != r->res_next; n++) {
		struct resource *e = res_at(r, n);

		if (e->is_touch_due)
			mem_touch_message(&c->port->adapter->mem, e->r_key);
		e->is_touch_due = false;
	}
}

/*
 * TOUCH-10: a Read of a one-touch tag still waits for its response. Any access in the meantime
 * comes too late.
 */
bool rc_resp_is_touched(const struct ib_conn *c, uint32_t tag)
{
	const struct responder *r = &c->resp;

	if (r->res_answered == r->res_next || !mem_touch_is_once(&c->port->adapter->mem, tag))
		return false;
	for (uint32_t n = r->res_answered; n != r->res_next; n++) {
		if (res_at(r, n)->r_key == tag && res_at(r, n)->length > 0)
			return true;
	}
	return false;
}

/* Of answers that are kept no more. */
static void again_forget(struct responder *r)
{
	uint32_t to = r->again_first;

	for (uint32_t n = r->again_first; n != r->again_next; n++) {
		const struct again *a = &r->again[n & r->res_mask];

		if ((int32_t)(a->res - r->res_first) >= 0)
			r->again[to++ & r->res_mask] = *a;
	}
	r->again_next = to;
}

/*
 * The oldest that is kept goes: as the peer keeps to what was agreed, it has that answer. So if it
 * was being repeated, that was not needed.
 */
static struct resource *res_add(struct responder *r)
{
	if (r->res_next - r->res_first > r->res_mask)
		r->res_first++;
	if ((int32_t)(r->res_at - r->res_first) < 0) {
		r->res_at = r->res_first;
		r->res_packet = r->res_began = 0;
	}
	again_forget(r);
	return res_at(r, r->res_next++);
}

static enum weft_reason open_range(struct ib_conn *c, const struct iba_packet *p,
				   struct mem_grant *grant)
{
	bool is_atomic = iba_form(p->opcode)->kind == IBA_KIND_ATOMIC;
	uint32_t right = is_atomic ? WEFT_REMOTE_ATOMIC : WEFT_REMOTE_READ;
	struct mem_access access = {
		.addr = p->va,
		.length = is_atomic ? sizeof(uint64_t) : p->dma_bytes,
		.tag = p->r_key,
		.kind = is_atomic ? MEM_REMOTE_ATOMIC : MEM_REMOTE_READ,
		.is_ahead = !is_atomic, /* the answer asks, part by part */
		.can_wait = conn_can_wait(c),
	};

	if (access.length > 0 && !(c->resp.qp->remote_rights & right))
		return WEFT_R_QP_REMOTE_RIGHTS;
	if (access.length > 0 && rc_resp_is_touched(c, p->r_key))
		return WEFT_R_TAG_SPENT;
	return qp_access(c->resp.qp, &access, grant);
}

/*
 * VMM-09: the page of the packet is being brought in. The packet counts as lost; the peer need not
 * wait for its timeout, as ib_advance() asks for the packet when the page is there. No RNR NAK: it
 * would spend retries of a peer that has few.
 */
static void await_page(struct ib_conn *c)
{
	c->resp.is_sink_absent = true;
	qp_await_memory(c->resp.qp);
}

/* Once, and never again: the answer is kept (QP-S3). */
static bool run_atomic(const struct iba_packet *p, struct mem_grant *grant, uint64_t *original)
{
	const struct mem_atomic op = {
		.is_add = iba_op(p->opcode) == IBA_FETCH_ADD,
		.add = p->swap_add,
		.swap = { p->compare, UINT64_MAX, p->swap_add, UINT64_MAX },
	};

	return mem_atomic_run(&op, grant, original);
}

static void take_read(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	bool is_atomic = iba_form(p->opcode)->kind == IBA_KIND_ATOMIC;
	uint32_t count = is_atomic ? 1 : iba_psn_count(p->dma_bytes, c->path.mtu_bytes);
	struct mem_grant grant;
	struct resource *e;
	enum weft_reason reason;
	uint64_t original = 0;

	/* IBA 9.7.4.1.7: no more at a time than was agreed. */
	if (r->res_next - r->res_answered >= r->res_max) {
		rc_resp_refuse(c, p->psn, IBA_NAK_INVALID, WEFT_R_READS_BEYOND);
		return;
	}
	if (count > IB_PSNS_MAX || (!is_atomic && p->dma_bytes > WEFT_MESSAGE_MAX)) {
		rc_resp_refuse(c, p->psn, IBA_NAK_INVALID, WEFT_R_IB_LENGTH);
		return;
	}
	if (c->is_xrc && !qp_xrc_name(c->resp.qp, p->xrc_srq)) {
		rc_resp_refuse(c, p->psn, IBA_NAK_INVALID, WEFT_R_IB_XRC);
		return;
	}
	reason = open_range(c, p, &grant);
	if (reason == WEFT_R_SPACE_UNMAPPED && conn_can_wait(c) && mem_grant_will_come(&grant)) {
		await_page(c);
		return;
	}
	if (reason == WEFT_OK && is_atomic && !run_atomic(p, &grant, &original))
		reason = WEFT_R_MEMORY_GONE;
	if (reason != WEFT_OK) {
		qp_refused(c->resp.qp, reason, p->va, p->r_key);
		/* IBA 9.7.4.1.4: an atomic that is not aligned is a bad request. */
		rc_resp_refuse(c, p->psn,
			       reason == WEFT_R_ATOMIC_ALIGN ? IBA_NAK_INVALID : IBA_NAK_ACCESS,
			       reason);
		return;
	}
	count_message_in(c->port, r->qp, 0);
	e = res_add(r);
	r->msn = iba_psn_add(r->msn, 1);
	*e = (struct resource){
		.kind = iba_form(p->opcode)->kind,
		.psn = p->psn,
		.count = count,
		.msn = r->msn,
		.va = p->va,
		.r_key = p->r_key,
		.pd = qp_peer_pd(c->resp.qp),
		.length = is_atomic ? 0 : p->dma_bytes,
		.original = original,
	};
	if (is_atomic)
		mem_touch_message(&c->port->adapter->mem, p->r_key);
	r->psn = iba_psn_add(r->psn, count);
	conn_ready(c);
}

/* ---- Duplicates ----------------------------------------------------------------------------- */

/* Of those that are kept; bound: as many as the peer may have in flight. */
static bool find_resource(const struct responder *r, uint32_t psn, uint32_t *found)
{
	for (uint32_t n = r->res_next; n != r->res_first; n--) {
		const struct resource *e = res_at(r, n - 1);

		if (iba_psn_is_within(psn, e->psn, e->count)) {
			*found = n - 1;
			return true;
		}
	}
	return false;
}

/* IBA 9.7.5.1.7: the same request, or what is left of its answer. Anything else is forged. */
static bool is_same(const struct ib_conn *c, const struct resource *e, const struct iba_packet *p)
{
	uint32_t offset = iba_psn_distance(e->psn, p->psn) * c->path.mtu_bytes;

	if (iba_form(p->opcode)->kind != e->kind || p->r_key != e->r_key || p->va != e->va + offset)
		return false;
	return e->kind == IBA_KIND_ATOMIC || p->dma_bytes <= e->length - offset;
}

/* Behind all that was asked for again before. What waits to be answered need not wait twice. */
static void again_add(struct responder *r, uint32_t res, uint32_t from, uint32_t end)
{
	for (uint32_t n = r->again_first; n != r->again_next; n++) {
		const struct again *a = &r->again[n & r->res_mask];

		if (a->res == res && from >= a->at && end <= a->end)
			return;
	}
	/* A peer within the agreed limit never asks for more: as if the request had been lost. */
	if (r->again_next - r->again_first >= r->res_max)
		return;
	r->again[r->again_next++ & r->res_mask] = (struct again){ res, from, from, end };
}

/*
 * An answer that was lost, or a part of one, is given as it was asked for, before what is being
 * answered goes on. A requester that went back to here asks for what follows, too. What is still to
 * be answered needs nothing; if that begins in the midst of what is asked for, it begins there
 * anew.
 */
static enum weft_reason answer_again(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	uint32_t mtu = c->path.mtu_bytes, n, packet, end;
	const struct resource *e;

	if (!find_resource(r, p->psn, &n) || !is_same(c, res_at(r, n), p))
		return WEFT_R_IB_PSN;
	e = res_at(r, n);
	packet = iba_psn_distance(e->psn, p->psn);
	end = e->count;
	if ((int32_t)(n - r->res_at) > 0 || (n == r->res_at && packet >= r->res_packet))
		return WEFT_OK;
	if (e->kind == IBA_KIND_READ && p->dma_bytes > 0 && p->dma_bytes % mtu == 0)
		end = packet + p->dma_bytes / mtu;
	if (n == r->res_at && end == e->count) {
		r->res_packet = r->res_began = packet;
	} else {
		if (n == r->res_at && end > r->res_packet)
			end = r->res_packet;
		again_add(r, n, packet, end);
	}
	conn_ready(c);
	return WEFT_OK;
}

/* IBA 9.7.5.1.5: carried out already. It is not carried out again, but answered. */
static enum weft_reason take_duplicate(struct ib_conn *c, const struct iba_packet *p)
{
	uint8_t kind = iba_form(p->opcode)->kind;

	c->port->counts.duplicates++;
	tally_of(c->port, c->resp.qp)->duplicates++;
	if (kind == IBA_KIND_READ || kind == IBA_KIND_ATOMIC)
		return answer_again(c, p);
	responder_ack_all(&c->resp);
	conn_ready(c);
	return WEFT_OK;
}

/* ---- The peer's requests -------------------------------------------------------------------- */

/*
 * IBA 9.7.4.1.1: something before it was lost. That is said once, and once more when the peer has
 * begun anew and lost it again, which its going back in numbers shows.
 */
static void take_early(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;

	if (r->is_sink_absent) /* what is missed has come, and will be asked for */
		return;
	if (!r->is_deaf || !iba_psn_is_before(r->psn_early, p->psn)) {
		/* A receive that was missing is still missed: that NAK stands. */
		if (!r->is_deaf || r->nak == iba_syndrome_nak(IBA_NAK_SEQUENCE))
			nak(c, iba_syndrome_nak(IBA_NAK_SEQUENCE));
	}
	r->psn_early = p->psn;
}

/*
 * IBA 9.7.5.2.8. RD: after an RNR NAK the requester suspends the message, and later sends it again
 * with other PSNs. So a duplicate with this PSN must not be executed.
 */
static void not_ready(struct ib_conn *c, uint32_t psn)
{
	struct responder *r = &c->resp;
	const struct ib_conn *asked = r->qp->stream;

	r->psn_early = psn;
	nak(c, iba_syndrome_rnr(asked->rnr_timer_code));
	if (c->is_ee) {
		c->has_final = true;
		rd_message_drop(c);
		return;
	}
	r->is_hungry = true;
	qp_await_receive(r->qp, qp_recv_queue(r->qp));
}

static void take_message(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	struct verdict v = message_take(c, p);

	if (v.is_not_ready) {
		not_ready(c, p->psn);
		return;
	}
	if (v.is_absent) {
		await_page(c);
		return;
	}
	if (v.reason != WEFT_OK) {
		rc_resp_refuse(c, p->psn, (enum iba_nak)v.nak, v.reason);
		return;
	}
	r->psn = iba_psn_add(r->psn, 1 + p->run);
	if (iba_form(p->opcode)->traits & IBA_LAST)
		r->msn = iba_psn_add(r->msn, 1);
	if (p->is_ack_requested || ib_path_is_local(&c->path)) { /* AMB-35 */
		responder_ack(r, p->psn);
		conn_ready(c);
	}
}

void rc_resp_page_came(struct ib_conn *c)
{
	struct responder *r = &c->resp;

	if (r->is_sink_absent) {
		r->psn_early = r->psn;
		nak(c, iba_syndrome_nak(IBA_NAK_SEQUENCE));
	}
	if (r->is_source_absent)
		conn_ready(c);
	r->is_sink_absent = r->is_source_absent = false;
}

/* After the end: the one answer, to what could not be carried out. */
static enum weft_reason take_after_end(struct ib_conn *c, const struct iba_packet *p)
{
	if (!c->has_final || iba_psn_is_before(p->psn, c->resp.psn))
		return WEFT_R_PEER_GONE;
	c->resp.is_nak_due = true;
	conn_ready(c);
	return WEFT_OK;
}

/* IBA 9.7.4.1: the next one in order. */
static void take_expected(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;

	r->is_deaf = false;
	r->is_nak_due = false;
	r->is_sink_absent = false;
	rc_resp_touch(c);
	switch (iba_form(p->opcode)->kind) {
	case IBA_KIND_SEND:
	case IBA_KIND_WRITE:
		take_message(c, p);
		break;
	case IBA_KIND_READ:
	case IBA_KIND_ATOMIC:
		if (r->in.kind == IBA_KIND_NONE)
			take_read(c, p);
		else
			rc_resp_refuse(c, p->psn, IBA_NAK_INVALID, WEFT_R_IB_ORDER);
		break;
	default: /* not served: FLUSH, ATOMIC WRITE */
		rc_resp_refuse(c, p->psn, IBA_NAK_INVALID, WEFT_R_IB_OPCODE);
	}
}

/*
 * What was lost has come: the packets behind it follow, up to the next that is missing. A peer that
 * must wait or has failed sends them again.
 */
static void take_kept(struct ib_conn *c)
{
	struct responder *r = &c->resp;

	/* Bound: those that are kept. */
	while (r->early && !r->is_sink_absent) {
		struct early_packet *e;

		if (r->is_deaf || r->refusal != WEFT_OK) {
			rc_early_drop(c);
			return;
		}
		e = rc_early_take(c);
		if (!e)
			return;
		take_expected(c, &e->p);
		rc_early_free(c->port, e);
	}
}

enum weft_reason rc_resp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	int32_t ahead = iba_psn_diff(p->psn, r->psn);
	bool is_late, is_kept;

	if (c->has_final || (!r->qp && !c->is_ee))
		return take_after_end(c, p);
	if (ahead < 0)
		return take_duplicate(c, p);
	if (ahead > 0) {
		if (!rc_genuine_early(r, now_ns, p->psn))
			return WEFT_R_IB_PSN;
		is_late = migrate_is_late(c, p->psn, r->psn);
		if (!is_late)
			take_early(c, p);
		is_kept = rc_early_keep(c, p);
		if (is_late && !is_kept)
			take_early(c, p);
		return is_kept ? WEFT_OK : WEFT_R_IB_PSN;
	}
	if (r->refusal != WEFT_OK)
		return r->refusal;
	take_expected(c, p);
	if (r->early)
		take_kept(c);
	return WEFT_OK;
}

enum weft_reason rc_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p)
{
	if (iba_form(p->opcode)->traits & IBA_RESPONSE)
		return c->req.qp ? rc_comp_recv(c, now_ns, p) : WEFT_R_PEER_GONE;
	return rc_resp_recv(c, now_ns, p);
}
