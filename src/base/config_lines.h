/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configuration files: lines of a keyword and words with blanks between them, comments from # on.
 * Cuts the text into words in place, finds the row of each line's keyword, checks how many words it
 * has, and calls the row. The first error is kept with its line and column.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/quantity.h"

enum {
	CONFIG_BYTES_MAX = 1 << 20,
	CONFIG_WORDS_MAX = 6, /* of a line, the keyword included */
};

/* The first error in a file; line and column count from 1. */
struct config_complaint {
	uint32_t line, column;
	const char *why;
};

/* A text and its line number; line 0: the default, not in the file. */
struct config_text {
	const char *is;
	uint32_t line;
};

struct config_reader;

struct config_keyword {
	const char *name;
	uint32_t kinds; /* of files that may contain it; the owner's to check */
	uint32_t words_min, words_max;
	bool is_once;
	bool has_rest; /* the last word takes the rest of the line */
	bool (*read)(struct config_reader *r);
	const char *form; /* for one with too few or too many words */
};

struct config_reader {
	/* Set by the caller. */
	void *of; /* what is being read */
	const struct config_keyword *keywords;
	uint32_t keyword_count; /* at most 32 */
	/* Whether a line of this keyword may come now; NULL: always. */
	bool (*allows)(struct config_reader *r, const struct config_keyword *k);
	struct config_complaint *complaint;

	uint32_t said; /* keywords seen: 1 << index */
	/* The current line. */
	const char *begin;
	uint32_t line;
	char *words[CONFIG_WORDS_MAX + 1]; /* one more, to detect an excess word */
	uint32_t count;
};

/*
 * A struct of so many bytes, all 0, with the text and a NUL behind it: what words point into. NULL:
 * the file is too long or there is no memory, as the complaint says.
 */
void *config_copy(size_t bytes, const char *text, size_t length,
		  struct config_complaint *complaint);

/* Reads all lines; text[length] can be written. False: the complaint says why. */
bool config_lines_read(struct config_reader *r, char *text, size_t length);

/* Reports an error at a word of the current line, or at the beginning of any line: false. */
bool config_complain(struct config_reader *r, const char *at, const char *why);
bool config_complain_line(struct config_reader *r, uint32_t line, const char *why);

struct word config_word(const char *text);
