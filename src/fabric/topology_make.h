/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Topologies of known forms, made by size: switches are S1, S2, ..., endnodes H1, H2, ..., with a
 * port each, and every switch has as many ports as it needs.
 */
#pragma once

#include <weft/reason.h>

#include "fabric/topology.h"

enum topology_form {
	/*
	 * size[0] endnodes at switches of size[1] ports (0: 36), half of them upwards: one, two or
	 * three levels, as few as there can be.
	 */
	TOPOLOGY_FAT_TREE,
	/* size[0] times size[1] times size[2] (0: 1) switches, an endnode at each. */
	TOPOLOGY_TORUS,
	/*
	 * Groups of 2 * size[0] switches that are all joined; each switch has size[0] endnodes and
	 * as many cables to other groups, and there is one between any two groups.
	 */
	TOPOLOGY_DRAGONFLY,
	/* size[0] switches, at least 3, an endnode at each. */
	TOPOLOGY_RING
};

struct topology_plan {
	enum topology_form form;
	uint32_t size[3];
};

/* WEFT_R_TOPOLOGY_LIMIT: there is no such one. On error there is nothing to be freed. */
enum weft_reason topology_make(struct topology *t, const struct topology_plan *plan);
