/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/sim/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cmd/topology/picture.h"
#include "cmd/topology/topology_file.h"
#include "sim/fabric/fabric_load.h"

enum { LINES_SHOWN = 8, BAR = 40, ROWS = 14 };

static const char *const kinds[] = {
	[FABRIC_LOAD_ALL_TO_ALL] = "all-to-all",
	[FABRIC_LOAD_INCAST] = "incast",
	[FABRIC_LOAD_PERMUTATION] = "permutation",
	[FABRIC_LOAD_STORAGE] = "storage",
};

struct load_args {
	struct fabric_load_cfg cfg;
	const char *topology, *svg;
};

static const struct {
	const char *name;
	uint32_t least, most;
	size_t at; /* in struct fabric_load_cfg */
} numbers[] = {
	{ "--messages", 1, 10000000, offsetof(struct fabric_load_cfg, messages) },
	{ "--bytes", FABRIC_LOAD_PROBE_BYTES, 1 << 20, offsetof(struct fabric_load_cfg, bytes) },
	{ "--load", 1, 10000, offsetof(struct fabric_load_cfg, load_percent) },
	{ "--lanes", 1, 15, offsetof(struct fabric_load_cfg, lanes) },
	{ "--probes", 0, 10000000, offsetof(struct fabric_load_cfg, probes) },
	{ "--run", 0, 47, offsetof(struct fabric_load_cfg, run_flits) },
	{ "--gbps", 1, 10000, offsetof(struct fabric_load_cfg, mbps) },
};

bool load_is_asked(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--topology") == 0)
			return true;
	return false;
}

/* ---- Arguments ------------------------------------------------------------------------------ */

static bool number_read(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	char *end = NULL;

	errno = 0;
	if (text && *text >= '0' && *text <= '9')
		*value = strtoull(text, &end, 10);
	return end && *end == 0 && errno == 0 && *value >= least && *value <= most;
}

/* False: it was said what is wrong. */
static bool number_take(struct load_args *a, const char *name, const char *text)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		uint64_t value;

		if (strcmp(name, numbers[i].name) != 0)
			continue;
		if (!number_read(text, numbers[i].least, numbers[i].most, &value)) {
			fprintf(stderr, "weft sim: %s takes a number from %u to %u\n", name,
				numbers[i].least, numbers[i].most);
			return false;
		}
		memcpy((char *)&a->cfg + numbers[i].at, &(uint32_t){ (uint32_t)value },
		       sizeof(uint32_t));
		return true;
	}
	fprintf(stderr, "weft sim: what is \"%s\" of a workload?\n", name);
	return false;
}

static bool kind_take(struct load_args *a, const char *text)
{
	for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!text || strcmp(text, kinds[i]) != 0)
			continue;
		a->cfg.kind = (enum fabric_load_kind)i;
		return true;
	}
	fprintf(stderr, "weft sim: --workload is all-to-all, incast, permutation or storage\n");
	return false;
}

static bool routing_take(struct load_args *a, const char *text)
{
	bool is_min_hop = text && strcmp(text, "minhop") == 0;

	a->cfg.routing = is_min_hop ? FABRIC_MIN_HOP : FABRIC_UP_DOWN;
	if (is_min_hop || (text && strcmp(text, "updn") == 0))
		return true;
	fprintf(stderr, "weft sim: --routing is minhop or updn\n");
	return false;
}

static bool option_take(struct load_args *a, const char *name, const char *value)
{
	if (strcmp(name, "--topology") == 0)
		a->topology = value;
	else if (strcmp(name, "--svg") == 0)
		a->svg = value;
	else if (strcmp(name, "--workload") == 0)
		return kind_take(a, value);
	else if (strcmp(name, "--routing") == 0)
		return routing_take(a, value);
	else if (strcmp(name, "--world") == 0 && value && strcmp(value, "fabric") == 0)
		return true;
	else if (strcmp(name, "--seed") == 0 && number_read(value, 0, UINT64_MAX, &a->cfg.seed))
		return true;
	else
		return number_take(a, name, value);
	if (!value)
		fprintf(stderr, "weft sim: %s needs a file\n", name);
	return value;
}

