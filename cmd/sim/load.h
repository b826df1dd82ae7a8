/* SPDX-License-Identifier: BSD-2-Clause */
/* weft sim --world fabric --topology FILE: a workload on a topology, and what comes of it. */
#pragma once

#include <stdbool.h>

/* Whether the arguments ask for it. */
bool load_is_asked(int argc, char **argv);

/* Returns the exit status: 1 if not all messages came. */
int load_run(int argc, char **argv);
