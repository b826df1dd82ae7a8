/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration file of a role of directed I/O (docs/config.md): parses text into a struct.
 * This module opens and looks up nothing: addresses, paths and devices stay texts, which
 * roles/rio_config.h resolves. Rules refer to peers by index; they refer to devices by name,
 * because only the I/O unit knows the device numbers.
 */
#pragma once

#include "base/config_lines.h"
#include "rio/handshake.h"
#include "rio/names.h"
#include "rio/policy.h"

enum {
	RIO_CONFIG_PEERS_MAX = 256,
	RIO_CONFIG_DEVICES_MAX = 64, /* all fit into one message, however long their names */
	RIO_CONFIG_RULES_MAX = RIO_POLICY_RULES_MAX,
	RIO_CONFIG_SHARES_MAX = 256,
	RIO_CONFIG_WATCHERS_MAX = RIO_POLICY_WATCHERS_MAX,
	RIO_CONFIG_DEVICE_NUMBER_MAX = 65535,
	RIO_CONFIG_REQUESTS_MAX = 1024,
	RIO_CONFIG_ADAPTERS_MAX = 8
};

#define RIO_CONFIG_ANY UINT32_MAX

/* A peer; its identity has the same index in rio_config.known. */
struct rio_config_peer {
	const char *name;
	const char *address; /* to connect to; NULL: not given */
	uint32_t place;	     /* an I/O unit's position among the I/O units, from 1; else 0 */
	uint32_t line;
};

/* I/O unit only: a device that it serves; its text is as in docs/store.md. */
struct rio_config_device {
	uint32_t number;
	const char *name, *text;
	uint32_t line, column; /* column: where the device's text begins */
};

/* Owner only: an "allow" line. */
struct rio_config_rule {
	const char *requester_name, *iounit_name; /* as written; iounit_name NULL: any */
	uint32_t requester;			  /* index of the peer, or RIO_CONFIG_ANY */
	uint32_t iounit;			  /* index of the peer, or RIO_CONFIG_ANY */
	const char *device;			  /* NULL: any of that I/O unit */
	uint32_t operations;			  /* 1 << enum sgl_operation for each */
	uint64_t first, length;			  /* bytes of the device; length 0: to its end */
	uint32_t line;
};

/* Owner only: the requester may name memory of another peer in its lists. */
struct rio_config_share {
	const char *requester_name, *memory_name;
	uint32_t requester, memory; /* indices of peers */
	uint32_t line;
};

/* Owner only: a requester that may read reports on the cluster. */
struct rio_config_watcher {
	const char *name;
	uint32_t requester; /* index of the peer, or RIO_CONFIG_ANY */
	uint32_t line;
};

/* All texts point into the struct itself. */
struct rio_config {
	enum rio_role role;
	struct platform self;
	struct config_text key;	    /* path, relative to the file's folder */
	struct config_text listen;  /* address */
	struct config_text log;	    /* path, relative to the file's folder; NULL: not given */
	struct config_text etcd;    /* URL; NULL: etcd is not used */
	const char *etcd_prefix;    /* etcd key of an address: prefix + platform identifier */
	struct config_text etcd_ca; /* CA certificates: path as above; or NULL */
	uint64_t timeout_ns;	    /* for requests that give no timeout */
	uint64_t spin_ns;	    /* busy-polls this long before sleeping */
	uint64_t alive_ns;	    /* a peer that is silent this long counts as gone */
	uint32_t requests_max;	    /* outstanding at a time, per peer */
	uint32_t adapters;	    /* an I/O unit's, for data connections */
	uint64_t memory_bytes;	    /* an I/O unit's own, which lists may name */

	struct rio_known known[RIO_CONFIG_PEERS_MAX]; /* for a struct rio_book */
	struct rio_config_peer peers[RIO_CONFIG_PEERS_MAX];
	uint32_t peer_count; /* I/O units and requesters have exactly one peer: the owner */
	struct rio_config_device devices[RIO_CONFIG_DEVICES_MAX];
	uint32_t device_count;
	struct rio_config_rule rules[RIO_CONFIG_RULES_MAX];
	uint32_t rule_count;
	struct rio_config_share shares[RIO_CONFIG_SHARES_MAX];
	uint32_t share_count;
	struct rio_config_watcher watchers[RIO_CONFIG_WATCHERS_MAX];
	uint32_t watcher_count;
	char text[];
};

/* Copies the text. False: the file is bad, *complaint says why, and *config is not set. */
bool rio_config_read(const char *text, size_t length, struct rio_config **config,
		     struct config_complaint *complaint);
void rio_config_destroy(struct rio_config *c);
