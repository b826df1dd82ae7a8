/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_parts.h"

#include <sodium/crypto_generichash.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "rio/config_words.h"
#include "rio/names.h"
#include "roles/key_file.h"

static const uint64_t alive_usual_ns = UINT64_C(10000000000);

/* ---- Lines ---------------------------------------------------------------------------------- */

static struct fabric_parts *parts_of(const struct config_reader *r)
{
	return r->of;
}

static bool read_alive(struct config_reader *r)
{
	return rio_config_alive(r, &parts_of(r)->alive_ns);
}

static uint32_t name_find(const struct fabric_parts *p, const char *name)
{
	for (uint32_t i = 0; i < p->part_count; i++) {
		if (strcmp(p->parts[i].name, name) == 0)
			return i;
	}
	return FABRIC_PART_NONE;
}

static bool key_read(struct config_reader *r, struct rio_known *known)
{
	const struct fabric_parts *p = parts_of(r);

	if (!rio_key_read(r->words[2], known->key))
		return config_complain(
			r, r->words[2],
			"a public key is 64 hexadecimal digits, as weft key shows them");
	for (uint32_t i = 0; i < p->part_count; i++) {
		if (memcmp(p->known[i].key, known->key, RIO_KEY_BYTES) == 0)
			return config_complain(r, r->words[2],
					       "another part has this key; each needs its own");
	}
	return true;
}

static bool read_part(struct config_reader *r)
{
	enum { PLATFORM = 4 }; /* those of parts are 4.1, 4.2 and so on */
	struct fabric_parts *p = parts_of(r);
	struct fabric_part part = { .name = r->words[1], .line = r->line };
	struct rio_known known = { .platform = { PLATFORM, p->part_count + 1 },
				   .role = RIO_FABRIC_PART };

	if (!rio_config_name(r, r->words[1]) || !key_read(r, &known))
		return false;
	if (name_find(p, part.name) != FABRIC_PART_NONE)
		return config_complain(r, r->words[1], "another part has this name");
	if (p->part_count == FABRIC_PARTS_MAX)
		return config_complain(r, r->words[0], "there can be 64 parts");
	if (r->count > 3 && (weft_address_parse(r->words[3], &part.address) != WEFT_OK ||
			     part.address.family == 0 || part.address.port == 0))
		return config_complain(r, r->words[3],
				       "an address is 192.0.2.1:7490 or [2001:db8::1]:7490");
	p->known[p->part_count] = known;
	p->parts[p->part_count++] = part;
	return true;
}

static bool read_nodes(struct config_reader *r)
{
	struct fabric_parts *p = parts_of(r);
	uint32_t part = name_find(p, r->words[1]);

	if (part == FABRIC_PART_NONE)
		return config_complain(r, r->words[1], "there is no part of this name above");
	if (p->pattern_count == FABRIC_PATTERNS_MAX)
		return config_complain(r, r->words[0], "there can be 4096 lines of nodes");
	p->patterns[p->pattern_count++] = (struct fabric_pattern){ part, r->words[2] };
	return true;
}

static const struct config_keyword keywords[] = {
	{ "alive", 0, 2, 2, true, false, read_alive, "a line is: alive TIME" },
	{ "part", 0, 3, 4, false, false, read_part, "a line is: part NAME KEY [ADDRESS:PORT]" },
	{ "nodes", 0, 3, 3, false, true, read_nodes, "a line is: nodes PART NODE" },
};

bool fabric_parts_read(const char *text, size_t length, struct fabric_parts **parts,
		       struct config_complaint *complaint)
{
	struct fabric_parts *p = config_copy(offsetof(struct fabric_parts, text), text, length,
					     complaint);
	struct config_reader r = { .of = p,
				   .keywords = keywords,
				   .keyword_count = sizeof(keywords) / sizeof(keywords[0]),
				   .complaint = complaint };

	if (!p)
		return false;
	p->alive_ns = alive_usual_ns;
	if (!config_lines_read(&r, p->text, length)) {
		free(p);
		return false;
	}
	*parts = p;
	return true;
}

void fabric_parts_destroy(struct fabric_parts *p)
{
	free(p);
}

static bool is_named(const char *pattern, const char *name)
{
	size_t length = strlen(pattern);

	if (length > 0 && pattern[length - 1] == '*')
		return strncmp(pattern, name, length - 1) == 0;
	return strcmp(pattern, name) == 0;
}

uint32_t fabric_parts_find(const struct fabric_parts *p, const struct topology_node *n)
{
	for (uint32_t i = 0; i < p->pattern_count; i++) {
		if (is_named(p->patterns[i].text, n->name) || is_named(p->patterns[i].text, n->id))
			return p->patterns[i].part;
	}
	return FABRIC_PART_NONE;
}

/* ---- A part of a topology ------------------------------------------------------------------- */

static bool parse(const char *text, size_t length, void *config, struct config_complaint *complaint)
{
	return fabric_parts_read(text, length, config, complaint);
}

