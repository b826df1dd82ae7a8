/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GIDs of a RoCE port: one for each address of its interface, as the interface is now. All are
 * of RoCE version 2. Knows nothing of verbs, as what programs read under /sys is made of it too.
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
 * First the link-local address that is made of the hardware address, where the interface has it,
 * then the others as the kernel lists them. 0 or errno.
 */
int gid_table_read(const char *interface, struct gid_table *t);

/* ::ffff:192.0.2.1 is one of IPv4. */
bool gid_is_ipv4(const struct gid *g);
bool gid_is_link_local(const struct gid *g);
bool gid_is_multicast(const struct gid *g);
bool gid_is_none(const struct gid *g);
