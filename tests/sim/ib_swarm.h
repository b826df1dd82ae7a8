/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What swarms over the InfiniBand transport have in common: nodes with a word that is added to,
 * bytes that can be told apart, and a network that is drawn.
 */
#pragma once

#include "draw.h"
#include "driver/loop/adapter_lock.h"
#include "ib_seeds.h"
#include "sim/world/fault.h"
#include "test.h"

/* What the run draws from that is going on. */
extern struct prng prng;

/* Bytes that belong to a number. */
void fill(uint8_t *to, uint32_t number, uint32_t bytes);

/* From the byte `first` on, of so many in all. */
void holds(const uint8_t *at, uint32_t number, uint32_t first, uint32_t bytes);

struct node {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	uint64_t *word;
	uint32_t word_tag;
};

void node_open(struct node *n);

/* Without its adapter, which the network needs. */
void node_close(struct node *n);

struct weft_qp *qp_open(const struct node *n, enum weft_qp_service service, uint32_t send_max,
			uint32_t recv_max);
void post_recv(struct weft_qp *qp, uint64_t id, struct weft_sge s);

/* The next completion, if there is one. */
bool cq_next(struct weft_cq *cq, struct weft_completion *c);

/* With all rights. */
uint32_t memory_register(struct node *n, void *at, uint64_t bytes);

/* It may lose, double, reorder and corrupt packets, stand still and be cut. */
struct sim_faults draw_faults(void);
