/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric: topologies of fabrics. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/fabric/make.h"
#include "cmd/fabric/picture.h"
#include "cmd/fabric/topology_file.h"
#include "fabric/topology.h"

static const char usage[] =
	"usage: weft fabric show FILE\n"
	"       weft fabric draw FILE [-o PICTURE]\n"
	"       weft fabric make FORM SIZE\n"
	"\n"
	"Reads a topology and says what is in it: nodes, and which cable joins which ports. FILE is what\n"
	"ibnetdiscover prints of a cluster, or a net file of ibsim (docs/fabric.md); - is the standard\n"
	"input.\n"
	"\n"
	"draw makes a picture of it, as SVG: a tree in layers, with switches above endnodes; else the\n"
	"switches in a circle. Names of nodes and ports are also shown where the pointer is.\n"
	"\n"
	"make prints a topology of a known form, in which each switch has as many ports as it needs:\n"
	"  fat-tree N      N endnodes at switches of 36 ports, in one, two or three levels;\n"
	"                  fat-tree NxP: at switches of P ports\n"
	"  torus XxYxZ     as many switches, an endnode at each; or XxY\n"
	"  dragonfly H     groups of 2H switches, each with H endnodes and H cables to other groups\n"
	"  ring N          N switches, an endnode at each\n"
	"\n"
	"Exit status 0: all nodes are joined. 1: not all, or the file is no topology.\n";

static const char *type_name(enum sm_node_type type)
{
	switch (type) {
	case SM_NODE_SWITCH:
		return "switch";
	case SM_NODE_ROUTER:
		return "router";
	case SM_NODE_CA:
	default:
		return "endnode";
	}
}

static void show_node(const struct topology *t, const struct topology_node *node, bool is_joined)
{
	uint32_t used = 0;

	for (uint32_t port = 1; port <= node->ports; port++)
		used += node->port[port].node != TOPOLOGY_NONE;
	printf("%s %s, %" PRIu32 " of %" PRIu32 " ports used", type_name(node->type), node->name,
	       used, node->ports);
	if (node->guid)
		printf(", GUID %016" PRIx64, node->guid);
	printf("%s\n", is_joined ? "" : ", not joined with the first node");
	for (uint32_t port = 1; port <= node->ports; port++) {
		const struct topology_port *p = &node->port[port];

		if (p->node != TOPOLOGY_NONE)
			printf("  %3" PRIu32 " - %s %" PRIu32 "\n", port, t->nodes[p->node].name,
			       p->port);
	}
}

/* True: all are joined. */
static bool show(const struct topology *t)
{
	uint32_t counts[SM_NODE_ROUTER + 1] = { 0 }, reached;
	uint8_t *marks = calloc(t->node_count + 1, 1);

	if (!marks) {
		fprintf(stderr, "weft fabric: no memory\n");
		return false;
	}
	reached = topology_reach(t, marks);
	for (uint32_t i = 0; i < t->node_count; i++) {
		show_node(t, &t->nodes[i], marks[i]);
		counts[t->nodes[i].type]++;
	}
	free(marks);
	printf("%" PRIu32 " endnode%s, %" PRIu32 " switch%s, %" PRIu32 " router%s, %" PRIu32
	       " cable%s\n",
	       counts[SM_NODE_CA], counts[SM_NODE_CA] == 1 ? "" : "s", counts[SM_NODE_SWITCH],
	       counts[SM_NODE_SWITCH] == 1 ? "" : "es", counts[SM_NODE_ROUTER],
	       counts[SM_NODE_ROUTER] == 1 ? "" : "s", t->cable_count,
	       t->cable_count == 1 ? "" : "s");
	if (reached < t->node_count)
		printf("%" PRIu32 " of %" PRIu32 " nodes are not joined with the first\n",
		       t->node_count - reached, t->node_count);
	return reached == t->node_count;
}

static int show_file(const char *path)
{
	struct topology t;
	int status;

	if (!topology_file_read(&t, "weft fabric", path))
		return 1;
	status = show(&t) ? 0 : 1;
	topology_fini(&t);
	return status;
}

static int draw_file(const char *path, const char *out)
{
	struct topology t;
	bool is_good;

	if (!topology_file_read(&t, "weft fabric", path))
		return 1;
	is_good = picture_save("weft fabric", out, &t, NULL);
	topology_fini(&t);
	return is_good ? 0 : 1;
}

static int cmd_fabric(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "show") == 0)
		return show_file(argv[2]);
	if (argc == 3 && strcmp(argv[1], "draw") == 0)
		return draw_file(argv[2], NULL);
	if (argc == 5 && strcmp(argv[1], "draw") == 0 && strcmp(argv[3], "-o") == 0)
		return draw_file(argv[2], argv[4]);
	if (argc > 1 && strcmp(argv[1], "make") == 0)
		return fabric_make(argc - 1, argv + 1);
	fprintf(stderr, "weft fabric: show or draw, and a file; or make, a form and a size\n\n%s",
		usage);
	return 2;
}

const struct command command_fabric = {
	.name = "fabric",
	.args = "show FILE | draw FILE | make FORM SIZE",
	.what = "a fabric of switches: its topology",
	.help = usage,
	.run = cmd_fabric,
};
