/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files with the private key of a role of directed I/O: two lines of text, the file type and the
 * seed of an Ed25519 key in hexadecimal. Only the user may have access: a file that other users can
 * read or could have written is refused. Secrets are wiped from memory after use.
 */
#pragma once

#include "rio/greet.h"

enum { KEY_FILE_WHY = 512 };

/*
 * Creates a new file with a new private key and returns the public key. The file is on disk when
 * the call returns. False: `why` has a sentence, and no file was created.
 */
bool key_file_make(const char *path, uint8_t key[RIO_KEY_BYTES], char why[KEY_FILE_WHY]);

/* Reads the key pair into self. False: `why` has a sentence, and self holds no secret. */
bool key_file_read(const char *path, struct rio_identity *self, char why[KEY_FILE_WHY]);
