/* SPDX-License-Identifier: BSD-2-Clause */
#include "net_goals.h"

#include <stdio.h>

#include "idle_connections.h"
#include "other_peers.h"
#include "tcp_peer.h"
#include "udp_peer.h"
#include "weft_peer.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

struct point {
	const struct net_peer *peer;
	enum net_what what;
	uint32_t size_bytes;
};

/* The first, as a multiple of the second, is to be at least or at most so much. */
static const struct {
	const char *text;
	struct point ours, theirs;
	double goal;
	bool is_most;
} goals[] = {
	{ "Write 64 KiB, against plain TCP",
	  { &weft_peer, NET_BANDWIDTH, 64 * KIB },
	  { &tcp_peer, NET_BANDWIDTH, 64 * KIB },
	  0.9,
	  false },
	{ "Write 1 MiB, against plain TCP",
	  { &weft_peer, NET_BANDWIDTH, MIB },
	  { &tcp_peer, NET_BANDWIDTH, MIB },
	  0.8,
	  false },
	{ "Write 64 KiB without CRC, against plain TCP",
	  { &weft_plain_peer, NET_BANDWIDTH, 64 * KIB },
	  { &tcp_peer, NET_BANDWIDTH, 64 * KIB },
	  1.15,
	  false },
	{ "Write 1 MiB without CRC, against plain TCP",
	  { &weft_plain_peer, NET_BANDWIDTH, MIB },
	  { &tcp_peer, NET_BANDWIDTH, MIB },
	  1.0,
	  false },
	{ "Write 64 KiB, against UCX",
	  { &weft_peer, NET_BANDWIDTH, 64 * KIB },
	  { &ucx_peer, NET_BANDWIDTH, 64 * KIB },
	  1.0,
	  false },
	{ "Write 1 MiB, against UCX",
	  { &weft_peer, NET_BANDWIDTH, MIB },
	  { &ucx_peer, NET_BANDWIDTH, MIB },
	  1.0,
	  false },
	{ "Write 64 KiB, against libfabric",
	  { &weft_peer, NET_BANDWIDTH, 64 * KIB },
	  { &libfabric_peer, NET_BANDWIDTH, 64 * KIB },
	  1.0,
	  false },
	{ "Write 1 MiB, against libfabric",
	  { &weft_peer, NET_BANDWIDTH, MIB },
	  { &libfabric_peer, NET_BANDWIDTH, MIB },
	  1.0,
	  false },
	{ "Read 1 MiB, against Write",
	  { &weft_read_peer, NET_BANDWIDTH, MIB },
	  { &weft_peer, NET_BANDWIDTH, MIB },
	  0.9,
	  false },
	{ "latency of an 8-byte Write, against plain TCP",
	  { &weft_peer, NET_LATENCY, 8 },
	  { &tcp_peer, NET_LATENCY, 8 },
	  1.2,
	  true },
	{ "latency of an 8-byte Write, against UCX",
	  { &weft_peer, NET_LATENCY, 8 },
	  { &ucx_peer, NET_LATENCY, 8 },
	  1.0,
	  true },
	{ "latency of an 8-byte Write, against libfabric",
	  { &weft_peer, NET_LATENCY, 8 },
	  { &libfabric_peer, NET_LATENCY, 8 },
	  1.0,
	  true },
	{ "rate of 64-byte Sends, against UCX with 8 bytes",
	  { &weft_peer, NET_RATE, 64 },
	  { &ucx_peer, NET_RATE, 8 },
	  10.0,
	  false },
	{ "RoCE: Write 64 KiB, against plain UDP",
	  { &weft_roce_peer, NET_BANDWIDTH, 64 * KIB },
	  { &udp_peer, NET_BANDWIDTH, 64 * KIB },
	  0.7,
	  false },
	{ "RoCE: Write 1 MiB, against plain UDP",
	  { &weft_roce_peer, NET_BANDWIDTH, MIB },
	  { &udp_peer, NET_BANDWIDTH, MIB },
	  0.75,
	  false },
	{ "RoCE: latency of an 8-byte Write, against plain UDP",
	  { &weft_roce_peer, NET_LATENCY, 8 },
	  { &udp_peer, NET_LATENCY, 8 },
	  1.3,
	  true },
	{ "RoCE: rate of 64-byte Sends, against UCX with 8 bytes",
	  { &weft_roce_peer, NET_RATE, 64 },
	  { &ucx_peer, NET_RATE, 8 },
	  10.0,
	  false },
};

static const double idle_goal = 16 * 1024;

static const struct net_row *row_at(const struct net_rows *rows, const struct point *p)
{
	const struct net_row *row = net_rows_find(rows, p->peer, p->what, p->size_bytes);

	return row && row->value > 0 ? row : NULL;
}

static void show_how(const struct net_rows *rows, const struct point *p)
{
	const struct net_row *row = row_at(rows, p);

	if (row)
		printf("  %s\n", row->how);
}

void net_goals_head(void)
{
	printf("\n%-52s %10s %10s\n", "goal", "ratio", "goal");
}

void net_goal_show(const struct net_goal *g)
{
	double ratio;
	bool is_met;

	if (!g->ours || !g->theirs) {
		printf("%-52s %10s\n", g->text, "not known");
		return;
	}
	ratio = g->ours->value / g->theirs->value;
	is_met = g->is_most ? ratio <= g->goal : ratio >= g->goal;
	printf("%-52s %8.2f x %4s %3g x  %s%s\n", g->text, ratio, g->is_most ? "<=" : ">=", g->goal,
	       is_met ? "met" : "missed",
	       g->ours->is_disturbed || g->theirs->is_disturbed ? " ~" : "");
}

void net_goals_show(const struct net_rows *rows)
{
	static const struct point told[] = { { &weft_peer, NET_BANDWIDTH, 64 * KIB },
					     { &weft_peer, NET_BANDWIDTH, MIB },
					     { &weft_read_peer, NET_BANDWIDTH, MIB },
					     { &weft_peer, NET_LATENCY, 8 },
					     { &weft_peer, NET_RATE, 64 },
					     { &weft_roce_peer, NET_BANDWIDTH, 64 * KIB },
					     { &weft_roce_peer, NET_LATENCY, 8 },
					     { &weft_roce_peer, NET_RATE, 64 } };
	double idle = idle_connection_bytes();

	net_goals_head();
	for (size_t i = 0; i < sizeof(goals) / sizeof(*goals); i++) {
		const struct net_goal g = {
			.text = goals[i].text,
			.ours = row_at(rows, &goals[i].ours),
			.theirs = row_at(rows, &goals[i].theirs),
			.goal = goals[i].goal,
			.is_most = goals[i].is_most,
		};

		net_goal_show(&g);
	}
	if (idle > 0)
		printf("%-52s %6.0f bytes <= %.0f  %s\n", "memory of an idle connection", idle,
		       idle_goal, idle <= idle_goal ? "met" : "missed");
	printf("\nSystem calls and copies:\n");
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		show_how(rows, &told[i]);
}
