/* SPDX-License-Identifier: BSD-2-Clause */
#include "net_report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "child.h"

enum { PATH_BYTES = 4096, SIZE_BYTES = 16 };

static const uint64_t gnuplot_ns_max = UINT64_C(20000000000);

struct kind {
	const char *name;   /* for programs */
	const char *unit;   /* of the value */
	const char *title;  /* for people */
	const char *detail; /* how it is meant */
	const char *shown;  /* the unit of the table and of the pictures */
	double scale;	    /* shown = value / scale */
	bool is_plotted;
};

static const struct kind kinds[NET_WHATS] = {
	[NET_BANDWIDTH] = { "bandwidth", "B/s", "Bandwidth", "up to 64 messages under way", "GB/s",
			    1e9, true },
	[NET_LATENCY] = { "latency", "ns", "Latency", "half a round trip, both sides polling", "us",
			  1e3, true },
	[NET_RATE] = { "rate", "messages/s", "Messages per second", "up to 128 under way", "M/s",
		       1e6, false },
};

const char *net_unit(enum net_what what)
{
	return kinds[what].unit;
}

static void size_text(char *text, uint32_t size_bytes)
{
	if (size_bytes >= 1 << 20)
		snprintf(text, SIZE_BYTES, "%u MiB", size_bytes >> 20);
	else if (size_bytes >= 1 << 10)
		snprintf(text, SIZE_BYTES, "%u KiB", size_bytes >> 10);
	else
		snprintf(text, SIZE_BYTES, "%u B", size_bytes);
}

static double value_of(const struct net_rows *rows, const struct net_peer *peer, enum net_what what,
		       uint32_t size_bytes)
{
	const struct net_row *row = net_rows_find(rows, peer, what, size_bytes);

	return row == NULL ? 0 : row->value;
}

/* To the first peer; 0: one of the two has no value. */
static double ratio_of(const struct net_rows *rows, const struct net_row *row)
{
	double base = value_of(rows, net_peers[0], row->what, row->size_bytes);

	return base > 0 ? row->value / base : 0;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void print_cell(const struct net_rows *rows, const struct net_row *row)
{
	if (row == NULL || row->sample_count == 0)
		printf("  %9s %8s ", "-", "");
	else
		printf("  %9.3f %6.2f x%c", row->value / kinds[row->what].scale,
		       ratio_of(rows, row), row->is_disturbed ? '~' : ' ');
}

static void print_kind(const struct net_rows *rows, enum net_what what)
{
	printf("\n%s in %s, %s\n%9s", kinds[what].title, kinds[what].shown, kinds[what].detail,
	       "size");
	for (int p = 0; p < NET_PEERS; p++)
		printf("  %18s ", net_peers[p]->title);
	printf("\n");
	for (int i = 0; i < NET_SIZES; i++) {
		char size[SIZE_BYTES];

		if (!net_size_has(net_sizes[i], what))
			continue;
		size_text(size, net_sizes[i]);
		printf("%9s", size);
		for (int p = 0; p < NET_PEERS; p++)
			print_cell(rows, net_rows_find(rows, net_peers[p], what, net_sizes[i]));
		printf("\n");
	}
}

/* Why a peer has no value somewhere; NULL: it has them all. */
static const char *why_of(const struct net_rows *rows, const struct net_peer *peer)
{
	for (int i = 0; i < rows->count; i++) {
		const struct net_row *row = &rows->row[i];

		if (row->peer == peer && row->sample_count == 0 && row->why[0] != '\0')
			return row->why;
	}
	return NULL;
}

static void print_notes(const struct net_rows *rows)
{
	bool is_disturbed = false;

	for (int i = 0; i < rows->count; i++)
		is_disturbed = is_disturbed || rows->row[i].is_disturbed;
	printf("\nx: times %s at the same size. %.0f s; the median of the calmest %d of %d rounds.\n",
	       net_peers[0]->title, rows->seconds, NET_ROUNDS_USED, NET_ROUNDS);
	for (int p = 0; p < NET_PEERS; p++) {
		const char *why = why_of(rows, net_peers[p]);

		if (why != NULL)
			printf("%s: %s\n", net_peers[p]->title, why);
		else if (net_peers[p]->note != NULL)
			printf("%s\n", net_peers[p]->note);
	}
	if (is_disturbed)
		printf("~: others used the machine meanwhile; do not trust this figure\n");
}

void net_report_table(const struct net_rows *rows)
{
	for (int what = 0; what < NET_WHATS; what++)
		print_kind(rows, what);
	print_notes(rows);
}

void net_report_lines(const struct net_rows *rows)
{
	for (int i = 0; i < rows->count; i++) {
		const struct net_row *row = &rows->row[i];

		if (row->sample_count > 0)
			printf("{\"bench\": \"%s_%s_%u\", \"value\": %.3f, \"unit\": \"%s\", "
			       "\"versus\": \"%s\", \"ratio\": %.4f}\n",
			       row->peer->name, kinds[row->what].name, row->size_bytes, row->value,
			       kinds[row->what].unit, net_peers[0]->name, ratio_of(rows, row));
	}
}

/* ---- Files ----------------------------------------------------------------------------------- */

static FILE *create(const char *folder, const char *name)
{
	char path[PATH_BYTES];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	if (file == NULL)
		fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
	return file;
}

static void finish(FILE *file, const char *name)
{
	bool is_bad = ferror(file) != 0;

	if (fclose(file) != 0 || is_bad)
		fprintf(stderr, "bench: %s is not complete: %s\n", name, strerror(errno));
}

/* A string of JSON: what programs of others say may hold anything. */
static void write_text(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else
			fputc(c < ' ' || c > '~' ? '?' : c, to);
	}
	fputc('"', to);
}

