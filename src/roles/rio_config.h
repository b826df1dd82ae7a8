/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A role of directed I/O as set up by its configuration file (rio/config.h, docs/config.md) and key
 * file: everything that needs no network. Devices are not opened here, and addresses that are not
 * in the file are not looked up (roles/rio_where.h).
 */
#pragma once

#include <weft/rio.h>

#include "rio/config.h"
#include "roles/config_file.h"

struct rio_host {
	char *path; /* of the configuration file */
	struct rio_config *config;
	struct rio_identity self;   /* with its private key */
	struct rio_book book;	    /* config->known */
	struct weft_address listen; /* family 0: all addresses; port 0: any free port */
	struct weft_address addresses[RIO_CONFIG_PEERS_MAX]; /* family 0: not in the file */
	char *key_path;
	char *log_path, *ca_path; /* relative to the working directory; NULL: not given */
};

enum { RIO_HOST_WHY = CONFIG_FILE_WHY };

/*
 * role: the role that the file must be for. False: `why` says why, with file, line and column if
 * any.
 */
bool rio_host_open(const char *path, enum rio_role role, struct rio_host **host,
		   char why[RIO_HOST_WHY]);

/* Fills in what <weft/rio.h> needs, the private key included; peers: room for all peers. */
void rio_host_self(const struct rio_host *host, struct weft_rio_self *self,
		   struct weft_rio_peer *peers);
void rio_host_self_wipe(struct weft_rio_self *self);

/* Wipes the private key. */
void rio_host_close(struct rio_host *host);

/* Must this role connect to the peer at an address that only etcd knows? Implies an etcd line. */
bool rio_host_is_lost(const struct rio_host *host, uint32_t peer);
