/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch by itself, whose links the caller carries flit by flit (sim/fabric/); those of a whole
 * fabric are engine_relay.c's. Frames go from the port where they came in to those that a table has
 * for their destination LID (FAB-15, FAB-18). An output port has one frame of a lane at a time,
 * whole (FAB-14); what cannot go on waits in the buffer where it came in, which gives no credit for
 * it (FAB-13). Inputs whose frames wait for the same lane of an output have their turns. A switch
 * makes and consumes no frames here (FAB-17). A multicast frame leaves on the lane that its level
 * has at the first of its ports.
 */
#pragma once

#include <stdint.h>

#include "fabric/link.h"

enum {
	FABRIC_PORTS_MAX = 63, /* from 1 */
	FABRIC_NO_PORT = 255
};

struct fabric_port {
	struct fabric_link link;
	uint8_t lane_of[FLIT_LANES]; /* by service level: of what leaves here */
	uint64_t relay_errors;	     /* came in, and no port has the destination, or no such lane */
	uint64_t discards;	     /* were to leave here while the link was down */
};

struct fabric_switch_cfg {
	uint32_t ports;
	uint32_t linear_max;	/* LIDs that the table has room for, from 0 */
	uint32_t multicast_max; /* multicast LIDs, from 0xc000 */
	struct fabric_link_cfg link;
};

struct fabric_switch {
	struct fabric_switch_cfg cfg;
	struct fabric_port *ports; /* ports[0] is not used */
	uint8_t *linear;	   /* port by LID; FABRIC_NO_PORT: none */
	uint64_t *multicast;	   /* a bit for each port, by LID from 0xc000 on */
};

/* Links are down, tables empty, every service level has lane 0. 0, or -1 when memory is short. */
int fabric_switch_init(struct fabric_switch *s, const struct fabric_switch_cfg *cfg,
		       struct fabric_pool *pool);

void fabric_switch_fini(struct fabric_switch *s);

/* A frame has come in whole on a lane of a port. */
void fabric_switch_arrived(struct fabric_switch *s, uint32_t port, uint32_t lane);

/* A lane of a port has sent its frame, or its link is down or up: frames that wait go on. */
void fabric_switch_freed(struct fabric_switch *s, uint32_t port, uint32_t lane);

/* Hands frames from inputs to outputs, whatever has happened. */
void fabric_switch_forward(struct fabric_switch *s);
