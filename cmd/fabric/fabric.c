/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric: topologies of fabrics, and fabrics that run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/fabric/fabric.h"
#include "cmd/topology/picture.h"
#include "cmd/topology/topology_file.h"
#include "fabric/topology.h"

const char fabric_help[] =
	"usage: weft fabric show FILE\n"
	"       weft fabric draw FILE [-o PICTURE]\n"
	"       weft fabric make FORM SIZE\n"
	"       weft fabric run FILE [--name NAME] [--mtu BYTES] [--spin TIME]\n"
	"                            [--parts PARTS --part PART [--key KEY]]\n"
	"       weft fabric bridge INTERFACE\n"
	"       weft fabric top [--once]\n"
	"       weft fabric capture NODE[:PORT] FILE\n"
	"       weft fabric cut NODE[:PORT]\n"
	"       weft fabric mend NODE[:PORT]\n"
	"       weft fabric errors NODE:PORT BITS\n"
	"       weft fabric degrade NODE:PORT PARTS\n"
	"\n"
	"A fabric is endnodes, switches and routers, and which cable joins which of their ports: a\n"
	"topology (docs/fabric.md). FILE is what ibnetdiscover prints of a cluster, or a net file of ibsim; -\n"
	"is the standard input. show says what is in it.\n"
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
	"run is a fabric, until SIGINT or SIGTERM. Programs are at a node of it by weft run, opensm first of\n"
	"all, as no port carries data before a subnet manager has made it active.\n"
	"\n"
	"top shows a fabric that runs, each second anew: its cables, their state and lanes, how full the\n"
	"buffers at both ends are, what passes, and what was damaged and dropped; and ports that wait for\n"
	"each other in a circle. capture writes the frames that pass a port, or any of a node, to a file for\n"
	"Wireshark and weft dump, until SIGINT or SIGTERM.\n"
	"\n"
	"bridge, which weft run starts at a node, hands IPv6 packets of the host's interface, which it makes,\n"
	"to raw queue pairs of other nodes by their GIDs, and theirs to the host.\n"
	"\n"
	"The others change cables of a fabric that runs: that of a port, or without a port all of a node.\n"
	"cut pulls them, mend plugs them in again. errors makes one bit in BITS wrong, 0 none any more;\n"
	"degrade leaves one of so many PARTS of a cable's rate, 1 all of it. NODE is a name in the topology,\n"
	"#NUMBER, or the GUID of a node or port as 0xGUID.\n"
	"\n"
	"  --name NAME     run: of the fabric, if several run on this host; programs and the other commands\n"
	"                  find it by WEFT_FABRIC\n"
	"  --mtu BYTES     run: the longest payload of a packet, 256 to 4096 (which it is if it is not said):\n"
	"                  with 256 packets are cut into cells as the split network card has them\n"
	"  --parts PARTS   run: the fabric is cut into parts, each a process, on one host or several, which\n"
	"                  cables join over TCP; the file says which parts, their keys and their nodes\n"
	"                  (docs/fabric.md). --part says which of them this one is, --key its secret key:\n"
	"                  PART.key beside the file if it is not said\n"
	"  --spin TIME     run: looks for frames so long before it sleeps, so that programs need not wake\n"
	"                  it; takes a processor meanwhile. Default 0s\n"
	"  --once          top: once, and what was counted since the fabric began\n"
	"\n"
	"Exit status 0: it was done; show: all nodes are joined. 1: not, and the reason is said.\n";

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

static int fabric_show(int argc, char **argv)
{
	struct topology t;
	int status;

	if (argc != 2)
		return fabric_misused("show takes a file");
	if (!topology_file_read(&t, "weft fabric", argv[1]))
		return 1;
	status = show(&t) ? 0 : 1;
	topology_fini(&t);
	return status;
}

static int fabric_draw(int argc, char **argv)
{
	struct topology t;
	bool is_good;

	if (argc != 2 && (argc != 4 || strcmp(argv[2], "-o") != 0))
		return fabric_misused("draw takes a file, and -o and the name of a picture");
	if (!topology_file_read(&t, "weft fabric", argv[1]))
		return 1;
	is_good = picture_save("weft fabric", argc == 4 ? argv[3] : NULL, &t, NULL);
	topology_fini(&t);
	return is_good ? 0 : 1;
}

int fabric_misused(const char *why)
{
	fprintf(stderr, "weft fabric: %s\n\n%s", why, fabric_help);
	return 2;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "bridge", fabric_bridge }, { "capture", fabric_capture }, { "cut", fabric_cable },
	{ "degrade", fabric_cable }, { "draw", fabric_draw },	    { "errors", fabric_cable },
	{ "make", fabric_make },     { "mend", fabric_cable },	    { "run", fabric_serve },
	{ "show", fabric_show },     { "top", fabric_top },
};

static int cmd_fabric(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	}
	return fabric_misused("what shall be done?");
}

const struct command command_fabric = {
	.name = "fabric",
	.args = "VERB ...",
	.what = "a fabric of switches: its topology, and one that runs",
	.help = fabric_help,
	.run = cmd_fabric,
};