static bool read_identity(struct fabric_cut *c, const struct fabric_cut_files *files,
			  char why[CONFIG_FILE_WHY])
{
	char usual[RIO_NAME_MAX + 8], key_why[KEY_FILE_WHY] = "there is no memory";
	const char *key = files->key;
	char *beside = NULL;
	bool is_read;

	(void)snprintf(usual, sizeof(usual), "%s.key", files->name);
	if (!key)
		key = beside = config_file_beside(files->parts, usual);
	is_read = key && key_file_read(key, &c->identity, key_why);
	free(beside);
	if (!is_read)
		return config_refuse(why, "%s", key_why);
	c->identity.platform = c->parts->known[c->self].platform;
	c->identity.role = RIO_FABRIC_PART;
	return memcmp(c->identity.key, c->parts->known[c->self].key, RIO_KEY_BYTES) == 0 ||
	       config_refuse(why, "%s:%u: the key of this part is another one", files->parts,
			     c->parts->parts[c->self].line);
}

static bool place(struct fabric_cut *c, const struct topology *t, const char *path,
		  char why[CONFIG_FILE_WHY])
{
	c->part_of = calloc(t->node_count + 1U, sizeof(*c->part_of));
	c->are_here = calloc(t->node_count + 1U, sizeof(*c->are_here));
	if (!c->part_of || !c->are_here)
		return config_refuse(why, "there is no memory");
	for (uint32_t i = 0; i < t->node_count; i++) {
		c->part_of[i] = fabric_parts_find(c->parts, &t->nodes[i]);
		c->are_here[i] = c->part_of[i] == c->self;
		if (c->part_of[i] == FABRIC_PART_NONE)
			return config_refuse(why, "%s: node %s is in no part", path,
					     t->nodes[i].name);
	}
	return true;
}

/* Two parts that cables join must find each other. */
static bool reach(const struct fabric_cut *c, const struct topology *t, const char *path,
		  char why[CONFIG_FILE_WHY])
{
	const struct fabric_part *self = &c->parts->parts[c->self];

	for (uint32_t i = 0; i < t->node_count; i++) {
		for (uint32_t k = 1; c->are_here[i] && k <= t->nodes[i].ports; k++) {
			uint32_t to = t->nodes[i].port[k].node;
			const struct fabric_part *other;

			if (to == TOPOLOGY_NONE || c->are_here[to])
				continue;
			other = &c->parts->parts[c->part_of[to]];
			if (self->address.port == 0 && other->address.port == 0)
				return config_refuse(
					why,
					"%s:%u: a cable joins part %s with part %s: one of "
					"them needs an address",
					path, other->line, self->name, other->name);
		}
	}
	return true;
}

/* What both ends of a trunk must have alike. */
static void digest_make(struct fabric_cut *c, const struct topology *t)
{
	crypto_generichash_state state;
	uint8_t alive_bytes[8];
	struct wr alive = wr_of(alive_bytes, sizeof(alive_bytes));

	(void)crypto_generichash_init(&state, NULL, 0, sizeof(c->digest));
	wr_u64(&alive, c->parts->alive_ns);
	(void)crypto_generichash_update(&state, alive_bytes, sizeof(alive_bytes));
	for (uint32_t i = 0; i < t->node_count; i++) {
		const struct topology_node *n = &t->nodes[i];
		uint8_t bytes[2 * TOPOLOGY_NAME_BYTES + 20] = { 0 };
		struct wr w = wr_of(bytes, sizeof(bytes));

		wr_u32(&w, (uint32_t)n->type);
		wr_u32(&w, n->ports);
		wr_u64(&w, n->guid);
		wr_u32(&w, c->part_of[i]);
		(void)snprintf((char *)w.at, TOPOLOGY_NAME_BYTES, "%s", n->name);
		(void)snprintf((char *)w.at + TOPOLOGY_NAME_BYTES, TOPOLOGY_NAME_BYTES, "%s",
			       n->id);
		(void)crypto_generichash_update(&state, bytes, sizeof(bytes));
		for (uint32_t k = 1; k <= n->ports; k++) {
			uint8_t cable[8];

			w = wr_of(cable, sizeof(cable));
			wr_u32(&w, n->port[k].node);
			wr_u32(&w, n->port[k].node == TOPOLOGY_NONE ? 0 : n->port[k].port);
			(void)crypto_generichash_update(&state, cable, sizeof(cable));
		}
	}
	(void)crypto_generichash_final(&state, c->digest, sizeof(c->digest));
}

bool fabric_cut_open(struct fabric_cut *c, const struct topology *t,
		     const struct fabric_cut_files *files, char why[CONFIG_FILE_WHY])
{
	*c = (struct fabric_cut){ .self = FABRIC_PART_NONE };
	if (!config_file_parse(files->parts, parse, &c->parts, why))
		return false;
	c->self = name_find(c->parts, files->name);
	if (c->self == FABRIC_PART_NONE)
		(void)config_refuse(why, "%s: there is no part %s", files->parts, files->name);
	else if (place(c, t, files->parts, why) && reach(c, t, files->parts, why) &&
		 read_identity(c, files, why)) {
		digest_make(c, t);
		return true;
	}
	fabric_cut_close(c);
	return false;
}

void fabric_cut_close(struct fabric_cut *c)
{
	sodium_memzero(&c->identity, sizeof(c->identity));
	fabric_parts_destroy(c->parts);
	free(c->part_of);
	free(c->are_here);
	*c = (struct fabric_cut){ 0 };
}

/* The one without an address; else the later one in the file. */
bool fabric_cut_dials(const struct fabric_cut *c, uint32_t other)
{
	if (c->parts->parts[other].address.port == 0)
		return false;
	return c->parts->parts[c->self].address.port == 0 || c->self > other;
}
