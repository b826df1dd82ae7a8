/* SPDX-License-Identifier: BSD-2-Clause */
/* weft as a peer: over iWARP with CRC, without, with Reads or Sends for Writes; over RoCE. */
#pragma once

#include "net_peer.h"

extern const struct net_peer weft_peer, weft_plain_peer, weft_read_peer, weft_send_peer,
	weft_single_peer, weft_list_peer, weft_roce_peer, weft_near_peer;
