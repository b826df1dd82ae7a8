/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/topology/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MARGIN = 60,
	STEP = 56,   /* between nodes of a layer */
	LAYER = 150, /* between layers */
	FOOT = 56,   /* what the picture says below */
	ENDNODE = 10,
	SWITCH = 15,
	LABELS_MAX = 64, /* cables with a text of their own */
	NAMES_MAX = 400, /* nodes with one */
	ROUNDS = 3,
	NO_TIER = UINT32_MAX
};

struct place {
	double x, y;
	uint32_t tier; /* 0: endnodes; 1: switches that have some; NO_TIER: joined with none */
	double want;   /* where in its row it is best, by its neighbours */
};

struct picture {
	FILE *to;
	const struct topology *t;
	const double *loads;
	struct place *places;
	uint32_t top;
	double width, height;
	const char *rate; /* of all cables; NULL: they differ */
};

/* ---- Layers --------------------------------------------------------------------------------- */

static bool is_endnode(const struct picture *p, uint32_t node)
{
	return p->t->nodes[node].type == SM_NODE_CA;
}

/* One layer more each round. */
static bool tier_spread(struct picture *p, uint32_t tier)
{
	bool has_new = false;

	for (uint32_t node = 0; node < p->t->node_count; node++) {
		if (p->places[node].tier != tier)
			continue;
		for (uint32_t port = 1; port <= p->t->nodes[node].ports; port++) {
			uint32_t next = p->t->nodes[node].port[port].node;

			if (next == TOPOLOGY_NONE || p->places[next].tier != NO_TIER)
				continue;
			p->places[next].tier = tier + 1;
			has_new = true;
		}
	}
	return has_new;
}

static void tiers_find(struct picture *p)
{
	for (uint32_t node = 0; node < p->t->node_count; node++)
		p->places[node].tier = is_endnode(p, node) ? 0 : NO_TIER;
	while (tier_spread(p, p->top))
		p->top++;
	/* What no endnode leads to is at the top. */
	p->top += p->top == 0;
	for (uint32_t node = 0; node < p->t->node_count; node++)
		if (p->places[node].tier == NO_TIER)
			p->places[node].tier = p->top;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* qsort() has no room for a pointer of its own. */
struct wish {
	double want;
	uint32_t node;
};

static int wish_compare(const void *a, const void *b)
{
	const struct wish *x = a, *y = b;

	if (x->want != y->want)
		return x->want < y->want ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* The middle of a node's neighbours in another tier; where it is if it has none there. */
static double middle(const struct picture *p, uint32_t node, uint32_t tier)
{
	double sum = 0;
	uint32_t count = 0;

	for (uint32_t port = 1; port <= p->t->nodes[node].ports; port++) {
		uint32_t next = p->t->nodes[node].port[port].node;

		if (next == TOPOLOGY_NONE || p->places[next].tier != tier)
			continue;
		sum += p->places[next].x;
		count++;
	}
	return count > 0 ? sum / count : p->places[node].x;
}

/* Nodes of a tier in the order of what they want, spread over the width. */
static void row_place(struct picture *p, uint32_t tier, struct wish *wishes)
{
	uint32_t count = 0;

	for (uint32_t node = 0; node < p->t->node_count; node++)
		if (p->places[node].tier == tier)
			wishes[count++] = (struct wish){ p->places[node].want, node };
	qsort(wishes, count, sizeof(*wishes), wish_compare);
	for (uint32_t i = 0; i < count; i++) {
		struct place *at = &p->places[wishes[i].node];

		at->x = MARGIN + (p->width - 2.0 * MARGIN) * (2 * i + 1) / (2.0 * count);
		at->y = MARGIN + (double)(p->top - tier) * LAYER;
	}
}

static void wants_of(struct picture *p, uint32_t tier, uint32_t by)
{
	for (uint32_t node = 0; node < p->t->node_count; node++)
		if (p->places[node].tier == tier)
			p->places[node].want = middle(p, node, by);
}

/* Nodes lie below what they are joined with: switches first as they come, then by turns. */
static void rows_make(struct picture *p, struct wish *wishes)
{
	uint32_t most = 1;

	for (uint32_t tier = 0; tier <= p->top; tier++) {
		uint32_t count = 0;

		for (uint32_t node = 0; node < p->t->node_count; node++)
			count += p->places[node].tier == tier;
		most = count > most ? count : most;
	}
	p->width = 2.0 * MARGIN + (most < 6 ? 6 : most) * (double)STEP;
	p->height = 2.0 * MARGIN + p->top * (double)LAYER + FOOT;
	for (uint32_t node = 0; node < p->t->node_count; node++)
		p->places[node].want = node;
	for (uint32_t tier = 0; tier <= p->top; tier++)
		row_place(p, tier, wishes);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t tier = 1; tier <= p->top; tier++) {
			wants_of(p, tier - 1, tier);
			row_place(p, tier - 1, wishes);
		}
		for (uint32_t tier = 2; tier <= p->top; tier++) {
			wants_of(p, tier, tier - 1);
			row_place(p, tier, wishes);
		}
	}
}

