/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_host.h"

enum { TRACE_EVENTS = 16 }; /* only the hash of all counts */

struct ib_node *ib_host_node(const struct weft_adapter *a)
{
	return a->world;
}

static uint64_t host_now_ns(struct weft_adapter *a)
{
	return ib_host_node(a)->world->now_ns;
}

static bool host_output(struct weft_adapter *a, bool can_wait)
{
	struct ib_node *n = ib_host_node(a);

	(void)can_wait;
	return n->output(n);
}

static bool host_poll(struct weft_adapter *a, bool is_all)
{
	struct ib_node *n = ib_host_node(a);

	(void)is_all;
	return n->poll(n);
}

static uint64_t host_due(struct weft_adapter *a)
{
	return ib_port_due(ib_host_node(a)->port);
}

static const struct host host = {
	.now_ns = host_now_ns,
	.output = host_output,
	.poll = host_poll,
	.due = host_due,
};

static void host_set(struct weft_adapter *a, struct ib_node *n)
{
	a->host = &host;
	a->world = n;
}

struct ib_net *ib_host_net(const struct ib_net_options *options,
			   struct weft_adapter *const adapters[2])
{
	struct adapter *const cores[2] = { &adapters[0]->core, &adapters[1]->core };
	struct ib_net_options o = *options;
	struct ib_net *net;

	o.trace_max = TRACE_EVENTS;
	net = ib_net_open(&o, cores);
	for (int i = 0; net && i < 2; i++)
		host_set(adapters[i], ib_net_node(net, i));
	return net;
}

struct ib_mesh *ib_host_mesh(const struct ib_mesh_options *options,
			     struct weft_adapter *const adapters[])
{
	struct adapter *cores[MESH_NODES_MAX];
	struct ib_mesh_options o = *options;
	struct ib_mesh *mesh;

	o.trace_max = TRACE_EVENTS;
	for (int i = 0; i < o.nodes; i++)
		cores[i] = &adapters[i]->core;
	mesh = ib_mesh_open(&o, cores);
	for (int i = 0; mesh && i < o.nodes; i++)
		host_set(adapters[i], ib_mesh_node(mesh, i));
	return mesh;
}
