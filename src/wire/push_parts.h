/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of the messages of the split network card, for push_msg.c and push_cfg.c only. */
#pragma once

#include "wire/push_msg.h"

/* Each takes or puts the body; push_msg_decode() rejects excess bytes. */
enum weft_reason push_cfg_decode(struct push_cfg *c, bool is_reply, struct rd *r);
void push_cfg_encode(const struct push_cfg *c, bool is_reply, struct wr *w);
