/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/roles/term_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TEXT_BYTES = 64 };

static bool path_make(const char *beside, const char *end, char path[PATH_BYTES])
{
	return snprintf(path, PATH_BYTES, "%s%s", beside, end) < PATH_BYTES;
}

static void complain(const char *command, const char *what, const char *beside, const char *why)
{
	fprintf(stderr, "weft %s: cannot %s the term in %s.term: %s\n", command, what, beside, why);
}

/* A decimal number, and what ends it. */
static bool number_read(char **at, char end, uint64_t *number)
{
	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*number = strtoull(*at, at, 10);
	return errno == 0 && *(*at)++ == end;
}

static bool text_read(char *text, struct weft_rio_term *term)
{
	char *at = text;

	if (number_read(&at, '\n', &term->number))
		return *at == '\0';
	at = text;
	return number_read(&at, ' ', &term->number) && number_read(&at, '\n', &term->incarnation) &&
	       *at == '\0';
}

struct weft_rio_term term_file_read(const char *command, const char *beside)
{
	static const struct weft_rio_term none;
	char text[TEXT_BYTES + 1] = "", path[PATH_BYTES];
	struct weft_rio_term term = none;
	ssize_t n;
	int fd;

	if (!path_make(beside, ".term", path))
		return none;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		if (errno != ENOENT)
			complain(command, "read", beside, strerror(errno));
		return none;
	}
	n = read(fd, text, TEXT_BYTES);
	close(fd);
	if (n > 0 && text_read(text, &term))
		return term;
	complain(command, "read", beside, "it is not a number");
	return none;
}

/* A rename that a crash takes back would bring the former term back. */
static bool folder_sync(char path[PATH_BYTES])
{
	int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is_synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);

	if (fd >= 0)
		close(fd);
	return is_synced;
}

/* The former file is there until the next one is, whole. */
static bool term_write(char path[PATH_BYTES], const char *next, const struct weft_rio_term *term)
{
	char text[TEXT_BYTES];
	int length = snprintf(text, sizeof(text), "%" PRIu64, term->number);
	bool is_written;
	int fd;

	if (term->incarnation != 0)
		length += snprintf(text + length, sizeof(text) - (size_t)length, " %" PRIu64,
				   term->incarnation);
	text[length++] = '\n';
	(void)unlink(next);
	fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	is_written = write(fd, text, (size_t)length) == length && fsync(fd) == 0;
	is_written = close(fd) == 0 && is_written;
	return is_written && rename(next, path) == 0 && folder_sync(path);
}

void term_file_keep(const char *command, const char *beside, const struct weft_rio_term *term)
{
	char path[PATH_BYTES], next[PATH_BYTES];

	errno = ENAMETOOLONG;
	if (!path_make(beside, ".term", path) || !path_make(beside, ".term.new", next) ||
	    !term_write(path, next, term))
		complain(command, "keep", beside, strerror(errno));
}
