/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t page_size(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Returns 0 or an errno value; errno is unchanged. MADV_POPULATE_ needs Linux 5.14. */
static int populate(uintptr_t first, size_t length, bool is_written)
{
	int error = errno, why = 0;

	if (madvise((void *)first, length, is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		why = errno;
	errno = error;
	return why;
}

bool pages_can_be_asked(void)
{
	return populate(0, 0, false) == 0;
}

bool pages_are_there(uint64_t addr, uint64_t length, bool is_written)
{
	uintptr_t page = page_size(), first = (uintptr_t)addr & -page;
	uintptr_t end = ((uintptr_t)addr + length - 1) & -page;

	if (addr + (length - 1) < addr || end + page < end)
		return false;
	return populate(first, end + page - first, is_written) == 0;
}

enum { LOOK_PAGES = 256 };

/*
 * Whether something is mapped in all of the range: *in_core for each page. Where the call itself is
 * forbidden (seccomp), all pages count as present: an access waits in the kernel for those that are
 * not, and is refused where there is none. errno is unchanged.
 */
static bool look(uintptr_t first, size_t length, unsigned char *in_core)
{
	size_t size = page_size();
	int error = errno, why = mincore((void *)first, length, in_core) == 0 ? 0 : errno;

	errno = error;
	if (why != 0)
		memset(in_core, 1, (length + size - 1) / size);
	return why != ENOMEM;
}

/* At most LOOK_PAGES of them. */
static enum pages_state look_at_some(uintptr_t first, size_t count, size_t size)
{
	unsigned char in_core[LOOK_PAGES];
	enum pages_state state = PAGES_RESIDENT;

	if (!look(first, count * size, in_core))
		return PAGES_UNMAPPED;
	for (size_t i = 0; i < count; i++) {
		if (!(in_core[i] & 1))
			state = PAGES_AWAY;
	}
	return state;
}

enum pages_state pages_look(uint64_t addr, uint64_t length)
{
	uintptr_t size = page_size(), first = (uintptr_t)addr & -size;
	uint64_t left = (((uintptr_t)addr + length - 1) & -size) / size - first / size + 1;
	enum pages_state state = PAGES_RESIDENT;

	if (addr + (length - 1) < addr)
		return PAGES_UNMAPPED;
	/* Bound: the pages of the range. */
	while (left > 0 && state != PAGES_UNMAPPED) {
		size_t count = left < LOOK_PAGES ? (size_t)left : LOOK_PAGES;
		enum pages_state some = look_at_some(first, count, size);

		state = some != PAGES_RESIDENT ? some : state;
		first += count * size;
		left -= count;
	}
	return state;
}

/* Kernels without MADV_POPULATE_ only know whether the page is mapped. */
static bool is_page(uintptr_t page, bool is_written)
{
	int why = populate(page, 1, is_written);
	unsigned char in_core;

	if (why != EINVAL || pages_can_be_asked())
		return why == 0;
	return look(page, 1, &in_core);
}

bool pages_at_ends_are_there(uint64_t addr, uint64_t length, bool is_written)
{
	uint64_t last = addr + (length - 1);
	uintptr_t page = page_size();

	return last >= addr && is_page((uintptr_t)addr & -page, is_written) &&
	       is_page((uintptr_t)last & -page, is_written);
}
