/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <getopt.h>
#include <string.h>

#include "cmd/demo/demo_cluster.h"
#include "cmd/options.h"

enum { MIB = 1 << 20 };

static const uint64_t size_max = UINT64_C(64) << 30;

static const char help[] =
	"usage: weft demo cluster [--file] [--size N]\n"
	"\n"
	"Starts an owner, an I/O unit and requesters as processes on this machine, over loopback, with\n"
	"keys and configurations of their own in a folder that is removed at the end. Writes a device\n"
	"and reads it, checks every byte, has a request denied, and shows from the adapters' counters\n"
	"that the data went straight between requester and I/O unit, and none of it by the owner.\n"
	"The exit status is 0 if all of it was seen to be so.\n"
	"\n"
	"  --file      the device is a file in that folder; default: memory\n"
	"  --size N    bytes of the device, whole MiB, such as 1G; default 256M\n"
	"\n"
	"Colours are used on a terminal, unless NO_COLOR is set.\n";

static int cmd_demo(int argc, char **argv)
{
	struct demo_cluster_options o = { .size_bytes = 256 * MIB };
	const struct cmd_option options[] = {
		{ "file", .is_given = &o.is_file },
		{ "size", .read = quantity_size, .to = &o.size_bytes },
		{ 0 },
	};
	int status;

	if (!cmd_options_take(argc, argv, options, help, &status))
		return status;
	if (argc - optind != 1 || strcmp(argv[optind], "cluster") != 0 || o.size_bytes == 0 ||
	    o.size_bytes % MIB != 0 || o.size_bytes > size_max)
		return cmd_options_wrong(help);
	return demo_cluster(&o);
}

const struct command command_demo = {
	.name = "demo",
	.args = "cluster",
	.what = "see directed remote I/O between three roles on this machine",
	.help = help,
	.run = cmd_demo,
};
