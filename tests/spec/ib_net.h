/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram network in virtual time between two adapters, each with one port of the InfiniBand
 * transport: a simulated host (driver/loop/adapter_lock.h) on the simulator's world and pipes. In
 * place of connection management a word goes round, which is never lost: this end has left.
 */
#pragma once

#include "driver/loop/adapter_lock.h"
#include "ib/ib.h"
#include "sim/world/datagram.h"

struct ib_net;

struct ib_net_options {
	uint64_t seed;
	struct sim_faults faults[2]; /* of what the node sends */
};

/* What the ends of a connection agree on; [0] is that of node 0. */
struct ib_wire_options {
	bool is_ipv6;
	uint32_t mtu_bytes;
	uint32_t psn[2];  /* of the first that the node sends */
	uint8_t reads[2]; /* of the peer that the node serves */
	uint32_t window[2], ack_every[2];
	uint8_t timeout_code, retries, rnr_retries, rnr_timer_code;
};

/* NULL when memory is short. Gives both adapters, which are new, its host. */
struct ib_net *ib_net_open(const struct ib_net_options *options,
			   struct weft_adapter *const adapters[2]);

/* Before the adapters are closed. */
void ib_net_close(struct ib_net *net);

struct ib_net *ib_net_of(const struct weft_adapter *a);
struct world *ib_net_world(struct ib_net *net);
struct ib_port *ib_net_port(struct ib_net *net, int node);
struct sim_datagram *ib_net_pipe(struct ib_net *net, int node);

/* Connects one queue pair of each node, at once. */
enum weft_reason ib_net_connect(struct ib_net *net, struct weft_qp *const qps[2],
				const struct ib_wire_options *options);

/* As sim_net_step() in sim_net.h. */
int ib_net_step(struct ib_net *net);

/* Whether something is under way on the queue pair's connection. */
bool ib_net_is_flowing(const struct weft_qp *qp);
