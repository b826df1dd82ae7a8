/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction of a TCP connection put in order again: segments in as they were captured, twice,
 * overlapping or out of order; bytes out as they were sent. Of bytes that came twice the first
 * count.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

struct tcp_piece; /* came before the bytes in front of it */

struct tcp_stream {
	bool is_anchored; /* it is known with which sequence number it begins */
	bool has_fin;
	uint32_t next;		  /* the sequence number that is awaited */
	uint32_t fin;		  /* that of the FIN */
	uint8_t *ready;		  /* in order and not yet taken */
	size_t taken, used, room; /* of ready: given back, filled, allocated */
	struct tcp_piece *held;	  /* in order of their sequence numbers */
	uint32_t held_count;
	size_t held_bytes;
};

void tcp_stream_init(struct tcp_stream *s);
void tcp_stream_fini(struct tcp_stream *s);

/* Begins at this sequence number; whatever was there is forgotten. */
void tcp_stream_anchor(struct tcp_stream *s, uint32_t seq);

/* Only for an anchored stream. */
void tcp_stream_add(struct tcp_stream *s, uint32_t seq, struct rd data);
void tcp_stream_add_fin(struct tcp_stream *s, uint32_t seq);

/* What is ready, and that so much of it was used. */
struct rd tcp_stream_ready(const struct tcp_stream *s);
void tcp_stream_take(struct tcp_stream *s, size_t bytes);

/* All was ready up to the FIN. */
bool tcp_stream_is_over(const struct tcp_stream *s);

/*
 * Bytes that must have been sent, yet are not here, before the next that are: before pieces held,
 * before the FIN, or before what the other side acknowledged.
 */
uint32_t tcp_stream_missing(const struct tcp_stream *s, uint32_t acked);

/* Goes on behind what is missing. */
void tcp_stream_skip(struct tcp_stream *s, uint32_t missing);
