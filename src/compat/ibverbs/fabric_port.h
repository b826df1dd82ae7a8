/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ports of the node of a fabric that this program runs on, as they are in the fabric's process
 * at this moment; and paths from them, by LIDs, with GIDs or without.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/roce.h>

#include "compat/ibverbs/gid.h"

struct device;

/* The one adapter that such a program sees, and the greatest number of its ports. */
#define FABRIC_DEVICE "fab0"
enum { FABRIC_PORTS_MAX = 254 };

/* Takes what is said of the node: the GUID of the device. 0 or errno: the fabric is not there. */
int fabric_node_look(struct device *d);

/* Of the node. 0: the fabric is not there. */
uint8_t fabric_port_count(void);
void fabric_device_tell(struct ibv_device_attr *attr);

/* 0 or errno. EINVAL: there is no such port. */
int fabric_port_tell(uint32_t port, struct ibv_port_attr *attr);
enum ibv_mtu fabric_port_mtu(uint32_t port);

/* 0 or errno. EINVAL: no table is so long; ENODATA: the entry is not used. */
int fabric_gid_read(uint32_t port, uint32_t index, struct gid *g);
int fabric_gid_find(uint32_t port, const struct gid *g, uint8_t *index);
int fabric_pkey_read(uint32_t port, uint32_t index, uint16_t *p_key);

/* The path of an address vector. 0 or EINVAL; then the log says why. */
int fabric_path_of(const struct ibv_ah_attr *attr, struct weft_path *path);

/* The way back of a datagram. 0 or errno. */
int fabric_path_back(uint8_t port, const struct ibv_wc *wc, const struct ibv_grh *grh,
		     struct ibv_ah_attr *attr);
