/* SPDX-License-Identifier: BSD-2-Clause */
#include "own_network.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool own_network_loopback(bool is_up)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool is_done = false;

	if (fd < 0)
		return false;
	if (ioctl(fd, SIOCGIFFLAGS, &r) == 0) {
		r.ifr_flags = (short)(is_up ? r.ifr_flags | IFF_UP : r.ifr_flags & ~IFF_UP);
		is_done = ioctl(fd, SIOCSIFFLAGS, &r) == 0;
	}
	close(fd);
	return is_done;
}

const char *own_network_enter(void)
{
	static const char *why;
	static bool is_tried;

	if (is_tried)
		return why;
	is_tried = true;
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		why = "no network namespace of its own can be had";
	else if (!own_network_loopback(true))
		why = "the loopback interface of a new network namespace does not come up";
	return why;
}
