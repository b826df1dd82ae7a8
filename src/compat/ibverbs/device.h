/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: two of each network interface, one of RoCE and one of iWARP; or, in a fabric, the
 * adapter of the node that the program runs on.
 */
#pragma once

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"

struct context;

enum device_kind { DEVICE_ROCE = 0, DEVICE_IWARP, DEVICE_FABRIC, DEVICE_KINDS };

struct device {
	struct ibv_device ibv;
	const void *ops; /* other providers compare it to their own: equals none of them */
	struct list link;
	enum device_kind kind;
	char interface[IF_NAMESIZE];
	/* Written by a scan for devices, while other threads may read. */
	_Atomic uint32_t index; /* of the interface; in a fabric: of the node, from 1 on */
	_Atomic uint64_t guid;	/* in network order */
	/* Guarded by device_list_lock(). */
	uint8_t mac[6];
	bool is_present;
	struct context *shared;	 /* librdmacm's, or NULL */
	struct context *parents; /* in a forked child: that of its parent */
};

static inline struct device *device_of(struct ibv_device *d)
{
	return CONTAINER_OF(d, struct device, ibv);
}

/* An interface has two devices. A device has the same index in every process. */
static inline uint32_t device_index(const struct device *d)
{
	return 2 * d->index - (d->kind == DEVICE_ROCE);
}

/* Whether it is a channel adapter, with the transport of InfiniBand. */
static inline bool is_ib(const struct ibv_context *context)
{
	return CONTAINER_OF(context->device, struct device, ibv)->kind != DEVICE_IWARP;
}

/* Whether its ports are in a fabric, and have LIDs. */
static inline bool is_in_fabric(const struct ibv_context *context)
{
	return CONTAINER_OF(context->device, struct device, ibv)->kind == DEVICE_FABRIC;
}

/* Whether it is a device of weft. */
bool device_is_ours(const struct ibv_device *device);

/* The present device of that name, or NULL. */
const struct device *device_named(const char *name, size_t length);

/* Whether a device has a file of that name in /dev, as uverbs0. */
bool device_is_known_as(const char *dev_name);

/* The list of devices. */
void device_list_lock(void);
void device_list_put(void);

/* In a child of fork(), with the list locked: drops the contexts, which are the parent's. */
void devices_forked(void);
