/* SPDX-License-Identifier: BSD-2-Clause */
/* From GIDs, by which programs name IP addresses, to the engine's addresses. */
#pragma once

#include "compat/ibverbs/gid.h"
#include "compat/ibverbs/object.h"

void address_of_gid(struct ibv_context *context, const struct gid *g, struct weft_address *a);

/* An IPv4 or IPv6 address of the port. 0 or errno: EADDRNOTAVAIL: it has none. */
int address_of_port(struct ibv_context *context, bool is_ipv4, struct weft_address *a);
