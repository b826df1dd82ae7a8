/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GIDs, by which programs name IP addresses: their place in the table of a port, and the engine's
 * addresses and paths that they mean.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/roce.h>

#include "compat/ibverbs/gid.h"

void address_of_gid(struct ibv_context *context, const struct gid *g, struct weft_address *a);

/* An IPv4 or IPv6 address of the port. 0 or errno: EADDRNOTAVAIL: it has none. */
int address_of_port(struct ibv_context *context, bool is_ipv4, struct weft_address *a);

/* The path of an address vector. 0, or EINVAL; then the log says why. */
int path_of(struct ibv_context *context, const struct ibv_ah_attr *attr, struct weft_path *path);

/* The P_Key of an index in the table of a port. 0 or errno. */
int pkey_read(const struct ibv_context *context, uint32_t port_num, uint32_t index,
	      uint16_t *p_key);

/* The index of a GID in the port's table. 0 or errno: ENODATA: not found. */
int gid_find(struct ibv_context *context, const union ibv_gid *gid, uint8_t *index);
