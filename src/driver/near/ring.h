/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a ring (near/ring.h): a sealed memory file, whose data is mapped twice. */
#pragma once

#include "near/ring.h"

/*
 * Makes a ring for its sender: of so many bytes, a power of two within RING_BYTES_MIN and
 * RING_BYTES_MAX, or of a page if that is more. A descriptor of it for the receiver, or a negative
 * errno.
 */
int ring_make(struct ring *r, uint32_t bytes);

/* Maps the ring of a sender. 0 or a negative errno: -EPROTO if it is none. Keeps no descriptor. */
int ring_map(struct ring *r, int fd);
void ring_unmap(struct ring *r);
