/* SPDX-License-Identifier: BSD-2-Clause */
/* The two nodes of a scenario of connections, their network, and what the connections agree on. */
#pragma once

#include "sim/roce/ib_net.h"
#include "sim/roce/roce_node.h"

struct roce_pair {
	struct ib_net *net;
	struct roce_node nodes[2]; /* the scenario opens each (roce_node_open()) */
};

/* 0, or -1 when memory is short. */
int roce_pair_open(struct roce_pair *pair, const struct roce_world *w,
		   const struct sim_faults faults[2]);

/* After the nodes' objects, unless the world has failed. */
void roce_pair_close(struct roce_pair *pair, const struct roce_world *w);

/* What two ends of a reliable connection agree on. */
void roce_draw_wire(struct prng *p, struct ib_wire_options *o);
