/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A configuration file (docs/config.md) becomes what <weft/rio.h> wants to know of a role: who it
 * is, and whom it talks to. With an etcd line it tells etcd where the role is, and asks there for
 * the addresses that the file does not have. Needs what etcd.h needs.
 */
#pragma once

#include <weft/rio.h>

#include "roles/rio_config.h"
#include "roles/rio_where.h"

struct rio_role_file {
	struct rio_host *host;
	struct rio_where *where;   /* tells etcd where this is; NULL: there is nothing to tell */
	struct weft_rio_self self; /* peers too; with the secret */
	struct weft_rio_peer peers[RIO_CONFIG_PEERS_MAX];
};

/*
 * Reads the file, which must be of this role, and waits so long for addresses that only etcd knows.
 * False: why says it in a sentence. That a requester's owner was not found is a reason; an owner
 * begins without I/O units that were not. After this a requester has no thread of its own here.
 */
bool rio_role_file_open(struct rio_role_file *f, enum rio_role role, const char *path,
			uint64_t wait_ns, char why[RIO_HOST_WHY]);

/* Wipes the secret. */
void rio_role_file_close(struct rio_role_file *f);
