/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the drop-in libraries are: beside this program in the build, or as they were installed. */
#pragma once

#include <limits.h>
#include <stdbool.h>

enum { DROPIN_LIBRARIES = 3 };

/* libibverbs.so.1 and so on: the names by which programs ask for them. */
extern const char *const dropin_names[DROPIN_LIBRARIES];

struct dropin {
	char directory[PATH_MAX];
};

/* 0, or -ENOENT if they are not all there; then directory is where they were looked for. */
int dropin_find(struct dropin *d);

/* A value for LD_LIBRARY_PATH: their directory, then what is there already; to be freed. NULL. */
char *dropin_library_path(const struct dropin *d);

/*
 * A value for LD_PRELOAD: what is there already, then the library that shows devices under /sys; to
 * be freed. NULL with errno 0 if it is not there, or the loader could not read its name.
 */
char *dropin_preload(const struct dropin *d);
