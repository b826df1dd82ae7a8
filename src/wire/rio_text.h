/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Texts and names in control messages end in logs and on terminals, so they are UTF-8 in its one
 * form (RFC 3629) and hold no control characters.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of no bytes it is good. */
bool rio_text_is_good(const uint8_t *bytes, size_t length);
