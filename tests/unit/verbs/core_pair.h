/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected queue pairs of the core, on the loopback transport, in virtual time. */
#pragma once

#include "verbs/verbs.h"

struct core_pair {
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cqs[2]; /* of each queue pair; the same one, if they share it */
	struct weft_qp *qps[2];
	int contexts[2], cq_context; /* to point to: each has its own */
};

struct core_pair_options {
	bool has_one_cq;
	struct trace *trace;	   /* NULL: none */
	struct fault_plan *faults; /* NULL: none */
};

void core_pair_open(struct core_pair *p, const struct core_pair_options *o);

/* Nothing may be due any more when both queue pairs have gone. */
void core_pair_close(struct core_pair *p);

/* All that can be done at this time. */
void core_pair_run(struct core_pair *p, uint64_t now_ns);
