/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the help of the plugin in the form that cmd/manual/manual.py reads. Not installed. */
#include <stdio.h>

#include "compat/nbdkit/help.h"

int main(void)
{
	printf("usage: %s\n\n%s\n\n  ", plugin_usage, plugin_description);
	for (const char *at = plugin_parameters; *at; at++) {
		putchar(*at);
		if (*at == '\n')
			fputs("  ", stdout);
	}
	puts("");
	return fflush(stdout) == 0 ? 0 : 1;
}
