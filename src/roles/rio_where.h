/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the addresses of a role's peers: in its configuration file, else in etcd. Also registers
 * the role's own address in etcd if others connect to it. Needs what etcd.h needs.
 */
#pragma once

#include "roles/etcd_agent.h"
#include "roles/rio_config.h"

struct rio_where;

/*
 * self: the listener's address with its port. The host is borrowed. False: `why` has a sentence,
 * which begins with the file and the line of etcd.
 */
bool rio_where_open(const struct rio_host *host, const struct weft_address *self,
		    struct rio_where **where, char why[RIO_HOST_WHY]);
void rio_where_close(struct rio_where *w);

/* The address of a peer, by its index in the configuration. False: not known at present. */
bool rio_where_address(struct rio_where *w, uint32_t peer, struct weft_address *address);

/* The last error of etcd; false: there was none. */
bool rio_where_trouble(struct rio_where *w, char why[ETCD_WHY]);

/* As etcd_agent_descriptor() and etcd_agent_seen(); -1: addresses never change. */
int rio_where_descriptor(const struct rio_where *w);
void rio_where_seen(struct rio_where *w);
