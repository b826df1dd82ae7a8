/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GIDs of a RoCE port: one for each present address of its interface, all of RoCE version 2.
 * Independent of verbs: the files that programs read under /sys are made from it too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GID_BYTES = 16, GIDS_MAX = 128 };

struct gid {
	uint8_t raw[GID_BYTES];
};

struct gid_table {
	uint32_t count;
	struct gid gids[GIDS_MAX];
};

/*
 * First the link-local address made from the hardware address, if the interface has it, then the
 * others in the kernel's order. 0 or errno.
 */
int gid_table_read(const char *interface, struct gid_table *t);

/* An IPv4-mapped address, as ::ffff:192.0.2.1. */
bool gid_is_ipv4(const struct gid *g);
bool gid_is_link_local(const struct gid *g);
bool gid_is_multicast(const struct gid *g);
bool gid_is_none(const struct gid *g);
