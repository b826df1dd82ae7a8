/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/near_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/least.h"

enum { PACKETS_MAX = 256, ROUNDS_MAX = 8 };

/* As in the driver: when it is looked again for an adapter, and for one that refused. */
static const uint64_t retry_ns = 20 * 1000 * 1000, again_ns = 1000 * 1000 * 1000;

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
		n->is_refused[ended.adapter_slot] |= ended.is_refused;
		ib_port_near_set(n->ib.port, ended.adapter_slot, IB_NEAR_UNKNOWN);
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

/* What a process that is killed in here would leave is in no list yet: it is not killed. */
static uint32_t reach(struct near_node *n, uint8_t adapter_slot)
{
	uint32_t number;

	n->process.masks++;
	number = near_reach(n->process.near, adapter_slot);
	n->process.masks--;
	return number;
}

/* By which the next packet goes. A datagram does not wait for the ring to be taken. */
static uint32_t next_number(struct near_node *n)
{
	uint32_t number = ib_port_near_next(n->ib.port);
	uint8_t slot;

	if (number != IB_NEAR_UNKNOWN)
		return number;
	slot = ib_port_near_asked(n->ib.port);
	number = n->is_refused[slot] ? 0 : reach(n, slot);
	if (number != 0 && !near_is_taken(n->process.near, number)) {
		n->has_untaken = true;
		number = 0;
	}
	ib_port_near_set(n->ib.port, slot, number);
	return number;
}

/* Room for the next packet, unless it has to wait. */
static bool begin_near(struct near_node *n, struct ib_out *out)
{
	struct near *near = n->process.near;

	if (near_begin(near, now_ns(n), out))
		return true;
	n->process.kernel->fulls++;
	if (ib_port_near_may_lose(n->ib.port) && near_is_stopped(near, out->near_number)) {
		near_begin_lossy(near, out);
		return true;
	}
	ib_port_near_hold(n->ib.port, now_ns(n), near_is_stalled(near, out->near_number));
	return false;
}

/* Between the packet and its record others may run, too: they must not see it. */
static bool send_near(struct near_node *n)
{
	struct near *near = n->process.near;
	struct ib_out out = { 0 };
	bool has_moved = false;

	n->process.is_sending = true;
	for (int i = 0; i < PACKETS_MAX; i++) {
		out.near_number = next_number(n);
		if (out.near_number == 0)
			break;
		if (!begin_near(n, &out))
			continue;
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

/* What is for a group goes everywhere: ports know who has joined it. */
static void carry(struct near_node *n, const struct ib_out *out)
{
	bool is_for_all = ib_node_group_number(out->path) != 0;

	for (uint32_t to = 0; to < NEAR_NODES_MAX; to++) {
		if (n->out[to] && (is_for_all || ib_node_index(out->path) == (int)to))
			ib_node_put(n->out[to], out);
	}
}

static bool send_far(struct near_node *n)
{
	struct ib_out out = { 0 };
	bool has_moved = false;

	while (next_number(n) == 0 && ib_port_send(n->ib.port, now_ns(n), &out)) {
		carry(n, &out);
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

static bool recv_far(struct near_node *n)
{
	bool has_moved = false;

	if (!n->process.has_packets)
		return false;
	n->process.has_packets = false;
	for (int from = 0; from < NEAR_NODES_MAX; from++) {
		struct ib_node other = { 0 };

		ib_node_addresses(from, other.at);
		has_moved |= n->in[from] && ib_node_recv(&n->ib, n->in[from], &other);
	}
	return has_moved;
}

static void retry(struct near_node *n)
{
	if (n->has_untaken || n->retry_ns <= now_ns(n))
		ib_port_near_forget(n->ib.port);
	n->has_untaken = false;
	if (n->retry_ns <= now_ns(n))
		n->retry_ns = now_ns(n) + retry_ns;
	if (n->again_ns > now_ns(n))
		return;
	n->again_ns = now_ns(n) + again_ns;
	memset(n->is_refused, 0, sizeof(n->is_refused));
}

bool near_node_look(struct near_node *n)
{
	bool has_moved;

	n->process.is_taking = true;
	near_poll_links(&n->process);
	retry(n);
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
	memcpy(n->out, o->out, sizeof(n->out));
	memcpy(n->in, o->in, sizeof(n->in));
	CHECK(roce_node_init_large(&n->node, o->kernel->failures, o->index, o->qps_max) == 0);
	adapter_set_slot(&n->node.adapter, (uint8_t)(o->index + 1), o->qps_max / 8 * o->instance);
	n->ib.world = o->kernel->world;
	n->ib.output = node_output;
	n->ib.poll = node_poll;
	ib_node_open(&n->ib, (int)o->index, &n->node.adapter);
	CHECK(roce_node_open_flat(&n->node, &n->ib, o->memory_bytes) == 0);
	process_open(n, o);
	return n;
}

void near_node_attach(struct near_node *n, struct weft_qp *qp, const struct ib_config *config)
{
	uint32_t i = 0;

	while (n->conns[i])
		CHECK(++i < NEAR_CONNS_MAX);
	CHECK(ib_create(n->ib.port, qp, config, &n->conns[i]) == WEFT_OK);
	CHECK(ib_start(n->conns[i], config) == WEFT_OK);
	ib_node_work(&n->ib);
}

uint32_t near_node_reach(struct near_node *n, uint32_t to)
{
	return reach(n, (uint8_t)(to + 1));
}

void near_node_connect(struct near_node *n, struct weft_qp *qp, struct ib_config *config,
		       uint32_t to)
{
	config->path.near_number = near_node_reach(n, to);
	near_node_attach(n, qp, config);
}

void near_node_address(struct near_node *n, struct weft_ah *ah)
{
	ah->is_on_host = true;
	ib_port_near_forget(n->ib.port);
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
