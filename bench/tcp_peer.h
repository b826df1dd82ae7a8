/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The yardstick of the network part: two processes and one plain TCP connection.
 *
 * A stream is blocking sends of the message's size on one side, and on the other receives of at
 * most that size from a socket that is polled: at 64 KiB a quarter faster than receives that block,
 * at 1 MiB the same. Buffers are what the system gives; larger ones changed nothing. The latency is
 * that of both sides polling.
 */
#pragma once

#include "net_peer.h"

extern const struct net_peer tcp_peer;
