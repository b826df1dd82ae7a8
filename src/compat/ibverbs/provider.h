/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

extern bool verbs_allow_disassociate_destroy;

/* Exported as verbs_register_driver_<number of the provider interface>. */
void weftv_register_driver(const void *ops);
/* Exported as ibv_wr_opcode_str by a libibverbs whose headers declare it (rdma-core 56). */
const char *weftv_wr_opcode_str(enum ibv_wr_opcode opcode);
void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *format, ...);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       unsigned int *type);
