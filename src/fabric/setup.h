/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Brings a fabric up without a subnet manager: LIDs in the order of nodes and ports, tables by the
 * fewest hops, ports Active. What routers join are subnets, each with a prefix and LIDs of its own.
 * For tests and simulations; a live fabric has OpenSM for this.
 */
#pragma once

#include "fabric/fabric.h"

enum fabric_routing {
	/* Of ports that are equally near, that with the fewest LIDs. In a loop it may deadlock. */
	FABRIC_MIN_HOP,
	/* No way goes up again that has gone down: cannot deadlock. */
	FABRIC_UP_DOWN
};

/* 0, or -1: memory is short, or there are not enough LIDs. A switch has its LID at port 0. */
int fabric_setup(struct fabric *f, enum fabric_routing routing);
