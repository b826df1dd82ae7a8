/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Among the files of the world of cells:
 *
 *	cells_world.c	fabric, memory, the loop, the judgement at the end
 *	cells_traffic.c	packets: what is sent, how it is cut, lost, damaged, taken and judged
 */
#pragma once

#include "sim/cells/cells_world.h"

/* The LID of an endnode; endnodes are the first nodes. */
static inline uint16_t cells_lid(uint32_t end)
{
	return (uint16_t)(end + 1);
}

/* Records the first failure, in words. */
void cells_fail(struct cells_world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Of the pool that Writes of the channel go to, at its receiver. */
uint64_t cells_pool_address(const struct cells_channel *c);

/* Begins a packet that is drawn by lot, if its channel is idle. */
void cells_begin(struct cells_world *w);

/* The next cell of the channel leaves. False: there is none, or no room. */
bool cells_go_on(struct cells_world *w, struct cells_channel *c);

/* The endnode takes a cell. False: there is none. */
bool cells_take(struct cells_world *w, uint32_t end);
