/* SPDX-License-Identifier: BSD-2-Clause */
/* What the decoders of wire/ refuse, as reasons that a person is told. */
#pragma once

#include <weft/reason.h>

#include "wire/rio_msg.h"
#include "wire/sgl.h"

enum weft_reason refusal_of_sgl(enum sgl_err err);
enum weft_reason refusal_of_msg(enum rio_msg_err err);

/* A sentence about it that fits into a status. */
struct rio_bytes refusal_text(enum weft_reason reason);
