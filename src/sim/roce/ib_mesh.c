/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/ib_mesh.h"

#include <stdlib.h>

#include "base/check.h"
#include "wire/iba_icrc.h"
#include "wire/iba_psn.h"

enum { CONNS_MAX = 4096, PACKETS_MAX = 1024 };

struct node {
	struct ib_node ib;
	struct ib_mesh *mesh;
	struct ib_ee *ees[MESH_NODES_MAX];
	struct ib_conn *conns[CONNS_MAX];
	uint32_t conn_count;
};

struct ib_mesh {
	struct world world;
	int count;
	struct node nodes[MESH_NODES_MAX];
	struct sim_datagram pipes[MESH_NODES_MAX][MESH_NODES_MAX]; /* from, to */
};

/* ---- Packets -------------------------------------------------------------------------------- */

static struct node *node_of(struct ib_node *n)
{
	return CONTAINER_OF(n, struct node, ib);
}

/* What is for a group goes everywhere: ports know who has joined it. */
static void carry(struct ib_node *n, const struct ib_out *out)
{
	struct ib_mesh *mesh = node_of(n)->mesh;
	int to = ib_node_index(out->path);

	if (ib_node_group_number(out->path) == 0) {
		CHECK(to >= 0 && to < mesh->count);
		ib_node_put(&mesh->pipes[n->index][to], out);
		return;
	}
	for (to = 0; to < mesh->count; to++)
		ib_node_put(&mesh->pipes[n->index][to], out);
}

/* The connection of a queue pair that has left goes at once. */
static bool node_hear_ends(struct node *n)
{
	struct ib_conn *c;
	bool has_moved = false;

	while ((c = ib_port_event(n->ib.port)) != NULL) {
		uint32_t i = 0;

		while (n->conns[i] != c)
			i++;
		n->conns[i] = n->conns[--n->conn_count];
		ib_destroy(c);
		has_moved = true;
	}
	return has_moved;
}

static bool mesh_output(struct ib_node *n)
{
	bool has_moved = ib_node_send(n, carry);

	return node_hear_ends(node_of(n)) || has_moved;
}

static bool mesh_poll(struct ib_node *n)
{
	struct ib_mesh *mesh = node_of(n)->mesh;
	bool has_moved = false;

	n->is_ready = false;
	for (int from = 0; from < mesh->count; from++)
		has_moved |= ib_node_recv(n, &mesh->pipes[from][n->index], &mesh->nodes[from].ib);
	has_moved |= ib_node_expire(n);
	return mesh_output(n) || has_moved;
}

/* ---- The network ---------------------------------------------------------------------------- */

static void node_open(struct ib_mesh *mesh, int i, struct adapter *adapter)
{
	struct node *n = &mesh->nodes[i];

	n->mesh = mesh;
	n->ib.world = &mesh->world;
	n->ib.output = mesh_output;
	n->ib.poll = mesh_poll;
	ib_node_open(&n->ib, i, adapter);
}

static void pipe_open(struct ib_mesh *mesh, int from, int to, const struct sim_faults *faults)
{
	const struct sim_datagram_options o = {
		.id = (uint32_t)(from * MESH_NODES_MAX + to),
		.arrived = { .node = (uint32_t)to, .kind = EVENT_ARRIVED },
		.faults = *faults,
		.datagrams_max = PACKETS_MAX,
		.bytes_max = IB_NODE_BYTES_MAX,
	};

	CHECK(sim_datagram_init(&mesh->pipes[from][to], &mesh->world, &o) == 0);
}

struct ib_mesh *ib_mesh_open(const struct ib_mesh_options *options,
			     struct adapter *const adapters[])
{
	const struct world_options o = {
		.seed = options->seed,
		.events_max = 64,
		.trace_max = options->trace_max,
	};
	struct ib_mesh *mesh = calloc(1, sizeof(*mesh));

	if (!mesh)
		return NULL;
	CHECK(world_init(&mesh->world, &o) == 0);
	mesh->count = options->nodes;
	for (int i = 0; i < mesh->count; i++) {
		node_open(mesh, i, adapters[i]);
		for (int to = 0; to < mesh->count; to++)
			pipe_open(mesh, i, to, &options->faults);
	}
	return mesh;
}

void ib_mesh_close(struct ib_mesh *mesh)
{
	for (int i = 0; i < mesh->count; i++) {
		struct node *n = &mesh->nodes[i];

		while (n->conn_count > 0)
			ib_destroy(n->conns[--n->conn_count]);
		for (int to = 0; to < mesh->count; to++) {
			if (n->ees[to])
				ib_ee_destroy(n->ees[to]);
			sim_datagram_fini(&mesh->pipes[i][to]);
		}
		ib_port_destroy(n->ib.port);
	}
	world_fini(&mesh->world);
	free(mesh);
}

