/* SPDX-License-Identifier: BSD-2-Clause */
/* What queue pairs of datagrams and their consumers do. */
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/ud_world.h"

enum {
	SEND_MAX = 2 * UD_DEPTH,
	SHORT_MTU = 256,
	RESETS = 2,
	KEYS = 2,
	Q_KEY = 0x700,	   /* and which of them */
	NO_INDEX = 1 << 12 /* in the number of a queue pair: there are not so many */
};

static const uint32_t own_key = UINT32_C(1) << 31;

static uint64_t now_of(const struct ud_world *ud)
{
	return ud->clock->now_ns;
}

/* ---- Address handles ------------------------------------------------------------------------ */

static struct weft_address address_of(const uint8_t *bytes, bool is_ipv6)
{
	struct weft_address a = { .family = is_ipv6 ? 6 : 4 };

	memcpy(a.ip, bytes, is_ipv6 ? 16 : 4);
	return a;
}

static struct weft_path path_to(const struct ud_actor *a, const struct ud_handle *h)
{
	struct inet_end from[2] = { 0 }, to[2] = { 0 };
	struct weft_path path = { .mtu_bytes = h->mtu_bytes };

	ib_node_addresses(ud_node_of(a->index), from);
	ib_node_addresses(h->node, to);
	path.from = address_of(from[h->is_ipv6].address, h->is_ipv6);
	path.to = address_of(to[h->is_ipv6].address, h->is_ipv6);

	if (h->to == UD_TO_GROUP) {
		const struct ib_group g = ib_node_group(h->is_ipv6, (uint8_t)(1 + h->target));

		path.to = address_of(g.address, h->is_ipv6);
	}
	return path;
}

static void handle_open(struct ud_world *ud, struct ud_actor *a, struct ud_handle *h)
{
	struct prng *p = &ud->prng;
	struct weft_path path;

	*h = (struct ud_handle){ .serial = ++ud->serial, .is_ipv6 = prng_below(p, 2) };
	h->to = (enum ud_to)ANY_OF(p, UD_TO_ACTOR, UD_TO_ACTOR, UD_TO_ACTOR, UD_TO_GROUP,
				   UD_TO_GROUP, UD_TO_STRAY);
	h->target = prng_below(p, h->to == UD_TO_GROUP ? UD_GROUPS : UD_ACTORS);
	h->node = h->to == UD_TO_GROUP ? 0 : ud_node_of(h->target);
	/* The number of one node at the address of another. */
	if (h->to == UD_TO_STRAY && !ud->is_one_host)
		h->node = (h->node + 1) % UD_NODES;
	h->mtu_bytes = prng_below(p, 4) ? 0 : SHORT_MTU;
	path = path_to(a, h);
	CHECK(ah_create(a->qp->pd, &path, &h->ah) == WEFT_OK);
	if (h->to != UD_TO_GROUP)
		ud->net->address(ud, ud_node_of(a->index), h->ah);
}

