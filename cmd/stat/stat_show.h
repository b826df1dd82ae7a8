/* SPDX-License-Identifier: BSD-2-Clause */
/* What commands share that show reports of processes: their options, and JSON. */
#pragma once

#include <stdbool.h>

#include "cmd/stat/stat_client.h"

struct stat_args {
	long pid; /* 0: all */
	double watch_s;
	bool is_json, is_watching;
};

struct stat_command {
	const char *name, *help;
	int (*show)(const struct stat_args *args); /* the exit status */
};

/* Reads [--json] [--watch SECONDS] [PID], and shows once or again and again. */
int stat_show(int argc, char **argv, const struct stat_command *c);

void stat_json_string(const char *text);
void stat_json_fields(const struct stat_line *l);
