/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A one-way byte stream between two nodes: one direction of a TCP connection, as its users see it.
 * Bytes arrive once, in order and unchanged, or the stream is reset. struct sim_faults says when
 * they arrive, in what pieces, and whether the stream stalls. A connection is two streams; a user
 * that sees one of them reset resets the other.
 *
 * Events: "readable", for the receiver, when bytes, the end or a reset have arrived; it repeats
 * after each pull that left something. "Writable", for the sender, on a reset, or when a send was
 * taken only in part and more would be taken now. An event may be spurious.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sim/world/fault.h"

enum sim_stream_state {
	SIM_STREAM_OPEN,   /* bytes flow */
	SIM_STREAM_CLOSED, /* the sender has closed; the receiver has not seen the end */
	SIM_STREAM_ENDED,  /* the receiver has seen the end */
	SIM_STREAM_BROKEN, /* reset: bytes in the pipe are lost */
	SIM_STREAM_STATES
};

enum sim_stream_status {
	SIM_STREAM_OK,	 /* at least one byte was moved */
	SIM_STREAM_WAIT, /* no room, or nothing to read: an event will come */
	SIM_STREAM_EOF,	 /* all bytes were received, none will follow */
	SIM_STREAM_RESET
};

struct sim_stream_options {
	uint32_t id;		     /* the pipe's, in the trace */
	struct world_event readable; /* raised for the receiver */
	struct world_event writable; /* raised for the sender */
	struct sim_faults faults;
	uint32_t bytes_max; /* capacity of the pipe; not 0 */
};

struct sim_stream_counts {
	uint64_t bytes_sent, bytes_received;
	uint64_t sends_short; /* taken only in part */
};

enum { SIM_STREAM_PIECES_MAX = 128 };

/* Bytes that arrive together. */
struct sim_piece {
	uint64_t arrival_ns;
	uint32_t length;
};

/* Must not be moved or copied after initialisation. */
struct sim_stream {
	struct sim_line line;
	struct sim_stream_counts counts;
	enum sim_stream_state state;
	struct world_alarm readable, writable;

	/* content of the pipe: a ring of bytes, and a ring of the pieces that they arrive in */
	uint8_t *bytes;
	uint32_t bytes_max, bytes_first, bytes_count;
	struct sim_piece pieces[SIM_STREAM_PIECES_MAX];
	uint32_t pieces_first, pieces_count;

	bool sender_waits;
	uint64_t end_ns;	  /* when the end arrives; WORLD_NEVER: not closed */
	uint64_t reset_ns;	  /* when the stream is reset; WORLD_NEVER: never */
	uint64_t paused_until_ns; /* between received pieces */
};

/* 0, or -1: out of memory. */
int sim_stream_init(struct sim_stream *s, struct world *w,
		    const struct sim_stream_options *options);
void sim_stream_fini(struct sim_stream *s);

/* Takes as much as fits, maybe less. OK, WAIT or RESET. Not after close. */
enum sim_stream_status sim_stream_send(struct sim_stream *s, const uint8_t *bytes, size_t length,
				       size_t *taken);

/* Delivers arrived bytes into bytes[bytes_max], maybe fewer. */
enum sim_stream_status sim_stream_recv(struct sim_stream *s, uint8_t *bytes, size_t bytes_max,
				       size_t *length);

/*
 * The sender is finished: the receiver gets the remaining bytes, then EOF. No effect when not open.
 */
void sim_stream_close(struct sim_stream *s);

/*
 * Called by either end, or when one crashes: both see RESET, unless the receiver has seen the end.
 */
void sim_stream_reset(struct sim_stream *s);

/*
 * Partition: nothing passes until the pipe is healed; faults may reset the stream before that.
 * Worlds cut by sim_faults, only tests by a call.
 */
void sim_stream_cut(struct sim_stream *s);
void sim_stream_heal(struct sim_stream *s);
