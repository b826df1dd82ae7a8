/* SPDX-License-Identifier: BSD-2-Clause */
/* What weft iou, own and io share: a configuration file becomes a role of directed I/O. */
#pragma once

#include <stdio.h>

#include "roles/rio_role_file.h"

/*
 * Reads the file of this role, and asks etcd if it says so. False: stderr has been told why, in the
 * name of the command.
 */
bool rio_role_open(struct rio_role_file *f, const char *command, enum rio_role role,
		   const char *path);
void rio_role_close(struct rio_role_file *f);

/* Ends well with SIGINT and SIGTERM: the first calls stop(of). The same one again ends it. */
void rio_role_until_signal(void (*stop)(void *of), void *of);

/* A line for people, with the time. */
void rio_role_say(FILE *to, const char *line);

/* Why it cannot go on, on stderr; returns 1. */
int rio_role_fail(const char *command, const char *what, enum weft_reason reason);

/* A command that has one word, the file of its role, and runs until it is told to end. */
struct rio_role_command {
	enum rio_role role;
	const char *help;
	int (*run)(const struct rio_role_file *f); /* the exit status */
};

int rio_role_main(int argc, char **argv, const struct rio_role_command *c);
