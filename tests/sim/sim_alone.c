/* SPDX-License-Identifier: BSD-2-Clause */
/* weft with the subcommand sim alone. */
#include "cmd/cmd.h"

int main(int argc, char **argv)
{
	return argc > 1 ? command_sim.run(argc - 1, argv + 1) : 2;
}
