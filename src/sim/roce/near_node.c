/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/near_node.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/least.h"

enum { PACKETS_MAX = 256, ROUNDS_MAX = 8 };

static struct near_node *node_of(struct ib_node *ib)
{
	return CONTAINER_OF(ib, struct near_node, ib);
}

static uint64_t now_ns(const struct near_node *n)
{
	return n->ib.world->now_ns;
}

/* ---- Out ------------------------------------------------------------------------------------ */

static void take_ends(struct near_node *n)
{
	struct near_ended ended;

	while (near_ended(n->process.near, &ended)) {
		if (!ended.is_refused)
			ib_port_near_ended(n->ib.port, now_ns(n), ended.number);
		while (ended.is_refused && ib_port_near_refused(n->ib.port, ended.number))
			n->refused++;
	}
}

static void use_room(struct near_node *n)
{
	struct near *near = n->process.near;
	bool has_room;

	if (!near_has_news(near))
		return;
	has_room = near_has_room(near);
	take_ends(n);
	if (!has_room)
		return;
	near_room_used(near);
	ib_port_near_release(n->ib.port);
}

/* Between the packet and its record others may run, too: they must not see it. */
static bool send_near(struct near_node *n)
{
	struct near *near = n->process.near;
	struct ib_out out = { 0 };
	bool has_moved = false;

	n->process.is_sending = true;
	for (int i = 0; i < PACKETS_MAX; i++) {
		out.near_number = ib_port_near_next(n->ib.port);
		if (out.near_number == 0)
			break;
		if (!near_begin(near, now_ns(n), &out)) {
			n->process.kernel->fulls++;
			ib_port_near_hold(n->ib.port, now_ns(n),
					  near_is_stalled(near, out.near_number));
			continue;
		}
		near_yield(&n->process);
		if (!ib_port_send(n->ib.port, now_ns(n), &out))
			continue;
		near_packet_in(&n->process, &out);
		(void)near_end(near, &out);
		has_moved = true;
	}
	near_yield(&n->process);
	near_flush(near);
	n->process.is_sending = false;
	ib_port_sent(n->ib.port, now_ns(n));
	return has_moved;
}

static bool send_far(struct near_node *n)
{
	struct ib_out out = { 0 };
	bool has_moved = false;

	while (ib_port_near_next(n->ib.port) == 0 && ib_port_send(n->ib.port, now_ns(n), &out)) {
		ib_node_put(n->out, &out);
		has_moved = true;
	}
	ib_port_sent(n->ib.port, now_ns(n));
	return has_moved;
}

static void conn_forget(struct near_node *n, const struct ib_conn *c)
{
	for (uint32_t i = 0; i < NEAR_CONNS_MAX; i++) {
		if (n->conns[i] == c)
			n->conns[i] = NULL;
	}
}

/* A process that is killed in an object's end leaves it in doubt: it is not killed there. */
static void take_events(struct near_node *n)
{
	struct ib_conn *c;

	n->process.masks++;
	while ((c = ib_port_event(n->ib.port)) != NULL) {
		conn_forget(n, c);
		ib_destroy(c);
	}
	n->process.masks--;
}

static bool node_output(struct ib_node *ib)
{
	struct near_node *n = node_of(ib);
	bool has_moved = false;

	use_room(n);
	for (int i = 0; i < ROUNDS_MAX && ib_port_has_output(ib->port); i++) {
		has_moved |= send_near(n);
		has_moved |= send_far(n);
	}
	take_events(n);
	return has_moved;
}

/* ---- In ------------------------------------------------------------------------------------- */

static bool node_poll(struct ib_node *ib)
{
	struct near_node *n = node_of(ib);
	const struct ib_in *in = NULL;
	bool has_moved = false;

	ib->is_ready = false;
	n->process.is_taking = true;
	for (int i = 0; i < PACKETS_MAX && (in = near_next(n->process.near)) != NULL; i++) {
		near_packet_out(&n->process, in);
		(void)ib_port_recv(ib->port, now_ns(n), in);
		has_moved = true;
	}
	n->process.is_taking = in != NULL;
	if (near_due(n->process.near) <= now_ns(n))
		near_expire(n->process.near, now_ns(n));
	return ib_node_expire(ib) || has_moved;
}

/* The network's packets are those of the node of the other index. */
static bool recv_far(struct near_node *n)
{
	struct ib_node other = { 0 };

	if (!n->process.has_packets)
		return false;
	n->process.has_packets = false;
	ib_node_addresses(!n->ib.index, other.at);
	return ib_node_recv(&n->ib, n->in, &other);
}

bool near_node_look(struct near_node *n)
{
	bool has_moved;

	n->process.is_taking = true;
	near_poll_links(&n->process);
	has_moved = recv_far(n);
	has_moved |= node_poll(&n->ib);
	ib_node_work(&n->ib);
	return has_moved;
}

