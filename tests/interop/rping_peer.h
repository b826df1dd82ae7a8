/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocol of rping (rdma-core's librdmacm/examples), both roles. */
#pragma once

#include "peer.h"

void rping_listen(struct peer *p, const char *at, uint32_t count, uint32_t bytes);
void rping_dial(struct peer *p, const char *to, uint32_t count, uint32_t bytes);
