/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rio_role_file.h"
#include "driver/sys/clock.h"

#include <poll.h>
#include <stdio.h>

#include "roles/rio_loop.h"

enum { NS_PER_MS = 1000 * 1000, POLL_MS_MAX = 1000 };

/* ---- Addresses that only etcd knows --------------------------------------------------------- */

/* Updates the peers' addresses; returns how many are missing. */
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

static bool find(void *context, uint32_t peer, struct weft_address *address)
{
	struct rio_role_file *f = context;

	return rio_where_address(f->where, peer, address);
}

static bool ask_etcd(struct rio_role_file *f, uint64_t wait_ns, char why[RIO_HOST_WHY])
{
	const struct rio_config *c = f->host->config;
	char trouble[ETCD_WHY] = "it has no address of the owner";
	uint32_t missing;

	if (!rio_where_open(f->host, &f->host->listen, &f->where, why))
		return false;
	missing = await_addresses(f, wait_ns);
	if (c->role != RIO_REQUESTER) {
		/* Missing peers may appear later, and addresses may change. */
		f->self.find = find;
		f->self.context = f;
		return true;
	}
	if (missing > 0) {
		(void)rio_where_trouble(f->where, trouble);
		snprintf(why, RIO_HOST_WHY, "%s:%u: %s", f->host->path, c->etcd.line, trouble);
	}
	/* No peer connects to a requester, so it registers no address. */
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
	rio_host_self(f->host, &f->self, f->peers);
	if (!f->host->config->etcd.is || ask_etcd(f, wait_ns, why))
		return true;
	rio_role_file_close(f);
	return false;
}

void rio_role_file_close(struct rio_role_file *f)
{
	rio_host_self_wipe(&f->self);
	if (f->where)
		rio_where_close(f->where);
	rio_host_close(f->host);
}
