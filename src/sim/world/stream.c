/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/world/sim_trace.h"

/* A long send arrives in pieces; else a slow line would hold all of it back until its last byte. */
enum { PIECE_BYTES_MAX = 4096 };

static const bool state_moves[SIM_STREAM_STATES][SIM_STREAM_STATES] = {
	[SIM_STREAM_OPEN] = { [SIM_STREAM_CLOSED] = true, [SIM_STREAM_BROKEN] = true },
	[SIM_STREAM_CLOSED] = { [SIM_STREAM_ENDED] = true, [SIM_STREAM_BROKEN] = true },
};

static void state_move(struct sim_stream *s, enum sim_stream_state to)
{
	CHECK(state_moves[s->state][to]);
	sim_line_trace(&s->line, SIM_TRACE_STREAM_STATE, s->state, to);
	s->state = to;
}

int sim_stream_init(struct sim_stream *s, struct world *w, const struct sim_stream_options *options)
{
	CHECK(options->bytes_max > 0);
	*s = (struct sim_stream){ .bytes_max = options->bytes_max,
				  .end_ns = WORLD_NEVER,
				  .reset_ns = WORLD_NEVER };
	sim_line_init(&s->line, w, options->id);
	s->line.faults = options->faults;
	s->readable.event = options->readable;
	s->writable.event = options->writable;
	s->bytes = calloc(1, s->bytes_max);
	return s->bytes ? 0 : -1;
}

