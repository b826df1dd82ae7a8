/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model of permitted connections and of the order of events. It reads the messages of owners to
 * I/O units and requesters, which are sealed but not encrypted.
 *
 * A node that was told of a revocation has no connection with that peer at the end of its turn. A
 * device does not start a command of a new owner, or of a requester that has reconnected, while it
 * still works on the same blocks for the former owner, or for the requester's earlier connection. A
 * node that has met an owner never again meets an earlier owner in the same incarnation.
 */
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

/* ---- Who may be connected ------------------------------------------------------------------- */

void rw_order_owner(struct rio_world *w, uint32_t node)
{
	memset(w->nodes[node].is_let, 0, sizeof(w->nodes[node].is_let));
}

void rw_order_met(struct rio_world *w, uint32_t end)
{
	struct rw_node *n = &w->nodes[rw_end_of(w, end)->node];
	uint64_t term = rw_conn_of(w, end)->term;

	if (term < n->term && w->hazards & RW_HAZARD_OWNERS)
		rw_fail(w, "node %u has met the owner of term %u, and then that of term %u",
			rw_end_of(w, end)->node, (uint32_t)n->term, (uint32_t)term);
	n->term = term > n->term ? term : n->term;
}

/*
 * The requester's latest ask with this id that an owner has received: ids restart with each
 * incarnation.
 */
static struct rw_ask *ask_find(struct rio_world *w, struct platform requester, uint64_t id)
{
	uint32_t node = rw_node_of(w, requester);

	for (uint32_t i = w->ask_count; i-- > 0;) {
		if (w->asks[i].node == node && w->asks[i].id == id && w->asks[i].is_with_owner)
			return &w->asks[i];
	}
	return NULL;
}

void rw_order_got(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length)
{
	const struct rw_conn *c = rw_conn_of(w, end);
	struct rio_msg m;

	if (rio_msg_decode(&m, bytes, length) != RIO_MSG_OK || m.type != RIO_REQUEST)
		return;
	for (uint32_t i = w->ask_count; i-- > 0;) {
		struct rw_ask *a = &w->asks[i];

		if (a->node == c->ends[0].node && a->meeting == c->meeting && a->id == m.id)
			a->is_with_owner = true;
	}
}

void rw_order_said(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length)
{
	struct rw_ask *a;
	struct rio_msg m;

	if (rio_msg_decode(&m, bytes, length) != RIO_MSG_OK || m.type != RIO_COMMAND)
		return;
	a = ask_find(w, m.request.requester, m.request.asked);
	if (!a) {
		rw_fail(w, "an owner commands what no requester asked for");
		return;
	}
	a->command_id = m.id;
	a->command_end = end;
	a->command_serial = rw_conn_of(w, end)->serial;
}

static void commanded(struct rio_world *w, uint32_t end, uint64_t id)
{
	const struct rw_node *unit = &w->nodes[rw_end_of(w, end)->node];

	for (uint32_t i = w->ask_count; i-- > 0;) {
		struct rw_ask *a = &w->asks[i];

		if (a->command_id != id || a->command_end != (end ^ 1) ||
		    a->command_serial != rw_conn_of(w, end)->serial)
			continue;
		a->commanded = unit->meetings;
		a->unit_life = unit->incarnation;
		return;
	}
	rw_fail(w, "unit %u is commanded what no requester asked for", rw_end_of(w, end)->node);
}

void rw_order_noted(struct rio_world *w, const struct rio_note *note)
{
	struct rw_ask *a;

	if (note->kind != RIO_NOTE_ENDED && note->kind != RIO_NOTE_REFUSED)
		return;
	a = ask_find(w, note->who, note->request);
	if (a)
		rw_model_over(w, a);
}

void rw_order_parted(struct rio_world *w, uint32_t end)
{
	const struct rw_conn *c = rw_conn_of(w, end);

	if (!rw_is_owner(w, c->ends[end % 2].node) || c->meeting == 0)
		return;
	for (uint32_t i = 0; i < w->ask_count; i++) {
		struct rw_ask *a = &w->asks[i];

		if (a->node == c->ends[0].node && a->meeting == c->meeting)
			rw_model_over(w, a);
	}
}

void rw_order_heard(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length)
{
	uint32_t node = rw_end_of(w, end)->node;
	bool *is_let = w->nodes[node].is_let;
	struct platform who = { 0 };
	struct rio_msg m;

	if (rio_msg_decode(&m, bytes, length) != RIO_MSG_OK) {
		rw_fail(w, "node %u is told what cannot be read", node);
		return;
	}
	if (m.type == RIO_COMMAND)
		commanded(w, end, m.id);
	else if (m.type == RIO_GRANT)
		who = m.grant.requester;
	else if (m.type == RIO_ANNOUNCE)
		who = m.announce.iounit;
	else if (m.type == RIO_REVOKE)
		who = m.revoked;
	if (!platform_is_none(who))
		is_let[rw_node_of(w, who)] = m.type != RIO_REVOKE;
}

void rw_order_turned(struct rio_world *w, uint32_t node)
{
	for (uint32_t end = 0; end < 2 * w->conn_count; end++) {
		const struct rw_end *e = rw_end_of(w, end);

		if (!rw_conn_of(w, end)->is_data || e->node != node ||
		    (e->state != RW_END_CONNECTING && e->state != RW_END_UP))
			continue;
		if (!w->nodes[node].is_let[rw_node_of(w, e->peer)])
			rw_fail(w, "node %u has not hung up on %u.%u, which it was told is gone",
				node, e->peer.unit, e->peer.process);
	}
}

/* ---- What comes before what ----------------------------------------------------------------- */

/* An earlier read does not conflict. */
static bool do_overlap(const struct rw_under_way *now, const struct rw_under_way *before)
{
	const struct store_request *a = now->request, *b = before->request;

	return b->op != STORE_READ && a->offset < b->offset + b->length &&
	       b->offset < a->offset + a->length;
}

static void judge_order(struct rio_world *w, const struct rw_ask *now, const struct rw_ask *before)
{
	if (before->commanded < now->commanded)
		rw_fail(w, "a new owner does not wait: ask %u while ask %u is under way",
			(uint32_t)(now - w->asks), (uint32_t)(before - w->asks));
	if (before->node == now->node && before->meeting < now->meeting)
		rw_fail(w,
			"a reconnected requester does not wait: ask %u while ask %u is under way",
			(uint32_t)(now - w->asks), (uint32_t)(before - w->asks));
}

void rw_order_begun(struct rio_world *w, uint32_t device, struct rw_under_way begun)
{
	struct rw_device *d = &w->devices[device];
	const struct rw_ask *now;

	if (begun.transaction == RW_NONE || d->under_way_count == RW_UNDER_WAY)
		return;
	now = &w->asks[w->transactions[begun.transaction].ask];
	for (uint32_t k = 0; k < d->under_way_count; k++) {
		const struct rw_under_way *other = &d->under_way[k];

		if (do_overlap(&begun, other))
			judge_order(w, now, &w->asks[w->transactions[other->transaction].ask]);
	}
	d->under_way[d->under_way_count++] = begun;
}

void rw_order_done(struct rio_world *w, uint32_t device, const struct store_request *r)
{
	struct rw_device *d = &w->devices[device];

	for (uint32_t i = 0; i < d->under_way_count; i++) {
		if (d->under_way[i].request == r) {
			d->under_way[i] = d->under_way[--d->under_way_count];
			return;
		}
	}
}
