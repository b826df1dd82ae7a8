/* SPDX-License-Identifier: BSD-2-Clause */
#include "near_goals.h"

#include "mpi_peers.h"
#include "other_peers.h"
#include "pair_goals.h"
#include "perftest_peers.h"
#include "process_peer.h"
#include "weft_peer.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static const struct pair_goal goals[] = {
	{ "near_send_lat", "latency of an 8-byte Send, ib_send_lat", &perftest_near_send_peer,
	  &ucx_memory_peer, NET_LATENCY, 8, 1.5, true },
	{ "near_write_lat", "latency of an 8-byte Write, ib_write_lat, to process_vm_writev()",
	  &perftest_near_write_peer, &process_peer, NET_LATENCY, 8, 2.0, true },
	{ "near_write_bw", "Write 64 KiB, ib_write_bw", &perftest_near_write_peer, &ucx_memory_peer,
	  NET_BANDWIDTH, 64 * KIB, 1.0, false },
	{ "near_write_bw", "Write 1 MiB, ib_write_bw", &perftest_near_write_peer, &ucx_memory_peer,
	  NET_BANDWIDTH, MIB, 1.0, false },
	{ "near_send_bw", "rate of 64-byte Sends, ib_send_bw -l 64", &perftest_near_list_peer,
	  &ucx_memory_peer, NET_RATE, 64, 0.5, false },
	{ "near_latency", "latency of an 8-byte Write, weft perf, to RoCE over UDP",
	  &weft_near_peer, &weft_roce_peer, NET_LATENCY, 8, 0.5, true },
	{ "near_bandwidth", "Write 64 KiB, weft perf, to RoCE over UDP", &weft_near_peer,
	  &weft_roce_peer, NET_BANDWIDTH, 64 * KIB, 2.0, false },
	{ "near_mpi_lat", "latency of 8 bytes, Open MPI by verbs, to UCX's tcp", &mpi_near_peer,
	  &mpi_tcp_peer, NET_LATENCY, 8, 0.2, true },
	{ "near_mpi_bw", "64 KiB, Open MPI by verbs, to UCX's tcp", &mpi_near_peer, &mpi_tcp_peer,
	  NET_BANDWIDTH, 64 * KIB, 3.0, false },
	{ "near_mpi_bw", "1 MiB, Open MPI by verbs, to UCX's tcp", &mpi_near_peer, &mpi_tcp_peer,
	  NET_BANDWIDTH, MIB, 3.0, false },
};

void near_goals_show(bool is_json)
{
	pair_goals_show(is_json, "Two programs of one host, against UCX's shared memory", goals,
			sizeof(goals) / sizeof(goals[0]));
}
