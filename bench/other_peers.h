/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What others offer over TCP, measured by their own programs: ucx_perftest of UCX (Debian:
 * ucx-utils) and fi_pingpong of libfabric (Debian: libfabric-bin). Each is run as a server and a
 * client on loopback, with the options that gave the best figures.
 */
#pragma once

#include "net_peer.h"

extern const struct net_peer ucx_peer, libfabric_peer;

/* UCX between two processes by shared memory, and what the kernel copies from one to the other. */
extern const struct net_peer ucx_memory_peer;
