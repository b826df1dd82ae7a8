/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses a copy of the text line by line. References between lines are checked at the end, so lines
 * may come in any order except that `role` is first.
 */
#include "rio/config.h"

#include <stdlib.h>
#include <string.h>

#include "rio/config_words.h"
#include "store/plan.h"

enum { PREFIX_MAX = 128 };

static const uint64_t memory_max = UINT64_C(1) << 40;
static const uint64_t ms_ns = UINT64_C(1000000), second_ns = UINT64_C(1000000000);
static const uint64_t day_ns = UINT64_C(86400000000000);

static struct rio_config *config_of(const struct config_reader *r)
{
	return r->of;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static const char bad_size[] = "a size is a whole number with k, M, G, T or P, or without";

/* ---- Lines ---------------------------------------------------------------------------------- */

static bool read_role(struct config_reader *r)
{
	static const enum rio_role roles[] = { RIO_OWNER, RIO_IOUNIT, RIO_REQUESTER };

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (strcmp(r->words[1], rio_role_name(roles[i])) == 0) {
			config_of(r)->role = roles[i];
			return true;
		}
	}
	return config_complain(r, r->words[1], "the roles are owner, iounit and requester");
}

static bool read_self(struct config_reader *r)
{
	return rio_config_self(r, &config_of(r)->self);
}

static bool read_key(struct config_reader *r)
{
	config_of(r)->key = (struct config_text){ r->words[1], r->line };
	return true;
}

static bool read_listen(struct config_reader *r)
{
	config_of(r)->listen = (struct config_text){ r->words[1], r->line };
	return true;
}

static bool read_log(struct config_reader *r)
{
	config_of(r)->log = (struct config_text){ r->words[1], r->line };
	return true;
}

static bool read_timeout(struct config_reader *r)
{
	uint64_t *ns = &config_of(r)->timeout_ns;

	return (quantity_time(config_word(r->words[1]), ns) && *ns >= ms_ns && *ns <= day_ns) ||
	       config_complain(r, r->words[1],
			       "a timeout is a whole number with ms or s, from 1ms to 86400s");
}

static bool read_spin(struct config_reader *r)
{
	return rio_config_spin(r, &config_of(r)->spin_ns);
}

static bool read_alive(struct config_reader *r)
{
	return rio_config_alive(r, &config_of(r)->alive_ns);
}

static bool read_requests(struct config_reader *r)
{
	uint64_t number;

	if (!quantity_number(config_word(r->words[1]), &number) || number == 0 ||
	    number > RIO_CONFIG_REQUESTS_MAX)
		return config_complain(r, r->words[1], "there can be 1 to 1024 requests at a time");
	config_of(r)->requests_max = (uint32_t)number;
	return true;
}

static bool read_memory(struct config_reader *r)
{
	uint64_t *bytes = &config_of(r)->memory_bytes;

	return (quantity_size(config_word(r->words[1]), bytes) && *bytes > 0 &&
		*bytes <= memory_max) ||
	       config_complain(r, r->words[1],
			       "memory is a whole number of bytes, with k, M or G, up to 1T");
}

static bool read_adapters(struct config_reader *r)
{
	uint64_t number;

	if (!quantity_number(config_word(r->words[1]), &number) || number == 0 ||
	    number > RIO_CONFIG_ADAPTERS_MAX)
		return config_complain(r, r->words[1], "there can be 1 to 8 adapters");
	config_of(r)->adapters = (uint32_t)number;
	return true;
}

static bool is_url(const char *text)
{
	size_t scheme = strncmp(text, "http://", 7) == 0    ? 7
			: strncmp(text, "https://", 8) == 0 ? 8
							    : 0;

	return scheme > 0 && text[scheme] != '\0' && text[scheme] != '/';
}

static bool read_etcd(struct config_reader *r)
{
	struct rio_config *c = config_of(r);

	if (!is_url(r->words[1]))
		return config_complain(r, r->words[1],
				       "etcd is at http://HOST:PORT or https://HOST:PORT");
	c->etcd = (struct config_text){ r->words[1], r->line };
	if (r->count > 2) {
		size_t length = strlen(r->words[2]);

		if (length > PREFIX_MAX || r->words[2][0] != '/' || r->words[2][length - 1] != '/')
			return config_complain(
				r, r->words[2],
				"a prefix has / at both ends and at most 128 characters");
		c->etcd_prefix = r->words[2];
	}
	return true;
}

