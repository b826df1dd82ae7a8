/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that talks to etcd, so that nobody else waits for it: keeps one's own address there, as
 * long as this process lives, and knows the addresses of others. What etcd does not answer is asked
 * again; an address that was found stays until another one is, as an etcd that is gone says nothing
 * about where platforms are.
 */
#pragma once

#include "roles/etcd.h"

struct etcd_agent;

struct etcd_agent_config {
	struct etcd_config etcd;
	struct platform self;
	struct weft_address address;   /* of self; family 0: it is not told */
	const struct platform *wanted; /* whose addresses are looked for */
	uint32_t wanted_count;
	uint32_t lease_s; /* how long an address outlives its process; 0: 10 */
};

/* False: why says it in a sentence. That etcd does not answer is no reason to refuse. */
bool etcd_agent_start(const struct etcd_agent_config *config, struct etcd_agent **agent,
		      char why[ETCD_WHY]);

/* Takes one's own address away, if etcd answers, and ends the thread. */
void etcd_agent_stop(struct etcd_agent *a);

/* Where wanted[index] is, as far as is known; false: it is not. */
bool etcd_agent_address(struct etcd_agent *a, uint32_t index, struct weft_address *address);

/* What went wrong the last time; false: nothing did. */
bool etcd_agent_trouble(struct etcd_agent *a, char why[ETCD_WHY]);

/*
 * Readable (poll, epoll) when an address, or the trouble, is not what it was; it stays so until
 * etcd_agent_seen().
 */
int etcd_agent_descriptor(const struct etcd_agent *a);
void etcd_agent_seen(struct etcd_agent *a);