/* A row that was given up after other rows of its peer had failed has the reason of these. */
static const char *row_why(const struct net_rows *rows, const struct net_row *row)
{
	const char *why = row->why[0] != '\0' ? row->why : why_of(rows, row->peer);

	return why != NULL ? why : "not asked";
}

static void write_row(FILE *to, const struct net_rows *rows, const struct net_row *row)
{
	fprintf(to,
		"    {\"peer\": \"%s\", \"what\": \"%s\", \"size_bytes\": %u, \"depth\": %u, "
		"\"unit\": \"%s\", ",
		row->peer->name, kinds[row->what].name, row->size_bytes, row->depth,
		kinds[row->what].unit);
	if (row->sample_count == 0) {
		fprintf(to, "\"value\": null, \"why\": ");
		write_text(to, row_why(rows, row));
	} else {
		fprintf(to, "\"value\": %.3f, \"is_disturbed\": %s, \"samples\": [", row->value,
			row->is_disturbed ? "true" : "false");
		for (int i = 0; i < row->sample_count; i++)
			fprintf(to, "%s[%.3f, %.2f]", i > 0 ? ", " : "", row->samples[i].value,
				row->samples[i].processors);
		fprintf(to, "], \"how\": ");
		write_text(to, row->how);
	}
	fprintf(to, "}");
}

