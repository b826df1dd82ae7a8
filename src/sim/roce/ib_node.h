/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node of a simulated network of datagrams: an adapter's core with one port of the InfiniBand
 * transport, and how packets get from the port into a pipe and out of it. ib_net.h and ib_mesh.h
 * are made of nodes. Not here: who creates the adapter, and what its consumers do.
 */
#pragma once

#include "ib/ib.h"
#include "sim/world/datagram.h"

enum {
	IB_NODE_HEAD = 3, /* ahead of a packet: which IP, which group, and the port it came from */
	IB_NODE_RUN = 2,  /* behind that: the count of a run, twice */
	IB_NODE_BYTES_MAX = IBA_FRAME_MAX + IB_NODE_HEAD + IB_NODE_RUN,
	IB_NODE_GROUPS_MAX = 125,
	IB_NODE_IS_FRAME = 126, /* instead of a group */
	IB_NODE_IS_RUN = 127
};

enum { EVENT_DEADLINE, EVENT_TICK, EVENT_ARRIVED, EVENT_LEFT };

struct ib_node {
	int index;
	struct adapter *adapter;
	struct ib_port *port;
	struct world *world;
	struct inet_end at[2];	 /* IPv4 and IPv6 */
	bool is_ready, has_runs; /* the latter: see struct ib_in */
	bool is_dropping_early;	 /* see struct ib_port_config */
	uint64_t polls;		 /* see ib_node_cq_poll() */
	struct world_alarm alarm;
	/* The network's: sends what is to go; takes what has come and what is due, then sends. */
	bool (*output)(struct ib_node *n);
	bool (*poll)(struct ib_node *n);
};

/* The world, output, poll and is_dropping_early are set by the network, before this. */
void ib_node_open(struct ib_node *n, int index, struct adapter *adapter);

/* Those of the node of an index; the index of the node that a path leads to. */
void ib_node_addresses(int index, struct inet_end at[2]);

/* The local route from a node to another: each has two LIDs. */
struct ib_local ib_node_local(int from, int to, bool has_grh);
int ib_node_index(const struct ib_path *path);

/* All of a port's packets, each by the network's ways for its path. True: there were some. */
bool ib_node_send(struct ib_node *n, void (*carry)(struct ib_node *n, const struct ib_out *out));

/* A packet goes into one pipe. */
void ib_node_put(struct sim_datagram *pipe, const struct ib_out *out);

/* The multicast address of a group, whose numbers begin with 1; and its number, 0: it is none. */
struct ib_group ib_node_group(bool is_ipv6, uint8_t number);
uint8_t ib_node_group_number(const struct ib_path *path);

/* Packets that have arrived by a pipe; deadlines that have passed. True: there were some. */
bool ib_node_recv(struct ib_node *n, struct sim_datagram *pipe, const struct ib_node *from);
bool ib_node_expire(struct ib_node *n);

/*
 * Lets the next thing happen, which may take a moment of virtual time, but never a long one. The
 * node that is to move now, with what happened; -1: a while has passed.
 */
int ib_nodes_step(struct world *world, struct ib_node *const nodes[], int count,
		  struct world_event *event);

/* ---- The node's own consumers --------------------------------------------------------------- */

/*
 * Lets core and network give each other work, after a call that may have given some; the second
 * looks first at what has arrived. They do what adapter_work() and adapter_poll() of the driver do.
 */
void ib_node_work(struct ib_node *n);
void ib_node_look(struct ib_node *n);

/* The calls of the core, followed by what they give to do. */
enum weft_reason ib_node_post_send(struct ib_node *n, struct weft_qp *qp, struct weft_send_wr *wr);
enum weft_reason ib_node_post_recv(struct ib_node *n, struct weft_qp *qp,
				   const struct weft_recv_wr *wr);
enum weft_reason ib_node_modify(struct ib_node *n, struct weft_qp *qp,
				const struct weft_qp_attr *attr, uint32_t fields);

/* The next completion, after a look at what has arrived. False: there is none. */
bool ib_node_cq_poll(struct ib_node *n, struct weft_cq *cq, struct weft_completion *c);
