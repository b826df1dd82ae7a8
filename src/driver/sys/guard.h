/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to memory that the program may unmap, protect or truncate at any time: the access fails,
 * and the program lives.
 *
 * A handler of SIGSEGV and SIGBUS notices a missing page, and returns to where the access is left;
 * so a handler of the program's that calls it must return, too. While all pages are there, that
 * makes no system call. A copy by the kernel (process_vm_readv) would make one for every packet,
 * and userfaultfd (notice.h) reports neither mprotect() nor a truncated file. A fault outside such
 * an access, or at an address that is not part of it, goes to the handler that the program
 * installed before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mem/guard.h"

/* Copies and calls that survive missing pages. */
extern const struct mem_guard fault_guard;

/* Installs the handlers, removes them: counted, one for each open adapter. */
void guard_open(void);
void guard_close(void);

/* Around fork(), and in a child that was made without its handlers: see struct fork_part. */
void guard_lock(void);
void guard_unlock(void);
void guard_lock_reset(void);

/* How many accesses of this process were left so far. */
uint64_t guard_faults(void);

/*
 * Installs them anew, if the program has installed its own since, which become the next to call.
 * Looks a tenth of a second after the last look, at the earliest: to be called with the time before
 * each access, so that a look is never older than that.
 */
void guard_renew(uint64_t now_ns);
