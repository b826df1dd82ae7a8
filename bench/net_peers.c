/* SPDX-License-Identifier: BSD-2-Clause */
#include "net_peer.h"

#include "other_peers.h"
#include "tcp_peer.h"
#include "udp_peer.h"
#include "weft_peer.h"

const struct net_peer *const net_peers[NET_PEERS] = {
	&tcp_peer, &weft_peer,	    &weft_plain_peer, &weft_read_peer,
	&udp_peer, &weft_roce_peer, &ucx_peer,	      &libfabric_peer,
};
