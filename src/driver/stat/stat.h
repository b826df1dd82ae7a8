/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of this process's adapters, for `weft stat`. */
#pragma once

#include "driver/loop/fork.h"

struct weft_adapter;

/* The adapter has got its network (its lock is held); has lost it (its lock is not held). */
void stat_add(struct weft_adapter *a);
void stat_remove(struct weft_adapter *a);

extern const struct fork_part stat_fork_part;
