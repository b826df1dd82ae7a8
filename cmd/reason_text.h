/* SPDX-License-Identifier: BSD-2-Clause */
/* What commands say of a call that was refused. */
#pragma once

#include <weft/weft.h>

enum { REASON_TEXT = 320 };

/*
 * The reason's sentence and name; with WEFT_R_SYSTEM what the system said, if this thread made the
 * call. Returns text.
 */
const char *reason_text(enum weft_reason reason, char text[REASON_TEXT]);
