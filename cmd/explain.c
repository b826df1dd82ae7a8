/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <weft/reason.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	NAME_MAX_LEN = 64,
	WRAP_COLUMNS = 76,
};

/* Prints words at an indent, broken into lines. */
static void print_wrapped(const char *text, int indent)
{
	int column = 0;

	while (*text) {
		int len = (int)strcspn(text, " ");

		if (column && column + 1 + len > WRAP_COLUMNS) {
			putchar('\n');
			column = 0;
		}
		column += printf("%*s%.*s", column ? 1 : indent, "", len, text);
		text += len;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void explain(enum weft_reason reason)
{
	int err = weft_reason_errno(reason);

	printf("%s (%d)\n", weft_reason_name(reason), (int)reason);
	print_wrapped(weft_reason_text(reason), 4);
	printf("    rule %s", weft_reason_requirement(reason));
	if (err)
		printf(", errno %d (%s)", err, strerror(err));
	putchar('\n');
}

static void list(void)
{
	printf("%4s  %-24s %-10s %s\n", "", "reason", "rule", "meaning");
	for (int i = 0; i < WEFT_REASON_COUNT; i++)
		printf("%4d  %-24s %-10s %s\n", i, weft_reason_name(i), weft_reason_requirement(i),
		       weft_reason_text(i));
}

/* A number as in a completion's vendor error, or a name. */
static bool parse(const char *word, enum weft_reason *reason)
{
	char *end;
	unsigned long number = strtoul(word, &end, 0);

	if (*word >= '0' && *word <= '9' && !*end) {
		if (number >= WEFT_REASON_COUNT)
			return false;
		*reason = (enum weft_reason)number;
		return true;
	}
	return weft_reason_find(word, reason);
}

static int min(int a, int b)
{
	return a < b ? a : b;
}

/* Levenshtein distance, row by row. Both are shorter than NAME_MAX_LEN. */
static int edits(const char *a, const char *b)
{
	int row[NAME_MAX_LEN + 1];
	int b_len = (int)strlen(b);

	for (int j = 0; j <= b_len; j++)
		row[j] = j;
	for (int i = 1; a[i - 1]; i++) {
		int corner = row[0];

		row[0] = i;
		for (int j = 1; j <= b_len; j++) {
			int substituted = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			row[j] = min(substituted, 1 + min(row[j], row[j - 1]));
		}
	}
	return row[b_len];
}

static bool is_near(const char *word, const char *name)
{
	if (strlen(word) >= NAME_MAX_LEN || strlen(name) >= NAME_MAX_LEN)
		return false;
	return (*word && strstr(name, word)) || edits(word, name) <= (int)strlen(name) / 4;
}

enum { WORD_SHOWN = 40 };

static void complain(const char *word)
{
	const char *lead = "; did you mean";

	/* The word may be anything: what a terminal would obey is not echoed. */
	fprintf(stderr, "weft explain: there is no reason \"");
	for (int i = 0; word[i] && i < WORD_SHOWN; i++)
		fputc(isprint((unsigned char)word[i]) ? word[i] : '?', stderr);
	fprintf(stderr, "\"");
	for (int i = 0; i < WEFT_REASON_COUNT; i++) {
		if (is_near(word, weft_reason_name(i))) {
			fprintf(stderr, "%s %s", lead, weft_reason_name(i));
			lead = ",";
		}
	}
	fprintf(stderr, "%s\n", *lead == ',' ? "?" : "; `weft explain` lists all");
}

static const char usage[] =
	"usage: weft explain [REASON...]\n\n"
	"Says what a refusal means and which rule it enforces. A REASON is a name such as\n"
	"tag_instance, or its number. Without one, lists them all.\n";

static int cmd_explain(int argc, char **argv)
{
	int status = 0;

	if (argc == 1)
		list();
	for (int i = 1; i < argc; i++) {
		enum weft_reason reason;

		if (parse(argv[i], &reason)) {
			explain(reason);
		} else {
			complain(argv[i]);
			status = 1;
		}
	}
	return status;
}

const struct command command_explain = {
	.name = "explain",
	.args = "[REASON...]",
	.what = "what a refusal means, and the rule behind it",
	.help = usage,
	.run = cmd_explain,
};