static bool read_etcd_ca(struct config_reader *r)
{
	config_of(r)->etcd_ca = (struct config_text){ r->words[1], r->line };
	return true;
}

/* Requesters connect to their owner, an owner connects to its I/O units. */
static bool is_dialled(enum rio_role by, enum rio_role peer)
{
	return (by == RIO_REQUESTER && peer == RIO_OWNER) ||
	       (by == RIO_OWNER && peer == RIO_IOUNIT);
}

/* NULL, or the text of the conflict with an earlier peer. */
static const char *find_twin(const struct rio_config *c, const char *name,
			     const struct rio_known *known)
{
	for (uint32_t i = 0; i < c->peer_count; i++) {
		if (strcmp(c->peers[i].name, name) == 0)
			return "another peer has this name";
		if (platform_is_same(c->known[i].platform, known->platform))
			return "another peer has this platform identifier";
		if (memcmp(c->known[i].key, known->key, RIO_KEY_BYTES) == 0)
			return "another peer has this key; each needs its own";
	}
	return NULL;
}

static bool read_peer(struct config_reader *r, enum rio_role role)
{
	struct rio_config *c = config_of(r);
	struct rio_config_peer peer = { .name = r->words[1], .line = r->line };
	struct rio_known known = { .role = role };
	const char *why;

	if (!rio_config_known(r, &known))
		return false;
	if (r->count > 4) {
		if (!is_dialled(c->role, role))
			return config_complain(r, r->words[4],
					       "it is not dialled from here, so it has no address");
		peer.address = r->words[4];
	}
	why = find_twin(c, peer.name, &known);
	if (why)
		return config_complain(r, r->words[0], why);
	if (c->peer_count == RIO_CONFIG_PEERS_MAX)
		return config_complain(r, r->words[0],
				       "there can be 256 owners, units and requesters");
	for (uint32_t i = 0; role == RIO_IOUNIT && i <= c->peer_count; i++)
		peer.place += i == c->peer_count || c->known[i].role == RIO_IOUNIT;
	c->known[c->peer_count] = known;
	c->peers[c->peer_count++] = peer;
	return true;
}

static bool read_owner(struct config_reader *r)
{
	return read_peer(r, RIO_OWNER);
}

static bool read_iounit(struct config_reader *r)
{
	return read_peer(r, RIO_IOUNIT);
}

static bool read_requester(struct config_reader *r)
{
	return read_peer(r, RIO_REQUESTER);
}

static bool read_device(struct config_reader *r)
{
	struct rio_config *c = config_of(r);
	struct store_complaint complaint;
	struct store_plan plan;
	struct rio_config_device *d = &c->devices[c->device_count];
	uint64_t number;

	if (!quantity_number(config_word(r->words[1]), &number) || number == 0 ||
	    number > RIO_CONFIG_DEVICE_NUMBER_MAX)
		return config_complain(r, r->words[1], "a device's number is 1 to 65535");
	if (!rio_config_name(r, r->words[2]))
		return false;
	for (uint32_t i = 0; i < c->device_count; i++) {
		if (c->devices[i].number == number)
			return config_complain(r, r->words[1], "this number is another device's");
		if (strcmp(c->devices[i].name, r->words[2]) == 0)
			return config_complain(r, r->words[2], "this name is another device's");
	}
	if (!store_plan_read(&plan, r->words[3], &complaint))
		return config_complain(r, r->words[3] + complaint.at, complaint.why);
	if (c->device_count == RIO_CONFIG_DEVICES_MAX)
		return config_complain(r, r->words[0], "there can be 64 devices");
	*d = (struct rio_config_device){ .number = (uint32_t)number,
					 .name = r->words[2],
					 .text = r->words[3],
					 .line = r->line,
					 .column = (uint32_t)(r->words[3] - r->begin) + 1 };
	c->device_count++;
	return true;
}

