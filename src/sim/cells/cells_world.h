/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in cells on a fabric (FAB-08, D2 fig 8): endnodes send each other packets of a split
 * network card, cut into cells of 256 bytes (push/cells.h). Each cell is a frame that crosses the
 * links and switches of sim/fabric. Links repair what they damage, so cells are also lost and
 * damaged on purpose, as by an adapter, or are lost when a cable is pulled.
 *
 * A pair of endnodes has two channels each way. The connected one carries Sends, and RDMA Writes
 * into a pool of elements, some with idata, some where none may go. The connectionless one carries
 * packets of one cell.
 *
 * The judge stands outside: a packet comes whole, once and in order, unless a cell of it was lost
 * or damaged, and then nothing else is lost; nothing is written but where a Write may go.
 */
#pragma once

#include "push/cells.h"
#include "sim/fabric/fabric_net.h"
#include "sim/world/sim_trace.h"
#include "verbs/adapter.h"
#include "verbs/pd.h"

enum {
	CELLS_ENDS_MAX = 4,
	CELLS_KINDS = 2, /* of channels: connected, connectionless */
	CELLS_CHANNELS = CELLS_ENDS_MAX * CELLS_ENDS_MAX * CELLS_KINDS,
	CELLS_PACKETS = 64, /* of a channel */
	CELLS_ELEMENTS = 4,
	CELLS_ELEMENT_BYTES = 4096,
	CELLS_POOL_BYTES = CELLS_ELEMENTS * CELLS_ELEMENT_BYTES,
	CELLS_GAP_BYTES = 4096, /* before each pool, and behind the last */
	CELLS_END_BYTES = CELLS_ENDS_MAX * (CELLS_POOL_BYTES + CELLS_GAP_BYTES) + CELLS_GAP_BYTES,
	CELLS_FAILURE_BYTES = 200
};

enum cells_kind { CELLS_CONNECTED, CELLS_CONNECTIONLESS };

/* What becomes of a cell that leaves. */
enum cells_hurt { CELLS_WELL, CELLS_LOST, CELLS_DAMAGED };

enum cells_trace {
	CELLS_TRACE_SENT = SIM_TRACE_SCENARIO + 128, /* who = channel; a = packet, b = bytes */
	CELLS_TRACE_HURT,			     /* a = packet, b = cell */
	CELLS_TRACE_DROPPED,			     /* a cell: reason */
	CELLS_TRACE_REFUSED,			     /* a = packet; reason */
	CELLS_TRACE_CAME,			     /* a = packet, b = bytes */
	CELLS_TRACE_END
};

/* A packet as the model knows it. */
struct cells_packet {
	uint32_t bytes, element;
	bool is_write, has_immediate;
	bool is_forbidden; /* it goes where it may not */
	bool is_hurt;	   /* a cell of it was */
	bool has_come;
};

/* From one endnode to another. */
struct cells_channel {
	uint32_t from, to;
	enum cells_kind kind;
	/* At the sender. */
	struct push_cut cut;
	bool is_cutting;
	uint8_t data[CELLS_ELEMENT_BYTES];
	uint8_t cell[PUSH_CELL_BYTES_MAX]; /* the next one; the fabric has no room yet */
	uint32_t cell_bytes, cell_number;  /* cell_bytes 0: it is to be made */
	/* At the receiver. */
	struct push_join join;
	bool is_refusing; /* the Write that comes */
	uint32_t handle;
	uint8_t *pool;			       /* in its memory */
	uint8_t received[CELLS_ELEMENT_BYTES]; /* the posted receive */
	/* The model. */
	struct cells_packet packets[CELLS_PACKETS];
	uint32_t sent, next; /* the next that may come */
};

struct cells_node {
	struct adapter adapter;
	struct weft_space *space;
	struct weft_pd *pd;
	uint8_t *memory; /* CELLS_END_BYTES */
};

struct cells_world {
	struct fabric_net net;
	uint64_t seed;
	struct prng prng; /* of the scenario */
	bool is_scripted; /* the caller sends, and hurts; nothing is drawn */
	uint32_t ends, switches, packets_max, lost_ppm, damaged_ppm, forbidden_ppm;
	struct cells_node nodes[CELLS_ENDS_MAX];
	struct cells_channel channels[CELLS_CHANNELS];
	/* Scripted: what becomes of this cell of the next packets. */
	enum cells_hurt script;
	uint32_t script_packet, script_cell;
	/* How much was judged, and what was met. */
	uint64_t steps, packets, came, bytes, cells, hurt, dropped, refused, immediates;
	uint64_t flits, resent;	      /* known at the end */
	enum weft_reason dropped_for; /* the latest cell */
	enum weft_reason refused_for; /* the latest packet */
	char failure[CELLS_FAILURE_BYTES];
};

/*
 * 0, or -1 when memory is short. is_scripted: two endnodes at a switch, and nothing but what the
 * caller sends by cells_world_send().
 */
int cells_world_open(struct cells_world *w, uint64_t seed, bool is_scripted);
bool cells_world_step(struct cells_world *w);
const char *cells_world_failure(const struct cells_world *w);
void cells_world_close(struct cells_world *w);

/* The channel from one endnode to another. */
struct cells_channel *cells_channel_of(struct cells_world *w, uint32_t from, uint32_t to,
				       enum cells_kind kind);

/*
 * A packet, whose channel is idle. WEFT_R_PUSH_SINGLE_CELL: it is too long for a connectionless
 * channel. A forbidden Write begins in the last byte of the pool.
 */
enum weft_reason cells_world_send(struct cells_world *w, struct cells_channel *c,
				  const struct cells_packet *packet);

/* Formats a trace event; false: it is of another kind. */
bool cells_world_words(const struct trace_event *e, char *text, size_t size);
