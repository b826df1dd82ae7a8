/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of libc that no header declares: those of programs that were compiled with checks. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room);
char *__realpath_chk(const char *path, char *to, size_t room);
