/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium/utils.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 3, 4))) static bool refuse(char *why, size_t room, const char *form,
							 ...)
{
	va_list args;

	va_start(args, form);
	vsnprintf(why, room, form, args);
	va_end(args);
	return false;
}

bool config_refuse(char why[CONFIG_FILE_WHY], const char *form, ...)
{
	va_list args;

	va_start(args, form);
	vsnprintf(why, CONFIG_FILE_WHY, form, args);
	va_end(args);
	return false;
}

/* Reads the whole file, at most one byte more than is allowed. */
static int read_all(int fd, char **text, size_t *length)
{
	char *bytes = malloc(CONFIG_BYTES_MAX + 1);
	size_t have = 0;

	if (!bytes)
		return -ENOMEM;
	while (have < CONFIG_BYTES_MAX + 1) {
		ssize_t n = read(fd, bytes + have, CONFIG_BYTES_MAX + 1 - have);
		int err = errno;

		if (n < 0 && err == EINTR)
			continue;
		if (n < 0) {
			sodium_memzero(bytes, have);
			free(bytes);
			return -err;
		}
		if (n == 0)
			break;
		have += (size_t)n;
	}
	*text = bytes;
	*length = have;
	return 0;
}

/*
 * Writers of the file decide which peers are trusted, so it must belong to this user or root. A
 * pipe is trusted: the parent process passed it.
 */
static bool is_trusted(int fd, const char *path, char why[CONFIG_FILE_WHY])
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return refuse(why, CONFIG_FILE_WHY, "%s: cannot be looked at: %s", path,
			      strerror(errno));
	if (!S_ISREG(st.st_mode))
		return true;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return refuse(why, CONFIG_FILE_WHY, "%s: is another user's: chown %u %s", path,
			      (unsigned int)geteuid(), path);
	return (st.st_mode & 022) == 0 ||
	       refuse(why, CONFIG_FILE_WHY, "%s: can be written by other users: chmod go-w %s",
		      path, path);
}

bool config_file_is_private(int fd, const char *path, char *why, size_t room)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return refuse(why, room, "%s cannot be looked at: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return refuse(why, room, "%s is not a regular file, as one with a secret must be",
			      path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return refuse(why, room, "%s is another user's: chown %u %s", path,
			      (unsigned int)geteuid(), path);
	if ((st.st_mode & 077) != 0)
		return refuse(why, room, "%s is open to other users: chmod 600 %s", path, path);
	return true;
}

static bool read_rest(int fd, const char *path, char **text, size_t *length,
		      char why[CONFIG_FILE_WHY])
{
	int err = read_all(fd, text, length);

	return err == 0 ||
	       refuse(why, CONFIG_FILE_WHY, "%s: cannot be read: %s", path, strerror(-err));
}

bool config_file_read(const char *path, char **text, size_t *length, char why[CONFIG_FILE_WHY])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is_read;

	if (fd < 0)
		return refuse(why, CONFIG_FILE_WHY, "%s: cannot be opened: %s", path,
			      strerror(errno));
	is_read = is_trusted(fd, path, why) && read_rest(fd, path, text, length, why);
	close(fd);
	return is_read;
}

bool config_file_read_secret(const char *path, char **text, size_t *length,
			     char why[CONFIG_FILE_WHY])
{
	/* Without O_NONBLOCK, opening a FIFO would block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is_read;

	if (fd < 0)
		return refuse(why, CONFIG_FILE_WHY, "%s: cannot be opened: %s", path,
			      strerror(errno));
	is_read = config_file_is_private(fd, path, why, CONFIG_FILE_WHY) &&
		  read_rest(fd, path, text, length, why);
	close(fd);
	return is_read;
}

bool config_file_parse(const char *path,
		       bool (*parse)(const char *text, size_t length, void *config,
				     struct config_complaint *complaint),
		       void *config, char why[CONFIG_FILE_WHY])
{
	struct config_complaint complaint;
	char *text = NULL;
	size_t length = 0;
	bool is_read;

	if (!config_file_read(path, &text, &length, why))
		return false;
	is_read = parse(text, length, config, &complaint);
	free(text);
	return is_read || config_refuse(why, "%s:%u:%u: %s", path, complaint.line, complaint.column,
					complaint.why);
}

char *config_file_beside(const char *config_path, const char *path)
{
	const char *slash = strrchr(config_path, '/');
	char *whole;

	if (path[0] == '/' || !slash)
		return strdup(path);
	if (asprintf(&whole, "%.*s/%s", (int)(slash - config_path), config_path, path) < 0)
		return NULL;
	return whole;
}