static void write_json(const struct net_rows *rows, const char *folder)
{
	FILE *to = create(folder, "net.json");
	struct utsname system;

	if (to == NULL)
		return;
	uname(&system);
	fprintf(to, "{\n  \"system\": \"%s %s %s\", \"processors\": %ld,\n", system.sysname,
		system.release, system.machine, sysconf(_SC_NPROCESSORS_ONLN));
	fprintf(to, "  \"rounds\": %d, \"rounds_used\": %d, \"seconds\": %.1f,\n  \"rows\": [\n",
		rows->rounds, NET_ROUNDS_USED, rows->seconds);
	for (int i = 0; i < rows->count; i++) {
		write_row(to, rows, &rows->row[i]);
		fprintf(to, "%s\n", i + 1 < rows->count ? "," : "");
	}
	fprintf(to, "  ]\n}\n");
	finish(to, "net.json");
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static void write_ticks(FILE *to)
{
	fprintf(to, "set xtics (");
	for (int i = 0; i < NET_SIZES; i++) {
		char size[SIZE_BYTES];

		size_text(size, net_sizes[i]);
		if (net_sizes[i] != 8 && net_sizes[i] != 16)
			fprintf(to, ", ");
		if (net_sizes[i] != 16)
			fprintf(to, "\"%s\" %u", size, net_sizes[i]);
	}
	fprintf(to, ")\n");
}

static void write_style(FILE *to, enum net_what what, const char *picture)
{
	const struct kind *k = &kinds[what];

	fprintf(to,
		"set terminal svg size 960,600 font 'Helvetica,15' background '#ffffff'\n"
		"set output '%s'\n"
		"set title \"{/:Bold %s over loopback TCP}\\n{/*0.85 %s}\" font ',18'\n"
		"set xlabel 'message size'\n"
		"set ylabel '%s'\n",
		picture, k->title, k->detail, k->shown);
	fprintf(to, "set logscale x 2\n"
		    "set xrange [6:5600000]\n"
		    "set border 3 linecolor '#8c959f'\n"
		    "set tics nomirror textcolor '#24292f'\n"
		    "set key top left reverse Left spacing 1.3\n"
		    "set lmargin 10\n"
		    "set rmargin 4\n");
	if (what == NET_LATENCY)
		fprintf(to, "set logscale y 10\n"
			    "set mytics 10\n"
			    "set format y '%%g'\n"
			    "set grid ytics mytics linetype 1 linecolor '#d0d7de', "
			    "linetype 1 linecolor '#eef1f4'\n");
	else
		fprintf(to, "set yrange [0:*]\n"
			    "set grid ytics linetype 1 linecolor '#d0d7de'\n");
	write_ticks(to);
}

static bool has_any(const struct net_rows *rows, const struct net_peer *peer, enum net_what what)
{
	for (int i = 0; i < NET_SIZES; i++) {
		if (value_of(rows, peer, what, net_sizes[i]) > 0)
			return true;
	}
	return false;
}

/* What to know before comparing, below the picture. */
static void write_notes(FILE *to, const struct net_rows *rows, enum net_what what)
{
	int count = 0;

	for (int p = 0; p < NET_PEERS; p++) {
		if (net_peers[p]->note != NULL && has_any(rows, net_peers[p], what))
			fprintf(to,
				"set label '%s' at screen 0.02, %.3f font ',11' noenhanced "
				"textcolor '#57606a'\n",
				net_peers[p]->note, 0.02 + 0.03 * count++);
	}
	fprintf(to, "set bmargin %d\n", 4 + 2 * (count + 1) / 2);
}

/* The points of each peer, then the lines through them. */
static void write_lines(FILE *to, const struct net_rows *rows, enum net_what what)
{
	const char *before = "plot ";

	for (int p = 0; p < NET_PEERS; p++) {
		fprintf(to, "$%s << END\n", net_peers[p]->name);
		for (int i = 0; i < NET_SIZES; i++) {
			double value = value_of(rows, net_peers[p], what, net_sizes[i]);

			if (value > 0)
				fprintf(to, "%u %.6g\n", net_sizes[i], value / kinds[what].scale);
		}
		fprintf(to, "END\n");
	}
	for (int p = 0; p < NET_PEERS; p++) {
		if (!has_any(rows, net_peers[p], what))
			continue;
		fprintf(to,
			"%s$%s with linespoints linewidth 2.5 pointtype 7 pointsize 0.6 "
			"linecolor '%s' title '%s'",
			before, net_peers[p]->name, net_peers[p]->color, net_peers[p]->title);
		before = ", \\\n\t";
	}
	fprintf(to, "\n");
}

static void draw(const char *script)
{
	const char *const argv[] = { "gnuplot", script, NULL }, *const settings[] = { NULL };
	char output[1024] = "";
	struct child gnuplot;
	int status = child_exec(&gnuplot, argv, settings);

	if (status == 0)
		status = child_finish(&gnuplot, child_clock_ns() + gnuplot_ns_max, output,
				      sizeof(output));
	if (status == -ENOENT)
		fprintf(stderr, "bench: no pictures, not installed: gnuplot-nox\n");
	else if (status != 0)
		fprintf(stderr, "bench: gnuplot %s failed: %s\n", script, output);
}

static void write_picture(const struct net_rows *rows, enum net_what what, const char *folder)
{
	char name[64], path[PATH_BYTES + 64];
	FILE *to;

	snprintf(name, sizeof(name), "%s.gp", kinds[what].name);
	to = create(folder, name);
	if (to == NULL)
		return;
	snprintf(path, sizeof(path), "%s/%s.svg", folder, kinds[what].name);
	write_style(to, what, path);
	write_notes(to, rows, what);
	write_lines(to, rows, what);
	finish(to, name);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	draw(path);
}

void net_report_files(const struct net_rows *rows, const char *folder)
{
	write_json(rows, folder);
	for (int what = 0; what < NET_WHATS; what++) {
		if (kinds[what].is_plotted)
			write_picture(rows, what, folder);
	}
}
