/* SPDX-License-Identifier: BSD-2-Clause */
/* A picture of a topology, as SVG: in layers if it is a tree, else its switches in a circle. */
#pragma once

#include <stdbool.h>

#include "fabric/topology.h"

/*
 * To a file, or to the standard output if `path` is NULL. `loads` has how much of each cable was
 * used, 0 to 1, in the order of their first ends, as fabric/fabric.h numbers them; NULL: it is not
 * known. False: it was said why, in the name of the command.
 */
bool picture_save(const char *command, const char *path, const struct topology *t,
		  const double *loads);