/* What still waits for its turn will not find it, whatever has its place then. */
static void handle_close(struct roce_world *w, struct ud_actor *a, struct ud_handle *h)
{
	(void)ud_judge_poll(w, ud_node_of(a->index));
	for (uint32_t i = a->ended; i < a->begun; i++)
		a->ops[i].is_handle_gone |= a->ops[i].handle == h->serial;
	ah_destroy(h->ah);
	h->ah = NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void actor_attach(struct ud_world *ud, struct ud_actor *a)
{
	const struct ib_config k = {
		.path = { .mtu_bytes = ud->mtu_bytes },
		.psn_send = roce_draw_psn(&ud->prng),
		.p_key = a->p_key,
		.q_key = a->q_key,
	};

	ud->net->attach(ud, ud_node_of(a->index), a->qp, &k);
}

void ud_actor_open(struct ud_world *ud, uint32_t i)
{
	const struct weft_qp_attr drain = { .on_failure = WEFT_FAIL_DRAIN };
	struct roce_node *n = ud_roce_of(ud, i);
	struct ud_actor *a = &ud->actors[i];

	a->index = i;
	a->at = UD_GAP + i % UD_QPS * (UD_ACTOR_BYTES + UD_GAP);
	a->posted = a->received = 0;
	a->is_stopped = a->is_resetting = false;
	memset(a->is_member, 0, sizeof(a->is_member));
	a->excuse_ns = now_of(ud);
	a->is_rich = prng_below(&ud->prng, 2);
	a->q_key = Q_KEY + prng_below(&ud->prng, KEYS);
	a->p_key = (uint16_t)ANY_OF(&ud->prng, 0xffff, 0xffff, 0x7fff, 0x8001);
	a->resets_left = prng_below(&ud->prng, 2) ? 0 : RESETS;
	a->tag = roce_node_register(n, a->at, UD_ACTOR_BYTES);
	a->qp = roce_node_qp(n, WEFT_UD, SEND_MAX, UD_RECEIVES);
	a->qp_number = a->qp->number;
	CHECK(qp_modify(a->qp, &drain, WEFT_QP_ON_FAILURE) == WEFT_OK);
	actor_attach(ud, a);
	for (uint32_t k = 0; k < UD_HANDLES; k++)
		handle_open(ud, a, &a->handles[k]);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Often the key that the destination has now, or else any; or what the sender's own is. */
static uint32_t draw_key(struct ud_world *ud, const struct ud_actor *a, struct ud_op *op)
{
	uint32_t pick = prng_below(&ud->prng, 8);

	op->is_key_own = pick == 0;
	if (op->is_key_own) {
		op->q_key = a->q_key;
		return own_key | Q_KEY;
	}
	op->q_key = Q_KEY + prng_below(&ud->prng, KEYS);
	if (op->to == UD_TO_ACTOR && pick > 2)
		op->q_key = ud->actors[op->target].q_key;
	return op->q_key;
}

static uint32_t draw_destination(struct ud_world *ud, const struct ud_op *op)
{
	if (op->to == UD_TO_GROUP || (op->to == UD_TO_STRAY && prng_below(&ud->prng, 2)))
		return IBA_QPN_MULTICAST; /* of a stray, at the address of a node */
	if (op->to == UD_TO_STRAY && ud->is_one_host)
		return ud->actors[op->target].qp_number ^ NO_INDEX;
	return ud->actors[op->target].qp_number;
}

/* UD-03: what is longer than a packet is not taken. */
static void try_long(struct roce_world *w, struct ud_actor *a, struct weft_send_wr wr,
		     uint32_t mtu_bytes)
{
	struct roce_node *n = ud_roce_of(ud_world_of(w), a->index);
	const struct weft_sge s = roce_node_sge(n, a->at, mtu_bytes + 1, a->tag);

	wr.sges = &s;
	if (ib_node_post_send(n->ib, a->qp, &wr) != WEFT_R_WR_LENGTH)
		roce_fail(w, "actor %u: a datagram of %u bytes was taken", a->index, mtu_bytes + 1);
}

static void begin_send(struct roce_world *w, struct ud_actor *a, struct ud_op *op)
{
	struct ud_world *ud = ud_world_of(w);
	struct roce_node *n = ud_roce_of(ud, a->index);
	const struct ud_handle *h = &a->handles[prng_below(&ud->prng, UD_HANDLES)];
	uint32_t mtu = h->mtu_bytes && h->mtu_bytes < ud->mtu_bytes ? h->mtu_bytes : ud->mtu_bytes;
	struct weft_sge s;
	struct weft_send_wr wr = { .id = op->number, .sges = &s, .sge_count = 1, .ah = h->ah };

	op->opcode = wr.opcode = prng_below(&ud->prng, 2) ? WEFT_OP_SEND : WEFT_OP_SEND_IMM;
	op->to = h->to;
	op->target = h->target;
	op->handle = h->serial;
	op->is_ipv6 = h->is_ipv6;
	op->from_qp = a->qp_number;
	op->p_key = a->p_key;
	op->bytes = ud->are_long ? mtu : roce_draw_length(&ud->prng, mtu);
	if (op->bytes > mtu)
		op->bytes = mtu;
	if (op->opcode == WEFT_OP_SEND && op->bytes < 8) /* it has nothing else to be known by */
		op->bytes = 8;
	wr.imm = ud_judge_imm(a, op);
	wr.remote_q_key = draw_key(ud, a, op);
	op->dest_qp = wr.dest_qp_number = draw_destination(ud, op);
	if (prng_below(&ud->prng, 20) == 0)
		try_long(w, a, wr, mtu);
	s = roce_node_sge(n, a->at + UD_AT_LOCAL + op->number * UD_MTU_MAX, op->bytes, a->tag);
	ud_judge_fill(w, a, op);
	roce_node_post_send(w, n, a->qp, &wr);
}

/* What follows a delay waits in the queue. */
static void begin_delay(struct roce_world *w, struct ud_actor *a, struct ud_op *op)
{
	struct ud_world *ud = ud_world_of(w);
	struct weft_send_wr wr = { .id = op->number, .opcode = WEFT_OP_DELAY };

	op->opcode = WEFT_OP_DELAY;
	wr.delay_ns = 1 + prng_below(&ud->prng, 2000 * 1000);
	roce_node_post_send(w, ud_roce_of(ud, a->index), a->qp, &wr);
}

static void begin(struct roce_world *w, struct ud_actor *a)
{
	struct ud_world *ud = ud_world_of(w);
	struct ud_op *op = &a->ops[a->begun];

	*op = (struct ud_op){ .number = a->begun++, .posted_ns = now_of(ud) };
	if (prng_below(&ud->prng, 8) == 0)
		begin_delay(w, a, op);
	else
		begin_send(w, a, op);
}

/* ---- Receives ------------------------------------------------------------------------------- */

static void post_receive(struct roce_world *w, struct ud_actor *a)
{
	struct ud_world *ud = ud_world_of(w);
	struct roce_node *n = ud_roce_of(ud, a->index);
	uint32_t slot = a->posted % UD_RECEIVES, room = UD_ROUTE + ud->mtu_bytes;
	struct weft_sge s;

	if (!a->is_rich && prng_below(&ud->prng, 8) == 0)
		room = (uint32_t)ANY_OF(&ud->prng, 0, UD_ROUTE, UD_ROUTE + 8, UD_ROUTE + 255);
	a->rooms[slot] = room;
	s = roce_node_sge(n, a->at + UD_AT_RECEIVE + slot * UD_ROOM, room, a->tag);
	roce_node_post_recv(w, n, a->qp, &s, slot);
	a->posted++;
}

static void post_receives(struct roce_world *w, struct ud_actor *a)
{
	struct prng *p = &ud_world_of(w)->prng;

	while (!roce_has_failed(w) && a->posted - a->received < UD_RECEIVES &&
	       (a->is_rich || prng_below(p, 4) == 0))
		post_receive(w, a);
}

/* ---- What an actor changes ------------------------------------------------------------------ */

static void group_change(struct roce_world *w, struct ud_actor *a)
{
	struct ud_world *ud = ud_world_of(w);
	uint32_t group = prng_below(&ud->prng, UD_GROUPS), is_ipv6 = prng_below(&ud->prng, 2);
	const struct ib_group g = ib_node_group(is_ipv6, (uint8_t)(1 + group));
	bool *is_member = &a->is_member[group][is_ipv6];

	(void)ud_judge_poll(w, ud_node_of(a->index));
	if (*is_member && prng_below(&ud->prng, 2)) {
		ib_leave(ib_conn_of(a->qp), &g);
		*is_member = false;
	} else { /* to join once more changes nothing */
		*is_member = true;
		if (ib_join(ib_conn_of(a->qp), &g) != WEFT_OK)
			roce_fail(w, "actor %u: it cannot join group %u", a->index, group);
	}
	a->group_excuse_ns[group][is_ipv6] = now_of(ud);
}

static void key_change(struct roce_world *w, struct ud_actor *a)
{
	struct ud_world *ud = ud_world_of(w);
	struct ib_config k = { 0 };

	(void)ud_judge_poll(w, ud_node_of(a->index));
	k.q_key = a->q_key = Q_KEY + prng_below(&ud->prng, KEYS);
	CHECK(ib_adjust(ib_conn_of(a->qp), &k, IB_Q_KEY) == WEFT_OK);
	for (uint32_t i = a->ended; i < a->begun; i++) {
		if (a->ops[i].is_key_own)
			a->ops[i].q_key = a->q_key;
	}
	a->excuse_ns = now_of(ud);
}

/* In the middle of whatever it does. It is in no group afterwards. */
static void reset(struct roce_world *w, struct ud_actor *a)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_RESET };
	struct ud_world *ud = ud_world_of(w);

	a->resets_left--;
	(void)ud_judge_poll(w, ud_node_of(a->index));
	a->is_resetting = true;
	CHECK(ib_node_modify(ud_roce_of(ud, a->index)->ib, a->qp, &attr, WEFT_QP_STATE) == WEFT_OK);
	(void)ud_judge_poll(w, ud_node_of(a->index));
	if (a->begun != a->ended || a->posted != a->received)
		roce_fail(w, "actor %u: %u requests and %u receives did not end by its reset",
			  a->index, a->begun - a->ended, a->posted - a->received);
	a->is_resetting = a->is_stopped = false;
	memset(a->is_member, 0, sizeof(a->is_member));
	a->excuse_ns = now_of(ud);
	if (!roce_has_failed(w))
		actor_attach(ud, a);
}

