/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's completions and reasons, as verbs have them. */
#pragma once

#include <infiniband/verbs.h>

#include <weft/weft.h>

/* Verbs status and opcode of a completion. */
enum ibv_wc_status wc_status_of(const struct ibv_context *context, const struct weft_completion *c);
enum ibv_wc_opcode wc_opcode_of(enum weft_opcode opcode);

/* Returns NULL, and sets errno for the reason. */
void *refused(enum weft_reason reason);