static bool read_operations(const char *text, uint32_t *operations)
{
	static const struct {
		const char *name;
		uint32_t bits;
	} rows[] = {
		{ "read", 1U << SGL_READ },
		{ "write", 1U << SGL_WRITE },
		{ "flush", 1U << SGL_FLUSH },
		{ "zeroes", 1U << SGL_WRITE_ZEROES },
		{ "discard", 1U << SGL_DISCARD },
		{ "all", 1U << SGL_READ | 1U << SGL_WRITE | 1U << SGL_FLUSH |
				 1U << SGL_WRITE_ZEROES | 1U << SGL_DISCARD },
	};
	const char *end;

	for (*operations = 0;; text = end + 1) {
		struct word w;
		uint32_t found = 0;

		for (end = text; *end != '\0' && *end != ','; end++)
			;
		w = (struct word){ text, (uint32_t)(end - text) };
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			if (word_is(w, rows[i].name))
				found = rows[i].bits;
		}
		if (found == 0)
			return false;
		*operations |= found;
		if (*end == '\0')
			return true;
	}
}

static bool read_rule_device(struct config_reader *r, struct rio_config_rule *rule)
{
	static const char why[] = "a device of a rule is UNIT/DEVICE, UNIT/* or *";
	char *text = r->words[3], *slash = memchr(text, '/', strlen(text));

	rule->iounit = RIO_CONFIG_ANY;
	if (strcmp(text, "*") == 0)
		return true;
	if (!slash)
		return config_complain(r, text, why);
	*slash = '\0';
	rule->iounit_name = text;
	if (strcmp(slash + 1, "*") != 0)
		rule->device = slash + 1;
	return (rio_name_is_good(text) && (!rule->device || rio_name_is_good(rule->device))) ||
	       config_complain(r, text, why);
}

static bool read_rule_range(struct config_reader *r, struct rio_config_rule *rule)
{
	if (r->count < 5)
		return true;
	if (r->count < 6)
		return config_complain(r, r->words[4],
				       "a range is FIRST LENGTH, such as 1G 512M or 1G end");
	if (!quantity_size(config_word(r->words[4]), &rule->first))
		return config_complain(r, r->words[4], bad_size);
	if (strcmp(r->words[5], "end") == 0)
		return true;
	if (!quantity_size(config_word(r->words[5]), &rule->length))
		return config_complain(r, r->words[5], bad_size);
	if (rule->length == 0 || rule->first + rule->length < rule->first)
		return config_complain(r, r->words[5], "there are no such bytes");
	return true;
}

static bool read_allow(struct config_reader *r)
{
	struct rio_config *c = config_of(r);
	struct rio_config_rule rule = { .requester_name = r->words[1], .line = r->line };

	if (!read_operations(r->words[2], &rule.operations))
		return config_complain(
			r, r->words[2],
			"operations are read, write, flush, zeroes, discard, with commas, or all");
	if (!read_rule_device(r, &rule) || !read_rule_range(r, &rule))
		return false;
	if (c->rule_count == RIO_CONFIG_RULES_MAX)
		return config_complain(r, r->words[0], "there can be 1024 rules");
	c->rules[c->rule_count++] = rule;
	return true;
}

static bool read_share(struct config_reader *r)
{
	struct rio_config *c = config_of(r);

	if (c->share_count == RIO_CONFIG_SHARES_MAX)
		return config_complain(r, r->words[0], "there can be 256 shares");
	c->shares[c->share_count++] = (struct rio_config_share){ .requester_name = r->words[1],
								 .memory_name = r->words[2],
								 .line = r->line };
	return true;
}

static bool read_watch(struct config_reader *r)
{
	struct rio_config *c = config_of(r);

	if (c->watcher_count == RIO_CONFIG_WATCHERS_MAX)
		return config_complain(r, r->words[0], "256 can watch");
	c->watchers[c->watcher_count++] = (struct rio_config_watcher){ .name = r->words[1],
								       .line = r->line };
	return true;
}

/* ---- The file ------------------------------------------------------------------------------- */

