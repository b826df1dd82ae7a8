/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "demo_cluster.h"

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

/* 0: go on; 1: help was asked for; 2: it is wrong. */
static int take_options(int argc, char **argv, struct demo_cluster_options *o)
{
	static const struct option names[] = {
		{ "file", no_argument, NULL, 'f' },
		{ "size", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (option == 'h')
			return 1;
		if (option == 'f')
			o->is_file = true;
		else if (option != 's' ||
			 !quantity_size((struct word){ optarg, (uint32_t)strlen(optarg) },
					&o->size_bytes))
			return 2;
	}
	if (argc - optind != 1 || strcmp(argv[optind], "cluster") != 0)
		return 2;
	return o->size_bytes == 0 || o->size_bytes % MIB != 0 || o->size_bytes > size_max ? 2 : 0;
}

int cmd_demo(int argc, char **argv)
{
	struct demo_cluster_options o = { .size_bytes = 256 * MIB };
	int wrong = take_options(argc, argv, &o);

	if (wrong == 0)
		return demo_cluster(&o);
	fputs(help, wrong == 1 ? stdout : stderr);
	return wrong == 1 ? 0 : 2;
}
