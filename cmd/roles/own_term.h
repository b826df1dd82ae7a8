/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The term of an owner (docs/rio.md, "What a write promises", rule 8), kept in a file beside its
 * log: the highest one that it had or heard of, as a decimal number.
 */
#pragma once

#include <stdint.h>

/*
 * The term of an owner that begins now: the time of day in ns, or one more than was kept, if that
 * is higher. The highest number that there is follows itself. It is kept from now on; if it cannot
 * be, that is said, and the time of day must do.
 * log NULL: there is no such file.
 */
uint64_t own_term_begin(const char *log);

/* This one is higher: the next owner here begins above it. */
void own_term_keep(const char *log, uint64_t term);
