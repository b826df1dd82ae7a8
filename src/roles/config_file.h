/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the files of roles whole: configuration files, which say who is trusted, and files with
 * secrets. False: `why` has a sentence with the path.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/config_lines.h"

enum { CONFIG_FILE_WHY = 1024 };

/* Says why: false. */
__attribute__((format(printf, 2, 3))) bool config_refuse(char why[CONFIG_FILE_WHY],
							 const char *form, ...);

/*
 * A file that other users could have written is refused. At most CONFIG_BYTES_MAX + 1 bytes are
 * read: one more than a configuration may have. The caller frees the text.
 */
bool config_file_read(const char *path, char **text, size_t *length, char why[CONFIG_FILE_WHY]);

/* The same for a file with secrets: a regular file that other users cannot read either. */
bool config_file_read_secret(const char *path, char **text, size_t *length,
			     char why[CONFIG_FILE_WHY]);

/*
 * The file, as `parse` reads its text into *config; else why has path, line and column of what it
 * complains of.
 */
bool config_file_parse(const char *path,
		       bool (*parse)(const char *text, size_t length, void *config,
				     struct config_complaint *complaint),
		       void *config, char why[CONFIG_FILE_WHY]);

/* Whether only this user, or root, can read and write the open file; else why. */
bool config_file_is_private(int fd, const char *path, char *why, size_t room);

/* A path relative to the folder of the configuration file. NULL: out of memory. */
char *config_file_beside(const char *config_path, const char *path);
