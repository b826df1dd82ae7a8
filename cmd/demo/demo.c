/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/demo/demo_card.h"
#include "cmd/demo/demo_cluster.h"
#include "cmd/demo/demo_paging.h"
#include "cmd/options.h"

enum { MIB = 1 << 20 };

static const uint64_t size_max = UINT64_C(64) << 30;

static const char help[] =
	"usage: weft demo cluster [--file] [--size N]\n"
	"       weft demo paging [--size N] [--memory N]\n"
	"       weft demo card\n"
	"\n"
	"cluster: starts an owner, an I/O unit and requesters as processes on this machine, over\n"
	"loopback, with keys and configurations of their own in a folder that is removed at the end.\n"
	"Writes a device and reads it, checks every byte, has a request denied, and shows from the\n"
	"adapters' counters that the data went straight between requester and I/O unit, and none of it\n"
	"by the owner.\n"
	"\n"
	"paging: registers more memory than the process may have, and lets a peer, another process, read\n"
	"all of it over RoCE. Pages come when the adapter meets one that is away, and go for others; every\n"
	"byte is checked, and the counter of pins is zero whenever no packet is just being sent.\n"
	"\n"
	"card: makes three network namespaces, of a server on a LAN, of an I/O unit that has a card on it,\n"
	"and of a host, without privilege. Splits the card between unit and host, pings the server and\n"
	"fetches a page from it, and tells what crossed the wire. Needs ip, ping and /dev/net/tun.\n"
	"\n"
	"The exit status is 0 if all of it was seen to be so.\n"
	"\n"
	"  --file      cluster: the device is a file in that folder; default: memory\n"
	"  --size N    bytes of the device, or that are registered; whole MiB, such as 1G; default 256M\n"
	"              and 4G\n"
	"  --memory N  paging: what the process may have, of which a part is for pages; default 256M\n"
	"\n"
	"Colours are used on a terminal, unless NO_COLOR is set.\n";

static const uint64_t unset = UINT64_MAX;

static bool is_size(uint64_t bytes)
{
	return bytes == unset || (bytes > 0 && bytes % MIB == 0 && bytes <= size_max);
}

static uint64_t size_or(uint64_t bytes, uint64_t mibs)
{
	return bytes == unset ? mibs * MIB : bytes;
}

/* By the example's own words. */
static int demo_paging(uint64_t size_bytes, uint64_t memory_bytes)
{
	char name[] = "weft", size[] = "--size", memory[] = "--memory", values[2][32];
	char *argv[] = { name, size, values[0], memory, values[1], NULL };

	snprintf(values[0], sizeof(values[0]), "%" PRIu64 "M", size_bytes / MIB);
	snprintf(values[1], sizeof(values[1]), "%" PRIu64 "M", memory_bytes / MIB);
	return demo_paging_main(5, argv);
}

static int cmd_demo(int argc, char **argv)
{
	struct demo_cluster_options o = { .size_bytes = unset };
	uint64_t memory_bytes = unset;
	const struct cmd_option options[] = {
		{ "file", .is_given = &o.is_file },
		{ "memory", .read = quantity_size, .to = &memory_bytes },
		{ "size", .read = quantity_size, .to = &o.size_bytes },
		{ 0 },
	};
	const char *what;
	int status;

	if (!cmd_options_take(argc, argv, options, help, &status))
		return status;
	if (argc - optind != 1 || !is_size(o.size_bytes) || !is_size(memory_bytes))
		return cmd_options_wrong(help);
	what = argv[optind];
	if (strcmp(what, "cluster") == 0 && memory_bytes == unset) {
		o.size_bytes = size_or(o.size_bytes, 256);
		return demo_cluster(&o);
	}
	if (strcmp(what, "paging") == 0 && !o.is_file)
		return demo_paging(size_or(o.size_bytes, 4096), size_or(memory_bytes, 256));
	if (strcmp(what, "card") == 0 && !o.is_file && o.size_bytes == unset &&
	    memory_bytes == unset)
		return demo_card();
	return cmd_options_wrong(help);
}

const struct command command_demo = {
	.name = "demo",
	.args = "WHAT",
	.what = "see directed remote I/O, unpinned memory, or a split card at work",
	.help = help,
	.run = cmd_demo,
};
