/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rio_config.h"

#include <sodium/utils.h>
#include <stdlib.h>
#include <string.h>

#include "roles/config_file.h"
#include "roles/key_file.h"

/* ---- The file ------------------------------------------------------------------------------- */

static bool parse(const char *text, size_t length, void *config, struct config_complaint *complaint)
{
	return rio_config_read(text, length, config, complaint);
}

/* ---- What it names -------------------------------------------------------------------------- */

static bool read_paths(struct rio_host *host, const char *path, char why[RIO_HOST_WHY])
{
	const struct rio_config *c = host->config;

	if (c->log.is)
		host->log_path = config_file_beside(path, c->log.is);
	if (c->etcd_ca.is)
		host->ca_path = config_file_beside(path, c->etcd_ca.is);
	return ((!c->log.is || host->log_path) && (!c->etcd_ca.is || host->ca_path)) ||
	       config_refuse(why, "%s: there is no memory for it", path);
}

static bool read_key(struct rio_host *host, const char *path, char why[RIO_HOST_WHY])
{
	const struct rio_config *c = host->config;
	char key_why[KEY_FILE_WHY] = "there is no memory";
	bool is_read;

	host->key_path = config_file_beside(path, c->key.is);
	is_read = host->key_path && key_file_read(host->key_path, &host->self, key_why);
	host->self.platform = c->self;
	host->self.role = c->role;
	if (is_read)
		return true;
	if (c->key.line > 0)
		return config_refuse(why, "%s:%u: %s", path, c->key.line, key_why);
	return config_refuse(why, "%s: %s", path, key_why);
}

/* No peer may have this role's key. */
static bool check_keys(const struct rio_host *host, const char *path, char why[RIO_HOST_WHY])
{
	const struct rio_config *c = host->config;

	for (uint32_t i = 0; i < c->peer_count; i++) {
		if (memcmp(c->known[i].key, host->self.key, RIO_KEY_BYTES) == 0)
			return config_refuse(why, "%s:%u: this is the key of self", path,
					     c->peers[i].line);
	}
	return true;
}

static bool read_addresses(struct rio_host *host, const char *path, char why[RIO_HOST_WHY])
{
	static const char form[] = "an address is 192.0.2.1:7470 or [2001:db8::1]:7470";
	const struct rio_config *c = host->config;

	if (weft_address_parse(c->listen.is, &host->listen) != WEFT_OK)
		return config_refuse(why, "%s:%u: %s, and to listen also :7470", path,
				     c->listen.line, form);
	for (uint32_t i = 0; i < c->peer_count; i++) {
		struct weft_address *a = &host->addresses[i];

		if (!c->peers[i].address)
			continue;
		if (weft_address_parse(c->peers[i].address, a) != WEFT_OK || a->family == 0 ||
		    a->port == 0)
			return config_refuse(why, "%s:%u: %s", path, c->peers[i].line, form);
	}
	return true;
}

/* The address registered in etcd must be usable by peers. */
static bool check_listen(const struct rio_host *host, const char *path, char why[RIO_HOST_WHY])
{
	static const uint8_t everywhere[sizeof(host->listen.ip)];
	const struct rio_config *c = host->config;
	const struct weft_address *a = &host->listen;

	if (!c->etcd.is || c->role == RIO_REQUESTER ||
	    (a->port != 0 && memcmp(a->ip, everywhere, sizeof(everywhere)) != 0))
		return true;
	return config_refuse(why,
			     "%s:%u: with etcd, listen names the address and port that others dial",
			     path, c->listen.line > 0 ? c->listen.line : c->etcd.line);
}

bool rio_host_open(const char *path, enum rio_role role, struct rio_host **out,
		   char why[RIO_HOST_WHY])
{
	struct rio_host *host = calloc(1, sizeof(*host));

	if (host)
		host->path = strdup(path);
	if (!host || !host->path) {
		free(host);
		return config_refuse(why, "%s: there is no memory for it", path);
	}
	if (!config_file_parse(path, parse, &host->config, why)) {
		rio_host_close(host);
		return false;
	}
	host->book = (struct rio_book){ host->config->known, host->config->peer_count };
	if (host->config->role != role) {
		config_refuse(why, "%s: this is the file of another role: %s, not %s", path,
			      rio_role_name(host->config->role), rio_role_name(role));
	} else if (read_addresses(host, path, why) && check_listen(host, path, why) &&
		   read_paths(host, path, why) && read_key(host, path, why) &&
		   check_keys(host, path, why)) {
		*out = host;
		return true;
	}
	rio_host_close(host);
	return false;
}

void rio_host_close(struct rio_host *host)
{
	sodium_memzero(&host->self, sizeof(host->self));
	rio_config_destroy(host->config);
	free(host->path);
	free(host->key_path);
	free(host->log_path);
	free(host->ca_path);
	free(host);
}

bool rio_host_is_lost(const struct rio_host *host, uint32_t peer)
{
	const struct rio_config *c = host->config;
	/* Requesters connect to their owner, an owner connects to its I/O units. */
	bool is_dialled = c->role == RIO_REQUESTER || c->known[peer].role == RIO_IOUNIT;

	return is_dialled && host->addresses[peer].family == 0;
}

/* ---- As the library wants it ---------------------------------------------------------------- */

static struct weft_rio_platform platform_of(struct platform p)
{
	return (struct weft_rio_platform){ p.unit, p.process };
}

void rio_host_self(const struct rio_host *host, struct weft_rio_self *self,
		   struct weft_rio_peer *peers)
{
	*self = (struct weft_rio_self){ .platform = platform_of(host->self.platform),
					.spin_ns = host->config->spin_ns,
					.alive_ns = host->config->alive_ns,
					.listen = host->listen,
					.peers = peers,
					.peer_count = host->config->peer_count };
	/* libsodium's secret key begins with the seed. */
	memcpy(self->seed, host->self.secret, sizeof(self->seed));
	for (uint32_t i = 0; i < host->config->peer_count; i++) {
		const struct rio_known *k = &host->config->known[i];

		peers[i] = (struct weft_rio_peer){ .platform = platform_of(k->platform),
						   .role = (enum weft_rio_role)k->role,
						   .address = host->addresses[i] };
		memcpy(peers[i].key, k->key, sizeof(k->key));
		/* Names are short enough: rio/names.h. */
		memcpy(peers[i].name, host->config->peers[i].name,
		       strlen(host->config->peers[i].name));
	}
}

void rio_host_self_wipe(struct weft_rio_self *self)
{
	sodium_memzero(self, sizeof(*self));
}
