/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside weft perf: one end, which one file connects by iWARP, one by RoCE, and one makes work. */
#pragma once

#include "cmd/perf/perf_run.h"

struct perf_door {
	struct perf_end *end;
	struct perf_how how;
	/* One of them. */
	struct weft_listener *listener;
	struct weft_cm_service *service;
};

struct perf_end {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_cm_id *cm_id; /* RoCE, connected */
	uint8_t *memory;	  /* what is sent, then what is received: size_max each */
	uint32_t tag, size_max;
	struct weft_advert peer;
	struct weft_address remote;
	bool has_crc, is_roce;
	uint32_t *samples, sample_count;
	perf_tell *tell;
	void *tell_context;
	enum weft_reason failure;
	/* The test that runs. */
	struct perf_test test;
	uint64_t start_ns;
	uint64_t posted, ended, received;    /* messages of the flow */
	uint32_t words_sent, words_received; /* messages of no bytes: END, and the answer to it */
	uint32_t recvs_spare;
	bool has_order;
	uint64_t rounds;
};

/* The queue pair to INIT, with its receives. */
enum weft_reason perf_end_ready(struct perf_end *e);

/* What the other end must know to reach this one's memory; and what it said. */
void perf_end_advert(const struct perf_end *e, uint8_t bytes[WEFT_ADVERT_BYTES]);
enum weft_reason perf_end_take_advert(struct perf_end *e, const void *bytes, uint32_t length);

enum weft_reason perf_iwarp_dial(struct perf_end *e, const struct weft_address *to,
				 const struct perf_how *how);
enum weft_reason perf_iwarp_take(struct perf_end *e, const struct perf_door *door);

enum weft_reason perf_roce_dial(struct perf_end *e, const struct weft_address *to,
				const struct perf_how *how);
enum weft_reason perf_roce_listen(struct perf_end *e, const struct weft_address *at,
				  struct weft_cm_service **service);
enum weft_reason perf_roce_take(struct perf_end *e, const struct perf_door *door);
