/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When nothing moves, an end that takes itself for connected must have a peer that does. Every
 * cm_id ends once, and in the end nothing is left anywhere.
 */
#include "sim/roce/cm_world.h"

bool cm_must(struct cm_world *w, bool is_so, const char *words)
{
	if (!is_so)
		roce_fail(w->roce, "%s", words);
	return is_so;
}

void cm_judge_ended(struct cm_world *w, struct cm_leg *l, const struct ib_cm_event *e)
{
	cm_must(w, !l->is_ended, "a cm_id ended twice");
	l->is_ended = true;
	cm_must(w, (e->kind == IB_CM_RESOLVED) <= l->is_sidr, "what was not to be resolved was");
	cm_must(w, e->kind != IB_CM_FAILED || !l->is_established, "an established one failed");
	/* A passive end may have disconnected before it was established. */
	cm_must(w, e->kind != IB_CM_DISCONNECTED || l->is_established || !l->is_active,
		"one was disconnected that was never connected");
	if (e->kind == IB_CM_RESOLVED && e->status == IBCM_SIDR_OK)
		cm_must(w, e->peer.qpn == l->qpn && e->peer.q_key == IBCM_QKEY_UDP,
			"a request to resolve brought another's answer");
	w->roce->succeeded += l->is_established ||
			      (e->kind == IB_CM_RESOLVED && e->status == IBCM_SIDR_OK);
	w->roce->requests += l->is_active;
	if (e->kind == IB_CM_RESOLVED || l->is_sidr)
		l->is_released = true;
}

bool cm_is_connected(struct cm_side *s, const struct cm_leg *l)
{
	return ib_cm_state(s->cm, l->id) == IB_CM_CONNECTED && !l->is_released;
}

/* Whether a leg is connected whose queue pair and this one's name each other. */
static bool has_partner(struct cm_world *w, const struct cm_leg *l)
{
	for (int k = 0; k < CM_SIDES; k++) {
		for (uint32_t i = 0; i < w->sides[k].leg_count; i++) {
			const struct cm_leg *other = &w->sides[k].legs[i];

			if (other->qpn == l->peer_qpn && other->peer_qpn == l->qpn &&
			    cm_is_connected(&w->sides[k], other))
				return true;
		}
	}
	return false;
}

static void leg_judge(struct cm_world *w, struct cm_side *s, const struct cm_leg *l)
{
	if (cm_is_connected(s, l)) {
		cm_must(w, l->is_established && !l->is_ended,
			"one is connected that its consumer takes for another state");
		cm_must(w, w->had_crash || has_partner(w, l), "only one of two ends is connected");
	} else {
		cm_must(w, l->is_left || l->is_ended, "a cm_id never ended");
		cm_must(w, l->is_left || l->is_released, "a cm_id was never released");
	}
}

void cm_judge_agreement(struct cm_world *w)
{
	for (int k = 0; k < CM_SIDES; k++) {
		for (uint32_t i = 0; i < w->sides[k].leg_count; i++)
			leg_judge(w, &w->sides[k], &w->sides[k].legs[i]);
	}
}

void cm_judge_end(struct cm_world *w)
{
	for (int k = 0; k < CM_SIDES; k++) {
		const struct ib_cm_counts *c = ib_cm_counts(w->sides[k].cm);

		cm_must(w, c->cm_ids == 0 && c->half_open == 0 && c->timewait == 0,
			"cm_ids are left");
		cm_must(w, ib_cm_due(w->sides[k].cm) == UINT64_MAX, "a deadline is left");
		cm_must(w, c->full == 0, "there was no room for a cm_id");
	}
	cm_judge_agreement(w);
}
