/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A role of directed I/O as its configuration file (rio/config.h, docs/config.md) and its key file
 * make it: everything that can be known without asking anybody else. Devices are not opened, and
 * addresses that are not in the file are not looked up (roles/rio_where.h).
 */
#pragma once

#include <weft/rio.h>

#include "rio/config.h"

struct rio_host {
	char *path; /* of the file */
	struct rio_config *config;
	struct rio_identity self;   /* with its secret */
	struct rio_book book;	    /* config->known */
	struct weft_address listen; /* family 0: every address; port 0: one that is free */
	struct weft_address addresses[RIO_CONFIG_PEERS_MAX]; /* of peers; family 0: not known */
	char *key_path;
	char *log_path, *ca_path; /* from where this process is; NULL: not said */
};

enum { RIO_HOST_WHY = 1024 };

/* role: whose file it must be. False: why says it, with file, line and column, if there is one. */
bool rio_host_open(const char *path, enum rio_role role, struct rio_host **host,
		   char why[RIO_HOST_WHY]);

/* As <weft/rio.h> wants it, with the secret; peers are put where there is room for all. */
void rio_host_self(const struct rio_host *host, struct weft_rio_self *self,
		   struct weft_rio_peer *peers);
void rio_host_self_wipe(struct weft_rio_self *self);

/* Wipes the secret. */
void rio_host_close(struct rio_host *host);

/* Is this peer to be dialled, and only etcd can know where? There is an etcd line then. */
bool rio_host_is_lost(const struct rio_host *host, uint32_t peer);
