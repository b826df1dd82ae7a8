/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of commands that have few: flags, words, and numbers as people write them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/quantity.h"

enum { CMD_OPTIONS_MAX = 24 };

struct cmd_option {
	const char *name;
	bool *is_given;	   /* of a flag; of a number: whether it was said, or NULL */
	const char **text; /* of a word */
	/* Else what its value is, and where it goes: quantity_size, quantity_time. */
	bool (*read)(struct word text, uint64_t *to);
	uint64_t *to;
};

/*
 * Takes them, up to one without a name. True: what else there is begins at optind. False: help was
 * shown, as was asked for, or as one of them is wrong; and *status is the exit status.
 */
bool cmd_options_take(int argc, char **argv, const struct cmd_option *options, const char *help,
		      int *status);

/* Something else is wrong: shows the help, returns the exit status. */
int cmd_options_wrong(const char *help);
