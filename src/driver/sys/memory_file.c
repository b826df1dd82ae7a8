/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "driver/sys/calls.h"

/* The limit of files holds for these, too. Past it a signal is raised, which ends the process. */
static bool is_within_limit(size_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	       bytes <= limit.rlim_cur;
}

int memory_file_make(size_t bytes)
{
	int fd, error;

	if (!is_within_limit(bytes))
		return -EFBIG;
	fd = memfd_create("weft.near", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) == 0 && fallocate(fd, 0, 0, (off_t)bytes) == 0)
		return fd;
	error = -errno;
	call_close(fd);
	return error;
}
