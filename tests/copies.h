/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks through all memory of the process for copies of what a buffer has. */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than registers hold, which may be on a stack. */
enum { COPIES_NEEDLE = 1024, COPIES_STEP = 4096 };

/* How often these bytes are in the range, apart from where they belong. */
static inline uint32_t copies_in(const uint8_t *at, const uint8_t *end, const uint8_t *needle)
{
	uint32_t count = 0;

	while ((at = memmem(at, (size_t)(end - at), needle, COPIES_NEEDLE)) != NULL) {
		count += at != needle;
		at++;
	}
	return count;
}

/*
 * In all that can be read, but the kernel's own pages, and what is mapped under the name of the
 * wire (NULL: nothing is). UINT32_MAX: that cannot be known.
 */
static inline uint32_t copies(const uint8_t *buffer, size_t length, const char *wire)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint32_t count = 0;
	char line[512];

	if (!maps)
		return UINT32_MAX;
	while (fgets(line, sizeof(line), maps)) {
		uintptr_t first, end;
		char rights[5];

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &first, &end, rights) != 3 ||
		    rights[0] != 'r' || strstr(line, "[v") || (wire && strstr(line, wire)))
			continue;
		for (size_t i = 0; i < length; i += COPIES_STEP)
			count += copies_in((const uint8_t *)first, (const uint8_t *)end,
					   buffer + i);
	}
	fclose(maps);
	return count;
}

/* Whether a copy is seen where there is one. */
static inline bool copies_are_seen(const uint8_t *buffer, size_t length)
{
	uint8_t *volatile copy = malloc(length); /* the compiler must not leave it out */
	bool is_seen;

	if (!copy)
		return false;
	memcpy(copy, buffer, length);
	is_seen = copies(buffer, length, NULL) == (length + COPIES_STEP - 1) / COPIES_STEP;
	explicit_bzero(copy, length);
	free(copy);
	return is_seen;
}
