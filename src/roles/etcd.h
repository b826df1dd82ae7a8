/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of platforms in etcd (docs/config.md), by etcd's HTTP gateway (/v3/...). Key
 * PREFIX7.1 holds the address of platform 7.1 as text, PREFIX7.1/term the highest term that it had
 * as an owner. Nothing else is stored: keys and rights come from the configuration file alone.
 *
 * Every call blocks until its answer or the timeout; etcd_agent.h does not block. Only one thread
 * at a time may use a struct etcd. This is a library of its own, which needs libcurl and jansson.
 * In builds without them etcd_open() fails.
 */
#pragma once

#include <weft/weft.h>

#include "wire/platform.h"

struct etcd;

enum { ETCD_WHY = 512 };

struct etcd_config {
	const char *url;     /* http://HOST:PORT or https://HOST:PORT */
	const char *prefix;  /* begins and ends with / */
	const char *ca_path; /* CA certificates for the server; NULL: the system's */
	uint32_t timeout_ms; /* per call; 0: 2000 */
};

/* Sends nothing yet. False, here and below: `why` has a sentence. */
bool etcd_open(const struct etcd_config *config, struct etcd **etcd, char why[ETCD_WHY]);
void etcd_close(struct etcd *e);

/*
 * Looks up the addresses of platforms, which must be distinct. Family 0: no address, or a malformed
 * one; `why` then describes one malformed entry, else it is empty.
 */
bool etcd_find(struct etcd *e, const struct platform *who, uint32_t count,
	       struct weft_address *addresses, char why[ETCD_WHY]);

/* Takes a lease: keys put under it vanish unless it is renewed every `seconds`. */
bool etcd_grant(struct etcd *e, uint32_t seconds, int64_t *lease, char why[ETCD_WHY]);

/* Renews the lease. False also if it has expired. */
bool etcd_keep(struct etcd *e, int64_t lease, char why[ETCD_WHY]);

/* Ends the lease and removes the keys put under it. */
bool etcd_revoke(struct etcd *e, int64_t lease, char why[ETCD_WHY]);

/* Publishes the platform's address. lease 0: permanently. */
bool etcd_put(struct etcd *e, struct platform who, const struct weft_address *address,
	      int64_t lease, char why[ETCD_WHY]);

/*
 * Allocates the term of a new owner: at least `least`, and higher than every term given to this
 * platform before. docs/rio.md, "What a write promises", rule 8.
 */
bool etcd_term(struct etcd *e, struct platform who, uint64_t least, uint64_t *term,
	       char why[ETCD_WHY]);
