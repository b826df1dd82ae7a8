/* SPDX-License-Identifier: BSD-2-Clause */
/* Topologies in files. */
#pragma once

#include <stdbool.h>

#include "fabric/topology.h"

/* "-" is the standard input. False: the command `who` has said why; nothing is to be freed. */
bool topology_file_read(struct topology *t, const char *who, const char *path);
