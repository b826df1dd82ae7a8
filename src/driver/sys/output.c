/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver/sys/calls.h"
#include "driver/sys/clock.h"

enum { NS_PER_S = 1000000000, CLOCK_OFF_NS = 1000000, TRIES_MAX = 16 };

enum { FLAGS = O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_APPEND };

static int path_expand(const char *path, char *out, size_t size)
{
	size_t used = 0;

	for (; *path; path++) {
		int n;

		if (path[0] == '%' && path[1] == 'p') {
			n = snprintf(out + used, size - used, "%ld", (long)getpid());
			path++;
		} else {
			n = snprintf(out + used, size - used, "%c", *path);
		}
		used += (size_t)n;
		if (used >= size)
			return -ENAMETOOLONG;
	}
	out[used] = '\0';
	return 0;
}

/* The descriptor number if the path names a descriptor of this process; else -1. */
static int path_descriptor(const char *path)
{
	static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };

	if (strcmp(path, "/dev/stdout") == 0)
		return STDOUT_FILENO;
	if (strcmp(path, "/dev/stderr") == 0)
		return STDERR_FILENO;
	for (int i = 0; i < 2; i++) {
		const char *digits = path + strlen(folders[i]);
		char *end;
		long number;

		if (strncmp(path, folders[i], strlen(folders[i])) != 0)
			continue;
		number = strtol(digits, &end, 10);
		if (end > digits && *end == '\0' && number >= 0 && number <= INT_MAX)
			return (int)number;
	}
	return -1;
}

/*
 * Whether the existing file may be written. Another user may have put it there, for example in
 * /tmp: a file of that user, one that others can read, or a hard link to a file of ours. Device
 * files can be created by root only.
 */
static int file_judge(const struct stat *st)
{
	if (S_ISCHR(st->st_mode) && (st->st_uid == 0 || st->st_uid == geteuid()))
		return 0;
	if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
		return -OUTPUT_NO_FILE;
	if (st->st_uid != geteuid())
		return -OUTPUT_FOREIGN;
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return -OUTPUT_OPEN_TO_OTHERS;
	return S_ISREG(st->st_mode) && st->st_nlink > 1 ? -OUTPUT_HARD_LINK : 0;
}

/* Locks before it truncates: another process may be writing the file. */
static int file_prepare(int fd)
{
	struct stat st;
	int err;

	if (fstat(fd, &st) < 0)
		return -errno;
	err = file_judge(&st);
	if (err < 0)
		return err;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EBUSY;
	if (S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0)
		return -errno;
	/* O_NONBLOCK was for open() only. */
	return fcntl(fd, F_SETFL, O_APPEND) < 0 ? -errno : 0;
}

/* Opens an existing file. */
static int file_open(const char *path)
{
	int fd = open(path, O_WRONLY | FLAGS | O_NONBLOCK), err;

	if (fd < 0)
		return errno == ELOOP ? -OUTPUT_LINK : errno == ENXIO ? -OUTPUT_NO_READER : -errno;
	err = file_prepare(fd);
	if (err == 0)
		return fd;
	close(fd);
	return err;
}

int output_open(const char *path)
{
	char expanded[PATH_MAX];
	int fd, err = path_expand(path, expanded, sizeof(expanded));

	if (err < 0)
		return err;
	fd = path_descriptor(expanded);
	if (fd >= 0) {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	/* Bound: the file would have to appear and disappear between two calls each time. */
	for (int tries = 0; tries < TRIES_MAX; tries++) {
		fd = open(expanded, O_WRONLY | O_CREAT | O_EXCL | FLAGS, 0600);
		if (fd >= 0) {
			(void)flock(fd, LOCK_EX | LOCK_NB);
			return fd;
		}
		if (errno != EEXIST)
			return -errno;
		fd = file_open(expanded);
		if (fd != -ENOENT)
			return fd;
	}
	return -EBUSY;
}

const char *output_words(int err)
{
	switch (-err) {
	case OUTPUT_LINK:
		return "This is a symbolic link, which is not followed";
	case OUTPUT_NO_FILE:
		return "This is not a regular file";
	case OUTPUT_NO_READER:
		return "This is a FIFO that no process reads";
	case OUTPUT_FOREIGN:
		return "This file belongs to another user";
	case OUTPUT_OPEN_TO_OTHERS:
		return "Its mode lets other users read or write this file; 0600 is needed";
	case OUTPUT_HARD_LINK:
		return "This file has another name (a hard link)";
	default:
		return strerror(-err);
	}
}

static int write_all(int fd, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = call_write(fd, bytes, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		length -= (size_t)n;
	}
	return 0;
}

/* A reader that left (SIGPIPE) or a file that is too large (SIGXFSZ) must not kill the program. */
int output_write(int fd, const uint8_t *bytes, size_t length)
{
	const struct timespec at_once = { 0 };
	sigset_t ours, before, pending;
	int err;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &ours, &before);
	/* A signal that was pending before is not ours, and stays pending. */
	sigpending(&pending);
	if (sigismember(&pending, SIGPIPE))
		sigdelset(&ours, SIGPIPE);
	if (sigismember(&pending, SIGXFSZ))
		sigdelset(&ours, SIGXFSZ);
	err = write_all(fd, bytes, length);
	if (err == -EPIPE || err == -EFBIG)
		(void)sigtimedwait(&ours, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

void output_clock_follow(int64_t *ns)
{
	int64_t before, between, after, off;

	/* If interrupted between two clocks, the difference is wrong: try again, up to 4 times. */
	for (int tries = 0; tries < 4; tries++) {
		before = (int64_t)time_of_day_ns();
		between = (int64_t)clock_ns();
		after = (int64_t)time_of_day_ns();
		off = before + (after - before) / 2 - between - *ns;
		if (off <= CLOCK_OFF_NS && off >= -CLOCK_OFF_NS)
			return;
		if (after - before < CLOCK_OFF_NS && after >= before)
			break;
	}
	*ns += off;
}
