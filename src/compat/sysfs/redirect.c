/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded by weft run: programs that look under /sys/class/infiniband or /dev/infiniband by
 * themselves (UCX, Open MPI) find there what libibverbs tells of weft's devices, and list the first
 * of the two (listing.c); those that ask by netlink (rdma) find the same devices (netlink.c). Every
 * other path is the system's own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compat/sysfs/libc.h"
#include "compat/sysfs/redirect.h"

/* ---- What is there -------------------------------------------------------------------------- */

static bool is_below(const char *path, const char *root)
{
	size_t length = strlen(root);

	return path && strncmp(path, root, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0');
}

/* It stays loaded: it may be in use by now. */
void *verbs_symbol(const char *name)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);

	return library ? dlsym(library, name) : NULL;
}

/* As weftv_sysfs(). */
int sysfs_look(const char *path, char text[SYSFS_TEXT], unsigned int *mode)
{
	int (*sysfs)(const char *path, char *text, size_t size, unsigned int *mode);
	int error = errno, n;
	void *symbol;

	if (!is_below(path, "/sys/class/infiniband") && !is_below(path, "/dev/infiniband") &&
	    !is_below(path, "/sys/class/infiniband_mad"))
		return NOT_OURS;
	symbol = verbs_symbol("weftv_sysfs");
	memcpy(&sysfs, &symbol, sizeof(sysfs));
	n = symbol ? sysfs(path, text, SYSFS_TEXT, mode) : NOT_OURS;
	errno = error;
	return n;
}