enum { BY_OWNER = 1 << RIO_OWNER, BY_IOUNIT = 1 << RIO_IOUNIT, BY_REQUESTER = 1 << RIO_REQUESTER };
enum { BY_ALL = BY_OWNER | BY_IOUNIT | BY_REQUESTER };

static const struct config_keyword keywords[] = {
	{ "role", BY_ALL, 2, 2, true, false, read_role, "a line is: role ROLE" },
	{ "self", BY_ALL, 2, 2, true, false, read_self, "a line is: self PLATFORM" },
	{ "key", BY_ALL, 2, 2, true, true, read_key, "a line is: key FILE" },
	{ "listen", BY_ALL, 2, 2, true, false, read_listen, "a line is: listen ADDRESS:PORT" },
	{ "timeout", BY_ALL, 2, 2, true, false, read_timeout, "a line is: timeout TIME" },
	{ "spin", BY_ALL, 2, 2, true, false, read_spin, "a line is: spin TIME" },
	{ "alive", BY_ALL, 2, 2, true, false, read_alive, "a line is: alive TIME" },
	{ "requests", BY_ALL, 2, 2, true, false, read_requests, "a line is: requests NUMBER" },
	{ "etcd", BY_ALL, 2, 3, true, false, read_etcd, "a line is: etcd URL [PREFIX]" },
	{ "etcd-ca", BY_ALL, 2, 2, true, true, read_etcd_ca, "a line is: etcd-ca FILE" },
	{ "log", BY_OWNER, 2, 2, true, true, read_log, "a line is: log FILE" },
	{ "owner", BY_IOUNIT | BY_REQUESTER, 4, 5, true, false, read_owner,
	  "a line is: owner NAME PLATFORM KEY [ADDRESS:PORT]" },
	{ "iounit", BY_OWNER, 4, 5, false, false, read_iounit,
	  "a line is: iounit NAME PLATFORM KEY [ADDRESS:PORT]" },
	{ "requester", BY_OWNER, 4, 5, false, false, read_requester,
	  "a line is: requester NAME PLATFORM KEY" },
	{ "adapters", BY_IOUNIT, 2, 2, true, false, read_adapters, "a line is: adapters NUMBER" },
	{ "memory", BY_IOUNIT, 2, 2, true, false, read_memory, "a line is: memory BYTES" },
	{ "device", BY_IOUNIT, 4, 4, false, true, read_device,
	  "a line is: device NUMBER NAME DESCRIPTION" },
	{ "allow", BY_OWNER, 4, 6, false, false, read_allow,
	  "a line is: allow REQUESTER OPERATIONS DEVICE [FIRST LENGTH]" },
	{ "share", BY_OWNER, 3, 3, false, false, read_share, "a line is: share REQUESTER NAME" },
	{ "watch", BY_OWNER, 2, 2, false, false, read_watch, "a line is: watch REQUESTER" },
};

enum { KEYWORDS = sizeof(keywords) / sizeof(keywords[0]) };

/* The first line is the role; some lines are not for all roles. */
static bool allows(struct config_reader *r, const struct config_keyword *k)
{
	enum rio_role role = config_of(r)->role;

	if (role == 0 && k->read != read_role)
		return config_complain(r, r->words[0], "the first line is the role: role owner");
	if (role != 0 && (k->kinds & 1U << role) == 0)
		return config_complain(r, r->words[0], "this is not for the file of this role");
	return true;
}

/* ---- What lines say of each other ----------------------------------------------------------- */

static bool find_peer(const struct rio_config *c, const char *name, uint32_t *index)
{
	for (*index = 0; *index < c->peer_count; (*index)++) {
		if (strcmp(c->peers[*index].name, name) == 0)
			return true;
	}
	return false;
}

static bool find_role(const struct rio_config *c, const char *name, enum rio_role role,
		      uint32_t *index)
{
	return find_peer(c, name, index) && c->known[*index].role == role;
}

