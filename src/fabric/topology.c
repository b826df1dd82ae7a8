/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/topology.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- Words ---------------------------------------------------------------------------------- */

/* The rest of a line. */
struct words {
	const char *at, *end;
};

static void skip_blanks(struct words *w)
{
	while (w->at < w->end && (*w->at == ' ' || *w->at == '\t' || *w->at == '\r'))
		w->at++;
}

static bool take(struct words *w, char c)
{
	skip_blanks(w);
	if (w->at == w->end || *w->at != c)
		return false;
	w->at++;
	return true;
}

static bool take_word(struct words *w, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(w->end - w->at) < length || memcmp(w->at, word, length) != 0)
		return false;
	w->at += length;
	return true;
}

static bool take_decimal(struct words *w, uint32_t *value)
{
	const char *begin;

	skip_blanks(w);
	begin = w->at;
	for (*value = 0; w->at < w->end && *w->at >= '0' && *w->at <= '9'; w->at++) {
		if (w->at - begin > 8)
			return false;
		*value = *value * 10 + (uint32_t)(*w->at - '0');
	}
	return w->at > begin;
}

static bool take_hex(struct words *w, uint64_t *value)
{
	const char *begin;

	(void)take_word(w, "0x");
	begin = w->at;
	for (*value = 0; w->at < w->end; w->at++) {
		char c = *w->at;
		bool is_digit = c >= '0' && c <= '9';

		if (!is_digit && !(c >= 'a' && c <= 'f'))
			break;
		*value = *value << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
	}
	return w->at > begin && w->at - begin <= 16;
}

/* A text in quotes. LIMIT: it is too long. */
static enum weft_reason take_quoted(struct words *w, char text[TOPOLOGY_NAME_BYTES])
{
	const char *begin;

	if (!take(w, '"'))
		return WEFT_R_TOPOLOGY_LINE;
	begin = w->at;
	while (w->at < w->end && *w->at != '"')
		w->at++;
	if (w->at == w->end)
		return WEFT_R_TOPOLOGY_LINE;
	if (w->at - begin >= TOPOLOGY_NAME_BYTES)
		return WEFT_R_TOPOLOGY_LIMIT;
	memcpy(text, begin, (size_t)(w->at - begin));
	text[w->at++ - begin] = '\0';
	return WEFT_OK;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

enum kind { KIND_BLANK, KIND_GUID, KIND_NODE, KIND_PORT };

struct item {
	enum kind kind;
	uint64_t guid; /* of the node that follows */
	enum sm_node_type type;
	uint32_t ports;
	char id[TOPOLOGY_NAME_BYTES]; /* of the node, or of that at the other end */
	char name[TOPOLOGY_NAME_BYTES];
	uint32_t port, peer_port;
	char rate[TOPOLOGY_RATE_BYTES];
};

static const struct {
	const char *word;
	enum sm_node_type type;
} types[] = {
	{ "Switch", SM_NODE_SWITCH }, { "Ca", SM_NODE_CA },	    { "Hca", SM_NODE_CA },
	{ "Rt", SM_NODE_ROUTER },     { "Router", SM_NODE_ROUTER },
};

/* Switch 8 "S-0000000000200001"   # "S2" base port 0 lid 3 lmc 0 */
static enum weft_reason node_read(struct item *item, struct words *w)
{
	enum weft_reason reason;

