/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Texts and names in control messages are printed to logs and terminals, so they must be valid
 * UTF-8 (RFC 3629) without control characters.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An empty text is good. */
bool rio_text_is_good(const uint8_t *bytes, size_t length);
