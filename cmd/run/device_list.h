/* SPDX-License-Identifier: BSD-2-Clause */
/* The RDMA devices that a program sees: asked of the drop-in libibverbs, as a program asks it. */
#pragma once

#include <ifaddrs.h>
#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/run/dropin.h"

enum { DEVICES_MAX = 256, GIDS_TEXT = 1024 };

struct device_row {
	char name[64];
	char interface[IF_NAMESIZE];
	const char *state; /* of its port */
	uint64_t guid;
	/* Of RoCE: each with its index before it, as programs name them; else empty. */
	char gids[GIDS_TEXT];
};

struct device_list {
	struct device_row rows[DEVICES_MAX];
	size_t count;
};

/* 0; -ENOSYS if the library cannot be used, or what it said: then why tells more. */
int device_list_read(const struct dropin *d, struct device_list *list, char *why, size_t size);

/* Whether an address is of the interface; its label (eth0:1) is part of its name there. */
bool device_list_is_of(const struct ifaddrs *address, const char *interface);

/* Why it is empty, and what to do about it. */
void device_list_why_none(const struct dropin *d, char *why, size_t size);