	item->kind = KIND_NODE;
	if (!take_decimal(w, &item->ports) || item->ports == 0)
		return WEFT_R_TOPOLOGY_LINE;
	if (item->ports > TOPOLOGY_PORTS_MAX)
		return WEFT_R_TOPOLOGY_LIMIT;
	reason = take_quoted(w, item->id);
	if (reason != WEFT_OK)
		return reason;
	memcpy(item->name, item->id, sizeof(item->name));
	skip_blanks(w);
	if (w->at == w->end)
		return WEFT_OK;
	if (*w->at != '#')
		return WEFT_R_TOPOLOGY_LINE;
	w->at++;
	skip_blanks(w);
	return w->at < w->end && *w->at == '"' ? take_quoted(w, item->name) : WEFT_OK;
}

/* What a link carries of one of its wires, after its encoding. */
static const struct {
	const char *name;
	uint32_t mbps;
} speeds[] = {
	{ "SDR", 2000 },  { "DDR", 4000 },  { "QDR", 8000 },  { "FDR10", 10000 }, { "FDR", 13636 },
	{ "EDR", 24242 }, { "HDR", 48485 }, { "NDR", 96970 }, { "XDR", 193939 },
};

uint32_t topology_rate_mbps(const char *rate)
{
	struct words w = { rate, rate + strlen(rate) };
	uint32_t width;

	if (!take_decimal(&w, &width) || width > 12 || !take_word(&w, "x"))
		return 0;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
		if (strcmp(w.at, speeds[i].name) == 0)
			return width * speeds[i].mbps;
	return 0;
}

/* The last word of a cable's comment, if it is a width and a speed. */
static void rate_read(struct item *item, const struct words *w)
{
	const char *end = w->end, *begin;
	char rate[TOPOLOGY_RATE_BYTES] = "";

	while (end > w->at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	for (begin = end; begin > w->at && begin[-1] != ' ' && begin[-1] != '\t'; begin--)
		continue;
	if (end - begin >= TOPOLOGY_RATE_BYTES)
		return;
	memcpy(rate, begin, (size_t)(end - begin));
	if (topology_rate_mbps(rate) > 0)
		memcpy(item->rate, rate, sizeof(rate));
}

/* [1](10000a)   "S-0000000000200001"[3]   # lid 6 lmc 0 "S2" lid 3 4xSDR */
static enum weft_reason port_read(struct item *item, struct words *w)
{
	enum weft_reason reason;
	uint64_t guid;

	item->kind = KIND_PORT;
	if (!take_decimal(w, &item->port) || !take(w, ']') ||
	    (take(w, '(') && !(take_hex(w, &guid) && take(w, ')'))))
		return WEFT_R_TOPOLOGY_LINE;
	reason = take_quoted(w, item->id);
	if (reason != WEFT_OK)
		return reason;
	if (!take(w, '[') || !take_decimal(w, &item->peer_port) || !take(w, ']') ||
	    (take(w, '(') && !(take_hex(w, &guid) && take(w, ')'))))
		return WEFT_R_TOPOLOGY_LINE;
	skip_blanks(w);
	if (w->at == w->end)
		return WEFT_OK;
	if (*w->at != '#')
		return WEFT_R_TOPOLOGY_LINE;
	rate_read(item, w);
	return WEFT_OK;
}

/* switchguid=0x200001(200001), vendid=0x0: a name of small letters, and a value. */
static enum weft_reason key_read(struct item *item, struct words *w)
{
	bool is_guid = take_word(w, "switchguid=") || take_word(w, "caguid=") ||
		       take_word(w, "rtguid=");

	item->kind = is_guid ? KIND_GUID : KIND_BLANK;
	if (is_guid)
		return take_hex(w, &item->guid) ? WEFT_OK : WEFT_R_TOPOLOGY_LINE;
	while (w->at < w->end && *w->at >= 'a' && *w->at <= 'z')
		w->at++;
	return w->at < w->end && *w->at == '=' ? WEFT_OK : WEFT_R_TOPOLOGY_LINE;
}

static enum weft_reason line_read(struct item *item, struct words *w)
{
	*item = (struct item){ .kind = KIND_BLANK };
	skip_blanks(w);
	if (w->at == w->end || *w->at == '#')
		return WEFT_OK;
	if (take(w, '['))
		return port_read(item, w);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct words after = *w;

		if (!take_word(&after, types[i].word) || after.at == after.end ||
		    (*after.at != ' ' && *after.at != '\t'))
			continue;
		item->type = types[i].type;
		return node_read(item, &after);
	}
	return key_read(item, w);
}

/* The next line; false: there is none. */
static bool line_next(struct words *rest, struct words *line)
{
	if (rest->at == rest->end)
		return false;
	*line = *rest;
	line->end = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
	rest->at = line->end ? line->end + 1 : rest->end;
	if (!line->end)
		line->end = rest->end;
	return true;
}

/* ---- Nodes by their ids --------------------------------------------------------------------- */

static uint32_t *bucket_of(struct topology *t, const char *id)
{
	uint32_t hash = UINT32_C(2166136261), at;

	for (const char *c = id; *c; c++)
		hash = (hash ^ (uint8_t)*c) * UINT32_C(16777619);
	/* More buckets than nodes: one of them is free. */
	for (at = hash % t->bucket_count; t->buckets[at] != TOPOLOGY_NONE;
	     at = (at + 1) % t->bucket_count)
		if (strcmp(t->nodes[t->buckets[at]].id, id) == 0)
			break;
	return &t->buckets[at];
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* What is read in one pass over the text. */
struct pass {
	struct topology *t;
	uint64_t guid;	/* of the next node */
	uint32_t nodes; /* so far */
	uint64_t ports;
};

static enum weft_reason count(struct pass *p, const struct item *item)
{
	if (item->kind != KIND_NODE)
		return WEFT_OK;
	p->ports += item->ports + 1;
	return ++p->nodes > TOPOLOGY_NODES_MAX ? WEFT_R_TOPOLOGY_LIMIT : WEFT_OK;
}

static enum weft_reason add_node(struct pass *p, const struct item *item)
{
	struct topology *t = p->t;
	struct topology_node *node = &t->nodes[p->nodes];
	uint32_t *bucket;

	if (item->kind == KIND_GUID)
		p->guid = item->guid;
	if (item->kind != KIND_NODE)
		return WEFT_OK;
	bucket = bucket_of(t, item->id);
	if (*bucket != TOPOLOGY_NONE)
		return WEFT_R_TOPOLOGY_NODE;
	*bucket = p->nodes++;
	*node = (struct topology_node){ .type = item->type, .ports = item->ports, .guid = p->guid };
	memcpy(node->id, item->id, sizeof(node->id));
	memcpy(node->name, item->name, sizeof(node->name));
	node->port = &t->ports[p->ports];
	for (uint32_t port = 0; port <= item->ports; port++)
		node->port[port].node = TOPOLOGY_NONE;
	p->ports += item->ports + 1;
	p->guid = 0;
	return WEFT_OK;
}

/* An end of a cable is free, or says the same already. */
static bool fits(const struct topology_port *port, uint32_t node, uint32_t number)
{
	return port->node == TOPOLOGY_NONE || (port->node == node && port->port == number);
}

static enum weft_reason add_cable(struct pass *p, const struct item *item)
{
	struct topology *t = p->t;
	uint32_t own = p->nodes - 1, peer;
	struct topology_port *here, *there;

	p->nodes += item->kind == KIND_NODE;
	if (item->kind != KIND_PORT)
		return WEFT_OK;
	if (p->nodes == 0)
		return WEFT_R_TOPOLOGY_LINE; /* a port of no node */
	peer = *bucket_of(t, item->id);
	if (peer == TOPOLOGY_NONE)
		return WEFT_R_TOPOLOGY_NODE;
	if (item->port == 0 || item->port > t->nodes[own].ports || item->peer_port == 0 ||
	    item->peer_port > t->nodes[peer].ports ||
	    (own == peer && item->port == item->peer_port))
		return WEFT_R_TOPOLOGY_PORT;
	here = &t->nodes[own].port[item->port];
	there = &t->nodes[peer].port[item->peer_port];
	if (!fits(here, peer, item->peer_port) || !fits(there, own, item->port))
		return WEFT_R_TOPOLOGY_PORT;
	t->cable_count += here->node == TOPOLOGY_NONE;
	here->node = peer;
	here->port = item->peer_port;
	there->node = own;
	there->port = item->port;
	if (item->rate[0] == '\0')
		return WEFT_OK;
	memcpy(here->rate, item->rate, sizeof(here->rate));
	memcpy(there->rate, item->rate, sizeof(there->rate));
	return WEFT_OK;
}

static enum weft_reason each_line(struct pass *p, struct words text, uint32_t *line,
				  enum weft_reason (*act)(struct pass *, const struct item *))
{
	struct words words;

	p->nodes = 0;
	p->ports = 0;
	for (*line = 1; line_next(&text, &words); ++*line) {
		struct item item;
		enum weft_reason reason = line_read(&item, &words);

		if (reason == WEFT_OK)
			reason = act(p, &item);
		if (reason != WEFT_OK)
			return reason;
	}
	return WEFT_OK;
}

static bool make_room(struct topology *t, const struct pass *p)
{
	t->node_count = p->nodes;
	t->bucket_count = 2 * p->nodes + 1;
	t->nodes = calloc(p->nodes + 1, sizeof(*t->nodes));
	t->ports = calloc((size_t)p->ports + 1, sizeof(*t->ports));
	t->buckets = malloc(t->bucket_count * sizeof(*t->buckets));
	for (uint32_t i = 0; t->buckets && i < t->bucket_count; i++)
		t->buckets[i] = TOPOLOGY_NONE;
	return t->nodes && t->ports && t->buckets;
}

enum weft_reason topology_parse(struct topology *t, const char *text, size_t length, uint32_t *line)
{
	struct words words = { text, text + length };
	struct pass p = { .t = t };
	enum weft_reason reason;

	*t = (struct topology){ .node_count = 0 };
	reason = each_line(&p, words, line, count);
	if (reason != WEFT_OK)
		return reason;
	if (!make_room(t, &p))
		reason = WEFT_R_NO_MEMORY;
	if (reason == WEFT_OK)
		reason = each_line(&p, words, line, add_node);
	if (reason == WEFT_OK)
		reason = each_line(&p, words, line, add_cable);
	if (reason != WEFT_OK)
		topology_fini(t);
	return reason;
}

void topology_fini(struct topology *t)
{
	free(t->nodes);
	free(t->ports);
	free(t->buckets);
	*t = (struct topology){ .node_count = 0 };
}

/* ---- Looking -------------------------------------------------------------------------------- */

/* Ways go on through switches and routers; each round reaches one more node at least. */
uint32_t topology_reach(const struct topology *t, uint8_t *marks)
{
	uint32_t reached = t->node_count > 0, before;

	memset(marks, 0, t->node_count);
	if (reached > 0)
		marks[0] = 1;
	do {
		before = reached;
		for (uint32_t i = 0; i < t->node_count; i++) {
			const struct topology_node *node = &t->nodes[i];

			if (!marks[i] || (node->type == SM_NODE_CA && i > 0))
				continue;
			for (uint32_t port = 1; port <= node->ports; port++) {
				uint32_t peer = node->port[port].node;

				if (peer == TOPOLOGY_NONE || marks[peer])
					continue;
				marks[peer] = 1;
				reached++;
			}
		}
	} while (reached != before);
	return reached;
}
