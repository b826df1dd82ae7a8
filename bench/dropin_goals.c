/* SPDX-License-Identifier: BSD-2-Clause */
#include "dropin_goals.h"

#include <stdio.h>

#include "idle_connections.h"
#include "pair_goals.h"
#include "perftest_peers.h"
#include "weft_peer.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static const double idle_goal = 1.1;

static const struct pair_goal goals[] = {
	{ "ib_send_lat", "latency of an 8-byte Send, ib_send_lat", &perftest_send_peer,
	  &weft_send_peer, NET_LATENCY, 8, 1.1, true },
	{ "ib_write_lat", "latency of an 8-byte Write, ib_write_lat", &perftest_write_peer,
	  &weft_peer, NET_LATENCY, 8, 1.1, true },
	/* Both ends spin on memory: on two processors, the thread that places waits for them. */
	{ "ib_write_lat_spin", "ib_write_lat, to ib_send_lat, iWARP", &perftest_write_peer,
	  &perftest_send_peer, NET_LATENCY, 8, 2.0, true },
	{ "ib_write_lat_spin", "ib_write_lat, to ib_send_lat, RoCE over UDP",
	  &perftest_udp_write_peer, &perftest_udp_send_peer, NET_LATENCY, 8, 2.0, true },
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

static void show_idle(bool is_json, double idle)
{
	if (idle <= 0)
		return;
	if (is_json)
		printf("{\"bench\": \"poll_1000_idle\", \"value\": %.4f, \"unit\": \"x\", "
		       "\"versus\": \"poll_1_idle\", \"ratio\": %.4f}\n",
		       idle, idle);
	else
		printf("%-52s %8.2f x %4s %3g x  %s\n",
		       "an empty poll with 1,000 idle connections, to 1", idle, "<=", idle_goal,
		       idle <= idle_goal ? "met" : "missed");
}

void dropin_goals_show(bool is_json)
{
	pair_goals_show(is_json,
			"perftest on the drop-in libraries, against weft perf on the native calls",
			goals, sizeof(goals) / sizeof(goals[0]));
	show_idle(is_json, idle_poll_ratio());
}
