/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

int cmd_options_wrong(const char *help)
{
	fputs(help, stderr);
	return 2;
}

/* False: it is no such value. */
static bool take(const struct cmd_option *o, const char *value)
{
	if (o->is_given)
		*o->is_given = true;
	if (o->text)
		*o->text = value;
	if (!o->read || o->read((struct word){ value, (uint32_t)strlen(value) }, o->to))
		return true;
	fprintf(stderr, "weft: --%s %s: no such value\n", o->name, value);
	return false;
}

bool cmd_options_take(int argc, char **argv, const struct cmd_option *options, const char *help,
		      int *status)
{
	/* Their index is what getopt_long returns; the last is all zero. */
	struct option names[CMD_OPTIONS_MAX + 2] = { 0 };
	int count = 0, option;

	for (; options[count].name; count++) {
		CHECK(count < CMD_OPTIONS_MAX);
		names[count] = (struct option){ options[count].name,
						options[count].read || options[count].text
							? required_argument
							: no_argument,
						NULL, count };
	}
	names[count] = (struct option){ "help", no_argument, NULL, 'h' };
	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			*status = 0;
			return false;
		}
		if (option >= count || !take(&options[option], optarg)) {
			*status = cmd_options_wrong(help);
			return false;
		}
	}
	return true;
}
