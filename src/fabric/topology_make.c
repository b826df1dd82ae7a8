/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/topology_make.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fabric/switch.h"

enum { PORTS = 36, FIRST_GUID = 0x100000 };

struct maker {
	struct topology *t;
	uint32_t nodes, switches, ports; /* so far */
};

static bool begin(struct maker *m, struct topology *t, uint64_t nodes, uint64_t ports)
{
	*t = (struct topology){ .node_count = 0 };
	*m = (struct maker){ .t = t };
	t->nodes = calloc(nodes, sizeof(*t->nodes));
	t->ports = calloc(nodes + ports, sizeof(*t->ports));
	if (t->nodes && t->ports)
		return true;
	topology_fini(t);
	return false;
}

static void name_put(char name[TOPOLOGY_NAME_BYTES], char letter, uint32_t number)
{
	char digits[16];
	uint32_t count = 0;

	for (; number > 0; number /= 10)
		digits[count++] = (char)('0' + number % 10);
	*name++ = letter;
	while (count > 0)
		*name++ = digits[--count];
	*name = '\0';
}

static uint32_t add(struct maker *m, enum sm_node_type type, uint32_t ports)
{
	uint32_t node = m->nodes++, *count = &m->switches;
	struct topology_node *n = &m->t->nodes[node];

	m->switches += type == SM_NODE_SWITCH;
	*n = (struct topology_node){ .type = type, .ports = ports };
	name_put(n->id, type == SM_NODE_SWITCH ? 'S' : 'H',
		 type == SM_NODE_SWITCH ? *count : m->nodes - *count);
	memcpy(n->name, n->id, sizeof(n->name));
	n->guid = FIRST_GUID + ((uint64_t)m->nodes << 8);
	n->port = &m->t->ports[m->ports];
	for (uint32_t port = 0; port <= ports; port++)
		n->port[port].node = TOPOLOGY_NONE;
	m->ports += ports + 1;
	m->t->node_count = m->nodes;
	return node;
}

static void join(struct maker *m, uint32_t a, uint32_t port_a, uint32_t b, uint32_t port_b)
{
	struct topology_node *nodes = m->t->nodes;

	CHECK(port_a > 0 && port_a <= nodes[a].ports && port_b > 0 && port_b <= nodes[b].ports);
	nodes[a].port[port_a] = (struct topology_port){ .node = b, .port = port_b };
	nodes[b].port[port_b] = (struct topology_port){ .node = a, .port = port_a };
	m->t->cable_count++;
}

static void add_endnode(struct maker *m, uint32_t at, uint32_t port)
{
	join(m, at, port, add(m, SM_NODE_CA, 1), 1);
}

/* ---- Fat tree ------------------------------------------------------------------------------- */

static uint32_t parts_of(uint32_t whole, uint32_t part)
{
	return (whole + part - 1) / part;
}

/* Two levels: every leaf has a cable to each spine. */
static void two_levels(struct maker *m, uint32_t ends, uint32_t ports)
{
	uint32_t half = ports / 2, leaves = parts_of(ends, half);

	for (uint32_t i = 0; i < leaves + half; i++)
		(void)add(m, SM_NODE_SWITCH, ports);
	for (uint32_t leaf = 0; leaf < leaves; leaf++)
		for (uint32_t up = 0; up < half; up++)
			join(m, leaf, half + up + 1, leaves + up, leaf + 1);
	for (uint32_t end = 0; end < ends; end++)
		add_endnode(m, end / half, end % half + 1);
}

/* Three: pods of two levels, whose upper switches have a cable to each core of their row. */
static void three_levels(struct maker *m, uint32_t ends, uint32_t ports)
{
	uint32_t half = ports / 2, leaves = parts_of(ends, half), pods = parts_of(leaves, half);
	uint32_t uppers = leaves, cores = uppers + pods * half;

	for (uint32_t i = 0; i < cores + half * half; i++)
		(void)add(m, SM_NODE_SWITCH, ports);
	for (uint32_t leaf = 0; leaf < leaves; leaf++)
		for (uint32_t up = 0; up < half; up++)
			join(m, leaf, half + up + 1, uppers + leaf / half * half + up,
			     leaf % half + 1);
	for (uint32_t upper = 0; upper < pods * half; upper++)
		for (uint32_t up = 0; up < half; up++)
			join(m, uppers + upper, half + up + 1, cores + upper % half * half + up,
			     upper / half + 1);
	for (uint32_t end = 0; end < ends; end++)
		add_endnode(m, end / half, end % half + 1);
}

static enum weft_reason make_fat_tree(struct topology *t, uint32_t ends, uint32_t ports)
{
	uint32_t half = ports / 2, pods = half > 0 ? parts_of(parts_of(ends, half), half) : 0;
	uint64_t switches = (uint64_t)2 * pods * half + half * half;
	struct maker m;

