/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perftest (Debian: perftest), a program of verbs that knows nothing of weft, on the drop-in
 * libraries beside this program: what `weft perf` is compared with.
 */
#pragma once

#include "net_peer.h"

extern const struct net_peer perftest_write_peer, perftest_read_peer, perftest_send_peer,
	perftest_list_peer;

/* The same on RoCE, between two programs of this host: by shared memory. */
extern const struct net_peer perftest_near_write_peer, perftest_near_send_peer,
	perftest_near_list_peer;

/* The same on RoCE over UDP. */
extern const struct net_peer perftest_udp_write_peer, perftest_udp_send_peer;

/* ib_write_bw -t 1 on RoCE over UDP; of the second one of 100 packets is lost, each way. */
extern const struct net_peer perftest_clean_peer, perftest_lossy_peer;
