/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of the drop-in librdmacm in one process, on loopback. Everything is done by the calls
 * that programs have.
 */
#pragma once

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>

/*
 * Whether the device of loopback is RoCE's. These tests run on both kinds: what InfiniBand's
 * connection manager does otherwise than iWARP's they say where they ask.
 */
bool cm_is_roce(void);

/* An address of loopback, with a port in host order; 0: not chosen. */
struct sockaddr_in cm_loopback(uint16_t port);

/* A channel that does not block, and its wait, which is bounded. */
struct rdma_event_channel *cm_channel(void);

/* The next event, or NULL if none comes for some seconds. */
struct rdma_cm_event *cm_event(struct rdma_event_channel *channel);

/* The next event must be this one; it is acknowledged. */
void cm_expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type);

/* No event waits. */
void cm_expect_none(struct rdma_event_channel *channel);

/* Listens at a port of loopback that is free. */
struct rdma_cm_id *cm_listener(struct rdma_event_channel *channel);

/* An id that knows its way to the listener; and one with a queue pair. */
struct rdma_cm_id *cm_resolved(struct rdma_event_channel *channel, struct rdma_cm_id *listener);
struct rdma_cm_id *cm_dialler(struct rdma_event_channel *channel, struct rdma_cm_id *listener);
void cm_create_qp(struct rdma_cm_id *id);

/* After a response: moves the program's own queue pair as it must be, and says so. */
void cm_establish(struct rdma_cm_id *id, struct ibv_qp *qp);

/* Accepts the request that is the next event, with a queue pair. */
struct rdma_cm_id *cm_accept(struct rdma_event_channel *channel);

/* Both ends of a connection, each with a channel of its own, both told of it. */
struct cm_pair {
	struct rdma_event_channel *near_channel, *far_channel;
	struct rdma_cm_id *listener, *near, *far;
};

void cm_pair_make(struct cm_pair *pair);

/* Both ends, and a request that the far one has not answered: it has no id yet. */
struct rdma_cm_event *cm_request(struct cm_pair *pair, struct rdma_conn_param *param);
void cm_pair_free(struct cm_pair *pair);