/* A look at the ring before it sleeps is not needed: the receiver wakes a sender that waits. */
void near_node_rest(struct near_node *n, uint64_t until_ns)
{
	struct near *near = n->process.near;
	bool has_look = prng_below(&n->process.kernel->prng, 2);
	uint64_t due_ns = least(adapter_due(&n->node.adapter), ib_port_due(n->ib.port));

	due_ns = least(least(due_ns, near_due(near)), until_ns);
	near_yield(&n->process);
	if (near_rest(near) && !(has_look && near_has_news(near) && near_has_room(near)))
		near_sleep(&n->process, due_ns);
	if (prng_below(&n->process.kernel->prng, 2))
		near_stand_by(near, true);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static bool can_access(void *owner, uint32_t near_number)
{
	return near_can_access(owner, near_number);
}

static bool access_peer(void *owner, struct ib_direct_access *access)
{
	return near_access(owner, access);
}

static bool grant(void *owner, const struct ib_direct_grant *g)
{
	return near_grant(owner, g);
}

/* It belongs to the end of a connection: see take_events(). */
static void revoke(void *owner, uint32_t number)
{
	struct near_process *p = near_owner(owner);

	p->masks++;
	near_revoke(owner, number);
	p->masks--;
}

static void collect(void *owner, uint32_t number, struct ib_direct_tally *tally)
{
	near_collect(owner, number, tally);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void process_open(struct near_node *n, const struct near_node_options *o)
{
	struct near_kernel *k = o->kernel;
	const struct near_options near = {
		.system = &near_simulated,
		.owner = &n->process,
		.adapter_id = prng_next(&k->prng) | 1,
		.adapter_slot = (uint8_t)(o->index + 1),
		.mem = &n->node.adapter.mem,
		.takes_runs = o->takes_runs,
	};

	n->process.node = o->index;
	n->process.owner = n;
	n->process.alarm.event = o->event;
	n->process.memory = n->node.memory;
	n->process.memory_addr = roce_node_addr(&n->node, 0);
	n->process.memory_bytes = o->memory_bytes;
	n->process.dies_at = n->process.dies_accessing_at = n->process.breaks_at = UINT64_MAX;
	near_process_begin(k, &n->process, o->run);
	n->process.near = near_create(&near);
	CHECK(n->process.near);
	n->direct = (struct ib_direct){ can_access, access_peer, grant,
					revoke,	    collect,	 n->process.near };
	ib_port_set_direct(n->ib.port, &n->direct);
}

struct near_node *near_node_open(const struct near_node_options *o)
{
	struct near_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->scenario = o->scenario;
	n->out = o->out;
	n->in = o->in;
	CHECK(roce_node_init(&n->node, o->kernel->failures, o->index) == 0);
	adapter_set_slot(&n->node.adapter, (uint8_t)(o->index + 1), 8 * o->instance);
	n->ib.world = o->kernel->world;
	n->ib.output = node_output;
	n->ib.poll = node_poll;
	ib_node_open(&n->ib, (int)o->index, &n->node.adapter);
	CHECK(roce_node_open_flat(&n->node, &n->ib, o->memory_bytes) == 0);
	process_open(n, o);
	return n;
}

void near_node_connect(struct near_node *n, struct weft_qp *qp, struct ib_config *config)
{
	uint32_t i = 0;

	while (n->conns[i])
		CHECK(++i < NEAR_CONNS_MAX);
	/* What it would leave is in no list yet, for the scenario to free: not killed there. */
	n->process.masks++;
	config->path.near_number = near_reach(n->process.near, (uint8_t)(!n->ib.index + 1));
	n->process.masks--;
	CHECK(ib_create(n->ib.port, qp, config, &n->conns[i]) == WEFT_OK);
	CHECK(ib_start(n->conns[i], config) == WEFT_OK);
	ib_node_work(&n->ib);
}

static void conns_destroy(struct near_node *n)
{
	for (uint32_t i = 0; i < NEAR_CONNS_MAX; i++) {
		if (n->conns[i])
			ib_destroy(n->conns[i]);
		n->conns[i] = NULL;
	}
}

/* As the driver closes: what can still be sent is. */
void near_node_leave(struct near_node *n)
{
	n->process.masks++;
	near_leave(n->process.near);
	ib_node_work(&n->ib);
	conns_destroy(n);
	near_destroy(n->process.near);
	n->process.near = NULL;
	n->process.masks--;
}

void near_node_close(struct near_node *n)
{
	conns_destroy(n);
	if (n->process.near)
		near_destroy(n->process.near);
	ib_port_destroy(n->ib.port);
	near_process_end(&n->process);
}
