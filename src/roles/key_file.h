/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files with the secret of a role of directed I/O: two lines of text, that say what it is and the
 * seed of an Ed25519 key as hexadecimal digits. Nobody but its user may read one; a file that
 * others can read, or could have written, is refused. Secrets are wiped from memory when they are
 * not needed.
 */
#pragma once

#include "rio/greet.h"

enum { KEY_FILE_WHY = 512 };

/*
 * Makes a secret in a file that is not there yet, and gives its public key. When it returns the
 * file is on the disk. False: why says it in a sentence, and there is no new file.
 */
bool key_file_make(const char *path, uint8_t key[RIO_KEY_BYTES], char why[KEY_FILE_WHY]);

/* Reads key and secret of self. False: why says it in a sentence, and self holds no secret. */
bool key_file_read(const char *path, struct rio_identity *self, char why[KEY_FILE_WHY]);
