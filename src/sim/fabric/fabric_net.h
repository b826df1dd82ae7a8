/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric in virtual time: endnodes and switches (fabric/), and cables between their ports, which
 * have a delay and a rate, damage and lose flits, and can be pulled. Every flit travels as bytes,
 * those of a run one after the other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "fabric/end.h"
#include "fabric/switch.h"
#include "sim/world/datagram.h"

enum { FABRIC_NET_NODES = 64, FABRIC_NET_CABLES = 96 };

struct fabric_net_node {
	bool is_switch;
	struct fabric_switch sw;
	struct fabric_end end;
};

/* A direction of a cable. */
struct fabric_net_way {
	struct sim_datagram pipe;
	struct world_alarm free, due; /* the sender may go on; a deadline of its */
	uint32_t from, from_port, to, to_port;
};

struct fabric_net {
	struct world world;
	struct fabric_pool pool;
	struct fabric_net_node nodes[FABRIC_NET_NODES];
	struct fabric_net_way ways[2 * FABRIC_NET_CABLES]; /* cable c has 2c and 2c + 1 */
	uint32_t node_count, cable_count;
	/* Of fabric_net_meddle(). */
	bool is_pulled[FABRIC_NET_CABLES];
	uint32_t pulls_left;
	uint64_t pulls;
};

/* Memory of the caller, which does not move. 0, or -1 when memory is short. */
int fabric_net_init(struct fabric_net *n, uint64_t seed);
void fabric_net_fini(struct fabric_net *n);

/* The number of a new node; of a switch -1 when memory is short. */
uint32_t fabric_net_add_end(struct fabric_net *n, const struct fabric_link_cfg *cfg);
int fabric_net_add_switch(struct fabric_net *n, const struct fabric_switch_cfg *cfg);

/* A port of a node: an endnode has port 1. */
struct fabric_net_port {
	uint32_t node, port;
};

/* The number of a new cable, whose links are up, or -1 when memory is short. */
int fabric_net_join(struct fabric_net *n, struct fabric_net_port a, struct fabric_net_port b,
		    const struct sim_faults *faults);
struct fabric_link *fabric_net_link(struct fabric_net *n, struct fabric_net_port p);

/* What is under way is lost, and both links are down; plugged in again they are up. */
void fabric_net_pull(struct fabric_net *n, uint32_t cable);
void fabric_net_plug(struct fabric_net *n, uint32_t cable);

/* Pulls any cable, if pulls are left, or plugs it in again. Then all: false: all were in. */
void fabric_net_meddle(struct fabric_net *n, struct prng *prng);
bool fabric_net_plug_all(struct fabric_net *n);

/* Fills in the tables of all switches: shortest ways to an endnode's LID. */
void fabric_net_route(struct fabric_net *n, uint32_t end, uint16_t lid);

/* A frame of an endnode; false: it has no room. */
bool fabric_net_post(struct fabric_net *n, uint32_t end, uint8_t *bytes, uint32_t length);

/* The next frame for an endnode; 0: there is none. */
uint32_t fabric_net_take(struct fabric_net *n, uint32_t end, uint8_t bytes[IBA_FRAME_MAX]);

/* Goes on to the next event. False: there is none, all is at rest. */
bool fabric_net_step(struct fabric_net *n);
