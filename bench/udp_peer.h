/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain UDP between two processes on loopback, with the kernel's segmentation and receive offloads,
 * a window that keeps packets from being lost, and a receiver that copies what came to its place:
 * the least that a reliable transport on datagrams has to do.
 */
#pragma once

#include "net_peer.h"

extern const struct net_peer udp_peer;
