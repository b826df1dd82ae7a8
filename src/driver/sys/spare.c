/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/spare.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "driver/sys/calls.h"

int spare_open(void)
{
	return eventfd(0, EFD_CLOEXEC);
}

void spare_close(int *spare)
{
	if (*spare >= 0)
		call_close(*spare);
	*spare = -1;
}

bool spare_refuse(int *spare, int listener, int error)
{
	int fd;

	if (error != EMFILE && error != ENFILE)
		return false;
	spare_close(spare);
	fd = call_accept(listener);
	if (fd >= 0)
		call_close(fd);
	*spare = spare_open();
	return fd >= 0;
}
