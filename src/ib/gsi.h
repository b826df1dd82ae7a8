/* SPDX-License-Identifier: BSD-2-Clause */
/* Management datagrams, to and from queue pair 1. */
#pragma once

#include "ib/ib.h"

enum { IB_MADS_MAX = 64 };

/* Management datagrams, in order. */
struct mad_ring {
	struct ib_mad mads[IB_MADS_MAX];
	uint32_t first, count;
};

enum weft_reason gsi_recv(struct ib_port *port, const struct iba_packet *p, const struct ib_in *in);
bool gsi_next(struct ib_port *port, struct ib_out *out);
