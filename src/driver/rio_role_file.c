/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/rio_role_file.h"

#include <poll.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NS_PER_MS = 1000 * 1000, POLL_MS_MAX = 1000 };

static struct weft_platform platform_of(struct platform p)
{
	return (struct weft_platform){ p.unit, p.process };
}

static void self_make(struct rio_role_file *f)
{
	const struct rio_host *h = f->host;

	f->self = (struct weft_rio_self){ .platform = platform_of(h->self.platform),
					  .listen = h->listen,
					  .peers = f->peers,
					  .peer_count = h->config->peer_count };
	/* Libsodium's secret begins with the seed. */
	memcpy(f->self.seed, h->self.secret, sizeof(f->self.seed));
	for (uint32_t i = 0; i < h->config->peer_count; i++) {
		const struct rio_known *k = &h->config->known[i];

		f->peers[i] = (struct weft_rio_peer){ .platform = platform_of(k->platform),
						      .role = (enum weft_rio_role)k->role,
						      .address = h->addresses[i] };
		memcpy(f->peers[i].key, k->key, sizeof(k->key));
	}
}

/* ---- Addresses that only etcd knows --------------------------------------------------------- */

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 * NS_PER_MS + (uint64_t)ts.tv_nsec;
}

/* How many of them are not known yet. */
static uint32_t look(struct rio_role_file *f)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < f->self.peer_count; i++) {
		if (rio_host_is_lost(f->host, i) &&
		    !rio_where_address(f->where, i, &f->peers[i].address))
			missing++;
	}
	return missing;
}

static uint32_t await_addresses(struct rio_role_file *f, uint64_t wait_ns)
{
	struct pollfd fd = { .fd = rio_where_descriptor(f->where), .events = POLLIN };
	uint64_t start = clock_ns(), now = start;
	uint32_t missing = look(f);

	while (missing > 0 && now - start < wait_ns) {
		uint64_t left = (wait_ns - (now - start) + NS_PER_MS - 1) / NS_PER_MS;

		(void)poll(&fd, 1, left < POLL_MS_MAX ? (int)left : POLL_MS_MAX);
		rio_where_seen(f->where);
		missing = look(f);
		now = clock_ns();
	}
	return missing;
}

static bool ask_etcd(struct rio_role_file *f, uint64_t wait_ns, char why[RIO_HOST_WHY])
{
	const struct rio_config *c = f->host->config;
	char trouble[ETCD_WHY] = "it has no address of the owner";
	uint32_t missing;

	if (!rio_where_open(f->host, &f->host->listen, &f->where, why))
		return false;
	missing = await_addresses(f, wait_ns);
	if (c->role != RIO_REQUESTER)
		return true;
	if (missing > 0) {
		(void)rio_where_trouble(f->where, trouble);
		snprintf(why, RIO_HOST_WHY, "%s:%u: %s", f->host->path, c->etcd.line, trouble);
	}
	/* Nobody dials it, so it has nothing to tell. */
	rio_where_close(f->where);
	f->where = NULL;
	return missing == 0;
}

/* ---- Life ----------------------------------------------------------------------------------- */

bool rio_role_file_open(struct rio_role_file *f, enum rio_role role, const char *path,
			uint64_t wait_ns, char why[RIO_HOST_WHY])
{
	f->where = NULL;
	if (!rio_host_open(path, role, &f->host, why))
		return false;
	self_make(f);
	if (!f->host->config->etcd.is || ask_etcd(f, wait_ns, why))
		return true;
	rio_role_file_close(f);
	return false;
}

void rio_role_file_close(struct rio_role_file *f)
{
	sodium_memzero(&f->self, sizeof(f->self));
	if (f->where)
		rio_where_close(f->where);
	rio_host_close(f->host);
}
