/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node of a simulated network of datagrams: an adapter with one port of the InfiniBand transport,
 * and how packets get from a port into a pipe and out of it. ib_net.h and ib_mesh.h are made of it.
 */
#pragma once

#include "driver/loop/adapter_lock.h"
#include "ib/ib.h"
#include "sim/world/datagram.h"

enum {
	IB_NODE_HEAD = 3, /* ahead of a packet in the pipe: which IP, and the port it came from */
	IB_NODE_BYTES_MAX = IBA_PACKET_MAX + IB_NODE_HEAD,
	IB_NODE_TRACE = 16 /* events; only the hash of all counts */
};

enum { EVENT_DEADLINE, EVENT_TICK, EVENT_ARRIVED, EVENT_LEFT };

struct ib_node {
	int index;
	struct weft_adapter *adapter;
	struct ib_port *port;
	struct inet_end at[2]; /* IPv4 and IPv6 */
	bool is_ready;
	struct world_alarm alarm;
};

void ib_node_open(struct ib_node *n, int index, struct weft_adapter *adapter);

/* All of a port's packets, each into the pipe that is the place's. True: there were some. */
bool ib_node_send(struct ib_node *n, uint64_t now_ns,
		  struct sim_datagram *(*pipe_to)(struct ib_node *n, const struct ib_path *path));

/* What has come by a pipe; what is due. True: something was. */
bool ib_node_recv(struct ib_node *n, uint64_t now_ns, struct sim_datagram *pipe,
		  const struct ib_node *from);
bool ib_node_expire(struct ib_node *n, uint64_t now_ns);

/*
 * Lets the next thing happen, which may take a moment of virtual time, but never a long one. The
 * node that is to move now, with what happened; -1: a while has passed.
 */
int ib_nodes_step(struct world *world, struct ib_node *const nodes[], int count,
		  struct world_event *event);
