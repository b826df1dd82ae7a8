/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nodes with queue pairs of reliable and raw datagrams on a simulated network. There is one such
 * world at a time.
 */
#pragma once

#include "ib_host.h"

enum { WORLD_NODES = 4, QPS_MAX = 32, Q_KEY = 0x77, RDD = 1, MTU = 256, BYTES = 64 * 1024 };

struct node {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_qp *qps[QPS_MAX];
	uint32_t qp_count;
	uint8_t *memory;
	uint32_t tag;
};

extern struct node nodes[WORLD_NODES];
extern struct ib_mesh *mesh;

struct ib_port *port_of(int node);

void world_open(int nodes_count, const struct sim_faults *faults);
void world_close(void);

/* A world of two, each with a context for the other. */
void two_nodes(void);

struct ib_ee_config ee_config(void);
struct weft_qp *qp_open(int node, enum weft_qp_service service);
struct weft_qp *rd_open(int node, uint32_t q_key, uint32_t rdd);

void receive(int node, struct weft_qp *qp, uint64_t id, uint32_t offset, uint32_t bytes);

/* A request of so many bytes. */
struct weft_send_wr request(enum weft_opcode opcode, uint64_t id, uint32_t bytes);

/* From the beginning of the one memory to the second half of the other. */
void post(int from, struct weft_qp *qp, int to, const struct weft_qp *dest, struct weft_send_wr wr);

void step(void);

/* Steps until there is a completion. */
struct weft_completion take(struct weft_cq *cq);
void sent(int node, uint64_t id, enum weft_status status);

enum weft_qp_state state_of(struct weft_qp *qp);
