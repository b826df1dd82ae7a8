/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "driver/udp/udp_inside.h"

enum {
	/* Consecutive packets from another source port, until the flow moves to that port. */
	LEARN_AFTER = 4,
	/* Packets of one source handed on to us, until it gets a flow. */
	NOTICE_AFTER = 16,
	/* Opportunities skipped after a flow could not be opened. */
	HOLDOFF = 1024,
	/* Calls of udp_fetch() for which a young flow waits, at most. */
	YOUNG_FETCHES = 64
};

static bool is_same_end(bool is_ipv6, const struct inet_end *a, const struct inet_end *b)
{
	return a->port == b->port && inet_is_same_address(is_ipv6, a->address, b->address);
}

static struct udp_flow *find(const struct udp *u, const struct udp_ends *e)
{
	for (struct list *at = u->flows.next; at != &u->flows; at = at->next) {
		struct udp_flow *f = CONTAINER_OF(at, struct udp_flow, link);

		if (f->socket.is_ipv6 == e->is_ipv6 &&
		    is_same_end(e->is_ipv6, &f->socket.peer, &e->peer) &&
		    is_same_end(e->is_ipv6, &f->socket.at, &e->at))
			return f;
	}
	return NULL;
}

/*
 * Earlier packets of the flow may lie in our shared socket or in our clients' sockets: these are
 * read first. Packets in sockets of other processes are not waited for.
 */
static void begin_young(struct udp_flow *f)
{
	struct udp *u = f->socket.udp;
	struct udp_socket *shared = &u->shared[f->socket.is_ipv6];

	f->is_young = f->has_other_peers = true;
	f->young_until = u->fetches + YOUNG_FETCHES;
	if (shared->watch.fd >= 0)
		udp_socket_await(shared, true);
	udp_socket_await(&u->listener, true);
	for (struct list *at = u->clients.next; at != &u->clients; at = at->next)
		udp_socket_await(&CONTAINER_OF(at, struct udp_client, link)->socket, true);
}

bool udp_flow_is_due(struct udp_flow *f)
{
	struct udp *u = f->socket.udp;

	if (f->is_young)
		f->is_young = u->awaited > 0 && u->fetches < f->young_until;
	return !f->is_young;
}

static struct udp_flow *create(struct udp *u, const struct udp_ends *e)
{
	struct udp_flow *f;
	int fd;

	if (u->flow_count >= UDP_FLOWS_MAX)
		return NULL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	fd = udp_flow_socket_open(e->is_ipv6, &e->at, &e->peer);
	if (fd < 0) {
		free(f);
		return NULL;
	}
	udp_socket_init(u, &f->socket, UDP_FLOW, fd);
	f->socket.is_ipv6 = e->is_ipv6;
	f->socket.at = e->at;
	f->socket.peer = e->peer;
	list_add_tail(&u->flows, &f->link);
	u->flow_count++;
	begin_young(f);
	udp_socket_start(&f->socket);
	return f;
}

static struct udp_flow *get(struct udp *u, const struct udp_ends *e)
{
	struct udp_flow *f = find(u, e);

	if (!f && u->flow_holdoff > 0) {
		u->flow_holdoff--;
		return NULL;
	}
	if (!f)
		f = create(u, e);
	if (!f) {
		u->counts.flows_refused++;
		u->flow_holdoff = HOLDOFF;
		return NULL;
	}
	f->refs++;
	return f;
}

static void put(struct udp_flow *f)
{
	if (--f->refs > 0)
		return;
	/* Unread packets have no receiver here any more, or are sent again. */
	list_remove(&f->link);
	f->socket.udp->flow_count--;
	udp_socket_close(&f->socket);
	free(f);
}

void udp_flow_open(struct udp *u, const struct ib_path *path, uint32_t our_qp, uint32_t peer_qp,
		   struct udp_flow_ref *flow_ref)
{
	struct udp_ends e = { path->is_ipv6, path->from, path->to };

	e.at.port = IBA_UDP_PORT;
	e.peer.port = udp_source_port(peer_qp, our_qp);
	u->flow_holdoff = 0; /* connections are rare: always try */
	*flow_ref = (struct udp_flow_ref){ .flow = get(u, &e) };
}

void udp_flow_learn(struct udp *u, struct udp_flow_ref *flow_ref, const struct ib_in *in)
{
	const struct udp_ends e = { in->is_ipv6, in->to, in->from };
	struct udp_flow *f;

	if (flow_ref->flow && flow_ref->flow->socket.peer.port == in->from.port) {
		flow_ref->other_count = 0;
		return;
	}
	if (flow_ref->other_port != in->from.port)
		flow_ref->other_count = 0;
	flow_ref->other_port = in->from.port;
	if (++flow_ref->other_count < LEARN_AFTER)
		return;
	flow_ref->other_count = 0;
	f = get(u, &e);
	if (!f)
		return;
	if (flow_ref->flow)
		put(flow_ref->flow);
	flow_ref->flow = f;
}

/*
 * For queue pairs without a peer, or whose peer chooses its own source ports: udp_flow_open() opens
 * no flow for their packets. A new learned flow replaces the oldest.
 */
void udp_flow_notice(struct udp *u, const struct ib_in *in)
{
	const struct udp_ends e = { in->is_ipv6, in->to, in->from };
	uint32_t hash = in->from.port * 3u + in->from.address[in->is_ipv6 ? 15 : 3];
	struct udp_candidate *c = &u->candidates[hash % UDP_CANDIDATES];
	struct udp_flow_ref *flow_ref = &u->learned[u->learned_next];

	if (c->ends.is_ipv6 != e.is_ipv6 || !is_same_end(e.is_ipv6, &c->ends.peer, &e.peer) ||
	    !is_same_end(e.is_ipv6, &c->ends.at, &e.at))
		*c = (struct udp_candidate){ .ends = e };
	if (++c->count < NOTICE_AFTER)
		return;
	c->count = 0;
	if (find(u, &e))
		return; /* it was on its way before */
	if (flow_ref->flow)
		put(flow_ref->flow);
	flow_ref->flow = get(u, &e);
	u->learned_next = (u->learned_next + 1) % UDP_LEARNED_MAX;
}

void udp_flow_close(struct udp *u, struct udp_flow_ref *flow_ref)
{
	(void)u;
	if (flow_ref->flow)
		put(flow_ref->flow);
	*flow_ref = (struct udp_flow_ref){ 0 };
}

void udp_flows_close(struct udp *u)
{
	while (!list_is_empty(&u->flows)) {
		struct udp_flow *f = CONTAINER_OF(u->flows.next, struct udp_flow, link);

		f->refs = 1;
		put(f);
	}
}
