/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairs of RD in virtual time: what struct pair_maker asks for, by sim/roce/ib_mesh.h. */
#pragma once

#include "conformance.h"
#include "sim/world/fault.h"

struct rd_pair_options {
	uint64_t seed;
	bool is_ipv6;
	uint32_t mtu_bytes;
	struct sim_faults faults;
};

/* The adapters are there. */
void rd_pair_open(struct pair *p, const struct rd_pair_options *options);
void rd_pair_close(struct pair *p);
void rd_pair_connect(struct pair *p);
void rd_pair_progress(struct pair *p);
void rd_pair_settle(struct pair *p);
uint64_t rd_pair_now_ns(const struct pair *p);
void rd_pair_aim(const struct pair_end *e, struct weft_send_wr *wr, const struct pair_end *at);
