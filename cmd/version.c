/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd.h"

#include <stdio.h>

#include <weft/weft.h>

int cmd_version(int argc, char **argv)
{
	if (argc > 1) {
		fprintf(stderr, "weft version: what is \"%s\"? It takes no arguments\n", argv[1]);
		return 2;
	}
	printf("weft %s\n", weft_version());
	return 0;
}
