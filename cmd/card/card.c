/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/card/card.h"

#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

const char card_help[] =
	"usage: weft card unit FILE                    serve the network card to hosts\n"
	"       weft card host FILE                    have the card of a unit as an interface here\n"
	"       weft card status [--json] [--watch SECONDS] [PID]\n"
	"                                              the ends of cards that run here, and their links\n"
	"       weft card bridge [OPTIONS] PORT PORT   join two frame ports of this machine\n"
	"\n"
	"A network card split between two machines (docs/card.md): the unit has the LAN, the host an\n"
	"interface whose frames are pushed to the unit by RDMA, and those of the LAN to the host. FILE\n"
	"names the port that has the frames, the other end, and its key. Both run until SIGINT or SIGTERM.\n"
	"A host dials its unit again and again; its interface is up while the unit's LAN is.\n"
	"\n"
	"status shows the ends of this user that run now, or the one of process PID: packets, bytes,\n"
	"pools of elements, and what waits for what.\n"
	"\n"
	"bridge passes Ethernet frames from each port to the other one, until SIGINT or SIGTERM. Then, and with\n"
	"--every meanwhile, it prints what it has counted. A port is one of (docs/card.md):\n"
	"\n"
	"  packet:INTERFACE    an interface that there is; needs CAP_NET_RAW\n"
	"  tap:INTERFACE       a TAP interface, made if there is none; needs CAP_NET_ADMIN, or a TAP\n"
	"                      interface that belongs to this user\n"
	"  socket:PATH         frames by a stream socket, as qemu -netdev stream and passt speak\n"
	"  socket:IP:PORT      the same by TCP\n"
	"  vhost-user:PATH     the network card of a guest of QEMU, or of DPDK, which connects there\n"
	"\n"
	"Behind the name, options of the port, after commas:\n"
	"\n"
	"  mac=ADDRESS     of an interface, or a socket: the card's MAC address\n"
	"  mtu=N           bytes of a packet, 68 to 65521\n"
	"  listen          socket: wait for a peer; else connect to one, again and again\n"
	"  connect         socket: the default\n"
	"  queues=N        tap: 1 to 16 queues of the interface, so that its host sends by several processors\n"
	"  fanout=N        packet: one of several ports of group N, which share what arrives\n"
	"\n"
	"  --every TIME    print counters so often: 1s, 500ms\n"
	"\n"
	"The exit status is 0 when it was told to end, 1 if a port cannot be opened, 2 if the command was\n"
	"called wrongly.\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "unit", card_unit },
	{ "host", card_host },
	{ "status", card_status },
	{ "bridge", card_bridge },
};

static int cmd_card(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	}
	fputs(card_help, stderr);
	return 2;
}

const struct command command_card = {
	.name = "card",
	.args = "VERB ...",
	.what = "a network card split between two machines",
	.help = card_help,
	.run = cmd_card,
};
