/* SPDX-License-Identifier: BSD-2-Clause */
/* Text forms of platforms, keys, roles and names of directed I/O; texts are NUL-terminated. */
#pragma once

#include "wire/rio_msg.h"

enum {
	RIO_NAME_MAX = RIO_DEVICE_NAME_MAX,
	RIO_PLATFORM_TEXT = 22,		    /* buffer size for the longest text */
	RIO_KEY_DIGITS = 2 * RIO_KEY_BYTES, /* hexadecimal */
};

/* 1 to RIO_NAME_MAX letters, digits, - _ and . but not "any". */
bool rio_name_is_good(const char *text);

/* "7.1"; neither number is 0. On refusal *platform has not changed. */
bool rio_platform_read(const char *text, struct platform *platform);
void rio_platform_write(struct platform platform, char text[RIO_PLATFORM_TEXT]);

/* On refusal the key is undefined. */
bool rio_key_read(const char *text, uint8_t key[RIO_KEY_BYTES]);
void rio_key_write(const uint8_t key[RIO_KEY_BYTES], char text[RIO_KEY_DIGITS + 1]);

/* "owner", "iounit", "requester", "card-unit", "card-host", "fabric-part". */
const char *rio_role_name(enum rio_role role);