void sim_stream_fini(struct sim_stream *s)
{
	world_alarm_cancel(s->line.world, &s->readable);
	world_alarm_cancel(s->line.world, &s->writable);
	free(s->bytes);
	*s = (struct sim_stream){ 0 };
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

/* When the receiver can get the next byte, or the end. */
static uint64_t next_ns(const struct sim_stream *s)
{
	uint64_t arrival_ns = s->end_ns;

	if (s->bytes_count > 0)
		arrival_ns = s->pieces[s->pieces_first].arrival_ns;
	arrival_ns = later(arrival_ns, s->paused_until_ns);
	return later(arrival_ns, later(s->line.clogged_until_ns, s->line.cut_until_ns));
}

static void arm(struct sim_stream *s)
{
	struct world *w = s->line.world;
	bool takes_more = s->sender_waits && s->bytes_count < s->bytes_max;

	if (s->state == SIM_STREAM_BROKEN)
		return; /* both ends were told when it broke */
	if (s->state == SIM_STREAM_ENDED) {
		world_alarm_cancel(w, &s->readable);
		world_alarm_cancel(w, &s->writable);
		return;
	}
	world_alarm_set(w, &s->readable, sooner(next_ns(s), s->reset_ns));
	world_alarm_set(w, &s->writable, takes_more ? w->now_ns : s->reset_ns);
}

static void break_now(struct sim_stream *s)
{
	state_move(s, SIM_STREAM_BROKEN);
	s->bytes_count = 0;
	s->pieces_count = 0;
	world_alarm_set(s->line.world, &s->readable, s->line.world->now_ns);
	world_alarm_set(s->line.world, &s->writable, s->line.world->now_ns);
}

/* Applies a reset caused by a cut, at the first access after its time, unless all has arrived. */
static void settle(struct sim_stream *s)
{
	if (s->line.world->now_ns < s->reset_ns)
		return;
	s->reset_ns = WORLD_NEVER;
	if (state_moves[s->state][SIM_STREAM_BROKEN])
		break_now(s);
}

/* The reset happens only if the cut lasts that long. */
static void cut_begun(struct sim_stream *s)
{
	const struct sim_faults *f = &s->line.faults;
	bool resets = prng_chance(&s->line.prng, f->reset_ppm) && f->reset_max_ns > 0;

	if (!state_moves[s->state][SIM_STREAM_BROKEN])
		return;
	if (resets && s->reset_ns == WORLD_NEVER)
		s->reset_ns = s->line.world->now_ns + sim_draw(&s->line.prng, 1, f->reset_max_ns);
	if (s->reset_ns >= s->line.cut_until_ns)
		s->reset_ns = WORLD_NEVER;
}

/* When the ring of pieces is full, the newest piece grows, and arrives with its last byte. */
static void piece_add(struct sim_stream *s, uint32_t length)
{
	uint64_t arrival_ns = sim_line_arrival(&s->line, length);
	struct sim_piece *piece;

	if (s->pieces_count < SIM_STREAM_PIECES_MAX)
		s->pieces[(s->pieces_first + s->pieces_count++) % SIM_STREAM_PIECES_MAX] =
			(struct sim_piece){ 0 };
	piece = &s->pieces[(s->pieces_first + s->pieces_count - 1) % SIM_STREAM_PIECES_MAX];
	piece->length += length;
	piece->arrival_ns = arrival_ns;
}

/* Copies at most length bytes to the ring's end, up to where it wraps; returns how many. */
static uint32_t ring_put(struct sim_stream *s, const uint8_t *bytes, size_t length)
{
	uint32_t at = (uint32_t)(((uint64_t)s->bytes_first + s->bytes_count) % s->bytes_max);
	uint32_t n = s->bytes_max - at;

	if (n > length)
		n = (uint32_t)length;
	memcpy(s->bytes + at, bytes, n);
	s->bytes_count += n;
	return n;
}

static uint32_t ring_take(struct sim_stream *s, uint8_t *bytes, size_t length)
{
	uint32_t n = s->bytes_max - s->bytes_first;

	if (n > length)
		n = (uint32_t)length;
	memcpy(bytes, s->bytes + s->bytes_first, n);
	s->bytes_first = (uint32_t)(((uint64_t)s->bytes_first + n) % s->bytes_max);
	s->bytes_count -= n;
	return n;
}

/* How many bytes a send takes: a random part of what fits, when chunking. */
static uint32_t room_for(struct sim_stream *s, size_t length)
{
	uint32_t room = s->bytes_max - s->bytes_count;

	if (room > length)
		room = (uint32_t)length;
	if (s->line.faults.chunk_max_bytes > 0 && room > 0)
		room = 1 + prng_below(&s->line.prng, room);
	return room;
}

enum sim_stream_status sim_stream_send(struct sim_stream *s, const uint8_t *bytes, size_t length,
				       size_t *taken)
{
	uint32_t room, done = 0;

	*taken = 0;
	settle(s);
	if (s->state == SIM_STREAM_BROKEN)
		return SIM_STREAM_RESET;
	CHECK(s->state == SIM_STREAM_OPEN && length > 0);
	if (sim_line_strain(&s->line))
		cut_begun(s);
	room = room_for(s, length);
	while (done < room) {
		size_t piece = room - done < PIECE_BYTES_MAX ? room - done : PIECE_BYTES_MAX;
		uint32_t n = ring_put(s, bytes + done, piece);

		piece_add(s, n);
		done += n;
	}
	s->sender_waits = room < length;
	s->counts.sends_short += s->sender_waits;
	s->counts.bytes_sent += room;
	if (room > 0)
		sim_line_trace(&s->line, SIM_TRACE_STREAM_SENT, room, length);
	arm(s);
	*taken = room;
	return room > 0 ? SIM_STREAM_OK : SIM_STREAM_WAIT;
}

/* Moves at most bytes_max bytes of arrived pieces to the receiver. */
static uint32_t take_arrived(struct sim_stream *s, uint8_t *bytes, size_t bytes_max)
{
	uint32_t done = 0;

	while (s->bytes_count > 0 && done < bytes_max) {
		struct sim_piece *piece = &s->pieces[s->pieces_first];
		size_t n = bytes_max - done;

		if (piece->arrival_ns > s->line.world->now_ns)
			break;
		if (n > piece->length)
			n = piece->length;
		n = ring_take(s, bytes + done, n);
		done += (uint32_t)n;
		piece->length -= (uint32_t)n;
		if (piece->length == 0) {
			s->pieces_first = (s->pieces_first + 1) % SIM_STREAM_PIECES_MAX;
			s->pieces_count--;
		}
	}
	return done;
}

static uint32_t chunk_take(struct sim_stream *s, uint8_t *bytes, size_t bytes_max)
{
	const struct sim_faults *f = &s->line.faults;
	uint32_t n;

	if (f->chunk_max_bytes == 0)
		return take_arrived(s, bytes, bytes_max);
	n = 1 + prng_below(&s->line.prng, f->chunk_max_bytes);
	n = take_arrived(s, bytes, n < bytes_max ? n : bytes_max);
	s->paused_until_ns = s->line.world->now_ns +
			     sim_draw(&s->line.prng, 0, f->chunk_pause_max_ns);
	return n;
}

enum sim_stream_status sim_stream_recv(struct sim_stream *s, uint8_t *bytes, size_t bytes_max,
				       size_t *length)
{
	enum sim_stream_status status = SIM_STREAM_OK;

	CHECK(bytes_max > 0);
	*length = 0;
	settle(s);
	if (s->state == SIM_STREAM_BROKEN)
		return SIM_STREAM_RESET;
	if (s->state == SIM_STREAM_ENDED)
		return SIM_STREAM_EOF;
	if (next_ns(s) > s->line.world->now_ns) {
		status = SIM_STREAM_WAIT;
	} else if (s->bytes_count > 0) {
		*length = chunk_take(s, bytes, bytes_max);
		s->counts.bytes_received += *length;
		sim_line_trace(&s->line, SIM_TRACE_STREAM_GIVEN, *length, 0);
	} else {
		state_move(s, SIM_STREAM_ENDED);
		status = SIM_STREAM_EOF;
	}
	arm(s);
	return status;
}

void sim_stream_close(struct sim_stream *s)
{
	settle(s);
	if (s->state != SIM_STREAM_OPEN)
		return;
	state_move(s, SIM_STREAM_CLOSED);
	s->sender_waits = false;
	s->end_ns = sim_line_arrival(&s->line, 0);
	arm(s);
}

void sim_stream_reset(struct sim_stream *s)
{
	settle(s);
	if (state_moves[s->state][SIM_STREAM_BROKEN])
		break_now(s);
}

void sim_stream_cut(struct sim_stream *s)
{
	settle(s);
	sim_line_cut(&s->line, WORLD_NEVER);
	cut_begun(s);
	arm(s);
}

void sim_stream_heal(struct sim_stream *s)
{
	settle(s);
	sim_line_heal(&s->line);
	s->reset_ns = WORLD_NEVER;
	arm(s);
}
