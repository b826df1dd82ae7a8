/* SPDX-License-Identifier: BSD-2-Clause */
/* weft sim: runs simulated worlds, one a seed, and says what was found. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/sim/load.h"
#include "cmd/sim/sim_words.h"
#include "cmd/sim/story.h"
#include "sim/card/card_world.h"
#include "sim/cells/cells_world.h"
#include "sim/fabric/fabric_world.h"
#include "sim/iscsi/iscsi_world.h"
#include "sim/iwarp/iwarp_world.h"
#include "sim/kind.h"
#include "sim/loopback/verbs_world.h"
#include "sim/rio/rio_world.h"
#include "sim/roce/roce_world.h"
#include "sim/world/sim_trace.h"

enum { LAST_EVENTS = 24, FAILURES_SHOWN = 3, WORDS_BYTES = 256, PROGRESS_SEEDS = 100 };

/* What all runs together did. */
struct sim_sums {
	uint64_t runs, failed, events, requests, succeeded, refused, bytes;
	uint64_t connections, deaths, corruptions;
	uint64_t stops, control_bytes;
	uint64_t logins, losses, pdus, overtaken, flips;
	uint64_t writes, immediates, opens, breaks;
	uint64_t flits, resent, pulls, cells, hurt;
	struct sim_datagram_counts packets;
	struct story story;
};

struct sim_args {
	enum sim_kind_id world;
	uint64_t seed, count;
	bool shows_events, shows_hash, tells_story, is_quiet;
};

static const char usage[] =
	"usage: weft sim [--world NAME] --seed N [--count N] [--story | --events | --hash] "
	"[--quiet]\n"
	"       weft sim --world fabric --topology FILE [--workload NAME] [--load PERCENT]\n"
	"                [--messages N] [--bytes N] [--probes N] [--routing NAME] [--lanes N]\n"
	"                [--run FLITS] [--gbps N] [--cut-through] [--seed N] [--svg PICTURE]\n"
	"\n"
	"Runs a world of simulated processes that do random RDMA to each other, while judges\n"
	"outside the system check every byte, right and completion.\n"
	"\n"
	"  --world loopback   over one adapter, by all services (this is the default)\n"
	"  --world iwarp      each with its own adapter, over TCP connections that delay, chop,\n"
	"                     cut, reset and corrupt\n"
	"  --world roce       nodes with RoCE ports, on a network that delays, loses, duplicates,\n"
	"                     reorders and corrupts packets and is cut; the seed draws which of\n"
	"                     roce-rc, roce-uc, roce-rd (services) or roce-cm (connection manager)\n"
	"  --world roce-rc    only RC; likewise roce-uc, roce-rd, roce-cm\n"
	"  --world roce-ud    unreliable datagrams of three nodes, and multicast groups\n"
	"  --world roce-xrc   XRC: shared receive queues of processes that end and begin anew\n"
	"  --world roce-runs  RC with runs of packets, as they go by shared memory\n"
	"  --world roce-near  RC between processes of one host, by shared memory; any of them may\n"
	"                     stop, end or be killed at any step; likewise roce-near-uc and\n"
	"                     roce-near-xrc, and roce-near-ud and roce-near-rd of three nodes\n"
	"  --world rio        directed I/O: requesters, an owner and I/O units with disks, any of\n"
	"                     which may stop at any step\n"
	"  --world iscsi      iSCSI: initiators and a target with disks, on TCP connections that\n"
	"                     delay, chop, cut, reset and corrupt; either side may stop at any step;\n"
	"                     likewise iscsi-iser: the same by iSER, on iWARP\n"
	"  --world card       a split network card: two hosts and an I/O unit that push packets to\n"
	"                     each other, by RoCE or iWARP; any of them may stop at any step\n"
	"  --world fabric     a fabric: frames between endnodes, by switches and cables that damage,\n"
	"                     lose and delay flits, and are pulled\n"
	"  --world cells      packets of a split card in cells of 256 bytes on such a fabric; cells\n"
	"                     are lost and damaged, Writes go where none may\n"
	"  --seed N    the seed: the same number, the same history\n"
	"  --count N   run N seeds, beginning with --seed\n"
	"  --story     tell what happened first of each kind, and what was refused why\n"
	"  --events    print every event in words\n"
	"  --hash      print the trace's hash, one line a seed\n"
	"  --quiet     print failures only\n"
	"\n"
	"With a topology (weft fabric make, docs/fabric.md) endnodes send each other messages, and a\n"
	"report says how long these took, what links carried, how often frames waited for credit, what\n"
	"was dropped, and whether the fabric is in a deadlock. Exit status 1 says that not all came.\n"
	"\n"
	"  --workload NAME   all-to-all (default), incast (all to the first one), permutation (each to\n"
	"                    one other), or storage (each eighth endnode is an I/O unit, where the others\n"
	"                    read and write blocks)\n"
	"  --load PERCENT    of the link of an endnode that gets most (default 70)\n"
	"  --messages N      that each sender sends or asks for (default 200)\n"
	"  --bytes N         of a message (default 4096)\n"
	"  --probes N        besides, each sends so many of 48 bytes by a lane of high priority\n"
	"  --routing NAME    updn (default: cannot deadlock) or minhop\n"
	"  --lanes N         of data: 1, 2, 4 (default), 8 or 15\n"
	"  --run FLITS       that a lane may send in a row (default: a frame)\n"
	"  --gbps N          of links whose rate the topology does not tell (default 100)\n"
	"  --cut-through     a switch hands a frame on when its head has come\n"
	"  --svg PICTURE     draws the topology, with its cables as wide as they were busy\n";

