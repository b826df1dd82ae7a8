/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/fiber.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include "base/check.h"

enum { STACK_BYTES = 1 << 19 };

struct fiber {
	ucontext_t own, caller;
	void (*run)(void *owner);
	void *owner;
	bool has_ended;
	uint8_t *stack;
	/* For the address sanitizer: its copies of locals, and the caller's stack. */
	void *fake, *caller_fake;
	const void *caller_stack;
	size_t caller_bytes;
};

/* The address sanitizer, if it is there, has to know on which stack the program is. */
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **fake, const void *stack,
							  size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *fake, const void **stack,
							   size_t *bytes);

static void leave(struct fiber *f)
{
	if (__sanitizer_start_switch_fiber)
		__sanitizer_start_switch_fiber(f->has_ended ? NULL : &f->fake, f->caller_stack,
					       f->caller_bytes);
	CHECK(swapcontext(&f->own, &f->caller) == 0);
}

static void arrive(struct fiber *f)
{
	if (__sanitizer_finish_switch_fiber)
		__sanitizer_finish_switch_fiber(f->fake, &f->caller_stack, &f->caller_bytes);
}

/* makecontext() passes integers: the two halves of the pointer. */
static void begin(unsigned int high, unsigned int low)
{
	struct fiber *f = (struct fiber *)(uintptr_t)((uint64_t)high << 32 | low);

	arrive(f);
	f->run(f->owner);
	f->has_ended = true;
	leave(f);
}

static void prepare(struct fiber *f)
{
	uint64_t bits = (uintptr_t)f;

	CHECK(getcontext(&f->own) == 0);
	f->own.uc_stack.ss_sp = f->stack;
	f->own.uc_stack.ss_size = STACK_BYTES;
	f->own.uc_link = NULL;
	makecontext(&f->own, (void (*)(void))begin, 2, (unsigned int)(bits >> 32),
		    (unsigned int)bits);
}

struct fiber *fiber_create(void (*run)(void *owner), void *owner)
{
	struct fiber *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->run = run;
	f->owner = owner;
	f->stack = malloc(STACK_BYTES);
	if (!f->stack) {
		free(f);
		return NULL;
	}
	prepare(f);
	return f;
}

void fiber_destroy(struct fiber *f)
{
	free(f->stack);
	free(f);
}

bool fiber_resume(struct fiber *f)
{
	CHECK(!f->has_ended);
	if (__sanitizer_start_switch_fiber)
		__sanitizer_start_switch_fiber(&f->caller_fake, f->stack, STACK_BYTES);
	CHECK(swapcontext(&f->caller, &f->own) == 0);
	if (__sanitizer_finish_switch_fiber)
		__sanitizer_finish_switch_fiber(f->caller_fake, NULL, NULL);
	return !f->has_ended;
}

void fiber_yield(struct fiber *f)
{
	leave(f);
	arrive(f);
}