/* What only another combination can do. */
static bool args_fit(struct load_args *a)
{
	static const uint32_t lanes[] = { 1, 2, 4, 8, 15 };
	bool is_good = false;

	for (uint32_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		is_good |= a->cfg.lanes == lanes[i];
	if (!is_good)
		fprintf(stderr, "weft sim: --lanes is 1, 2, 4, 8 or 15\n");
	if (a->cfg.bytes % 4 != 0) {
		fprintf(stderr, "weft sim: --bytes is a multiple of 4\n");
		is_good = false;
	}
	return is_good;
}

/* Large pages, if the system has some. */
static void memory_told(void *at, size_t bytes)
{
	(void)madvise(at, bytes, MADV_HUGEPAGE);
}

static bool args_read(int argc, char **argv, struct load_args *a)
{
	*a = (struct load_args){ .cfg = { .routing = FABRIC_UP_DOWN,
					  .seed = 1,
					  .messages = 200,
					  .bytes = 4096,
					  .load_percent = 70,
					  .lanes = 4,
					  .mbps = 100,
					  .memory_told = memory_told } };
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--cut-through") == 0) {
			a->cfg.is_cut_through = true;
			continue;
		}
		if (!option_take(a, argv[i], argv[i + 1]))
			return false;
		i++;
	}
	a->cfg.mbps *= 1000;
	return args_fit(a);
}

/* ---- Report --------------------------------------------------------------------------------- */

static void print_ns(uint64_t ns)
{
	if (ns < 10000)
		printf("%" PRIu64 " ns", ns);
	else if (ns < 10000000)
		printf("%.1f us", (double)ns / 1e3);
	else
		printf("%.1f ms", (double)ns / 1e6);
}

static void print_times(const char *what, const struct fabric_load_times *t)
{
	static const struct {
		const char *name;
		uint32_t per_thousand;
	} marks[] = { { "half", 500 }, { "9 of 10", 900 }, { "99 of 100", 990 } };

	if (t->count == 0)
		return;
	printf("%s took ", what);
	print_ns(t->least_ns);
	printf(" at least");
	for (uint32_t i = 0; i < 3; i++) {
		printf(", %s up to ", marks[i].name);
		print_ns(fabric_load_quantile(t, marks[i].per_thousand));
	}
	printf(", ");
	print_ns(t->most_ns);
	printf(" at most; ");
	print_ns(t->sum_ns / t->count);
	printf(" on average\n");
}

/* Slots are joined until so many rows show all. */
static void print_histogram(const struct fabric_load_times *t)
{
	uint32_t first = 0, last = FABRIC_LOAD_SLOTS - 1, step = 1;
	uint64_t most = 1;

	while (first < last && t->slots[first] == 0)
		first++;
	while (last > first && t->slots[last] == 0)
		last--;
	while ((last - first) / step >= ROWS)
		step *= 2;
	for (int is_shown = 0; is_shown < 2; is_shown++)
		for (uint32_t at = first; at <= last; at += step) {
			uint64_t sum = 0;

			for (uint32_t i = at; i < at + step && i < FABRIC_LOAD_SLOTS; i++)
				sum += t->slots[i];
			most = sum > most ? sum : most;
			if (!is_shown)
				continue;
			printf("  from ");
			print_ns(fabric_load_slot_ns(at));
			printf("\t%10" PRIu64 "  %.*s\n", sum, (int)(sum * BAR / most),
			       "########################################");
		}
}

static int line_compare(const void *a, const void *b)
{
	const struct fabric_load_line *x = a, *y = b;

	if (x->share != y->share)
		return x->share > y->share ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->port < y->port ? -1 : x->port > y->port;
}

