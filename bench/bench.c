/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bench: what weft costs, as a table for people or as lines for programs. A missed goal is
 * said, but no error: the machine may be a slow one.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dropin_goals.h"
#include "fabric_goals.h"
#include "ib_goals.h"
#include "many_goals.h"
#include "near_goals.h"
#include "net_goals.h"
#include "net_report.h"
#include "net_subjects.h"
#include "subjects.h"

static const double bytes_goal = 96;

struct options {
	bool is_json;
	bool has_cost;
	bool has_net;
	bool has_dropin;
	bool has_near;
	bool has_many;
	bool has_ib;
	bool has_fabric;
};

static void usage(FILE *to)
{
	fprintf(to,
		"usage: bench [--json] [cost] [net] [dropin] [near] [many] [ib] [fabric]\n\n"
		"Measures what weft costs. Without a name, all parts:\n\n"
		"  cost     calls, next to memcpy of 4 KiB between two buffers in cache\n"
		"  net      messages over loopback, next to plain TCP, plain UDP and what others offer;\n"
		"           with net.json, bandwidth.svg and latency.svg beside this program\n"
		"  dropin   perftest on the drop-in libraries, next to weft perf\n"
		"  near     perftest between two programs of this host, next to UCX's shared memory\n"
		"  many     1,000 queue pairs and two threads in one process, next to one\n"
		"  ib       the InfiniBand transport under loss, in virtual time\n"
		"  fabric   fabrics of 100 to 10,000 nodes, and lanes of priority, in virtual time\n"
		"\n"
		"  --json   one object a line instead of the table\n"
		"  --help   this text\n"
		"\n"
		"The parts rio and budget of ./dev bench are bench/rio_bench.py and "
		"bench/budget.py; fabric has bench/fabric_bench.py besides.\n");
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

static void show_cost(bool is_json)
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

/* The folder this program is in; the present one where the system does not tell. */
static void own_folder(char *path, size_t path_bytes)
{
	ssize_t length = readlink("/proc/self/exe", path, path_bytes - 1);
	char *end;

	path[length > 0 ? length : 0] = '\0';
	end = strrchr(path, '/');
	if (end != NULL)
		*end = '\0';
	else
		snprintf(path, path_bytes, ".");
}

static void show_net(bool is_json)
{
	static struct net_rows rows;
	char folder[PATH_MAX];

	net_rows_measure(&rows);
	if (is_json) {
		net_report_lines(&rows);
	} else {
		net_report_table(&rows);
		net_goals_show(&rows);
	}
	own_folder(folder, sizeof(folder));
	net_report_files(&rows, folder);
}

/* False: there is a word that is none of ours. */
static bool options_read(struct options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0)
			o->is_json = true;
		else if (strcmp(argv[i], "cost") == 0)
			o->has_cost = true;
		else if (strcmp(argv[i], "net") == 0)
			o->has_net = true;
		else if (strcmp(argv[i], "dropin") == 0)
			o->has_dropin = true;
		else if (strcmp(argv[i], "near") == 0)
			o->has_near = true;
		else if (strcmp(argv[i], "many") == 0)
			o->has_many = true;
		else if (strcmp(argv[i], "ib") == 0)
			o->has_ib = true;
		else if (strcmp(argv[i], "fabric") == 0)
			o->has_fabric = true;
		else {
			fprintf(stderr, "bench: there is no \"%s\"\n\n", argv[i]);
			return false;
		}
	}
	if (!o->has_cost && !o->has_net && !o->has_dropin && !o->has_near && !o->has_many &&
	    !o->has_ib && !o->has_fabric) {
		o->has_cost = o->has_net = o->has_dropin = o->has_near = true;
		o->has_many = o->has_ib = o->has_fabric = true;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			usage(stdout);
			return 0;
		}
	}
	if (!options_read(&o, argc, argv)) {
		usage(stderr);
		return 2;
	}
	if (o.has_cost)
		show_cost(o.is_json);
	if (o.has_net)
		show_net(o.is_json);
	if (o.has_dropin)
		dropin_goals_show(o.is_json);
	if (o.has_near)
		near_goals_show(o.is_json);
	if (o.has_many)
		many_goals_show(o.is_json);
	if (o.has_ib)
		ib_goals_show(o.is_json);
	if (o.has_fabric)
		fabric_goals_show(o.is_json);
	return fflush(stdout) == 0 ? 0 : 1;
}
