/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nodes of a simulated network (sim/roce/ib_node.h) as hosts of adapters that are used by the
 * public calls: driver/loop/adapter_lock.h.
 */
#pragma once

#include "driver/loop/adapter_lock.h"
#include "sim/roce/ib_mesh.h"
#include "sim/roce/ib_net.h"

/* As ib_net_open() and ib_mesh_open(), of adapters that are new: they get the network as host. */
struct ib_net *ib_host_net(const struct ib_net_options *options,
			   struct weft_adapter *const adapters[2]);
struct ib_mesh *ib_host_mesh(const struct ib_mesh_options *options,
			     struct weft_adapter *const adapters[]);

/* The adapter's node. */
struct ib_node *ib_host_node(const struct weft_adapter *a);
