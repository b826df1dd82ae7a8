/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a guest, mapped. A file that can no longer be cut short (F_SEAL_SHRINK, as QEMU
 * makes a memfd) is accessed as it is. DPDK's files cannot be sealed, nor can those of hugetlbfs;
 * and a large page that is taken out of a sealed file may have no successor. Accesses to such
 * memory survive that a page is missing (driver/sys/guard.h). All regions are in one range of
 * addresses, as that is what an access is guarded for.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "driver/lan/lan_vhost.h"
#include "driver/sys/guard.h"

/* More than any machine has, and few enough to add up. */
static const uint64_t file_max = UINT64_C(1) << 46;

static uint64_t rounded(uint64_t bytes, uint64_t page)
{
	return (bytes + page - 1) / page * page;
}

/*
 * Of what size the pages are of a file of memory that is so long; 0: it is none. A page of another
 * file system may come late, or never.
 */
static uint64_t page_of(int fd, uint64_t bytes)
{
	struct stat is;
	struct statfs on;

	if (bytes > file_max || fstat(fd, &is) < 0 || !S_ISREG(is.st_mode) ||
	    (uint64_t)is.st_size < bytes || fstatfs(fd, &on) < 0)
		return 0;
	return on.f_type == TMPFS_MAGIC || on.f_type == HUGETLBFS_MAGIC ? (uint64_t)on.f_bsize : 0;
}

/* The file stays as long as it is. One that may still be sealed is sealed here. */
static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
}

static bool reserve(struct vhost_memory *m, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	*m = (struct vhost_memory){ .at = at, .bytes = bytes };
	return true;
}

enum weft_reason vhost_memory_map(struct vhost_memory *m, struct lan_guest *g, const int *fds)
{
	const uint64_t usual = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t pages[VHOST_REGIONS_MAX], total = 0;
	uint8_t *at;

	for (uint32_t i = 0; i < g->count; i++) {
		const struct vhost_region *r = &g->regions[i].is;

		pages[i] = page_of(fds[i], r->offset + r->length);
		if (pages[i] == 0)
			return WEFT_R_VHOST_MEMORY;
		/* No more than large pages need to be aligned: what is guarded should be there. */
		total += rounded(r->offset + r->length, pages[i]) + pages[i] - usual;
	}
	if (g->count == 0)
		return WEFT_OK;
	if (!reserve(m, total))
		return WEFT_R_VHOST_MEMORY;
	at = m->at;
	for (uint32_t i = 0; i < g->count; i++) {
		struct lan_guest_region *r = &g->regions[i];
		uint64_t bytes = rounded(r->is.offset + r->is.length, pages[i]);

		at += rounded((uintptr_t)at, pages[i]) - (uintptr_t)at;
		if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds[i], 0) ==
		    MAP_FAILED)
			return WEFT_R_VHOST_MEMORY;
		m->is_guarded |= pages[i] != usual || !is_sealed(fds[i]);
		r->at = at + r->is.offset;
		at += bytes;
	}
	return WEFT_OK;
}

void vhost_memory_unmap(struct vhost_memory *m)
{
	if (m->at)
		(void)munmap(m->at, m->bytes);
	*m = (struct vhost_memory){ 0 };
}

bool vhost_memory_touch(const struct vhost_memory *m, void (*work)(void *), void *argument)
{
	if (m->is_guarded)
		return fault_guard.run(m->at, m->bytes, work, argument);
	work(argument);
	return true;
}
