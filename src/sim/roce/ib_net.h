/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram network in virtual time between two adapters, each with one port of the InfiniBand
 * transport. In place of connection management a notice goes round, which is never lost: this end
 * has left.
 */
#pragma once

#include "sim/roce/ib_node.h"

struct ib_net;

struct ib_net_options {
	uint64_t seed;
	struct sim_faults faults[2]; /* of what the node sends */
	uint32_t trace_max;	     /* latest events that the trace keeps */
	bool is_dropping_early;	     /* the port of node 1, see struct ib_port_config */
};

/* What the ends of a connection agree on; [0] is that of node 0. */
struct ib_wire_options {
	bool is_ipv6;
	bool is_local; /* by LIDs, and with is_ipv6 by GIDs as well */
	uint32_t mtu_bytes;
	uint32_t psn[2];  /* of the first that the node sends */
	uint8_t reads[2]; /* of the peer that the node serves */
	uint32_t window[2], ack_every[2];
	uint8_t timeout_code, retries, rnr_retries, rnr_timer_code;
};

/* Of the end i of such a connection, without its addresses. */
struct ib_config ib_wire_config(const struct ib_wire_options *o, int i, uint32_t peer_qp);

/* NULL when memory is short. */
struct ib_net *ib_net_open(const struct ib_net_options *options, struct adapter *const adapters[2]);

/* Before the adapters go. */
void ib_net_close(struct ib_net *net);

/* The network that a node is of. For tests, whose adapters know only their node. */
struct ib_net *ib_net_of(struct ib_node *n);

struct ib_node *ib_net_node(struct ib_net *net, int node);
struct world *ib_net_world(struct ib_net *net);
struct sim_datagram *ib_net_pipe(struct ib_net *net, int node);

/* Connects one queue pair of each node, at once. */
enum weft_reason ib_net_connect(struct ib_net *net, struct weft_qp *const qps[2],
				const struct ib_wire_options *options);

/* As ib_nodes_step() in ib_node.h. */
int ib_net_step(struct ib_net *net);

/* Whether something is under way on the queue pair's connection. For tests that let it settle. */
bool ib_net_is_flowing(const struct weft_qp *qp);
