/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes of reliable datagrams on UDP: an adapter, queue pairs, a context for each other node. */
#pragma once

#include <weft/roce.h>

#include "test.h"

enum {
	NODES = 4,
	PROCESSES = 3, /* of a node, as TRN-S1 has it: each has a queue pair */
	QPS_MAX = PROCESSES * PROCESSES * (NODES - 1),
	RD_BYTES = 256 * 1024,
	RD_KEY = 0x1234,
	RD_DOMAIN = 7,
	TIMEOUT_LONG = 18, /* 1.1 s, and that eight times */
	TIMEOUT_SHORT = 15 /* 134 ms */
};

#define PATIENCE_NS (UINT64_C(60) * 1000000000)
/* What the others must know of a node. */
struct card {
	uint32_t qps[QPS_MAX];
	uint32_t ees[NODES]; /* towards each other */
	uint32_t tag;
	uint64_t addr;
};

struct rd_node {
	int self;
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qps[QPS_MAX];
	uint32_t qp_count;
	struct weft_ee *ees[NODES]; /* or NULL */
	uint8_t *memory;
	uint32_t tag;
	struct card card;
};

void rd_node_open(struct rd_node *n, int self);
void rd_node_close(struct rd_node *n);

/* One in RESET; one of RD that is ready. */
struct weft_qp *rd_qp_new(struct rd_node *n, enum weft_qp_service service);
struct weft_qp *rd_qp_open(struct rd_node *n, uint32_t q_key, uint32_t rdd);

/* How this node and another are to have it; a context; and it learns of the other's. */
struct weft_ee_options rd_ee_options(uint8_t timeout_code);
void rd_ee_open(struct rd_node *n, int to, uint8_t timeout_code);
void rd_ee_join(struct rd_node *n, int to, const struct card *card);

/* A signalled request. */
struct rd_word {
	uint32_t dest; /* which of the other's queue pairs, its number */
	enum weft_opcode opcode;
	uint64_t id;
	uint32_t at, there, length; /* in the memories of the two nodes */
	uint64_t compare_add, swap;
	uint32_t q_key; /* 0: RD_KEY */
};

/* By the queue pair `from` of this node's list, over the context towards node `to`. */
enum weft_reason rd_post(struct rd_node *n, uint32_t from, int to, const struct card *card,
			 const struct rd_word *word);
void rd_receive(struct rd_node *n, struct weft_qp *qp, uint64_t id, uint32_t at, uint32_t length);

/* The next completion; the test ends when none comes. */
struct weft_completion rd_take(struct rd_node *n);

/*
 * What peers have done to the node's memory is seen after this, and they see what was done before:
 * the order that other processes keep is not known to the thread sanitizer.
 */
void rd_look(struct rd_node *n);

uint64_t rd_now_ns(void);
