/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct test *tests;
static struct test **tests_end = &tests;

/* The test that is running. */
static enum { RUN_OK, RUN_FAILED, RUN_SKIPPED } outcome;
static char why[1024];
static _Thread_local char note[256]; /* others than the test's do not fail it */
static jmp_buf leave;
static bool is_child;

void harness_register(struct test *test)
{
	*tests_end = test;
	tests_end = &test->next;
}

/* Notes the first failure; later ones are its echo. */
__attribute__((format(printf, 3, 4))) static void fail(const char *file, int line,
						       const char *format, ...)
{
	va_list args;
	int len;

	if (outcome == RUN_FAILED)
		return;
	outcome = RUN_FAILED;
	len = snprintf(why, sizeof(why), "%s:%d: ", file, line);
	va_start(args, format);
	vsnprintf(why + len, sizeof(why) - (size_t)len, format, args);
	va_end(args);
	len = (int)strlen(why);
	snprintf(why + len, sizeof(why) - (size_t)len, "%s%s", note[0] ? ": " : "", note);
	if (!is_child)
		return;
	fprintf(stderr, "child: %s\n", why);
	_exit(1);
}

void harness_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(note, sizeof(note), format, args);
	va_end(args);
}

const char *harness_folder(void)
{
	const char *chosen = getenv("TMPDIR");

	if (chosen)
		return chosen;
	return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

void harness_in_child(void)
{
	is_child = true;
}

bool harness_true(const char *file, int line, const char *expr, bool is_true)
{
	if (!is_true)
		fail(file, line, "%s", expr);
	return is_true;
}

bool harness_equal(const char *file, int line, const char *expr, intmax_t a, intmax_t b)
{
	if (a != b)
		fail(file, line,
		     "%s: %" PRIdMAX " (0x%" PRIxMAX ") is not %" PRIdMAX " (0x%" PRIxMAX ")", expr,
		     a, (uintmax_t)a, b, (uintmax_t)b);
	return a == b;
}

bool harness_equal_str(const char *file, int line, const char *a, const char *b)
{
	bool is_equal = a == b || (a && b && strcmp(a, b) == 0);

	if (!is_equal)
		fail(file, line, "\"%s\" is not \"%s\"", a ? a : "(null)", b ? b : "(null)");
	return is_equal;
}

bool harness_equal_mem(const char *file, int line, const void *a, const void *b, size_t len)
{
	const unsigned char *x = a, *y = b;

	for (size_t i = 0; i < len; i++) {
		if (x[i] != y[i]) {
			fail(file, line, "byte %zu of %zu: 0x%02x is not 0x%02x", i, len, x[i],
			     y[i]);
			return false;
		}
	}
	return true;
}

void harness_skip(const char *reason)
{
	if (outcome != RUN_OK)
		return;
	outcome = RUN_SKIPPED;
	snprintf(why, sizeof(why), "%s", reason);
}

void harness_perturb(uint64_t round)
{
	const char *text = getenv("MALLOC_PERTURB_");

	if (text)
		mallopt(M_PERTURB, round % HARNESS_PERTURBED == 0 ? atoi(text) : 0);
}

void harness_leave(void)
{
	longjmp(leave, 1);
}

static void run(const struct test *test)
{
	outcome = RUN_OK;
	note[0] = '\0';
	if (setjmp(leave) == 0)
		test->run();
}

/* Rounds end with the first that fails, or is skipped. */
static void run_rounds(const struct test *test)
{
	static const char *const words[] = {
		[RUN_OK] = "ok", [RUN_FAILED] = "not ok", [RUN_SKIPPED] = "skip"
	};
	const char *round_words = "";

	outcome = RUN_OK;
	if (!harness_round)
		run(test);
	for (uint64_t i = 0; harness_round && outcome == RUN_OK; i++) {
		harness_perturb(i);
		const char *next = harness_round(i);

		if (!next)
			break;
		round_words = next;
		run(test);
	}
	printf("%s %s%s%s", words[outcome], test->name, outcome == RUN_OK ? "" : ": ",
	       outcome == RUN_OK ? "" : why);
	printf("%s%s\n", outcome == RUN_FAILED && *round_words ? "; " : "",
	       outcome == RUN_FAILED ? round_words : "");
}

/* What the clock says, and user and system time of the process and of children that have ended. */
struct cost {
	double wall_s;
	double cpu_s;
};

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static struct cost cost_so_far(void)
{
	struct rusage self, children;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	return (struct cost){
		.wall_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
		.cpu_s = seconds(self.ru_utime) + seconds(self.ru_stime) +
			 seconds(children.ru_utime) + seconds(children.ru_stime),
	};
}

/*
 * For ./dev test --slow: a line for each test, in the file that WEFT_TEST_TIMES names. It is not
 * kept open: tests count descriptors.
 */
static void note_cost(const char *name, struct cost before)
{
	struct cost now = cost_so_far();
	const char *path = getenv("WEFT_TEST_TIMES");
	FILE *times = path ? fopen(path, "a") : NULL;

	if (!times)
		return;
	fprintf(times, "%s %.3f %.3f\n", name, now.wall_s - before.wall_s,
		now.cpu_s - before.cpu_s);
	fclose(times);
}

/* Part of the name, as an argument; or part of program/name, in the list of words WEFT_TEST. */
static bool is_wanted(const struct test *test, int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *env = getenv("WEFT_TEST");
	char name[512], list[1024];

	for (int i = 1; i < argc; i++) {
		if (strstr(test->name, argv[i]))
			return true;
	}
	if (argc > 1)
		return false;
	if (!env || !*env)
		return true;
	snprintf(name, sizeof(name), "%s/%s", slash ? slash + 1 : argv[0], test->name);
	snprintf(list, sizeof(list), "%s", env);
	for (char *word = strtok(list, " "); word; word = strtok(NULL, " ")) {
		if (strstr(name, word))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	int counts[3] = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (const struct test *test = tests; test; test = test->next) {
		if (!is_wanted(test, argc, argv))
			continue;
		struct cost before = cost_so_far();

		run_rounds(test);
		counts[outcome]++;
		note_cost(test->name, before);
	}
	if (counts[RUN_FAILED])
		return 1;
	return counts[RUN_SKIPPED] && !counts[RUN_OK] ? 77 : 0;
}
