/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes with their agents, whose frames go from one to the other at once, by cables. */
#pragma once

#include "fabric/node.h"
#include "wire/pm_attr.h"
#include "wire/smp.h"

enum {
	BED_NODES = 8,
	BED_PORTS = 8,
	BED_CAME = 64,
	BED_HOPS = 200, /* a frame that goes on for longer goes in a circle */
	BED_NONE = 255,
	BED_TABLE = 128
};

struct node_bed_frame {
	uint32_t node, port, length;
	uint8_t bytes[IBA_FRAME_MAX];
};

struct node_bed {
	struct fabric_node nodes[BED_NODES];
	uint32_t count;
	struct {
		uint8_t node, port; /* BED_NONE: no cable */
	} peers[BED_NODES][BED_PORTS + 1];
	struct node_bed_frame came[BED_CAME]; /* to owners */
	uint32_t came_count;
	uint64_t now_ns, tid;
};

struct node_bed *node_bed_open(void);
void node_bed_close(struct node_bed *own_b);

uint32_t node_bed_add(struct node_bed *b, enum sm_node_type type, uint32_t ports);
void node_bed_cable(struct node_bed *b, uint32_t a, uint32_t port_a, uint32_t c, uint32_t port_c);

/* Two CAs with a port each at one switch, at its ports 1 and 2: nodes 0, 1 and 2. */
struct node_bed *node_bed_star(void);

/* Posts a frame, and carries it and what comes of it until all has ended or reached an owner. */
void node_bed_post(struct node_bed *b, uint32_t node, uint32_t port, const uint8_t *bytes,
		   uint32_t length);
/* A frame comes by the link of a port. */
void node_bed_arrive(struct node_bed *b, uint32_t node, uint32_t port, const uint8_t *bytes,
		     uint32_t length);
/* What nodes want to send on their own, and what links are to be taken down and up. */
void node_bed_settle(struct node_bed *b);

/* ---- SMPs ----------------------------------------------------------------------------------- */

struct smp node_bed_smp(uint8_t method, uint16_t attribute, uint32_t modifier);
/* The same along a route of so many hops: ports by which it leaves. */
struct smp node_bed_route(struct smp s, uint32_t hops, const uint8_t *ports);
void node_bed_fill(struct smp *s, const union sm_value *value);
uint32_t node_bed_frame(uint8_t bytes[IBA_FRAME_MAX], const struct smp *s, uint16_t from,
			uint16_t to);
/* Of a frame of an SMP. */
struct smp node_bed_smp_of(const uint8_t *bytes, uint32_t length);
/* The SMP of the latest frame that came to an owner. */
struct smp node_bed_last(const struct node_bed *b);

/* A directed request of the owner of a port, and its answer. */
struct smp node_bed_ask(struct node_bed *b, uint32_t node, uint32_t port, struct smp s);
/* Fills *value from the answer; returns its status. */
uint16_t node_bed_get(struct node_bed *b, struct smp s, union sm_value *value);
uint16_t node_bed_set(struct node_bed *b, struct smp s, union sm_value *value);

/* From node 0, whose owner is the subnet manager: LIDs are node + 1, all ports Active. */
void node_bed_manage(struct node_bed *b);

/* A datagram to a QP. */
uint32_t node_bed_data(uint8_t bytes[IBA_FRAME_MAX], uint16_t from, uint16_t to,
		       uint32_t payload_bytes);
