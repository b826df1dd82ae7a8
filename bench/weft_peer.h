/* SPDX-License-Identifier: BSD-2-Clause */
/* weft as a peer: with CRC, without, and Reads or Sends instead of Writes. */
#pragma once

#include "net_peer.h"

extern const struct net_peer weft_peer, weft_plain_peer, weft_read_peer, weft_send_peer;
