/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A background thread that talks to etcd, so that other threads need not block: it keeps the
 * process's own address registered while the process lives, and tracks the addresses of peers. It
 * retries while etcd does not answer. A known address stays until a new one is found: an
 * unreachable etcd says nothing about where platforms are.
 */
#pragma once

#include "roles/etcd.h"

struct etcd_agent;

struct etcd_agent_config {
	struct etcd_config etcd;
	struct platform self;
	struct weft_address address;   /* of self; family 0: it is not registered */
	const struct platform *wanted; /* platforms to look up */
	uint32_t wanted_count;
	uint32_t lease_s; /* how long an address outlives its process; 0: 10 */
};

/* False: `why` has a sentence. An unreachable etcd is no failure. */
bool etcd_agent_start(const struct etcd_agent_config *config, struct etcd_agent **agent,
		      char why[ETCD_WHY]);

/* Removes the own address, if etcd answers, and ends the thread. */
void etcd_agent_stop(struct etcd_agent *a);

/* The last known address of wanted[index]; false: not known. */
bool etcd_agent_address(struct etcd_agent *a, uint32_t index, struct weft_address *address);

/* The last error; false: the last exchange succeeded. */
bool etcd_agent_trouble(struct etcd_agent *a, char why[ETCD_WHY]);

/* Readable (poll, epoll) once an address or the error has changed, until etcd_agent_seen(). */
int etcd_agent_descriptor(const struct etcd_agent *a);
void etcd_agent_seen(struct etcd_agent *a);
