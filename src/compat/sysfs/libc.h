/* SPDX-License-Identifier: BSD-2-Clause */
/* The real libc functions, which this room interposes. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

struct libc {
	/* On paths. */
	int (*open)(const char *path, int flags, ...);
	int (*openat)(int at, const char *path, int flags, ...);
	int (*open_2)(const char *path, int flags);
	FILE *(*fopen)(const char *path, const char *mode);
	int (*stat)(const char *path, struct stat *to);
	int (*lstat)(const char *path, struct stat *to);
	int (*xstat)(int version, const char *path, struct stat *to);
	int (*lxstat)(int version, const char *path, struct stat *to);
	int (*statx)(int at, const char *path, int flags, unsigned int mask, struct statx *to);
	int (*access)(const char *path, int how);
	int (*faccessat)(int at, const char *path, int how, int flags);
	int (*eaccess)(const char *path, int how);
	int (*chdir)(const char *path);
	int (*fchdir)(int fd);
	ssize_t (*readlink)(const char *path, char *to, size_t size);
	ssize_t (*readlink_chk)(const char *path, char *to, size_t size, size_t room);
	char *(*realpath)(const char *path, char *to);
	char *(*realpath_chk)(const char *path, char *to, size_t room);
	/* On directories. */
	DIR *(*opendir)(const char *path);
	struct dirent *(*readdir)(DIR *dir);
	int (*readdir_r)(DIR *dir, struct dirent *entry, struct dirent **result);
	void (*rewinddir)(DIR *dir);
	long (*telldir)(DIR *dir);
	void (*seekdir)(DIR *dir, long at);
	int (*dirfd)(DIR *dir);
	int (*closedir)(DIR *dir);
	/* On descriptors and sockets. */
	int (*dup)(int fd);
	int (*dup2)(int fd, int to);
	int (*dup3)(int fd, int to, int flags);
	int (*fcntl)(int fd, int command, ...);
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *address, socklen_t length);
	int (*getsockname)(int fd, struct sockaddr *address, socklen_t *length);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t length);
	ssize_t (*send)(int fd, const void *from, size_t size, int flags);
	ssize_t (*sendto)(int fd, const void *from, size_t size, int flags,
			  const struct sockaddr *address, socklen_t length);
	ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
	ssize_t (*recvfrom)(int fd, void *to, size_t size, int flags, struct sockaddr *address,
			    socklen_t *length);
	ssize_t (*recvfrom_chk)(int fd, void *to, size_t size, size_t room, int flags,
				struct sockaddr *address, socklen_t *length);
	ssize_t (*recvmsg)(int fd, struct msghdr *message, int flags);
};

/* Callable from any thread at any time. A function that this libc lacks is NULL. */
const struct libc *libc_calls(void);
