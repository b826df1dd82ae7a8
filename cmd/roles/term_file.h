/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The highest term of an owner (docs/rio.md, "What a write promises", rule 8) that a role had or
 * heard of, in a file that outlives it: FILE.term, beside a file of the role's own. It has one
 * line: the number and, of an I/O unit, the incarnation, both decimal. Only the role reads it, so
 * it has mode 0600.
 */
#pragma once

#include <weft/rio.h>

/* Zeroes: nothing was kept yet, or it cannot be read, which is said. */
struct weft_rio_term term_file_read(const char *command, const char *beside);

/* From now on; if it cannot be kept, that is said. An incarnation of 0 is not written. */
void term_file_keep(const char *command, const char *beside, const struct weft_rio_term *term);