/* False: memory is short. */
static bool print_lines(const struct topology *t, const struct fabric_load_report *r)
{
	struct fabric_load_line *lines = malloc((r->line_count + 1U) * sizeof(*lines));

	if (!lines)
		return false;
	memcpy(lines, r->lines, r->line_count * sizeof(*lines));
	qsort(lines, r->line_count, sizeof(*lines), line_compare);
	printf("busiest links, and how often a frame waited there for credit:\n");
	for (uint32_t i = 0; i < r->line_count && i < LINES_SHOWN && lines[i].flits > 0; i++)
		printf("  %-12s port %-3" PRIu32 " to %-12s port %-3" PRIu32 " %5.1f %% %10" PRIu64
		       "\n",
		       t->nodes[lines[i].node].name, lines[i].port, t->nodes[lines[i].to_node].name,
		       lines[i].to_port, 100 * lines[i].share, lines[i].waits);
	free(lines);
	return true;
}

static void print_report(const struct load_args *a, const struct topology *t,
			 const struct fabric_load_report *r)
{
	printf("%s of %" PRIu32 " endnodes: %" PRIu32 " of them send %" PRIu32
	       " messages of %" PRIu32 " bytes each, at a load of %" PRIu32 " %%\n",
	       kinds[a->cfg.kind], r->endnodes, r->senders, a->cfg.messages, a->cfg.bytes,
	       a->cfg.load_percent);
	printf("links of %g Gbit/s, %" PRIu32 " lane%s, %s, %s\n", r->mbps / 1e3, a->cfg.lanes,
	       a->cfg.lanes == 1 ? "" : "s",
	       a->cfg.routing == FABRIC_MIN_HOP ? "fewest hops" : "up/down",
	       a->cfg.is_cut_through ? "cut-through" : "store and forward");
	printf("%" PRIu64 " of %" PRIu64 " messages came, in ", r->came, r->expected);
	print_ns(r->ns);
	printf("; %" PRIu64 " frames crossed links as %" PRIu64 " flits\n", r->frames, r->flits);
	if (r->ns > 0)
		printf("throughput %.2f Gbit/s of payload, %.2f for each endnode\n",
		       8.0 * (double)r->bytes / (double)r->ns,
		       8.0 * (double)r->bytes / (double)r->ns / r->endnodes);
	print_times("messages", &r->times);
	print_times("probes of high priority", &r->probes);
	print_histogram(&r->times);
	if (!print_lines(t, r))
		fprintf(stderr, "weft sim: no memory\n");
	printf("frames waited for credit %" PRIu64 " times\n", r->waits);
	printf("dropped: %" PRIu64 " too old or for a port that is down, %" PRIu64
	       " for no port, %" PRIu64 " for other reasons\n",
	       r->discards, r->relay_errors, r->others);
	fputs(r->deadlock, stdout);
}

/* Of each cable the direction that carried more. */
static bool svg_save(const struct load_args *a, const struct topology *t,
		     const struct fabric_load_report *r)
{
	double *loads = calloc(r->line_count / 2 + 1U, sizeof(*loads));
	bool is_good;

	if (!loads) {
		fprintf(stderr, "weft sim: no memory\n");
		return false;
	}
	for (uint32_t i = 0; i < r->line_count; i++)
		if (r->lines[i].share > loads[i / 2])
			loads[i / 2] = r->lines[i].share;
	is_good = picture_save("weft sim", a->svg, t, loads);
	free(loads);
	return is_good;
}

int load_run(int argc, char **argv)
{
	const struct fabric_load_report *r;
	struct fabric_load *l;
	struct load_args a;
	enum weft_reason reason;
	struct topology t;
	bool is_good;

	if (!args_read(argc, argv, &a))
		return 2;
	if (!topology_file_read(&t, "weft sim", a.topology))
		return 1;
	reason = fabric_load_open(&l, &t, &a.cfg);
	if (reason != WEFT_OK) {
		fprintf(stderr, "weft sim: %s: %s (%s)\n", a.topology, weft_reason_text(reason),
			weft_reason_name(reason));
		topology_fini(&t);
		return 1;
	}
	while (fabric_load_step(l))
		continue;
	r = fabric_load_report(l);
	print_report(&a, &t, r);
	is_good = r->came == r->expected && (!a.svg || svg_save(&a, &t, r));
	fabric_load_close(l);
	topology_fini(&t);
	return is_good ? 0 : 1;
}
