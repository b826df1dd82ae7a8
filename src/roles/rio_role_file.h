/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turns a configuration file (docs/config.md) into what <weft/rio.h> needs: the role's identity and
 * its peers. With an etcd line it registers the role's address in etcd, and looks up addresses that
 * the file does not have. Needs what etcd.h needs.
 */
#pragma once

#include <weft/rio.h>

#include "roles/rio_config.h"
#include "roles/rio_where.h"

struct rio_role_file {
	struct rio_host *host;
	struct rio_where *where;   /* registers the role in etcd; NULL: not needed */
	struct weft_rio_self self; /* peers included; with the private key */
	struct weft_rio_peer peers[RIO_CONFIG_PEERS_MAX];
};

/*
 * Reads the file, which must be for this role, and waits up to wait_ns for addresses that only etcd
 * has. False: `why` has a sentence. A requester fails without its owner's address; an owner starts
 * even if addresses of I/O units are missing. A requester has no etcd thread after this call.
 */
bool rio_role_file_open(struct rio_role_file *f, enum rio_role role, const char *path,
			uint64_t wait_ns, char why[RIO_HOST_WHY]);

/* Wipes the private key. */
void rio_role_file_close(struct rio_role_file *f);
