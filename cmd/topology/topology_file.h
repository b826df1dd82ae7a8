/* SPDX-License-Identifier: BSD-2-Clause */
/* Topologies in files. */
#pragma once

#include <stdbool.h>

#include "fabric/topology.h"

/*
 * "-" is the standard input. False: it was said why, in the name of the command; nothing is to be
 * freed.
 */
bool topology_file_read(struct topology *t, const char *command, const char *path);
