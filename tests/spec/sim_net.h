/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network in virtual time between two adapters: a simulated host (driver/loop/adapter_lock.h) on
 * the simulator's world and streams. Its connections are moved by the same calls of cm/ and iwarp/
 * as those on sockets; there is no socket, no thread and no other clock.
 *
 * The adapters move inside their own calls, as on any host. Somebody must let time pass:
 * sim_net_step().
 */
#pragma once

#include "driver/loop/adapter_lock.h"
#include "iwarp/iwarp.h"
#include "sim/world/stream.h"

struct sim_net;

/* How a connection is made, and what it is laid on; [0] is that of node 0. */
struct sim_wire_options {
	int initiator; /* node */
	uint8_t revision;
	bool is_peer_to_peer;
	enum iwarp_rtr rtr; /* with is_peer_to_peer: whatever our own set-up would choose */
	bool is_crc_off;    /* of both */
	bool wants_markers[2];
	uint16_t ird[2], ord[2];
	struct sim_faults faults[2]; /* of what the node sends */
	uint32_t bytes_max[2];	     /* in the pipe */
};

/* NULL when memory is short. Gives both adapters, which are new, its host. */
struct sim_net *sim_net_open(uint64_t seed, struct weft_adapter *const adapters[2]);

/* Before the adapters are closed. */
void sim_net_close(struct sim_net *net);

/* The network of an adapter. */
struct sim_net *sim_net_of(const struct weft_adapter *a);
struct world *sim_net_world(struct sim_net *net);

/* Begins to connect one queue pair of each node. */
enum weft_reason sim_net_connect(struct sim_net *net, struct weft_qp *const qps[2],
				 const struct sim_wire_options *options);

/* Whether the queue pair has a stream, and the peer may be sent to. */
bool sim_net_is_connected(const struct weft_qp *qp);

/*
 * Lets the next thing happen, which may take a moment of virtual time, but never a long one:
 * whoever waits for nothing should not find that deadlines have passed. Says which node is to move
 * now; -1: both.
 */
int sim_net_step(struct sim_net *net);

/* Whether bytes are under way on the queue pair's stream that somebody will take. */
bool sim_net_is_flowing(const struct weft_qp *qp);
