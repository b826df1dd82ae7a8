/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver/calls.h"

enum { NS_PER_S = 1000000000, CLOCK_OFF_NS = 1000000 };

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

/* The lock comes before the file is emptied: it may be another's. */
static int file_prepare(int fd)
{
	struct stat st;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EBUSY;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0)
		return -errno;
	return 0;
}

int output_open(const char *path)
{
	char expanded[PATH_MAX];
	int fd, err = path_expand(path, expanded, sizeof(expanded));

	if (err < 0)
		return err;
	fd = open(expanded, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_APPEND, 0600);
	if (fd < 0)
		return -errno;
	err = file_prepare(fd);
	if (err == 0)
		return fd;
	close(fd);
	return err;
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
	/* A signal that waits already is somebody else's, and stays. */
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

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

void output_clock_follow(int64_t *ns)
{
	int64_t before, between, after, off;

	/* Whoever is interrupted between two clocks reads nonsense; some do not get it better. */
	for (int tries = 0; tries < 4; tries++) {
		before = clock_ns(CLOCK_REALTIME);
		between = clock_ns(CLOCK_MONOTONIC);
		after = clock_ns(CLOCK_REALTIME);
		off = before + (after - before) / 2 - between - *ns;
		if (off <= CLOCK_OFF_NS && off >= -CLOCK_OFF_NS)
			return;
		if (after - before < CLOCK_OFF_NS && after >= before)
			break;
	}
	*ns += off;
}