/* ---- The worlds ----------------------------------------------------------------------------- */

static void loopback_add(const void *world, struct sim_sums *sums)
{
	const struct verbs_world *w = world;

	sums->requests += w->model.retired;
	sums->succeeded += w->model.succeeded;
	sums->refused += w->model.refused;
	sums->bytes += w->model.bytes;
}

static void iwarp_add(const void *world, struct sim_sums *sums)
{
	const struct iwarp_world *w = world;

	sums->requests += w->requests;
	sums->succeeded += w->succeeded;
	sums->refused += w->forbidden;
	sums->bytes += w->bytes;
	sums->connections += w->dials;
	sums->deaths += w->deaths;
	sums->corruptions += w->corruptions;
}

static void roce_add(const void *world, struct sim_sums *sums)
{
	const struct roce_world *w = world;

	sums->requests += w->requests;
	sums->succeeded += w->succeeded;
	sums->refused += w->refused;
	sums->bytes += w->bytes;
	sums->packets.sent += w->packets.sent;
	sums->packets.lost += w->packets.lost + w->packets.dropped_cut + w->packets.dropped_full;
	sums->packets.duplicated += w->packets.duplicated;
	sums->packets.reordered += w->packets.reordered;
	sums->packets.corrupted += w->packets.corrupted;
}

static void rio_add(const void *world, struct sim_sums *sums)
{
	const struct rio_world *w = world;

	sums->requests += w->ended_well + w->ended_badly;
	sums->succeeded += w->ended_well;
	sums->refused += w->refused;
	sums->bytes += w->payload_bytes;
	sums->stops += w->stops;
	sums->control_bytes += w->owner_bytes;
}

static void iscsi_add(const void *world, struct sim_sums *sums)
{
	const struct iscsi_world *w = world;

	sums->requests += w->requests;
	sums->succeeded += w->succeeded;
	sums->refused += w->refusals;
	sums->bytes += w->bytes;
	sums->logins += w->logins;
	sums->losses += w->losses;
	sums->pdus += w->pdus;
	sums->overtaken += w->overtaken;
	sums->flips += w->corruptions;
	sums->deaths += w->stops;
}

static void card_add(const void *world, struct sim_sums *sums)
{
	const struct card_world *w = world;

	sums->requests += w->packets;
	sums->succeeded += w->packets;
	sums->bytes += w->bytes;
	sums->writes += w->writes;
	sums->immediates += w->immediates;
	sums->opens += w->opens;
	sums->breaks += w->breaks;
	sums->deaths += w->stops;
	sums->packets.sent += w->wire.sent;
	sums->packets.lost += w->wire.lost;
	sums->packets.duplicated += w->wire.duplicated;
	sums->packets.reordered += w->wire.reordered;
	sums->packets.corrupted += w->wire.corrupted;
}

static void fabric_add(const void *world, struct sim_sums *sums)
{
	const struct fabric_world *w = world;

	sums->requests += w->posted;
	sums->succeeded += w->delivered;
	sums->bytes += w->bytes;
	sums->flits += w->flits;
	sums->resent += w->resent;
	sums->pulls += w->net.pulls;
}

static void cells_add(const void *world, struct sim_sums *sums)
{
	const struct cells_world *w = world;

	sums->requests += w->packets;
	sums->succeeded += w->came;
	sums->refused += w->refused;
	sums->bytes += w->bytes;
	sums->cells += w->cells;
	sums->hurt += w->hurt;
	sums->flits += w->flits;
	sums->resent += w->resent;
	sums->pulls += w->net.pulls;
}

