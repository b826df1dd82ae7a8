/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers as people write them: whole ones, sizes such as 64k and times such as 50us. All return
 * false for text that is no such number, or that does not fit into 64 bits.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Some characters of a text, not ended by a 0. */
struct word {
	const char *at;
	uint32_t length;
};

bool word_is(struct word w, const char *text);

/* Reads the leading digits, at least one, and removes them from the word. */
bool word_take_number(struct word *w, uint64_t *number);

/* A whole number and nothing else. */
bool quantity_number(struct word w, uint64_t *number);

/* In bytes; B, k, M, G, T, P, as powers of 1024, or none. */
bool quantity_size(struct word w, uint64_t *bytes);

/* In nanoseconds; ns, us, ms or s. */
bool quantity_time(struct word w, uint64_t *ns);
