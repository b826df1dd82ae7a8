/* SPDX-License-Identifier: BSD-2-Clause */
/* Words are cut out of the text in place, so a word's offset in its line is its column. */
#include "base/config_lines.h"

#include <stdlib.h>
#include <string.h>

bool config_complain(struct config_reader *r, const char *at, const char *why)
{
	*r->complaint = (struct config_complaint){ r->line, (uint32_t)(at - r->begin) + 1, why };
	return false;
}

bool config_complain_line(struct config_reader *r, uint32_t line, const char *why)
{
	*r->complaint = (struct config_complaint){ line, 1, why };
	return false;
}

struct word config_word(const char *text)
{
	return (struct word){ text, (uint32_t)strlen(text) };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A comment begins with # after a blank, but not within quotes: device texts may contain #. */
static void cut_comment(char *line)
{
	bool is_quoted = false;

	for (char *at = line; *at != '\0'; at++) {
		if (*at == '"')
			is_quoted = !is_quoted;
		if (*at == '#' && !is_quoted && (at == line || is_blank(at[-1]))) {
			*at = '\0';
			return;
		}
	}
}

/* Takes the next word and NUL-terminates it; NULL: there is none. */
static char *take_word(char **at, bool is_rest)
{
	char *word = *at, *end;

	while (is_blank(*word))
		word++;
	if (*word == '\0')
		return NULL;
	end = word + strlen(word);
	if (is_rest) {
		while (is_blank(end[-1]))
			end--;
	} else {
		for (end = word; *end != '\0' && !is_blank(*end); end++)
			;
	}
	*at = *end == '\0' ? end : end + 1;
	*end = '\0';
	return word;
}

static const struct config_keyword *find_keyword(const struct config_reader *r, const char *name)
{
	for (uint32_t i = 0; i < r->keyword_count; i++) {
		if (strcmp(r->keywords[i].name, name) == 0)
			return &r->keywords[i];
	}
	return NULL;
}

static bool read_keyword(struct config_reader *r, const struct config_keyword *k, char *at)
{
	uint32_t bit = UINT32_C(1) << (k - r->keywords);

	if (r->allows && !r->allows(r, k))
		return false;
	if (k->is_once && (r->said & bit) != 0)
		return config_complain(r, r->words[0],
				       "this was said before, and can be said once");
	r->said |= bit;
	while (r->count <= k->words_max) {
		char *word = take_word(&at, k->has_rest && r->count == k->words_max - 1);

		if (!word)
			break;
		r->words[r->count++] = word;
	}
	if (r->count < k->words_min)
		return config_complain(r, r->words[0], k->form);
	if (r->count > k->words_max)
		return config_complain(r, r->words[k->words_max], k->form);
	return k->read(r);
}

static bool read_line(struct config_reader *r, char *line)
{
	const struct config_keyword *k;
	char *at = line;

	for (const char *c = line; *c != '\0'; c++) {
		if (((unsigned char)*c < ' ' && !is_blank(*c)) || *c == 0x7f)
			return config_complain(r, c, "this is a control character");
	}
	cut_comment(line);
	r->words[0] = take_word(&at, false);
	if (!r->words[0])
		return true;
	r->count = 1;
	k = find_keyword(r, r->words[0]);
	if (!k)
		return config_complain(r, r->words[0], "there is no such keyword");
	return read_keyword(r, k, at);
}

void *config_copy(size_t bytes, const char *text, size_t length, struct config_complaint *complaint)
{
	uint8_t *room;

	*complaint = (struct config_complaint){ 1, 1, "there is no memory for it" };
	if (length > CONFIG_BYTES_MAX) {
		complaint->why = "a file has at most 1 MiB";
		return NULL;
	}
	room = calloc(1, bytes + length + 1);
	if (room && length > 0)
		memcpy(room + bytes, text, length);
	return room;
}

bool config_lines_read(struct config_reader *r, char *text, size_t length)
{
	char *line = text, *end = line + length;

	for (;;) {
		char *feed = memchr(line, '\n', (size_t)(end - line));
		char *stop = feed ? feed : end, *zero;

		r->begin = line;
		r->line++;
		zero = memchr(line, '\0', (size_t)(stop - line));
		if (zero)
			return config_complain(r, zero, "this is a control character");
		*stop = '\0';
		if (!read_line(r, line))
			return false;
		if (!feed)
			return true;
		line = feed + 1;
	}
}