static void (*const adders[SIM_KINDS])(const void *world, struct sim_sums *sums) = {
	[SIM_LOOPBACK] = loopback_add,	[SIM_IWARP] = iwarp_add,       [SIM_ROCE] = roce_add,
	[SIM_ROCE_RC] = roce_add,	[SIM_ROCE_UC] = roce_add,      [SIM_ROCE_RD] = roce_add,
	[SIM_ROCE_CM] = roce_add,	[SIM_ROCE_UD] = roce_add,      [SIM_ROCE_XRC] = roce_add,
	[SIM_ROCE_RUNS] = roce_add,	[SIM_ROCE_NEAR] = roce_add,    [SIM_RIO] = rio_add,
	[SIM_ROCE_NEAR_UC] = roce_add,	[SIM_ROCE_NEAR_UD] = roce_add, [SIM_ISCSI] = iscsi_add,
	[SIM_ROCE_NEAR_XRC] = roce_add, [SIM_ROCE_NEAR_RD] = roce_add, [SIM_CARD] = card_add,
	[SIM_ISCSI_ISER] = iscsi_add,	[SIM_FABRIC] = fabric_add,     [SIM_CELLS] = cells_add,
};

/* ---- Arguments ------------------------------------------------------------------------------ */

/* The number after an option; what is wrong with it is said. */
static bool number(const char *option, const char *text, uint64_t *value)
{
	char *end = NULL;

	errno = 0;
	if (text && *text >= '0' && *text <= '9')
		*value = strtoull(text, &end, text[1] == 'x' ? 16 : 10);
	if (end && *end == 0 && errno == 0)
		return true;
	fprintf(stderr, "weft sim: %s needs a number%s%s\n", option, text ? ", not " : "",
		text ? text : "");
	return false;
}

static bool world_find(const char *name, enum sim_kind_id *world)
{
	for (uint32_t i = 0; i < SIM_KINDS; i++) {
		if (name && strcmp(name, sim_kinds[i].name) == 0) {
			*world = (enum sim_kind_id)i;
			return true;
		}
	}
	fprintf(stderr, "weft sim: there is no world %s\n", name ? name : "without a name");
	return false;
}

/* 0, or the exit status. */
static int args_read(int argc, char **argv, struct sim_args *args)
{
	bool has_seed = false;

	*args = (struct sim_args){ .world = SIM_LOOPBACK, .count = 1 };
	for (int i = 1; i < argc; i++) {
		bool is_seed = strcmp(argv[i], "--seed") == 0;

		if (is_seed || strcmp(argv[i], "--count") == 0) {
			if (!number(argv[i], argv[i + 1], is_seed ? &args->seed : &args->count))
				return 2;
			has_seed = has_seed || is_seed;
			i++;
		} else if (strcmp(argv[i], "--world") == 0) {
			if (!world_find(argv[++i], &args->world))
				return 2;
		} else if (strcmp(argv[i], "--events") == 0) {
			args->shows_events = true;
		} else if (strcmp(argv[i], "--story") == 0) {
			args->tells_story = true;
		} else if (strcmp(argv[i], "--hash") == 0) {
			args->shows_hash = true;
		} else if (strcmp(argv[i], "--quiet") == 0) {
			args->is_quiet = true;
		} else {
			fprintf(stderr, "weft sim: what is \"%s\"?\n\n%s", argv[i], usage);
			return 2;
		}
	}
	if (args->count == 0 || args->seed + (args->count - 1) < args->seed) {
		fprintf(stderr, "weft sim: there are no %" PRIu64 " seeds from %" PRIu64 " on\n",
			args->count, args->seed);
		return 2;
	}
	if (has_seed)
		return 0;
	fprintf(stderr, "weft sim: which seed?\n\n%s", usage);
	return 2;
}

static void print_event(FILE *to, const struct trace_event *e)
{
	char text[WORDS_BYTES];

	if (e->kind == SIM_TRACE_EVENT)
		return; /* the clock's own ticks say nothing to people */
	sim_words(e, text, sizeof(text));
	fprintf(to, "%s\n", text);
}

/* The first few failures at length; what follows is often the same. */
static void print_failure(const struct sim_args *args, void *w, uint64_t seed, bool shows_events)
{
	const struct sim_kind *kind = &sim_kinds[args->world];
	const struct trace *trace = &kind->clock(w)->trace;

	fprintf(stderr, "seed %" PRIu64 " failed: %s\n", seed, kind->failure(w));
	if (!shows_events)
		return;
	fprintf(stderr, "the last events:\n");
	for (uint64_t i = trace->count > LAST_EVENTS ? trace->count - LAST_EVENTS : 0;
	     i < trace->count; i++)
		print_event(stderr, trace_at(trace, i));
	fprintf(stderr, "again: weft sim --world %s --seed %" PRIu64 " --events\n", kind->name,
		seed);
}

static void show(const struct trace_event *e, const struct sim_args *args, struct story *story)
{
	if (args->shows_events)
		print_event(stdout, e);
	if (args->tells_story)
		story_take(story, e);
}

