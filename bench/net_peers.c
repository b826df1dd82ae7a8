/* SPDX-License-Identifier: BSD-2-Clause */
#include "net_peer.h"

#include "other_peers.h"
#include "tcp_peer.h"

const struct net_peer *const net_peers[NET_PEERS] = {
	&tcp_peer,
	&ucx_peer,
	&libfabric_peer,
};
