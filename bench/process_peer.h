/* SPDX-License-Identifier: BSD-2-Clause */
/* process_vm_writev() to another process: what the kernel takes to write to its memory. */
#pragma once

#include "net_peer.h"

extern const struct net_peer process_peer;
