/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/check.h"
#include "loopback/loopback.h"
#include "sim/iwarp/iwarp_world.h"

enum { MS = 1000000, DEPTH_MAX = 16 };

static const uint64_t timeout_ns = UINT64_C(60) * 1000 * MS;
static const uint64_t patience_ns = UINT64_C(1000) * 1000 * MS;

uint32_t iw_end_next(const struct iwarp_world *w, uint32_t p, uint32_t end)
{
	for (end = end == IW_NONE ? 0 : end + 1; end < 2 * w->limits.link_count; end++) {
		if (w->ends[end].process == p)
			return end;
	}
	return IW_NONE;
}

/* ---- Queue pairs ---------------------------------------------------------------------------- */

int iw_end_open(struct iwarp_world *w, uint32_t end)
{
	struct iw_process *proc = iw_owner(w, end);
	struct tcp_end *t = iw_tcp(w, end);
	struct weft_qp_options o = {
		.send_cq = proc->cq,
		.recv_cq = proc->cq,
		.srq = w->ends[end].has_srq ? proc->srq : NULL,
		.service = WEFT_RC,
		.send_max = 1 + iw_draw(w, 12),
		.recv_max = IW_RECVS,
		.sges_max = IW_PARTS,
		.inline_max_bytes = IW_INLINE,
		.outstanding_max = 1 + iw_draw(w, DEPTH_MAX),
		.is_every_send_signalled = iw_draw(w, 3) == 0,
	};
	struct weft_qp_attr attr = { .receiver_wait_ns = patience_ns };

	if (qp_create(proc->pd, &o, &loopback_transport, &t->qp) != WEFT_OK)
		return -1;
	w->ends[end].qp_number = t->qp->number;
	t->attention = &proc->attention;
	if (w->limits.is_lazy)
		attr.receiver_wait_ns = iw_draw(w, 3) == 0 ? 0 : iw_draw(w, 5 * MS);
	if (!w->limits.is_honest && iw_draw(w, 3) == 0)
		attr.on_failure = WEFT_FAIL_DRAIN;
	w->ends[end].lacks = 0;
	if (w->limits.mischief_ppm > 0 && iw_draw(w, 6) == 0)
		w->ends[end].lacks = (uint32_t)WEFT_REMOTE_READ << iw_draw(w, 3);
	attr.remote_rights = MEM_REMOTE_RIGHTS & ~w->ends[end].lacks;
	CHECK(qp_modify(t->qp, &attr,
			WEFT_QP_RECEIVER_WAIT | WEFT_QP_ON_FAILURE | WEFT_QP_REMOTE_RIGHTS) ==
	      WEFT_OK);
	return 0;
}

/* Windows bound to this queue pair close with it. */
static void forget_windows(struct iwarp_world *w, uint32_t end)
{
	struct iw_process *proc = iw_owner(w, end);

	for (uint32_t i = 0; i < proc->slot_count; i++) {
		struct iw_slot *s = &proc->slots[i];

		if (s->end != end || !s->is_qp_bound)
			continue;
		if (iw_slot_is_reached(w, w->ends[end].process, s))
			iw_fail(w, "tag 0x%08x is open, though its queue pair is gone", s->tag);
		iw_slot_closed(w, w->ends[end].process, s);
	}
}

/* Destroys or resets the queue pair. All its completions have been polled when this returns. */
static void qp_take_away(struct iwarp_world *w, uint32_t end, bool is_destroyed)
{
	static const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct tcp_end *t = iw_tcp(w, end);
	uint32_t p = w->ends[end].process;

	w->ends[end].is_left = true;
	if (is_destroyed) {
		qp_destroy(t->qp);
		tcp_end_abandon(t);
	} else {
		CHECK(qp_modify(t->qp, &reset, WEFT_QP_STATE) == WEFT_OK);
	}
	iw_settle(w, p);
	iw_poll(w, p);
	if (!w->failure[0])
		iw_judge_log_over(w, end);
	forget_windows(w, end);
}

/* Prepares the end for another connection. */
static void end_prepare(struct iwarp_world *w, uint32_t end)
{
	struct iw_end *e = &w->ends[end];
	struct tcp_end *t = iw_tcp(w, end);
	const struct iw_process *peer = iw_owner(w, end ^ 1);

	iw_poll(w, e->process);
	if (t->qp && (t->qp->state != WEFT_QPS_RESET || iw_draw(w, 2) == 0))
		qp_take_away(w, end, iw_draw(w, 2) == 0);
	if (!t->qp)
		CHECK(iw_end_open(w, end) == 0);
	e->is_live = false;
	e->is_frozen = false;
	e->is_left = false;
	e->is_flushing = false;
	e->is_deciding = false;
	e->is_awake = false;
	e->is_stubborn = w->limits.is_lazy && !e->has_srq && iw_draw(w, 6) == 0;
	e->reasons[0] = 0;
	e->reasons[1] = 0;
	e->posted = 0;
	e->ended = 0;
	e->settled = 0;
	e->received = 0;
	for (uint32_t i = 0; i < peer->slot_count; i++) {
		if (peer->slots[i].kind == IW_WORD && peer->slots[i].end == (end ^ 1))
			e->word_now = iw_word_read(peer, peer->slots[i].offset);
	}
	e->word_next = e->word_now;
}