static bool resolve_rules(struct config_reader *r)
{
	struct rio_config *c = config_of(r);

	for (uint32_t i = 0; i < c->rule_count; i++) {
		struct rio_config_rule *rule = &c->rules[i];

		if (strcmp(rule->requester_name, "any") == 0)
			rule->requester = RIO_CONFIG_ANY;
		else if (!find_role(c, rule->requester_name, RIO_REQUESTER, &rule->requester))
			return config_complain_line(r, rule->line,
						    "there is no requester of this name");
		if (rule->iounit_name &&
		    !find_role(c, rule->iounit_name, RIO_IOUNIT, &rule->iounit))
			return config_complain_line(r, rule->line,
						    "there is no iounit of this name");
	}
	for (uint32_t i = 0; i < c->share_count; i++) {
		struct rio_config_share *share = &c->shares[i];

		if (!find_role(c, share->requester_name, RIO_REQUESTER, &share->requester))
			return config_complain_line(r, share->line,
						    "there is no requester of this name");
		if (!find_peer(c, share->memory_name, &share->memory))
			return config_complain_line(r, share->line, "no peer has the second name");
	}
	return true;
}

static bool resolve_watchers(struct config_reader *r)
{
	struct rio_config *c = config_of(r);

	for (uint32_t i = 0; i < c->watcher_count; i++) {
		struct rio_config_watcher *w = &c->watchers[i];

		w->requester = RIO_CONFIG_ANY;
		if (strcmp(w->name, "any") != 0 &&
		    !find_role(c, w->name, RIO_REQUESTER, &w->requester))
			return config_complain_line(r, w->line,
						    "there is no requester of this name");
	}
	return true;
}

static bool check_peers(struct config_reader *r)
{
	struct rio_config *c = config_of(r);

	for (uint32_t i = 0; i < c->peer_count; i++) {
		if (platform_is_same(c->known[i].platform, c->self))
			return config_complain_line(r, c->peers[i].line,
						    "this platform identifier is that of self");
		if (is_dialled(c->role, c->known[i].role) && !c->peers[i].address && !c->etcd.is)
			return config_complain_line(
				r, c->peers[i].line,
				"it has no address, and there is no etcd to ask");
	}
	return true;
}

struct role_defaults {
	struct platform self;
	const char *key, *listen;
};

static struct role_defaults defaults_of(enum rio_role role)
{
	switch (role) {
	case RIO_OWNER:
		return (struct role_defaults){ { 1, 1 }, "owner.key", ":7470" };
	case RIO_IOUNIT:
		return (struct role_defaults){ { 2, 1 }, "iounit.key", ":7471" };
	default:
		return (struct role_defaults){ { 3, 1 }, "requester.key", ":0" };
	}
}

static bool finish(struct config_reader *r)
{
	struct rio_config *c = config_of(r);
	struct role_defaults d = defaults_of(c->role);

	if (c->role == 0)
		return config_complain_line(r, r->line, "the first line is the role: role owner");
	if (platform_is_none(c->self))
		c->self = d.self;
	if (!c->key.is)
		c->key.is = d.key;
	if (!c->listen.is)
		c->listen.is = d.listen;
	if (c->role != RIO_OWNER && c->peer_count == 0)
		return config_complain_line(r, r->line,
					    "a line is missing: owner NAME PLATFORM KEY");
	if (c->etcd_ca.is && (!c->etcd.is || strncmp(c->etcd.is, "https:", 6) != 0))
		return config_complain_line(r, c->etcd_ca.line, "etcd-ca is for etcd at https://");
	return check_peers(r) && resolve_rules(r) && resolve_watchers(r);
}

bool rio_config_read(const char *text, size_t length, struct rio_config **config,
		     struct config_complaint *complaint)
{
	struct rio_config *c = config_copy(offsetof(struct rio_config, text), text, length,
					   complaint);
	struct config_reader r = { .of = c,
				   .keywords = keywords,
				   .keyword_count = KEYWORDS,
				   .allows = allows,
				   .complaint = complaint };

	if (!c)
		return false;
	c->timeout_ns = 30 * 1000 * ms_ns;
	c->alive_ns = 10 * second_ns;
	c->requests_max = 64;
	c->etcd_prefix = "/weft/";
	if (!config_lines_read(&r, c->text, length) || !finish(&r)) {
		free(c);
		return false;
	}
	*config = c;
	return true;
}

void rio_config_destroy(struct rio_config *c)
{
	free(c);
}
