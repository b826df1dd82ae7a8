/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/run/dropin.h"

const char *const dropin_names[DROPIN_LIBRARIES] = { "libibverbs.so.1", "librdmacm.so.1",
						     "libibumad.so.3" };

/* Whether all of them are in it. */
static bool is_whole(const char *directory)
{
	char path[PATH_MAX];

	for (int i = 0; i < DROPIN_LIBRARIES; i++) {
		int n = snprintf(path, sizeof(path), "%s/%s", directory, dropin_names[i]);

		if (n < 0 || (size_t)n >= sizeof(path) || access(path, R_OK) < 0)
			return false;
	}
	return true;
}

/* The folder of this program, by its real path. */
static int own_directory(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

int dropin_find(struct dropin *d)
{
	static const char installed[] = WEFT_LIBRARIES;
	char own[PATH_MAX], path[2 * PATH_MAX];

	snprintf(d->directory, sizeof(d->directory), "%s", installed);
	if (own_directory(own, sizeof(own)) == 0) {
		if (is_whole(own)) {
			memcpy(d->directory, own, sizeof(own));
			return 0;
		}
		/* Relative to the program, so that a tree may be moved after it was installed. */
		snprintf(path, sizeof(path), "%s%s%s", installed[0] == '/' ? "" : own,
			 installed[0] == '/' ? "" : "/", installed);
		if (!realpath(path, d->directory))
			snprintf(d->directory, sizeof(d->directory), "%.*s", PATH_MAX - 1, path);
	}
	return is_whole(d->directory) ? 0 : -ENOENT;
}

char *dropin_library_path(const struct dropin *d)
{
	const char *before = getenv("LD_LIBRARY_PATH");
	char *value;
	int n;

	if (before && *before)
		n = asprintf(&value, "%s:%s", d->directory, before);
	else
		n = asprintf(&value, "%s", d->directory);
	return n < 0 ? NULL : value;
}

char *dropin_preload(const struct dropin *d)
{
	const char *before = getenv("LD_PRELOAD");
	char *path, *value;
	int n;

	if (asprintf(&path, "%s/libweft-sysfs.so", d->directory) < 0)
		return NULL;
	if (access(path, R_OK) < 0 || strpbrk(path, " :")) {
		free(path);
		errno = 0;
		return NULL;
	}
	if (!before || !*before)
		return path;
	n = asprintf(&value, "%s:%s", before, path);
	free(path);
	return n < 0 ? NULL : value;
}