/* ---- Connections ---------------------------------------------------------------------------- */

static uint16_t draw_depth(struct iwarp_world *w)
{
	uint32_t kind = iw_draw(w, 6);

	if (kind == 0)
		return 0;
	return (uint16_t)(1 + iw_draw(w, kind < 3 ? 2 : DEPTH_MAX));
}

static void draw_config(struct iwarp_world *w, struct mpa_config *c, const struct weft_qp *qp)
{
	*c = (struct mpa_config){
		.wants_crc = w->limits.has_corruption || iw_draw(w, 2) == 0,
		.wants_markers = iw_draw(w, 4) == 0,
		.revision = (uint8_t)(1 + (iw_draw(w, 4) > 0)),
		.ird = draw_depth(w),
		.ord = draw_depth(w),
		.timeout_ns = timeout_ns,
	};
	c->is_peer_to_peer = c->revision == 2 && iw_draw(w, 4) > 0;
	if (c->ord > qp->outstanding_max)
		c->ord = (uint16_t)qp->outstanding_max;
}

void iw_dial(struct iwarp_world *w, uint32_t link)
{
	static const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	struct tcp_link *l = &w->links[link];
	struct tcp_dial d = { .initiator = iw_draw(w, 2) };
	uint16_t ird;

	if (!tcp_link_is_over(l))
		return;
	for (uint32_t side = 0; side < 2 && !w->failure[0]; side++)
		end_prepare(w, 2 * link + side);
	if (w->failure[0])
		return;
	for (uint32_t side = 0; side < 2; side++) {
		draw_config(w, &d.configs[side], l->ends[side].qp);
		d.faults[side] = w->limits.faults;
		d.bytes_max[side] = w->limits.pipe_bytes;
		if (iw_draw(w, 2) == 0) {
			CHECK(qp_modify(l->ends[side].qp, &init, WEFT_QP_STATE) == WEFT_OK);
			iw_receive_one(w, 2 * link + side);
		}
	}
	/*
	 * Our set-up always agrees on a Write as RTR; other implementations may use the other
	 * kinds.
	 */
	ird = d.configs[!d.initiator].ird;
	d.rtr = (enum iwarp_rtr)(IWARP_RTR_SEND + iw_draw(w, 3));
	if (d.rtr == IWARP_RTR_READ && (ird == 0 || d.configs[d.initiator].ord == 0))
		d.rtr = IWARP_RTR_NONE;
	if (w->limits.has_corruption)
		d.corrupt_ppm = 1U << (5 + iw_draw(w, 12));
	/* MPA revision 1 does not negotiate the depths: the programs must agree on them. */
	if (d.configs[d.initiator].revision == 1) {
		for (uint32_t side = 0; side < 2; side++) {
			if (d.configs[side].ord > d.configs[!side].ird)
				d.configs[side].ord = d.configs[!side].ird;
		}
	}
	if (w->limits.has_resets)
		iw_allow_end(w, 2 * link);
	if (w->limits.is_lazy) {
		iw_allow_end(w, 2 * link);
		iw_allow(w, 2 * link, WEFT_R_RECEIVER_NOT_READY);
		iw_allow(w, 2 * link + 1, WEFT_R_RECEIVER_NOT_READY);
	}
	for (uint32_t end = 2 * link; end < 2 * link + 2; end++) {
		/* Shared receives with invalid memory may have been posted long ago. */
		if (w->limits.has_pulling && w->ends[end].has_srq)
			iw_allow_pulled(w, end);
		if (w->limits.mischief_ppm > 0) {
			iw_allow_end(w, end);
			iw_allow(w, end, WEFT_R_RECEIVE_TOO_SHORT);
		}
	}
	w->dials++;
	CHECK(tcp_link_dial(l, &d) == 0);
}

void iw_leave(struct iwarp_world *w, uint32_t end)
{
	static const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
	struct tcp_end *t = iw_tcp(w, end);

	if (!t->qp)
		return;
	/* A set-up ends when its queue pair changes state. */
	if (t->phase == TCP_SETUP)
		tcp_end_kill(t, true);
	iw_allow_end(w, end);
	iw_allow(w, end, WEFT_R_FLUSHED);
	switch (iw_draw(w, 4)) {
	case 0: /* refused when there is no connection yet */
		(void)qp_disconnect(t->qp);
		break;
	case 1:
		iw_allow(w, end ^ 1, WEFT_R_PEER_TERMINATED);
		CHECK(qp_modify(t->qp, &error, WEFT_QP_STATE) == WEFT_OK);
		break;
	case 2:
		qp_take_away(w, end, false);
		break;
	default:
		qp_take_away(w, end, true);
		break;
	}
}
