/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

int cmd_version(int argc, char **argv)
{
	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		puts("usage: weft version");
		return 0;
	}
	if (argc > 1) {
		fprintf(stderr, "weft version: what is \"%s\"? It takes no arguments\n", argv[1]);
		return 2;
	}
	printf("weft %s\n", weft_version());
	return 0;
}
