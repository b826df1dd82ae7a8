/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Folders of weft's devices under /sys/class/infiniband, listed: programs and scripts look into
 * device/net to find the interface. Those who hold one of ours see it by these calls alone.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compat/sysfs/redirect.h"

struct listing {
	struct listing *next;
	struct dirent entry; /* the one that was given out last */
	char *at;	     /* the next name */
	char text[SYSFS_TEXT];
};

static struct {
	pthread_mutex_t lock;
	struct listing *open;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The library's own, which is asked for the others; NULL: there is none. */
static void *next_symbol(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* NULL: it is the system's. */
static struct listing *find(const DIR *dir)
{
	struct listing *l;

	pthread_mutex_lock(&all.lock);
	l = all.open;
	while (l && (const void *)l != (const void *)dir)
		l = l->next;
	pthread_mutex_unlock(&all.lock);
	return l;
}

/* Of a device's own: the folder of all devices may have others of the kernel's. */
static bool is_of_a_device(const char *path)
{
	static const char root[] = "/sys/class/infiniband/";

	return strncmp(path, root, sizeof(root) - 1) == 0 &&
	       path[sizeof(root) - 1 + strspn(path + sizeof(root) - 1, "/")] != '\0';
}

DIR *opendir(const char *path)
{
	struct listing *l = is_of_a_device(path) ? calloc(1, sizeof(*l)) : NULL;
	DIR *(*libc_opendir)(const char *path);
	void *symbol;
	unsigned int mode;
	int n = l ? sysfs_look(path, l->text, &mode) : NOT_OURS;

	if (n < 0 || !S_ISDIR(mode) || n >= SYSFS_TEXT) {
		free(l);
		if (n != NOT_OURS) {
			errno = n < 0 ? -n : ENOTDIR;
			return NULL;
		}
		symbol = next_symbol("opendir");
		memcpy(&libc_opendir, &symbol, sizeof(symbol));
		return libc_opendir(path);
	}
	l->text[n] = '\0';
	l->at = l->text;
	pthread_mutex_lock(&all.lock);
	l->next = all.open;
	all.open = l;
	pthread_mutex_unlock(&all.lock);
	return (DIR *)(void *)l;
}

static struct dirent *listing_next(struct listing *l)
{
	size_t length = strcspn(l->at, "\n");

	if (length == 0 || length >= sizeof(l->entry.d_name))
		return NULL;
	l->entry = (struct dirent){
		.d_ino = 1,
		.d_reclen = sizeof(l->entry),
		.d_type = DT_UNKNOWN,
	};
	memcpy(l->entry.d_name, l->at, length);
	l->at += length + (l->at[length] == '\n');
	return &l->entry;
}

struct dirent *readdir(DIR *dir)
{
	struct listing *l = find(dir);
	struct dirent *(*libc_readdir)(DIR * dir);
	void *symbol;

	if (l)
		return listing_next(l);
	symbol = next_symbol("readdir");
	memcpy(&libc_readdir, &symbol, sizeof(symbol));
	return libc_readdir(dir);
}

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "every folder is a large one");

struct dirent64 *readdir64(DIR *dir)
{
	return (struct dirent64 *)(void *)readdir(dir);
}

int closedir(DIR *dir)
{
	struct listing *l = find(dir), **at;
	int (*libc_closedir)(DIR * dir);
	void *symbol;

	if (!l) {
		symbol = next_symbol("closedir");
		memcpy(&libc_closedir, &symbol, sizeof(symbol));
		return libc_closedir(dir);
	}
	pthread_mutex_lock(&all.lock);
	for (at = &all.open; *at != l; at = &(*at)->next)
		;
	*at = l->next;
	pthread_mutex_unlock(&all.lock);
	free(l);
	return 0;
}