	if (ends == 0 || half == 0 || ports > FABRIC_PORTS_MAX || pods > ports ||
	    ends + switches > TOPOLOGY_NODES_MAX)
		return WEFT_R_TOPOLOGY_LIMIT;
	if (!begin(&m, t, ends + switches + 1, ends + (switches + 1) * ports))
		return WEFT_R_NO_MEMORY;
	if (ends <= ports) {
		(void)add(&m, SM_NODE_SWITCH, ports);
		for (uint32_t end = 0; end < ends; end++)
			add_endnode(&m, 0, end + 1);
	} else if (parts_of(ends, half) <= ports) {
		two_levels(&m, ends, ports);
	} else {
		three_levels(&m, ends, ports);
	}
	return WEFT_OK;
}

/* ---- Torus and ring ------------------------------------------------------------------------- */

/* A ring of two has one cable, one of one none. */
static void join_next(struct maker *m, const uint32_t size[3], uint32_t at, int dimension)
{
	uint32_t step = 1, here, next;

	for (int i = 0; i < dimension; i++)
		step *= size[i];
	here = at / step % size[dimension];
	next = here + 1 < size[dimension] ? at + step : at - here * step;
	if (size[dimension] > 2 || (size[dimension] == 2 && here == 0))
		join(m, at, 2 + 2 * (uint32_t)dimension, next, 3 + 2 * (uint32_t)dimension);
}

static enum weft_reason make_torus(struct topology *t, const uint32_t size[3])
{
	enum { DIMENSIONS = 3, TORUS_PORTS = 1 + 2 * DIMENSIONS, SIDE_MAX = 1 << 10 };
	uint64_t count = 1;
	struct maker m;

	for (int i = 0; i < DIMENSIONS; i++) {
		if (size[i] == 0 || size[i] > SIDE_MAX)
			return WEFT_R_TOPOLOGY_LIMIT;
		count *= size[i];
	}
	if (2 * count > TOPOLOGY_NODES_MAX)
		return WEFT_R_TOPOLOGY_LIMIT;
	if (!begin(&m, t, 2 * count, (TORUS_PORTS + 1) * count))
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < count; i++)
		(void)add(&m, SM_NODE_SWITCH, TORUS_PORTS);
	for (uint32_t i = 0; i < count; i++)
		for (int dimension = 0; dimension < DIMENSIONS; dimension++)
			join_next(&m, size, i, dimension);
	for (uint32_t i = 0; i < count; i++)
		add_endnode(&m, i, 1);
	return WEFT_OK;
}

/* ---- Dragonfly ------------------------------------------------------------------------------ */

/* Ports of a switch: endnodes, its group, other groups. */
static void join_groups(struct maker *m, uint32_t h, uint32_t groups)
{
	uint32_t in_group = 2 * h, global = h + in_group;

	for (uint32_t a = 0; a < groups; a++)
		for (uint32_t b = a + 1; b < groups; b++) {
			uint32_t from = b - a - 1, to = groups - 1 - (b - a);

			join(m, a * in_group + from / h, global + from % h, b * in_group + to / h,
			     global + to % h);
		}
}

static enum weft_reason make_dragonfly(struct topology *t, uint32_t h)
{
	uint32_t in_group = 2 * h, groups = in_group * h + 1, ports = h + in_group - 1 + h;
	uint64_t switches = (uint64_t)groups * in_group;
	struct maker m;

	if (h == 0 || ports > FABRIC_PORTS_MAX || switches * (h + 1) > TOPOLOGY_NODES_MAX)
		return WEFT_R_TOPOLOGY_LIMIT;
	if (!begin(&m, t, switches * (h + 1), switches * (ports + h)))
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < switches; i++)
		(void)add(&m, SM_NODE_SWITCH, ports);
	for (uint32_t first = 0; first < switches; first += in_group)
		for (uint32_t a = 0; a < in_group; a++)
			for (uint32_t b = a + 1; b < in_group; b++)
				join(&m, first + a, h + b, first + b, h + a + 1);
	join_groups(&m, h, groups);
	for (uint32_t i = 0; i < switches; i++)
		for (uint32_t end = 0; end < h; end++)
			add_endnode(&m, i, end + 1);
	return WEFT_OK;
}

/* --------------------------------------------------------------------------------------------- */

enum weft_reason topology_make(struct topology *t, const struct topology_plan *plan)
{
	uint32_t size[3] = { plan->size[0], plan->size[1], plan->size[2] };

	switch (plan->form) {
	case TOPOLOGY_FAT_TREE:
		return make_fat_tree(t, size[0], size[1] > 0 ? size[1] : PORTS);
	case TOPOLOGY_DRAGONFLY:
		return make_dragonfly(t, size[0]);
	case TOPOLOGY_RING:
		if (size[0] < 3)
			return WEFT_R_TOPOLOGY_LIMIT;
		size[1] = size[2] = 1;
		return make_torus(t, size);
	default:
		for (int i = 1; i < 3; i++)
			size[i] = size[i] > 0 ? size[i] : 1;
		return make_torus(t, size);
	}
}
