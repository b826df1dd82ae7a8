/* SPDX-License-Identifier: BSD-2-Clause */
/* Maps decoder errors of wire/ to reasons. */
#pragma once

#include <weft/reason.h>

#include "wire/rio_msg.h"
#include "wire/sgl.h"

enum weft_reason refusal_of_sgl(enum sgl_err err);
enum weft_reason refusal_of_msg(enum rio_msg_err err);

/* A sentence about the reason, short enough for a status message. */
struct rio_bytes refusal_text(enum weft_reason reason);
