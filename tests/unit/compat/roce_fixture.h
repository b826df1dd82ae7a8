/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of a RoCE device, which the program takes through their states itself. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	ROCE_BYTES = 1 << 16,
	ROCE_DEPTH = 16,
	ROCE_PSN = 0xfffff0,
	ROCE_QKEY = 0x11111111,
	ROCE_RDD = 77
};

struct roce_end {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* of memory, for every access */
	uint8_t *memory;   /* ROCE_BYTES, zero at first */
};

struct roce {
	enum ibv_qp_type type;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct roce_end near, far;
};

/* The device of loopback. SKIPs if there is none. */
struct ibv_context *roce_context(void);

/* Both in RESET. Type IBV_QPT_DRIVER: reliable datagrams. */
void roce_make(struct roce *r, enum ibv_qp_type type);
void roce_free(struct roce *r);

/* Another queue pair of that type, with the end's completion queue. */
struct ibv_qp *roce_qp(const struct roce *r, const struct roce_end *e, struct ibv_srq *srq);

/* What one move wants, to this state: the attributes, and which they are. */
int roce_attr(const struct roce *r, enum ibv_qp_state to, uint32_t peer, struct ibv_qp_attr *attr);

/* To this state, by all that are before it. */
void roce_to(const struct roce *r, struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer);

/* Both to RTS. */
void roce_connect(struct roce *r);

/* The way from the device to itself. */
struct ibv_ah_attr roce_way(void);

/* The next completion, within some seconds; none, as far as is known. */
struct ibv_wc roce_wc(struct roce_end *e);
bool roce_is_quiet(struct roce_end *e);

void roce_recv(struct roce_end *e, uint64_t id, uint64_t offset, uint32_t length);

/* One segment of the end's memory, signalled. What posting returns. */
int roce_post(struct roce_end *e, struct ibv_send_wr *wr, uint64_t offset, uint32_t length);

/* An asynchronous event of this type is the next, within some seconds; it is acknowledged. */
void roce_expect_event(struct ibv_context *context, enum ibv_event_type type);

/* There is none. */
bool roce_has_no_event(struct ibv_context *context);