/* ---- A circle ------------------------------------------------------------------------------- */

static void on_circle(struct picture *p, uint32_t node, double radius, double turn)
{
	const double whole = 2 * acos(-1.0);

	p->places[node].x = p->width / 2 + radius * sin(turn * whole);
	p->places[node].y = p->width / 2 - radius * cos(turn * whole);
}

/* Switches inside, in their order; each endnode outside, beside its switch. */
static void circle_make(struct picture *p, struct wish *wishes)
{
	uint32_t inner = 0, outer = 0, at = 0;
	double radius, wide;

	for (uint32_t node = 0; node < p->t->node_count; node++) {
		outer += is_endnode(p, node);
		inner += !is_endnode(p, node);
	}
	wide = inner > outer ? inner : outer;
	radius = wide * STEP / 6.3 < 120 ? 120 : wide * STEP / 6.3;
	p->width = 2 * (radius + STEP * 1.5 + MARGIN);
	p->height = p->width + FOOT;
	for (uint32_t node = 0; node < p->t->node_count; node++)
		if (!is_endnode(p, node)) {
			p->places[node].x = (double)at / inner;
			at++;
		}
	at = 0;
	for (uint32_t node = 0; node < p->t->node_count; node++)
		if (is_endnode(p, node))
			wishes[at++] = (struct wish){ middle(p, node, 1), node };
	qsort(wishes, at, sizeof(*wishes), wish_compare);
	for (uint32_t i = 0; i < outer; i++)
		on_circle(p, wishes[i].node, radius + STEP * 1.5, (i + 0.5) / outer - 0.5 / inner);
	at = 0;
	for (uint32_t node = 0; node < p->t->node_count; node++)
		if (!is_endnode(p, node))
			on_circle(p, node, radius, (double)at++ / inner);
}

/* ---- Texts ---------------------------------------------------------------------------------- */

static void print_text(const struct picture *p, const char *text)
{
	for (const char *c = text; *c; c++) {
		if (*c == '&')
			fputs("&amp;", p->to);
		else if (*c == '<')
			fputs("&lt;", p->to);
		else if (*c == '>')
			fputs("&gt;", p->to);
		else
			fputc(*c >= ' ' && *c <= '~' ? *c : '?', p->to);
	}
}

static const char *type_word(enum sm_node_type type)
{
	return type == SM_NODE_CA ? "endnode" : type == SM_NODE_SWITCH ? "switch" : "router";
}

/* From grey over orange to red. */
static void print_colour(const struct picture *p, uint32_t cable)
{
	double load;

	if (!p->loads) {
		fputs(" stroke=\"#8a97a3\" stroke-width=\"1.5\"", p->to);
		return;
	}
	load = p->loads[cable] > 1 ? 1 : p->loads[cable];
	fprintf(p->to, " stroke=\"rgb(%d,%d,%d)\" stroke-width=\"%.1f\"", (int)(150 + 70 * load),
		(int)(165 - 130 * load), (int)(175 - 145 * load), 1 + 4 * load);
}

