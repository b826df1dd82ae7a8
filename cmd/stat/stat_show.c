/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/stat/stat_show.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void stat_json_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if (isprint((unsigned char)*text))
			putchar(*text);
		else
			printf("\\u%04x", (unsigned char)*text);
	}
	putchar('"');
}

/* Whether a key's value is a number, and says it as one. */
static bool is_number(const struct stat_line *l, const struct stat_field *f)
{
	bool is_name = strcmp(f->key, "program") == 0 || strcmp(f->key, "version") == 0 ||
		       strcmp(f->key, "peer_qp") == 0 || strcmp(f->key, "isid") == 0 ||
		       (strcmp(l->what, "qp") == 0 && strcmp(f->key, "number") == 0);

	return !is_name && *f->value && f->value[strspn(f->value, "0123456789")] == '\0';
}

void stat_json_fields(const struct stat_line *l)
{
	for (size_t i = 0; i < l->count; i++) {
		if (i > 0)
			printf(", ");
		stat_json_string(l->fields[i].key);
		printf(": ");
		if (is_number(l, &l->fields[i]))
			printf("%s", l->fields[i].value);
		else
			stat_json_string(l->fields[i].value);
	}
}

void stat_json_lines(const struct stat_report *r, const char *what, const char *name)
{
	bool has_any = false;

	printf(",\n \"%s\": [", name);
	for (size_t i = 0; i < r->count; i++) {
		if (strcmp(r->lines[i].what, what) != 0)
			continue;
		printf("%s\n  {", has_any ? "," : "");
		stat_json_fields(&r->lines[i]);
		printf("}");
		has_any = true;
	}
	printf("]");
}

static int misused(const struct stat_command *c, const char *what, const char *word)
{
	fprintf(stderr, "weft %s: %s%s\n\n%s", c->name, what, word, c->help);
	return 2;
}

static int args_read(int argc, char **argv, const struct stat_command *c, struct stat_args *args)
{
	char *end = NULL;

	*args = (struct stat_args){ 0 };
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			args->is_json = true;
		} else if (strcmp(argv[i], "--watch") == 0) {
			const char *word = i + 1 < argc ? argv[++i] : "";

			args->is_watching = true;
			args->watch_s = strtod(word, &end);
			if (end == word || *end ||
			    !(args->watch_s >= 0.1 && args->watch_s <= 86400))
				return misused(c, "--watch needs seconds, from 0.1 on", "");
		} else if (isdigit((unsigned char)argv[i][0]) && args->pid == 0) {
			args->pid = strtol(argv[i], &end, 10);
			if (*end || args->pid <= 0)
				return misused(c, "no process id: ", argv[i]);
		} else {
			return misused(c, "what is ", argv[i]);
		}
	}
	return 0;
}

static int show_one(const struct stat_command *c, const struct stat_args *args)
{
	const char *const words[] = {
		[STAT_NOBODY] = c->absent,
		[STAT_FOREIGN] = "is another user's",
		[STAT_SILENT] = "does not answer; is it stopped?",
		[STAT_UNREADABLE] = "answers what this version of weft does not understand",
	};
	struct stat_report r;
	enum stat_answer answer = stat_ask(c->service, args->pid, &r);

	if (answer != STAT_HERE) {
		fprintf(stderr, "weft %s: process %ld %s\n", c->name, args->pid, words[answer]);
		return 1;
	}
	if (args->is_json) {
		c->json(&r);
		putchar('\n');
	} else {
		c->print(&r);
	}
	stat_free(&r);
	return 0;
}

static int show_all(const struct stat_command *c, const struct stat_args *args)
{
	static long pids[STAT_PROCESSES_MAX];
	size_t count = stat_processes(c->service, pids, STAT_PROCESSES_MAX), shown = 0;

	if (args->is_json)
		printf("[");
	for (size_t i = 0; i < count; i++) {
		struct stat_report r;

		if (stat_ask(c->service, pids[i], &r) != STAT_HERE)
			continue;
		if (shown++ > 0)
			printf("%s\n", args->is_json ? "," : "");
		if (args->is_json)
			c->json(&r);
		else
			c->print(&r);
		stat_free(&r);
	}
	if (args->is_json)
		printf("]\n");
	else if (shown == 0)
		printf("%s\n", c->nothing);
	return 0;
}

static int show(const struct stat_command *c, const struct stat_args *args)
{
	if (args->pid)
		return show_one(c, args);
	return c->show_all ? c->show_all(args) : show_all(c, args);
}

int stat_show(int argc, char **argv, const struct stat_command *c)
{
	struct stat_args args;
	int status = args_read(argc, argv, c, &args);

	if (status != 0)
		return status;
	for (;;) {
		struct timespec pause = { .tv_sec = (time_t)args.watch_s };

		status = show(c, &args);
		if (status != 0 || !args.is_watching || fflush(stdout) != 0)
			return status;
		pause.tv_nsec = (long)((args.watch_s - (double)pause.tv_sec) * 1e9);
		nanosleep(&pause, NULL);
		if (isatty(STDOUT_FILENO) && !args.is_json)
			printf("\033[H\033[J");
		else if (!args.is_json)
			putchar('\n');
	}
}
