/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /sys/class/infiniband and the folders of weft's devices there, listed: programs and scripts look
 * which devices there are, and into device/net to find the interface. The kernel's own devices are
 * left out, as they are by libibverbs. What opendir() gives for one of them is ours, so every call
 * that takes it is here.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compat/sysfs/libc.h"
#include "compat/sysfs/redirect.h"

/*
 * Once made they stay, to be used again: so a folder is known to be ours, or not, without a lock,
 * and no folder of the system's ever has the address of one.
 */
struct listing {
	struct listing *next;
	atomic_bool is_open;
	struct dirent entry; /* the one that was given out last */
	long at;	     /* the next name */
	char text[SYSFS_TEXT];
};

static struct listing *_Atomic listings;

/* NULL: it is the system's. Bound: folders open at a time. */
static struct listing *find(const DIR *dir)
{
	struct listing *l = atomic_load_explicit(&listings, memory_order_acquire);

	while (l && (const void *)l != (const void *)dir)
		l = l->next;
	return l;
}

/* ---- Ours ------------------------------------------------------------------------------------ */

/* A listing that is not in use, or a new one; NULL: out of memory. */
static struct listing *take(void)
{
	struct listing *l = atomic_load_explicit(&listings, memory_order_acquire);

	while (l && atomic_exchange(&l->is_open, true))
		l = l->next;
	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	atomic_init(&l->is_open, true);
	l->next = atomic_load(&listings);
	while (!atomic_compare_exchange_weak(&listings, &l->next, l))
		;
	return l;
}

static struct dirent *listing_next(struct listing *l)
{
	const char *name = l->text + l->at;
	size_t length = strcspn(name, "\n");

	if (length == 0 || length >= sizeof(l->entry.d_name))
		return NULL;
	l->at += (long)length + (name[length] == '\n');
	l->entry = (struct dirent){
		.d_ino = 1,
		.d_off = l->at,
		.d_reclen = sizeof(l->entry),
		.d_type = DT_UNKNOWN,
	};
	memcpy(l->entry.d_name, name, length);
	return &l->entry;
}

/* The folder of all devices, or one of a device; the same of those of management. */
static bool is_of_devices(const char *path)
{
	static const char root[] = "/sys/class/infiniband", mad[] = "_mad";
	const char *rest = path + sizeof(root) - 1;

	if (strncmp(path, root, sizeof(root) - 1) != 0)
		return false;
	if (strncmp(rest, mad, sizeof(mad) - 1) == 0)
		rest += sizeof(mad) - 1;
	return *rest == '/' || *rest == '\0';
}

/* NULL: errno says why, 0 that it is the system's. */
static struct listing *listing_open(const char *path)
{
	struct listing *l = take();
	unsigned int mode;
	int n;

	errno = ENOMEM;
	if (!l)
		return NULL;
	n = sysfs_look(path, l->text, &mode);
	if (n >= 0 && n < SYSFS_TEXT && S_ISDIR(mode)) {
		l->text[n] = '\0';
		l->at = 0;
		return l;
	}
	atomic_store(&l->is_open, false);
	errno = n < 0 ? -n : ENOTDIR;
	if (n == NOT_OURS)
		errno = 0;
	return NULL;
}

/* ---- The working folder ---------------------------------------------------------------------- */

/*
 * One of ours is where the program believes to be: shells go there, and list what is in it. Only
 * its list is there; other relative paths are of the folder where the program is indeed.
 */
static pthread_mutex_t here_lock = PTHREAD_MUTEX_INITIALIZER;
static char here[PATH_MAX]; /* empty: it is the system's */

static void here_set(const char *path)
{
	pthread_mutex_lock(&here_lock);
	(void)snprintf(here, sizeof(here), "%s", path);
	pthread_mutex_unlock(&here_lock);
}

static bool here_get(char path[PATH_MAX])
{
	pthread_mutex_lock(&here_lock);
	memcpy(path, here, sizeof(here));
	pthread_mutex_unlock(&here_lock);
	return *path != '\0';
}

int chdir(const char *path)
{
	char text[SYSFS_TEXT];
	unsigned int mode;
	int r;

	if (is_of_devices(path) && sysfs_look(path, text, &mode) >= 0 && S_ISDIR(mode)) {
		here_set(path);
		return 0;
	}
	r = libc_calls()->chdir(path);
	if (r == 0)
		here_set("");
	return r;
}

int fchdir(int fd)
{
	int r = libc_calls()->fchdir(fd);

	if (r == 0)
		here_set("");
	return r;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

DIR *opendir(const char *path)
{
	char folder[PATH_MAX];
	int error = errno;
	struct listing *l;

	if (strcmp(path, ".") == 0 && here_get(folder))
		path = folder;
	if (is_of_devices(path)) {
		l = listing_open(path);
		if (l || errno != 0) {
			if (l)
				errno = error;
			return (DIR *)(void *)l;
		}
		errno = error;
	}
	return libc_calls()->opendir(path);
}

struct dirent *readdir(DIR *dir)
{
	struct listing *l = find(dir);

	return l ? listing_next(l) : libc_calls()->readdir(dir);
}

static int read_to(DIR *dir, struct dirent *entry, struct dirent **result)
{
	struct listing *l = find(dir);
	const struct dirent *next;

	if (!l)
		return libc_calls()->readdir_r(dir, entry, result);
	next = listing_next(l);
	if (next)
		*entry = *next;
	*result = next ? entry : NULL;
	return 0;
}

int readdir_r(DIR *dir, struct dirent *entry, struct dirent **result)
{
	return read_to(dir, entry, result);
}

void rewinddir(DIR *dir)
{
	struct listing *l = find(dir);

	if (l)
		l->at = 0;
	else
		libc_calls()->rewinddir(dir);
}

long telldir(DIR *dir)
{
	struct listing *l = find(dir);

	return l ? l->at : libc_calls()->telldir(dir);
}

/* Only what telldir() said is a place; anything else leads nowhere, but not outside. */
void seekdir(DIR *dir, long at)
{
	struct listing *l = find(dir);

	if (!l)
		libc_calls()->seekdir(dir, at);
	else if (at >= 0 && at <= (long)strlen(l->text))
		l->at = at;
}

/* POSIX lets folders have no descriptor. */
int dirfd(DIR *dir)
{
	if (!find(dir))
		return libc_calls()->dirfd(dir);
	errno = ENOTSUP;
	return -1;
}

int closedir(DIR *dir)
{
	struct listing *l = find(dir);

	if (!l)
		return libc_calls()->closedir(dir);
	if (atomic_exchange(&l->is_open, false))
		return 0;
	errno = EBADF;
	return -1;
}

/* ---- The same for large files, which are no others here -------------------------------------- */

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "every folder is a large one");

struct dirent64 *readdir64(DIR *dir)
{
	return (struct dirent64 *)(void *)readdir(dir);
}

int readdir64_r(DIR *dir, struct dirent64 *entry, struct dirent64 **result)
{
	struct dirent *found;
	int r = read_to(dir, (struct dirent *)(void *)entry, &found);

	*result = (struct dirent64 *)(void *)found;
	return r;
}