/* A queue pair whose request failed goes on when the rest was flushed. */
static void mend(struct roce_world *w, struct ud_actor *a)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct roce_node *n = ud_roce_of(ud_world_of(w), a->index);

	if (!a->is_stopped || a->begun != a->ended)
		return;
	if (a->qp->state != WEFT_QPS_SQE ||
	    ib_node_modify(n->ib, a->qp, &rts, WEFT_QP_STATE) != WEFT_OK)
		roce_fail(w, "actor %u: after a failure its queue pair is in %s, not SQE", a->index,
			  weft_qp_state_name(a->qp->state));
	a->is_stopped = false;
}

static void change(struct roce_world *w, struct ud_actor *a)
{
	struct ud_world *ud = ud_world_of(w);
	struct ud_handle *h = &a->handles[prng_below(&ud->prng, UD_HANDLES)];

	if (prng_below(&ud->prng, 12) == 0)
		group_change(w, a);
	if (prng_below(&ud->prng, 100) == 0)
		key_change(w, a);
	if (prng_below(&ud->prng, 40) == 0) {
		handle_close(w, a, h);
		handle_open(ud, a, h);
	}
	if (a->resets_left > 0 && prng_below(&ud->prng, 100) == 0)
		reset(w, a);
}

void ud_actor_act(struct roce_world *w, struct ud_actor *a)
{
	struct ud_world *ud = ud_world_of(w);

	mend(w, a);
	if (a->ended < UD_OPS && !roce_has_failed(w))
		change(w, a);
	post_receives(w, a);
	while (!roce_has_failed(w) && !a->is_stopped && a->begun < UD_OPS &&
	       a->begun - a->ended < UD_DEPTH && prng_below(&ud->prng, 3) == 0)
		begin(w, a);
}

/* ---- The end -------------------------------------------------------------------------------- */

void ud_actor_drop(struct roce_node *n, struct ud_actor *a)
{
	for (uint32_t k = 0; k < UD_HANDLES; k++)
		ah_destroy(a->handles[k].ah);
	roce_node_drop(n, a->qp, a->tag);
}

void ud_actor_lose(struct ud_actor *a)
{
	for (; a->ended < a->begun; a->ended++)
		a->ops[a->ended].state = UD_PERHAPS;
	a->is_stopped = false;
	a->excuse_ns = UINT64_MAX;
}
