/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configuration files from arbitrary bytes: read, or refused at a place within the text; and what
 * was read keeps its promises.
 */
#include <string.h>

#include "base/check.h"
#include "rio/config.h"

static bool is_within(const struct rio_config *c, const char *text, size_t length)
{
	return text >= c->text && text + strlen(text) <= c->text + length;
}

static void check_peers(const struct rio_config *c, size_t length)
{
	uint32_t place = 0;

	CHECK(c->peer_count <= RIO_CONFIG_PEERS_MAX);
	CHECK(c->role == RIO_OWNER || c->peer_count == 1);
	for (uint32_t i = 0; i < c->peer_count; i++) {
		const struct rio_config_peer *p = &c->peers[i];
		bool is_unit = c->known[i].role == RIO_IOUNIT;

		CHECK(is_within(c, p->name, length) && *p->name);
		CHECK((c->known[i].role == RIO_OWNER) == (c->role != RIO_OWNER));
		CHECK(c->known[i].platform.unit != 0 && c->known[i].platform.process != 0);
		CHECK(p->place == (is_unit ? ++place : 0));
		CHECK(!p->address || is_unit || c->role == RIO_REQUESTER);
	}
}

static void check_rules(const struct rio_config *c)
{
	CHECK(c->rule_count <= RIO_CONFIG_RULES_MAX && c->share_count <= RIO_CONFIG_SHARES_MAX);
	for (uint32_t i = 0; i < c->rule_count; i++) {
		const struct rio_config_rule *r = &c->rules[i];

		CHECK(r->requester == RIO_CONFIG_ANY ||
		      (r->requester < c->peer_count &&
		       c->known[r->requester].role == RIO_REQUESTER));
		CHECK(r->iounit == RIO_CONFIG_ANY ||
		      (r->iounit < c->peer_count && c->known[r->iounit].role == RIO_IOUNIT));
		CHECK(!r->device || r->iounit != RIO_CONFIG_ANY);
		CHECK(r->operations != 0 && r->first + r->length >= r->first);
	}
	for (uint32_t i = 0; i < c->share_count; i++)
		CHECK(c->shares[i].requester < c->peer_count &&
		      c->shares[i].memory < c->peer_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_complaint complaint;
	struct rio_config *c = NULL;
	uint32_t lines = 1;

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	if (!rio_config_read((const char *)data, size, &c, &complaint)) {
		CHECK(!c && complaint.why);
		CHECK(complaint.line >= 1 && complaint.line <= lines);
		CHECK(complaint.column >= 1 && complaint.column <= size + 1);
		return 0;
	}
	CHECK(c->role == RIO_OWNER || c->role == RIO_IOUNIT || c->role == RIO_REQUESTER);
	CHECK(c->key.is && c->listen.is && c->etcd_prefix && c->requests_max > 0);
	CHECK(c->self.unit != 0 && c->timeout_ns > 0);
	CHECK(c->device_count <= RIO_CONFIG_DEVICES_MAX);
	for (uint32_t i = 0; i < c->device_count; i++)
		CHECK(is_within(c, c->devices[i].text, size) && c->devices[i].number != 0);
	check_peers(c, size);
	check_rules(c);
	rio_config_destroy(c);
	return 0;
}
