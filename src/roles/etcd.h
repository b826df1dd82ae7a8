/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where platforms are, as an etcd knows it (docs/config.md): asked and told by etcd's HTTP gateway
 * (/v3/...). At the key PREFIX7.1 lies the address of platform 7.1, as text, at PREFIX7.1/term the
 * highest term that it had as an owner, and nothing else: keys and rights come from the
 * configuration file alone.
 *
 * Every call waits for its answer, up to the timeout; etcd_agent.h does not. One thread at a time
 * uses an etcd. In a library of its own: who links it needs libcurl and jansson; where they were
 * not there when weft was built, etcd_open() refuses.
 */
#pragma once

#include <weft/weft.h>

#include "wire/platform.h"

struct etcd;

enum { ETCD_WHY = 512 };

struct etcd_config {
	const char *url;     /* http://HOST:PORT or https://HOST:PORT */
	const char *prefix;  /* with / at both ends */
	const char *ca_path; /* certificates that its own must come from; NULL: the system's */
	uint32_t timeout_ms; /* of a call; 0: 2000 */
};

/* Asks nothing yet. False, here and below: why says it in a sentence. */
bool etcd_open(const struct etcd_config *config, struct etcd **etcd, char why[ETCD_WHY]);
void etcd_close(struct etcd *e);

/*
 * Where these platforms are, of whom no one is named twice; family 0: not there, or not an address,
 * of which why tells one; else why is empty.
 */
bool etcd_find(struct etcd *e, const struct platform *who, uint32_t count,
	       struct weft_address *addresses, char why[ETCD_WHY]);

/* A lease: what was put under it vanishes if it is not kept for so many seconds. */
bool etcd_grant(struct etcd *e, uint32_t seconds, int64_t *lease, char why[ETCD_WHY]);

/* False also if it is no more. */
bool etcd_keep(struct etcd *e, int64_t lease, char why[ETCD_WHY]);

/* Ends it, and with it what was put. */
bool etcd_revoke(struct etcd *e, int64_t lease, char why[ETCD_WHY]);

/* lease 0: it stays. */
bool etcd_put(struct etcd *e, struct platform who, const struct weft_address *address,
	      int64_t lease, char why[ETCD_WHY]);

/*
 * The term of an owner that begins now: at least so high, and higher than each that was given to
 * this platform before. docs/rio.md, "What a write promises", rule 8.
 */
bool etcd_term(struct etcd *e, struct platform who, uint64_t least, uint64_t *term,
	       char why[ETCD_WHY]);
