/* SPDX-License-Identifier: BSD-2-Clause */
/* Routes in a fabric: the headers ahead of a packet, and whether one came by the route back. */
#pragma once

#include "ib/ib.h"

/* Writes the headers of a local route, ib_path_route_bytes() of them, for a packet of a length. */
void route_encode(const struct ib_port *port, const struct ib_path *path, uint32_t packet_bytes,
		  uint8_t *bytes);

/* The header ahead of an IPv6 packet, which is the frame's own from there on (RAW-02). */
void route_encode_raw(const struct ib_port *port, const struct ib_path *path, uint32_t packet_bytes,
		      uint8_t *bytes);

/* IBA 9.6.1.5: whether a packet came from where those of the path go, to where they come from. */
bool route_is_back(const struct ib_port *port, const struct ib_path *path, const struct ib_in *in);

/* The bytes of a raw packet with its padding. */
static inline uint32_t route_pad(uint32_t bytes)
{
	return (bytes + 3) / 4 * 4;
}

/* The route of answers. */
static inline struct ib_local route_back(const struct ib_local *in)
{
	return (struct ib_local){ in->to, in->from, in->level, in->has_grh };
}
