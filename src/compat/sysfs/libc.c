/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/sysfs/libc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static struct libc libc;

static void find_one(void *to, const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	memcpy(to, &symbol, sizeof(symbol));
}

static void find_all(void)
{
	find_one(&libc.open, "open");
	find_one(&libc.openat, "openat");
	find_one(&libc.open_2, "__open_2");
	find_one(&libc.fopen, "fopen");
	find_one(&libc.stat, "stat");
	find_one(&libc.lstat, "lstat");
	find_one(&libc.xstat, "__xstat");
	find_one(&libc.lxstat, "__lxstat");
	find_one(&libc.statx, "statx");
	find_one(&libc.access, "access");
	find_one(&libc.faccessat, "faccessat");
	find_one(&libc.eaccess, "eaccess");
	find_one(&libc.chdir, "chdir");
	find_one(&libc.fchdir, "fchdir");
	find_one(&libc.readlink, "readlink");
	find_one(&libc.readlink_chk, "__readlink_chk");
	find_one(&libc.realpath, "realpath");
	find_one(&libc.realpath_chk, "__realpath_chk");
	find_one(&libc.opendir, "opendir");
	find_one(&libc.readdir, "readdir");
	find_one(&libc.readdir_r, "readdir_r");
	find_one(&libc.rewinddir, "rewinddir");
	find_one(&libc.telldir, "telldir");
	find_one(&libc.seekdir, "seekdir");
	find_one(&libc.dirfd, "dirfd");
	find_one(&libc.closedir, "closedir");
	find_one(&libc.dup, "dup");
	find_one(&libc.dup2, "dup2");
	find_one(&libc.dup3, "dup3");
	find_one(&libc.fcntl, "fcntl");
	find_one(&libc.socket, "socket");
	find_one(&libc.bind, "bind");
	find_one(&libc.getsockname, "getsockname");
	find_one(&libc.setsockopt, "setsockopt");
	find_one(&libc.send, "send");
	find_one(&libc.sendto, "sendto");
	find_one(&libc.sendmsg, "sendmsg");
	find_one(&libc.recvfrom, "recvfrom");
	find_one(&libc.recvfrom_chk, "__recvfrom_chk");
	find_one(&libc.recvmsg, "recvmsg");
}

const struct libc *libc_calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_all);
	return &libc;
}

/* Before there are threads: the child of a fork may call dup2(), and must not wait for dlsym(). */
__attribute__((constructor)) static void find_early(void)
{
	(void)libc_calls();
}
