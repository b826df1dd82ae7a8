/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair_goals.h"

#include <stdio.h>
#include <unistd.h>

#include "net_goals.h"
#include "net_report.h"

struct pair {
	struct net_row ours, theirs;
};

static struct net_row row_of(const struct net_peer *peer, const struct pair_goal *g)
{
	return (struct net_row){
		.peer = peer,
		.what = g->what,
		.size_bytes = g->size_bytes,
		.depth = net_depth(g->what),
	};
}

static void measure(struct pair *pairs, const struct pair_goal *goals, int count)
{
	for (int i = 0; i < count; i++) {
		pairs[i].ours = row_of(goals[i].ours, &goals[i]);
		pairs[i].theirs = row_of(goals[i].theirs, &goals[i]);
	}
	for (int round = 0; round < NET_ROUNDS; round++) {
		for (int i = 0; i < count; i++) {
			if (isatty(STDERR_FILENO))
				fprintf(stderr, "\r\033[Kmeasuring: round %d of %d, %s", round + 1,
					NET_ROUNDS, goals[i].text);
			(void)net_row_sample(&pairs[i].ours);
			(void)net_row_sample(&pairs[i].theirs);
		}
	}
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	for (int i = 0; i < count; i++) {
		net_row_judge(&pairs[i].ours);
		net_row_judge(&pairs[i].theirs);
	}
}

static void show_line(const struct pair *p, const struct pair_goal *g)
{
	if (p->ours.value > 0 && p->theirs.value > 0)
		printf("{\"bench\": \"%s_%u\", \"value\": %.3f, \"unit\": \"%s\", "
		       "\"versus\": \"%s\", \"ratio\": %.4f}\n",
		       g->name, g->size_bytes, p->ours.value, net_unit(g->what), g->theirs->name,
		       p->ours.value / p->theirs.value);
}

static void show_row(const struct pair *p, const struct pair_goal *goal)
{
	const struct net_goal g = {
		.text = goal->text,
		.ours = p->ours.value > 0 ? &p->ours : NULL,
		.theirs = p->theirs.value > 0 ? &p->theirs : NULL,
		.goal = goal->goal,
		.is_most = goal->is_most,
	};

	net_goal_show(&g);
	if (!g.ours || !g.theirs)
		printf("  %s\n", g.ours ? p->theirs.why : p->ours.why);
}

void pair_goals_show(bool is_json, const char *title, const struct pair_goal *goals, int count)
{
	static struct pair pairs[PAIR_GOALS_MAX];

	measure(pairs, goals, count);
	if (!is_json) {
		printf("\n%s", title);
		net_goals_head();
	}
	for (int i = 0; i < count; i++) {
		if (is_json)
			show_line(&pairs[i], &goals[i]);
		else
			show_row(&pairs[i], &goals[i]);
	}
}