/* ---- Cables --------------------------------------------------------------------------------- */

/* Which of the cables between the same two nodes it is, and how many these are. */
static uint32_t sibling(const struct topology_node *n, uint32_t port, uint32_t *count)
{
	uint32_t before = 0;

	*count = 0;
	for (uint32_t i = 1; i <= n->ports; i++) {
		if (n->port[i].node != n->port[port].node)
			continue;
		before += i < port;
		++*count;
	}
	return before;
}

static void print_cable(const struct picture *p, uint32_t cable, uint32_t node, uint32_t port)
{
	const struct topology_node *n = &p->t->nodes[node];
	const struct topology_port *to = &n->port[port];
	const struct place *a = &p->places[node], *b = &p->places[to->node];
	double dx = b->x - a->x, dy = b->y - a->y, length = sqrt(dx * dx + dy * dy), bend;
	uint32_t count, at = sibling(n, port, &count);
	double x, y;

	bend = (at - (count - 1) / 2.0) * 30;
	if (length < 1) { /* from a node to itself */
		length = dx = 1;
		bend = 4 * SWITCH;
	}
	x = (a->x + b->x) / 2 - dy / length * bend;
	y = (a->y + b->y) / 2 + dx / length * bend;
	fprintf(p->to, "<g class=\"cable\"><title>");
	print_text(p, n->name);
	fprintf(p->to, " port %" PRIu32 " - ", port);
	print_text(p, p->t->nodes[to->node].name);
	fprintf(p->to, " port %" PRIu32 "%s%s", to->port, to->rate[0] ? ", " : "", to->rate);
	if (p->loads)
		fprintf(p->to, ", load %.0f %%", 100 * p->loads[cable]);
	fprintf(p->to, "</title><path fill=\"none\"");
	print_colour(p, cable);
	if (node == to->node)
		fprintf(p->to, " d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>", a->x, a->y,
			x - bend, y, x + bend, y, b->x, b->y);
	else
		fprintf(p->to, " d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"/>", a->x, a->y, x, y, b->x,
			b->y);
	if (!p->rate && to->rate[0] && p->t->cable_count <= LABELS_MAX)
		fprintf(p->to,
			"<text x=\"%.1f\" y=\"%.1f\" font-size=\"9\" fill=\"#57636e\">%s</text>",
			(a->x + b->x + 2 * x) / 4, (a->y + b->y + 2 * y) / 4, to->rate);
	fprintf(p->to, "</g>\n");
}

