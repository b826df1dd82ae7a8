/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

#include "rio/names.h"
#include "roles/key_file.h"

#include <sodium/utils.h>

static const char usage[] =
	"usage: weft key new FILE     make a secret key in a new file, print its public key\n"
	"       weft key show FILE    print the public key of a file\n\n"
	"Every role of directed I/O has a secret key of its own, in a file that only its user\n"
	"can read. Others know it by its public key, which stands in their configuration files\n"
	"(docs/config.md). The secret is never printed.\n";

static int make(const char *path)
{
	uint8_t key[RIO_KEY_BYTES];
	char text[RIO_KEY_DIGITS + 1], why[KEY_FILE_WHY];

	if (!key_file_make(path, key, why)) {
		fprintf(stderr, "weft key: %s\n", why);
		return 1;
	}
	rio_key_write(key, text);
	puts(text);
	return 0;
}

static int show(const char *path)
{
	struct rio_identity self = { 0 };
	char text[RIO_KEY_DIGITS + 1], why[KEY_FILE_WHY];

	if (!key_file_read(path, &self, why)) {
		fprintf(stderr, "weft key: %s\n", why);
		return 1;
	}
	rio_key_write(self.key, text);
	sodium_memzero(&self, sizeof(self));
	puts(text);
	return 0;
}

static int cmd_key(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "new") == 0)
		return make(argv[2]);
	if (argc == 3 && strcmp(argv[1], "show") == 0)
		return show(argv[2]);
	fputs(usage, stderr);
	return 2;
}

const struct command command_key = {
	.name = "key",
	.args = "new FILE",
	.what = "make and show keys for directed remote I/O",
	.help = usage,
	.run = cmd_key,
};
