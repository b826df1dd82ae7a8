/* SPDX-License-Identifier: BSD-2-Clause */
#include "dropin_goals.h"

#include <stdio.h>
#include <unistd.h>

#include "idle_connections.h"
#include "net_goals.h"
#include "net_report.h"
#include "perftest_peers.h"
#include "weft_peer.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static const double idle_goal = 1.1;

static const struct {
	const char *name, *text;
	const struct net_peer *perftest, *native;
	enum net_what what;
	uint32_t size_bytes;
	double goal;
	bool is_most;
} goals[] = {
	{ "ib_send_lat", "latency of an 8-byte Send, ib_send_lat", &perftest_send_peer,
	  &weft_send_peer, NET_LATENCY, 8, 1.1, true },
	{ "ib_write_lat", "latency of an 8-byte Write, ib_write_lat", &perftest_write_peer,
	  &weft_peer, NET_LATENCY, 8, 1.1, true },
	{ "ib_write_bw", "Write 64 KiB, ib_write_bw", &perftest_write_peer, &weft_peer,
	  NET_BANDWIDTH, 64 * KIB, 0.9, false },
	{ "ib_write_bw", "Write 1 MiB, ib_write_bw", &perftest_write_peer, &weft_peer,
	  NET_BANDWIDTH, MIB, 0.9, false },
	{ "ib_read_bw", "Read 1 MiB, ib_read_bw", &perftest_read_peer, &weft_read_peer,
	  NET_BANDWIDTH, MIB, 0.9, false },
	{ "ib_send_bw", "rate of 64-byte Sends, ib_send_bw", &perftest_send_peer, &weft_single_peer,
	  NET_RATE, 64, 0.9, false },
	{ "ib_send_bw_list", "rate of 64-byte Sends, ib_send_bw -l 64", &perftest_list_peer,
	  &weft_list_peer, NET_RATE, 64, 0.9, false },
	/* 100 MB/s where 528 go without loss. */
	{ "ib_write_bw_loss", "Write 64 KiB on RoCE, ib_write_bw -t 1, 1 % loss",
	  &perftest_lossy_peer, &perftest_clean_peer, NET_BANDWIDTH, 64 * KIB, 0.19, false },
};

enum { GOALS = sizeof(goals) / sizeof(goals[0]) };

struct pair {
	struct net_row perftest, native;
};

static struct net_row row_of(const struct net_peer *peer, int i)
{
	return (struct net_row){
		.peer = peer,
		.what = goals[i].what,
		.size_bytes = goals[i].size_bytes,
		.depth = net_depth(goals[i].what),
	};
}

/* One after the other, so that both see the same machine. */
static void measure(struct pair *pairs)
{
	for (int i = 0; i < GOALS; i++) {
		pairs[i].perftest = row_of(goals[i].perftest, i);
		pairs[i].native = row_of(goals[i].native, i);
	}
	for (int round = 0; round < NET_ROUNDS; round++) {
		for (int i = 0; i < GOALS; i++) {
			if (isatty(STDERR_FILENO))
				fprintf(stderr, "\r\033[Kmeasuring: round %d of %d, %s", round + 1,
					NET_ROUNDS, goals[i].text);
			(void)net_row_sample(&pairs[i].perftest);
			(void)net_row_sample(&pairs[i].native);
		}
	}
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	for (int i = 0; i < GOALS; i++) {
		net_row_judge(&pairs[i].perftest);
		net_row_judge(&pairs[i].native);
	}
}

static void show_lines(const struct pair *pairs, double idle)
{
	for (int i = 0; i < GOALS; i++) {
		if (pairs[i].perftest.value > 0 && pairs[i].native.value > 0)
			printf("{\"bench\": \"%s_%u\", \"value\": %.3f, \"unit\": \"%s\", "
			       "\"versus\": \"%s\", \"ratio\": %.4f}\n",
			       goals[i].name, goals[i].size_bytes, pairs[i].perftest.value,
			       net_unit(goals[i].what), goals[i].native->name,
			       pairs[i].perftest.value / pairs[i].native.value);
	}
	if (idle > 0)
		printf("{\"bench\": \"poll_1000_idle\", \"value\": %.4f, \"unit\": \"x\", "
		       "\"versus\": \"poll_1_idle\", \"ratio\": %.4f}\n",
		       idle, idle);
}

static void show_table(const struct pair *pairs, double idle)
{
	printf("\nperftest on the drop-in libraries, against weft perf on the native calls");
	net_goals_head();
	for (int i = 0; i < GOALS; i++) {
		const struct net_row *ours = &pairs[i].perftest, *theirs = &pairs[i].native;
		const struct net_goal g = {
			.text = goals[i].text,
			.ours = ours->value > 0 ? ours : NULL,
			.theirs = theirs->value > 0 ? theirs : NULL,
			.goal = goals[i].goal,
			.is_most = goals[i].is_most,
		};

		net_goal_show(&g);
		if (!g.ours || !g.theirs)
			printf("  %s\n", g.ours ? theirs->why : ours->why);
	}
	if (idle > 0)
		printf("%-52s %8.2f x %4s %3g x  %s\n",
		       "an empty poll with 1,000 idle connections, to 1", idle, "<=", idle_goal,
		       idle <= idle_goal ? "met" : "missed");
}

void dropin_goals_show(bool is_json)
{
	static struct pair pairs[GOALS];
	double idle;

	measure(pairs);
	idle = idle_poll_ratio();
	if (is_json)
		show_lines(pairs, idle);
	else
		show_table(pairs, idle);
}
