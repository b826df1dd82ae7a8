/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/sys/output.h"
#include "rio/names.h"
#include "roles/config_file.h"

static const char first_line[] = "weft secret key 1\n";

enum { FIRST_BYTES = sizeof(first_line) - 1, FILE_BYTES = FIRST_BYTES + RIO_KEY_DIGITS + 1 };

/* A seed has the text form of a public key. */
_Static_assert((int)RIO_SEED_BYTES == (int)RIO_KEY_BYTES, "seed and key have the same length");

__attribute__((format(printf, 2, 3))) static bool refuse(char why[KEY_FILE_WHY], const char *form,
							 ...)
{
	va_list args;

	va_start(args, form);
	vsnprintf(why, KEY_FILE_WHY, form, args);
	va_end(args);
	return false;
}

/* ---- Making --------------------------------------------------------------------------------- */

/* Makes the directory entry durable. */
static int sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	int fd, err = 0;

	if (!slash)
		snprintf(folder, sizeof(folder), ".");
	else
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int fill(int fd, const char *text)
{
	int err = output_write(fd, (const uint8_t *)text, FILE_BYTES);

	/* Independent of the umask. */
	if (err == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0))
		err = -errno;
	return err;
}

static bool make_file(const char *path, const char *text, char why[KEY_FILE_WHY])
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err;

	if (fd < 0 && errno == EEXIST)
		return refuse(why, "%s is there already, and is not overwritten", path);
	if (fd < 0)
		return refuse(why, "%s cannot be made: %s", path, strerror(errno));
	err = fill(fd, text);
	if (close(fd) < 0 && err == 0)
		err = -errno;
	if (err == 0)
		err = sync_folder(path);
	if (err < 0) {
		(void)unlink(path);
		return refuse(why, "%s cannot be written: %s", path, strerror(-err));
	}
	return true;
}

bool key_file_make(const char *path, uint8_t key[RIO_KEY_BYTES], char why[KEY_FILE_WHY])
{
	uint8_t seed[RIO_SEED_BYTES];
	char text[FILE_BYTES + 1];
	struct rio_identity self = { 0 };
	bool is_made;

	if (sodium_init() < 0)
		return refuse(why, "libsodium cannot be used here");
	randombytes_buf(seed, sizeof(seed));
	memcpy(text, first_line, FIRST_BYTES);
	rio_key_write(seed, text + FIRST_BYTES);
	text[FILE_BYTES - 1] = '\n';
	is_made = make_file(path, text, why);
	if (is_made) {
		rio_identity_make(&self, seed);
		memcpy(key, self.key, RIO_KEY_BYTES);
	}
	sodium_memzero(seed, sizeof(seed));
	sodium_memzero(text, sizeof(text));
	sodium_memzero(&self, sizeof(self));
	return is_made;
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* At most FILE_BYTES + 1: an extra byte shows that the file is too long. */
static ssize_t read_all(int fd, char text[FILE_BYTES + 1])
{
	size_t have = 0;

	while (have < FILE_BYTES + 1) {
		ssize_t n = read(fd, text + have, FILE_BYTES + 1 - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

static bool parse(char text[FILE_BYTES + 1], ssize_t length, uint8_t seed[RIO_SEED_BYTES])
{
	if (length != FILE_BYTES || memcmp(text, first_line, FIRST_BYTES) != 0 ||
	    text[FILE_BYTES - 1] != '\n')
		return false;
	text[FILE_BYTES - 1] = '\0';
	return rio_key_read(text + FIRST_BYTES, seed);
}

static bool read_file(int fd, const char *path, struct rio_identity *self, char why[KEY_FILE_WHY])
{
	uint8_t seed[RIO_SEED_BYTES];
	char text[FILE_BYTES + 1];
	ssize_t length = read_all(fd, text);
	bool is_read = parse(text, length, seed);

	if (is_read)
		rio_identity_make(self, seed);
	else if (length < 0)
		refuse(why, "%s cannot be read: %s", path, strerror((int)-length));
	else
		refuse(why, "%s is not a key file; weft key new makes one", path);
	sodium_memzero(seed, sizeof(seed));
	sodium_memzero(text, sizeof(text));
	return is_read;
}

bool key_file_read(const char *path, struct rio_identity *self, char why[KEY_FILE_WHY])
{
	bool is_read;
	int fd;

	if (sodium_init() < 0)
		return refuse(why, "libsodium cannot be used here");
	/* Without O_NONBLOCK, opening a FIFO would block. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return refuse(why, "%s is not there; weft key new makes one", path);
	if (fd < 0)
		return refuse(why, "%s cannot be opened: %s", path, strerror(errno));
	is_read = config_file_is_private(fd, path, why, KEY_FILE_WHY) &&
		  read_file(fd, path, self, why);
	close(fd);
	return is_read;
}
