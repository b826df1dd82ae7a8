/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bench: what weft costs, as a table for people or as lines for programs. A missed goal is
 * said, but no error: the machine may be a slow one.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "subjects.h"

static const double bytes_goal = 96;

static void usage(FILE *to)
{
	fprintf(to,
		"usage: bench [--json]\n\n"
		"Measures what weft costs, next to memcpy of 4 KiB between two buffers in cache.\n"
		"\n"
		"  --json   one object a line instead of the table\n"
		"  --help   this text\n");
}

static void progress(const struct subject *s)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[Kmeasuring: %s", s->what + strspn(s->what, " "));
}

static void progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
}

static const char *verdict(bool is_met)
{
	return is_met ? "met" : "MISSED";
}

static void print_time(const struct subject *s, const struct measured *m, bool is_json)
{
	double ratio = m->ns / m->memcpy_ns;

	if (is_json) {
		printf("{\"bench\": \"%s\", \"value\": %.3f, \"unit\": \"ns\", "
		       "\"versus\": \"%s\", \"ratio\": %.4f}\n",
		       s->name, m->ns, measure_memcpy.name, ratio);
		return;
	}
	printf("%-60s %9.2f ns   %6.3f x", s->what, m->ns, ratio);
	if (s->goal > 0)
		printf("   %4g x   %s", s->goal, verdict(ratio <= s->goal));
	printf("\n");
}

/* Bytes are no multiple of a time, so they are set against their goal. */
static void print_bytes(double bytes, bool is_json)
{
	if (is_json)
		printf("{\"bench\": \"bytes_per_tag\", \"value\": %.1f, \"unit\": \"bytes\", "
		       "\"versus\": \"goal\", \"ratio\": %.4f}\n",
		       bytes, bytes / bytes_goal);
	else
		printf("%-60s %9.1f bytes         %8g     %s\n",
		       "memory per table entry, translation entries apart", bytes, bytes_goal,
		       verdict(bytes <= bytes_goal));
}

static void show(const struct subject *s, bool is_json)
{
	struct measured m;

	progress(s);
	m = measure(s);
	progress_end();
	print_time(s, &m, is_json);
	fflush(stdout);
}

static void show_all(bool is_json)
{
	double bytes;

	if (!is_json)
		printf("%-60s %12s   %8s   %6s\n", "what", "value", "memcpies", "goal");
	show(&measure_memcpy, is_json);
	for (int i = 0; i < MEM_SUBJECTS; i++)
		show(&mem_subjects[i], is_json);
	for (int i = 0; i < VERBS_SUBJECTS; i++)
		show(&verbs_subjects[i], is_json);
	bytes = mem_bytes_per_tag();
	if (bytes > 0)
		print_bytes(bytes, is_json);
	else
		fprintf(stderr, "bench: this allocator does not say how much it holds\n");
}

int main(int argc, char **argv)
{
	bool is_json = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			usage(stdout);
			return 0;
		}
		if (strcmp(argv[i], "--json") != 0) {
			fprintf(stderr, "bench: there is no option \"%s\"\n\n", argv[i]);
			usage(stderr);
			return 2;
		}
		is_json = true;
	}
	show_all(is_json);
	return fflush(stdout) == 0 ? 0 : 1;
}