static void print_cables(const struct picture *p)
{
	uint32_t cable = 0;

	for (uint32_t node = 0; node < p->t->node_count; node++)
		for (uint32_t port = 1; port <= p->t->nodes[node].ports; port++) {
			const struct topology_port *to = &p->t->nodes[node].port[port];

			if (to->node == TOPOLOGY_NONE || to->node < node ||
			    (to->node == node && to->port < port))
				continue;
			print_cable(p, cable++, node, port);
		}
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

/* In a switch if it is short, else below; white around it, as cables pass there. */
static void print_name(const struct picture *p, const struct topology_node *n,
		       const struct place *at)
{
	enum { INSIDE = 4 };
	double below = n->type == SM_NODE_CA ? ENDNODE + 13 : SWITCH + 13;

	if (n->type != SM_NODE_CA && strlen(n->name) <= INSIDE)
		below = 4;
	fprintf(p->to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11\" text-anchor=\"middle\"%s>",
		at->x, at->y + below,
		below > 4 ? " stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\"" : "");
	print_text(p, n->name);
	fprintf(p->to, "</text>");
}

static void print_node(const struct picture *p, uint32_t node)
{
	const struct topology_node *n = &p->t->nodes[node];
	const struct place *at = &p->places[node];

	fprintf(p->to, "<g class=\"node\"><title>");
	print_text(p, n->name);
	fprintf(p->to, ", %s, %" PRIu32 " port%s</title>", type_word(n->type), n->ports,
		n->ports == 1 ? "" : "s");
	if (n->type == SM_NODE_CA)
		fprintf(p->to,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"#dcebf7\" "
			"stroke=\"#2f6f9f\"/>",
			at->x, at->y, ENDNODE);
	else
		fprintf(p->to,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"%d\" "
			"fill=\"%s\" stroke=\"#1d2b36\"/>",
			at->x - SWITCH, at->y - SWITCH, 2 * SWITCH, 2 * SWITCH,
			n->type == SM_NODE_ROUTER ? SWITCH : 4,
			n->type == SM_NODE_ROUTER ? "#f3d9a4" : "#cfe3cf");
	if (p->t->node_count <= NAMES_MAX)
		print_name(p, n, at);
	fprintf(p->to, "</g>\n");
}

/* ---- All ------------------------------------------------------------------------------------ */

static const char *common_rate(const struct topology *t)
{
	const char *rate = NULL;

	for (uint32_t node = 0; node < t->node_count; node++)
		for (uint32_t port = 1; port <= t->nodes[node].ports; port++) {
			const struct topology_port *to = &t->nodes[node].port[port];

			if (to->node == TOPOLOGY_NONE)
				continue;
			if (rate && strcmp(rate, to->rate) != 0)
				return NULL;
			rate = to->rate;
		}
	return rate ? rate : "";
}

static void print_foot(const struct picture *p)
{
	uint32_t counts[SM_NODE_ROUTER + 1] = { 0 };

	for (uint32_t node = 0; node < p->t->node_count; node++)
		counts[p->t->nodes[node].type]++;
	fprintf(p->to,
		"<text x=\"%d\" y=\"%.1f\" font-size=\"13\">endnodes: %" PRIu32
		", switches: %" PRIu32 ", routers: %" PRIu32 ", cables: %" PRIu32 "%s%s%s</text>\n",
		MARGIN, p->height - FOOT / 2.0, counts[SM_NODE_CA], counts[SM_NODE_SWITCH],
		counts[SM_NODE_ROUTER], p->t->cable_count, p->rate && p->rate[0] ? ", each " : "",
		p->rate ? p->rate : "",
		p->loads ? "; the wider and redder a cable, the more it carried" : "");
}

/* Switches that all have endnodes, and are joined with each other, form no tree. */
static bool is_layered(const struct picture *p)
{
	uint32_t switches = 0;

	for (uint32_t node = 0; node < p->t->node_count; node++)
		switches += !is_endnode(p, node);
	return p->top > 1 || switches <= 2;
}

/* False: memory is short. */
static bool print(FILE *to, const struct topology *t, const double *loads)
{
	struct picture p = { .to = to, .t = t, .loads = loads, .rate = common_rate(t) };
	struct wish *wishes = malloc((t->node_count + 1U) * sizeof(*wishes));

	p.places = calloc(t->node_count + 1U, sizeof(*p.places));
	if (!wishes || !p.places) {
		free(wishes);
		free(p.places);
		return false;
	}
	tiers_find(&p);
	if (is_layered(&p))
		rows_make(&p, wishes);
	else
		circle_make(&p, wishes);
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
		p.width, p.height, p.width, p.height);
	print_cables(&p);
	for (uint32_t node = 0; node < t->node_count; node++)
		print_node(&p, node);
	print_foot(&p);
	fprintf(to, "</svg>\n");
	free(wishes);
	free(p.places);
	return true;
}

bool picture_save(const char *command, const char *path, const struct topology *t,
		  const double *loads)
{
	FILE *file = path ? fopen(path, "w") : stdout;
	bool is_good;

	if (!file) {
		fprintf(stderr, "%s: %s: %s\n", command, path, strerror(errno));
		return false;
	}
	is_good = print(file, t, loads);
	if (!is_good)
		fprintf(stderr, "%s: no memory\n", command);
	if ((path ? fclose(file) : fflush(file)) != 0) {
		fprintf(stderr, "%s: %s: %s\n", command, path ? path : "standard output",
			strerror(errno));
		is_good = false;
	}
	return is_good;
}
