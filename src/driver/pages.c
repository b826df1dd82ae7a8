/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Kernels before 5.14 know only whether something is there, of so many pages at a time. */
static bool is_mapped(uintptr_t at, uintptr_t end, uintptr_t page)
{
	unsigned char in_core[256];

	while (at < end) {
		uintptr_t most = sizeof(in_core) * page, bytes = end - at < most ? end - at : most;

		if (mincore((void *)at, bytes, in_core) < 0)
			return false;
		at += bytes;
	}
	return true;
}

bool pages_are_there(uint64_t addr, uint64_t length, bool is_written)
{
	int advice = is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, error = errno;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)addr & -page;
	uintptr_t end = ((uintptr_t)addr + length - 1) & -page;
	bool are;

	if (addr + (length - 1) < addr || end + page < end)
		return false;
	end += page;
	are = madvise((void *)first, end - first, advice) == 0;
	if (!are && errno == EINVAL && madvise((void *)first, 0, advice) < 0)
		are = is_mapped(first, end, page);
	errno = error;
	return are;
}