static void run_one(void *w, uint64_t seed, const struct sim_args *args, struct sim_sums *sums)
{
	const struct sim_kind *kind = &sim_kinds[args->world];
	const struct trace *trace;
	uint64_t shown = 0;
	bool is_good;

	if (kind->open(w, seed) < 0) {
		fprintf(stderr, "weft sim: no memory for another world\n");
		exit(1);
	}
	trace = &kind->clock(w)->trace;
	while (kind->step(w) || shown < trace->count) {
		for (; shown < trace->count; shown++)
			show(trace_at(trace, shown), args, &sums->story);
	}
	sums->story.is_over = true;
	is_good = kind->failure(w)[0] == 0;
	if (args->shows_hash)
		printf("seed %" PRIu64 " hash 0x%016" PRIx64 "\n", seed, trace->hash);
	if (!is_good)
		print_failure(args, w, seed, sums->failed < FAILURES_SHOWN);
	sums->runs++;
	sums->failed += !is_good;
	sums->events += trace->count;
	adders[args->world](w, sums);
	kind->close(w);
}

static void print_sums(const struct sim_sums *s)
{
	printf("%" PRIu64 " %s, %" PRIu64 " events\n", s->runs, s->runs == 1 ? "world" : "worlds",
	       s->events);
	printf("%12" PRIu64 " requests ended, each just once and as the model says\n", s->requests);
	printf("%12" PRIu64 " of them were carried out, moving %" PRIu64 " KiB\n", s->succeeded,
	       s->bytes / 1024);
	printf("%12" PRIu64 " forbidden accesses were refused\n", s->refused);
	if (s->connections > 0)
		printf("%12" PRIu64 " connections were tried, %" PRIu64
		       " ends of them died, %" PRIu64 " bits flipped\n",
		       s->connections, s->deaths, s->corruptions);
	if (s->logins > 0)
		printf("%12" PRIu64 " PDUs passed, %" PRIu64 " overtaken; %" PRIu64
		       " bits flipped, %" PRIu64 " logins, %" PRIu64 " losses, %" PRIu64
		       " times a process stopped\n",
		       s->pdus, s->overtaken, s->flips, s->logins, s->losses, s->deaths);
	if (s->opens > 0)
		printf("%12" PRIu64 " Writes, %" PRIu64 " of them told by immediate data; %" PRIu64
		       " ends were greeted, %" PRIu64 " broke, %" PRIu64
		       " times a process stopped\n",
		       s->writes, s->immediates, s->opens, s->breaks, s->deaths);
	if (s->packets.sent > 0)
		printf("%12" PRIu64 " packets were sent, %" PRIu64 " lost, %" PRIu64
		       " duplicated, %" PRIu64 " held back, %" PRIu64 " corrupted\n",
		       s->packets.sent, s->packets.lost, s->packets.duplicated,
		       s->packets.reordered, s->packets.corrupted);
	if (s->stops > 0)
		printf("%12" PRIu64 " times a role stopped without notice; %" PRIu64
		       " KiB of messages passed the owner, and no payload\n",
		       s->stops, s->control_bytes / 1024);
	if (s->cells > 0)
		printf("%12" PRIu64 " cells left, and %" PRIu64
		       " were lost or damaged; each lost its packet, and nothing else\n",
		       s->cells, s->hurt);
	if (s->flits > 0)
		printf("%12" PRIu64 " flits crossed links, %" PRIu64
		       " of them again; cables were pulled %" PRIu64 " times\n",
		       s->flits, s->resent, s->pulls);
	printf("%12" PRIu64 " worlds failed\n", s->failed);
}

static int cmd_sim(int argc, char **argv)
{
	struct sim_sums sums = { 0 };
	struct sim_args args;
	void *w;
	bool is_terminal = isatty(STDERR_FILENO);
	int status;

	if (load_is_asked(argc, argv))
		return load_run(argc, argv);
	status = args_read(argc, argv, &args);
	if (status != 0)
		return status;
	w = malloc(sim_kinds[args.world].world_bytes);
	if (!w) {
		fprintf(stderr, "weft sim: no memory\n");
		return 1;
	}
	for (uint64_t i = 0; i < args.count; i++) {
		run_one(w, args.seed + i, &args, &sums);
		if (is_terminal && args.count > PROGRESS_SEEDS && i % PROGRESS_SEEDS == 0)
			fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " worlds, %" PRIu64 " failed ",
				i, args.count, sums.failed);
	}
	if (is_terminal && args.count > PROGRESS_SEEDS)
		fprintf(stderr, "\r%60s\r", "");
	free(w);
	if (args.tells_story)
		story_end(&sums.story);
	if (!args.is_quiet && !args.shows_hash)
		print_sums(&sums);
	return sums.failed ? 1 : 0;
}

const struct command command_sim = {
	.name = "sim",
	.args = "--seed N",
	.what = "run a simulated world; the same seed, the same history",
	.help = usage,
	.run = cmd_sim,
};
