/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

bool pages_can_be_asked(void)
{
	int error = errno;
	bool can = madvise(NULL, 0, MADV_POPULATE_READ) == 0; /* of Linux 5.14 */

	errno = error;
	return can;
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
	errno = error;
	return are;
}
