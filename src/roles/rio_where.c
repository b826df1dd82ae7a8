/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rio_where.h"

#include <stdio.h>
#include <stdlib.h>

struct rio_where {
	const struct rio_host *host;
	struct etcd_agent *agent; /* NULL: etcd is not used */
	struct platform wanted[RIO_CONFIG_PEERS_MAX];
	uint32_t wanted_count;
	uint32_t index[RIO_CONFIG_PEERS_MAX]; /* index in wanted of peers without a known address */
};

static bool agent_start(struct rio_where *w, const struct weft_address *self,
			char why[RIO_HOST_WHY])
{
	const struct rio_config *c = w->host->config;
	struct etcd_agent_config config = { .etcd = { .url = c->etcd.is,
						      .prefix = c->etcd_prefix,
						      .ca_path = w->host->ca_path },
					    .self = c->self,
					    .wanted = w->wanted,
					    .wanted_count = w->wanted_count };
	char etcd_why[ETCD_WHY];

	/* A requester is not registered: the owner tells I/O units where requesters are. */
	if (c->role != RIO_REQUESTER)
		config.address = *self;
	if (etcd_agent_start(&config, &w->agent, etcd_why))
		return true;
	snprintf(why, RIO_HOST_WHY, "%s:%u: %s", w->host->path, c->etcd.line, etcd_why);
	return false;
}

bool rio_where_open(const struct rio_host *host, const struct weft_address *self,
		    struct rio_where **where, char why[RIO_HOST_WHY])
{
	struct rio_where *w = calloc(1, sizeof(*w));

	if (!w) {
		snprintf(why, RIO_HOST_WHY, "%s: there is no memory for it", host->path);
		return false;
	}
	w->host = host;
	for (uint32_t i = 0; i < host->config->peer_count; i++) {
		if (!rio_host_is_lost(host, i))
			continue;
		w->index[i] = w->wanted_count;
		w->wanted[w->wanted_count++] = host->config->known[i].platform;
	}
	if (host->config->etcd.is && !agent_start(w, self, why)) {
		free(w);
		return false;
	}
	*where = w;
	return true;
}

void rio_where_close(struct rio_where *w)
{
	if (w->agent)
		etcd_agent_stop(w->agent);
	free(w);
}

bool rio_where_address(struct rio_where *w, uint32_t peer, struct weft_address *address)
{
	if (rio_host_is_lost(w->host, peer))
		return etcd_agent_address(w->agent, w->index[peer], address);
	*address = w->host->addresses[peer];
	return address->family != 0;
}

bool rio_where_trouble(struct rio_where *w, char why[ETCD_WHY])
{
	return w->agent && etcd_agent_trouble(w->agent, why);
}

int rio_where_descriptor(const struct rio_where *w)
{
	return w->agent ? etcd_agent_descriptor(w->agent) : -1;
}

void rio_where_seen(struct rio_where *w)
{
	if (w->agent)
		etcd_agent_seen(w->agent);
}
