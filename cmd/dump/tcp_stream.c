/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/tcp_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct tcp_piece {
	struct tcp_piece *behind;
	uint32_t seq;
	uint32_t length;
	uint8_t bytes[];
};

enum { READY_ROOM = 4096 };

/* Sequence numbers wrap: which is later is told by the shorter way round. */
static int32_t distance(uint32_t from, uint32_t to)
{
	return (int32_t)(to - from);
}

/* A capture that does not fit in memory cannot be read. */
static void *own(void *memory)
{
	CHECK(memory);
	return memory;
}

void tcp_stream_init(struct tcp_stream *s)
{
	*s = (struct tcp_stream){ 0 };
}

void tcp_stream_fini(struct tcp_stream *s)
{
	while (s->held) {
		struct tcp_piece *piece = s->held;

		s->held = piece->behind;
		free(piece);
	}
	free(s->ready);
	*s = (struct tcp_stream){ 0 };
}

void tcp_stream_anchor(struct tcp_stream *s, uint32_t seq)
{
	tcp_stream_fini(s);
	s->is_anchored = true;
	s->next = seq;
}

static void append(struct tcp_stream *s, const uint8_t *bytes, size_t length)
{
	if (s->taken > 0) {
		memmove(s->ready, s->ready + s->taken, s->used - s->taken);
		s->used -= s->taken;
		s->taken = 0;
	}
	if (s->room - s->used < length) {
		s->room = 2 * (s->used + length) + READY_ROOM;
		s->ready = own(realloc(s->ready, s->room));
	}
	memcpy(s->ready + s->used, bytes, length);
	s->used += length;
	s->next += (uint32_t)length;
}

/* The part of the bytes that is awaited now, if any; what came before is dropped. */
static bool try_append(struct tcp_stream *s, uint32_t seq, const uint8_t *bytes, uint32_t length)
{
	int32_t ahead = distance(s->next, seq);

	if (ahead > 0)
		return false;
	if (distance(s->next, seq + length) > 0)
		append(s, bytes + (uint32_t)-ahead, length - (uint32_t)-ahead);
	return true;
}

static void hold(struct tcp_stream *s, uint32_t seq, const uint8_t *bytes, uint32_t length)
{
	struct tcp_piece **at = &s->held, *piece = own(malloc(sizeof(*piece) + length));

	/* Behind those of the same number: the first that came counts. */
	while (*at && distance((*at)->seq, seq) >= 0)
		at = &(*at)->behind;
	*piece = (struct tcp_piece){ .behind = *at, .seq = seq, .length = length };
	memcpy(piece->bytes, bytes, length);
	*at = piece;
	s->held_count++;
	s->held_bytes += length;
}

/* What was held and follows now. */
static void pull(struct tcp_stream *s)
{
	while (s->held && try_append(s, s->held->seq, s->held->bytes, s->held->length)) {
		struct tcp_piece *piece = s->held;

		s->held = piece->behind;
		s->held_count--;
		s->held_bytes -= piece->length;
		free(piece);
	}
}

void tcp_stream_add(struct tcp_stream *s, uint32_t seq, struct rd data)
{
	uint32_t length = (uint32_t)(data.end - data.at);

	CHECK(s->is_anchored);
	if (length == 0)
		return;
	if (!try_append(s, seq, data.at, length)) {
		hold(s, seq, data.at, length);
		return;
	}
	pull(s);
}

void tcp_stream_add_fin(struct tcp_stream *s, uint32_t seq)
{
	s->has_fin = true;
	s->fin = seq;
}

struct rd tcp_stream_ready(const struct tcp_stream *s)
{
	return s->ready ? rd_of(s->ready + s->taken, s->used - s->taken) : (struct rd){ 0 };
}

void tcp_stream_take(struct tcp_stream *s, size_t bytes)
{
	CHECK(bytes <= s->used - s->taken);
	s->taken += bytes;
}

bool tcp_stream_is_over(const struct tcp_stream *s)
{
	return s->has_fin && distance(s->next, s->fin) <= 0;
}

uint32_t tcp_stream_missing(const struct tcp_stream *s, uint32_t acked)
{
	if (s->held)
		return s->held->seq - s->next;
	if (s->has_fin)
		return distance(s->next, s->fin) > 0 ? s->fin - s->next : 0;
	/* One more than was sent is the FIN, which the capture then lacks. */
	return distance(s->next, acked) > 1 ? acked - s->next : 0;
}

void tcp_stream_skip(struct tcp_stream *s, uint32_t missing)
{
	s->next += missing;
	pull(s);
}
