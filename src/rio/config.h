/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration file of a role of directed I/O, as docs/config.md has it: text in, a struct
 * out. Nothing is opened or looked up here: addresses, paths and devices stay texts
 * (roles/rio_config.h). Names in rules are resolved as far as the file goes; devices have only
 * names until their I/O unit tells their numbers.
 */
#pragma once

#include "rio/handshake.h"
#include "rio/names.h"
#include "rio/policy.h"

enum {
	RIO_CONFIG_BYTES_MAX = 1 << 20,
	RIO_CONFIG_PEERS_MAX = 256,
	RIO_CONFIG_DEVICES_MAX = 64, /* so many fit into one message, whatever their names */
	RIO_CONFIG_RULES_MAX = RIO_POLICY_RULES_MAX,
	RIO_CONFIG_SHARES_MAX = 256,
	RIO_CONFIG_WATCHERS_MAX = RIO_POLICY_WATCHERS_MAX,
	RIO_CONFIG_DEVICE_NUMBER_MAX = 65535,
	RIO_CONFIG_REQUESTS_MAX = 1024
};

#define RIO_CONFIG_ANY UINT32_MAX

/* A text, and the line that has it; line 0: it is the default. */
struct rio_config_text {
	const char *is;
	uint32_t line;
};

/* Whom one talks to; who that is has the same index in rio_config.known. */
struct rio_config_peer {
	const char *name;
	const char *address; /* where it is dialled; NULL: not said */
	uint32_t place;	     /* of an I/O unit: which one of them it is, from 1; else 0 */
	uint32_t line;
};

/* Of an I/O unit: a device that it serves, written as docs/store.md has it. */
struct rio_config_device {
	uint32_t number;
	const char *name, *text;
	uint32_t line, column; /* column: where the text begins */
};

/* Of an owner: an "allow" line. */
struct rio_config_rule {
	const char *requester_name, *iounit_name; /* as written; iounit_name NULL: any */
	uint32_t requester;			  /* index of the peer, or RIO_CONFIG_ANY */
	uint32_t iounit;			  /* the same */
	const char *device;			  /* NULL: any of that I/O unit */
	uint32_t operations;			  /* 1 << enum sgl_operation for each */
	uint64_t first, length;			  /* bytes of the device; length 0: to its end */
	uint32_t line;
};

/* Of an owner: the requester may name memory of this other one in its lists. */
struct rio_config_share {
	const char *requester_name, *memory_name;
	uint32_t requester, memory; /* indices of peers */
	uint32_t line;
};

/* Of an owner: who may see how the cluster stands. */
struct rio_config_watcher {
	const char *name;
	uint32_t requester; /* index of the peer, or RIO_CONFIG_ANY */
	uint32_t line;
};

/* Texts lie in the struct itself and live as long. */
struct rio_config {
	enum rio_role role;
	struct platform self;
	struct rio_config_text key;	/* path, from the file's folder */
	struct rio_config_text listen;	/* address */
	struct rio_config_text log;	/* path, from the file's folder; NULL: not said */
	struct rio_config_text etcd;	/* URL; NULL: there is none */
	const char *etcd_prefix;	/* before a platform identifier: the key of its address */
	struct rio_config_text etcd_ca; /* path of certificates, from the file's folder; or NULL */
	uint64_t timeout_ns;		/* of requests that name none */
	uint64_t spin_ns;		/* looks for so long before it sleeps */
	uint64_t alive_ns;		/* whoever is silent for so long is gone */
	uint32_t requests_max;		/* of one other side, at a time */

	struct rio_known known[RIO_CONFIG_PEERS_MAX]; /* for a struct rio_book */
	struct rio_config_peer peers[RIO_CONFIG_PEERS_MAX];
	uint32_t peer_count; /* an I/O unit and a requester have one: the owner */
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

/* What is wrong with a file, and where; both counted from 1. */
struct rio_complaint {
	uint32_t line, column;
	const char *why;
};

/* False: *complaint says why, and nothing was made. The text is copied. */
bool rio_config_read(const char *text, size_t length, struct rio_config **config,
		     struct rio_complaint *complaint);
void rio_config_destroy(struct rio_config *c);
