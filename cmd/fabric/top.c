/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric top: a fabric that runs, as a picture of text. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/clock.h"
#include "cmd/fabric/fabric.h"
#include "cmd/options.h"
#include "cmd/stat/stat_client.h"

#define STAT_FABRIC "weft/fabric-run"

enum { EVERY_MS = 1000, ROWS = 24, ROWS_OF_HEAD = 4, BAR = 8, LANE_FLITS = 256, ENDS = 128 };

/* A cable, and what its ends say of it. */
struct row {
	const struct stat_line *cable, *ends[2];
	uint64_t words[2]; /* that left its ends, since the view before if there was one */
};

struct view {
	struct stat_report report;
	struct row *rows;
	size_t count;
	uint64_t at_ns;
};

static const char *state_name(uint64_t state)
{
	static const char *const names[] = { "?", "Down", "Init", "Armed", "Active" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

/* ---- Asking --------------------------------------------------------------------------------- */

/* The report of the fabric of this name. False: none of this user runs. */
static bool report_find(const char *name, struct stat_report *r)
{
	static long pids[STAT_PROCESSES_MAX];
	size_t count = stat_processes(STAT_FABRIC, pids, STAT_PROCESSES_MAX);

	for (size_t i = 0; i < count; i++) {
		if (stat_ask(STAT_FABRIC, pids[i], r) != STAT_HERE)
			continue;
		if (r->count > 0 && strcmp(stat_text(&r->lines[0], "name"), name) == 0)
			return true;
		stat_free(r);
	}
	return false;
}

static bool view_make(struct view *v, const char *name)
{
	*v = (struct view){ .at_ns = clock_ns() };
	if (!report_find(name, &v->report))
		return false;
	v->rows = calloc(v->report.count, sizeof(*v->rows));
	for (size_t i = 0; v->rows && i + 2 < v->report.count; i++) {
		const struct stat_line *l = &v->report.lines[i];
		struct row *row = &v->rows[v->count];

		if (strcmp(l->what, "cable") != 0)
			continue;
		*row = (struct row){ .cable = l, .ends = { l + 1, l + 2 } };
		row->words[0] = stat_number(l + 1, "words_out");
		row->words[1] = stat_number(l + 2, "words_out");
		v->count++;
	}
	return v->rows;
}

static void view_free(struct view *v)
{
	free(v->rows);
	stat_free(&v->report);
}

/* ---- Showing -------------------------------------------------------------------------------- */

static int busier(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	uint64_t sum_x = x->words[0] + x->words[1], sum_y = y->words[0] + y->words[1];

	if (sum_x != sum_y)
		return sum_x < sum_y ? 1 : -1;
	return x->cable < y->cable ? -1 : x->cable > y->cable;
}

/* Words of 4 bytes that left in this time, as MB or MB/s. */
static double mega(uint64_t words, double seconds)
{
	return (double)words * 4 / 1e6 / seconds;
}

/* How full the buffers at an end are: its fullest lane. */
static void bar(const struct stat_line *end, char text[BAR + 1])
{
	uint64_t used = LANE_FLITS - stat_number(end, "room");
	uint64_t marks = used > LANE_FLITS ? 0 : (used * BAR + LANE_FLITS - 1) / LANE_FLITS;

	for (uint64_t i = 0; i < BAR; i++)
		text[i] = i < marks ? '#' : '.';
	text[BAR] = '\0';
}

static uint64_t both(const struct row *r, const char *key)
{
	return stat_number(r->ends[0], key) + stat_number(r->ends[1], key);
}

static void row_show(const struct row *r, double seconds)
{
	bool is_cut = stat_number(r->cable, "is_cut");
	char ends[ENDS], bars[2][BAR + 1];

	snprintf(ends, sizeof(ends), "%s:%s - %s:%s", stat_text(r->ends[0], "said"),
		 stat_text(r->ends[0], "number"), stat_text(r->ends[1], "said"),
		 stat_text(r->ends[1], "number"));
	bar(r->ends[0], bars[0]);
	bar(r->ends[1], bars[1]);
	printf("%-26.40s %-6s %5" PRIu64 " [%s] %9.2f > %9.2f < [%s] %7" PRIu64 " %7" PRIu64
	       " %7" PRIu64 "\n",
	       ends, is_cut ? "cut" : state_name(stat_number(r->ends[0], "state")),
	       stat_number(r->ends[0], "lanes"), bars[0], mega(r->words[0], seconds),
	       mega(r->words[1], seconds), bars[1], both(r, "waits"), both(r, "damaged"),
	       both(r, "dropped"));
}

static void head_show(const struct view *v, bool is_rate)
{
	const struct stat_line *f = &v->report.lines[0];
	size_t active = 0, cut = 0;

	for (size_t i = 0; i < v->count; i++) {
		active += stat_number(v->rows[i].ends[0], "state") == 4;
		cut += stat_number(v->rows[i].cable, "is_cut");
	}
	printf("fabric %s: %s nodes, %zu cables, of which %zu are active and %zu cut\n",
	       stat_text(f, "name"), stat_text(f, "nodes"), v->count, active, cut);
	printf("%s adapters: %s frames from them, %s to them, %s held, %s refused, %s for none, %s not "
	       "taken, %s with a wrong P_Key\n",
	       stat_text(f, "adapters"), stat_text(f, "frames_in"), stat_text(f, "frames_out"),
	       stat_text(f, "held"), stat_text(f, "refused"), stat_text(f, "lost"),
	       stat_text(f, "untaken"), stat_text(f, "wrong_key"));
	printf("%s programs: %s datagrams from them, %s to them, %s not answered yet, %s for none, %s "
	       "not read\n",
	       stat_text(f, "programs"), stat_text(f, "datagrams_out"),
	       stat_text(f, "datagrams_in"), stat_text(f, "unanswered"), stat_text(f, "unwanted"),
	       stat_text(f, "unread"));
	printf("%-26s %-6s %5s %10s %9s   %9s   %10s %7s %7s %7s\n", "cable", "state", "lanes",
	       "buffers", is_rate ? "MB/s out" : "MB out", is_rate ? "MB/s in" : "MB in", "buffers",
	       "waits", "damaged", "dropped");
}

/* What an earlier view has counted is taken off; then they are rates. */
static void view_show(struct view *now, const struct view *before, size_t rows_max)
{
	bool is_rate = before && before->count == now->count;
	double seconds = is_rate ? (double)(now->at_ns - before->at_ns) / 1e9 : 1;

	for (size_t i = 0; is_rate && i < now->count; i++) {
		for (int end = 0; end < 2; end++)
			now->rows[i].words[end] -= stat_number(
				before->report.lines + (now->rows[i].ends[end] - now->report.lines),
				"words_out");
	}
	head_show(now, is_rate);
	if (rows_max < now->count)
		qsort(now->rows, now->count, sizeof(*now->rows), busier);
	for (size_t i = 0; i < now->count && i < rows_max; i++)
		row_show(&now->rows[i], seconds);
	for (size_t i = 0; i < now->report.count; i++) {
		if (strcmp(now->report.lines[i].what, "deadlock") == 0)
			printf("%s\n", stat_text(&now->report.lines[i], "said"));
	}
	(void)fflush(stdout);
}

static size_t rows_of_terminal(void)
{
	struct winsize size;
	bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > ROWS_OF_HEAD;

	return (is_known ? size.ws_row : ROWS) - ROWS_OF_HEAD - 1U;
}

/* Until the fabric ends, or the user ends this. */
static int watch(const char *name)
{
	struct view before, now;

	if (!view_make(&before, name))
		return 1;
	do {
		(void)poll(NULL, 0, EVERY_MS);
		if (!view_make(&now, name))
			break;
		fputs("\033[H\033[J", stdout);
		view_show(&now, &before, rows_of_terminal());
		view_free(&before);
		before = now;
	} while (!ferror(stdout));
	view_free(&before);
	return 0;
}

int fabric_top(int argc, char **argv)
{
	const char *name = getenv("WEFT_FABRIC");
	bool is_once = false;
	const struct cmd_option options[] = { { .name = "once", .is_given = &is_once }, { 0 } };
	struct view view;
	int status;

	if (!cmd_options_take(argc, argv, options, fabric_help, &status))
		return status;
	if (optind < argc)
		return fabric_misused("top takes no name: WEFT_FABRIC says which fabric");
	name = name && *name ? name : "fabric";
	if (!is_once && watch(name) == 0)
		return 0;
	if (!is_once || !view_make(&view, name))
		return fabric_failed(name, "", WEFT_R_FABRIC_ABSENT);
	view_show(&view, NULL, SIZE_MAX);
	view_free(&view);
	return 0;
}
