/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <stdio.h>

#include <weft/weft.h>

static const char usage[] = "usage: weft version\n\nPrints the version of weft.\n";

static int cmd_version(int argc, char **argv)
{
	if (argc > 1) {
		fprintf(stderr, "weft version: what is \"%s\"? It takes no arguments\n", argv[1]);
		return 2;
	}
	printf("weft %s\n", weft_version());
	return 0;
}

const struct command command_version = {
	.name = "version",
	.args = "",
	.what = "print the version",
	.help = usage,
	.run = cmd_version,
};
