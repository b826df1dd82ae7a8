/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE's port belongs to all processes of a network: a datagram that another one took for us is
 * lost when that process is killed, as tests do. So the program leaves for a network of its own before
 * its first test. Without root it stays, as it would be another user in a namespace.
 */
#include <unistd.h>

#include "own_network.h"

__attribute__((constructor)) static void leave(void)
{
	if (geteuid() == 0)
		(void)own_network_enter();
}
