/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which libraries a program gets: asked of the system's own loader, which finds them as it will
 * when the program starts, but runs nothing of it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct loader_row {
	char name[NAME_MAX + 1]; /* as it is asked for, without folders */
	char path[PATH_MAX];	 /* empty: it is not found */
};

struct loader_list {
	struct loader_row *rows;
	size_t count;
};

/* 0, or a negative errno; free the list in any case. */
int loader_list_read(struct loader_list *list, const char *program, const char *library_path);
void loader_list_free(struct loader_list *list);
