/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the scenarios of RoCE have in common: an adapter with memory of its own, in a space that
 * begins at the same address in every run, and a shadow of it; bytes that can be told apart; a
 * network that is drawn.
 *
 * The shadow has what the memory must hold. A scenario accepts bytes that were written rightly
 * (roce_node_accept()); when all has come to rest, no other byte may have changed.
 */
#pragma once

#include "sim/roce/ib_node.h"
#include "sim/roce/roce_world.h"

struct roce_node {
	struct adapter adapter;
	struct ib_node *ib;	  /* the network's */
	struct weft_space *space; /* NULL: that of the process */
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	uint8_t *memory, *shadow;
	uint32_t index, size;
};

enum { ROCE_NODE_QPS = 64 };

/* The adapter, which the network needs first. 0, or -1 when memory is short. */
int roce_node_init(struct roce_node *n, const struct roce_world *w, uint32_t index);
int roce_node_init_large(struct roce_node *n, const struct roce_world *w, uint32_t index,
			 uint32_t qps_max);

/* The rest, in a network. The memory is all zero. 0, or -1 when memory is short. */
int roce_node_open(struct roce_node *n, struct ib_node *ib, uint32_t memory_bytes);

/* The same, with memory of the process: regions of it can be published (mem/published.h). */
int roce_node_open_flat(struct roce_node *n, struct ib_node *ib, uint32_t memory_bytes);

/* Domain, queues and space go; the adapter holds nothing then. */
void roce_node_shut(struct roce_node *n, struct roce_world *w);

/* The adapter and its memory go, after the network; after a failure the adapter is left. */
void roce_node_fini(struct roce_node *n, const struct roce_world *w);

/* Of the byte at an offset of the memory. */
uint64_t roce_node_addr(const struct roce_node *n, uint32_t offset);

/* A region with all rights, of the node's domain or another. */
uint32_t roce_node_register(struct roce_node *n, uint32_t offset, uint32_t bytes);
uint32_t roce_node_register_in(struct roce_node *n, struct weft_pd *pd, uint32_t offset,
			       uint32_t bytes);

/* A scatter-gather element there. */
struct weft_sge roce_node_sge(const struct roce_node *n, uint32_t offset, uint32_t bytes,
			      uint32_t tag);

struct weft_qp *roce_node_qp(struct roce_node *n, enum weft_qp_service service, uint32_t send_max,
			     uint32_t recv_max);

/* With these options, at the node's completion queues. */
struct weft_qp *roce_node_qp_of(struct roce_node *n, const struct weft_qp_options *options);

/* Posts one; a refusal is a failure of the world. */
void roce_node_post_send(struct roce_world *w, struct roce_node *n, struct weft_qp *qp,
			 struct weft_send_wr *wr);
void roce_node_post_recv(struct roce_world *w, struct roce_node *n, struct weft_qp *qp,
			 const struct weft_sge *s, uint64_t id);

/* The next completion that is there; none when the world has failed. */
bool roce_node_next(const struct roce_world *w, struct weft_cq *cq, struct weft_completion *c);

/* Both of them may be none (NULL, 0). */
void roce_node_drop(struct roce_node *n, struct weft_qp *qp, uint32_t tag);

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* The consumer writes the bytes that belong to a number; or one byte everywhere. */
void roce_node_fill(struct roce_node *n, uint32_t offset, uint32_t number, uint32_t bytes);
void roce_node_set(struct roce_node *n, uint32_t offset, uint8_t byte, uint32_t bytes);

/* Whether the bytes of a number are there, from the first on of so many in all. */
bool roce_node_holds(const struct roce_node *n, uint32_t offset, uint32_t number, uint32_t first,
		     uint32_t bytes);

/* What is there now is right, or may be. */
void roce_node_accept(struct roce_node *n, uint32_t offset, uint32_t bytes);

/* Every other byte is as it was. */
void roce_node_judge(struct roce_world *w, const struct roce_node *n);

/* ---- The network ---------------------------------------------------------------------------- */

/* It may lose, duplicate, reorder and corrupt packets, stand still and be cut. */
struct sim_faults roce_draw_faults(struct prng *p);

/* The length of a message: one of those around a packet's, or any up to the maximum. */
uint32_t roce_draw_length(struct prng *p, uint32_t max_bytes);

/* A first packet sequence number: many wrap soon. */
uint32_t roce_draw_psn(struct prng *p);
