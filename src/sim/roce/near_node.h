/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of a simulated host (near_kernel.h) with an adapter: its packets to other nodes go by
 * the real near path, or by a network if that does not take them, or if they are for a group. What
 * the driver does between the port and the near path is done here.
 */
#pragma once

#include "sim/roce/near_kernel.h"
#include "sim/roce/roce_node.h"

enum { NEAR_CONNS_MAX = 64 };

struct near_node {
	struct near_process process; /* its owner is the node */
	struct roce_node node;
	struct ib_node ib;
	struct ib_direct direct;
	struct ib_conn *conns[NEAR_CONNS_MAX]; /* until their queue pairs have left */
	/* The network, by the other node. */
	struct sim_datagram *out[NEAR_NODES_MAX], *in[NEAR_NODES_MAX];
	void *scenario;
	uint64_t refused;
	/* Of datagrams, as in the driver: when an adapter that took no ring is asked again. */
	bool is_refused[UINT8_MAX + 1]; /* by slot */
	bool has_untaken;
	uint64_t retry_ns, again_ns;
};

struct near_node_options {
	struct near_kernel *kernel;
	uint32_t index;
	uint32_t instance; /* of the processes of this index */
	uint32_t memory_bytes, qps_max;
	bool takes_runs;
	struct sim_datagram *out[NEAR_NODES_MAX], *in[NEAR_NODES_MAX];
	struct world_event event; /* of its alarm */
	void (*run)(void *owner); /* the node */
	void *scenario;
};

/* NULL: out of memory. */
struct near_node *near_node_open(const struct near_node_options *options);

/* Orderly, within the process. No queue pair and region may be left. */
void near_node_leave(struct near_node *n);

/* From outside: of a process that has ended or died, with all that is left of it. */
void near_node_close(struct near_node *n);

/* Makes a queue pair operational, and keeps its connection until it has left. */
void near_node_attach(struct near_node *n, struct weft_qp *qp, const struct ib_config *config);

/* The same, by the way to a node. */
void near_node_connect(struct near_node *n, struct weft_qp *qp, struct ib_config *config,
		       uint32_t to);

/*
 * Requests to a process that was killed end at once if its packets went by shared memory: long
 * before the timeouts of the network.
 */
enum { NEAR_GIVE_UP_NS = 1000 * 1000 * 1000 };

/* The way to a node, for a path (near_number). */
uint32_t near_node_reach(struct near_node *n, uint32_t to);

/* Datagrams by this address handle are for a node of this host. */
void near_node_address(struct near_node *n, struct weft_ah *ah);

/* Takes what has come, and sends what is to go. True: there was something. */
bool near_node_look(struct near_node *n);

/* Sleeps until then, or until there is something. */
void near_node_rest(struct near_node *n, uint64_t until_ns);
