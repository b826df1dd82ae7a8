/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of RoCE between adapters of this process, over loopback, without a manager. */
#pragma once

#include <weft/roce.h>

extern const struct weft_address roce_loopback;

/* An adapter that has RoCE; and one whose packets go by UDP to adapters of this host, too. */
struct weft_adapter *roce_adapter_open(void);
struct weft_adapter *roce_adapter_open_udp(void);

struct tcp_end;

/* Opens RoCE on the adapter of an end, whose queue pair is created anew. */
void tcp_end_open_roce(struct tcp_end *e);

/* How to reach a queue pair of loopback: one Read each way, and patience. */
struct weft_roce_attr roce_way(uint32_t peer_number);

/* To RTR, and to RTS. */
void roce_start(struct weft_qp *qp, const struct weft_roce_attr *way);

/* Both ends of a connection, as roce_way() has it. */
void roce_start_both(struct weft_qp *a, struct weft_qp *b);
