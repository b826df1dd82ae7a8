/* SPDX-License-Identifier: BSD-2-Clause */
/* weft devices: what a program under weft run sees. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/run/device_list.h"
#include "driver/observe/observe.h"

static const char usage[] =
	"usage: weft devices\n"
	"\n"
	"Lists the RDMA devices that programs see under weft run: two for each network interface that\n"
	"is up and has an address, of RoCE (roce_) and of iWARP (iw_). Addresses of RoCE have the index\n"
	"of their GID before them. Within this host, connections of RoCE go by shared memory: near, as\n"
	"WEFT_NEAR allows it. WEFT_DEVICES=NAME,NAME narrows the list. The exit status is 1 if there\n"
	"are none.\n";

/* How connections between programs of this host go. */
static const char *within_host(const struct device_row *row)
{
	static const char *const words[] = {
		[NEAR_WISH_ON] = "near", [NEAR_WISH_OFF] = "UDP", [NEAR_WISH_PACKETS] = "packets"
	};
	const char *name = observe_wish("WEFT_NEAR");
	enum near_wish wish = NEAR_WISH_ON;

	if (name)
		(void)near_named(name, &wish);
	return strncmp(row->name, "roce_", strlen("roce_")) != 0 ? "TCP" : words[wish];
}

/* The addresses of an interface, with spaces between. */
static void print_addresses(const struct ifaddrs *list, const char *interface)
{
	const char *before = "";

	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		char text[NI_MAXHOST];
		socklen_t length = sizeof(struct sockaddr_in);

		if (!device_list_is_of(i, interface) || !i->ifa_addr)
			continue;
		if (i->ifa_addr->sa_family == AF_INET6)
			length = sizeof(struct sockaddr_in6);
		else if (i->ifa_addr->sa_family != AF_INET)
			continue;
		if (getnameinfo(i->ifa_addr, length, text, sizeof(text), NULL, 0, NI_NUMERICHOST) !=
		    0)
			continue;
		printf("%s%s", before, text);
		before = " ";
	}
}

static void print_list(const struct device_list *devices)
{
	struct ifaddrs *list = NULL;

	(void)getifaddrs(&list); /* without it there are no addresses to show */
	printf("%-16s %-15s %-14s %-19s %-9s %s\n", "device", "interface", "state", "GUID",
	       "this host", "addresses");
	for (size_t i = 0; i < devices->count; i++) {
		const struct device_row *row = &devices->rows[i];
		unsigned int part[4];

		for (int j = 0; j < 4; j++)
			part[j] = (unsigned int)(row->guid >> (48 - 16 * j)) & 0xffff;
		printf("%-16s %-15s %-14s %04x:%04x:%04x:%04x %-9s ", row->name, row->interface,
		       row->state, part[0], part[1], part[2], part[3], within_host(row));
		if (row->gids[0])
			fputs(row->gids, stdout);
		else
			print_addresses(list, row->interface);
		putchar('\n');
	}
	freeifaddrs(list);
}

static int cmd_devices(int argc, char **argv)
{
	static struct device_list devices;
	struct dropin libraries;
	char why[2048];

	if (argc > 1) {
		fprintf(stderr, "weft devices: what is \"%s\"?\n\n%s", argv[1], usage);
		return 2;
	}
	if (dropin_find(&libraries) < 0) {
		fprintf(stderr,
			"weft devices: weft's libraries are not all in %s; build or install weft "
			"anew\n",
			libraries.directory);
		return 1;
	}
	if (device_list_read(&libraries, &devices, why, sizeof(why)) < 0) {
		fprintf(stderr, "weft devices: %s\n", why);
		return 1;
	}
	if (devices.count == 0) {
		device_list_why_none(&libraries, why, sizeof(why));
		fprintf(stderr, "weft devices: none: %s\n", why);
		return 1;
	}
	print_list(&devices);
	return 0;
}

const struct command command_devices = {
	.name = "devices",
	.args = "",
	.what = "the RDMA devices that such a program sees",
	.help = usage,
	.run = cmd_devices,
};
