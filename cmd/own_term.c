/* SPDX-License-Identifier: BSD-2-Clause */
#include "own_term.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/time_of_day.h"

enum { PATH_BYTES = 4096, DIGITS = 24 };

static bool path_make(const char *log, const char *end, char path[PATH_BYTES])
{
	return snprintf(path, PATH_BYTES, "%s%s", log, end) < PATH_BYTES;
}

static void complain(const char *what, const char *log, const char *why)
{
	fprintf(stderr, "weft own: cannot %s the term in %s.term: %s\n", what, log, why);
}

/* 0: nothing was kept yet. */
static uint64_t term_read(const char *log, const char *path)
{
	char text[DIGITS + 1] = "", *end;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	uint64_t term;
	ssize_t n;

	if (fd < 0) {
		if (errno != ENOENT)
			complain("read", log, strerror(errno));
		return 0;
	}
	n = read(fd, text, DIGITS);
	close(fd);
	errno = 0;
	term = strtoull(text, &end, 10);
	if (n > 0 && end != text && *end == '\n' && errno == 0 && term < UINT64_MAX)
		return term;
	complain("read", log, "it is not a number");
	return 0;
}

/* The former file is there until the next one is, whole. */
static bool term_write(const char *path, const char *next, uint64_t term)
{
	char text[DIGITS + 1];
	int length = snprintf(text, sizeof(text), "%" PRIu64 "\n", term);
	bool is_written;
	int fd;

	(void)unlink(next);
	fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return false;
	is_written = write(fd, text, (size_t)length) == length && fsync(fd) == 0;
	is_written = close(fd) == 0 && is_written;
	return is_written && rename(next, path) == 0;
}

void own_term_keep(const char *log, uint64_t term)
{
	char path[PATH_BYTES], next[PATH_BYTES];

	if (!log)
		return;
	errno = ENAMETOOLONG;
	if (!path_make(log, ".term", path) || !path_make(log, ".term.new", next) ||
	    !term_write(path, next, term))
		complain("keep", log, strerror(errno));
}

uint64_t own_term_begin(const char *log)
{
	char path[PATH_BYTES];
	uint64_t kept = 0, term;

	if (log && path_make(log, ".term", path))
		kept = term_read(log, path);
	term = time_of_day_ns();
	if (term <= kept)
		term = kept + 1;
	own_term_keep(log, term);
	return term;
}
