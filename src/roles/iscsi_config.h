/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An iSCSI target node as set up by its configuration file (iscsi/target/config.h, docs/iscsi.md)
 * and the files of secrets that it names. Devices are not opened here.
 */
#pragma once

#include <weft/weft.h>

#include "iscsi/target/config.h"
#include "roles/config_file.h"

/* Where an initiator may come from: addresses that begin with these bits; family 0: any. */
struct iscsi_network {
	uint8_t family, bits;
	uint8_t ip[16];
};

struct iscsi_host {
	char *path; /* of the configuration file */
	struct iscsi_config *config;
	struct weft_address portals[ISCSI_CONFIG_PORTALS_MAX];
	struct iscsi_network networks[ISCSI_CONFIG_RULES_MAX];	 /* of config->rules */
	struct iscsi_secrets *secrets[ISCSI_CONFIG_TARGETS_MAX]; /* NULL: no authentication */
	struct iscsi_secrets *discovery;
};

/* False: `why` says why, with file, line and column if any. */
bool iscsi_host_open(const char *path, struct iscsi_host **host, char why[CONFIG_FILE_WHY]);

/* Wipes the secrets. */
void iscsi_host_close(struct iscsi_host *host);

/*
 * May this initiator, at this address, log in to the target? What no rule allows is denied; a
 * target without rules is for initiators of this host.
 */
bool iscsi_host_allows(const struct iscsi_host *host, uint16_t target, struct word initiator,
		       const struct weft_address *from);

/* The same for a discovery session: it may log in to one of the targets. */
bool iscsi_host_allows_discovery(const struct iscsi_host *host, struct word initiator,
				 const struct weft_address *from);

bool iscsi_address_is_loopback(const struct weft_address *a);
