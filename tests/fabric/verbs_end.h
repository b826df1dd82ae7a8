/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters at the nodes of fabric_bed.h with a queue pair each, by the public calls. */
#pragma once

#include "fabric/fabric_bed.h"

enum { BYTES = 4096, Q_KEY = 7, INLINE = 64, SENDS_MAX = 512 };

struct end {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint32_t tag;
	uint8_t memory[BYTES];
};

extern struct end ends[2];

/* An adapter at node 0 or 1 of the bed, which is opened if it is not. */
void end_open(struct end *e, int node, enum weft_qp_service service);
void end_close(struct end *e);
struct weft_completion end_await(struct end *e);
void recv_post(struct end *e);

/* Both, for datagrams; and the bed is closed with them. */
void datagrams_open(void);
void datagrams_close(void);
