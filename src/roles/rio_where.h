/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the peers of a role are: at the address that its configuration file has, else where etcd
 * says. Tells etcd, too, where the role itself is, if others dial it. Needs what etcd.h needs.
 */
#pragma once

#include "roles/etcd_agent.h"
#include "roles/rio_config.h"

struct rio_where;

/*
 * self: the address at which it listens, with its port. The host is borrowed. False: why says it in
 * a sentence, which begins with the file and the line of etcd.
 */
bool rio_where_open(const struct rio_host *host, const struct weft_address *self,
		    struct rio_where **where, char why[RIO_HOST_WHY]);
void rio_where_close(struct rio_where *w);

/* Of a peer, by its index in the configuration. False: it is not known, at present. */
bool rio_where_address(struct rio_where *w, uint32_t peer, struct weft_address *address);

/* What keeps etcd from telling; false: nothing does. */
bool rio_where_trouble(struct rio_where *w, char why[ETCD_WHY]);

/* As etcd_agent_descriptor() and etcd_agent_seen(); -1: nothing ever changes. */
int rio_where_descriptor(const struct rio_where *w);
void rio_where_seen(struct rio_where *w);
