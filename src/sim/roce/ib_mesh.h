/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram network in virtual time between a few adapters, each with one port of the InfiniBand
 * transport, each with a way to every one, itself too. What ib_net.h is for connections of two
 * nodes, this is for queue pairs that talk to many.
 */
#pragma once

#include "sim/roce/ib_node.h"

enum { MESH_NODES_MAX = 4 };

struct ib_mesh;

struct ib_mesh_options {
	uint64_t seed;
	int nodes;
	struct sim_faults faults; /* of every way */
	uint32_t trace_max;	  /* latest events that the trace keeps */
};

/* NULL when memory is short. */
struct ib_mesh *ib_mesh_open(const struct ib_mesh_options *options,
			     struct adapter *const adapters[]);

/* Before the adapters go; ends every connection and every context. */
void ib_mesh_close(struct ib_mesh *mesh);

/* The network that a node is of. For tests, whose adapters know only their node. */
struct ib_mesh *ib_mesh_of(struct ib_node *n);

struct ib_node *ib_mesh_node(struct ib_mesh *mesh, int node);
struct world *ib_mesh_world(struct ib_mesh *mesh);
struct sim_datagram *ib_mesh_pipe(struct ib_mesh *mesh, int from, int to);

/* Makes a context at each node for the other; of the path only family and MTU count. */
enum weft_reason ib_mesh_join(struct ib_mesh *mesh, int a, int b, const struct ib_ee_config *k);

/* The context at one node for the other. */
struct ib_ee *ib_mesh_ee(struct ib_mesh *mesh, int at, int to);

/* Makes a queue pair of RD or UD operational. */
enum weft_reason ib_mesh_attach(struct ib_mesh *mesh, struct weft_qp *qp,
				const struct ib_config *k);

/* Connects two queue pairs of RC. For the test that counts what RD saves (TRN-S1). */
enum weft_reason ib_mesh_connect(struct ib_mesh *mesh, const int nodes[2],
				 struct weft_qp *const qps[2], const struct ib_config *k);

/* As ib_net_step(): the node that has something to do, or -1: all, as a while has passed. */
int ib_mesh_step(struct ib_mesh *mesh);

/* Whether something is under way. For tests that let it settle. */
bool ib_mesh_is_flowing(const struct ib_mesh *mesh);
