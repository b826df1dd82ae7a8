/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network in virtual time between two adapters: a simulated host (driver/loop/adapter_lock.h) on
 * the simulator's world and streams. The same calls of cm/ and iwarp/ drive its connections as
 * those on sockets; there is no socket, no thread and no other clock.
 *
 * The adapters run inside their own calls, as on any host. The test must let time pass:
 * sim_net_step().
 */
#pragma once

#include "driver/loop/adapter_lock.h"
#include "iwarp/iwarp.h"
#include "sim/world/stream.h"

struct sim_net;

/* How a connection is made, and its pipes; [0] is node 0's. */
struct sim_wire_options {
	int initiator; /* node */
	uint8_t revision;
	bool is_peer_to_peer;
	enum iwarp_rtr rtr; /* with is_peer_to_peer: instead of our set-up's choice */
	bool is_crc_off;    /* for both nodes */
	bool wants_markers[2];
	uint16_t ird[2], ord[2];
	struct sim_faults faults[2]; /* per sending node */
	uint32_t bytes_max[2];	     /* capacity of the pipe */
};

/* Makes itself the host of both adapters, which must be new. NULL: out of memory. */
struct sim_net *sim_net_open(uint64_t seed, struct weft_adapter *const adapters[2]);

/* To be called before the adapters are closed. */
void sim_net_close(struct sim_net *net);

/* The network of an adapter. */
struct sim_net *sim_net_of(const struct weft_adapter *a);
struct world *sim_net_world(struct sim_net *net);

/* Starts to connect a queue pair of each node. */
enum weft_reason sim_net_connect(struct sim_net *net, struct weft_qp *const qps[2],
				 const struct sim_wire_options *options);

/* Does the queue pair have a stream, and may it send? */
bool sim_net_is_connected(const struct weft_qp *qp);

/*
 * Runs the next event. It may advance virtual time a little, but never far: a call that waits for
 * nothing must not find deadlines expired. Returns the node to run next; -1: both.
 */
int sim_net_step(struct sim_net *net);

/* Are bytes in flight on the queue pair's stream that the peer will read? */
bool sim_net_is_flowing(const struct weft_qp *qp);