/* A descriptor that the text can be read from; -1 and errno. */
static int descriptor_of(const char *text, int length)
{
	int fd = memfd_create("weft", MFD_CLOEXEC), ends[2];

	if (fd >= 0) {
		if (write(fd, text, (size_t)length) == length && lseek(fd, 0, SEEK_SET) == 0)
			return fd;
		close(fd);
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	if (write(ends[1], text, (size_t)length) != length) {
		close(ends[0]);
		ends[0] = -1;
	}
	close(ends[1]);
	return ends[0];
}

/* What a path in /dev names: only the devices of a fabric's node can be opened. */
static int open_device(const char *path)
{
	int (*device_open)(const char *path);
	void *symbol = verbs_symbol("weftv_device_open");
	int fd;

	memcpy(&device_open, &symbol, sizeof(device_open));
	fd = symbol ? device_open(path) : -ENXIO;
	if (fd >= 0)
		return fd;
	errno = ENXIO;
	return -1;
}

/* NOT_OURS, or what open() returns, with errno. */
static int open_ours(const char *path, int flags)
{
	char text[SYSFS_TEXT];
	unsigned int mode;
	int n = sysfs_look(path, text, &mode);

	if (n == NOT_OURS)
		return NOT_OURS;
	if (n >= 0 && S_ISCHR(mode))
		return open_device(path);
	errno = n < 0 ? -n : EACCES;
	if (n < 0 || (flags & O_ACCMODE) != O_RDONLY)
		return -1;
	errno = EISDIR;
	return S_ISREG(mode) ? descriptor_of(text, n) : -1;
}

static int stat_ours(const char *path, struct stat *to, bool is_followed)
{
	char text[SYSFS_TEXT];
	unsigned int mode;
	int n = sysfs_look(path, text, &mode);

	if (n == NOT_OURS)
		return NOT_OURS;
	if (S_ISLNK(mode) && is_followed)
		mode = S_IFDIR | 0555;
	*to = (struct stat){ .st_mode = mode,
			     .st_nlink = 1,
			     .st_size = S_ISREG(mode) ? SYSFS_TEXT : 0 };
	return 0;
}

static ssize_t readlink_ours(const char *path, char *to, size_t size)
{
	char text[SYSFS_TEXT];
	unsigned int mode;
	int n = sysfs_look(path, text, &mode);

	if (n == NOT_OURS)
		return NOT_OURS;
	if (n < 0 || !S_ISLNK(mode)) {
		errno = EINVAL;
		return -1;
	}
	if ((size_t)n > size)
		n = (int)size;
	memcpy(to, text, (size_t)n);
	return n;
}

/* ---- In place of libc's calls ---------------------------------------------------------------- */

static bool has_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

int open(const char *path, int flags, ...)
{
	int fd = open_ours(path, flags);
	mode_t mode = 0;
	va_list args;

	if (fd != NOT_OURS)
		return fd;
	va_start(args, flags);
	if (has_mode(flags))
		mode = va_arg(args, mode_t);
	va_end(args);
	return libc_calls()->open(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
	int fd = open_ours(path, flags);
	mode_t mode = 0;
	va_list args;

	if (fd != NOT_OURS)
		return fd;
	va_start(args, flags);
	if (has_mode(flags))
		mode = va_arg(args, mode_t);
	va_end(args);
	return libc_calls()->openat(at, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
	int fd = open_ours(path, flags);

	return fd != NOT_OURS ? fd : libc_calls()->open_2(path, flags);
}

FILE *fopen(const char *path, const char *mode)
{
	int fd = open_ours(path, mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR);

	if (fd == NOT_OURS)
		return libc_calls()->fopen(path, mode);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

int stat(const char *path, struct stat *to)
{
	int r = stat_ours(path, to, true);

	return r != NOT_OURS ? r : libc_calls()->stat(path, to);
}

int lstat(const char *path, struct stat *to)
{
	int r = stat_ours(path, to, false);

	return r != NOT_OURS ? r : libc_calls()->lstat(path, to);
}

/*
 * Programs linked before glibc 2.33 have these for stat() and lstat(). The version is the system's
 * to judge. A C library that is younger as a whole has none, and no program
 * that calls them.
 */
int __xstat(int version, const char *path, struct stat *to)
{
	int r = stat_ours(path, to, true);

	if (r != NOT_OURS)
		return r;
	return libc_calls()->xstat ? libc_calls()->xstat(version, path, to)
				   : libc_calls()->stat(path, to);
}

int __lxstat(int version, const char *path, struct stat *to)
{
	int r = stat_ours(path, to, false);

	if (r != NOT_OURS)
		return r;
	return libc_calls()->lxstat ? libc_calls()->lxstat(version, path, to)
				    : libc_calls()->lstat(path, to);
}

int statx(int at, const char *path, int flags, unsigned int mask, struct statx *to)
{
	struct stat ours;

	if (stat_ours(path, &ours, !(flags & AT_SYMLINK_NOFOLLOW)) == NOT_OURS)
		return libc_calls()->statx(at, path, flags, mask, to);
	memset(to, 0, sizeof(*to));
	to->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_SIZE;
	to->stx_mode = (uint16_t)ours.st_mode;
	to->stx_nlink = 1;
	to->stx_size = (uint64_t)ours.st_size;
	return 0;
}

/* NOT_OURS, or what access() returns, with errno. */
static int access_ours(const char *path, int how)
{
	struct stat ours;

	if (stat_ours(path, &ours, true) == NOT_OURS)
		return NOT_OURS;
	errno = EACCES;
	return (how & W_OK) && !S_ISCHR(ours.st_mode) ? -1 : 0;
}

int access(const char *path, int how)
{
	int r = access_ours(path, how);

	return r != NOT_OURS ? r : libc_calls()->access(path, how);
}

int faccessat(int at, const char *path, int how, int flags)
{
	int r = access_ours(path, how);

	return r != NOT_OURS ? r : libc_calls()->faccessat(at, path, how, flags);
}

int eaccess(const char *path, int how)
{
	int r = access_ours(path, how);

	return r != NOT_OURS ? r : libc_calls()->eaccess(path, how);
}

int euidaccess(const char *path, int how)
{
	return eaccess(path, how);
}

ssize_t readlink(const char *path, char *to, size_t size)
{
	ssize_t n = readlink_ours(path, to, size);

	return n != NOT_OURS ? n : libc_calls()->readlink(path, to, size);
}

ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room)
{
	ssize_t n = size <= room ? readlink_ours(path, to, size) : NOT_OURS;

	return n != NOT_OURS ? n : libc_calls()->readlink_chk(path, to, size, room);
}

/* There is nothing to resolve: the path itself. */
static char *realpath_ours(const char *path, char *to)
{
	struct stat ours;

	if (stat_ours(path, &ours, true) == NOT_OURS || strlen(path) >= PATH_MAX)
		return NULL;
	return to ? strcpy(to, path) : strdup(path);
}

char *realpath(const char *path, char *to)
{
	char *ours = realpath_ours(path, to);

	return ours ? ours : libc_calls()->realpath(path, to);
}

char *__realpath_chk(const char *path, char *to, size_t room)
{
	char *ours = room >= PATH_MAX ? realpath_ours(path, to) : NULL;

	return ours ? ours : libc_calls()->realpath_chk(path, to, room);
}

/* ---- The same for large files, which are no others here -------------------------------------- */

_Static_assert(sizeof(struct stat64) == sizeof(struct stat) && sizeof(off_t) == sizeof(off64_t),
	       "every file is a large one");

int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (has_mode(flags))
		mode = va_arg(args, mode_t);
	va_end(args);
	return open(path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (has_mode(flags))
		mode = va_arg(args, mode_t);
	va_end(args);
	return openat(at, path, flags, mode);
}

int __open64_2(const char *path, int flags)
{
	return __open_2(path, flags);
}

FILE *fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}

int stat64(const char *path, struct stat64 *to)
{
	return stat(path, (struct stat *)(void *)to);
}

int lstat64(const char *path, struct stat64 *to)
{
	return lstat(path, (struct stat *)(void *)to);
}

int __xstat64(int version, const char *path, struct stat64 *to)
{
	return __xstat(version, path, (struct stat *)(void *)to);
}

int __lxstat64(int version, const char *path, struct stat64 *to)
{
	return __lxstat(version, path, (struct stat *)(void *)to);
}
