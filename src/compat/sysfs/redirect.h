/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of this room; and libc functions that no header declares, called by programs
 * compiled with _FORTIFY_SOURCE or against an old libc.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { SYSFS_TEXT = 4096, NOT_OURS = -ENOENT };

/* A symbol of the libibverbs that the program has or would load; NULL: that is not weft's. */
void *verbs_symbol(const char *name);

/*
 * The content of a path: returns the length of its text, and sets its mode; or -errno. NOT_OURS:
 * leave the path to the system. The text of a directory is its names, one a line.
 */
int sysfs_look(const char *path, char text[SYSFS_TEXT], unsigned int *mode);

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room);
int __xstat(int version, const char *path, struct stat *to);
int __xstat64(int version, const char *path, struct stat64 *to);
int __lxstat(int version, const char *path, struct stat *to);
int __lxstat64(int version, const char *path, struct stat64 *to);
char *__realpath_chk(const char *path, char *to, size_t room);
ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags,
		       __SOCKADDR_ARG address, socklen_t *restrict length);
