/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric make: topologies of known forms, printed. */
#pragma once

/* argv[0] is "make". Returns the exit status. */
int fabric_make(int argc, char **argv);
