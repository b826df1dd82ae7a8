/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flow of control with a stack of its own, for code of a virtual process that others may come
 * between: it yields there, and goes on when it is resumed, or never.
 */
#pragma once

#include <stdbool.h>

struct fiber;

/* run(owner) begins with the first resume. NULL: out of memory. */
struct fiber *fiber_create(void (*run)(void *owner), void *owner);

/* Also one that has yielded: it does not go on, and what its functions hold stays as it is. */
void fiber_destroy(struct fiber *f);

/* Runs it until it yields, or ends: false. */
bool fiber_resume(struct fiber *f);

/* Within the fiber: returns to fiber_resume(). */
void fiber_yield(struct fiber *f);
