/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A topology as text (docs/fabric.md): what ibnetdiscover prints of a cluster, or the shorter form
 * of ibsim's net files. Nodes with their ports, and which cable joins which of them.
 *
 * A cable may be written at one end or at both; the ends must agree. The order of nodes is at will.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/sm_attr.h"

enum {
	TOPOLOGY_NODES_MAX = 0xbfff, /* unicast LIDs */
	TOPOLOGY_PORTS_MAX = 254,
	TOPOLOGY_NAME_BYTES = 64, /* with the 0 at its end */
	TOPOLOGY_RATE_BYTES = 12,
	TOPOLOGY_NONE = UINT32_MAX
};

struct topology_port {
	uint32_t node; /* at the other end of the cable; TOPOLOGY_NONE: there is no cable */
	uint32_t port;
	char rate[TOPOLOGY_RATE_BYTES]; /* width and speed, 4xSDR; "": the text has none */
};

struct topology_node {
	enum sm_node_type type;
	uint32_t ports;
	uint64_t guid;			/* 0: the text has none */
	char id[TOPOLOGY_NAME_BYTES];	/* by which cables name it */
	char name[TOPOLOGY_NAME_BYTES]; /* its description; of a node without: its id */
	struct topology_port *port;	/* port[1] to port[ports] */
};

struct topology {
	uint32_t node_count, cable_count;
	struct topology_node *nodes;
	struct topology_port *ports; /* of all nodes, one after the other */
	uint32_t *buckets;	     /* nodes by their ids; used while reading */
	uint32_t bucket_count;
};

/*
 * On error *line is the number of the line, from 1, and there is nothing to be freed.
 * WEFT_R_NO_MEMORY: not the text's fault.
 */
enum weft_reason topology_parse(struct topology *t, const char *text, size_t length,
				uint32_t *line);
void topology_fini(struct topology *t);

/* Of data, in Mbit/s: 8000 of 4xSDR; 0: not known. */
uint32_t topology_rate_mbps(const char *rate);

/* Marks the nodes that can be reached from the first with 1; returns how many these are. */
uint32_t topology_reach(const struct topology *t, uint8_t *marks);
