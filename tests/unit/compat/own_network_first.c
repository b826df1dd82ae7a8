/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE's port belongs to all processes of a network. A datagram for this process that another one
 * has read is lost when the other is killed, as tests do. So the program leaves for a network of
 * its own before its first test. Without root it stays: in a namespace it would be another user.
 */
#include <unistd.h>

#include "own_network.h"

__attribute__((constructor)) static void leave(void)
{
	if (geteuid() == 0)
		(void)own_network_enter();
}
