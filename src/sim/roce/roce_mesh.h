/* SPDX-License-Identifier: BSD-2-Clause */
/* The nodes of a scenario of datagrams, and the network by which each reaches each. */
#pragma once

#include "sim/roce/ib_mesh.h"
#include "sim/roce/roce_node.h"

enum { ROCE_MESH_NODES = 3 };

struct roce_mesh {
	struct ib_mesh *net;
	struct roce_node nodes[ROCE_MESH_NODES];
};

/* With so much memory in each node. 0, or -1 when memory is short. */
int roce_mesh_open(struct roce_mesh *mesh, const struct roce_world *w,
		   const struct sim_faults *faults, size_t node_bytes);

/* After the nodes' objects, unless the world has failed. */
void roce_mesh_close(struct roce_mesh *mesh, const struct roce_world *w);
