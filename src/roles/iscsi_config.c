/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/iscsi_config.h"

#include <arpa/inet.h>
#include <sodium/utils.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading -------------------------------------------------------------------------------- */

static bool parse(const char *text, size_t length, void *config, struct config_complaint *complaint)
{
	return iscsi_config_read(text, length, config, complaint);
}

static bool read_portals(struct iscsi_host *host, char why[CONFIG_FILE_WHY])
{
	const struct iscsi_config *c = host->config;

	for (uint32_t i = 0; i < c->portal_count; i++) {
		if (weft_address_parse(c->portals[i].is, &host->portals[i]) != WEFT_OK)
			return config_refuse(
				why,
				"%s:%u: an address is 192.0.2.1:3260 or [2001:db8::1]:3260, "
				"or :3260 for all of this host",
				host->path, c->portals[i].line);
	}
	return true;
}

static bool parse_bits(const char *text, unsigned int max, uint8_t *bits)
{
	uint64_t number;

	if (!quantity_number(config_word(text), &number) || number > max)
		return false;
	*bits = (uint8_t)number;
	return true;
}

/* ADDRESS or ADDRESS/BITS, of either family. */
static bool parse_network(const char *text, struct iscsi_network *n)
{
	char host[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);

	if (length >= sizeof(host))
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	if (inet_pton(AF_INET, host, n->ip) == 1) {
		n->family = 4;
		n->bits = 32;
	} else if (inet_pton(AF_INET6, host, n->ip) == 1) {
		n->family = 6;
		n->bits = 128;
	} else {
		return false;
	}
	return !slash || parse_bits(slash + 1, n->bits, &n->bits);
}

static bool read_networks(struct iscsi_host *host, char why[CONFIG_FILE_WHY])
{
	const struct iscsi_config *c = host->config;

	for (uint32_t i = 0; i < c->rule_count; i++) {
		const struct config_text *text = &c->rules[i].address;

		if (text->is && !parse_network(text->is, &host->networks[i]))
			return config_refuse(
				why,
				"%s:%u: an address to allow is 192.0.2.1, 192.0.2.0/24 or "
				"2001:db8::/32",
				host->path, text->line);
	}
	return true;
}

/* Leaves *secrets NULL if none are asked for. */
static bool read_secrets(const struct iscsi_host *host, const struct config_text *from,
			 struct iscsi_secrets **secrets, char why[CONFIG_FILE_WHY])
{
	struct config_complaint complaint;
	char *path, *text = NULL, more[CONFIG_FILE_WHY];
	size_t length = 0;
	bool is_read = false;

	if (!from->is)
		return true;
	path = config_file_beside(host->path, from->is);
	if (!path)
		return config_refuse(why, "%s: there is no memory for it", host->path);
	if (!config_file_read_secret(path, &text, &length, more)) {
		config_refuse(why, "%s:%u: %s", host->path, from->line, more);
	} else {
		is_read = iscsi_secrets_read(text, length, secrets, &complaint) ||
			  config_refuse(why, "%s:%u:%u: %s", path, complaint.line, complaint.column,
					complaint.why);
		sodium_memzero(text, length);
		free(text);
	}
	free(path);
	return is_read;
}

static bool read_all_secrets(struct iscsi_host *host, char why[CONFIG_FILE_WHY])
{
	const struct iscsi_config *c = host->config;

	for (uint32_t i = 0; i < c->target_count; i++) {
		if (!read_secrets(host, &c->targets[i].chap, &host->secrets[i], why))
			return false;
	}
	return read_secrets(host, &c->discovery_chap, &host->discovery, why);
}

bool iscsi_host_open(const char *path, struct iscsi_host **out, char why[CONFIG_FILE_WHY])
{
	struct iscsi_host *host = calloc(1, sizeof(*host));

	if (host)
		host->path = strdup(path);
	if (!host || !host->path) {
		free(host);
		return config_refuse(why, "%s: there is no memory for it", path);
	}
	if (config_file_parse(path, parse, &host->config, why) && read_portals(host, why) &&
	    read_networks(host, why) && read_all_secrets(host, why)) {
		*out = host;
		return true;
	}
	iscsi_host_close(host);
	return false;
}

void iscsi_host_close(struct iscsi_host *host)
{
	for (uint32_t i = 0; i < ISCSI_CONFIG_TARGETS_MAX; i++) {
		if (host->secrets[i])
			iscsi_secrets_destroy(host->secrets[i]);
	}
	if (host->discovery)
		iscsi_secrets_destroy(host->discovery);
	if (host->config)
		iscsi_config_destroy(host->config);
	free(host->path);
	free(host);
}

/* ---- Access --------------------------------------------------------------------------------- */

bool iscsi_address_is_loopback(const struct weft_address *a)
{
	static const uint8_t one[16] = { [15] = 1 };

	return a->family == 4 ? a->ip[0] == 127
			      : a->family == 6 && memcmp(a->ip, one, sizeof(one)) == 0;
}

static bool network_has(const struct iscsi_network *n, const struct weft_address *a)
{
	uint32_t whole = n->bits / 8, rest = n->bits % 8;

	if (n->family == 0)
		return true;
	return n->family == a->family && memcmp(n->ip, a->ip, whole) == 0 &&
	       (rest == 0 || ((n->ip[whole] ^ a->ip[whole]) >> (8 - rest)) == 0);
}

bool iscsi_host_allows(const struct iscsi_host *host, uint16_t target, struct word initiator,
		       const struct weft_address *from)
{
	const struct iscsi_config *c = host->config;

	if (!c->targets[target].has_rules)
		return iscsi_address_is_loopback(from);
	for (uint32_t i = 0; i < c->rule_count; i++) {
		const struct iscsi_config_rule *rule = &c->rules[i];

		if (rule->target == target && network_has(&host->networks[i], from) &&
		    (rule->initiator.length == 0 || word_is(initiator, rule->initiator.text)))
			return true;
	}
	return false;
}

bool iscsi_host_allows_discovery(const struct iscsi_host *host, struct word initiator,
				 const struct weft_address *from)
{
	for (uint32_t i = 0; i < host->config->target_count; i++) {
		if (iscsi_host_allows(host, (uint16_t)i, initiator, from))
			return true;
	}
	return false;
}
