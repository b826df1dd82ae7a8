/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What swarms over the InfiniBand transport have in common: nodes with a word that is added to,
 * bytes that can be told apart, and a network that is drawn.
 */
#pragma once

#include "draw.h"
#include "driver/adapter_lock.h"
#include "ib_seeds.h"
#include "sim/fault.h"
#include "test.h"

#define MUST(call) REQUIRE((call) == WEFT_OK)

/* What the run draws from that is going on. */
extern struct prng prng;

/* Bytes that belong to a number. */
uint8_t pattern(uint32_t number, uint32_t at);
void fill(uint8_t *to, uint32_t number, uint32_t bytes);
void holds(const uint8_t *at, uint32_t number, uint32_t bytes);

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

/* With all rights. */
uint32_t memory_register(struct node *n, void *at, uint64_t bytes);

/* It may lose, double, reorder and corrupt packets, stand still and be cut. */
struct sim_faults draw_faults(void);
