/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/roce_mesh.h"

int roce_mesh_open(struct roce_mesh *mesh, const struct roce_world *w,
		   const struct sim_faults *faults, size_t node_bytes)
{
	const struct ib_mesh_options o = { .seed = w->seed,
					   .nodes = ROCE_MESH_NODES,
					   .faults = *faults,
					   .trace_max = ROCE_TRACE_EVENTS };
	struct adapter *adapters[ROCE_MESH_NODES];

	for (uint32_t n = 0; n < ROCE_MESH_NODES; n++) {
		if (roce_node_init(&mesh->nodes[n], w, n) < 0)
			return -1;
		adapters[n] = &mesh->nodes[n].adapter;
	}
	mesh->net = ib_mesh_open(&o, adapters);
	if (!mesh->net)
		return -1;
	for (int n = 0; n < ROCE_MESH_NODES; n++) {
		if (roce_node_open(&mesh->nodes[n], ib_mesh_node(mesh->net, n), node_bytes) < 0)
			return -1;
	}
	return 0;
}

void roce_mesh_close(struct roce_mesh *mesh, const struct roce_world *w)
{
	if (roce_has_failed(w))
		world_fini(ib_mesh_world(mesh->net));
	else
		ib_mesh_close(mesh->net);
	for (int n = 0; n < ROCE_MESH_NODES; n++)
		roce_node_fini(&mesh->nodes[n], w);
}