struct ib_mesh *ib_mesh_of(struct ib_node *n)
{
	return node_of(n)->mesh;
}

struct ib_node *ib_mesh_node(struct ib_mesh *mesh, int node)
{
	return &mesh->nodes[node].ib;
}

struct world *ib_mesh_world(struct ib_mesh *mesh)
{
	return &mesh->world;
}

struct sim_datagram *ib_mesh_pipe(struct ib_mesh *mesh, int from, int to)
{
	return &mesh->pipes[from][to];
}

/* ---- Queue pairs ---------------------------------------------------------------------------- */

static void path_fill(struct ib_mesh *mesh, struct ib_path *path, int from, int to)
{
	path->from = mesh->nodes[from].ib.at[path->is_ipv6];
	path->to = mesh->nodes[to].ib.at[path->is_ipv6];
	path->flow_label = iba_flow_label((uint32_t)from + 1, (uint32_t)to + 1);
	path->from.port = iba_udp_port(path->flow_label);
	path->hop_limit = 64;
}

static enum weft_reason ee_open(struct ib_mesh *mesh, int at, int to, const struct ib_ee_config *k)
{
	struct ib_ee_config own = *k;

	path_fill(mesh, &own.path, at, to);
	own.psn_send = iba_psn_add(k->psn_send, (uint32_t)at);
	return ib_ee_create(mesh->nodes[at].ib.port, &own, &mesh->nodes[at].ees[to]);
}

static enum weft_reason ee_join(struct ib_mesh *mesh, int at, int to, const struct ib_ee_config *k)
{
	return ib_ee_connect(mesh->nodes[at].ees[to], ib_ee_number(mesh->nodes[to].ees[at]),
			     iba_psn_add(k->psn_send, (uint32_t)to));
}

enum weft_reason ib_mesh_join(struct ib_mesh *mesh, int a, int b, const struct ib_ee_config *k)
{
	enum weft_reason r = ee_open(mesh, a, b, k);

	if (r == WEFT_OK && a != b)
		r = ee_open(mesh, b, a, k);
	if (r == WEFT_OK)
		r = ee_join(mesh, a, b, k);
	if (r == WEFT_OK && a != b)
		r = ee_join(mesh, b, a, k);
	return r;
}

struct ib_ee *ib_mesh_ee(struct ib_mesh *mesh, int at, int to)
{
	return mesh->nodes[at].ees[to];
}

static enum weft_reason conn_open(struct node *n, struct weft_qp *qp, const struct ib_config *k)
{
	struct ib_conn **c = &n->conns[n->conn_count];
	enum weft_reason r;

	if (n->conn_count == CONNS_MAX)
		return WEFT_R_LIMIT;
	r = ib_create(n->ib.port, qp, k, c);
	if (r != WEFT_OK)
		return r;
	n->conn_count++;
	return ib_start(*c, k);
}

enum weft_reason ib_mesh_attach(struct ib_mesh *mesh, struct weft_qp *qp, const struct ib_config *k)
{
	for (int i = 0; i < mesh->count; i++) {
		if (mesh->nodes[i].ib.adapter == qp->adapter)
			return conn_open(&mesh->nodes[i], qp, k);
	}
	return WEFT_R_BAD_ARGUMENT;
}

enum weft_reason ib_mesh_connect(struct ib_mesh *mesh, const int nodes[2],
				 struct weft_qp *const qps[2], const struct ib_config *k)
{
	enum weft_reason r = WEFT_OK;

	for (int i = 0; i < 2 && r == WEFT_OK; i++) {
		struct ib_config own = *k;

		path_fill(mesh, &own.path, nodes[i], nodes[!i]);
		own.peer_qp = qps[!i]->number;
		r = conn_open(&mesh->nodes[nodes[i]], qps[i], &own);
	}
	return r;
}

/* ---- Time ----------------------------------------------------------------------------------- */

int ib_mesh_step(struct ib_mesh *mesh)
{
	struct ib_node *nodes[MESH_NODES_MAX];
	struct world_event event;

	for (int i = 0; i < mesh->count; i++)
		nodes[i] = &mesh->nodes[i].ib;
	return ib_nodes_step(&mesh->world, nodes, mesh->count, &event);
}

bool ib_mesh_is_flowing(const struct ib_mesh *mesh)
{
	for (int i = 0; i < mesh->count; i++) {
		for (int to = 0; to < mesh->count; to++) {
			if (!sim_datagram_is_empty(&mesh->pipes[i][to]))
				return true;
			if (mesh->nodes[i].ees[to] && ib_ee_is_busy(mesh->nodes[i].ees[to]))
				return true;
		}
	}
	return false;
}
