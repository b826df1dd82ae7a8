/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pipe for a stream of bytes, one way, between two nodes: what one direction of a TCP connection
 * is to those who use it. Bytes arrive once, in order and unchanged, or the stream is reset. When
 * they arrive, in what pieces, and whether it stalls is in struct sim_faults. A connection is two
 * of these, and whoever sees one of them reset resets the other.
 *
 * Events: readable, for the receiver, when bytes, the end or a reset have arrived; it comes again
 * after each pull that left something. Writable, for the sender, when a send was not taken whole
 * and more would be taken now, and on a reset. An event may find nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sim/world/fault.h"

enum sim_stream_state {
	SIM_STREAM_OPEN,   /* bytes flow */
	SIM_STREAM_CLOSED, /* the sender has closed; the receiver has bytes, or the end, to come */
	SIM_STREAM_ENDED,  /* the receiver has seen the end */
	SIM_STREAM_BROKEN, /* reset: what was in the pipe is gone */
	SIM_STREAM_STATES
};

enum sim_stream_status {
	SIM_STREAM_OK,	 /* at least one byte was moved */
	SIM_STREAM_WAIT, /* no room, or nothing there: an event will come */
	SIM_STREAM_EOF,	 /* all bytes were received, and there will be no more */
	SIM_STREAM_RESET
};

struct sim_stream_options {
	uint32_t id;		     /* of the pipe, in the trace */
	struct world_event readable; /* raised for the receiver */
	struct world_event writable; /* raised for the sender */
	struct sim_faults faults;
	uint32_t bytes_max; /* in the pipe at a time; not 0 */
};

struct sim_stream_counts {
	uint64_t bytes_sent, bytes_received;
	uint64_t sends_short; /* not taken whole */
};

enum { SIM_STREAM_PIECES_MAX = 128 };

/* Bytes that arrive together. */
struct sim_piece {
	uint64_t arrival_ns;
	uint32_t length;
};

/* Must stay where it was initialised. */
struct sim_stream {
	struct sim_line line;
	struct sim_stream_counts counts;
	enum sim_stream_state state;
	struct world_alarm readable, writable;

	/* what is in the pipe: a ring of bytes, and a ring of pieces that they arrive in */
	uint8_t *bytes;
	uint32_t bytes_max, bytes_first, bytes_count;
	struct sim_piece pieces[SIM_STREAM_PIECES_MAX];
	uint32_t pieces_first, pieces_count;

	bool sender_waits;
	uint64_t end_ns;	  /* when the end arrives; WORLD_NEVER: not closed */
	uint64_t reset_ns;	  /* when the stream is reset; WORLD_NEVER: it is not */
	uint64_t paused_until_ns; /* between pieces received */
};

/* 0, or -1 when memory is short. */
int sim_stream_init(struct sim_stream *s, struct world *w,
		    const struct sim_stream_options *options);
void sim_stream_fini(struct sim_stream *s);

/* Takes what there is room for, perhaps less. OK, WAIT or RESET. Not after close. */
enum sim_stream_status sim_stream_send(struct sim_stream *s, const uint8_t *bytes, size_t length,
				       size_t *taken);

/* Gives what has arrived into bytes[bytes_max], perhaps less. */
enum sim_stream_status sim_stream_recv(struct sim_stream *s, uint8_t *bytes, size_t bytes_max,
				       size_t *length);

/* The sender has no more: the receiver gets what was sent, then EOF. Harmless when not open. */
void sim_stream_close(struct sim_stream *s);

/* By either end, or by the crash of one: both see RESET, unless the receiver has seen the end. */
void sim_stream_reset(struct sim_stream *s);

/* Partition: nothing passes until the pipe is healed, and faults may reset the stream before that.
 */
void sim_stream_cut(struct sim_stream *s);
void sim_stream_heal(struct sim_stream *s);
